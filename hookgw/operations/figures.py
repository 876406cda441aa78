"""Figures over time, as pages and routes ask for them; kept up to date and within their limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.access import names_within
from hookgw.core.backlog import Backlog
from hookgw.core.registry import Registry
from hookgw.kernel.errors import Invalid, StorageUnavailable
from hookgw.records.api_keys import Principal
from hookgw.records.figures import (
    GATEWAY,
    FigureCounts,
    FigurePoint,
    FigureSeries,
    Holder,
    Span,
    Sparkline,
)
from hookgw.records.tags import tag_texts
from hookgw.store import Store

logger = structlog.get_logger("hookgw.background")

FOLD_EVERY = 60.0
"""Seconds between two folds, if nobody looks."""
MOST_ADDED = 200
"""The most instances whose figures are added up for a key that reaches no more than these."""
FRESH = 10.0
"""Seconds for which a fold is new enough for whoever looks."""


class FigureService:
    """Reads figures. What happened is in them at most :data:`FRESH` seconds later."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        backlog: Backlog,
        clock: Clock,
        limit: int,
        is_responsible: Callable[[], bool],
    ) -> None:
        self._store = store
        self._registry = registry
        self._backlog = backlog
        self._clock = clock
        self._limit = limit
        self._is_responsible = is_responsible
        self._folded_at = -math.inf

    async def run(self) -> None:
        """Fold, and keep the figures within their limit, until cancelled."""
        while True:
            await trio.sleep(FOLD_EVERY)
            if self._is_responsible():
                await self.fold()
                await self._prune()

    async def fold(self) -> None:
        """Bring the figures up to date, unless the storage refuses."""
        self._folded_at = trio.current_time()
        tags = {one.name: tag_texts(one.tags) for one in self._registry.instances() if one.tags}
        try:
            await self._store.fold_figures(tags)
        except StorageUnavailable as error:
            logger.warning("figures are not up to date; that is repeated later", reason=str(error))

    async def _prune(self) -> None:
        try:
            await self._store.prune_figures(now=self._clock.steady(), limit=self._limit)
        except StorageUnavailable as error:
            logger.warning("old figures stay for now; removing them is repeated later", reason=str(error))

    async def within(
        self, principal: Principal, tags: Collection[tuple[str, str]], span: Span
    ) -> FigureSeries:
        """Return what all instances had that a caller reaches, or those with all of some tags among them.

        Raises:
            Invalid: they are more than :data:`MOST_ADDED`, and not all of those with one tag.
        """
        if principal.is_global and not tags:
            return await self.of_gateway(span)
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

    async def of_gateway(self, span: Span) -> FigureSeries:
        waiting = [name for name, _ in self._backlog.registrations()]
        return await self._series([GATEWAY], span, waiting)

    async def of_tag(self, name: str, value: str, span: Span) -> FigureSeries:
        """Return what instances had while they carried a tag, and their own webhooks."""
        instances = [one.name for one in self._registry.tagged([(name, value)])]
        return await self._series([Holder("tag", *tag_texts({name: value}))], span, self._own(instances))

    async def of_instance(self, instance: str, span: Span) -> FigureSeries:
        """Return what an instance and its own webhooks had; webhooks of all instances do not count."""
        return await self.of_instances([instance], span)

    async def of_instances(self, instances: Collection[str], span: Span) -> FigureSeries:
        """Return what some instances had together."""
        return await self._series(
            [Holder("instance", name) for name in instances], span, self._own(instances)
        )

    async def of_webhook(self, registration_id: str, span: Span) -> FigureSeries:
        return await self._series([Holder("webhook", registration_id)], span, [registration_id])

    async def sparklines(
        self, registration_ids: Sequence[str], span: Span = Span.DAY, *, steps: int = 24
    ) -> dict[str, Sparkline]:
        """Return a short series of each of these webhooks, in one query; a page has up to 100 of them."""
        await self._refresh()
        part = int(span.seconds) // steps
        until = (int(self._clock.steady()) // part + 1) * part
        since = until - part * steps
        found = await self._store.sum_figures(registration_ids, since, until, part)
        return {
            name: Sparkline(
                [parts.get(number, (0, 0))[0] for number in range(steps)],
                [parts.get(number, (0, 0))[1] for number in range(steps)],
            )
            for name, parts in found.items()
        }

    def _own(self, instances: Collection[str]) -> list[str]:
        return [one.id for name in instances for one in self._registry.of_instance(name)]

    async def _refresh(self) -> None:
        if trio.current_time() >= self._folded_at + FRESH:
            await self.fold()

    async def _series(
        self, holders: Sequence[Holder], span: Span, registration_ids: Sequence[str]
    ) -> FigureSeries:
        await self._refresh()
        step = holders[0].step_of(span) if holders else 3600
        until = (int(self._clock.steady()) // step + 1) * step
        since = until - int(span.seconds)
        found = await self._store.read_figures(holders, step, since, until)
        total = FigureCounts()
        for counts in found.values():
            total.add(counts)
        pending = await self._store.oldest_pending(registration_ids)
        # The store has times of the steady clock, which may be ahead of what people see.
        apart = self._clock.wall() - self._clock.steady()
        return FigureSeries(
            span=span,
            since=since,
            until=until,
            step=step,
            points=[FigurePoint(at, counts.figures()) for at, counts in found.items()],
            total=total.figures(),
            oldest_pending=None if pending is None else pending + apart,
        )
