import base64
import struct
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import trio
import trio.testing

from hookgw import ConnectionState, Connector, Invalid, NetworkRefused, NewEvent, TextMessage
from hookgw.testing import FakeSession
from tests.public.kernel import ConfigError, PluginFailed
from tests.public.plugins import Hooks
from tests.public.records import Catalog
from tests.support.simulated import connected, instance, run_for, times_of

pytestmark = pytest.mark.usefixtures("autojump_clock")

MockClock = trio.testing.MockClock


async def test_it_shows_a_qr_code_and_then_opens(simulator: Connector) -> None:
    session = await run_for(simulator, instance(rate=0, connect_delay="2s"), 60)
    assert [event.kind for event in session.events] == [
        "CONNECTION_UPDATE",
        "QRCODE_UPDATED",
        "CONNECTION_UPDATE",
    ]
    assert [event.at for event in session.events] == [0, 0, 2]
    (connecting, _, _), (opened, _, more) = session.states
    assert (connecting, opened) == (ConnectionState.CONNECTING, ConnectionState.OPEN)
    assert more["wuid"].endswith("@s.whatsapp.net")
    assert more["profileName"] == "shop"


async def test_it_opens_without_a_qr_code(simulator: Connector) -> None:
    session = await run_for(simulator, instance(rate=0, qr_code=False, connect_delay=0), 1)
    assert [state for state, _, _ in session.states] == [ConnectionState.CONNECTING, ConnectionState.OPEN]
    assert session.qr_codes == []


