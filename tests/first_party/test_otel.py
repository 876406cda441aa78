"""The plugin otel, against a receiver that speaks OTLP."""

import gzip
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from trio.testing import MockClock

from hookgw import Event, __version__
from hookgw.testing import Answer, GatewayKit, Receiver, answer, hang, open_kit, open_receiver, raw
from tests.api.conftest import KEY, open_client
from tests.public.kernel import ConfigError
from tests.public.plugins import Hooks, LoadedPlugins
from tests.public.records import new_event_id
from tests.support.application import create_app

pytestmark = pytest.mark.usefixtures("hookgw_clock")

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
KIND = "CALL"


@pytest.fixture
async def collector(hookgw_clock: MockClock) -> AsyncIterator[Receiver]:
    async with open_receiver() as receiver:
        yield receiver


@asynccontextmanager
async def reporting(folder: Path, collector: Receiver, **options: Any) -> AsyncIterator[GatewayKit]:
    block = {"endpoint": f"http://127.0.0.1:{collector.port}", "metrics": False, **options}
    settings = {"auth": {"global_key": KEY}, "plugins": {"options": {"otel": block}}}
    async with open_kit(folder, settings=settings) as kit:
        yield kit
        assert kit.plugin_failures == []


async def accept(
    kit: GatewayKit, headers: dict[str, str] | None = None, event_id: str | None = None
) -> Event:
    event = Event(
        id=event_id or new_event_id(1.0),
        kind=KIND,
        instance="shop",
        data_json=b'{"a": 1}',
        time=kit.gateway.clock.wall(),
    )
    await kit.gateway.events.accept([event], headers=headers or {})
    return event


async def until(kit: GatewayKit, condition: Callable[[], bool]) -> None:
    """Let the plugin's clock run until something has happened."""
    with trio.CancelScope() as scope:
        for _ in range(200):
            if condition():
                return
            kit.clock.jump(0.6)
            await trio.to_thread.run_sync(lambda: None)
            await trio.testing.wait_all_tasks_blocked(0.001)
    assert not scope.cancelled_caught
    raise AssertionError("it did not happen")


def spans(collector: Receiver) -> dict[str, Any]:
    """The spans that were sent, by name; of several, the last one."""
    found: dict[str, Any] = {}
    for request in collector.requests:
        if request.target == "/v1/traces":
            message = ExportTraceServiceRequest.FromString(gzip.decompress(request.body))
            for resource in message.resource_spans:
                found |= {span.name: span for scope in resource.scope_spans for span in scope.spans}
    return found


def attributes(of: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in of.attributes}


async def test_one_trace_from_the_producer_to_the_receiver(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    async with reporting(tmp_path, collector, headers={"authorization": "Bearer k"}) as kit:
        registration = await kit.register(hookgw_receiver.url)
        event = await accept(kit, {"traceparent": PARENT, "tracestate": "vendor=1"})
        await kit.settled()
        await until(kit, lambda: len(spans(collector)) == 3)
    host = "127.0.0.1"
    found = spans(collector)
    accepted, delivered, attempt = (
        found[name] for name in (f"accept {KIND}", f"deliver {KIND}", f"POST {host}")
    )
    assert {span.trace_id.hex() for span in found.values()} == {TRACE}
    assert {span.trace_state for span in found.values()} == {"vendor=1"}
    assert accepted.parent_span_id.hex() == SPAN
    assert delivered.parent_span_id == accepted.span_id
    assert attempt.parent_span_id == delivered.span_id
    [request] = hookgw_receiver.requests
    assert request.header("traceparent") == f"00-{TRACE}-{attempt.span_id.hex()}-01"
    assert request.header("tracestate") == "vendor=1"
    assert attributes(accepted)["messaging.message.id"] == event.id
    of_delivery = attributes(delivered)
    assert (of_delivery["hookgw.registration"], of_delivery["hookgw.label"]) == (registration.id, "default")
    assert attributes(attempt) == {
        "messaging.system": "hookgw",
        "messaging.destination.name": KIND,
        "messaging.message.id": event.id,
        "hookgw.instance": "shop",
        "http.request.method": "POST",
        "server.address": host,
        "server.port": hookgw_receiver.port,
        "url.full": hookgw_receiver.url,
        "http.request.resend_count": 0,
        "http.response.status_code": 200,
        "hookgw.registration": registration.id,
        "hookgw.label": "default",
        "hookgw.delivery": "dlv_1",
        "hookgw.outcome": "delivered",
    }
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in found.values())
    sent = collector.requests[0]
    assert sent.header("authorization") == "Bearer k"
    assert sent.header("content-type") == "application/x-protobuf"
    resource = ExportTraceServiceRequest.FromString(gzip.decompress(sent.body)).resource_spans[0].resource
    assert attributes(resource)["service.name"] == "hookgw"
    assert attributes(resource)["service.version"] == __version__


