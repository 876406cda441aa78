"""The plugin rabbitmq against a scripted broker: frames, confirms, refusals, and connections that break."""

import struct
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio
import trio.lowlevel
from pamqp import base, commands, frame, header, heartbeat

from hookgw import Attempt, DeliveryState, Event, Outcome, Registration
from hookgw.testing import GatewayKit
from tests.first_party.amqp_broker import Broker, Link, Published, confirm, open_broker
from tests.public.config import PluginsSettings
from tests.public.kernel import Invalid
from tests.public.plugins import load_plugins
from tests.public.store import DeliveryReport

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "MESSAGES_UPSERT"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with open_broker() as opened:
        yield opened


async def until(condition: Callable[[], bool]) -> None:
    """Wait in real time, because the clock of the test stands still."""
    for _ in range(2000):
        if condition():
            return
        await trio.to_thread.run_sync(time.sleep, 0.005)
    raise TimeoutError("it did not happen within 10 s")


async def report(kit: GatewayKit, event: Event) -> DeliveryReport:
    await kit.settled()
    return await kit.gateway.history.find(event.instance, event.id)


async def last_attempt(kit: GatewayKit, event: Event) -> Attempt:
    return (await report(kit, event)).attempts[-1]


async def test_a_message_has_all_that_a_request_has(hookgw_gateway: GatewayKit, broker: Broker) -> None:
    await hookgw_gateway.register(broker.url("/shop%2Fone"), headers={"x-token": "abc"})
    event = await hookgw_gateway.emit(KIND, {"n": 1})
    attempt = await last_attempt(hookgw_gateway, event)
    assert (attempt.outcome, attempt.status) == (Outcome.DELIVERED, 200)
    (message,), (link,) = broker.messages, broker.links
    assert (message.exchange, message.routing_key) == ("amq.topic", f"shop.{KIND}")
    assert message.mandatory
    assert b'"n":1' in message.content
    properties = message.properties
    assert (properties.message_id, properties.message_type) == (event.id, KIND)
    assert (properties.content_type, properties.delivery_mode) == ("application/json", 2)
    assert (properties.app_id, properties.timestamp is not None) == ("hookgw", True)
    headers = properties.headers or {}
    assert {"x-token": "abc", "webhook-id": event.id, "x-attempt": "1"}.items() <= headers.items()
    assert str(headers["webhook-signature"]).startswith("v1,")
    assert link.virtual_host == "shop/one"
    assert link.start_ok is not None
    assert (link.start_ok.mechanism, link.start_ok.response) == ("PLAIN", "\0user\0s3cret/word")
    assert properties.timestamp is not None
    assert int(properties.timestamp.replace(tzinfo=UTC).timestamp()) == int(str(headers["webhook-timestamp"]))


async def test_lanes_share_a_connection_with_a_channel_for_each_registration(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    for label in ("a", "b"):
        options = {"rabbitmq": {"exchange": label, "routing_key": "{event}.of.{instance}"}}
        await hookgw_gateway.register(broker.url(), label=label, plugins=options)
    await hookgw_gateway.register(broker.url("/other"), label="c")
    events = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(5)]
    await hookgw_gateway.settled()
    assert [link.virtual_host for link in broker.links].count("/") == 1
    assert len(broker.links) == 2
    for exchange in ("a", "b", "amq.topic"):
        mine = [message for message in broker.messages if message.exchange == exchange]
        assert [message.id for message in mine] == [event.id for event in events]
        assert len({message.channel for message in mine}) == 1
    keys = {message.routing_key for message in broker.messages if message.exchange != "amq.topic"}
    assert keys == {f"{KIND}.of.shop"}


async def test_nothing_is_delivered_before_the_confirm(hookgw_gateway: GatewayKit, broker: Broker) -> None:
    async def keep_back(link: Link, message: Published) -> None:
        if len(broker.messages) == 2:
            await link.send(message.channel, commands.Basic.Ack(message.tag))

    broker.answer = keep_back
    arrived = broker.arrived
    await hookgw_gateway.register(broker.url(), timeout=5)
    first = await hookgw_gateway.emit(KIND, {"n": 1})
    await arrived.wait()
    assert (await hookgw_gateway.gateway.history.find("shop", first.id)).summary.state is (
        DeliveryState.PENDING
    )
    hookgw_gateway.clock.jump(5)
    attempt = await last_attempt(hookgw_gateway, first)
    assert attempt.outcome is Outcome.UNANSWERED
    await hookgw_gateway.advance(20)
    assert (await report(hookgw_gateway, first)).summary.state is DeliveryState.DELIVERED
    assert broker.ids == [first.id, first.id]
    assert len(broker.links) == 1  # an attempt that ends breaks nothing of the connection


