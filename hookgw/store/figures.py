"""Figures over time, in every engine: counted in each commit, folded into rows, added up when they are read.

*Exact.* A commit that stores events or outcomes inserts one row of ``figure_news`` that counts them, in the
same transaction: nothing is counted that is not stored, or stored and not counted, whenever the process is
killed and whoever else writes. Counting the tables again after a kill was the alternative: they have lost
what was pruned, erased or sent again since, and an index for failed attempts would cost each of them more.

*Cheap.* A commit does no more than that one row, because a row for each webhook, instance and tag that it
concerns would be a page for each. A fold takes these rows together, adds them up in memory, and changes each
row of ``figures`` once. These are ordered by time first, so a fold writes pages that lie together, and what
is old goes by ranges. A series is read by one search for each of its steps.

*The oldest pending.* Its age is no event that a commit could count: whoever folds brings it along, and a row
keeps the greatest.

*Summed.* Nodes insert news of their own, and one of them at a time folds those of all, also of a node that
was killed.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol

import msgspec
import trio

from hookgw.kernel.collaborator import Collaborator
from hookgw.records.figures import FIVE_MINUTES, GATEWAY, MINUTE, FigureCounts, Holder
from hookgw.records.instances import is_retired
from hookgw.records.registrations import GLOBAL_INSTANCE, is_global
from hookgw.records.rhythms import HOUR
from hookgw.store import steps
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx, Tx_contra
from hookgw.store.figure_news import Entry, count, decode_news
from hookgw.store.reader import C, C_contra, ConnectionReader

ROW_BYTES = 100
"""What a row takes beside its ``more``, about; and that has as much."""
FOLD_BYTES = 2**20
"""Bytes of news that one commit of a fold counts, or a single longer row: all other writes wait meanwhile."""
REST = 0.01
"""Seconds between two commits, in which others write."""
KEEP_FINE = 25 * HOUR
"""Seconds after which minutes become hours: a day of minutes can be shown at any time."""
KEEP_HOURS = 31 * 24 * HOUR
LEAST_FINE = 2 * HOUR
"""Seconds for which minutes stay minutes even if the figures have reached their limit."""


class More(msgspec.Struct, array_like=True):
    """What a row has in JSON: numbers and counts in turn, and the age of the oldest pending, if any."""

    failed: list[int]
    receiver: list[int]
    whole: list[int]
    oldest: int = 0


_encode = msgspec.json.Encoder().encode
_more_of = msgspec.json.Decoder(More).decode


class Place(NamedTuple):
    """A row of figures: the length of its step in seconds, when that begins, and the engine's key of who."""

    step: int
    at: int
    holder: Any


class FigureRow(NamedTuple):
    """A row of figures, as engines read and write it; ``more`` is JSON."""

    step: int
    at: int
    holder: Any
    accepted: int
    delivered: int
    dead: int
    dropped: int
    more: str


class FigureStatements(Protocol[C_contra, Tx_contra]):
    """What an engine brings, as a module. Times are whole seconds since the epoch.

    A key of a holder is what the engine stores; an instance keeps its key when it is renamed.
    """

    def take_news(self, transaction: Tx_contra, limit: int, size: int) -> str | None:
        """Remove the oldest news, and return them as an array of JSON; ``None`` if another node has them.

        There are so many rows at most. The row with which they reach so many bytes is the last.
        """

    def names_of(
        self, transaction: Tx_contra, registrations: Collection[int | str], instances: Collection[int]
    ) -> tuple[Mapping[int | str, str], Mapping[int, str]]:
        """Return the ids of registrations, and the names of instances, that entries have."""

    def keys_of(self, transaction: Tx_contra, holders: Collection[Holder]) -> Mapping[Holder, Any]:
        """Return the keys of holders, which are made if they are new."""

    def read_rows(self, connection: C_contra, places: Collection[Place]) -> list[FigureRow]: ...

    def write_rows(self, transaction: Tx_contra, rows: Sequence[FigureRow]) -> None:
        """Write rows, and replace those that are there."""

    def take_oldest(self, transaction: Tx_contra, step: int, before: int, limit: int) -> list[FigureRow]:
        """Remove the oldest rows with a length of steps, of before a time, and return them."""

    def read_series(
        self, connection: C_contra, holders: Collection[Holder], span: Mapping[str, int]
    ) -> list[FigureRow]:
        """Return the rows of some holders: those of a ``step``, ``since`` a time and ``until`` another."""

    def sum_parts(
        self, connection: C_contra, holders: Sequence[Holder], span: Mapping[str, int]
    ) -> list[tuple[str, int, int, int]]:
        """Return the names of holders, numbers of parts, and what was delivered and died in these.

        ``span`` has the length of a ``part``, too.
        """

    def measure(self, connection: C_contra) -> int:
        """Return how many bytes the figures take, about."""

    def oldest_step(self, connection: C_contra, step: int) -> int | None:
        """Return when the oldest row with a length of steps begins."""

    def oldest_pending(self, connection: C_contra, registrations: Collection[str]) -> Mapping[str, float]:
        """Return since when the oldest pending delivery of each registration is pending."""


