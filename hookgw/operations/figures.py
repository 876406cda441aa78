"""Figures over time, as pages and routes ask for them; kept up to date and within their limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.access import names_within
from hookgw.core.backlog import Backlog
from hookgw.core.registry import Registry
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Invalid, StorageUnavailable
from hookgw.records.api_keys import Principal
from hookgw.records.figures import (
    GATEWAY,
    FigureCounts,
    FigurePoint,
    Figures,
    FigureSeries,
    Holder,
    Span,
    Sparkline,
)
from hookgw.records.operational_kinds import OPERATIONS_ID
from hookgw.records.registrations import Registration, is_global
from hookgw.records.rhythms import HOUR
from hookgw.records.tags import tag_texts
from hookgw.store import Store

logger = structlog.get_logger("hookgw.background")

FOLD_EVERY = 60.0
"""Seconds between two folds, if nobody looks."""
MOST_ADDED = 200
"""The most instances whose figures are added up for a key that reaches no more than these."""
AT_ONCE = 500
"""Registrations whose oldest pending deliveries are looked up in one query."""
FRESH = 10.0
"""Seconds for which a fold is new enough for a reader."""


class FigureService(Collaborator):
    """Reads figures.

    What happened is in them at most :data:`FRESH` seconds later; how old the oldest pending delivery was is
    looked up every :data:`FOLD_EVERY` seconds.
    """

    _store: Store
    _registry: Registry
    _backlog: Backlog
    _clock: Clock
    _limit: int
    _is_responsible: Callable[[], bool]

    def __post_init__(self) -> None:
        self._folded_at = -math.inf

    async def run(self) -> None:
        """Fold, and keep the figures within their limit, until cancelled."""
        while True:
            await trio.sleep(FOLD_EVERY)
            if self._is_responsible():
                await self.fold()
                try:
                    await self._store.prune_figures(now=self._clock.steady(), limit=self._limit)
                except StorageUnavailable as error:
                    reason = str(error)
                    logger.warning("old figures stay for now; removing them is repeated later", reason=reason)

    async def fold(self) -> None:
        """Bring the figures up to date, with the ages of what is pending, unless the storage refuses."""
        await self._fold(with_ages=True)

    async def _fold(self, *, with_ages: bool) -> None:
        self._folded_at = trio.current_time()
        tags = {one.name: tag_texts(one.tags) for one in self._registry.instances() if one.tags}
        now = self._clock.steady()
        try:
            ages = await self._ages(tags, now) if with_ages else {}
            await self._store.fold_figures(tags, ages, now)
        except StorageUnavailable as error:
            logger.warning("figures are not up to date; that is repeated later", reason=str(error))

    async def _ages(self, tags: Mapping[str, Sequence[str]], now: float) -> dict[Holder, float]:
        """Return the age of the oldest pending delivery of everyone who has some, of all nodes."""
        # In memory it is known which have some, in a fleet, too: the many idle ones cost nothing.
        waiting = [name for name, _ in self._backlog.registrations()]
        ages: dict[Holder, float] = {}
        for start in range(0, len(waiting), AT_ONCE):
            some = waiting[start : start + AT_ONCE]
            for name, since in (await self._store.oldest_pending(some)).items():
                if (registration := self._registry.registration(name)) is not None:
                    for holder in _holders_of(registration, tags):
                        ages[holder] = max(ages.get(holder, 0.0), now - since)
        return ages

    async def within(
        self, principal: Principal, tags: Collection[tuple[str, str]], span: Span
    ) -> FigureSeries:
        """Return what all instances had that a caller reaches, or those with all of some tags among them.

        Raises:
            Invalid: they are more than :data:`MOST_ADDED`, and not all of those with one tag.
        """
        if principal.is_global and not tags:
            waiting = [name for name, _ in self._backlog.registrations() if name != OPERATIONS_ID]
            return await self._series([GATEWAY], span, waiting)
        # All instances with the tag are within reach, those of former times, too.
        is_of_tag = principal.instance is None and principal.reach.instances is None
        if is_of_tag and len({*tags, *principal.reach.tags}) == 1:
            ((name, value),) = {*tags, *principal.reach.tags}
            return await self.of_tag(name, value, span)
        names = names_within(self._registry, principal, tags) or ()
        if len(names) > MOST_ADDED:
            raise Invalid.of(
                "figures.too_many_instances",
                "This key reaches {count:,} instances, and figures of at most {most} are added up. Ask for "
                "one instance.",
                count=len(names),
                most=MOST_ADDED,
            )
        return await self.of_instances(names, span)

    async def of_tag(self, name: str, value: str, span: Span) -> FigureSeries:
        """Return what instances had while they carried a tag, and their own webhooks."""
        instances = [one.name for one in self._registry.tagged([(name, value)])]
        return await self._series([Holder("tag", *tag_texts({name: value}))], span, self._own(instances))

    async def of_instance(self, instance: str, span: Span) -> FigureSeries:
        """Return what an instance and its own webhooks had; webhooks of all instances do not count."""
        return await self.of_instances([instance], span)

    async def of_instances(self, instances: Collection[str], span: Span) -> FigureSeries:
        return await self._series(
            [Holder("instance", name) for name in instances], span, self._own(instances)
        )

    async def day_of(self, instances: Collection[str] | None) -> Figures:
        """Return what instances and their own webhooks, or ``None`` for all, had in 24 hours."""
        holders = [GATEWAY] if instances is None else [Holder("instance", name) for name in instances]
        return (await self._series(holders, Span.DAY, ())).total

    async def of_webhook(self, registration_id: str, span: Span) -> FigureSeries:
        return await self._series([Holder("webhook", registration_id)], span, [registration_id])

    async def sparklines(self, registration_ids: Sequence[str]) -> dict[str, Sparkline]:
        """Return the last 24 hours of each of these webhooks, in one query; a page has up to 100 of them."""
        await self._refresh()
        until = (int(self._clock.steady()) // HOUR + 1) * HOUR
        found = await self._store.sum_figures(registration_ids, until - 24 * HOUR, until, HOUR)
        return {
            name: Sparkline(
                [parts.get(hour, (0, 0))[0] for hour in range(24)],
                [parts.get(hour, (0, 0))[1] for hour in range(24)],
            )
            for name, parts in found.items()
        }

    def _own(self, instances: Collection[str]) -> list[str]:
        return [one.id for name in instances for one in self._registry.of_instance(name)]

    async def _refresh(self) -> None:
        if trio.current_time() >= self._folded_at + FRESH:
            # No page waits for the ages: they are a row for each webhook that is behind.
            await self._fold(with_ages=False)

    async def _series(
        self, holders: Sequence[Holder], span: Span, registration_ids: Sequence[str]
    ) -> FigureSeries:
        await self._refresh()
        step = holders[0].step_of(span) if holders else HOUR
        until = (int(self._clock.steady()) // step + 1) * step
        since = until - int(span.seconds)
        found = await self._store.read_figures(holders, step, since, until)
        total = FigureCounts()
        for counts in found.values():
            total.add(counts)
        pending = min((await self._store.oldest_pending(registration_ids)).values(), default=None)
        # The store has times of the steady clock, which may be ahead of what people see.
        apart = self._clock.apart()
        return FigureSeries(
            span=span,
            since=since,
            until=until,
            step=step,
            points=[FigurePoint(at, counts.figures()) for at, counts in found.items()],
            total=total.figures(),
            oldest_pending=None if pending is None else pending + apart,
        )


def _holders_of(registration: Registration, tags: Mapping[str, Sequence[str]]) -> Iterator[Holder]:
    """Yield whose figures have the deliveries to a registration."""
    yield Holder("webhook", registration.id)
    if registration.id == OPERATIONS_ID:
        return
    yield GATEWAY
    if not is_global(registration.id):
        yield Holder("instance", registration.instance)
        for tag in tags.get(registration.instance, ()):
            yield Holder("tag", tag)
