"""The chats and contacts of an instance, read from the events in its history.

Nothing is written for them. Events that the history no longer has, or never had because no registration
wanted them, are not known here. A search ends after a while: it finds the most recently active.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence, Sized
from typing import Any

import msgspec
import trio

from hookgw.connectors.whatsapp_numbers import whatsapp_chat_of
from hookgw.core.long_work import run_in_slices
from hookgw.deliveries.history import DeliveryHistory
from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_decoding import decode_json
from hookgw.records.erased_persons import person_of
from hookgw.records.events import Event

SEARCH_SECONDS = 1.0
"""Seconds after which a search returns what it has found."""
MOST_PAGES = 50
"""Pages of events that a search reads."""
MOST_FOUND = 1_000
"""A search ends after the page of events on which it has found this many chats or contacts."""
MOST_MESSAGE = 8 * 1024
"""Messages of at most this many bytes are in the list of chats."""

MOST_CONTACT = 64 * 1024
"""A larger contact is ignored: reading it could hold up everything else."""

MESSAGES = ("MESSAGES_UPSERT", "SEND_MESSAGE")
"""The kinds of events with one message."""
_CONTACTS = ("CONTACTS_UPSERT", "CONTACTS_UPDATE", "CONTACTS_SET")
_GROUP = "@g.us"


class LastMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest message of a chat, as in the event; larger content is left out.

    Attributes:
        push_name: the name of the sender.
        message_timestamp: when it was sent, in seconds since the epoch.
        status: when the event was raised.
        source: the sender's program.
    """

    id: str
    key: dict[str, Any]
    push_name: str | None
    message: msgspec.Raw
    message_type: str | None
    message_timestamp: int | None
    status: str | None
    source: str | None


class Chat(msgspec.Struct, kw_only=True):
    """A chat.

    Attributes:
        jid: the network's name of it.
        name: of the person; ``None`` for a group, or if it is unknown.
        updated_at: when its newest message came, in seconds since the epoch.
    """

    jid: str
    name: str | None
    is_group: bool
    updated_at: float
    last_message: LastMessage


# Without gc, tens of thousands would start long collections; they hold only text.
class Contact(msgspec.Struct, kw_only=True, gc=False):
    """A person or a group.

    Attributes:
        jid: the network's name of it.
        name: a person's; ``None`` if it is unknown.
        updated_at: when the newest event about it came, in seconds since the epoch.
    """

    jid: str
    name: str | None
    picture_url: str | None
    is_group: bool
    updated_at: float


class _Key(msgspec.Struct, rename="camel"):
    remote_jid: str
    id: str = ""
    from_me: bool = False
    participant: str | None = None
    remote_jid_alt: Any = None

    @property
    def member(self) -> str | None:
        """Return the author of a message in a group; ``None`` in a chat with a person.

        Some networks name that person as the participant, too, perhaps with a device or in another spelling.
        """
        if not self.participant:
            return None
        chat = {person_of(jid) for jid in (self.remote_jid, self.remote_jid_alt) if isinstance(jid, str)}
        return None if person_of(self.participant) in chat else self.participant


# Fields that no list needs are not checked: events may hold anything.
class _Message(msgspec.Struct, rename="camel"):
    key: _Key
    push_name: Any = None
    message: msgspec.Raw = msgspec.Raw(b"{}")
    message_type: Any = None
    message_timestamp: Any = None
    status: Any = None
    source: Any = None


_message_of = msgspec.json.Decoder(_Message, float_hook=float).decode
_list_of = msgspec.json.Decoder(list[msgspec.Raw]).decode


class ChatSearch:
    """Finds chats and contacts, with a few reads of an instance at a time."""

    def __init__(self, history: DeliveryHistory) -> None:
        self._history = history

    async def chats(self, instance: str, is_wanted: Callable[[str], bool]) -> list[Chat]:
        """Return the wanted chats of an instance, the one with the newest message first.

        Raises:
            TooManyRequests: too many reads of the instance are in progress.
            StorageUnavailable: the disk refuses.
        """
        found: dict[str, Chat] = {}

        def take(event: Event) -> Generator[None, None, None]:
            yield
            message = _read_message(event)
            if message is None or not is_wanted(message.key.remote_jid):
                return
            key = message.key
            chat = found.get(key.remote_jid)
            if chat is None:
                chat = found[key.remote_jid] = Chat(
                    jid=key.remote_jid,
                    name=None,
                    is_group=key.remote_jid.endswith(_GROUP),
                    updated_at=event.time,
                    last_message=_last_message(message),
                )
            if key.member:
                chat.is_group, chat.name = True, None
            elif chat.name is None and not key.from_me and not chat.is_group:
                chat.name = _text(message.push_name)

        await self._search(instance, MESSAGES, found, take)
        return list(found.values())

    async def contacts(self, instance: str, is_wanted: Callable[[str], bool]) -> list[Contact]:
        """Return the people and groups that wrote to an instance or were written to; see :meth:`chats`."""
        found: dict[str, Contact] = {}

        def take(event: Event) -> Generator[None, None, None]:
            for seen in _contacts_in(event):
                yield  # one event may have tens of thousands
                if seen is not None and is_wanted(seen.jid):
                    known = found.setdefault(seen.jid, seen)
                    known.name = known.name or seen.name
                    known.picture_url = known.picture_url or seen.picture_url
                    known.is_group = known.is_group or seen.is_group

        await self._search(instance, (*MESSAGES, *_CONTACTS), found, take)
        return list(found.values())

    async def known_numbers(self, instance: str, numbers: Sequence[str]) -> list[dict[str, Any]] | None:
        """Return ``{"number", "exists", "jid"}`` of each number; ``None`` if the history lacks one."""
        people = [person_of(_chat_of(number)) for number in numbers]
        wanted = set(people)
        found: dict[tuple[str, str], str] = {}

        def take(event: Event) -> Generator[None, None, None]:
            yield
            message = _read_message(event)
            key = message.key if message is not None else None
            for jid in (key.remote_jid, key.remote_jid_alt, key.participant) if key is not None else ():
                if isinstance(jid, str) and jid:
                    # The part before the "@" is enough, as in findChats.
                    for person in wanted & {person_of(jid), (jid.partition("@")[0], "")}:
                        found.setdefault(person, jid)

        await search_events(self._history, instance, MESSAGES, take, lambda: wanted <= found.keys())
        if not wanted <= found.keys():
            return None
        named = zip(numbers, people, strict=True)
        return [{"number": number, "exists": True, "jid": found[person]} for number, person in named]

    async def _search(
        self,
        instance: str,
        kinds: tuple[str, ...],
        found: Sized,
        take: Callable[[Event], Generator[None, None, None]],
    ) -> None:
        await search_events(self._history, instance, kinds, take, lambda: len(found) >= MOST_FOUND)