class SteppedFigures(Collaborator, Generic[C, Tx]):
    """Figures over time; see :class:`hookgw.store.FigureStore`."""

    _commits: GroupCommit[Tx]
    _lists: ConnectionReader[C]
    _background: ConnectionReader[C]
    _sql: FigureStatements[C, Tx]

    def __post_init__(self) -> None:
        # Bytes written since the figures were last measured.
        self._unmeasured = math.inf

    async def fold_figures(
        self, tags: Mapping[str, Collection[str]], ages: Mapping[Holder, float] = {}, at: float = 0.0
    ) -> bool:
        left = list(ages.items())
        while True:
            some, left = dict(left[: steps.STEP]), left[steps.STEP :]
            folded = await self._commits.call(partial(self._fold, tags=tags, ages=some, at=int(at)))
            if folded is None or (folded.is_all and not left):
                return folded is not None
            await trio.sleep(REST)

    def _fold(
        self, transaction: Tx, tags: Mapping[str, Collection[str]], ages: Mapping[Holder, float], at: int
    ) -> Folded | None:
        folded = fold(self._sql, transaction, tags, ages, at)
        if folded is not None:
            self._unmeasured += folded.rows * ROW_BYTES
        return folded

    async def read_figures(
        self, holders: Collection[Holder], step: int, since: int, until: int
    ) -> dict[int, FigureCounts]:
        found: defaultdict[int, FigureCounts] = defaultdict(FigureCounts)
        for kept in (MINUTE, FIVE_MINUTES, HOUR):
            mine = [one for one in holders if kept in (one.step, HOUR)]
            if not mine:
                continue
            span = {"step": kept, "since": since, "until": until}
            for row in await self._lists.run(partial(self._sql.read_series, holders=mine, span=span)):
                found[row.at - row.at % step].add(_counts_of(row))
        return dict(sorted(found.items()))

    async def sum_figures(
        self, registrations: Sequence[str], since: int, until: int, part: int
    ) -> dict[str, dict[int, tuple[int, int]]]:
        found: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in registrations}
        holders = [Holder("webhook", name) for name in registrations]
        for kept in (FIVE_MINUTES, HOUR):
            span = {"step": kept, "since": since, "until": until, "part": part}
            look = partial(self._sql.sum_parts, holders=holders, span=span)
            for name, number, delivered, dead in await self._lists.run(look):
                former = found[name].get(number, (0, 0))
                found[name][number] = (former[0] + delivered, former[1] + dead)
        return found

    async def oldest_pending(self, registrations: Collection[str]) -> Mapping[str, float]:
        if not registrations:
            return {}
        return await self._lists.run(partial(self._sql.oldest_pending, registrations=registrations))

    async def prune_figures(self, *, now: float, limit: int) -> None:
        hour = int(now) - int(now) % HOUR
        await self._roll_up(hour - KEEP_FINE)
        await self._remove_hours(hour - KEEP_HOURS)
        if self._unmeasured < limit / 20:
            return
        self._unmeasured = 0
        # Fine steps first: they have most of the bytes, and the hours tell the same in fewer.
        while await self._background.run(self._sql.measure) > limit:
            oldest = await self._oldest(MINUTE, FIVE_MINUTES)
            if oldest is not None and oldest < hour - LEAST_FINE:
                await self._roll_up(oldest - oldest % HOUR + HOUR)
                continue
            oldest = await self._oldest(HOUR)
            if oldest is None or oldest >= hour - LEAST_FINE:
                return
            await self._remove_hours(oldest + HOUR)

    async def _oldest(self, *steps: int) -> int | None:
        found = [await self._background.run(partial(self._sql.oldest_step, step=step)) for step in steps]
        return min((at for at in found if at is not None), default=None)

    async def _roll_up(self, before: int) -> None:
        """Make hours of the rows of before a time, the beginning of an hour."""
        for step in (MINUTE, FIVE_MINUTES):
            while (oldest := await self._oldest(step)) is not None and oldest < before:
                await self._commits.call(partial(self._roll, step=step, before=before))
                await trio.sleep(REST)

    def _roll(self, transaction: Tx, step: int, before: int) -> None:
        rows = self._sql.take_oldest(transaction, step, before, steps.STEP)
        hours: defaultdict[Place, FigureCounts] = defaultdict(FigureCounts)
        for row in rows:
            hours[Place(HOUR, row.at - row.at % HOUR, row.holder)].add(_counts_of(row))
        if hours:
            self._unmeasured += merge(self._sql, transaction, hours) * ROW_BYTES

    async def _remove_hours(self, before: int) -> None:
        take = partial(self._sql.take_oldest, step=HOUR, before=before, limit=steps.STEP)
        while (oldest := await self._oldest(HOUR)) is not None and oldest < before:
            await self._commits.call(take)
            await trio.sleep(REST)


class Folded(NamedTuple):
    """Whether no news are left, and into how many rows some were folded."""

    is_all: bool
    rows: int


