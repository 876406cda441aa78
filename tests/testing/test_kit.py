"""The gateway kit: a real gateway on a clock that the test moves."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

import hookgw
from hookgw import (
    IngestRequest,
    IngestResponse,
    Invalid,
    NotFound,
    ProofRefused,
    Session,
    TextMessage,
    TooLarge,
    Unavailable,
)
from hookgw.testing import FakeConnector, GatewayKit, Receiver, answer, hang, open_kit
from tests.public.kernel import ConfigError, Rate, Secret, Signature, StartError
from tests.public.records import Condition, FilterOp, Ordering, RetryOptions, TlsIdentity, new_secret
from tests.support.waits import FIRST_WAIT


async def test_an_event_arrives_signed(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    registration = await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit("messages.upsert", {"b": 1, "a": 2})
    [request] = await hookgw_receiver.wait_for(1)
    assert request.event_id == event.id
    assert request.json["event"] == "MESSAGES_UPSERT"
    assert list(request.json["data"]) == ["b", "a"]
    hookgw_receiver.verify(request, registration.secrets[0].value)


async def test_a_registration_takes_each_field_as_its_record_has_it(
    hookgw_gateway: GatewayKit, hookgw_clock: MockClock
) -> None:
    given: dict[str, Any] = {
        "events": ("MESSAGES_UPSERT",),
        "by_events": True,
        "headers": {"x-a": "b"},
        "ordering": Ordering.CHAT,
        "concurrency": 2,
        "rate": Rate(5, "m"),
        "timeout": 2.5,
        "retry": RetryOptions(schedule=(1.0, 90.0), max_age=3600.0),
        "filter": (Condition("/data/a", FilterOp.NOT_EXISTS), Condition("/data/b", FilterOp.IN, (1, "x"))),
        "tls": TlsIdentity(server_name="receiver.internal"),
    }
    registration = await hookgw_gateway.register("https://127.0.0.1:1/x", **given)
    assert {name: getattr(registration, name) for name in given} == given


async def test_the_test_moves_the_clock(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(500), answer(500))
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit("MESSAGES_UPSERT", {})
    await hookgw_gateway.advance(FIRST_WAIT - 0.1)
    assert len(hookgw_receiver.requests) == 1
    await hookgw_gateway.advance(0.2 * FIRST_WAIT)
    assert len(hookgw_receiver.requests) == 2
    await hookgw_gateway.advance(17)
    first, second, third = hookgw_receiver.requests
    assert first.body == second.body == third.body
    assert hookgw_gateway.gateway.lanes()[0].backlog == 0


async def test_a_busy_lane_is_named(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hookgw_receiver.will(hang())
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit("MESSAGES_UPSERT", {})
    await hookgw_receiver.wait_for(1)
    with monkeypatch.context() as patch:
        patch.setattr("hookgw.testing.kit.SETTLE_TIMEOUT", 0.05)
        with pytest.raises(TimeoutError, match=r"still busy after 0\.05 s: .*delivering, 1 pending"):
            await hookgw_gateway.settled()
    hookgw_clock.jump(30)
    await hookgw_gateway.advance(33)
    assert len(hookgw_receiver.requests) == 2


class Shouting:
    """A plugin object."""

    @hookgw.hookimpl
    def hookgw_transform(self, event: hookgw.Event) -> hookgw.Event:
        return event.replace(data={"text": event.data["text"].upper()})


async def test_it_takes_plugins_and_settings(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    settings = {"delivery": {"schedule": ["1s"]}, "events": {"validate": "off"}}
    async with open_kit(tmp_path, plugins={"shouting": Shouting()}, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit("MESSAGES_UPSERT", {"wrong": 1})
        await kit.settled()
        [failure] = kit.plugin_failures
        assert (failure.plugin, failure.hook) == ("shouting", "hookgw_transform")
        await kit.advance(1.2)
        assert len(kit.plugin_failures) == 2
        await kit.emit("MESSAGES_UPSERT", {"text": "hey"})
        await kit.settled()
    assert [event["data"] for event in hookgw_receiver.events()] == [{"text": "HEY"}]


async def test_a_failure_is_printed_without_local_variables(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The registration's secret is one of them."""
    structlog.reset_defaults()
    async with open_kit(tmp_path, plugins={"shouting": Shouting()}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit("MESSAGES_UPSERT", {"no": "text"})
        await kit.settled()
    printed = capsys.readouterr().out
    assert "plugin failed" in printed
    assert "KeyError: 'text'" in printed
    assert "whsec_" not in printed
    assert not structlog.is_configured()


async def test_the_logging_of_a_test_stays(tmp_path: Path, hookgw_clock: MockClock) -> None:
    with structlog.testing.capture_logs() as lines:
        structlog.configure(processors=structlog.get_config()["processors"])
        before = structlog.get_config()
        async with open_kit(tmp_path):
            assert structlog.get_config() == before
        assert structlog.get_config() == before
    structlog.reset_defaults()
    assert lines


async def test_a_second_kit_continues_where_the_first_ended(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(503))
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit("MESSAGES_UPSERT", {})
        await kit.settled()
    async with open_kit(tmp_path) as kit:
        await kit.advance(2)
    assert hookgw_receiver.ids == [event.id, event.id]


class Lingering:
    """Its task takes a second of the clock to end."""

    @hookgw.hookimpl
    async def hookgw_run(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)


async def test_a_plugin_that_takes_a_moment_to_end_ends(
    tmp_path: Path, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its test waited for ever: the clock stood still."""
    monkeypatch.setattr("hookgw.testing.kit.END_WITHIN", 0.01)
    with structlog.testing.capture_logs() as logged:
        async with open_kit(tmp_path, plugins={"lingering": Lingering()}):
            await trio.testing.wait_all_tasks_blocked()
    waited = [line for line in logged if line["event"] == "the test waits for a plugin that does not end"]
    assert [(line["plugin"], line["hook"]) for line in waited] == [("lingering", "hookgw_run")]
    assert "test_kit.py" in waited[0]["line"]
    now = trio.current_time()
    await trio.to_thread.run_sync(time.sleep, 0.01)
    assert trio.current_time() == now


async def test_an_event_id_is_accepted_once(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    for _ in range(2):
        await hookgw_gateway.emit("MESSAGES_UPSERT", {}, event_id="one")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ["one"]


async def test_a_fake_connector_connects_and_sends(tmp_path: Path, hookgw_clock: MockClock) -> None:
    connector = FakeConnector()
    async with open_kit(tmp_path, plugins={"fake": connector}) as kit:
        await kit.gateway.instances.create("shop", integration="fake")
        await kit.gateway.instances.connect("shop")
        await trio.testing.wait_all_tasks_blocked(0.01)
        await kit.settled()
        assert kit.gateway.instances.connection_state("shop") == "open"
        message = await kit.gateway.messages.send("shop", TextMessage(number="123", text="hello"))
        assert message["message"] == {"conversation": "hello"}
    assert [sent.message for sent in connector.sent] == [TextMessage(number="123", text="hello")]


async def test_what_a_fake_connector_sends_satisfies_the_schema(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    settings = {"events": {"validate": "strict"}}
    async with open_kit(tmp_path, plugins={"fake": FakeConnector()}, settings=settings) as kit:
        await kit.gateway.instances.create("shop", integration="fake")
        await kit.register(hookgw_receiver.url, events=("SEND_MESSAGE",))
        await kit.gateway.instances.connect("shop")
        await kit.gateway.messages.send("shop", TextMessage(number="123", text="hello"))
        [request] = await hookgw_receiver.wait_for(1)
    assert request.json["data"]["message"] == {"conversation": "hello"}


async def test_an_unknown_kind_is_refused(hookgw_gateway: GatewayKit, hookgw_clock: MockClock) -> None:
    with pytest.raises(NotFound, match="shop"):
        await hookgw_gateway.emit("MESSAGE_UPSERT", {})
    await hookgw_gateway.register("http://127.0.0.1:1/")
    with pytest.raises(Invalid, match="MESSAGES_UPSERT"):
        await hookgw_gateway.emit("MESSAGE_UPSERT", {})


async def test_settings_follow_the_rules_of_the_file(tmp_path: Path, hookgw_clock: MockClock) -> None:
    settings: dict[str, Any] = {"delivery": {"time_out": "2s"}}
    with pytest.raises(ConfigError, match=r"delivery\.time_out"):
        async with open_kit(tmp_path, settings=settings):
            pass


async def test_a_broken_plugin_stops_the_start(tmp_path: Path, hookgw_clock: MockClock) -> None:
    broken = SimpleNamespace(hookgw_transfrom=hookgw.hookimpl(lambda event: None))
    with pytest.raises(StartError, match="broken"):
        async with open_kit(tmp_path, plugins={"broken": broken}):
            pass


async def test_a_missing_mock_clock_is_explained(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="hookgw_clock"):
        async with open_kit(tmp_path):
            pass


async def test_no_name_server_is_asked(hookgw_gateway: GatewayKit, hookgw_clock: MockClock) -> None:
    for url, found in (
        ("http://localhost:9/", True),
        ("http://127.0.0.1:9/", True),
        ("http://a.example/", False),
    ):
        await hookgw_gateway.register(url)
        attempt = await hookgw_gateway.gateway.registrations.test("shop")
        assert ("could not be resolved" in (attempt.error or "")) != found


async def test_settled_waits_for_operational_events_too(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    class Slow:
        heard = 0

        @hookgw.hookimpl
        async def hookgw_operational_event(self, event: hookgw.Event) -> None:
            await trio.to_thread.run_sync(time.sleep, 0.2)
            self.heard += 1

    slow = Slow()
    hookgw_receiver.default = answer(422)
    async with open_kit(tmp_path, plugins={"slow": slow}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit("CALL", {})
        await kit.settled()
        assert slow.heard == 1


async def test_settled_waits_for_what_the_last_commit_raises(
    tmp_path: Path, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed: list[str] = []

    class Plugin:
        @hookgw.hookimpl
        async def hookgw_operational_event(self, event: hookgw.Event) -> None:
            await trio.lowlevel.checkpoint()
            observed.append(event.kind)

    async with open_kit(tmp_path, plugins={"observer": Plugin()}) as kit:
        usual = kit.gateway.store.flush

        async def flush() -> None:
            await usual()
            if not observed:
                kit.gateway.operational.instance_gap("shop", 1.0, 2.0)

        monkeypatch.setattr(kit.gateway.store, "flush", flush)
        await kit.settled()
        assert observed == ["INSTANCE_GAP"]


DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (DEEP, "nested too deeply"),
        ({"n": float("nan")}, "not JSON"),
        ({"n": b"x"}, "not JSON"),
        ({1: 2}, "a key that is not a string"),
        ({"n": 10**5000}, "not JSON"),
        ("x" * 2**20, "at most 1 ?MiB"),
        ("\ud800", "surrogate"),
        ([0] * 100_001, "values"),
    ],
    ids=["deep", "nan", "bytes", "key", "integer", "size", "surrogate", "values"],
)
async def test_data_that_production_refuses_is_refused(
    hookgw_gateway: GatewayKit, hookgw_clock: MockClock, data: Any, reason: str
) -> None:
    await hookgw_gateway.register("http://127.0.0.1:1/")
    with pytest.raises((Invalid, TooLarge), match=reason):
        await hookgw_gateway.emit("MESSAGES_UPSERT", data)


async def test_large_integers_are_accepted_as_in_production(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit("MESSAGES_UPSERT", {"n": 10**30})
    [request] = await hookgw_receiver.wait_for(1)
    assert request.json["data"] == {"n": 10**30}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"events": ("MESSAGE_UPSERT",)}, r"events\[0\]: 'MESSAGE_UPSERT' is not a known .* MESSAGES_UPSERT"),
        ({"events": ("LANE_FAILING",)}, "operational event"),
        ({"events": "CALL"}, "events must be a list"),
        ({"url": "ftp://127.0.0.1/"}, "url"),
        ({"headers": {"host": "x"}}, "host cannot be set"),
        ({"concurrency": 65}, "concurrency"),
        ({"ordering": "none at all"}, "ordering"),
        ({"timeout": 0.001}, "timeout"),
        ({"retry": RetryOptions(schedule=(-1.0,))}, "retry.schedule"),
        ({"secret": Secret("whsec_x")}, "secret"),
        ({"plugins": {"mine": 5}}, "plugins.mine"),
        ({"plugins": {"mine": {"x": b""}}}, "not JSON"),
        ({"instance": "a b"}, "instanceName"),
    ],
)
async def test_a_registration_that_production_refuses_is_refused(
    hookgw_gateway: GatewayKit, hookgw_clock: MockClock, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Invalid, match=reason):
        await hookgw_gateway.register(**{"url": "http://127.0.0.1:1/", **fields})
    assert hookgw_gateway.gateway.instances.all() == []


async def test_every_field_of_a_registration_is_stored(
    hookgw_gateway: GatewayKit, hookgw_clock: MockClock
) -> None:
    secret = new_secret(Signature.V1A)
    given: dict[str, Any] = {
        "events": ("MESSAGES_UPSERT", "CALL"),
        "enabled": False,
        "by_events": True,
        "base64": True,
        "headers": {"X-Key": "1"},
        "ordering": Ordering.CHAT,
        "concurrency": 3,
        "timeout": 2.5,
        "retry": RetryOptions(schedule=(0.25, 60.0), max_age=90.0),
        "plugins": {"evolution_envelope": {"apikey": "1"}},
    }
    stored = await hookgw_gateway.register("no url", label="crm", secret=secret, **given)
    assert {name: getattr(stored, name) for name in given} == given
    assert (stored.url, stored.secrets, stored.label) == ("no url", (secret,), "crm")
    with pytest.raises(TypeError, match="colour"):
        await hookgw_gateway.register("http://127.0.0.1:1/", colour="red")


async def test_a_request_of_the_network(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async def answer_it(session: Session, request: IngestRequest) -> IngestResponse:
        if request.headers["x-proof"] != "right":
            raise ProofRefused("No.")
        await session.emit("CALL", {}, event_id=request.query["id"])
        return IngestResponse(body=request.method.encode() + request.body)

    plugins = {"fake": FakeConnector(ingest=answer_it), "deaf": FakeConnector("deaf", without=("ingest",))}
    async with open_kit(tmp_path, plugins=plugins) as kit:
        for name, integration in (("shop", "fake"), ("deaf", "deaf")):
            await kit.gateway.instances.create(name, integration=integration)
        with pytest.raises(Unavailable, match="not ready"):
            await kit.ingest()
        await kit.gateway.instances.connect("shop")
        found = await kit.ingest(b"!", query={"id": "e1"}, headers={"X-Proof": "right"})
        assert found.body == b"POST!"
        with pytest.raises(ProofRefused):
            await kit.ingest(method="GET", headers={"x-proof": "wrong"})
        with pytest.raises(NotFound):
            await kit.ingest(instance="deaf")


async def test_waiting_for_too_many_requests_fails_and_says_what_arrived(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hookgw.testing.receiver.PATIENCE", 0.05)
    with pytest.raises(TimeoutError, match=r"0 of 1 requests arrived .* Nothing arrived\."):
        await hookgw_receiver.wait_for(1)
    hookgw_receiver.will(answer(500))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit("CALL", {})
    await hookgw_gateway.settled()
    with pytest.raises(TimeoutError) as caught:
        await hookgw_receiver.wait_for(2)
    assert str(caught.value) == (
        "1 of 2 requests arrived in 0.05 real seconds. The mock clock stands still: to let a retry come, "
        f"move it (kit.advance). Arrived: POST / CALL {event.id} (attempt 1)."
    )
    await hookgw_gateway.advance(1.2 * FIRST_WAIT)
    assert len(await hookgw_receiver.wait_for(2)) == 2
