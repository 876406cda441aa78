"""The part of a page with figures over time: their sums, charts, and the same values as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from quart import request

from hookgw.kernel.language import gettext as _
from hookgw.records.figures import Figures, FigureSeries, Percentiles, Span, Sparkline
from hookgw.site.charts import Axis, Chart, Series, Unit, Values, bar_chart, line_chart, spark
from hookgw.site.moments import reader_zone
from hookgw.site.site import Site

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

USUAL = Span.DAY
SPARK_SECONDS = 30.0
"""For so long a small chart is not read again."""
MOST_AT_ONCE = 100
"""Registrations whose small charts are read in one query."""


class Shown(NamedTuple):
    """A chart with the words for it.

    Attributes:
        name: of what it shows; ``figures.html`` has its words.
        columns: of the table, by the names of its series.
    """

    name: str
    chart: Chart
    columns: tuple[int, ...]


def asked_span() -> Span:
    """Return the span that the address of the current request asks for."""
    given = request.args.get("span", "")
    return Span(given) if given in list(Span) else USUAL


class Spark(NamedTuple):
    """A small chart: two paths of SVG, and its sums in words."""

    good: str
    bad: str
    words: str


def spark_of(line: Sparkline) -> Spark | None:
    """Return a small chart of the deliveries of a day; ``None`` if there were none."""
    delivered, dead = sum(line.delivered), sum(line.dead)
    if not delivered and not dead:
        return None
    words = _("{delivered} delivered, {dead} dead letters in 24 hours", delivered=delivered, dead=dead)
    return Spark(*spark(line.delivered, line.dead), words)


class Sparks:
    """The small charts of registrations. Live parts of pages ask for them each second: they stay a while."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lines: dict[str, tuple[float, Sparkline]] = {}

    async def of(self, registration_ids: Sequence[str]) -> dict[str, Spark | None]:
        """Return the small chart of each registration, by its id."""
        lines = await self._read(registration_ids)
        return {name: spark_of(one) for name, one in lines.items()}

    async def of_instances(self, names: Sequence[str]) -> dict[str, Spark | None]:
        """Return a small chart of what went to the webhooks of each instance."""
        of_instance = self._gateway.registrations.of_instance
        webhooks = {name: [one.id for one in of_instance(name)] for name in names}
        lines = await self._read([one for ids in webhooks.values() for one in ids])
        found = {}
        for name, ids in webhooks.items():
            some = [lines[one] for one in ids if lines[one].delivered]
            delivered, dead = ([*map(sum, zip(*(one[part] for one in some), strict=True))] for part in (0, 1))
            found[name] = spark_of(Sparkline(delivered, dead))
        return found

    async def _read(self, registration_ids: Sequence[str]) -> dict[str, Sparkline]:
        now = self._gateway.clock.steady()
        # A later call, while this one waits, may put away what this one needs.
        self._lines = lines = {name: one for name, one in self._lines.items() if now - one[0] < SPARK_SECONDS}
        lacking = [name for name in registration_ids if name not in lines]
        for start in range(0, len(lacking), MOST_AT_ONCE):
            some = lacking[start : start + MOST_AT_ONCE]
            found = await self._gateway.figures.sparklines(some)
            empty = Sparkline((), ())
            read = {name: (now, found.get(name, empty)) for name in some}
            lines |= read
            self._lines |= read
        return {name: lines[name][1] for name in registration_ids}


def charts_of(series: FigureSeries, axis: Axis) -> list[Shown]:
    """Return the charts: what became of deliveries, how long they took, and how long some wait."""
    points = {round((one.at - axis.begin) / axis.step): one.figures for one in series.points}
    steps = [points.get(number) for number in range(axis.steps)]

    def values(read: Callable[[Figures], float | None]) -> Values:
        return [None if one is None else read(one) for one in steps]

    def lines(read: Callable[[Figures], Percentiles | None]) -> list[Series]:
        found = [None if one is None else read(one) for one in steps]
        return [
            Series(name, [None if one is None else getattr(one, name) for one in found])
            for name in Percentiles._fields
        ]

    outcomes = (
        Series("delivered", values(lambda one: one.delivered)),
        Series("failed", values(lambda one: one.failures)),
        Series("dead", values(lambda one: one.dead)),
    )
    # Bars: between two steps with something pending, there may be one without.
    oldest = Series("oldest", values(lambda one: one.oldest_pending))
    receiver, whole = lines(lambda one: one.receiver), lines(lambda one: one.whole)
    return [
        Shown("outcomes", bar_chart(axis, *outcomes), (2, 3, 4)),
        Shown("receiver", line_chart(axis, *receiver, unit=Unit.SECONDS), (5, 6, 7)),
        Shown("whole", line_chart(axis, *whole, unit=Unit.SECONDS), (8, 9, 10)),
        Shown("waiting", bar_chart(axis, oldest, unit=Unit.SECONDS), (11,)),
    ]


async def figure_part(
    site: Site,
    series: FigureSeries,
    *,
    here: str,
    target: str,
    deliveries: str = "",
    search: str = "",
    chosen: tuple[float | None, float | None] = (None, None),
    more: str = "",
) -> str:
    """Return the part for a page of the current request.

    Args:
        here: the address of the page below the dashboard, to which other spans are added.
        target: the address of the list that a chosen part of a chart filters, by ``since`` and ``until``.
        deliveries: the address of the list of deliveries, if it is another one.
        search: words that a search of that list needs beside others; an address has one search.
        chosen: what the page shows now, in seconds since the epoch.
        more: the address of a page with more figures.
    """
    since, until = chosen
    is_chosen = since is not None or until is not None
    axis = Axis(
        series.since,
        series.step,
        max(1, round((series.until - series.since) / series.step)),
        reader_zone(),
        (since or series.since, until or series.until) if is_chosen else None,
    )
    return await site.fragment(
        "figures.html",
        series=series,
        total=series.total,
        axis=axis,
        charts=charts_of(series, axis),
        points=[(one.at, axis.text_of(one.at), one.figures) for one in reversed(series.points)],
        failed=sorted(series.total.failed.items(), key=lambda one: -one[1])[:6],
        spans=[(one, f"{_open(here)}span={one}", one is series.span) for one in Span],
        target=_open(target),
        list=_open(deliveries or target),
        search=f"{search} " if search else "",
        more=more,
    )


def _open(address: str) -> str:
    """Return an address to which a query can be added."""
    return f"{address}{'&' if '?' in address else '?'}"
