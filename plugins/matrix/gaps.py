"""What happened in a room between two syncs: paged back from the newest event, and added oldest first.

A homeserver's tokens cannot be compared: on Dendrite, ``s12_4`` and ``t9_12`` may be the same place. So where
a homeserver does not say itself that a gap has ended, it ends at an event: the newest one before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from typing import Any

import msgspec
import structlog

from hookgw.connectors import Unreachable, each, found_at, mapping, number, text

from .client import Refused
from .connection import Connection

logger = structlog.get_logger("hookgw.matrix")

PAGE = 100
"""Events of a room in one answer."""
_MOST_PAGES = 10_000
_MOST_HOPS = 10
_MOST_KEPT = 1_000
"""Events of a room that are kept decoded. More are decoded anew for each look at them."""
_EVENTS_OF_PAGE = ["/chunk/#", "/state/#"]

Timeline = list[dict[str, Any]]


class _Again:
    """Events that are decoded anew whenever somebody looks at them."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return each(self._found)


class _Part(msgspec.Struct, frozen=True):
    """A page of a gap, as it is read again.

    Attributes:
        begin, to: the tokens of the request.
        oldest: the id of its oldest event.
    """

    begin: str
    to: str
    oldest: str


class Gaps:
    """Reads the gaps of an account's rooms.

    Attributes:
        limit: of the events in an answer: less than :data:`PAGE` after an answer that was too much.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.session
        self.limit = PAGE

    def less(self) -> None:
        """Ask for less: the last answer may have been too large, or too slow."""
        self.limit = max(1, self.limit // 2)

    async def fill(  # noqa: C901 -- two passes, one after the other
        self,
        room: str,
        newest: str,
        timeline: Iterable[dict[str, Any]],
        start: Start | None,
        maybe: Start | None,
        add: Callable[[Timeline, Start | None], Awaitable[None]],
    ) -> Start | None:
        """Add the events of a room between the last sync and the timeline of this one, in order.

        They can only be read backwards. So the first pass notes where each page begins, and keeps none but
        the oldest page; the second pass reads the others again, oldest first. A gap of one page needs one
        request, or two, and a gap of any length has one page in memory.

        Args:
            room: the room.
            newest: where the timeline of this sync begins.
            timeline: the events of this sync.
            start: where the room begins, if the account has joined it in this timeline.
            maybe: where it begins, if the account has joined it in the gap.
            add: takes the pages.

        Returns:
            Where the room begins.
        """
        in_turns, log = self._session.in_turns, logger.bind(instance=self._session.instance, room=room)
        since = "" if start else self._connection.state.since
        begin, to, asked = newest, since, {newest}
        parts, oldest = list[_Part](), Timeline()
        known: str | None = None  # the newest event before the gap; asked for once there are more pages
        is_known = not since
        while True:
            try:
                page, end = await self._page(room, begin, to)
                if not is_known and end and end != since:
                    known, is_known = await self._newest_at(room, since), True
                    # Of a room that was left, Dendrite gives the last page, whatever place is asked for.
                    is_last_page = await in_turns(_has(timeline, known or ""))
                    known = None if is_last_page else known
            except Refused as error:
                if error.is_temporary or error.is_logged_out:
                    raise
                # The account has left the room, or is banned from it.
                log.warning("gap not readable", reason=str(error))
                break
            page, is_last = await in_turns(_behind(page, known))
            if page:
                oldest = page
                parts.append(_Part(begin, to, text(page[0].get("event_id"))))
            if start is None and maybe is not None:
                has_join = await in_turns(maybe.has_join(page))
                start = maybe if has_join else None
            if is_last or not end or end == since:
                break
            if not page and to and known is not None:
                # Dendrite takes the first event of a gap for a part of what was before, so the end of the gap
                # is looked for without its help.
                to = ""
                continue
            if end in asked:
                break
            if start is not None and await in_turns(start.is_in(page)):
                break
            if len(asked) == _MOST_PAGES:
                log.error("gap too long", pages=len(asked))
                break
            asked.add(end)
            begin = end
        await add(oldest, start)
        for part in reversed(parts[:-1]):
            await add(await self._again(room, part), start)
        return start

    async def _newest_at(self, room: str, since: str) -> str | None:
        """Return the id of the newest event of a room at the last sync; ``None`` if nobody knows.

        It is empty if the account saw nothing of the room then.
        """
        begin = since
        for _ in range(_MOST_HOPS):
            try:
                page, end = await self._page(room, begin, "", limit=1)
            except Refused as error:
                if error.is_temporary or error.is_logged_out:
                    raise
                return None
            if page:
                return text(page[-1].get("event_id"))
            if not end or end == begin:
                return ""
            begin = end
        return None

    async def _again(self, room: str, part: _Part) -> Timeline:
        page, end = await self._page(room, part.begin, part.to)
        asked = {part.begin}
        for _ in range(PAGE):
            page, is_whole = await self._session.in_turns(_behind(page, part.oldest, skips=0))
            if is_whole or not end or end in asked:
                break
            # Fewer events than the first time, or none: all of a page may be filtered, or left out.
            asked.add(end)
            more, end = await self._page(room, end, part.to)
            page = [*more, *page]
        return page

    async def _page(self, room: str, begin: str, to: str, limit: int | None = None) -> tuple[Timeline, str]:
        """Return a page of a room, oldest event first, and the token of the page before it."""

        async def ask() -> dict[str, Any]:
            query = {
                "dir": "b",
                "from": begin,
                "limit": str(limit or self.limit),
                # Without types: Dendrite applies them after the limit, and calls a page that is empty then
                # the end of the room.
                "filter": '{"lazy_load_members":true}',
            }
            if to:
                query["to"] = to
            try:
                path = ("rooms", room, "messages")
                return await self._connection.client.get(*path, query=query, events=_EVENTS_OF_PAGE)
            except Unreachable:
                self.less()
                raise

        # A page that fails must not cost the pages before it: a homeserver that limits requests would never
        # let the whole gap pass.
        answer = await self._connection.client.in_place(ask)
        in_turns = self._session.in_turns
        await in_turns(self.learn(room, answer.get("state")))
        await in_turns(self.learn(room, answer.get("chunk")))
        return await in_turns(_reversed(answer.get("chunk"))), text(answer.get("end"))

    def learn(
        self, room: str, found: Any
    ) -> Generator[None, None, tuple[Iterable[dict[str, Any]], dict[str, Any] | None]]:
        """Keep what later events refer to; see :meth:`Connection.learn`.

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
            self._connection.learn(event, room)
        return kept if is_kept else _Again(found), joined


