"""The metrics of one gateway, for ``GET /metrics``.

Counters are plain integers, updated in the Trio thread, and become Prometheus metrics only when they are
read: a Prometheus counter with labels costs more than ten times as much per event. Labels are bounded: kinds
of the catalog, states, outcomes, plugins and their hooks, route templates, the lanes, registrations and
instances that :mod:`hookgw.core.survey` names, and the :data:`WORST_HOSTS` hosts with the most lanes that
wait.

The names and labels of the metrics are part of the interface.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hookgw._version import __version__
from hookgw.core.background_output import dropped_lines
from hookgw.core.long_work import run_in_slices
from hookgw.core.survey import (
    WORST_INSTANCES,
    WORST_LANES,
    WORST_REGISTRATIONS,
    Ranked,
    Sources,
    Survey,
    survey,
)
from hookgw.delivery.http.pools import PoolStatistics
from hookgw.kernel.errors import PluginFailed, StorageUnavailable
from hookgw.kernel.long_json import finish
from hookgw.records.deliveries import DeliveryState, LaneStatistics, Outcome
from hookgw.records.failing_task import FailingTask
from hookgw.records.registrations import Registration
from hookgw.store import DiskSpace, Held

# From a local receiver (1 ms) to a receiver that was down for an hour; a lane waits up to 5 m between
# attempts.
DELIVERY_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1, 2.5, 5, 10, 30, 60, 300, 900, 3600),
)
# From a loop that does nothing else to a plugin that blocks it.
LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
# From a commit on an SSD (0.5 ms) to a disk that hangs.
COMMIT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
# Up to a group commit's limit, and beyond: a large batch is one append.
COMMIT_ROWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)

REQUEST_LIMITS = (
    "failed_attempts",
    "key_rate",
    "instance_share",
    "instance_reads",
    "body_memory",
    "response_memory",
    "media",
)
"""The limits that refuse requests: on the wrong keys of an address, on the requests of a key, on what the
requests of an instance use at a time, on its reads of the disk, on the bodies of all requests, and on
downloads of inbound files."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The version that every reader takes: prometheus_client's newest one is for names in quotes, and some
readers refuse it."""

WORST_HOSTS = 20
"""How many hosts have their own metrics: those with the most waiting lanes."""

WORST_TASKS = 100
"""How many failing connectors and background tasks have their own metric."""

Counts = Iterable[tuple[str | tuple[str, str], int]]
"""A count for each value of a label, or for each pair of values of two labels."""


class Histogram:
    """Counts observed values by bucket. The bounds are inclusive and rising; an unbounded one is added."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def family(self, name: str, meaning: str) -> HistogramMetricFamily:
        buckets, count = [], 0
        for bound, here in zip((*map(float, self._bounds), float("inf")), self._counts, strict=True):
            count += here
            buckets.append(("+Inf" if bound == float("inf") else str(bound), float(count)))
        return HistogramMetricFamily(name, meaning, buckets=buckets, sum_value=self._total)


