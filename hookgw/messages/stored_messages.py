"""Single messages of an instance, read from the events in its history; see :mod:`hookgw.messages.chats`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import msgspec

from hookgw.connectors.json_values import seconds, text
from hookgw.core.registry import Registry
from hookgw.deliveries.history import DeliveryHistory
from hookgw.instances.connectors.media_download import MediaDownload
from hookgw.instances.connectors.outgoing_call import call_in_time
from hookgw.instances.connectors.runner import Connectors
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_decoding import decode_json
from hookgw.messages.changes import CHANGES, Changes, identity_of, read_change
from hookgw.messages.chats import MESSAGES, search_events
from hookgw.messages.content import unwrapped
from hookgw.messages.media import MediaDownloads
from hookgw.records.chats import HIDDEN, NUMBER, jids_of, plain_jid
from hookgw.records.events import Event
from hookgw.records.messages import MessageKey, MessageQuery
from hookgw.store import LoggedEvent

_STATUSES = "MESSAGES_UPDATE"
_MOST_SEARCHES = 3
MOST_SHOWN = 2**20
"""Bytes of the messages of a page. Those of further ones are left out."""


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message, as in its event.

    Attributes:
        key, context_info: as in the event.
        message: as in the event, or as it was edited later.
        id: of the key.
        push_name, message_type, source: as in the event, if they are texts.
        message_timestamp: when it was sent, in seconds since the epoch.
        statuses: the newest first, as MESSAGES_UPDATE reported them; ``EDITED`` and ``DELETED``, too.
    """

    id: str
    key: dict[str, Any]
    push_name: str | None
    message_type: str | None
    message: msgspec.Raw
    message_timestamp: int | None
    source: str | None
    context_info: msgspec.Raw
    statuses: list[str]


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of messages.

    Attributes:
        total: how many messages were found.
        records: those of the page, the newest first.
    """

    total: int
    records: list[StoredMessage]


class StoredFile(NamedTuple):
    """The file of a message.

    Attributes:
        message_type: such as ``imageMessage``.
        described: what the message says of the file.
        base64: the content, if it is in the event.
        download: brings the content otherwise.
    """

    message_type: str
    described: dict[str, Any]
    base64: str
    download: MediaDownload | None

    def leave(self) -> None:
        """End the download: nobody wants more of the file."""
        if self.download is not None:
            self.download.leave()


class _Status(msgspec.Struct, rename="camel"):
    status: str
    key_id: str | None = None
    id: Any = None  # the message, if there is no keyId: in events of Evolution API 1
    remote_jid: Any = None


class Content(msgspec.Struct, rename="camel"):
    """The payload of a message. Fields of wrong types are for the reader to refuse."""

    key: dict[str, Any]
    push_name: Any = None
    message: msgspec.Raw = msgspec.Raw(b"{}")
    message_type: Any = None
    message_timestamp: Any = None
    source: Any = None
    context_info: msgspec.Raw = msgspec.Raw(b"null")


class _Names:
    """The names of a chat, as far as they are known: those of a person with and without the number.

    Args:
        chat: one of them; ``None`` for all chats.

    Attributes:
        known: all of them so far.
        missed: the names of other chats.
    """

    def __init__(self, chat: str | None) -> None:
        self._is_any = chat is None
        self.known = set() if chat is None else {plain_jid(chat)}
        self.missed: set[str] = set()

    def have(self, key: dict[str, Any]) -> bool:
        """Return whether a message is of the chat. What it says of names is known from then on."""
        if self._is_any:
            return True
        names = jids_of(key)
        for person in (names, jids_of(key, "participant")):
            if self._match(person):
                self.known.update(name for name in person if name.endswith((NUMBER, HIDDEN)))
        if self._match(names):
            return True
        self.missed.update(names)
        return False

    def _match(self, names: Sequence[str]) -> bool:
        # The part before the "@" is enough, as in findChats.
        return any(name in self.known or name.partition("@")[0] in self.known for name in names)


_content_of = msgspec.json.Decoder(Content, float_hook=float).decode
_status_of = msgspec.json.Decoder(_Status).decode


class StoredMessages(Collaborator):
    """Finds messages, and their files."""

    _history: DeliveryHistory
    _registry: Registry
    _connectors: Connectors
    _media: MediaDownloads

    async def find(self, name: str, query: MessageQuery) -> MessagePage:
        """Return a page of messages of an instance.

        Raises:
            TooManyRequests: too many reads of the instance are in progress.
            StorageUnavailable: the disk refuses.
        """
        names = _Names(query.chat)
        for _ in range(_MOST_SEARCHES):
            names.missed.clear()
            page = await self._find(name, query, names)
            # Otherwise an older message has said whose id it is that newer ones have alone.
            if not names.known & names.missed:
                break
        return page

    async def _find(self, name: str, query: MessageQuery, names: _Names) -> MessagePage:
        first, end = (query.page - 1) * query.size, query.page * query.size
        seen: set[tuple[str, str]] = set()
        found: list[StoredMessage] = []
        statuses: dict[tuple[str, str], list[str]] = {}
        changes = Changes()
        room = MOST_SHOWN

        def take(one: LoggedEvent) -> Generator[None, None, None]:
            nonlocal room
            yield
            event = one.event
            if event.kind == _STATUSES:
                _note_status(statuses, event.data_json)
                return
            if (change := read_change(event)) is not None:
                if changes.add(change):
                    statuses.setdefault(identity_of(change.key), []).append(change.status)
                return
            content = read_content(event)
            if content is None or not names.have(content.key) or not _is_wanted(content, query):
                return
            identity = identity_of(content.key)
            if identity in seen:  # sent by hookgw, and reported by the network, too
                return
            seen.add(identity)
            if first < len(seen) <= end:
                if (change := changes.of(content.key)) is not None:
                    content.message = change.applied_to(content.message)
                shown = _shown(content, statuses.setdefault(identity, []), room)
                room -= len(bytes(shown.message)) + len(bytes(shown.context_info))
                found.append(shown)

        await search_events(self._history, name, (*MESSAGES, *CHANGES, _STATUSES), take, lambda: False)
        return MessagePage(total=len(seen), records=found)

    async def open_file(self, name: str, message_id: str, chat: str | None) -> StoredFile:
        """Start to download the file of a message, unless the file is in its event.

        Args:
            name: of the instance.
            message_id: the network's.
            chat: of the message; ``None`` for the newest message with the id, in whatever chat.

        Returns:
            The file; the caller must call its ``leave`` at the end.

        Raises:
            Conflict: the instance has no connector, or is not connected.
            Invalid: no such message is stored, or it has no file.
            HookgwError: see :meth:`hookgw.messages.media.MediaDownloads.open_stored`.
        """
        instance = self._registry.instance(name)
        data = await self._find_one(name, message_id, chat)
        if data is None:
            raise Invalid.of(
                "message.not_found",
                "Message not found: no stored event of this instance has a message with this id, or "
                "it is too old to be found.",
            )
        message_type, described = unwrapped(data.get("message"))
        if message_type is None:
            raise Invalid.of("message.no_media", "The message is not of the media type: it has no file.")
        inline = data["message"].get("base64")
        if isinstance(inline, str) and inline:
            return StoredFile(message_type, described, inline, None)
        session = self._connectors.connected(instance)
        connector = session.connector
        reference = self._media.reference_in(instance, data["message"])
        if reference is None and "media_reference" in connector.methods:
            key = data["key"]
            jid = text(key.get("remoteJid"))
            asked = MessageKey(remote_jid=jid, id=message_id, from_me=key.get("fromMe") is True)
            reference = await call_in_time(connector, lambda: connector.media_reference(session, asked))
        if reference is None:
            raise Invalid.of(
                "message.file_not_stored",
                "The event of this message has neither its file nor a link to it.",
            )
        download = self._media.open_stored(session, reference, described)
        return StoredFile(message_type, described, "", download)

    async def _find_one(self, name: str, message_id: str, chat: str | None) -> dict[str, Any] | None:
        """Return the payload of the newest event with a message."""
        found: list[dict[str, Any]] = []
        wanted = None if chat is None else identity_of({"remoteJid": chat, "id": message_id})

        def take(one: LoggedEvent) -> Generator[None, None, None]:
            yield
            event = one.event
            content = None if found else read_content(event)
            if content is None or content.key["id"] != message_id:
                return
            if wanted in (None, identity_of(content.key)):
                data = decode_json(event.data_json)
                if isinstance(data, dict):
                    found.append(data)

        await search_events(self._history, name, MESSAGES, take, lambda: bool(found))
        return found[0] if found else None


def read_content(event: Event) -> Content | None:
    """Return the message of an event; ``None`` if it has none, or one without an id."""
    if event.kind not in MESSAGES:
        return None
    try:
        content = _content_of(event.data_json)
    except msgspec.MsgspecError:
        return None
    return content if isinstance(content.key.get("id"), str) and content.key["id"] else None


def _note_status(statuses: dict[tuple[str, str], list[str]], data_json: bytes) -> None:
    try:
        status = _status_of(data_json)
    except msgspec.MsgspecError:
        return
    message = status.key_id or status.id
    if isinstance(message, str):
        identity = identity_of({"remoteJid": status.remote_jid, "id": message})
        statuses.setdefault(identity, []).append(status.status)


def _is_wanted(content: Content, query: MessageQuery) -> bool:
    key, stamp = content.key, seconds(content.message_timestamp)
    if not {query.id, query.record_id} <= {None, key["id"]}:
        return False
    if query.source is not None and content.source != query.source:
        return False
    if query.from_me is not None and (key.get("fromMe") is True) is not query.from_me:
        return False
    if query.message_type is not None and content.message_type != query.message_type:
        return False
    if query.since is not None and (not stamp or stamp < query.since):
        return False
    return query.until is None or 0 < stamp <= query.until


def _shown(content: Content, statuses: list[str], room: int) -> StoredMessage:
    has_room = len(bytes(content.message)) + len(bytes(content.context_info)) <= room
    return StoredMessage(
        id=content.key["id"],
        key=content.key,
        push_name=text(content.push_name) or None,
        message_type=text(content.message_type) or None,
        message=content.message if has_room else msgspec.Raw(b"{}"),
        message_timestamp=seconds(content.message_timestamp) or None,
        source=text(content.source) or None,
        context_info=content.context_info if has_room else msgspec.Raw(b"null"),
        statuses=statuses,
    )
