"""The chats and contacts of an instance, read from the events in its history.

Nothing is written for them. Events that the history no longer has, or never had because no registration
wanted them, are not known here. A search ends after a while: it finds the most recently active.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import trio

from hookgw.connectors.json_values import seconds, text
from hookgw.connectors.whatsapp_numbers import chat_or_text
from hookgw.core.long_work import run_in_slices
from hookgw.deliveries.history import DeliveryHistory
from hookgw.kernel.json_decoding import decode_json
from hookgw.messages.changes import CHANGES, Changes, read_change
from hookgw.records.chats import GROUP, HIDDEN, NUMBER, ChatFields, jids_of, plain_jid
from hookgw.records.events import Event
from hookgw.store import EventQuery, LoggedEvent

SEARCH_SECONDS = 1.0
"""Seconds after which a search returns what it has found."""
MOST_PAGES = 50
PAGE_EVENTS = 1_000
"""Pages of events that a search reads."""
MOST_FOUND = 1_000
"""A search ends after the page of events on which it has found this many chats or contacts."""


class Bounds(NamedTuple):
    """When a search ends: after so many seconds, pages of so many events, or finds."""

    seconds: float
    pages: int
    events: int
    found: int


WHOLE = Bounds(SEARCH_SECONDS, MOST_PAGES, PAGE_EVENTS, MOST_FOUND)
CHAT_PAGE = Bounds(seconds=0.25, pages=10, events=200, found=30)
"""A page for people is there at once: it says that there may be more, and goes on from there."""
MOST_MESSAGE = 8 * 1024
"""Messages of at most this many bytes are in the list of chats."""

MOST_CONTACT = 64 * 1024
"""A larger contact is ignored: reading it could hold up everything else."""

MESSAGES = ("MESSAGES_UPSERT", "SEND_MESSAGE")
"""The kinds of events with one message."""
_CONTACTS = ("CONTACTS_UPSERT", "CONTACTS_UPDATE", "CONTACTS_SET")
_STATUS = "status@broadcast"
"""Where status posts are: a chat, and nobody's contact."""
_PERSON = (NUMBER, HIDDEN)


class LastMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest message of a chat, as in its event.

    Attributes:
        id: the network's id.
        key: of the message.
        push_name: the sender's name, if known.
        message: its content; empty if it is large, or if those of the chats before it fill 1 MiB.
        message_type: the kind of content.
        message_timestamp: when it was sent, in seconds since the epoch.
        status: its status when the event was raised; `EDITED` or `DELETED` if it was that later.
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
        key: of that message, with all names of the chat and the author.
    """

    jid: str
    name: str | None
    is_group: bool
    updated_at: float
    key: dict[str, Any]
    last_message: LastMessage


class ChatPage(NamedTuple):
    """Chats, and where the next page begins; ``None`` after the last one."""

    chats: list[Chat]
    cursor: str | None


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


class _Key(ChatFields, kw_only=True):
    remoteJid: str  # noqa: N815 -- the names in the payload
    id: str = ""
    fromMe: bool = False  # noqa: N815
    participant: str | None = None

    @property
    def chats(self) -> tuple[str, ...]:
        """All names of the chat, the one to list it under first."""
        return jids_of(msgspec.structs.asdict(self))

    @property
    def members(self) -> tuple[str, ...]:
        """All names of the author of a message in a group; empty in a chat with a person.

        Some networks name that person as the participant, too, perhaps with a device or in another spelling.
        """
        chats, authors = self.chats, self.authors
        return () if chats[0].endswith(_PERSON) or set(authors).intersection(chats) else authors

    @property
    def authors(self) -> tuple[str, ...]:
        """All names of whom the message names as its author."""
        return jids_of(msgspec.structs.asdict(self), "participant")


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


T = TypeVar("T", Chat, Contact)


class _Found(Generic[T]):
    """What a search has found, by plain name, the newest first."""

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        self._is_wanted = is_wanted
        self._found: dict[str, T] = {}
        # The numbers of people whose messages have them at times only.
        self._numbers: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._found)

    def take(self, jids: tuple[str, ...], new: T) -> T | None:
        """Add something, or find it again; ``None`` if nobody wants it.

        Args:
            jids: all of its names, as :func:`jids_of` returns them.
        """
        jid = jids[0]
        if jid.endswith(NUMBER):
            self._numbers.update((other, jid) for other in jids if other.endswith(HIDDEN))
        # Somebody without a number may turn out to be wanted.
        if jid in self._found or jid.endswith(HIDDEN) or any(map(self._is_wanted, jids)):
            return self._found.setdefault(jid, new)
        return None

    def people(self, merge: Callable[[T, T], None]) -> list[T]:
        """Return everything that is wanted; a person once, under the number if it is known.

        Args:
            merge: adds what is known from an older entry to a newer one of the same person.
        """
        people: dict[str, T] = {}
        for jid, one in self._found.items():
            one.jid = self._numbers.get(jid, jid)
            if (newer := people.setdefault(one.jid, one)) is not one:
                merge(newer, one)
        hidden = {number: jid for jid, number in self._numbers.items()}
        return [
            one
            for jid, one in people.items()
            if self._is_wanted(jid) or (jid in hidden and self._is_wanted(hidden[jid]))
        ]


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
        return (await self._chats(instance, is_wanted, None, WHOLE))[0]

    async def page(self, instance: str, cursor: str | None = None) -> ChatPage:
        """Return a page of chats, the one with the newest message first; see :meth:`chats`.

        Args:
            cursor: of the page before. A chat of an earlier page is not repeated.
        """
        found, cursor_after = await self._chats(instance, lambda _: True, cursor, CHAT_PAGE)
        if cursor is not None:
            found = await self._without_newer(instance, found, cursor)
        return ChatPage(found, cursor_after)

    async def _without_newer(self, instance: str, chats: list[Chat], back_to: str) -> list[Chat]:
        """Return the chats without a message in the newer part of the log, as events there have changed them.

        That part is read once for all of them. After a while, the rest of it is left out.

        Args:
            back_to: where the newer part ends.
        """
        left = {chat.jid: chat for chat in chats}
        names = {name: chat.jid for chat in chats for name in (chat.jid, *jids_of(chat.key))}
        changes, cursor = Changes(), None
        deadline = trio.current_time() + SEARCH_SECONDS
        while left:
            query = EventQuery(
                instance=instance,
                kinds=(*MESSAGES, *CHANGES),
                # Not of a chat that has one: it may have thousands.
                chat_names=tuple(name for name, jid in names.items() if jid in left),
                cursor=cursor,
                back_to=back_to,
                limit=CHAT_PAGE.events,
            )
            page = await self._history.list_events(query)
            for one in page.events:
                if (change := read_change(one.event)) is not None:
                    changes.add(change)
                elif (message := _read_message(one.event)) is not None:
                    for name in message.key.chats:
                        left.pop(names.get(name, name), None)
            cursor = page.cursor
            if cursor is None or trio.current_time() >= deadline:
                break
        for chat in left.values():
            if (change := changes.of(chat.key)) is not None:
                content = _shown(change.applied_to(chat.last_message.message))
                chat.last_message = msgspec.structs.replace(
                    chat.last_message, message=content, status=change.status
                )
        return list(left.values())

    async def _chats(
        self, instance: str, is_wanted: Callable[[str], bool], cursor: str | None, bounds: Bounds
    ) -> tuple[list[Chat], str | None]:
        found = _Found[Chat](is_wanted)
        changes = Changes()

        def take(one: LoggedEvent) -> Generator[None, None, None]:
            yield
            if (change := read_change(one.event)) is not None:
                changes.add(change)
                return
            message = _read_message(one.event)
            if message is None:
                return
            key, jids = message.key, message.key.chats
            chat = found.take(
                jids,
                Chat(
                    jid=jids[0],
                    name=None,
                    is_group=jids[0].endswith(GROUP),
                    updated_at=sent_at(message.message_timestamp, one.accepted_at),
                    key=msgspec.structs.asdict(key),
                    last_message=_last_message(message, changes),
                ),
            )
            if chat is None:
                return
            if key.members:
                chat.is_group, chat.name = True, None
            elif chat.name is None and not key.fromMe and not chat.is_group:
                chat.name = text(message.push_name) or None

        def merge(newer: Chat, older: Chat) -> None:
            newer.name = newer.name or older.name

        after = await search_events(
            self._history,
            instance,
            (*MESSAGES, *CHANGES),
            take,
            lambda: len(found) >= bounds.found,
            cursor,
            bounds,
        )
        return found.people(merge), after

    async def contacts(self, instance: str, is_wanted: Callable[[str], bool]) -> list[Contact]:
        """Return the people and groups that wrote to an instance or were written to; see :meth:`chats`."""
        found = _Found[Contact](is_wanted)

        def take(one: LoggedEvent) -> Generator[None, None, None]:
            for seen in _contacts_in(one):
                yield  # one event may have tens of thousands
                if seen is not None:
                    jids, contact = seen
                    if (known := found.take(jids, contact)) is not None:
                        merge(known, contact)

        def merge(newer: Contact, older: Contact) -> None:
            newer.name = newer.name or older.name
            newer.picture_url = newer.picture_url or older.picture_url
            newer.is_group = newer.is_group or older.is_group

        kinds = (*MESSAGES, *_CONTACTS)
        await search_events(self._history, instance, kinds, take, lambda: len(found) >= MOST_FOUND)
        return found.people(merge)

    async def known_numbers(self, instance: str, numbers: Sequence[str]) -> list[dict[str, Any]] | None:
        """Return ``{"number", "exists", "jid"}`` of each number; ``None`` if the history lacks one."""
        people = [plain_jid(chat_or_text(number)) for number in numbers]
        wanted = set(people)
        found: dict[str, str] = {}

        def take(one: LoggedEvent) -> Generator[None, None, None]:
            yield
            message = _read_message(one.event)
            if message is None:
                return
            for jid in (*message.key.chats, *message.key.authors):
                # The part before the "@" is enough, as in findChats.
                for person in wanted & {jid, jid.partition("@")[0]}:
                    found.setdefault(person, jid)

        await search_events(self._history, instance, MESSAGES, take, lambda: wanted <= found.keys())
        if not wanted <= found.keys():
            return None
        named = zip(numbers, people, strict=True)
        return [{"number": number, "exists": True, "jid": found[person]} for number, person in named]


async def search_events(
    history: DeliveryHistory,
    instance: str,
    kinds: tuple[str, ...],
    take: Callable[[LoggedEvent], Generator[None, None, None]],
    is_enough: Callable[[], bool],
    cursor: str | None = None,
    bounds: Bounds = WHOLE,
) -> str | None:
    """Go through an instance's events, the newest first, until there are no more or the search takes long.

    Return where a further search goes on; ``None`` at the end.

    Args:
        history: reads events.
        instance: the instance's name.
        kinds: of the events.
        take: called with each event; the computation takes turns with others at each ``yield``.
        is_enough: called after each page.
        cursor: where a former search has ended.

    Raises:
        TooManyRequests: too many reads of the instance are in progress.
        StorageUnavailable: the disk refuses.
    """

    def take_all(events: list[LoggedEvent]) -> Generator[None, None, None]:
        for one in events:
            yield from take(one)

    deadline = trio.current_time() + bounds.seconds
    for _ in range(bounds.pages):
        page = await history.list_events(
            EventQuery(instance=instance, kinds=kinds, cursor=cursor, limit=bounds.events)
        )
        await run_in_slices(instance, take_all(page.events))
        cursor = page.cursor
        if cursor is None or is_enough() or trio.current_time() >= deadline:
            break
    return cursor


def sent_at(stamp: Any, accepted_at: float) -> float:
    """Return when a message was sent, in seconds since the epoch.

    That is what it says, unless that is no time, or the clock there is wrong: then when hookgw accepted it.
    The time of the event is its producer's, and Evolution API writes the local time as if it were UTC.
    """
    sent = seconds(stamp)
    return float(sent) if 0 < sent <= accepted_at + 60 else accepted_at


def _read_message(event: Event) -> _Message | None:
    if event.kind not in MESSAGES:
        return None
    try:
        message = _message_of(event.data_json)
    except msgspec.MsgspecError:
        return None
    return message if message.key.remoteJid else None


def _last_message(message: _Message, changes: Changes) -> LastMessage:
    change = changes.of(msgspec.structs.asdict(message.key))
    content = message.message if change is None else change.applied_to(message.message)
    key = {name: getattr(message.key, name) for name in ("remoteJid", "id", "fromMe")}
    if message.key.participant is not None:
        key["participant"] = message.key.participant
    return LastMessage(
        id=message.key.id,
        key=key,
        push_name=text(message.push_name) or None,
        message=_shown(content),
        message_type=text(message.message_type) or None,
        message_timestamp=seconds(message.message_timestamp) or None,
        status=text(message.status) or None if change is None else change.status,
        source=text(message.source) or None,
    )


def _shown(message: msgspec.Raw) -> msgspec.Raw:
    return message if len(memoryview(message)) <= MOST_MESSAGE else msgspec.Raw(b"{}")


def _entries_of(data: bytes) -> list[msgspec.Raw]:
    try:
        return _list_of(data)
    except msgspec.ValidationError:  # the event has one contact, without a list around it
        return [msgspec.Raw(data)]


def _contacts_in(logged: LoggedEvent) -> Iterator[tuple[tuple[str, ...], Contact] | None]:
    """Yield the contacts in an event, each with all of its names.

    ``None`` is an entry without an id: the caller pauses at each.
    """
    event = logged.event
    if event.kind in _CONTACTS:
        # One by one: decoding tens of thousands at once would hold up everything else.
        for entry in _entries_of(event.data_json):
            item = decode_json(bytes(entry)) if len(memoryview(entry)) <= MOST_CONTACT else None
            jids = (jids_of(item) or jids_of(item, "id")) if isinstance(item, dict) else ()
            if not jids:
                yield None
                continue
            picture = _field(item, "profilePicUrl", "profilePictureUrl", "imgUrl")
            contact = Contact(
                jid=jids[0],
                name=_field(item, "pushName", "name", "notify"),
                # Baileys says "changed" where it does not know the new one.
                picture_url=picture if picture is not None and "://" in picture else None,
                is_group=jids[0].endswith(GROUP),
                updated_at=logged.accepted_at,
            )
            yield jids, contact
        return
    message = _read_message(event)
    if message is None:
        return
    key, at = message.key, sent_at(message.message_timestamp, logged.accepted_at)
    name = None if key.fromMe else text(message.push_name) or None
    jids, members = key.chats, key.members
    is_group = bool(members) or jids[0].endswith(GROUP)
    contact = Contact(
        jid=jids[0],
        name=None if is_group else name,
        picture_url=None,
        is_group=is_group,
        updated_at=at,
    )
    if jids[0] != _STATUS:
        yield jids, contact
    if members and not key.fromMe:
        member = Contact(jid=members[0], name=name, picture_url=None, is_group=False, updated_at=at)
        yield members, member


def _field(item: Any, *names: str) -> str | None:
    return next(filter(None, (text(item.get(name)) for name in names)), None)