class Metrics:
    """Counts a gateway's work, and observes its store.

    Each gateway has its own; Prometheus' global registry is not used. All methods are for the Trio thread.
    The functions given to ``watch_…`` are called whenever the metrics are rendered.

    Attributes:
        attempts: how many there were, by outcome; the caller counts them.
        delivered: counts a delivery, by the seconds since it was queued, for the first time or again.
    """

    def __init__(self) -> None:
        # Counters of what happens for every delivery are plain numbers; nothing here takes a lock.
        self._accepted: Counter[str] = Counter()
        self._operational: Counter[str] = Counter()
        self._duplicates = 0
        self._dead = self._dropped = 0
        self.attempts = dict.fromkeys(Outcome, 0)
        self._delivery_seconds = Histogram(DELIVERY_SECONDS)
        self.delivered = self._delivery_seconds.observe
        self._commit_seconds = Histogram(COMMIT_SECONDS)
        self._commit_rows = Histogram(COMMIT_ROWS)
        self.disk_failure: StorageUnavailable | None = None
        self._log_bytes: int | None = None
        self._plugin_failures: Counter[tuple[str, str]] = Counter()
        self._lane_failures = 0
        self._loop_lag = Histogram(LAG_SECONDS)
        self._loop_blocked: Counter[str] = Counter()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._limited = dict.fromkeys(REQUEST_LIMITS, 0)
        # Until the gateway is composed, there is nothing to watch.
        self._backlog_bytes: Callable[[], int] = int
        self._disk_space: Callable[[], DiskSpace | None] = lambda: None
        self._held: Callable[[], Held] = Held
        self._node: tuple[str, Callable[[], int]] | None = None
        self._pools: Callable[[int], PoolStatistics] | None = None
        self.memory: Callable[[], int] = int
        self._connections: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self.sources = Sources()
        self._registration: Callable[[str], Registration | None] = lambda _: None
        self._failing_tasks: Callable[[], Iterable[FailingTask]] = tuple
        # Memory, CPU and open files, as other exporters name them.
        self._process = ProcessCollector(registry=None)

    def accepted(self, kind: str, count: int = 1) -> None:
        """Count accepted events of a kind of the catalog."""
        self._accepted[kind] += count

    def duplicates(self, count: int = 1) -> None:
        self._duplicates += count

    def dead(self, count: int = 1) -> None:
        self._dead += count

    def dropped(self) -> None:
        self._dropped += 1

    def deliveries(self) -> int:
        """Return the number of delivered deliveries."""
        return self._delivery_seconds.count

    def operational_event(self, kind: str) -> None:
        self._operational[kind] += 1

    def committed(self, seconds: float, rows: int) -> None:
        """Observe a group commit: its duration in seconds, and the rows it wrote."""
        self._commit_seconds.observe(seconds)
        self._commit_rows.observe(rows)

    def disk_failed(self, error: StorageUnavailable) -> None:
        """Note that the disk refuses; ``disk_failure`` is the reason until it has recovered."""
        self.disk_failure = error

    def disk_recovered(self) -> None:
        self.disk_failure = None

    def log_measured(self, size: int) -> None:
        self._log_bytes = size

    def plugin_failed(self, failure: PluginFailed) -> None:
        self._plugin_failures[failure.plugin, failure.hook] += 1

    def lane_failed(self) -> None:
        self._lane_failures += 1

    def loop_answered(self, seconds: float) -> None:
        """Observe how late the event loop ran a call."""
        self._loop_lag.observe(seconds)

    def loop_blocked(self, plugin: str) -> None:
        """Count a report of a blocked event loop; the name is empty if no plugin blocked it."""
        self._loop_blocked[plugin] += 1

    def requested(self, route: str, status: int) -> None:
        """Count a response by the template of its path, for example ``/webhook/set/<instance>``.

        Paths that match no template share one name. Never pass the path itself: the labels would be
        unbounded.
        """
        self._requests[route, f"{status // 100}xx"] += 1  # by class: each status would multiply the labels

    def limited(self, limit: str) -> None:
        self._limited[limit] += 1

    def watch_lanes(self, lanes: Callable[[], Iterable[LaneStatistics]], now: Callable[[], float]) -> None:
        """``lanes`` may be paused between two lanes; ``now`` is by the clock of their ``head_since``."""
        self.sources.lanes, self.sources.now = lanes, now

    def watch_registrations(
        self,
        find: Callable[[str], Registration | None],
        backlogs: Callable[[], Iterable[tuple[str, int]]],
        failing: Callable[[], Iterable[tuple[Registration, float]]],
    ) -> None:
        self._registration = find
        self.sources.backlogs, self.sources.failing = backlogs, failing

    def watch_failing_tasks(self, failing: Callable[[], Iterable[FailingTask]]) -> None:
        self._failing_tasks = failing

    def watch_connections(self, count: Callable[[], tuple[int, int]]) -> None:
        """``count`` returns how many clients are connected, and how many were closed for lack of room."""
        self._connections = count

    def watch_disk(self, found: Callable[[], DiskSpace | None]) -> None:
        self._disk_space = found

    def watch_held(self, held: Callable[[], Held]) -> None:
        self._held = held

    def watch_node(self, node: str, shards: Callable[[], int]) -> None:
        self._node = node, shards

    def watch_backlog(
        self, size: Callable[[], int], instances: Callable[[], Iterable[tuple[str, tuple[int, int]]]]
    ) -> None:
        """``size`` returns the bytes of payload, ``instances`` the deliveries and bytes of each instance."""
        self._backlog_bytes, self.sources.instances = size, instances

    def watch_pools(self, pools: Callable[[int], PoolStatistics], memory: Callable[[], int]) -> None:
        """``pools`` is called with the most hosts to show; ``memory`` returns the bytes that lanes hold."""
        self._pools, self.memory = pools, memory

    def render(self) -> tuple[bytes, str]:
        """Return the metrics in the text format of Prometheus, and its content type."""
        return finish(self._rendering())

    async def render_in_slices(self) -> tuple[bytes, str]:
        """Return the same, and let other tasks run meanwhile, however many lanes and registrations exist."""
        return await run_in_slices("", self._rendering())

    def _rendering(self) -> Generator[None, None, tuple[bytes, str]]:
        found = yield from survey(self.sources)
        parts = []
        for family in (*self.families(found), *self._process.collect()):
            parts.append(generate_latest(_Families([family])))
            yield
        return b"".join(parts), CONTENT_TYPE

    async def collect(self) -> list[Metric]:
        """Return all metrics except the process's, and let other tasks run meanwhile."""
        return list(self.families(await run_in_slices("", survey(self.sources))))

    def families(self, found: Survey) -> Iterator[Metric]:
        yield _counter(
            "hookgw_events_accepted", "Events accepted, by kind.", ["kind"], self._accepted.items()
        )
        yield CounterMetricFamily(
            "hookgw_events_duplicate", "Events answered as duplicates.", value=self._duplicates
        )
        finished = (
            (DeliveryState.DELIVERED, self._delivery_seconds.count),
            (DeliveryState.DEAD, self._dead),
            (DeliveryState.DROPPED, self._dropped),
        )
        yield _counter("hookgw_deliveries", "Finished deliveries, by state.", ["state"], finished)
        yield _counter("hookgw_attempts", "Attempts, by outcome.", ["outcome"], self.attempts.items())
        yield self._delivery_seconds.family(
            "hookgw_delivery_seconds",
            "From queueing a delivery, or queueing it again, to its 2xx, in seconds.",
        )
        yield from _lane_families(found)
        yield from self._registration_families(found)
        yield CounterMetricFamily(
            "hookgw_lane_restarts",
            "Lanes that ended by an error in hookgw, and started again.",
            value=self._lane_failures,
        )
        if self._pools is not None:
            yield from _pool_families(self._pools(WORST_HOSTS))
        yield GaugeMetricFamily(
            "hookgw_delivery_memory_bytes",
            "Bytes of memory that are counted for the deliveries that lanes hold.",
            value=self.memory(),
        )
        yield GaugeMetricFamily(
            "hookgw_backlog_bytes", "Bytes of payload of all pending deliveries.", value=self._backlog_bytes()
        )
        yield from _instance_families(found)
        yield from self._held_families()
        yield _counter(
            "hookgw_operational_events", "Operational events, by kind.", ["kind"], self._operational.items()
        )
        yield self._commit_seconds.family("hookgw_commit_seconds", "Duration of group commits, in seconds.")
        yield self._commit_rows.family("hookgw_commit_rows", "Rows written by group commits.")
        yield GaugeMetricFamily(
            "hookgw_disk_failing",
            "1 while the disk refuses writes, else 0.",
            value=self.disk_failure is not None,
        )
        if self._node is not None:
            node, shards = self._node
            yield _gauge(
                "hookgw_node_shards", "Shards that this node of a fleet holds.", "node", {node: shards()}
            )
        if self._log_bytes is not None:
            yield GaugeMetricFamily(
                "hookgw_write_ahead_log_bytes",
                "Bytes of the write-ahead log of the data file.",
                value=self._log_bytes,
            )
        if (space := self._disk_space()) is not None:
            yield GaugeMetricFamily(
                "hookgw_disk_free_bytes", "Free bytes of the file system of the data file.", value=space.free
            )
            yield GaugeMetricFamily(
                "hookgw_disk_reusable_bytes",
                "Bytes of unused pages in the data file, which new events take first.",
                value=space.reusable,
            )
        yield _counter(
            "hookgw_plugin_failures", "Hooks that failed.", ["plugin", "hook"], self._plugin_failures.items()
        )
        restarting = GaugeMetricFamily(
            "hookgw_plugin_restarting",
            f"Consecutive failures of the {WORST_TASKS} worst connectors and background tasks that restart.",
            labels=["plugin", "hook", "instance", "reason"],
        )
        for task in heapq.nlargest(WORST_TASKS, self._failing_tasks(), key=lambda task: task.failures):
            restarting.add_metric([task.plugin, task.hook, task.instance or "", task.reason], task.failures)
        yield restarting
        yield _counter(
            "hookgw_loop_blocked",
            "Times that the event loop was blocked, by plugin; empty if hookgw itself blocked it.",
            ["plugin"],
            self._loop_blocked.items(),
        )
        yield self._loop_lag.family(
            "hookgw_loop_lag_seconds", "How late the event loop runs what is due, sampled ten times a second."
        )
        yield _counter(
            "hookgw_http_requests",
            "Requests answered, by route and status.",
            ["route", "status"],
            self._requests.items(),
        )
        yield _counter(
            "hookgw_http_requests_limited",
            "Requests refused with 429 or 503, by limit.",
            ["limit"],
            self._limited.items(),
        )
        connected, crowded_out = self._connections()
        yield GaugeMetricFamily("hookgw_http_connections", "Connections of clients.", value=connected)
        yield CounterMetricFamily(
            "hookgw_http_connections_crowded_out",
            "Connections closed at a connection limit: new ones, and older ones that made room.",
            value=crowded_out,
        )
        yield CounterMetricFamily(
            "hookgw_log_lines_dropped",
            "Lines of the log and of standard output that were not read in time, or that the system refused.",
            value=dropped_lines.value,
        )
        yield _gauge("hookgw_info", "The version that runs.", "version", {__version__: 1})

    def _held_families(self) -> Iterator[Metric]:
        held = self._held()
        yield GaugeMetricFamily(
            "hookgw_deliveries_held",
            "Stored deliveries that wait for an older transaction in the database.",
            value=held.count,
        )
        oldest, now = held.oldest_queued_at, self.sources.now()
        yield GaugeMetricFamily(
            "hookgw_deliveries_held_oldest_seconds",
            "Age of the oldest of these.",
            value=0.0 if oldest is None else max(0.0, now - oldest),
        )

    def _registration_families(self, found: Survey) -> Iterator[Metric]:
        worst = f"of the {WORST_REGISTRATIONS} registrations"
        figures: tuple[tuple[str, str, Ranked], ...] = (
            ("backlog_deliveries", f"Pending deliveries {worst} with the most.", found.registrations),
            ("oldest_seconds", f"Age of the next delivery {worst} with the oldest.", found.heads),
            (
                "failing_seconds",
                f"Seconds since the first failure in a row {worst} with most.",
                found.failing,
            ),
        )
        for name, meaning, worst_of in figures:
            family = GaugeMetricFamily(
                f"hookgw_registration_{name}", meaning, labels=["registration", "instance", "label"]
            )
            for registration_id, figure in worst_of:
                registration = self._registration(registration_id)
                names = [registration.instance, registration.label] if registration else ["", ""]
                family.add_metric([registration_id, *names], figure)
            yield family


