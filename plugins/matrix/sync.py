"""Receives what happens: long-polls the homeserver, and stores events with the position.

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
from .connection import MOST_JOINS, Connection, LoggedOut
from .content import file_of
from .events import Account
from .gaps import PAGE, Gaps, Start

logger = structlog.get_logger("hookgw.matrix")

POLL = 30.0
"""Seconds that the homeserver may wait for news."""
_POLL_TIMEOUT = POLL + 30.0
FILE_TIME = 15.0
"""Seconds for a file that goes into its event. Later messages wait for it."""
_LARGEST_COMMIT = 500
MOST_FILES = 8 * 2**20
"""Bytes of files in the events that wait for a commit."""
_MOST_LOOKUPS = 20
_FAILURES_WITH_LOOKUPS = 5
_MOST_TARGETS = 1_000

_EVENTS_OF_SYNC = [
    *(f"/rooms/*/*/{part}/events/#" for part in ("timeline", "state", "ephemeral", "invite_state")),
    "/presence/events/#",
    "/account_data/events/#/content/*",  # of m.direct, one for each user
]


def sync_filter(limit: int, *, first: bool) -> str:
    """Return what ``/sync`` is to report, as JSON.

    Args:
        limit: events of each room.
        first: whether only the position and the invitations are of interest.
    """
    nothing: dict[str, Any] = {"limit": 0, "types": []}
    timeline = {"limit": limit, "lazy_load_members": True}
    state_types = ["m.room.member", "m.room.encryption", "m.room.tombstone"]
    members = {"types": state_types, "lazy_load_members": True}
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
        self._gaps = Gaps(connection)
        self._batch: list[NewEvent] = []
        self._files = 0
        self._is_slow = False
        self._typing: dict[str, set[str]] = {}
        self._unread: dict[str, str] = {}
        self._told: set[str] = set()
        self._to_join: list[str] = []
        self._lookups = 0
        self._is_open = self._was_open = False

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
                await self._sync(failures)
            except Refused as error:
                if error.is_logged_out:
                    name = await self._log_in_again(error)
                    continue
                failures += 1
                await self._wait(error, failures)
            except kit.Unreachable as error:
                self._gaps.less()
                failures += 1
                await self._wait(error, failures)
            else:
                failures, self._gaps.limit = 0, PAGE
                if not self._is_open:
                    self._is_open = self._was_open = True
                    await self._session.set_state(
                        ConnectionState.OPEN, wuid=self._connection.user, profileName=name
                    )

    async def _wait(self, error: NetworkRefused, failures: int) -> None:
        self._batch.clear()
        what, was_open = "homeserver failed", self._was_open
        self._is_open = await kit.pause_after(
            self._session, error, failures, what, logger, is_open=self._is_open, was_open=was_open
        )

    async def _log_in_again(self, error: Refused) -> str:
        options = self._connection.options
        if not options.access_token:
            await self._connection.forget_token()
            # The homeserver asks to log in again with the same device, for example after a time.
            if error.is_soft_logout:
                return ""
        raise LoggedOut(f"The homeserver has ended the login: {error}") from error

    async def _sync(self, failures: int) -> None:
        state = self._connection.state
        is_first = not state.since
        wait = failures == 0 and self._is_open
        query = {
            "filter": sync_filter(self._gaps.limit, first=is_first),
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
        self._batch, self._files = [], 0
        # An event that the homeserver cannot read for good must not hold up all that came after it.
        self._lookups = _MOST_LOOKUPS if failures < _FAILURES_WITH_LOOKUPS else 0
        self._to_join = []
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
        self._invitations(mapping(rooms.get("invite")))
        state.since = next_batch
        await kit.emit_valid(self._session, self._batch, state=msgspec.to_builtins(state), logger=logger)
        for room in self._to_join:
            self._nursery.start_soon(self._join, room)
        for room, id_ in self._unread.items():
            self._nursery.start_soon(self._mark_read, room, id_)

    async def _room(self, room: str, changes: dict[str, Any]) -> None:
        timeline = mapping(changes.get("timeline"))
        in_turns = self._session.in_turns
        _, joined_before = await in_turns(self._gaps.learn(room, found_at(changes, "state", "events")))
        found, joined = await in_turns(self._gaps.learn(room, timeline.get("events")))
        start = None
        if joined is not None:
            start = self._start(room, joined)
        newest = text(timeline.get("prev_batch"))
        has_gap = timeline.get("limited") is True and bool(newest)
        if has_gap and start is not None:
            has_gap = not await in_turns(start.is_in(found))
        if has_gap:
            # The state shows the join of each sender in the timeline, also one of years ago. It is new if it
            # turns up in the gap.
            joined = joined_before
            maybe = self._start(room, joined) if joined and start is None else None
            start = await self._gaps.fill(room, newest, found, start, maybe, partial(self._timeline, room))
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

    def _start(self, room: str, joined: dict[str, Any]) -> Start:
        connection = self._connection
        _, replaced = connection.replaced.get(room) or ("", 0)
        return Start(joined, max(connection.state.started, replaced), is_whole=replaced > 0)

    async def _timeline(self, room: str, found: Iterable[dict[str, Any]], start: Start | None) -> None:
        """Add the events of a part of a room's timeline."""
        in_turns, connection = self._session.in_turns, self._connection
        await self._look_up(room, await in_turns(_targets(found, copy.copy(start))))
        if self._session.settings.groups_ignore and connection.is_group(room):
            await in_turns(_targets(found, start))  # the next part begins behind this one
            return
        account, rest = connection.account, iter(found)
        while some := await in_turns(_translate_some(rest, room, account, start)):
            for event, new in some:
                await self._one(room, event, new)
                if self._files >= MOST_FILES:
                    await self._commit_part()
            if len(self._batch) >= _LARGEST_COMMIT:
                await self._commit_part()

    async def _one(self, room: str, event: dict[str, Any], new: NewEvent | None) -> None:
        connection = self._connection
        is_own = new is not None and event.get("sender") == connection.user
        # Some homeservers do not say that hookgw itself sent it, or not on every page.
        if is_own and await connection.has_sent(room, text(event.get("event_id"))):
            return
        if events.replacement(event) and (replacement := connection.follow(room)):
            self._to_join.append(replacement)
        if new and self._session.wants_base64() and (file := file_of(event)):
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

    async def _put_file(self, new: NewEvent, reference: str, size: int) -> None:
        client = self._connection.client

        async def read(limit: int) -> bytes:
            return await client.in_place(partial(client.read, reference, limit))

        # A homeserver that cannot get at its files must not hold up message after message.
        seconds = 0 if self._is_slow else FILE_TIME
        found = await kit.attach_file(self._session, new, read, size=size, seconds=seconds, logger=logger)
        self._is_slow = self._is_slow or found is None
        self._files += found or 0

    def _add(self, event: NewEvent | None) -> None:
        # Without its kind, nobody misses who types or is online; see events.translate for all others.
        if event is not None and self._session.catalog.get(event.kind) is not None:
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

    async def _look_up(self, room: str, ids: Iterable[str]) -> None:
        """Learn who sent the events that others refer to; of very many, only some."""
        unknown = [id_ for id_ in dict.fromkeys(ids) if self._connection.authors.get(id_) is None]
        asked = unknown[: self._lookups]
        self._lookups -= len(asked)
        await self._connection.learn_authors(room, asked)

    async def _commit_part(self) -> None:
        await kit.emit_valid(self._session, self._batch, logger=logger)
        self._batch, self._files = [], 0

    def _invitations(self, rooms: dict[str, Any]) -> None:
        """Add the events of invitations, and note the rooms to join."""
        connection = self._connection
        allowed, joining = connection.options.join_invites, connection.state.joining
        for room, invited in rooms.items():
            event = events.invitation(room, invited, self._connection.account)
            if event is None:
                continue
            self._add(event)
            if self._session.catalog.get(event.kind) is None:
                told = kit.network_event(events.SOURCE, "m.room.member", msgspec.json.encode(invited))
                self._batch.append(msgspec.structs.replace(told, event_id=None))
            is_direct = event.data["isDirect"]
            # A room that replaces one of the account's is no new room.
            is_known = connection.replaced.get(room) is not None
            is_accepted = is_known or allowed == "all" or (allowed == "direct" and is_direct)
            if is_accepted and len(joining) < MOST_JOINS:
                joining[room] = event.data["author"] if is_direct else ""
                self._to_join.append(room)

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
            client = self._connection.client
            path = ("rooms", room, "receipt", "m.read", id_)
            await client.in_place(partial(client.post, *path, body={}))
        except NetworkRefused as error:
            logger.warning(
                "not marked as read", instance=self._session.instance, room=room, reason=str(error)
            )


def _targets(found: Iterable[dict[str, Any]], start: Start | None) -> Generator[None, None, list[str]]:
    """Return the ids that events refer to, as many as could be looked up."""
    targets: list[str] = []
    for event in found:
        if (start is None or start.includes(event)) and len(targets) < _MOST_TARGETS:
            target = _target(event)
            if 0 < len(target) <= events.LONGEST_ID:
                targets.append(target)
        yield
    return targets


def _translate_some(
    rest: Iterator[dict[str, Any]], room: str, account: Account, start: Start | None
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
    relation = mapping(content.get("m.relates_to"))
    if event.get("type") in ("m.reaction", *events.VOTES) or relation.get("rel_type") == "m.replace":
        return text(relation.get("event_id"))
    return ""