async def test_attempts_of_a_delivery_are_in_one_trace_also_after_a_restart(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(500))
    async with reporting(tmp_path, collector) as kit:
        await kit.register(f"{hookgw_receiver.url}?token=secret")
        await accept(kit)
        await kit.settled()
    first = spans(collector)
    failed = first["POST 127.0.0.1"]
    assert failed.status.code == 2
    assert "500" in failed.status.message
    assert attributes(failed)["error.type"] == "500"
    assert attributes(failed)["url.full"] == hookgw_receiver.url  # without its query
    assert f"deliver {KIND}" not in first
    async with reporting(tmp_path, collector) as kit:
        await kit.advance(10)
        await hookgw_receiver.wait_for(2)
        await kit.settled()
    found = spans(collector)
    assert {span.trace_id for span in found.values()} == {failed.trace_id}
    assert found["POST 127.0.0.1"].span_id != failed.span_id
    assert found["POST 127.0.0.1"].parent_span_id == failed.parent_span_id == found[f"deliver {KIND}"].span_id
    assert found[f"deliver {KIND}"].parent_span_id == found[f"accept {KIND}"].span_id
    traces = {request.header("traceparent").split("-")[1] for request in hookgw_receiver.requests}  # type: ignore[union-attr]
    assert traces == {failed.trace_id.hex()}


async def test_an_attempt_that_is_no_request_is_not_called_one(tmp_path: Path, collector: Receiver) -> None:
    async with reporting(tmp_path, collector) as kit:
        await kit.register("pull:")
        await accept(kit)
        async with (
            trio.open_nursery() as nursery,
            open_client(create_app(kit.gateway), nursery, apikey=KEY) as client,
        ):
            cursor = (await client.post("/delivery/pull/shop", json={})).json()["cursor"]
            assert (await client.post("/delivery/ack/shop", json={"cursor": cursor})).status_code == 200
        await kit.settled()
        await until(kit, lambda: len(spans(collector)) == 3)
    fetched = attributes(spans(collector)["pull"])
    assert fetched["url.full"] == "pull:"
    assert fetched["hookgw.outcome"] == "delivered"
    assert not fetched.keys() & {"server.address", "http.request.method"}