class _Families(Collector):
    """The metrics in the form that prometheus_client renders."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _counter(name: str, meaning: str, labels: list[str], counts: Counts) -> CounterMetricFamily:
    family = CounterMetricFamily(name, meaning, labels=labels)
    for key, count in counts:
        family.add_metric([str(part) for part in ((key,) if isinstance(key, str) else key)], count)
    return family


def _lane_families(found: Survey) -> Iterator[Metric]:
    yield _gauge("hookgw_lanes", "Lanes, by state.", "state", found.lanes)
    yield _gauge(
        "hookgw_lanes_waiting", "Lanes with a delivery to send, by what they wait for.", "for", found.waiting
    )
    yield GaugeMetricFamily(
        "hookgw_unfetched_seconds",
        "Longest time for which a pending delivery waits for a receiver that fetches.",
        value=found.unfetched,
    )
    yield _gauge(
        "hookgw_backlog_deliveries",
        "Pending deliveries, by state of their lane.",
        "lane_state",
        found.backlog,
    )
    yield _gauge(
        "hookgw_backlog_oldest_seconds",
        "Age of the oldest pending delivery, by state of its lane.",
        "lane_state",
        found.oldest,
    )
    backlogs = GaugeMetricFamily(
        "hookgw_lane_backlog_deliveries",
        f"Pending deliveries of the {WORST_LANES} lanes with the largest backlogs.",
        labels=["registration", "partition", "url"],
    )
    for lane in found.worst_lanes:
        # Without the query, in which many receivers have a secret.
        url = (lane.url or "").partition("?")[0]
        backlogs.add_metric([lane.registration, lane.partition or "", url], lane.backlog)
    yield backlogs


def _instance_families(found: Survey) -> Iterator[Metric]:
    deliveries, size = found.instances
    for unit, meaning, worst in (
        ("deliveries", "Pending deliveries of the events", deliveries),
        ("bytes", "Bytes of payload of the pending deliveries", size),
    ):
        described = f"{meaning} of the {WORST_INSTANCES} instances with the most."
        yield _gauge(f"hookgw_instance_backlog_{unit}", described, "instance", dict(worst))


def _pool_families(pools: PoolStatistics) -> Iterator[Metric]:
    by_state = {"lent": pools.lent, "idle": pools.idle}
    yield _gauge("hookgw_connections", "Connections to receivers, by state.", "state", by_state)
    yield GaugeMetricFamily(
        "hookgw_connections_limit", "How many connections to receivers there may be.", value=pools.descriptors
    )
    yield GaugeMetricFamily(
        "hookgw_hosts_unreachable",
        "Hosts that have not recovered from a connect failure.",
        value=pools.suspect,
    )
    worst = f"of the {WORST_HOSTS} hosts with the most waiting lanes."
    # A host has a pool for each TLS identity.
    waiting, lent = Counter[str](), Counter[str]()
    for host in pools.hosts:
        waiting[host.host] += host.waiting
        lent[host.host] += host.lent
    yield _gauge("hookgw_host_lanes_waiting", f"Lanes that wait for a connection {worst}", "host", waiting)
    yield _gauge("hookgw_host_connections", f"Connections in use {worst}", "host", lent)


def _gauge(name: str, meaning: str, label: str, values: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for state, value in values.items():
        family.add_metric([str(state)], value)
    return family