async def search_events(
    history: DeliveryHistory,
    instance: str,
    kinds: tuple[str, ...],
    take: Callable[[Event], Generator[None, None, None]],
    is_enough: Callable[[], bool],
) -> None:
    """Go through an instance's events, the newest first, until there are no more or the search takes long.

    Args:
        history: reads events.
        instance: the instance's name.
        kinds: of the events.
        take: called with each event; the computation takes turns with others at each ``yield``.
        is_enough: called after each page.

    Raises:
        TooManyRequests: too many reads of the instance are in progress.
        StorageUnavailable: the disk refuses.
    """

    def take_all(events: list[Event]) -> Generator[None, None, None]:
        for event in events:
            yield from take(event)

    deadline = trio.current_time() + SEARCH_SECONDS
    cursor = None
    for _ in range(MOST_PAGES):
        page = await history.list_events(instance, kinds, cursor)
        await run_in_slices(instance, take_all(page.events))
        cursor = page.cursor
        if cursor is None or is_enough() or trio.current_time() >= deadline:
            return


def _read_message(event: Event) -> _Message | None:
    try:
        message = _message_of(event.data_json)
    except msgspec.MsgspecError:
        return None
    return message if message.key.remote_jid else None


def _last_message(message: _Message) -> LastMessage:
    content = message.message
    is_shown = len(bytes(content)) <= MOST_MESSAGE
    key = msgspec.to_builtins(message.key)
    del key["remoteJidAlt"]
    if key["participant"] is None:
        del key["participant"]
    stamp = message.message_timestamp
    return LastMessage(
        id=message.key.id,
        key=key,
        push_name=_text(message.push_name),
        message=content if is_shown else msgspec.Raw(b"{}"),
        message_type=_text(message.message_type),
        message_timestamp=stamp if type(stamp) is int else None,
        status=_text(message.status),
        source=_text(message.source),
    )


def _entries_of(data: bytes) -> list[msgspec.Raw]:
    try:
        return _list_of(data)
    except msgspec.ValidationError:  # the event has one contact, without a list around it
        return [msgspec.Raw(data)]


def _contacts_in(event: Event) -> Iterator[Contact | None]:
    """Yield the contacts in an event, and ``None`` for an entry without an id: the caller pauses at each."""
    if event.kind in _CONTACTS:
        # One by one: decoding tens of thousands at once would hold up everything else.
        for text in _entries_of(event.data_json):
            item = decode_json(bytes(text)) if len(memoryview(text)) <= MOST_CONTACT else None
            jid = _field(item, "remoteJid", "id")
            if not jid:
                yield None
                continue
            yield Contact(
                jid=jid,
                name=_field(item, "pushName", "name", "notify"),
                picture_url=_field(item, "profilePicUrl", "profilePictureUrl", "imgUrl"),
                is_group=jid.endswith(_GROUP),
                updated_at=event.time,
            )
        return
    message = _read_message(event)
    if message is None:
        return
    key = message.key
    name = None if key.from_me else _text(message.push_name)
    is_group = bool(key.member) or key.remote_jid.endswith(_GROUP)
    yield Contact(
        jid=key.remote_jid,
        name=None if is_group else name,
        picture_url=None,
        is_group=is_group,
        updated_at=event.time,
    )
    if key.member and not key.from_me:
        yield Contact(jid=key.member, name=name, picture_url=None, is_group=False, updated_at=event.time)


def _chat_of(number: str) -> str:
    """Return a number as a chat of WhatsApp; of another network, as it is."""
    try:
        return whatsapp_chat_of(number)
    except Invalid:
        return number


def _field(item: Any, *names: str) -> str | None:
    values = [_text(item.get(name)) for name in names] if isinstance(item, dict) else []
    return next((value for value in values if value), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