async def test_the_picture_is_a_png(simulator: Connector) -> None:
    session = await run_for(simulator, instance(rate=0), 5)
    (code,) = session.qr_codes
    head, _, text = code.base64.partition(",")
    assert head == "data:image/png;base64"
    raw = base64.b64decode(text, validate=True)
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack_from(">II", raw, 16)
    # Six pixels for each module of a code of some version, and for four modules of margin on each side.
    assert width == height
    assert (width // 6 - 8 - 17) % 4 == 0
    assert len(text) < 2000


async def test_messages_arrive_at_the_rate(simulator: Connector) -> None:
    session = await run_for(simulator, instance(rate=4, connect_delay="1s"), 3.1)
    assert times_of(session, "MESSAGES_UPSERT") == [1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0]


async def test_it_stops_after_a_number_of_messages(simulator: Connector) -> None:
    session = await run_for(simulator, instance(rate=100, messages=3), 60)
    assert len(session.data_of("MESSAGES_UPSERT")) == 3
    silent = await run_for(simulator, instance(rate=100, messages=0), 60)
    assert silent.data_of("MESSAGES_UPSERT") == []


async def test_messages_match_the_schema(simulator: Connector, catalog: Catalog) -> None:
    session = await run_for(simulator, instance(rate=100, chats=5, seed=1), 4)
    check = jsonschema_rs.validator_for(catalog.resolve("MESSAGES_UPSERT", "event").schema)
    messages = session.data_of("MESSAGES_UPSERT")
    for message in messages:
        check.validate(message)
    chats = {message["key"]["remoteJid"] for message in messages}
    assert len(chats) == 5
    assert [chat.endswith("@g.us") for chat in sorted(chats)] == [True, False, False, False, False]
    assert {message["messageType"] for message in messages} == {"conversation", "imageMessage"}
    assert all(("participant" in m["key"]) is m["key"]["remoteJid"].endswith("@g.us") for m in messages)
    assert len({message["key"]["id"] for message in messages}) == len(messages)


def without_times(session: FakeSession) -> list[tuple[str, Any]]:
    return [
        (event.kind, {**event.data, "messageTimestamp": 0} if isinstance(event.data, dict) else event.data)
        for event in session.events
    ]


async def test_the_same_seed_gives_the_same_events(simulator: Connector) -> None:
    one, two, other, unseeded, again = [
        without_times(await run_for(simulator, instance(rate=10, **seed), 3.05))
        for seed in ({"seed": 7}, {"seed": 7}, {"seed": 8}, {}, {})
    ]
    assert one == two
    assert one != other
    assert unseeded != again


async def test_two_instances_with_one_seed_differ(simulator: Connector) -> None:
    one = await run_for(simulator, instance("a", rate=10, seed=7), 3.05)
    two = await run_for(simulator, instance("b", rate=10, seed=7), 3.05)
    assert without_times(one) != without_times(two)
    assert one.states[-1][2]["wuid"] != two.states[-1][2]["wuid"]


async def test_it_does_not_catch_up_after_a_pause(simulator: Connector) -> None:
    session = SlowOnce(options={"rate": 1, "connect_delay": 0})
    await run_for(simulator, session, 9.5)
    assert times_of(session, "MESSAGES_UPSERT") == [7.0, 7.0, 8.0, 9.0]


class SlowOnce(FakeSession):
    """A gateway that cannot store the first message for a while."""

    pause = 6.0

    async def emit_all(self, events: Sequence[NewEvent], *, state: Any = msgspec.UNSET) -> None:
        if events[0].kind == "MESSAGES_UPSERT":
            pause, self.pause = self.pause, 0.0
            await trio.sleep(pause)
        await super().emit_all(events, state=state)


async def test_a_sent_message_is_acknowledged_delivered_and_read(
    simulator: Connector, catalog: Catalog
) -> None:
    session = instance(rate=0, connect_delay=0, status_delay="1s")
    async with connected(simulator, session):
        message = await simulator.send(
            session, TextMessage(number="+55 (11) 98888-7777", text="Olá"), key="k"
        )
        await trio.sleep(3.5)
    jsonschema_rs.validator_for(catalog.resolve("SEND_MESSAGE", "event").schema).validate(message)
    assert message["key"] == {
        "remoteJid": "5511988887777@s.whatsapp.net",
        "fromMe": True,
        "id": message["key"]["id"],
    }
    assert message["message"] == {"conversation": "Olá"}
    assert message["status"] == "PENDING"
    assert times_of(session, "MESSAGES_UPDATE") == [1.0, 2.0, 3.0]
    assert session.data_of("MESSAGES_UPDATE") == [
        {
            "keyId": message["key"]["id"],
            "remoteJid": "5511988887777@s.whatsapp.net",
            "fromMe": True,
            "status": status,
        }
        for status in ("SERVER_ACK", "DELIVERY_ACK", "READ")
    ]
    check = jsonschema_rs.validator_for(catalog.resolve("MESSAGES_UPDATE", "event").schema)
    assert all(check.is_valid(update) for update in session.data_of("MESSAGES_UPDATE"))


@pytest.mark.parametrize("number", ["", "abc", "123456", "1234567890123456", "5511@example.com", "55 11\n"])
async def test_invalid_numbers_are_refused(simulator: Connector, number: str) -> None:
    with pytest.raises(Invalid, match="is not a phone number; use 7 to 15 digits"):
        await simulator.send(instance(), TextMessage(number=number, text="hello"), key="k")


async def test_an_empty_text_is_refused(simulator: Connector) -> None:
    with pytest.raises(Invalid, match="text must not be empty"):
        await simulator.send(instance(), TextMessage(number="5511988887777", text=""), key="k")


@pytest.mark.parametrize(
    ("number", "chat"),
    [
        ("1234567", "1234567@s.whatsapp.net"),
        ("123456789012345", "123456789012345@s.whatsapp.net"),
        ("120363040000000000@g.us", "120363040000000000@g.us"),
        ("5511988887777@s.whatsapp.net", "5511988887777@s.whatsapp.net"),
    ],
)
async def test_numbers_and_jids_are_accepted(simulator: Connector, number: str, chat: str) -> None:
    session = instance(rate=0, connect_delay=0)
    async with connected(simulator, session):
        assert (await simulator.send(session, TextMessage(number=number, text="hello"), key="k"))["key"][
            "remoteJid"
        ] == chat


async def test_sending_while_not_connected_is_refused(simulator: Connector) -> None:
    session, hello = instance(rate=0, connect_delay="5s"), TextMessage(number="5511988887777", text="hello")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(simulator.run, session)
        await trio.sleep(4)
        with pytest.raises(NetworkRefused, match="not connected"):
            await simulator.send(session, hello, key="k")
        await trio.sleep(2)
        await simulator.send(session, hello, key="k")
        nursery.cancel_scope.cancel()
    with pytest.raises(NetworkRefused, match="not connected"):
        await simulator.send(session, hello, key="k")


@pytest.mark.parametrize(("share", "refused"), [(1.0, 20), (0.0, 0)])
async def test_fail_send_refuses_that_share_of_messages(
    simulator: Connector, share: float, refused: int
) -> None:
    session = instance(rate=0, connect_delay=0, fail_send=share)
    count = 0
    async with connected(simulator, session):
        for n in range(20):
            try:
                await simulator.send(session, TextMessage(number="5511988887777", text="hello"), key=f"k{n}")
            except NetworkRefused:
                count += 1
    assert count == refused


async def test_defaults_come_from_the_configuration(hooks: Hooks) -> None:
    hooks.configure({"simulator": {"rate": 2, "messages": 4, "connect_delay": 0}})
    simulator = hooks.connectors()["simulator"]
    assert len((await run_for(simulator, instance(), 60)).data_of("MESSAGES_UPSERT")) == 4
    overriding = instance(messages=1, qrcode=True, instanceName="shop")
    assert len((await run_for(simulator, overriding, 60)).data_of("MESSAGES_UPSERT")) == 1


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"rat": 1}, "the simulator has no option rat; its options are rate, messages, chats"),
        ({"rate": -1}, "$.rate"),
        ({"rate": 10_001}, "$.rate"),
        ({"rate": "fast"}, "$.rate"),
        ({"chats": 0}, "$.chats"),
        ({"messages": -1}, "$.messages"),
        ({"fail_send": 1.1}, "$.fail_send"),
        ({"connect_delay": 5}, "expected a duration such as 200ms"),
        ({"seed": "x"}, "$.seed"),
    ],
)
def test_wrong_options_stop_the_start(hooks: Hooks, block: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        hooks.configure({"simulator": block})
    assert said in str(caught.value)


async def test_wrong_options_of_an_instance_end_its_run(simulator: Connector) -> None:
    with pytest.raises(PluginFailed, match=r"\$\.rate"):
        await simulator.run(instance(rate="fast"))


def test_the_picture_is_the_same_for_the_same_code(module_of: Callable[[str], ModuleType]) -> None:
    picture_of = module_of("simulator").connector.picture_of
    assert picture_of("2@a") == picture_of("2@a") != picture_of("2@b")