class Start:
    """Where a room begins that the account has just joined.

    It begins with the invitation, because people write right after they invite, or else with the join. What
    happened before the instance connected for the first time is history in any case. A room that replaces
    another one of the account begins when it did.

    Args:
        joined: the event of the join.
        started: the time of the first connect, or of the replacement, in milliseconds since the epoch.
        is_whole: whether the room replaces another one.
    """

    def __init__(self, joined: dict[str, Any], started: int, *, is_whole: bool) -> None:
        unsigned = mapping(joined.get("unsigned"))
        self._join = text(joined.get("event_id"))
        self._started = started
        self._invite = ""
        if found_at(unsigned, "prev_content", "membership") == "invite":
            self._invite = text(unsigned.get("replaces_state"))
        self._is_whole = is_whole
        self._is_past_invite = self._is_past_join = False

    def is_in(self, found: Iterable[dict[str, Any]]) -> Generator[None, None, bool]:
        """Return whether a part of the timeline reaches back to the start."""
        if self._is_whole:
            return _has_older(found, self._started)
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
        return (self._is_past_invite or self._is_whole) and isinstance(time, int) and time >= self._started


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


def _has_older(found: Iterable[dict[str, Any]], time: int) -> Generator[None, None, bool]:
    for event in found:
        if (number(event.get("origin_server_ts")) or 0) < time:
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


def _behind(page: Timeline, id_: str | None, skips: int = 1) -> Generator[None, None, tuple[Timeline, bool]]:
    """Return the events after the given one, and whether the page has it.

    With ``skips=0``, the given event comes first.
    """
    for index, event in enumerate(page):
        if id_ and event.get("event_id") == id_:
            return page[index + skips :], True
        yield
    return page, False