def fold(
    sql: FigureStatements[Any, Tx],
    transaction: Tx,
    tags: Mapping[str, Collection[str]],
    ages: Mapping[Holder, float] = {},
    at: int = 0,
) -> Folded | None:
    """Fold the next news, and the ages of the oldest pending deliveries; ``None`` if another node folds."""
    text = sql.take_news(transaction, steps.STEP, FOLD_BYTES)
    if text is None:
        return None
    news = decode_news(text)
    is_all = len(news) < steps.STEP and len(text) < FOLD_BYTES
    if not news and not ages:
        return Folded(is_all, 0)
    found = _by_holder(sql, transaction, news, tags) if news else {}
    for holder, age in ages.items():
        row = found.setdefault((holder.step, at - at % holder.step, holder), FigureCounts())
        # At least one: zero says that nothing is pending.
        row.oldest = max(1, round(age * 1000))
    keys = sql.keys_of(transaction, {holder for _, _, holder in found})
    # An instance may have been renamed or removed since its age was looked up.
    places = {Place(step, at, keys[one]): counts for (step, at, one), counts in found.items() if one in keys}
    return Folded(is_all, merge(sql, transaction, places) if places else 0)


def fold_rest(sql: FigureStatements[Any, Tx], transaction: Tx) -> None:
    """Fold all news of a storage that no gateway uses; the tags of instances are not known then."""
    while (folded := fold(sql, transaction, {})) is not None and not folded.is_all:
        pass


def _by_holder(  # noqa: C901 -- reads once from top to bottom
    sql: FigureStatements[Any, Tx],
    transaction: Tx,
    news: Sequence[tuple[int, Sequence[Entry]]],
    tags: Mapping[str, Collection[str]],
) -> dict[tuple[int, int, Holder], FigureCounts]:
    """Add up news by steps and holders."""
    # First by what the entries name, which are many, and then by those who have figures.
    minutes: dict[int, defaultdict[tuple[int | str, int], FigureCounts]] = {}
    further: Counter[tuple[int, int | str, int]] = Counter()
    for at, entries in news:
        minute = at - at % MINUTE
        if minute not in minutes:
            minutes[minute] = defaultdict(FigureCounts)
        for pair, number in count(minutes[minute], entries).items():
            further[minute, *pair] += number
    pairs = {pair for counts in minutes.values() for pair in counts}
    ids, names = sql.names_of(transaction, {one for one, _ in pairs if one}, {one for _, one in pairs})
    found: defaultdict[tuple[int, int, Holder], FigureCounts] = defaultdict(FigureCounts)
    for minute, by_pair in minutes.items():
        five = minute - minute % FIVE_MINUTES
        for (registration, instance), counts in by_pair.items():
            name, registration_id = names.get(instance), ids.get(registration)
            is_left = name is not None and not is_retired(name)
            if registration_id is not None and is_left:
                webhook = found[FIVE_MINUTES, five, Holder("webhook", registration_id)]
                webhook.add(counts)
                webhook.accepted += further[minute, registration, instance]
            if name == GLOBAL_INSTANCE:  # operational events are hookgw's own
                continue
            found[MINUTE, minute, GATEWAY].add(counts)
            if name is None or not is_left:
                continue
            if registration_id is not None and is_global(registration_id):
                # Keys of an instance see nothing of webhooks that hear all of them.
                counts = FigureCounts(accepted=counts.accepted)
            found[FIVE_MINUTES, five, Holder("instance", name)].add(counts)
            for tag in tags.get(name, ()):
                found[MINUTE, minute, Holder("tag", tag)].add(counts)
    return found


def merge(sql: FigureStatements[Any, Tx], transaction: Tx, found: Mapping[Place, FigureCounts]) -> int:
    """Add to the rows that are there; return how many were written."""
    for row in sql.read_rows(transaction.connection, found):
        found[Place(*row[:3])].add(_counts_of(row))
    # In the order of the table.
    rows = [_row_of(place, found[place]) for place in sorted(found)]
    sql.write_rows(transaction, rows)
    transaction.count_rows(len(rows))
    return len(rows)


def _counts_of(row: FigureRow) -> FigureCounts:
    more = _more_of(row.more)
    return FigureCounts(
        row.accepted,
        row.delivered,
        row.dead,
        row.dropped,
        _pairs(more.failed),
        _pairs(more.receiver),
        _pairs(more.whole),
        more.oldest,
    )


def _row_of(place: Place, counts: FigureCounts) -> FigureRow:
    more: list[object] = [_flat(counts.failed), _flat(counts.receiver), _flat(counts.whole)]
    if counts.oldest:
        more.append(counts.oldest)
    return FigureRow(
        *place, counts.accepted, counts.delivered, counts.dead, counts.dropped, _encode(more).decode()
    )


def _flat(counts: Mapping[int, int]) -> list[int]:
    """Return counts as numbers and counts in turn: half the bytes of an object."""
    return list(chain.from_iterable(sorted(counts.items())))


def _pairs(flat: Iterable[int]) -> dict[int, int]:
    numbers = iter(flat)
    return dict(zip(numbers, numbers, strict=True))
