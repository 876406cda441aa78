"""Responses about messages and chats."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from hookgw.kernel.schema_parts import Time
from hookgw.messages.chats import LastMessage


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
        source: what it was sent with, such as `web`.
    """

    key: SentKey
    message: dict[str, Any] | UnsetType = UNSET
    message_type: str | UnsetType = UNSET
    message_timestamp: int | UnsetType = UNSET
    status: str | UnsetType = UNSET
    source: str | UnsetType = UNSET


class EditedMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message with a new text, as in `data` of MESSAGES_EDITED.

    Attributes:
        key: names the message.
        message: its new content.
        message_type: the kind of content.
        message_timestamp: of the message or of its edit, in seconds since the epoch.
    """

    key: SentKey | UnsetType = UNSET
    message: dict[str, Any] | UnsetType = UNSET
    message_type: str | UnsetType = UNSET
    message_timestamp: int | UnsetType = UNSET


class DeletedMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that was deleted, as in `data` of MESSAGES_DELETE.

    Attributes:
        id: the network's id.
        remote_jid: the chat.
        from_me: whether the account itself sent it.
        status: always `DELETED`.
        message_timestamp: when it was deleted, in seconds since the epoch.
    """

    id: str | UnsetType = UNSET
    remote_jid: str | UnsetType = UNSET
    from_me: bool | UnsetType = UNSET
    status: str | UnsetType = UNSET
    message_timestamp: int | UnsetType = UNSET


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


class MessageStatus(Struct, frozen=True):
    """A status that a message has had.

    Attributes:
        status: such as `READ`.
    """

    status: str


class FoundMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message, as in its event. Networks that keep messages themselves may add fields.

    Attributes:
        id: the network's id; from a network that keeps messages, the id of its record.
        key: of the message.
        push_name: the sender's name, if known.
        message_type: the kind of content.
        message: its content; empty if the messages of the page before it fill 1 MiB.
        message_timestamp: when it was sent, in seconds since the epoch.
        instance_id: the instance's id.
        source: the sender's program.
        context_info: what it belongs to, such as the message that it answers.
        message_update: its statuses.
    """

    id: str | UnsetType = UNSET
    key: dict[str, Any]
    push_name: str | UnsetType | None = UNSET
    message_type: str | UnsetType | None = UNSET
    message: Any = None
    message_timestamp: int | UnsetType | None = UNSET
    instance_id: str | UnsetType = UNSET
    source: str | UnsetType | None = UNSET
    context_info: Any = None
    message_update: list[MessageStatus] | UnsetType = field(name="MessageUpdate", default=UNSET)


class FoundMessages(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of messages.

    Attributes:
        total: how many messages were found.
        pages: how many pages they have.
        current_page: the number of this page.
        records: the messages, the newest first.
    """

    total: int
    pages: int
    current_page: int
    records: list[FoundMessage]


class MessagePage(Struct, frozen=True):
    """The messages of an instance.

    Attributes:
        messages: a page of them.
    """

    messages: FoundMessages


class Picture(Struct, frozen=True, kw_only=True, rename="camel"):
    """The picture of a profile.

    Attributes:
        wuid: the account or the group.
        profile_picture_url: `null` if it has none, or does not show it.
    """

    wuid: str
    profile_picture_url: str | None


class FileSize(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a message says of the size of its file.

    Attributes:
        file_length: in bytes: a number, a text, or what the network has for large numbers.
        height: in pixels.
        width: in pixels.
    """

    file_length: Any = None
    height: Any = None
    width: Any = None


class MediaFile(Struct, frozen=True, kw_only=True, rename="camel"):
    """The file of a message.

    Attributes:
        media_type: the kind of content, such as `imageMessage`.
        file_name: its name.
        caption: the text below it; `null` for none.
        size: its size.
        mimetype: such as `image/png`.
        base64: the content.
    """

    media_type: str
    file_name: str
    caption: str | None
    size: FileSize
    mimetype: str
    base64: str


class Participant(Struct, frozen=True, kw_only=True):
    """Who is in a group.

    Attributes:
        id: the account.
        admin: `admin`, `superadmin`, or `null`.
    """

    id: str
    admin: str | UnsetType | None = UNSET


class Participants(Struct, frozen=True, kw_only=True):
    """The participants of a group.

    Attributes:
        participants: who is in it.
    """

    participants: list[Participant]


class Group(Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of the account. Networks may add fields.

    Attributes:
        id: the network's name of the group.
        subject: its name.
        size: how many are in it.
        picture_url: its picture.
        owner: who made it.
        desc: its description.
        creation: when it was made, in seconds since the epoch.
        subject_time: when it got its name.
        restrict: whether only admins change it.
        announce: whether only admins write to it.
        is_community: whether it is a community.
        is_community_announce: whether it has the news of a community.
        participants: who is in it.
    """

    id: str
    subject: str | None
    size: int | UnsetType | None = UNSET
    picture_url: str | UnsetType | None = UNSET
    owner: str | UnsetType | None = UNSET
    desc: str | UnsetType | None = UNSET
    creation: int | UnsetType | None = UNSET
    subject_time: int | UnsetType | None = UNSET
    restrict: bool | UnsetType = UNSET
    announce: bool | UnsetType = UNSET
    is_community: bool | UnsetType = UNSET
    is_community_announce: bool | UnsetType = UNSET
    participants: list[Participant] | UnsetType = UNSET


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