async def test_a_dead_letter_is_an_error(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(400)
    async with reporting(tmp_path, collector) as kit:
        await kit.register(hookgw_receiver.url)
        await accept(kit)
        await kit.settled()
    delivered = spans(collector)[f"deliver {KIND}"]
    assert delivered.status.code == 2
    assert attributes(delivered)["error.type"] == "dead letter"


@pytest.mark.parametrize(
    ("sample", "headers", "flags"),
    [
        (0.0, {}, "00"),
        (0.0, {"traceparent": PARENT}, "01"),
        (1.0, {"traceparent": PARENT.removesuffix("1") + "0"}, "00"),
        (1.0, {}, "01"),
    ],
    ids=["none", "the producer's is", "the producer's is not", "all"],
)
async def test_only_sampled_traces_are_sent_and_the_receiver_knows(
    tmp_path: Path,
    collector: Receiver,
    hookgw_receiver: Receiver,
    sample: float,
    headers: dict[str, str],
    flags: str,
) -> None:
    async with reporting(tmp_path, collector, sample=sample) as kit:
        await kit.register(hookgw_receiver.url)
        await accept(kit, headers)
        await kit.settled()
    parent = hookgw_receiver.requests[0].header("traceparent")
    assert parent is not None
    assert parent.rpartition("-")[2] == flags
    assert bool(spans(collector)) is (flags == "01")


async def test_samplers_of_collectors_can_go_on_with_what_is_sampled(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    # They keep the traces with the highest random parts, and learn from "th" which those are.
    lowest = 0x80000000000000
    async with reporting(tmp_path, collector, sample=0.5) as kit:
        await kit.register(hookgw_receiver.url)
        for _ in range(30):
            await accept(kit)
        await kit.settled()
    sampled = {
        traceparent.split("-")[1]: request.header("tracestate")
        for request in hookgw_receiver.requests
        if (traceparent := request.header("traceparent") or "").endswith("-01")
    }
    others = {
        traceparent.split("-")[1]: request.header("tracestate")
        for request in hookgw_receiver.requests
        if (traceparent := request.header("traceparent") or "").endswith("-00")
    }
    assert len(sampled) + len(others) == 30
    assert all(int(trace[-14:], 16) >= lowest for trace in sampled)
    assert all(int(trace[-14:], 16) < lowest for trace in others)
    assert {*sampled.values()} == {"ot=th:8"}
    assert {*others.values()} == {None}
    assert {span.trace_state for span in spans(collector).values()} == {"ot=th:8"}


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "00-x"},
        {"traceparent": f"ff-{TRACE}-{SPAN}-01"},
        {"traceparent": f"00-{'0' * 32}-{SPAN}-01"},
        {"traceparent": f"00-{TRACE}-{'0' * 16}-01"},
        {"traceparent": f"00-{TRACE}-{SPAN}-01-more"},
        {"traceparent": PARENT.upper()},
        {"tracestate": "alone"},
    ],
    ids=lambda headers: next(iter(headers.values())),
)
async def test_a_wrong_traceparent_begins_another_trace(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver, headers: dict[str, str]
) -> None:
    async with reporting(tmp_path, collector) as kit:
        await kit.register(hookgw_receiver.url)
        await accept(kit, headers)
        await kit.settled()
    assert len(spans(collector)) == 3
    assert all(span.trace_id.hex() != TRACE for span in spans(collector).values())
    assert hookgw_receiver.requests[0].header("tracestate") is None


@pytest.mark.parametrize("state", ["a=\xe9", " a=1", "a=1\r\nx: y", "a" * 513, ""])
async def test_a_tracestate_that_no_header_can_carry_fails_no_delivery(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver, state: str
) -> None:
    async with reporting(tmp_path, collector) as kit:
        await kit.register(hookgw_receiver.url)
        await accept(kit, {"traceparent": PARENT, "tracestate": state})
        await kit.settled()
    assert hookgw_receiver.requests[0].header("tracestate") is None
    assert spans(collector)[f"accept {KIND}"].trace_id.hex() == TRACE


