"""Receives what happens: long-polls the homeserver, fills gaps, and stores events with the position.

Each answer of ``/sync`` ends with a token for the next one. It is stored in one commit with the events of the
answer (or with the last of them, if there are many), so a kill repeats at most events whose ids are known
already, and loses none.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
import structlog
import trio

from hookgw import ConnectionState, NetworkRefused, NewEvent
from hookgw import connectors as kit
from hookgw.connectors import each, found_at, mapping, strings, text

from . import events
from .client import Refused
from .connection import Connection, LoggedOut
from .events import Account

logger = structlog.get_logger("hookgw.matrix")

POLL = 30.0
"""Seconds that the homeserver may wait for news."""
_POLL_TIMEOUT = POLL + 30.0
PAGE = 100
"""Events of a room in one answer."""
FILE_TIME = 15.0
"""Seconds for a file that goes into its event. Later messages wait for it."""
_LARGEST_COMMIT = 500
_MOST_FILES = 8 * 2**20
"""Bytes of files in the events that wait for a commit."""
_MOST_PAGES = 10_000
_MOST_LOOKUPS = 20
_MOST_JOINS = 100
_MOST_TARGETS = 1_000
_MOST_KEPT = 1_000
"""Events of a room that are kept decoded. More are decoded anew for each look at them."""

_EVENTS_OF_SYNC = [
    *(f"/rooms/*/*/{part}/events/#" for part in ("timeline", "state", "ephemeral", "invite_state")),
    "/presence/events/#",
    "/account_data/events/#/content/*",  # of m.direct, one for each user
]
_EVENTS_OF_PAGE = ["/chunk/#", "/state/#"]

_TYPES = [
    "m.room.message",
    "m.room.encrypted",
    "m.room.encryption",
    "m.room.member",
    "m.room.redaction",
    "m.reaction",
    "m.sticker",
]


def sync_filter(limit: int, *, first: bool) -> str:
    """Return what ``/sync`` is to report, as JSON.

    Args:
        limit: events of each room.
        first: whether only the position and the invitations are of interest.
    """
    nothing: dict[str, Any] = {"limit": 0, "types": []}
    timeline = {"limit": limit, "types": _TYPES, "lazy_load_members": True}
    members = {"types": ["m.room.member", "m.room.encryption"], "lazy_load_members": True}
    room = {
        "timeline": {**timeline, "limit": 1} if first else timeline,
        "state": nothing if first else {**members, "include_redundant_members": True},
        "ephemeral": nothing if first else {"types": ["m.receipt", "m.typing"]},
        "account_data": nothing,
    }
    whole = {
        "room": room,
        "presence": nothing if first else {"types": ["m.presence"]},
        "account_data": {"types": ["m.direct"]},
    }
    return msgspec.json.encode(whole).decode()


Timeline = list[dict[str, Any]]


class _Again:
    """Events that are decoded anew whenever somebody looks at them."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return each(self._found)