async def test_acks_of_several_messages_at_once(hookgw_gateway: GatewayKit, broker: Broker) -> None:
    async def all_at_once(link: Link, message: Published) -> None:
        if message.tag >= 4:
            await link.send(message.channel, commands.Basic.Ack(message.tag, multiple=True))

    broker.answer = all_at_once
    await hookgw_gateway.register(broker.url(), ordering="none", concurrency=4)
    events = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(40)]
    await hookgw_gateway.settled()
    assert sorted(broker.ids) == sorted(event.id for event in events)


async def test_an_ack_of_one_message_confirms_none_before_it(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    async def all_but_the_first(link: Link, message: Published) -> None:
        if message.tag > 1:
            await link.send(message.channel, commands.Basic.Ack(message.tag))
        if message.tag == 2:
            await link.send(message.channel, commands.Basic.Nack(1))

    broker.answer = all_but_the_first
    await hookgw_gateway.register(broker.url(), ordering="none", concurrency=4)
    events = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(40)]
    await hookgw_gateway.settled()
    await hookgw_gateway.advance(20)
    outcomes = {
        event.id: [one.outcome for one in (await report(hookgw_gateway, event)).attempts] for event in events
    }
    assert outcomes.pop(broker.ids[0]) == [Outcome.UNREACHABLE, Outcome.DELIVERED]
    assert list(outcomes.values()) == [[Outcome.DELIVERED]] * 39


@pytest.mark.parametrize(
    ("code", "status", "outcome"), [(312, 404, Outcome.FAILED), (313, 503, Outcome.UNREACHABLE)]
)
async def test_a_returned_message_is_a_failure(
    hookgw_gateway: GatewayKit, broker: Broker, code: int, status: int, outcome: Outcome
) -> None:
    async def give_back(link: Link, message: Published) -> None:
        given = commands.Basic.Return(code, "NO_ROUTE", message.exchange, message.routing_key)
        head = header.ContentHeader(body_size=0, properties=message.properties)
        await link.send(message.channel, given, head, commands.Basic.Ack(message.tag))

    broker.answer = give_back
    await hookgw_gateway.register(broker.url())
    attempt = await last_attempt(hookgw_gateway, await hookgw_gateway.emit(KIND, {}))
    assert (attempt.outcome, attempt.status) == (outcome, status)
    assert attempt.answer == f"The broker returned the message: {code} NO_ROUTE"


async def test_a_nack_lets_the_lane_wait(hookgw_gateway: GatewayKit, broker: Broker) -> None:
    async def refuse_once(link: Link, message: Published) -> None:
        if len(broker.messages) == 1:
            await link.send(message.channel, commands.Basic.Nack(message.tag))
        else:
            await confirm(link, message)

    broker.answer = refuse_once
    await hookgw_gateway.register(broker.url())
    events = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(3)]
    assert (await report(hookgw_gateway, events[0])).attempts[0].outcome is Outcome.UNREACHABLE
    await hookgw_gateway.advance(10)
    assert broker.ids == [events[0].id, *(event.id for event in events)]


