"""The log: the accepted events of an instance in order, whoever wanted them, in every engine.

The table of events is the log itself. A commit writes no index for it, which would cost more than the event.
Instead, entries (:class:`Entry`) are written behind the commits, many at a time, as a *run*: sorted by
instance, behind all earlier runs. To list an instance's events, a search looks into each run once.

Events that are in no run yet are the *tail*. A search reads it from the events themselves, up to
:data:`TAIL_ROWS` of them, so a list has what was accepted a moment ago. Beyond, it says how far it reaches.

The index is sorted by instance. So a list of several instances reads the events themselves, as it does the
tail, and ends early if that takes long.

An entry has hashes of the chat, the sender and the message, so a search that finds an entry looks into the
payload, too.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias

import msgspec
import trio

from hookgw.fair.excess import Excess
from hookgw.kernel.errors import Conflict, Invalid, StorageUnavailable
from hookgw.records.chats import NUMBER, message_subjects, plain_jid, subjects_in
from hookgw.records.sentences import CURSOR_OF_PAGE
from hookgw.store import searches
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx, Tx_contra
from hookgw.store.dialects import Dialect
from hookgw.store.generations import Generations
from hookgw.store.persons import Person, names_person, person
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import EventPage, EventQuery, EventReport, LoggedEvent, seconds

INDEX_EVERY = 30.0
"""Seconds after which events get their entries, however few they are. A run of few costs more for each."""
INDEX_ROWS = 2_000
INDEX_BYTES = 4 * 2**20
"""The most events of a run, and bytes of their payloads, or one event."""
INDEX_REST = 0.01
"""Seconds between two runs while there is much to index."""

TAIL_ROWS = 5_000
"""Events without entries that a search looks at."""

# Deliveries, or events of the log, that are removed in one commit, and the seconds between two. Commits are
# held up for a few milliseconds, and pruning still keeps pace with 10,000 deliveries a second.
PRUNE_STEP = 200
PRUNE_REST = 0.01
PRUNE_BYTES = 2 * 2**20
"""The most bytes of payloads of such a commit, or one payload: a data file overwrites each of their pages."""
ALLOWANCE = 2**28
"""Bytes by which the log may grow before anybody has said its limit."""
COUNTED_EVENTS = 40_000
"""Events whose runs are summed up in one turn of the reader, which takes 10 ms. A run has up to 2,000 of
them, or the few that came in half a minute: turns of twenty runs took three minutes for a year of these."""
FORGOTTEN_RUNS = 1_000

ENTRY_BYTES = 60
"""About what an entry takes."""

# Numbers of 18 digits always fit 64-bit integers.
_CURSOR = re.compile(r"([0-9a-f]{12})\.(-?[0-9]{1,18})\.([0-9]{1,18})", re.ASCII)

NONE, SEVERAL = 0, 1
_HASHED = 2**40
"""Every hash is at least this: all have as many bytes, so that one is overwritten where it is."""
BLANK = _HASHED

Place: TypeAlias = tuple[int, int]
"""Where in the log an event is: the number of its transaction, 0 in a data file, and that of the event."""


Entry: TypeAlias = tuple[int, int, Any, int, int, int, int, int]
"""What a run has of an event: its instance, number and kind; when it was accepted, in microseconds; hashes of
its chat, sender and message (:func:`hash_of`); about the bytes that it takes if nobody wanted it, or 0."""


class Run(NamedTuple):
    """Entries that are to be written: those of the events after one place and up to another.

    Attributes:
        entries: sorted by instance and number.
        events: how many there are, with those that get no entry.
        transactions: those of the events, if the engine has them.
    """

    after: Place
    last: Place
    entries: list[Entry]
    events: int
    transactions: Mapping[int, int] = {}

    @property
    def times(self) -> tuple[int, int]:
        times = [entry[3] for entry in self.entries]
        return min(times), max(times)


class LogPart(NamedTuple):
    """A part of a search.

    Attributes:
        found: matching events, in the order of the search, each with its place.
        next: behind which place the search goes on; ``None`` at the end.
        searched: when the last event that it looked at was accepted, in microseconds.
    """

    found: list[tuple[Place, LoggedEvent]]
    next: Place | None
    searched: int | None = None


class LogState(NamedTuple):
    """The log of an instance at one moment. Times are in microseconds.

    Attributes:
        generations: name this log.
        begins_at: all events that were accepted since then are in it.
        indexed: where the entries end and the tail begins.
        end: where a search of the tail ends; ``None`` for its own end.
        reached: when the event there was accepted.
    """

    generations: Generations
    begins_at: int
    indexed: Place
    end: Place | None = None
    reached: int | None = None

    def cursor(self, place: Place) -> str:
        return f"{self.generations.current}.{place[0]}.{place[1]}"


class Unwanted(NamedTuple):
    """An unwanted event of an instance that holds too much, and the run that has its entry."""

    run: int
    instance: int
    place: Place
    size: int


class Sought(msgspec.Struct, frozen=True):
    """What a query looks for: the hashes that entries may have, and what the payload then must be about."""

    chat: tuple[str, ...] = ()
    sender: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    texts: tuple[tuple[bytes, ...], ...] = ()  # a payload has one of each
    person: Person | None = None

    @classmethod
    def of(cls, query: EventQuery) -> Sought:
        message = () if query.message is None else (query.message,)
        texts = [] if query.text is None else [searches.spellings(query.text)]
        if named := None if query.person is None else person(query.person):
            texts.append(named.spellings)
        chat = _names_of(query.chat) + tuple(map(plain_jid, query.chat_names))
        return cls(chat, _names_of(query.sender), message, tuple(texts), named)

    @property
    def is_hashed(self) -> bool:
        """Whether entries say of most events whether they match."""
        return bool(self.chat or self.sender or self.message)

    def conditions(self) -> Iterator[str]:
        """Yield the conditions on the columns of an entry ``l``."""
        for column, names in (("chat", self.chat), ("sender", self.sender), ("message", self.message)):
            if names:
                hashes = [SEVERAL, *(hash_of((name,)) for name in names)]
                yield f"l.{column} IN ({', '.join(map(str, hashes))})"

    def concerns(self, data: bytes, account: str | None) -> bool:
        """Return whether a payload is about what is sought."""
        if not all(any(text in data for text in one) for one in self.texts):
            return False
        if self.person is not None and not names_person(data, self.person):
            return False
        if not self.is_hashed:
            return True
        found = subjects_in(data, account)
        return all(
            not names or not set(names).isdisjoint(has)
            for names, has in zip((self.chat, self.sender, self.message), found, strict=True)
        )


class LogSearch(msgspec.Struct, frozen=True):
    """A part of a search for matches of a query; the query's cursor and limit have no effect.

    Attributes:
        after, until: between which places of the log, without the first one; ``None`` for no bound.
        rows: the most events to look at, whether they match or not.
        wanted: the most events to return.
    """

    query: EventQuery
    sought: Sought
    after: Place | None
    until: Place | None
    rows: int
    wanted: int

    def conditions(self, dialect: Dialect) -> tuple[list[str], list[str], dict[str, Any]]:
        """Return the conditions on an entry or event ``l``, the conditions on its payload, and all values."""
        limits, moments = searches.in_time(self.query, dialect.mark.format("{}_time"), "l.accepted_at")
        given: dict[str, Any] = {f"{name}_time": moment for name, moment in moments.items()}
        given |= {"rows": self.rows, "wanted": self.wanted, "bytes": searches.EVENT_BYTES}
        if self.query.kinds:
            limits.append(dialect.among.format("l.kind", "kinds"))
            given["kinds"] = dialect.array(self.query.kinds)
        payload = []
        if self.query.seeks_delivery:  # before the payload, which takes longer
            condition, values = dialect.has_delivery(self.query)
            payload.append(condition)
            given |= values
        for place, texts in enumerate(self.sought.texts):
            names = [f"text{place}_{number}" for number in range(len(texts))]
            given |= zip(names, texts, strict=True)
            payload.append(f"({' OR '.join(dialect.contains.format(name) for name in names)})")
        return limits, payload or ["true"], given


class LogStatements(Protocol[C_contra, Tx_contra]):
    """What an engine brings, as a module."""

    def read_state(self, connection: C_contra, query: EventQuery) -> LogState:
        """Return the state of the log that a query is for; it may be that of several instances."""

    def read_unindexed(self, connection: C_contra, rows: int, size: int) -> Run | None:
        """Return the next run; ``None`` if all events have their entries."""

    def add_run(self, transaction: Tx_contra, run: Run) -> None:
        """Write a run, without events that were removed meanwhile, unless another node was faster."""

    def search_entries(self, connection: C_contra, search: LogSearch) -> LogPart: ...

    def search_tail(self, connection: C_contra, search: LogSearch) -> LogPart: ...

    def find_event(
        self, connection: C_contra, instance: str, event_id: str, *, without_global: bool = False
    ) -> EventReport | None: ...

    def count_unwanted(
        self, connection: C_contra, after: int, events: int
    ) -> tuple[int | None, int, dict[int, int]]:
        """Count the entries of the next runs, and the bytes of unwanted events in them by instance.

        Args:
            after: the last run of the former part.
            events: about as many of them.

        Returns:
            The last run, ``None`` at the end; all entries; the bytes.
        """

    def oldest_unwanted(
        self,
        connection: C_contra,
        holders: Sequence[int],
        after: Unwanted | None,
        rows: int,
    ) -> list[Unwanted]:
        """Return the oldest unwanted events of some instances, behind the last one of the former step."""

    def remove_unwanted(self, transaction: Tx_contra, seqs: Sequence[int]) -> int:
        """Reduce events to their ids, as far as nobody wants them still; return how many."""

    def empty_runs(self, connection: C_contra, most: int) -> list[int]:
        """Return the oldest runs that have no entries any more, and never will."""

    def forget_runs(self, transaction: Tx_contra, runs: Sequence[int]) -> None: ...


def before(place: Place) -> Place:
    """Return the last place that may be before another one."""
    return place[0], place[1] - 1


def _earlier(one: Place | None, other: Place | None) -> Place | None:
    """Return the earlier of two places, where ``None`` is the end of the log."""
    given = [place for place in (one, other) if place is not None]
    return min(given, default=None)


def _names_of(name: str | None) -> tuple[str, ...]:
    if name is None:
        return ()
    # People know the number alone.
    return (name, name + NUMBER) if name.isdecimal() else (plain_jid(name),)


def _seconds(moment: int | None) -> float | None:
    return None if moment is None else seconds(moment)


def hash_of(names: Sequence[str]) -> int:
    """Return what an entry has for some names: :data:`NONE`, :data:`SEVERAL`, or the hash of one."""
    if not names:
        return NONE
    if len(names) > 1:
        return SEVERAL
    return _remembered_hash(names[0])


def _hash(name: str) -> int:
    return _HASHED | zlib.crc32(name.encode("utf-8", "surrogatepass"))


_remembered_hash = lru_cache(maxsize=10_000)(_hash)


def entry_of(
    instance: int,
    seq: int,
    kind: Any,
    accepted_at: int,
    heard: int,
    account: str | None,
    data: bytes | memoryview,
) -> Entry:
    unwanted = 0 if heard else stored_bytes(len(data))
    if (one := message_subjects(data, account)) is not None:
        chat = _remembered_hash(one[0])
        sender = chat if one[1] == one[0] else _remembered_hash(one[1]) if one[1] else NONE
        # Few chats have many events, and every message has an id of its own: its hash is not kept in memory.
        message = _hash(one[2]) if one[2] else NONE
        return instance, seq, kind, accepted_at, chat, sender, message, unwanted
    chats, senders, messages = map(hash_of, subjects_in(data, account))
    return instance, seq, kind, accepted_at, chats, senders, messages, unwanted


@lru_cache(maxsize=5_000)
def stored_bytes(size: int) -> int:
    """Return about what an event with a payload of some bytes takes in a data file; see history.py there."""
    return 4096 // max(1, 4060 // (size + 60)) if size < 4000 else size + 400


class SteppedLog(Generic[C, Tx]):
    """The log; see :class:`hookgw.store.History`. ``read_unindexed`` replaces that of the statements."""

    def __init__(
        self,
        commits: GroupCommit[Tx],
        lists: ConnectionReader[C],
        background: ConnectionReader[C],
        statements: LogStatements[C, Tx],
        read_unindexed: Callable[[C, int, int], Run | None] | None = None,
    ) -> None:
        self._read_unindexed = read_unindexed or statements.read_unindexed
        self._commits = commits
        self._lists = lists
        self._background = background
        self._sql = statements
        self.find_event = lists.bound(statements.find_event)
        self._indexed_at = -1
        self._appended = trio.Event()
        self._appended.set()  # a former process may have left some
        self._is_due = trio.Event()
        self._grown = trio.Event()
        self._allowance = ALLOWANCE
        self._looked_at = 0

    def committed(self) -> None:
        """Note a commit. It must be quick."""
        new = self._commits.events - self._indexed_at
        if new and not self._appended.is_set():
            self._appended.set()
        if new >= INDEX_ROWS and not self._is_due.is_set():
            self._is_due.set()
        if self._commits.unwanted - self._looked_at > self._allowance and not self._grown.is_set():
            self._grown.set()

    async def wait_growth(self) -> None:
        """Wait until the log has grown by a quarter of its limit since this returned last."""
        await self._grown.wait()
        self._grown, self._looked_at = trio.Event(), self._commits.unwanted

    async def run(self) -> None:
        """Write entries behind the commits, until cancelled."""
        # Processes that ended within INDEX_EVERY may have left more than a search looks at: their events
        # would be missing from lists until then.
        with suppress(StorageUnavailable):
            state = await self._background.run(partial(self._sql.read_state, query=EventQuery(instance=None)))
            if state.reached is not None:
                await self.index()
        while True:
            await self._appended.wait()
            with trio.move_on_after(INDEX_EVERY):
                await self._is_due.wait()
            is_due, before = self._is_due.is_set(), self._commits.events
            due, self._indexed_at = before - self._indexed_at, before
            self._appended, self._is_due = trio.Event(), trio.Event()
            try:
                # Not the few that come meanwhile: their run would cost as much as one of many.
                done = await self.index(due if is_due else None)
            except StorageUnavailable:
                self._appended.set()  # again, after the usual time
                continue
            if is_due:
                self._appended.set()
                self._indexed_at = min(self._commits.events, before + max(0, done - due))
                if self._commits.events - self._indexed_at < INDEX_ROWS:
                    self._is_due = trio.Event()

    async def index(self, events: int | None = None) -> int:
        """Write the entries of so many events or more, by default of all; return of how many."""
        done = 0
        while events is None or done < events:
            run = await self._background.run(lambda c: self._read_unindexed(c, INDEX_ROWS, INDEX_BYTES))
            if run is None:
                break
            await self._commits.call(partial(self._sql.add_run, run=run))
            done += run.events
            await trio.sleep(INDEX_REST)
        return done

    async def list_events(self, query: EventQuery) -> EventPage:
        state = await self._lists.run(partial(self._sql.read_state, query=query))
        place = self._place_of(query.cursor, state.generations)
        sought = Sought.of(query)
        found: list[LoggedEvent] = []
        page = partial(EventPage, found, begins_at=seconds(state.begins_at), reached=_seconds(state.reached))
        if () in (query.among, query.registrations):
            return page(None)
        deadline = trio.current_time() + searches.LIST_SECONDS
        # A search for a text reads the payloads, and one by deliveries looks each event's up.
        is_slow = sought.texts or query.seeks_delivery
        rows = searches.LEAST_ROWS if is_slow else max(searches.FIRST_ROWS, query.limit + 1)
        size, cursor = 0, None
        for search, after, until in self._ranges(query, state, place):
            bounds = after, until
            while True:
                # One more than wanted, to know whether there is a next page.
                wanted = query.limit + 1 - len(found)
                is_all = query.takes_all and search == self._sql.search_entries
                most = max(wanted, searches.LEAST_ROWS) if is_all else rows
                if sought.is_hashed and (search == self._sql.search_tail or query.instance is None):
                    # Without entries, the payloads are looked through here: not one or two at a time.
                    wanted = max(wanted, searches.LEAST_ROWS)
                look = partial(search, search=LogSearch(query, sought, *bounds, most, wanted))
                part, seconds_taken = await self._lists.run(searches.timed(look))
                for behind, event in part.found:
                    one = event.event
                    size += len(one.data_json) + len(one.sender or "") + len(one.server_url or "")
                    if found and (len(found) == query.limit or size > searches.EVENT_BYTES):
                        return page(cursor)
                    found.append(event)
                    cursor = state.cursor(behind)
                if part.next is None:
                    break
                if trio.current_time() >= deadline:
                    return page(state.cursor(part.next), searched=_seconds(part.searched))
                bounds = (part.next, until) if query.is_oldest_first else (after, before(part.next))
                rows = searches.next_rows(rows, seconds_taken)
        return page(None)

    @staticmethod
    def _place_of(cursor: str | None, generations: Generations) -> Place | None:
        if cursor is None:
            return None
        found = _CURSOR.fullmatch(cursor)
        if found is None:
            raise Invalid(CURSOR_OF_PAGE)
        place = int(found[2]), int(found[3])
        if not generations.has(found[1], place[0]):
            raise Conflict.of(
                "log.cursor_of_former_log",
                "The cursor is from before a backup was restored: the log is another one since. "
                "Leave the cursor out to begin anew.",
            )
        return place

    def _ranges(
        self, query: EventQuery, state: LogState, place: Place | None
    ) -> Iterator[tuple[Callable[..., LogPart], Place | None, Place | None]]:
        """Yield the parts of the log that are to be searched, in order, and between which places."""
        entries, tail = self._sql.search_entries, self._sql.search_tail
        if query.is_oldest_first:
            if place is None or place < state.indexed:
                yield entries, place, state.indexed
            yield tail, state.indexed if place is None else max(place, state.indexed), state.end
            return
        last = None if place is None else before(place)
        back_to = self._place_of(query.back_to, state.generations)
        first = None if back_to is None else before(back_to)
        if last is None or last > state.indexed:
            unindexed = state.indexed if first is None else max(first, state.indexed)
            yield tail, unindexed, _earlier(last, state.end)
        if first is None or first < state.indexed:
            yield entries, first, _earlier(last, state.indexed)

    async def enforce_limit(self, limit: int) -> tuple[int, int]:
        """Reduce the oldest unwanted events of the instances that hold most to their ids until all fit.

        Args:
            limit: the most bytes of all unwanted events.

        Returns:
            How many events went, and about what the log takes beside the events that somebody wanted.
        """
        self._allowance = limit // 4
        await self.index()
        entries, held = 0, dict[int, int]()
        last: int | None = 0
        while last is not None:
            count = partial(self._sql.count_unwanted, after=last, events=COUNTED_EVENTS)
            last, more, sizes = await self._background.run(count)
            entries += more
            for instance, size in sizes.items():
                held[instance] = held.get(instance, 0) + size
            await trio.sleep(PRUNE_REST)
        total, removed, former = sum(held.values()), 0, None
        excess = Excess(held, limit)
        while excess.left:
            find = partial(self._sql.oldest_unwanted, after=former, rows=PRUNE_STEP)
            found = await self._background.run(partial(find, holders=list(excess.left)))
            if not found:
                break
            chosen, size = list[Unwanted](), 0
            for one in found:
                if one.instance in excess.left and (not chosen or size + one.size <= PRUNE_BYTES):
                    size += one.size
                    excess.take(one.instance, one.size)
                    chosen.append(one)
                elif one.instance in excess.left:
                    break
                former = one
            remove = partial(self._sql.remove_unwanted, seqs=[one.place[1] for one in chosen])
            removed += await self._commits.call(remove)
            total -= size
            await trio.sleep(PRUNE_REST)
        # Found beside the commits, because it looks at all runs.
        while empty := await self._background.run(partial(self._sql.empty_runs, most=FORGOTTEN_RUNS)):
            await self._commits.call(partial(self._sql.forget_runs, runs=empty))
            await trio.sleep(PRUNE_REST)
        return removed, total + entries * ENTRY_BYTES
