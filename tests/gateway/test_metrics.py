"""The figures: what is counted, under which names and labels, and what a scrape looks like."""

import math
from collections.abc import Iterator

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hookgw import LaneState, Outcome, Registration, __version__
from hookgw.core.survey import survey
from tests.public.core import (
    COMMIT_ROWS,
    DELIVERY_SECONDS,
    REQUEST_LIMITS,
    STEP,
    WORST_INSTANCES,
    WORST_LANES,
    WORST_REGISTRATIONS,
    Histogram,
    Metrics,
    Sources,
)
from tests.public.delivery import HostStatistics, PoolStatistics
from tests.public.kernel import PluginFailed, StorageUnavailable, finish
from tests.public.records import LaneStatistics
from tests.public.store import Held


def lane(
    state: LaneState, backlog: int, head_since: float | None = None, *, partition: str | None = None
) -> LaneStatistics:
    return LaneStatistics(
        lane="reg_a:0" if partition is None else f"reg_a:0:{partition}",
        registration="reg_a",
        partition=partition,
        url="http://r.example/?token=a-secret",
        state=state,
        backlog=backlog,
        head_since=head_since,
    )


def test_what_the_storage_holds_back_is_counted_with_its_age() -> None:
    metrics = Metrics()
    assert value(metrics, "hookgw_deliveries_held") == 0
    assert value(metrics, "hookgw_deliveries_held_oldest_seconds") == 0
    metrics.watch_lanes(list, lambda: 1000.0)
    metrics.watch_held(lambda: Held(count=3, oldest_queued_at=940.0))
    assert value(metrics, "hookgw_deliveries_held") == 3
    assert value(metrics, "hookgw_deliveries_held_oldest_seconds") == 60


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What a scrape gives, by name and labels."""
    text, _ = metrics.render()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[name, frozenset(labels.items())]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_each_gateway_has_its_own(metrics: Metrics) -> None:
    metrics.accepted("MESSAGES_UPSERT")
    assert ("hookgw_events_accepted_total", frozenset({("kind", "MESSAGES_UPSERT")})) not in samples(
        Metrics()
    )


def test_what_is_bounded_is_there_from_the_start(metrics: Metrics) -> None:
    """So that a rate can be taken of the first event."""
    for state in ("delivered", "dead", "dropped"):
        assert value(metrics, "hookgw_deliveries_total", state=state) == 0
    for outcome in Outcome:
        assert value(metrics, "hookgw_attempts_total", outcome=outcome) == 0
    for state in LaneState:
        assert value(metrics, "hookgw_lanes", state=state) == 0
        assert value(metrics, "hookgw_backlog_deliveries", lane_state=state) == 0
        assert value(metrics, "hookgw_backlog_oldest_seconds", lane_state=state) == 0
    for limit in REQUEST_LIMITS:
        assert value(metrics, "hookgw_http_requests_limited_total", limit=limit) == 0
    assert value(metrics, "hookgw_events_duplicate_total") == 0
    assert value(metrics, "hookgw_info", version=__version__) == 1


def test_the_connections_of_clients(metrics: Metrics) -> None:
    assert value(metrics, "hookgw_http_connections") == 0
    metrics.watch_connections(lambda: (3, 2))
    assert value(metrics, "hookgw_http_connections") == 3
    assert value(metrics, "hookgw_http_connections_crowded_out_total") == 2


def test_events_are_counted_by_kind(metrics: Metrics) -> None:
    metrics.accepted("MESSAGES_UPSERT")
    metrics.accepted("MESSAGES_UPSERT", 3)
    metrics.accepted("CALL")
    metrics.duplicates()
    metrics.duplicates(2)
    assert value(metrics, "hookgw_events_accepted_total", kind="MESSAGES_UPSERT") == 4
    assert value(metrics, "hookgw_events_accepted_total", kind="CALL") == 1
    assert value(metrics, "hookgw_events_duplicate_total") == 3


def test_deliveries_are_counted_by_state(metrics: Metrics) -> None:
    metrics.delivered(0.003)
    metrics.dead()
    metrics.dead(4)
    metrics.dropped()
    metrics.dropped()
    assert value(metrics, "hookgw_deliveries_total", state="delivered") == 1
    assert value(metrics, "hookgw_deliveries_total", state="dead") == 5
    assert value(metrics, "hookgw_deliveries_total", state="dropped") == 2


def test_attempts_are_counted_by_outcome(metrics: Metrics) -> None:
    metrics.attempts[Outcome.UNREACHABLE] += 2
    assert value(metrics, "hookgw_attempts_total", outcome="unreachable") == 2
    assert value(metrics, "hookgw_attempts_total", outcome="delivered") == 0


def test_the_time_to_delivery_is_a_histogram(metrics: Metrics) -> None:
    for seconds in (0.0005, 0.3, 0.3, 7200):
        metrics.delivered(seconds)
    assert value(metrics, "hookgw_delivery_seconds_bucket", le="0.001") == 1
    assert value(metrics, "hookgw_delivery_seconds_bucket", le="0.25") == 1
    assert value(metrics, "hookgw_delivery_seconds_bucket", le="0.5") == 3
    assert value(metrics, "hookgw_delivery_seconds_bucket", le="3600.0") == 3
    assert value(metrics, "hookgw_delivery_seconds_bucket", le="+Inf") == 4
    assert value(metrics, "hookgw_delivery_seconds_count") == 4
    assert math.isclose(value(metrics, "hookgw_delivery_seconds_sum"), 7200.6005)


def test_the_buckets_reach_from_a_millisecond_to_an_hour() -> None:
    assert (DELIVERY_SECONDS[0], DELIVERY_SECONDS[-1]) == (0.001, 3600)
    assert list(DELIVERY_SECONDS) == sorted(set(DELIVERY_SECONDS))


def test_a_value_at_a_bound_falls_under_it() -> None:
    """The bounds of Prometheus are inclusive ("le")."""
    histogram = Histogram((1, 2))
    for seen in (1, 1.5, 2, 3):
        histogram.observe(seen)
    buckets = {s.labels["le"]: s.value for s in histogram.family("x", "X.").samples if s.name == "x_bucket"}
    assert buckets == {"1.0": 1, "2.0": 3, "+Inf": 4}


def test_commits_are_histograms_of_time_and_size(metrics: Metrics) -> None:
    metrics.committed(0.004, 120)
    metrics.committed(20, COMMIT_ROWS[-1] + 1)
    assert value(metrics, "hookgw_commit_seconds_bucket", le="0.005") == 1
    assert value(metrics, "hookgw_commit_seconds_count") == 2
    assert value(metrics, "hookgw_commit_rows_bucket", le="200.0") == 1
    assert value(metrics, "hookgw_commit_rows_bucket", le="+Inf") == 2


def test_a_failing_disk_shows_until_it_has_recovered(metrics: Metrics) -> None:
    assert value(metrics, "hookgw_disk_failing") == 0
    error = StorageUnavailable("data/hookgw.db: the disk is full.")
    metrics.disk_failed(error)
    assert value(metrics, "hookgw_disk_failing") == 1
    assert metrics.disk_failure is error
    metrics.disk_recovered()
    assert value(metrics, "hookgw_disk_failing") == 0
    assert metrics.disk_failure is None


def test_plugin_failures_name_the_plugin_and_the_hook(metrics: Metrics) -> None:
    metrics.loop_blocked("filters")
    metrics.loop_answered(0.02)
    metrics.lane_failed()
    metrics.plugin_failed(PluginFailed("filters", "hookgw_filter", "it raised"))
    metrics.plugin_failed(PluginFailed("filters", "hookgw_filter", "it raised again"))
    assert value(metrics, "hookgw_plugin_failures_total", plugin="filters", hook="hookgw_filter") == 2
    assert value(metrics, "hookgw_loop_blocked_total", plugin="filters") == 1
    assert value(metrics, "hookgw_loop_lag_seconds_count") == 1
    assert value(metrics, "hookgw_lane_restarts_total") == 1


@pytest.mark.parametrize(
    ("status", "label"), [(200, "2xx"), (202, "2xx"), (404, "4xx"), (503, "5xx"), (599, "5xx")]
)
def test_requests_are_counted_by_route_and_status(metrics: Metrics, status: int, label: str) -> None:
    metrics.requested("/webhook/set/<instance>", status)
    assert value(metrics, "hookgw_http_requests_total", route="/webhook/set/<instance>", status=label) == 1


def test_lanes_are_looked_at_when_asked_for(metrics: Metrics) -> None:
    lanes: list[LaneStatistics] = []
    metrics.watch_lanes(lambda: lanes, lambda: 1000.0)
    lanes += [
        lane(LaneState.WAITING, 7, 400.0),
        lane(LaneState.WAITING, 5, 900.0),
        lane(LaneState.DELIVERING, 1, 999.5),
        lane(LaneState.IDLE, 0),
    ]
    assert value(metrics, "hookgw_lanes", state="waiting") == 2
    assert value(metrics, "hookgw_lanes", state="idle") == 1
    assert value(metrics, "hookgw_backlog_deliveries", lane_state="waiting") == 12
    assert value(metrics, "hookgw_backlog_oldest_seconds", lane_state="waiting") == 600
    assert value(metrics, "hookgw_backlog_oldest_seconds", lane_state="delivering") == 0.5
    assert value(metrics, "hookgw_backlog_oldest_seconds", lane_state="idle") == 0


def test_the_lanes_with_the_largest_backlogs_are_named(metrics: Metrics) -> None:
    lanes = [lane(LaneState.WAITING, n, partition=str(n)) for n in range(WORST_LANES + 20)]
    metrics.watch_lanes(lambda: lanes, lambda: 0.0)
    found = {
        int(dict(labels)["partition"]): count
        for (name, labels), count in samples(metrics).items()
        if name == "hookgw_lane_backlog_deliveries"
    }
    assert found == {n: n for n in range(20, WORST_LANES + 20)}


@pytest.mark.parametrize(("partition", "label"), [(None, ""), ("shop", "shop")])
def test_a_lane_is_named_by_registration_partition_and_url(
    metrics: Metrics, partition: str | None, label: str
) -> None:
    lanes = [lane(LaneState.WAITING, 3, partition=partition)]
    metrics.watch_lanes(lambda: lanes, lambda: 0.0)
    named = {"registration": "reg_a", "partition": label, "url": "http://r.example/"}
    assert value(metrics, "hookgw_lane_backlog_deliveries", **named) == 3


def test_a_lane_without_a_backlog_is_not_named(metrics: Metrics) -> None:
    metrics.watch_lanes(lambda: [lane(LaneState.IDLE, 0)], lambda: 0.0)
    assert not [name for name, _ in samples(metrics) if name == "hookgw_lane_backlog_deliveries"]


def test_the_instances_with_the_largest_backlogs_are_named(metrics: Metrics) -> None:
    count = WORST_INSTANCES + 20
    # Those with the most deliveries have the fewest bytes.
    held = [(f"shop{number}", (number, count - number)) for number in range(1, count)]
    metrics.watch_backlog(lambda: 7, lambda: held)
    assert value(metrics, "hookgw_backlog_bytes") == 7
    for unit, place, least in (("deliveries", 0, 20), ("bytes", 1, 20)):
        found = {
            dict(labels)["instance"]: figure
            for (name, labels), figure in samples(metrics).items()
            if name == f"hookgw_instance_backlog_{unit}"
        }
        assert found == {name: amount[place] for name, amount in held if amount[place] >= least}
        assert len(found) == WORST_INSTANCES


def registration(number: int) -> Registration:
    return Registration(id=f"reg_{number}", instance=f"shop{number}", url="http://r.example/")


def test_the_worst_registrations_are_named(metrics: Metrics) -> None:
    """Those with the largest backlogs are not those that wait or fail longest."""
    count = WORST_REGISTRATIONS + 20
    registrations = [registration(number) for number in range(1, count)]
    metrics.watch_lanes(
        lambda: (
            msgspec.structs.replace(lane(LaneState.WAITING, 1, 1000.0 - number), registration=f"reg_{number}")
            for number in range(1, count)
        ),
        lambda: 1000.0,
    )
    metrics.watch_registrations(
        {one.id: one for one in registrations}.get,
        lambda: [(f"reg_{number}", count - number) for number in range(1, count)],
        lambda: [(one, 1000.0 - 2 * number) for number, one in enumerate(registrations, 1)],
    )
    by_name: dict[str, dict[tuple[str, str, str], float]] = {}
    for (name, labels), figure in samples(metrics).items():
        if name.startswith("hookgw_registration_"):
            named = dict(labels)
            by_name.setdefault(name, {})[named["registration"], named["instance"], named["label"]] = figure
    worst = range(20, count)

    def names(number: int) -> tuple[str, str, str]:
        return f"reg_{number}", f"shop{number}", "default"

    assert by_name == {
        "hookgw_registration_backlog_deliveries": {names(count - number): number for number in worst},
        "hookgw_registration_oldest_seconds": {names(number): number for number in worst},
        "hookgw_registration_failing_seconds": {names(number): 2 * number for number in worst},
    }


def test_the_oldest_of_a_registrations_lanes_counts(metrics: Metrics) -> None:
    lanes = [
        lane(LaneState.WAITING, 1, since, partition=name)
        for name, since in (("a", 990.0), ("b", 940.0), ("c", 970.0))
    ]
    metrics.watch_lanes(lambda: lanes, lambda: 1000.0)
    named = {"registration": "reg_a", "instance": "", "label": ""}  # it was deleted meanwhile
    assert value(metrics, "hookgw_registration_oldest_seconds", **named) == 60


def test_a_survey_of_many_lanes_pauses_often() -> None:
    """The number of lanes between two pauses decides, not the time that they take."""
    seen: list[int] = []

    def lanes() -> Iterator[LaneStatistics]:
        for number in range(10 * STEP):
            seen.append(number)
            yield lane(LaneState.WAITING, number)

    steps = survey(Sources(lanes=lanes))
    for number in range(1, 11):
        next(steps)
        assert len(seen) == number * STEP
    found = finish(steps)
    assert found.lanes[LaneState.WAITING] == 10 * STEP
    assert [one.backlog for one in found.worst_lanes] == list(
        range(10 * STEP - 1, 10 * STEP - 1 - WORST_LANES, -1)
    )


def test_a_label_value_cannot_break_the_text(metrics: Metrics) -> None:
    metrics.plugin_failed(PluginFailed('we"ird\n', "hook", "x"))
    assert value(metrics, "hookgw_plugin_failures_total", plugin='we"ird\n', hook="hook") == 1


def test_the_answer_is_the_text_format_of_prometheus(metrics: Metrics) -> None:
    text, content_type = metrics.render()
    # The version of names without quotes, which every reader of the format takes.
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert (
        b"# HELP hookgw_attempts_total Attempts, by outcome.\n# TYPE hookgw_attempts_total counter\n" in text
    )


def test_connections_and_lanes_that_wait_are_shown(metrics: Metrics) -> None:
    # A host has a pool for each TLS identity.
    host = HostStatistics("https://receiver.example:443", 60, 5, False)
    with_identity = HostStatistics("https://receiver.example:443", 4, 2, False)
    metrics.watch_pools(
        lambda most: PoolStatistics(
            lent=65, idle=3, descriptors=1000, suspect=2, hosts=[host, with_identity][:most]
        ),
        lambda: 4096,
    )
    text = metrics.render()[0].decode()
    assert 'hookgw_connections{state="lent"} 65.0' in text
    assert 'hookgw_connections{state="idle"} 3.0' in text
    assert "hookgw_connections_limit 1000.0" in text
    assert "hookgw_delivery_memory_bytes 4096.0" in text
    assert "hookgw_hosts_unreachable 2.0" in text
    assert 'hookgw_host_lanes_waiting{host="https://receiver.example:443"} 7.0' in text
    assert 'hookgw_host_connections{host="https://receiver.example:443"} 64.0' in text