async def test_an_error_that_closes_a_channel_fails_this_registration_alone(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    async def no_exchange(link: Link, message: Published) -> None:
        if message.exchange == "nowhere":
            text = "NOT_FOUND - no exchange 'nowhere' in vhost '/'"
            await link.send(message.channel, commands.Channel.Close(404, text, 60, 40))
        else:
            await confirm(link, message)

    broker.answer = no_exchange
    await hookgw_gateway.register(broker.url(), label="bad", plugins={"rabbitmq": {"exchange": "nowhere"}})
    await hookgw_gateway.register(broker.url(), label="good")
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    await hookgw_gateway.advance(10)
    (lane,) = [one for one in hookgw_gateway.gateway.lanes() if one.last_outcome is Outcome.FAILED]
    assert lane.backlog == 1
    bad = [message for message in broker.messages if message.exchange == "nowhere"]
    assert len({message.channel for message in bad}) == len(bad) >= 2  # each on a new channel
    assert [message.id for message in broker.messages if message.exchange == "amq.topic"] == [event.id]
    assert len(broker.links) == 1
    assert "CloseOk" in broker.links[0].seen


async def test_an_exchange_that_does_not_exist_fails_its_own_messages_alone(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    held: list[tuple[Link, Published]] = []

    async def close_first(link: Link, message: Published) -> None:
        held.append((link, message))
        if len(held) == 2:
            for link, one in sorted(held, key=lambda pair: pair[1].exchange):
                if one.exchange == "CALL":
                    text = "NOT_FOUND - no exchange 'CALL' in vhost '/'"
                    await link.send(one.channel, commands.Channel.Close(404, text, 60, 40))
                else:
                    await confirm(link, one)

    broker.answer = close_first
    options = {"rabbitmq": {"exchange": "{event}"}}
    await hookgw_gateway.register(
        broker.url(), ordering="none", concurrency=2, retry={"schedule": []}, plugins=options
    )
    # By their ids, in different partitions.
    bad = await hookgw_gateway.emit("CALL", {}, event_id="a")
    good = await hookgw_gateway.emit(KIND, {}, event_id="d")
    attempts = [await last_attempt(hookgw_gateway, event) for event in (bad, good)]
    assert [(one.outcome, one.status) for one in attempts] == [
        (Outcome.FAILED, 404),
        (Outcome.DELIVERED, 200),
    ]


async def test_a_connection_that_breaks_in_the_middle_loses_and_reorders_nothing(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    async def break_often(link: Link, message: Published) -> None:
        if len(broker.messages) % 3 == 0:
            await link.stream.aclose()
        else:
            await confirm(link, message)

    broker.answer = break_often
    await hookgw_gateway.register(broker.url())
    events = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(10)]
    for _ in range(12):
        await hookgw_gateway.advance(400)
    assert list(dict.fromkeys(broker.ids)) == [event.id for event in events]
    assert (await report(hookgw_gateway, events[-1])).summary.state is DeliveryState.DELIVERED
    attempts = (await report(hookgw_gateway, events[2])).attempts
    assert [one.outcome for one in attempts] == [Outcome.UNREACHABLE, Outcome.DELIVERED]
    assert attempts[0].error == "The broker closed the connection."


async def test_a_broker_that_is_short_of_memory_lets_the_lane_wait(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    async def block(link: Link, message: Published) -> None:
        await link.send(0, commands.Connection.Blocked("low on memory"))

    broker.answer = block
    await hookgw_gateway.register(broker.url())
    event = await hookgw_gateway.emit(KIND, {})
    for _ in range(25):
        attempt = await last_attempt(hookgw_gateway, event)
        assert attempt.outcome is Outcome.UNREACHABLE
        assert attempt.error == "The broker takes no messages now: low on memory."
        link, beats = broker.links[-1], broker.links[-1].heartbeats
        await link.send(0, heartbeat.Heartbeat())
        hookgw_gateway.clock.jump(15)
        await until(lambda: link.heartbeats > beats or "Close" in link.seen)  # noqa: B023 -- called here alone
    # The broker takes what it was sent once it has memory, also of connections that were closed meanwhile.
    assert (broker.ids, len(broker.links)) == ([event.id], 1)
    broker.answer = confirm
    await broker.links[0].send(0, commands.Connection.Unblocked())
    await hookgw_gateway.advance(400)
    assert (await report(hookgw_gateway, event)).summary.state is DeliveryState.DELIVERED


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            commands.Connection.Close(403, "ACCESS_REFUSED - Login was refused", 0, 0),
            "The broker refused: 403 ACCESS_REFUSED - Login was refused.",
        ),
        (
            commands.Connection.Close(530, "NOT_ALLOWED - vhost gone not found", 10, 40),
            "The broker refused: 530 NOT_ALLOWED - vhost gone not found.",
        ),
    ],
)
async def test_a_refused_login_lets_the_lane_wait_and_says_why(
    hookgw_gateway: GatewayKit, broker: Broker, answer: commands.Connection.Close, error: str
) -> None:
    broker.refusal = answer
    await hookgw_gateway.register(broker.url())
    event = await hookgw_gateway.emit(KIND, {})
    attempt = await last_attempt(hookgw_gateway, event)
    assert (attempt.outcome, attempt.error) == (Outcome.UNREACHABLE, error)
    broker.refusal = None
    await hookgw_gateway.advance(10)
    assert (await report(hookgw_gateway, event)).summary.state is DeliveryState.DELIVERED


