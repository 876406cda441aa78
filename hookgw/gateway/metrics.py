"""The figures of one gateway, for ``GET /metrics``.

What is counted per event is a plain integer in the Trio thread; it becomes a Prometheus metric only
when it is asked for. Labels are bounded: kinds of the catalog, states, outcomes, plugins and their
hooks, route templates; never an instance, a URL or an id.

All methods must be called in the Trio thread. The names and labels of the metrics are part of the
interface.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hookgw._version import __version__
from hookgw.models.deliveries import DeliveryState, LaneState, Outcome
from hookgw.models.errors import PluginFailed, StorageUnavailable

DELIVERY_SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    300,
    900,
    3600,
)
COMMIT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
COMMIT_ROWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)

REQUEST_LIMITS = ("failed_attempts", "key_rate", "instance_share")
"""What refuses requests: the limit of wrong keys of an address, of the requests of a key, or of what the
requests of an instance take at a time."""

Counts = Iterable[tuple[str | tuple[str, str], int]]
"""A count for each value of a label, or for each pair of values of two."""


class LaneFigures(Protocol):
    """What the metrics look at in a lane's statistics."""

    @property
    def state(self) -> LaneState:
        """What the lane is doing."""

    @property
    def backlog(self) -> int:
        """How many deliveries are pending in it."""

    @property
    def head_since(self) -> float | None:
        """When its head was accepted, in seconds of the same clock that ``now`` reads."""


class Histogram:
    """Counts observed values by the bucket they fall into.

    Args:
        bounds: the upper bounds of the buckets, inclusive and rising; one without bound is added.
    """

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def family(self, name: str, meaning: str) -> HistogramMetricFamily:
        """What was observed so far, as a Prometheus histogram."""
        buckets, count = [], 0
        for bound, here in zip((*map(float, self._bounds), float("inf")), self._counts, strict=True):
            count += here
            buckets.append(("+Inf" if bound == float("inf") else str(bound), float(count)))
        return HistogramMetricFamily(name, meaning, buckets=buckets, sum_value=self._total)


