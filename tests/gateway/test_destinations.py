"""Deliveries that a plugin sends (``hookgw_destinations``): everything about lanes holds for them too."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

import hookgw
from hookgw import Attempt, DeliveryState, Outcome, OutgoingDelivery, OutgoingStream, Response
from hookgw.testing import GatewayKit, Receiver, open_kit
from tests.public.deliveries import Pull
from tests.public.kernel import PULL_URL, ConfigError, Conflict, Invalid, StartError
from tests.public.store import DeliveryReport
from tests.support.room import Room

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "MESSAGES_UPSERT"
URL = "line://user:s3cret-word@127.0.0.1:{port}/box"

Respond = Callable[[OutgoingDelivery], Awaitable[Any]]


class Lines:
    """A plugin that sends one line for each event; ``respond`` decides what follows."""

    def __init__(self, respond: Respond | None = None) -> None:
        self.sent: list[OutgoingDelivery] = []
        self.respond = respond or self._accept

    async def _accept(self, outgoing: OutgoingDelivery) -> Response:
        return Response(200, b"taken")

    @hookgw.hookimpl
    def hookgw_destinations(self) -> dict[str, Any]:
        async def send(outgoing: OutgoingDelivery) -> Response:
            self.sent.append(outgoing)
            response: Response = await self.respond(outgoing)
            return response

        return {"line": send}

    @property
    def ids(self) -> list[str]:
        return [one.headers["webhook-id"] for one in self.sent]


async def report(kit: GatewayKit, event: hookgw.Event) -> DeliveryReport:
    await kit.settled()
    return await kit.gateway.history.find(event.instance, event.id)


async def last_attempt(kit: GatewayKit, event: hookgw.Event) -> Attempt:
    return (await report(kit, event)).attempts[-1]


@pytest.fixture
async def listener() -> AsyncIterator[trio.SocketListener]:
    (opened,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    yield opened
    await opened.aclose()


def port_of(listener: trio.SocketListener) -> int:
    port: int = listener.socket.getsockname()[1]
    return port


async def test_a_plugin_gets_what_a_request_would_have(tmp_path: Path) -> None:
    plugin = Lines()
    async with open_kit(tmp_path, plugins={"lines": plugin}) as kit:
        stored = await kit.register(URL.format(port=99), headers={"x-one": "1"})
        event = await kit.emit(KIND, {"n": 1})
        attempt = await last_attempt(kit, event)
        (outgoing,) = plugin.sent
        assert (outgoing.url, outgoing.host, outgoing.port) == (URL.format(port=99), "127.0.0.1", 99)
        assert {"x-one": "1", "x-attempt": "1", "webhook-id": event.id}.items() <= outgoing.headers.items()
        assert outgoing.headers["webhook-signature"].startswith("v1,")
        assert (outgoing.event.id, outgoing.registration.id, outgoing.attempt) == (event.id, stored.id, 1)
        assert b'"n":1' in outgoing.body
        assert (attempt.outcome, attempt.status, attempt.answer) == (Outcome.DELIVERED, 200, "taken")
        assert attempt.url == "line://********@127.0.0.1:99/box"
        assert "s3cret" not in repr(outgoing)


async def test_order_retries_and_dead_letters_are_those_of_lanes(tmp_path: Path) -> None:
    statuses = iter([503, 500, 500, 400, 200])

    async def respond(outgoing: OutgoingDelivery) -> Response:
        return Response(next(statuses), b"busy with s3cret-word")

    plugin = Lines(respond)
    settings = {"delivery": {"schedule": ["5s"], "jitter": 0}}
    async with open_kit(tmp_path, plugins={"lines": plugin}, settings=settings) as kit:
        await kit.register(URL.format(port=99))
        first, second, third = [await kit.emit(KIND, {"n": n}) for n in range(3)]
        await kit.advance(10)  # unreachable: it waits, and what it tried first stays first
        await kit.advance(10)
        await kit.advance(10)
        found = [await report(kit, event) for event in (first, second, third)]
        assert plugin.ids == [first.id, first.id, first.id, second.id, third.id]
        assert [one.summary.state for one in found] == [
            DeliveryState.DEAD,
            DeliveryState.DEAD,
            DeliveryState.DELIVERED,
        ]
        outcomes = [attempt.outcome for attempt in found[0].attempts]
        assert outcomes == [Outcome.UNREACHABLE, Outcome.FAILED, Outcome.FAILED]
        assert found[0].attempts[0].answer == "busy with ********"
        assert plugin.sent[0].body == plugin.sent[2].body


async def test_an_os_error_lets_the_lane_wait_and_is_masked(tmp_path: Path) -> None:
    async def respond(outgoing: OutgoingDelivery) -> Response:
        if outgoing.attempt < 12:
            raise ConnectionRefusedError(f"no way to {outgoing.url}")
        return Response(204)

    plugin = Lines(respond)
    async with open_kit(tmp_path, plugins={"lines": plugin}) as kit:
        await kit.register(URL.format(port=99))
        event = await kit.emit(KIND, {"n": 0})
        attempt = await last_attempt(kit, event)
        assert (attempt.outcome, attempt.status) == (Outcome.UNREACHABLE, None)
        assert attempt.error is not None
        assert attempt.error.startswith("no way to line://")
        assert "s3cret" not in attempt.error
        for _ in range(11):
            await kit.advance(400)
        assert (await report(kit, event)).summary.state is DeliveryState.DELIVERED
        assert kit.plugin_failures == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "it returned a value of type NoneType; return hookgw.Response(status, body)"),
        (Response(99), "status is not a number from 200 to 599"),
        (Response(True), "status is not a number from 200 to 599"),
        (Response(200, "text"), "it returned a value of type str; return bytes or None"),  # type: ignore[arg-type]
        (RuntimeError("broken s3cret-word"), "RuntimeError: broken ********"),
    ],
)
async def test_anything_else_is_a_failed_attempt_that_names_the_plugin(
    tmp_path: Path, answer: Any, reason: str
) -> None:
    async def respond(outgoing: OutgoingDelivery) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with open_kit(tmp_path, plugins={"lines": Lines(respond)}) as kit:
        await kit.register(URL.format(port=99))
        attempt = await last_attempt(kit, await kit.emit(KIND, {"n": 0}))
        assert attempt.outcome is Outcome.FAILED
        assert attempt.error is not None
        assert attempt.error.startswith("Plugin 'lines' failed in hookgw_destinations.line: ")
        assert reason in attempt.error
        assert len(kit.plugin_failures) == 1


class Odd(OSError):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (Odd(), "(its message cannot be shown)"),
        (OSError(), "The plugin says no more than OSError."),
        (OSError("\ud800"), "\\ud800"),
        (OSError("x" * 1000), f"{'x' * 500}…"),
        (ExceptionGroup("", [OSError("in a nursery")]), "in a nursery"),
    ],
)
async def test_whatever_a_plugin_does_is_contained(tmp_path: Path, error: Exception, shown: str) -> None:
    async def respond(outgoing: OutgoingDelivery) -> Response:
        outgoing.url, outgoing.attempt, outgoing.body = None, "x", 5  # type: ignore[assignment]
        outgoing.headers.clear()
        raise error

    async with open_kit(tmp_path, plugins={"lines": Lines(respond)}) as kit:
        await kit.register(URL.format(port=99))
        attempt = await last_attempt(kit, await kit.emit(KIND, {"n": 0}))
        assert (attempt.outcome, attempt.error, attempt.number) == (Outcome.UNREACHABLE, shown, 1)
        assert attempt.url == "line://********@127.0.0.1:99/box"


async def test_the_lanes_deadline_ends_an_attempt(tmp_path: Path) -> None:
    begun = trio.Event()

    async def respond(outgoing: OutgoingDelivery) -> Response:
        if outgoing.attempt == 1:
            begun.set()
            await trio.sleep_forever()
        return Response(200)

    async with open_kit(tmp_path, plugins={"lines": Lines(respond)}) as kit:
        await kit.register(URL.format(port=99), timeout=7)
        event = await kit.emit(KIND, {"n": 0})
        await begun.wait()
        kit.clock.jump(7)
        attempt = await last_attempt(kit, event)
        assert attempt.outcome is Outcome.UNANSWERED
        assert (attempt.error or "").startswith("The receiver did not respond within 7 s. If it needs longer")
        await kit.advance(20)
        assert (await report(kit, event)).summary.state is DeliveryState.DELIVERED


async def test_connect_opens_a_connection_that_the_end_of_the_attempt_closes(
    tmp_path: Path, listener: trio.SocketListener
) -> None:
    async def respond(outgoing: OutgoingDelivery) -> Response:
        stream = await outgoing.connect()
        await stream.send_all(outgoing.headers["webhook-id"].encode() + b"\n")
        return Response(200, await stream.receive())

    async with open_kit(tmp_path, plugins={"lines": Lines(respond)}) as kit, trio.open_nursery() as nursery:
        await kit.register(URL.format(port=port_of(listener)))
        ended = trio.Event()

        async def serve() -> None:
            async with await listener.accept() as stream:
                await stream.send_all(b"got " + bytes(await stream.receive_some()))
                assert await stream.receive_some() == b""
                ended.set()

        nursery.start_soon(serve)
        event = await kit.emit(KIND, {"n": 0})
        attempt = await last_attempt(kit, event)
        assert attempt.answer == f"got {event.id}\n"
        await ended.wait()
        assert kit.gateway.outbound.pools.statistics().lent == 0


async def test_a_kept_connection_stays_counts_and_is_given_back(
    tmp_path: Path, listener: trio.SocketListener
) -> None:
    kept: list[OutgoingStream] = []

    async def respond(outgoing: OutgoingDelivery) -> Response:
        if not kept:
            kept.append(await outgoing.connect(keep=True))
        await kept[0].send_all(b"x")
        return Response(200)

    async with open_kit(tmp_path, plugins={"lines": Lines(respond)}) as kit:
        await kit.register(URL.format(port=port_of(listener)))
        await kit.emit(KIND, {"n": 0})
        await kit.settled()
        async with await listener.accept() as stream:
            await kit.emit(KIND, {"n": 0})
            await kit.settled()
            assert bytes(await stream.receive_some(1)) + bytes(await stream.receive_some(1)) == b"xx"
            pools = kit.gateway.outbound.pools
            assert pools.statistics().lent == 1
            assert kept[0].use_until == pytest.approx(trio.current_time() + 300, abs=100)
            kept[0].close()
            kept[0].close()
            assert pools.statistics().lent == 0
            assert await stream.receive_some() == b""
            for broken in (kept[0].send_all(b"y"), kept[0].receive()):
                with pytest.raises(OSError, match="closed"):
                    await broken


async def test_the_guard_vets_what_connect_dials(tmp_path: Path) -> None:
    async def respond(outgoing: OutgoingDelivery) -> Response:
        await outgoing.connect()
        return Response(200)

    plugin = Lines(respond)
    async with open_kit(tmp_path, plugins={"lines": plugin}) as kit:
        await kit.register("line://10.9.8.7:99/", label="private")
        await kit.register("line://127.0.0.1:5672/", label="port")
        event = await kit.emit(KIND, {"n": 0})
        await kit.settled()
        for one in kit.gateway.dispatcher.lanes():
            assert one.last_outcome is Outcome.BLOCKED
        texts = sorted(one.last_error or "" for one in kit.gateway.dispatcher.lanes())
        assert "delivery.allow_networks" in texts[0]
        assert "leave 5672 out of delivery.refused_ports" in texts[1]
        assert event.id in plugin.ids


async def test_a_refused_connection_is_no_failure_of_the_plugin(tmp_path: Path) -> None:
    async def respond(outgoing: OutgoingDelivery) -> Response:
        await outgoing.connect(tls=True)
        return Response(200)

    async with open_kit(tmp_path, plugins={"lines": Lines(respond)}) as kit:
        await kit.register("line://127.0.0.1:1/")
        attempt = await last_attempt(kit, await kit.emit(KIND, {"n": 0}))
        assert attempt.outcome is Outcome.UNREACHABLE
        assert "No connection to port 1 of 127.0.0.1" in (attempt.error or "")
        assert kit.plugin_failures == []


async def test_without_its_plugin_the_lane_waits_and_says_so(tmp_path: Path) -> None:
    async with open_kit(tmp_path, plugins={"lines": Lines()}) as kit:
        await kit.register(URL.format(port=99))
        await kit.gateway.registrations.pause("shop")
        event = await kit.emit(KIND, {"n": 0})
        await kit.settled()
    with capture_logs() as logs:
        async with open_kit(tmp_path) as kit:
            await kit.settled()
    (warning,) = [log for log in logs if log["event"] == "nothing can be delivered to a webhook"]
    assert warning["reason"].startswith("No plugin sends to line:// URLs now.")
    async with open_kit(tmp_path) as kit:
        await kit.gateway.registrations.resume("shop")
        await kit.advance(2)
        (waiting,) = kit.gateway.dispatcher.lanes()
        assert (waiting.last_outcome, waiting.backlog) == (Outcome.BLOCKED, 1)
        assert (waiting.last_error or "").startswith("No plugin sends to line:// URLs now.")
        await kit.advance(3600)
        (problem,) = (await kit.gateway.views.overview(None, 10)).problems
        assert "No plugin sends to line:// URLs now." in problem.why
        with pytest.raises(Invalid, match=r"^webhook.url: No plugin sends to line:// URLs"):
            await kit.register(URL.format(port=98), label="more")
    plugin = Lines()
    async with open_kit(tmp_path, plugins={"lines": plugin}) as kit:
        await kit.advance(3600)
        assert plugin.ids == [event.id]


class Mine:
    """A plugin with options for each registration, which drops every second event."""

    @hookgw.hookimpl
    def hookgw_check_registration(self, options: dict[str, Any]) -> None: ...

    @hookgw.hookimpl
    def hookgw_filter(self, event: hookgw.Event, registration: hookgw.Registration) -> bool:
        return bool(event.data["n"] % 2 == 0)


async def test_without_a_plugin_that_it_has_options_for_a_webhook_waits_and_says_so(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async with open_kit(tmp_path, plugins={"mine": Mine()}) as kit:
        await kit.register(hookgw_receiver.url, plugins={"mine": {}})
    reason = "The plugin mine, which this webhook has options for, does not run."
    with capture_logs() as logs:
        async with open_kit(tmp_path) as kit:
            events = [await kit.emit(KIND, {"n": n}) for n in range(2)]
            await kit.advance(2)
            (waiting,) = kit.gateway.dispatcher.lanes()
            assert (waiting.last_outcome, waiting.backlog) == (Outcome.BLOCKED, 2)
            assert (waiting.last_error or "").startswith(reason)
            await kit.advance(60)
            (problem,) = (await kit.gateway.views.overview(None, 10)).problems
            assert problem.cause == "The plugin mine does not run"
            attempt = await kit.gateway.registrations.test("shop")
            assert (attempt.outcome, (attempt.error or "").startswith(reason)) == (Outcome.BLOCKED, True)
    (warning,) = [log for log in logs if log["event"] == "nothing can be delivered to a webhook"]
    assert warning["reason"].startswith(reason)
    assert hookgw_receiver.ids == []
    async with open_kit(tmp_path, plugins={"mine": Mine()}) as kit:
        await kit.advance(3600)
        assert hookgw_receiver.ids == [events[0].id]
        assert (await report(kit, events[1])).summary.state is DeliveryState.DROPPED


async def test_a_fetch_without_that_plugin_says_why_nothing_comes(tmp_path: Path) -> None:
    async with open_kit(tmp_path, plugins={"mine": Mine()}) as kit:
        await kit.register(PULL_URL, plugins={"mine": {}})
        await kit.emit(KIND, {"n": 0})
    reason = "^The plugin mine, which this webhook has options for, does not run"
    async with open_kit(tmp_path) as kit:
        for asked in Pull(), Pull(wait=30.0):
            with pytest.raises(Conflict, match=reason):
                await kit.gateway.pulls.pull("shop", "default", asked, Room())
        with pytest.raises(Conflict, match=reason):
            await anext(kit.gateway.pulls.stream("shop", "default", Pull(), Room(), lambda: None))
        await kit.settled()
        (waiting,) = kit.gateway.dispatcher.lanes()
        assert (waiting.last_outcome, waiting.backlog) == (Outcome.BLOCKED, 1)
    async with open_kit(tmp_path, plugins={"mine": Mine()}) as kit:
        kit.clock.jump(3600)
        (found,) = await kit.gateway.pulls.pull("shop", "default", Pull(), Room())
        assert found.headers["x-attempt"] == "2"


async def test_a_delivery_that_is_cancelled_ends_its_attempt(
    tmp_path: Path, listener: trio.SocketListener
) -> None:
    async def respond(outgoing: OutgoingDelivery) -> Response:
        if outgoing.attempt == 1 and len(plugin.sent) == 1:
            stream = await outgoing.connect()
            await stream.send_all(b"x")
            await stream.receive()
        return Response(200)

    plugin = Lines(respond)
    async with open_kit(tmp_path, plugins={"lines": plugin}) as kit:
        await kit.register(URL.format(port=port_of(listener)))
        first, second = [await kit.emit(KIND, {"n": n}) for n in range(2)]
        async with await listener.accept() as stream:
            assert await stream.receive_some() == b"x"
            await kit.gateway.views.cancel_one("shop", first.id)
            assert await stream.receive_some() == b""
        found = [await report(kit, event) for event in (first, second)]
        assert [one.summary.state for one in found] == [DeliveryState.DEAD, DeliveryState.DELIVERED]
        assert found[0].attempts[0].outcome is Outcome.UNANSWERED
        assert "cut off" in (found[0].attempts[0].error or "")
        assert kit.plugin_failures == []


async def test_a_paused_registration_sends_nothing_and_a_disabled_one_parks(tmp_path: Path) -> None:
    plugin = Lines()
    async with open_kit(tmp_path, plugins={"lines": plugin}) as kit:
        await kit.register(URL.format(port=99))
        await kit.gateway.registrations.pause("shop")
        event = await kit.emit(KIND, {"n": 0})
        await kit.advance(100)
        assert plugin.sent == []
        await kit.gateway.registrations.resume("shop")
        await kit.settled()
        assert plugin.ids == [event.id]


async def test_a_kind_in_the_path_has_no_effect_and_a_warning_says_so(tmp_path: Path) -> None:
    plugin = Lines()
    async with open_kit(tmp_path, plugins={"lines": plugin}) as kit:
        stored = await kit.register(URL.format(port=99), by_events=True)
        assert await kit.gateway.registrations.warnings(stored) == [
            "webhookByEvents has no effect: a plugin sends to this URL."
        ]
        await kit.emit(KIND, {"n": 0})
        await kit.settled()
        assert plugin.sent[0].url == URL.format(port=99)


async def test_a_test_of_the_webhook_goes_through_the_plugin(tmp_path: Path) -> None:
    plugin = Lines()
    async with open_kit(tmp_path, plugins={"lines": plugin}) as kit:
        await kit.register(URL.format(port=99))
        attempt = await kit.gateway.registrations.test("shop")
        assert (attempt.outcome, len(plugin.sent)) == (Outcome.DELIVERED, 1)


async def test_other_options_of_plugins_are_another_target(tmp_path: Path) -> None:
    async def respond(outgoing: OutgoingDelivery) -> Response:
        return Response(200 if outgoing.registration.plugins == {"lines": {"box": "b"}} else 503)

    class Boxes(Lines):
        @hookgw.hookimpl
        def hookgw_check_registration(self, options: dict[str, Any]) -> None:
            assert options.keys() == {"box"}

    async with open_kit(tmp_path, plugins={"lines": Boxes(respond)}) as kit:
        await kit.register(URL.format(port=99), plugins={"lines": {"box": "a"}})
        event = await kit.emit(KIND, {"n": 0})
        for _ in range(8):
            await kit.advance(100)
        await kit.register(URL.format(port=99), plugins={"lines": {"box": "b"}})
        assert (await report(kit, event)).summary.state is DeliveryState.DELIVERED


async def send(outgoing: OutgoingDelivery) -> Response:
    return Response(200)


async def send_two(outgoing: OutgoingDelivery, more: object) -> Response:
    return Response(200)


@pytest.mark.parametrize(
    ("schemes", "problem"),
    [
        (["line"], "return a dict of functions by scheme"),
        ({"Line": send}, "'Line' is not a scheme"),
        ({"": send}, "'' is not a scheme"),
        ({"https": send}, "the scheme https is reserved"),
        ({"pull": send}, "the scheme pull is reserved"),
        ({"line": None}, "write async def send"),
        ({"line": lambda outgoing: None}, "write async def send"),
        ({"line": send_two}, "other arguments"),
    ],
)
async def test_a_wrong_scheme_stops_the_start(tmp_path: Path, schemes: Any, problem: str) -> None:
    class Wrong:
        @hookgw.hookimpl
        def hookgw_destinations(self) -> Any:
            return schemes

    with pytest.raises(StartError, match=problem):
        async with open_kit(tmp_path, plugins={"wrong": Wrong()}):
            pass


async def test_two_plugins_cannot_send_to_one_scheme(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="the plugin one sends to line:// URLs already"):
        async with open_kit(tmp_path, plugins={"one": Lines(), "two": Lines()}):
            pass


async def test_a_webhook_of_the_configuration_needs_the_plugin(tmp_path: Path) -> None:
    settings = {"global_webhooks": [{"url": "line://127.0.0.1:99/", "label": "all"}]}
    plugin = Lines()
    async with open_kit(tmp_path, plugins={"lines": plugin}, settings=settings) as kit:
        await kit.gateway.instances.create("shop")
        event = await kit.emit(KIND, {"n": 0})
        await kit.settled()
        assert plugin.ids == [event.id]
    with pytest.raises(ConfigError, match=r"global_webhooks\[0\].url: No plugin sends to line:// URLs"):
        async with open_kit(tmp_path, settings=settings):
            pass