class Receiver:
    """Receives the events of one account.

    Args:
        connection: the account's.
        nursery: for what must not hold up the next sync.
    """

    def __init__(self, connection: Connection, nursery: trio.Nursery) -> None:
        self._connection = connection
        self._session = connection.session
        self._nursery = nursery
        self._limit = PAGE
        self._batch: list[NewEvent] = []
        self._files = 0
        self._is_slow = False
        self._typing: dict[str, set[str]] = {}
        self._unread: dict[str, str] = {}
        self._told: set[str] = set()
        self._lookups = 0
        self._is_open = False

    async def run(self) -> None:
        """Log in, and receive until cancelled.

        Raises:
            LoggedOut: the login was refused, or has ended; somebody must log in again.
        """
        failures, name = 0, ""
        while True:
            try:
                if not name:
                    name = await self._connection.log_in()
                    for room in self._connection.state.joining:
                        self._nursery.start_soon(self._join, room)
                await self._sync(wait=failures == 0 and self._is_open)
            except Refused as error:
                if error.is_logged_out:
                    name = await self._log_in_again(error)
                    continue
                failures += 1
                await self._wait(error, failures)
            except kit.Unreachable as error:
                # The next answer should be smaller: it may have been too large, or too slow.
                self._limit = max(1, self._limit // 2)
                failures += 1
                await self._wait(error, failures)
            else:
                failures, self._limit = 0, PAGE
                if not self._is_open:
                    self._is_open = True
                    await self._session.set_state(
                        ConnectionState.OPEN, wuid=self._connection.user, profileName=name
                    )

    async def _wait(self, error: NetworkRefused, failures: int) -> None:
        # One broken long poll is nothing, but after a second failure a send would fail, too.
        if failures > 1 and self._is_open:
            self._is_open = False
            await self._session.set_state(ConnectionState.CONNECTING, 503, message=str(error))
        self._batch.clear()
        instance = self._session.instance
        await kit.pause_after(error, failures, "homeserver failed", instance=instance, logger=logger)

    async def _log_in_again(self, error: Refused) -> str:
        options = self._connection.options
        if not options.access_token:
            await self._connection.forget_token()
            # The homeserver asks to log in again with the same device, for example after a time.
            if error.is_soft_logout:
                return ""
        raise LoggedOut(f"The homeserver has ended the login: {error}") from error

    async def _sync(self, *, wait: bool) -> None:
        state = self._connection.state
        is_first = not state.since
        query = {
            "filter": sync_filter(self._limit, first=is_first),
            "timeout": str(int(POLL * 1000) if wait and not is_first else 0),
            "set_presence": "online" if self._session.settings.always_online else self._connection.presence,
        }
        if state.since:
            query["since"] = state.since
        answer = await self._connection.client.get(
            "sync", query=query, seconds=_POLL_TIMEOUT, events=_EVENTS_OF_SYNC
        )
        next_batch = text(answer.get("next_batch"))
        if not next_batch:
            raise kit.Unreachable("The homeserver's answer has no next_batch.")
        self._batch, self._files, self._lookups = [], 0, _MOST_LOOKUPS
        self._is_slow = False
        self._unread.clear()
        for event in each(found_at(answer, "account_data", "events")):
            await trio.lowlevel.checkpoint()  # one at a time: each may have thousands of rooms
            # The filter lets only m.direct pass.
            self._connection.note_direct_rooms(mapping(event.get("content")))
        rooms = mapping(answer.get("rooms"))
        if is_first:
            state.started = int(time.time() * 1000)  # what the answer has of rooms is history
        else:
            for room, changes in [*mapping(rooms.get("join")).items(), *mapping(rooms.get("leave")).items()]:
                await self._room(room, mapping(changes))
            account, now = self._connection.account, time.time()
            found = each(found_at(answer, "presence", "events"))
            await self._add_all(events.presence(event, account, now) for event in found)
        invited = self._invitations(mapping(rooms.get("invite")))
        state.since = next_batch
        await kit.emit_valid(self._session, self._batch, state=msgspec.to_builtins(state), logger=logger)
        for room in invited:
            self._nursery.start_soon(self._join, room)
        for room, id_ in self._unread.items():
            self._nursery.start_soon(self._mark_read, room, id_)

    async def _room(self, room: str, changes: dict[str, Any]) -> None:
        timeline = mapping(changes.get("timeline"))
        in_turns = self._session.in_turns
        _, joined_before = await in_turns(self._learn(room, found_at(changes, "state", "events")))
        found, joined = await in_turns(self._learn(room, timeline.get("events")))
        started, start = self._connection.state.started, None
        if joined is not None:
            start = _Start(joined, started)
        newest = text(timeline.get("prev_batch"))
        has_gap = timeline.get("limited") is True and bool(newest)
        if has_gap and start is not None:
            has_gap = not await in_turns(start.is_in(found))
        if has_gap:
            # The state shows the join of each sender in the timeline, also one of years ago. It is new if it
            # turns up in the gap.
            joined = joined_before
            maybe = _Start(joined, started) if joined and start is None else None
            start = await self._fill_gap(room, newest, start, maybe)
        await self._timeline(room, found, start)
        if start is not None:
            return  # receipts from before the join are none of our business
        for event in each(found_at(changes, "ephemeral", "events")):
            await trio.lowlevel.checkpoint()
            content = mapping(event.get("content"))
            if event.get("type") == "m.receipt":
                await self._look_up(room, [id_ for id_, _ in events.read_by(content)])
                await self._add_all(events.receipts(content, room, self._connection.account))
            elif event.get("type") == "m.typing":
                typing = set(strings(content.get("user_ids")))
                self._add(events.typing(room, self._typing.get(room, ()), typing, self._connection.account))
                self._typing.pop(room, None)
                if typing:
                    self._typing[room] = typing

    async def _fill_gap(  # noqa: C901 -- two passes, one after the other
        self, room: str, newest: str, start: _Start | None, maybe: _Start | None
    ) -> _Start | None:
        """Add the events of a room between the last sync and the timeline of this one, in order.

        They can only be read backwards. So the first pass notes where each page begins, and keeps none but
        the oldest page; the second pass reads the others again, oldest first. A gap of one page needs one
        request, and a gap of any length has one page in memory.

        Args:
            room: the room.
            newest: where the timeline of this sync begins.
            start: where the room begins, if the account has joined it in this timeline.
            maybe: where it begins, if the account has joined it in the gap.

        Returns:
            Where the room begins.
        """
        since = "" if start else self._connection.state.since
        pages, oldest, last = [newest], Timeline(), 0
        while True:
            try:
                page, end = await self._page(room, pages[-1], since)
            except Refused as error:
                if error.is_temporary or error.is_logged_out:
                    raise
                # The account has left the room, or is banned from it.
                logger.warning(
                    "gap not readable", instance=self._session.instance, room=room, reason=str(error)
                )
                break
            if page:
                oldest, last = page, len(pages) - 1
            if start is None and maybe is not None:
                has_join = await self._session.in_turns(maybe.has_join(page))
                start = maybe if has_join else None
            if not end or end in pages or end == since:
                break
            if start is not None:
                is_whole = await self._session.in_turns(start.is_in(page))
                if is_whole:
                    break
            if len(pages) == _MOST_PAGES:
                logger.error("gap too long", instance=self._session.instance, room=room, pages=len(pages))
                break
            pages.append(end)
        await self._timeline(room, oldest, start)
        for index in reversed(range(last)):
            page = await self._between(room, pages[index], pages[index + 1])
            await self._timeline(room, page, start)
        return start

    async def _between(self, room: str, begin: str, stop: str) -> Timeline:
        page, end = await self._page(room, begin, stop)
        for _ in range(_MOST_PAGES):
            if not end or end == stop:
                break
            # Fewer events than the first time, or none: all of a page may be filtered, or left out.
            more, further = await self._page(room, end, stop)
            page = [*more, *page]
            if further == end:
                break
            end = further
        return page

    async def _page(self, room: str, begin: str, end: str) -> tuple[Timeline, str]:
        query = {
            "dir": "b",
            "from": begin,
            "limit": str(self._limit),
            "filter": msgspec.json.encode({"types": _TYPES, "lazy_load_members": True}).decode(),
        }
        if end:
            query["to"] = end
        answer = await self._connection.client.get(
            "rooms", room, "messages", query=query, events=_EVENTS_OF_PAGE
        )
        in_turns = self._session.in_turns
        await in_turns(self._learn(room, answer.get("state")))
        await in_turns(self._learn(room, answer.get("chunk")))
        return await in_turns(_reversed(answer.get("chunk"))), text(answer.get("end"))

    async def _timeline(self, room: str, found: Iterable[dict[str, Any]], start: _Start | None) -> None:
        """Add the events of a part of a room's timeline."""
        in_turns, connection = self._session.in_turns, self._connection
        await self._look_up(room, await in_turns(_targets(found, copy.copy(start))))
        if self._session.settings.groups_ignore and connection.is_group(room):
            await in_turns(_targets(found, start))  # the next part begins behind this one
            return
        account, rest = connection.account, iter(found)
        while some := await in_turns(_translate_some(rest, room, account, start)):
            for event, new in some:
                if new and self._session.wants_base64() and (file := events.file_of(event)):
                    await self._put_file(new, *file)
                self._add(new)
                if event.get("type") == "m.room.encrypted" and room not in self._told:
                    self._told.add(room)
                    logger.warning(
                        "encrypted room", instance=self._session.instance, room=room, reason=events.ENCRYPTED
                    )
                is_incoming = new and new.kind == "MESSAGES_UPSERT" and not new.data["key"]["fromMe"]
                if new and is_incoming and self._session.settings.read_messages:
                    self._unread[room] = new.data["key"]["id"]
                if self._files >= _MOST_FILES:
                    await self._commit_part()
            if len(self._batch) >= _LARGEST_COMMIT:
                await self._commit_part()

    async def _put_file(self, new: NewEvent, reference: str, size: int) -> None:
        read = partial(self._connection.client.read, reference)
        # A homeserver that cannot get at its files must not hold up message after message.
        seconds = 0 if self._is_slow else FILE_TIME
        found = await kit.attach_file(self._session, new, read, size=size, seconds=seconds, logger=logger)
        self._is_slow = self._is_slow or found is None
        self._files += found or 0

    def _add(self, event: NewEvent | None) -> None:
        if event is not None:
            self._batch.append(event)

    async def _add_all(self, found: Iterable[NewEvent | None]) -> None:
        rest = iter(found)

        def add_some() -> Generator[None, None, bool]:
            for event in rest:
                self._add(event)
                if len(self._batch) >= _LARGEST_COMMIT:
                    return True
                yield
            return False

        while await self._session.in_turns(add_some()):
            await self._commit_part()

    def _learn(
        self, room: str, found: Any
    ) -> Generator[None, None, tuple[Iterable[dict[str, Any]], dict[str, Any] | None]]:
        """Keep what later events refer to: authors, names, and whether the room is encrypted.

        Returns:
            The events, decoded if there are not many; and the one with which the account has joined the room.
        """
        user_id, joined, kept, is_kept = self._connection.user, None, list[dict[str, Any]](), True
        for event in each(found):
            yield
            kept.append(event)
            if len(kept) > _MOST_KEPT:
                is_kept, kept = False, []
            joined = joined or _as_own_join(event, user_id)
            id_, sender = text(event.get("event_id")), text(event.get("sender"))
            if id_ and sender:
                self._connection.authors.put(id_, sender)
            if event.get("type") == "m.room.encryption":
                self._connection.encrypted.put(room, True)
            elif event.get("type") == "m.room.member":
                user, member = text(event.get("state_key")), mapping(event.get("content"))
                if name := text(member.get("displayname")):
                    self._connection.names.put((room, user), name)
        return kept if is_kept else _Again(found), joined

    async def _look_up(self, room: str, ids: Iterable[str]) -> None:
        """Learn who sent the events that others refer to; of very many, only some."""
        unknown = [id_ for id_ in dict.fromkeys(ids) if self._connection.authors.get(id_) is None]
        asked = unknown[: self._lookups]
        self._lookups -= len(asked)
        await self._connection.learn_authors(room, asked)

    async def _commit_part(self) -> None:
        await kit.emit_valid(self._session, self._batch, logger=logger)
        self._batch, self._files = [], 0

    def _invitations(self, rooms: dict[str, Any]) -> list[str]:
        """Add the events of invitations, and return the rooms to join."""
        allowed, joining = self._connection.options.join_invites, self._connection.state.joining
        accepted = []
        for room, invited in rooms.items():
            event = events.invitation(room, invited, self._connection.account)
            if event is None:
                continue
            self._add(event)
            is_direct = event.data["isDirect"]
            if (allowed == "all" or (allowed == "direct" and is_direct)) and len(joining) < _MOST_JOINS:
                joining[room] = event.data["author"] if is_direct else ""
                accepted.append(room)
        return accepted

    async def _join(self, room: str) -> None:
        for attempt in range(5):
            try:
                await self._connection.accept(room)
                break
            except Refused as error:
                if not error.is_temporary or error.is_logged_out:
                    reason = str(error)
                    logger.warning(
                        "room not joined", instance=self._session.instance, room=room, reason=reason
                    )
                    break
                wait = error.retry_after
            except kit.Unreachable:
                wait = None
            await trio.sleep(wait or 5.0 * 2**attempt)
        # Stored with the next events. Until then, a restart joins once more, which changes nothing.
        self._connection.state.joining.pop(room, None)

    async def _mark_read(self, room: str, id_: str) -> None:
        try:
            await self._connection.client.post("rooms", room, "receipt", "m.read", id_, body={})
        except NetworkRefused as error:
            logger.warning(
                "not marked as read", instance=self._session.instance, room=room, reason=str(error)
            )


class _Start:
    """Where a room begins that the account has just joined.

    It begins with the invitation, because people write right after they invite, or else with the join. What
    happened before the instance connected for the first time is history in any case.

    Args:
        joined: the event of the join.
        started: the time of the first connect, in milliseconds since the epoch.
    """

    def __init__(self, joined: dict[str, Any], started: int) -> None:
        unsigned = mapping(joined.get("unsigned"))
        self._join = text(joined.get("event_id"))
        self._started = started
        self._invite = ""
        if found_at(unsigned, "prev_content", "membership") == "invite":
            self._invite = text(unsigned.get("replaces_state"))
        self._is_past_invite = self._is_past_join = False

    def is_in(self, found: Iterable[dict[str, Any]]) -> Generator[None, None, bool]:
        """Return whether a part of the timeline reaches back to the start."""
        return _has(found, self._invite or self._join)

    def has_join(self, found: Iterable[dict[str, Any]]) -> Generator[None, None, bool]:
        """Return whether the join is in a part of the timeline."""
        return _has(found, self._join)

    def includes(self, event: dict[str, Any]) -> bool:
        """Return whether the next event of the timeline is not before the start."""
        id_, time = event.get("event_id"), event.get("origin_server_ts")
        if id_ == self._join:
            self._is_past_join = True
        if self._is_past_join:
            return True
        if id_ == self._invite:
            self._is_past_invite = True
        return self._is_past_invite and isinstance(time, int) and time >= self._started


def _as_own_join(event: dict[str, Any], user: str) -> dict[str, Any] | None:
    if event.get("type") == "m.room.member" and event.get("state_key") == user:
        unsigned = mapping(event.get("unsigned"))
        before = found_at(unsigned, "prev_content", "membership")
        if found_at(event, "content", "membership") == "join" and before != "join":
            return event
    return None


def _has(found: Iterable[dict[str, Any]], id_: str) -> Generator[None, None, bool]:
    for event in found:
        if event.get("event_id") == id_:
            return True
        yield
    return False


def _reversed(found: Any) -> Generator[None, None, Timeline]:
    page = Timeline()
    for event in each(found):
        page.append(event)
        yield
    page.reverse()
    return page


def _targets(found: Iterable[dict[str, Any]], start: _Start | None) -> Generator[None, None, list[str]]:
    """Return the ids that events refer to, as many as could be looked up."""
    targets: list[str] = []
    for event in found:
        if (start is None or start.includes(event)) and len(targets) < _MOST_TARGETS:
            targets += filter(None, [_target(event)])
        yield
    return targets


def _translate_some(
    rest: Iterator[dict[str, Any]], room: str, account: Account, start: _Start | None
) -> Generator[None, None, list[tuple[dict[str, Any], NewEvent | None]]]:
    """Return the next events with their translations; none at the end."""
    some = []
    for event in rest:
        if start is None or start.includes(event):
            some.append((event, events.translate(event, room, account)))
            if len(some) >= PAGE:
                break
        yield
    return some


def _target(event: dict[str, Any]) -> str:
    content = mapping(event.get("content"))
    if event.get("type") == "m.room.redaction":
        return text(event.get("redacts")) or text(content.get("redacts"))
    if event.get("type") == "m.reaction":
        return text(found_at(content, "m.relates_to", "event_id"))
    return ""