class Metrics:
    """Counts what a gateway does. It is also the store's observer.

    Each gateway has its own; nothing is shared through a global registry.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._accepted: Counter[str] = Counter()
        self._operational: Counter[str] = Counter()
        self._duplicates = 0
        self._deliveries = dict.fromkeys(
            (DeliveryState.DELIVERED, DeliveryState.DEAD, DeliveryState.DROPPED), 0
        )
        self._attempts = dict.fromkeys(Outcome, 0)
        self._delivery_seconds = Histogram(DELIVERY_SECONDS)
        self._commit_seconds = Histogram(COMMIT_SECONDS)
        self._commit_rows = Histogram(COMMIT_ROWS)
        self.disk_failure: StorageUnavailable | None = None
        self._plugin_failures: Counter[tuple[str, str]] = Counter()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._limited = dict.fromkeys(REQUEST_LIMITS, 0)
        self._backlog_bytes: Callable[[], int] = int
        self._connections: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._lanes: Callable[[], Iterable[LaneFigures]] = tuple
        self._now: Callable[[], float] = float
        self.registry.register(_Collector(self._families))
        ProcessCollector(registry=self.registry)

    def accepted(self, kind: str, count: int = 1) -> None:
        """Events of a kind of the catalog were accepted; they are on disk."""
        self._accepted[kind] += count

    def duplicates(self, count: int = 1) -> None:
        """Events were answered as duplicates, not accepted again."""
        self._duplicates += count

    def delivered(self, seconds: float) -> None:
        """A delivery was delivered, so long after its event was accepted."""
        self._deliveries[DeliveryState.DELIVERED] += 1
        self._delivery_seconds.observe(seconds)

    def dead(self, count: int = 1) -> None:
        """Deliveries were given up."""
        self._deliveries[DeliveryState.DEAD] += count

    def dropped(self, count: int = 1) -> None:
        """Deliveries were filtered out by a plugin."""
        self._deliveries[DeliveryState.DROPPED] += count

    def attempted(self, outcome: Outcome) -> None:
        """An attempt ended."""
        self._attempts[outcome] += 1

    def operational_event(self, kind: str) -> None:
        """An operational event was raised."""
        self._operational[kind] += 1

    def committed(self, seconds: float, rows: int) -> None:
        """A group commit reached the disk: how long it took, and how many rows it wrote."""
        self._commit_seconds.observe(seconds)
        self._commit_rows.observe(rows)

    def disk_failed(self, error: StorageUnavailable) -> None:
        """The disk has begun to refuse; ``disk_failure`` says why until it has recovered."""
        self.disk_failure = error

    def disk_recovered(self) -> None:
        """A write reached the disk again."""
        self.disk_failure = None

    def plugin_failed(self, failure: PluginFailed) -> None:
        """A hook raised, or ran past its deadline."""
        self._plugin_failures[failure.plugin, failure.hook] += 1

    def requested(self, route: str, status: int) -> None:
        """A request was answered.

        Args:
            route: the template of its path, for example ``/webhook/set/<instance>``; one name for all
                that match none. Never the path itself.
            status: the answer's.
        """
        self._requests[route, f"{status // 100}xx"] += 1

    def limited(self, limit: str) -> None:
        """A request was refused by one of :data:`REQUEST_LIMITS`."""
        self._limited[limit] += 1

    def watch_lanes(self, lanes: Callable[[], Iterable[LaneFigures]], now: Callable[[], float]) -> None:
        """Take the figures of the lanes from here, whenever the metrics are asked for.

        Args:
            lanes: gives a snapshot of every lane.
            now: the time by the clock of their ``head_since``.
        """
        self._lanes, self._now = lanes, now

    def watch_connections(self, count: Callable[[], tuple[int, int]]) -> None:
        """Take from here, whenever the metrics are asked for, how many clients are connected, and how many
        connections were closed for want of room."""
        self._connections = count

    def watch_backlog(self, size: Callable[[], int]) -> None:
        """Take the bytes of payload that are pending from here, whenever the metrics are asked for."""
        self._backlog_bytes = size

    def render(self) -> tuple[bytes, str]:
        """The metrics in the text format of Prometheus, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _families(self) -> Iterator[Metric]:
        yield _counter(
            "hookgw_events_accepted", "Events accepted, by kind.", ["kind"], self._accepted.items()
        )
        yield CounterMetricFamily(
            "hookgw_events_duplicate", "Events answered as duplicates.", value=self._duplicates
        )
        yield _counter(
            "hookgw_deliveries", "Finished deliveries, by state.", ["state"], self._deliveries.items()
        )
        yield _counter("hookgw_attempts", "Attempts, by outcome.", ["outcome"], self._attempts.items())
        yield self._delivery_seconds.family(
            "hookgw_delivery_seconds", "From accepting an event to its delivery, in seconds."
        )
        yield from _lane_families(self._lanes(), self._now())
        yield GaugeMetricFamily(
            "hookgw_backlog_bytes", "Bytes of payload of all pending deliveries.", value=self._backlog_bytes()
        )
        yield _counter(
            "hookgw_operational_events", "Operational events, by kind.", ["kind"], self._operational.items()
        )
        yield self._commit_seconds.family("hookgw_commit_seconds", "Duration of group commits, in seconds.")
        yield self._commit_rows.family("hookgw_commit_rows", "Rows written by group commits.")
        yield GaugeMetricFamily(
            "hookgw_disk_failing", "1 while the disk refuses writes.", value=self.disk_failure is not None
        )
        yield _counter(
            "hookgw_plugin_failures", "Hooks that failed.", ["plugin", "hook"], self._plugin_failures.items()
        )
        yield _counter(
            "hookgw_http_requests",
            "Requests answered, by route and status.",
            ["route", "status"],
            self._requests.items(),
        )
        yield _counter(
            "hookgw_http_requests_limited",
            "Requests refused with 429, by limit.",
            ["limit"],
            self._limited.items(),
        )
        connected, crowded_out = self._connections()
        yield GaugeMetricFamily("hookgw_http_connections", "Connections of clients.", value=connected)
        yield CounterMetricFamily(
            "hookgw_http_connections_crowded_out",
            "Connections closed for want of room: new ones, and those that made room.",
            value=crowded_out,
        )
        info = GaugeMetricFamily("hookgw_info", "The version that runs.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info


class _Collector(Collector):
    """What prometheus_client asks for the metrics."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not look at the lanes."""
        return ()


def _counter(name: str, meaning: str, labels: list[str], counts: Counts) -> CounterMetricFamily:
    family = CounterMetricFamily(name, meaning, labels=labels)
    for key, count in counts:
        family.add_metric([str(part) for part in ((key,) if isinstance(key, str) else key)], count)
    return family


def _lane_families(lanes: Iterable[LaneFigures], now: float) -> Iterator[Metric]:
    """How many lanes there are, what is pending in them and since when, by the state of the lane."""
    count = dict.fromkeys(LaneState, 0)
    backlog = dict.fromkeys(LaneState, 0)
    oldest = dict.fromkeys(LaneState, 0.0)
    for lane in lanes:
        count[lane.state] += 1
        backlog[lane.state] += lane.backlog
        if lane.head_since is not None:
            oldest[lane.state] = max(oldest[lane.state], now - lane.head_since)
    yield _gauge("hookgw_lanes", "Lanes, by state.", "state", count)
    yield _gauge(
        "hookgw_backlog_deliveries", "Pending deliveries, by state of their lane.", "lane_state", backlog
    )
    yield _gauge(
        "hookgw_backlog_oldest_seconds",
        "Age of the oldest pending delivery, by state of its lane.",
        "lane_state",
        oldest,
    )


def _gauge(
    name: str, meaning: str, label: str, values: dict[LaneState, int] | dict[LaneState, float]
) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for state, value in values.items():
        family.add_metric([str(state)], value)
    return family