def nested_start(depth: int) -> bytes:
    """Return a Connection.Start whose server properties are tables in tables."""
    table = b"\x00\x00\x00\x00"
    for _ in range(depth):
        table = struct.pack(">I", len(table) + 3) + b"\x01aF" + table
    method = b"\x00\x0a\x00\x0a\x00\x09" + table + b"\x00\x00\x00\x00" * 2
    return struct.pack(">BHI", 1, 0, len(method)) + method + b"\xce"


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (nested_start(1_000), "The broker sent a frame that cannot be read"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "The server does not speak AMQP 0-9-1."),
        (b"AMQP\x00\x01\x00\x00", "The broker does not speak AMQP 0-9-1, but another version."),
        (b"\x01\x00\x00\xff\xff\xff\xff", "The server does not speak AMQP 0-9-1."),
        (b"\x01\x00\x00\x00\x00\x00\x04\x00\x63\x00\x63\xce", "The broker sent a frame that cannot be read"),
        (b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x0a\x00", "The broker sent a frame that cannot be read"),
        (b"\x08\x00\x00\x00\x00\x00\x00\xce", "The broker sent Heartbeat where Start was expected."),
        (b"", "The broker closed the connection."),
    ],
)
async def test_what_is_no_broker_is_unreachable(
    hookgw_gateway: GatewayKit, broker: Broker, sent: bytes, error: str
) -> None:
    async def talk(link: Link) -> None:
        await link.expect_protocol()
        await link.stream.send_all(sent)

    broker.serve = talk
    await hookgw_gateway.register(broker.url())
    attempt = await last_attempt(hookgw_gateway, await hookgw_gateway.emit(KIND, {}))
    assert attempt.outcome is Outcome.UNREACHABLE
    assert (attempt.error or "").startswith(error)
    assert hookgw_gateway.plugin_failures == []
    assert hookgw_gateway.gateway.outbound.pools.statistics().lent == 0


async def test_a_broker_that_says_nothing_is_unreachable(hookgw_gateway: GatewayKit, broker: Broker) -> None:
    connected = trio.Event()

    async def hang(link: Link) -> None:
        connected.set()
        await trio.sleep_forever()

    broker.serve = hang
    await hookgw_gateway.register(broker.url(), timeout=3)
    event = await hookgw_gateway.emit(KIND, {})
    await connected.wait()
    hookgw_gateway.clock.jump(2.96)
    attempt = await last_attempt(hookgw_gateway, event)
    assert attempt.outcome is Outcome.UNREACHABLE
    assert (attempt.error or "").startswith("The broker did not complete its handshake within")


async def test_heartbeats_keep_a_connection_and_silence_ends_it(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    broker.tune = (2047, 131_072, 10)
    await hookgw_gateway.register(broker.url())
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    (link,) = broker.links
    for beats in (1, 2, 3):
        hookgw_gateway.clock.jump(5)
        await until(lambda: link.heartbeats >= beats)  # noqa: B023 -- called here alone
    hookgw_gateway.clock.jump(20)  # the broker has sent none
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.advance(10)
    assert (await report(hookgw_gateway, event)).summary.state is DeliveryState.DELIVERED
    assert len(broker.links) == 2


async def test_an_idle_connection_is_closed_and_an_old_one_is_replaced(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    broker.tune = (2047, 131_072, 0)
    await hookgw_gateway.register(broker.url())
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    (link,) = broker.links
    for beats in (1, 2, 3, 4):
        await link.send(0, heartbeat.Heartbeat())
        hookgw_gateway.clock.jump(15)
        await until(lambda: link.heartbeats >= beats or "Close" in link.seen)  # noqa: B023 -- as above
    await until(lambda: "Close" in link.seen)
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    assert len(broker.links) == 2


async def test_a_connection_without_a_free_channel_is_replaced(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    broker.tune = (1, 131_072, 60)
    for label in ("a", "b"):
        await hookgw_gateway.register(broker.url(), label=label)
    events = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(2)]
    await hookgw_gateway.settled()
    assert sorted(broker.ids) == sorted(2 * [event.id for event in events])
    assert {message.channel for message in broker.messages} == {1}
    assert len(broker.links) > 1


async def test_a_large_body_is_sent_in_frames_that_the_broker_allows(
    hookgw_gateway: GatewayKit, broker: Broker
) -> None:
    broker.tune = (2047, 4096, 60)
    await hookgw_gateway.register(broker.url())
    event = await hookgw_gateway.emit(KIND, {"text": "x" * 10_000})
    assert (await last_attempt(hookgw_gateway, event)).outcome is Outcome.DELIVERED
    assert len(broker.messages[0].content) > 10_000
    assert broker.links[0].seen.count("ContentBody") == 3


async def test_without_a_user_the_default_user_logs_in(hookgw_gateway: GatewayKit, broker: Broker) -> None:
    await hookgw_gateway.register(broker.url(user=""))
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    start_ok = broker.links[0].start_ok
    assert start_ok is not None
    assert start_ok.response == "\0guest\0guest"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"exchagne": "x"}, "unknown field `exchagne`"),
        ({"exchange": 1}, "Expected `str`"),
        ({"routing_key": "{kind}"}, "routing_key: use {instance} and {event}"),
        ({"routing_key": "{instance"}, "routing_key: use {instance} and {event}"),
        ({"routing_key": "{instance}" * 2}, "AMQP allows 255"),
    ],
)
async def test_wrong_options_are_refused(
    hookgw_gateway: GatewayKit, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Invalid, match=r"^webhook.plugins.rabbitmq: ") as caught:
        await hookgw_gateway.register("amqp://127.0.0.1/", plugins={"rabbitmq": options})
    assert sentence in str(caught.value)