async def test_a_registrations_own_traceparent_stays(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    async with reporting(tmp_path, collector) as kit:
        await kit.register(hookgw_receiver.url, headers={"traceparent": "mine"})
        await accept(kit)
        await kit.settled()
    assert hookgw_receiver.requests[0].header("traceparent") == "mine"


async def test_a_repeated_event_keeps_its_trace(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(503))
    async with reporting(tmp_path, collector) as kit:
        await kit.register(hookgw_receiver.url)
        await accept(kit, {"traceparent": PARENT}, event_id="order-1")
        await kit.settled()
        await accept(kit, {"traceparent": PARENT.replace("0af", "fff")}, event_id="order-1")
        await kit.advance(1)
        await hookgw_receiver.wait_for(2)
        await kit.settled()
    assert {request.header("traceparent").split("-")[1] for request in hookgw_receiver.requests} == {TRACE}  # type: ignore[union-attr]


async def test_a_collector_that_is_down_gets_everything_later(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    collector.will(answer(503), answer(429, headers={"retry-after": "20"}))
    async with reporting(tmp_path, collector) as kit:
        await kit.register(hookgw_receiver.url)
        with structlog.testing.capture_logs() as logs:
            await accept(kit)
            await kit.settled()
            await until(kit, lambda: len(collector.requests) == 2)
            before = kit.clock.current_time()
            await until(kit, lambda: len(collector.requests) == 3)
            assert kit.clock.current_time() - before >= 19
    assert len({request.body for request in collector.requests}) == 1
    assert len(spans(collector)) == 3
    assert [entry.get("reason") for entry in logs if "collector" in entry["event"]] == [
        "status 503",
        "status 429",
        None,
    ]


async def test_an_outage_of_the_collector_is_one_line_and_its_end_another(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    collector.will(*[answer(503)] * 4)
    async with reporting(tmp_path, collector) as kit:
        await kit.register(hookgw_receiver.url)
        with structlog.testing.capture_logs() as logs:
            await accept(kit)
            await kit.settled()
            await until(kit, lambda: len(collector.requests) == 5)
            await until(kit, lambda: "again" in logs[-1]["event"])
    assert [(entry["event"], entry["signal"]) for entry in logs if "collector" in entry["event"]] == [
        ("sending to the collector failed", "traces"),
        ("the collector takes reports again", "traces"),
    ]


async def test_a_wait_that_is_none_is_the_usual_one(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    # Python takes a superscript for a digit, and for no number.
    collector.will(answer(503, headers={"retry-after": "\u00b2"}))
    async with reporting(tmp_path, collector) as kit:
        await kit.register(hookgw_receiver.url)
        await accept(kit)
        await kit.settled()
        await until(kit, lambda: len(collector.requests) == 2)
    assert len({request.body for request in collector.requests}) == 1


async def test_a_private_address_is_refused_with_the_way_to_allow_it(tmp_path: Path) -> None:
    """The guard's own advice would open the address to every registration."""
    block = {"endpoint": "http://10.0.0.5:4318/otlp", "metrics": False}
    async with open_kit(tmp_path, settings={"plugins": {"options": {"otel": block}}}) as kit:
        with structlog.testing.capture_logs() as logs:
            await kit.register("http://127.0.0.1:9/")
            await accept(kit)
            await until(kit, lambda: any("fix" in entry for entry in logs))
    fixes = {entry["fix"] for entry in logs if "fix" in entry}
    assert fixes == {'To allow it for this plugin alone, add "http://10.0.0.5:4318" to its servers.'}


async def test_the_port_for_grpc_is_named(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    collector.default = raw(b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\x40\0")  # SETTINGS, as grpc-go begins
    async with reporting(tmp_path, collector) as kit:
        with structlog.testing.capture_logs() as logs:
            await kit.register(hookgw_receiver.url)
            await accept(kit)
            await until(kit, lambda: any("fix" in entry for entry in logs))
    fixes = {entry["fix"] for entry in logs if "fix" in entry}
    assert fixes == {"If this is the port for gRPC (4317), use the one for OTLP over HTTP, usually 4318."}


async def test_what_the_collector_refuses_is_not_repeated(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    partial = ExportTraceServiceResponse()
    partial.partial_success.rejected_spans = 3
    partial.partial_success.error_message = "too old"
    warning = ExportTraceServiceResponse()
    warning.partial_success.error_message = "old schema"
    bodies = (partial.SerializeToString(), warning.SerializeToString(), b"", b"{not protobuf")
    collector.will(answer(401), *(answer(200, body) for body in bodies))
    async with reporting(tmp_path, collector) as kit:
        await kit.register(hookgw_receiver.url)
        with structlog.testing.capture_logs() as logs:
            for count in range(1, 6):
                await accept(kit)
                await kit.settled()
                await until(kit, lambda: len(collector.requests) == count)  # noqa: B023
    assert [entry.get("reason") for entry in logs if "collector" in entry["event"]] == [
        "status 401",
        "3 rejected: too old",
        "0 rejected: old schema",
        None,
    ]


@pytest.mark.parametrize(
    ("said", "content_type", "shown"),
    [
        (
            b'unsupported path\n requested: "/v1/traces"\n',
            "text/plain",
            'unsupported path requested: "/v1/traces"',
        ),
        # What OTLP asks for: google.rpc.Status, of a code and a message.
        (b"\x08\x03\x12\x0eno such tenant", "application/x-protobuf", "no such tenant"),
        (b"\xff", "application/x-protobuf", ""),
        (b"", "text/plain", ""),
        (b"x" * 5000, "text/html", "x" * 200),
        (b"no key like Bearer secret-of-otel", "text/plain", "no key like ********"),
    ],
)
async def test_what_the_collector_says_of_a_refusal_is_in_the_log(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver, said: bytes, content_type: str, shown: str
) -> None:
    collector.will(answer(400, said, headers={"content-type": content_type}))
    headers = {"authorization": "Bearer secret-of-otel"}
    async with reporting(tmp_path, collector, headers=headers) as kit:
        await kit.register(hookgw_receiver.url)
        with structlog.testing.capture_logs() as logs:
            await accept(kit)
            await until(kit, lambda: any("collector" in entry["event"] for entry in logs))
    assert [(entry["reason"], entry["answer"]) for entry in logs if "collector" in entry["event"]] == [
        ("status 400", shown)
    ]


@pytest.mark.parametrize(
    "refused",
    [
        answer(404, b"404 page not found"),  # Jaeger, to metrics
        answer(400, b'unsupported path requested: "/v1/traces"'),  # VictoriaMetrics
    ],
)
async def test_a_collector_without_such_a_signal_is_named(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver, refused: Answer
) -> None:
    collector.default = refused
    async with reporting(tmp_path, collector) as kit:
        with structlog.testing.capture_logs() as logs:
            await kit.register(hookgw_receiver.url)
            await accept(kit)
            await until(kit, lambda: any("fix" in entry for entry in logs))
    assert {entry["fix"] for entry in logs if entry.get("signal") == "traces"} == {
        "Correct the path of endpoint, or, if it takes no traces, set traces: false."
    }


async def test_too_many_spans_are_lost_and_counted(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    async with reporting(tmp_path, collector, queue=2) as kit:
        await kit.register(hookgw_receiver.url)
        with structlog.testing.capture_logs() as logs:
            await accept(kit)
            await kit.settled()
            await until(kit, lambda: len(collector.requests) == 1)
    assert [entry["count"] for entry in logs if entry["event"].startswith("spans lost")] == [1]
    assert len(spans(collector)) == 2


async def test_the_rest_is_sent_at_the_end(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    """Before the clients are closed."""
    async with reporting(tmp_path, collector, metrics=True, traces=False) as kit:
        await kit.register(hookgw_receiver.url)
        await accept(kit)
        await kit.settled()
    assert [request.target for request in collector.requests] == ["/v1/metrics"]
    assert hookgw_receiver.requests[0].header("traceparent") is None


async def test_a_collector_that_hangs_delays_the_end_by_a_moment(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    collector.default = hang()

    async def pass_time() -> None:
        await collector.wait_for(1)
        hookgw_clock.jump(3.1)

    async with trio.open_nursery() as nursery:
        async with reporting(tmp_path, collector) as kit:
            await kit.register(hookgw_receiver.url)
            await accept(kit)
            await kit.settled()
            nursery.start_soon(pass_time)
            ended = hookgw_clock.current_time()
        assert hookgw_clock.current_time() - ended < 4
    assert len(hookgw_receiver.requests) == 1


async def test_metrics(tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver) -> None:
    async with reporting(
        tmp_path, collector, metrics=True, resource={"deployment.environment.name": "test"}
    ) as kit:
        await kit.register(hookgw_receiver.url)
        await accept(kit)
        await kit.settled()
        await until(kit, lambda: any(request.target == "/v1/metrics" for request in collector.requests))
    [request, *_] = [request for request in collector.requests if request.target == "/v1/metrics"]
    [resource] = ExportMetricsServiceRequest.FromString(gzip.decompress(request.body)).resource_metrics
    assert attributes(resource.resource)["deployment.environment.name"] == "test"
    found = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    assert [name for name, metric in found.items() if metric.WhichOneof("data") is None] == []
    [accepted] = found["hookgw_events_accepted"].sum.data_points
    assert (attributes(accepted), accepted.as_double) == ({"kind": KIND}, 1)
    assert found["hookgw_events_accepted"].sum.is_monotonic
    lanes = {attributes(point)["state"]: point.as_double for point in found["hookgw_lanes"].gauge.data_points}
    assert lanes["idle"] == 1
    [seconds] = found["hookgw_delivery_seconds"].histogram.data_points
    assert seconds.count == 1
    assert sum(seconds.bucket_counts) == 1
    assert len(seconds.bucket_counts) == len(seconds.explicit_bounds) + 1
    assert seconds.explicit_bounds[0] == 0.001
    assert math.isfinite(seconds.explicit_bounds[-1])
    assert accepted.start_time_unix_nano <= accepted.time_unix_nano


async def test_metrics_that_a_collector_did_not_take_are_followed_by_newer_ones(
    tmp_path: Path, collector: Receiver
) -> None:
    collector.will(answer(503))
    async with reporting(tmp_path, collector, metrics=True, traces=False) as kit:
        await until(kit, lambda: len(collector.requests) == 2)
    first, second, *_ = (request.body for request in collector.requests)
    assert first != second


async def test_the_instance_of_a_metric_is_not_the_process_that_reports_it(
    tmp_path: Path, collector: Receiver
) -> None:
    async with reporting(tmp_path, collector, metrics=True) as kit:
        await kit.register("pull:")
        await accept(kit)
        await until(kit, lambda: any(request.target == "/v1/metrics" for request in collector.requests))
    [request, *_] = [request for request in collector.requests if request.target == "/v1/metrics"]
    [resource] = ExportMetricsServiceRequest.FromString(gzip.decompress(request.body)).resource_metrics
    found = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    [backlog] = found["hookgw_instance_backlog_deliveries"].gauge.data_points
    # As Prometheus calls it when it scrapes: it takes service.instance.id for the label "instance".
    assert attributes(backlog) == {"exported_instance": "shop"}


def test_without_options_it_is_switched_off(hooks: Hooks) -> None:
    """Also what deliveries ask for each time: whether any plugin has a hook."""
    [info] = [info for info in hooks.plugins() if info.name == "otel"]
    assert (info.enabled, info.error) == (False, None)
    for hook in (
        "hookgw_accept",
        "hookgw_event_accepted",
        "hookgw_attempt",
        "hookgw_delivered",
    ):
        assert not hooks.implements(hook), hook


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sample": 1}, "Object missing required field `endpoint`."),
        (
            {"endpoint": "collector:4318"},
            "endpoint: use the URL of the collector, such as http://collector:4318.",
        ),
        ({"endpoint": "http://c:x"}, "endpoint: Invalid port"),
        ({"endpoint": "http://c/?token=x"}, "endpoint: use the URL of the collector"),
        ({"endpoint": "http://c/otlp/v1/traces/"}, "endpoint: leave out /v1/traces, which is appended."),
        ({"endpoint": "http://c", "headers": {"api-key": "ké"}}, "headers.api-key must be visible ASCII"),
        ({"endpoint": "http://c", "sample": 2}, "Expected `float` <= 1.0"),
        ({"endpoint": "http://c", "interval": "10ms"}, "interval: use 1s or longer."),
        ({"endpoint": "http://c", "trace": True}, "Object contains unknown field `trace`."),
    ],
)
def test_wrong_options_stop_the_start(loaded: LoadedPlugins, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        Hooks(loaded).configure({"otel": options})
    assert error.value.messages[0].startswith("plugins.options.otel: ")
    assert sentence in error.value.messages[0]


async def test_changed_options_are_used_at_once(
    tmp_path: Path, collector: Receiver, hookgw_receiver: Receiver
) -> None:
    async with reporting(tmp_path, collector, headers={"authorization": "Bearer old"}) as kit:
        await kit.register(hookgw_receiver.url)
        options: dict[str, Any] = {"endpoint": f"http://127.0.0.1:{collector.port}", "metrics": False}
        check = kit.gateway.hooks.check_options_again
        check({"otel": {**options, "headers": {"authorization": "Bearer new"}}}).apply()
        await accept(kit)
        await until(kit, lambda: len(spans(collector)) == 3)
        assert collector.requests[-1].header("authorization") == "Bearer new"
        check({"otel": {**options, "traces": False, "metrics": True}}).apply()
        await accept(kit)
        await until(kit, lambda: collector.requests[-1].target == "/v1/metrics")
        with pytest.raises(ConfigError, match="restart hookgw to switch this off"):
            check({})
    assert [request.header("traceparent") is None for request in hookgw_receiver.requests] == [False, True]


def test_a_missing_package_is_named(loaded: LoadedPlugins, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None)
    Hooks(loaded).configure({})
    with pytest.raises(ConfigError) as error:
        Hooks(loaded).configure({"otel": {"endpoint": "http://c"}})
    assert "pip install 'hookgw[otel]'" in error.value.messages[0]
