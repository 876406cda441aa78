"""Responses about messages and chats."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from hookgw.kernel.schema_parts import Time


class SentKey(Struct, frozen=True, kw_only=True, rename="camel"):
    """The key of a message, with which other calls name it.

    Attributes:
        remote_jid: the chat.
        id: the network's id.
        from_me: whether the account itself sent it.
        participant: who sent it, in a group.
    """

    remote_jid: str
    id: str
    from_me: bool
    participant: str | UnsetType | None = UNSET


class SentMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that was sent, as in `data` of SEND_MESSAGE.

    Attributes:
        key: names the message.
        message: its content.
        message_type: the kind of content.
        message_timestamp: when it was sent, in seconds since the epoch.
        status: its status, such as `PENDING` or `SERVER_ACK`.
    """

    key: SentKey
    message: dict[str, Any] | UnsetType = UNSET
    message_type: str | UnsetType = UNSET
    message_timestamp: int | UnsetType = UNSET
    status: str | UnsetType = UNSET


class EditedMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message with a new text, as in `data` of MESSAGES_EDITED.

    Attributes:
        key: names the message.
        message: its new content.
    """

    key: SentKey | UnsetType = UNSET
    message: dict[str, Any] | UnsetType = UNSET


class DeletedMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that was deleted, as in `data` of MESSAGES_DELETE.

    Attributes:
        id: the network's id.
        remote_jid: the chat.
        from_me: whether the account itself sent it.
        status: always `DELETED`.
    """

    id: str | UnsetType = UNSET
    remote_jid: str | UnsetType = UNSET
    from_me: bool | UnsetType = UNSET
    status: str | UnsetType = UNSET


class FoundNumber(Struct, frozen=True, kw_only=True):
    """Whether a number has an account on the network.

    Attributes:
        number: as in the request.
        exists: whether it has an account.
        jid: the network's name of the account.
    """

    number: str | UnsetType = UNSET
    exists: bool | UnsetType = UNSET
    jid: str | UnsetType | None = UNSET


class LastMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest message of a chat, as in its event.

    Attributes:
        id: the network's id.
        key: of the message.
        push_name: the sender's name, if known.
        message: its content; empty if it is large, or if those of the chats before it fill 1 MiB.
        message_type: the kind of content.
        message_timestamp: when it was sent, in seconds since the epoch.
        status: its status when the event was raised.
        source: the sender's program.
    """

    id: str
    key: dict[str, Any]
    push_name: str | None
    message: Raw
    message_type: str | None
    message_timestamp: int | None
    status: str | None
    source: str | None


class Chat(Struct, frozen=True, kw_only=True, rename="camel"):
    """A chat.

    Attributes:
        id: the same as `remoteJid`.
        remote_jid: the network's name of the chat.
        push_name: the person's name; `null` for a group, or if it is unknown.
        profile_pic_url: always `null`; see the contacts.
        updated_at: when the newest message came.
        last_message: the newest message.
        unread_count: always `null`: the history does not tell.
        is_saved: whether the person's name is known.
    """

    id: str
    remote_jid: str
    push_name: str | None
    profile_pic_url: str | None
    updated_at: Time
    last_message: LastMessage
    unread_count: int | None
    is_saved: bool


class Contact(Struct, frozen=True, kw_only=True, rename="camel"):
    """A person or a group.

    Attributes:
        id: the same as `remoteJid`.
        remote_jid: the network's name.
        push_name: the name; `null` if it is unknown.
        profile_pic_url: of the profile's picture; `null` if it is unknown.
        updated_at: when the newest event about it came.
        is_group: whether it is a group.
        is_saved: whether the name or the picture is known.
        type: `group`, `contact`, or `group_member` if neither name nor picture is known.
    """

    id: str
    remote_jid: str
    push_name: str | None
    profile_pic_url: str | None
    updated_at: Time
    is_group: bool
    is_saved: bool
    type: str


class MarkedRead(Struct, frozen=True):
    """Messages were marked as read.

    Attributes:
        message: a sentence.
        read: always `success`.
    """

    message: str
    read: str


class ShownPresence(Struct, frozen=True):
    """A presence was shown.

    Attributes:
        presence: the presence.
    """

    presence: str