async def test_options_for_another_scheme_are_refused(hookgw_gateway: GatewayKit) -> None:
    with pytest.raises(Invalid, match=r"amqp:// or amqps://\. Remove the block"):
        await hookgw_gateway.register("https://crm.example/", plugins={"rabbitmq": {}})


@pytest.mark.parametrize(
    ("url", "virtual_host", "user", "password"),
    [
        ("amqp://h", "/", None, ""),
        ("amqp://h/", "/", None, ""),
        ("amqp://h/%2F", "/", None, ""),
        ("amqp://h/a%2fb", "a/b", None, ""),
        ("amqp://u@h/v", "v", "u", ""),
        ("amqps://u%40x:p%3A:q@h:1/v?x=1", "v", "u@x", "p::q"),
        ("amqp://:@h/v", "v", "", ""),
    ],
)
def test_what_a_url_says(
    tmp_path: Path, url: str, virtual_host: str, user: str | None, password: str
) -> None:
    loaded = load_plugins(PluginsSettings(), base=tmp_path)
    plugin = loaded.manager.get_plugin("rabbitmq")
    assert isinstance(plugin, ModuleType)
    found = plugin.options.broker_of(url)
    assert (found.virtual_host, found.user, found.password) == (virtual_host, user, password)


def test_a_disabled_registration_may_keep_the_options(tmp_path: Path) -> None:
    plugin: Any = load_plugins(PluginsSettings(), base=tmp_path).manager.get_plugin("rabbitmq")
    plugin.check_registration(
        {}, Registration(id="reg_1", instance="shop", url="vazio", enabled=False, plugins={"rabbitmq": {}})
    )


class Script:
    """A connection whose other side sends what it is told, and keeps what it gets."""

    use_until = float("inf")

    def __init__(self, *frames: base.Frame) -> None:
        self._frames = [(frame.marshal(one, 0)) for one in frames]
        self.sent = b""

    async def send_all(self, data: bytes) -> None:
        self.sent += data

    async def receive(self) -> bytes:
        return self._frames.pop(0) if self._frames else b""

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("user", "has_certificate", "mechanisms", "expected"),
    [
        (None, True, "PLAIN EXTERNAL", "EXTERNAL"),
        (None, True, "PLAIN", "PLAIN"),
        (None, False, "PLAIN EXTERNAL", "PLAIN"),
        ("user", True, "PLAIN EXTERNAL", "PLAIN"),
    ],
)
async def test_a_certificate_logs_in_where_the_url_has_no_user(
    tmp_path: Path, user: str | None, has_certificate: bool, mechanisms: str, expected: str
) -> None:
    plugin: Any = load_plugins(PluginsSettings(), base=tmp_path).manager.get_plugin("rabbitmq")
    handshake = import_module(f"{plugin.__name__}.handshake")
    script = Script(
        commands.Connection.Start(mechanisms=mechanisms),
        commands.Connection.Tune(0, 0, 0),
        commands.Connection.OpenOk(),
    )
    frames = handshake.FrameReader(script)
    broker = plugin.options.Broker("/", user, "")
    tuned = await handshake.open_connection(frames, broker, has_certificate=has_certificate)
    assert (tuned.channel_max, tuned.frame_max, tuned.heartbeat) == (65_535, 131_072, 30)
    assert expected.encode() in script.sent
