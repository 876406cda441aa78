"""Responses about messages: what the instance's connector returns, which is also ``data`` of an event.

Connectors add fields of their networks, so only what every connector returns is required here.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType


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
