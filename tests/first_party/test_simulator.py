from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, cast

import httpx
import jsonschema_rs
import pytest
import trio
import trio.testing

from hookgw import ConnectionState, Connector, Invalid, NetworkRefused, QRCode, Session
from hookgw.models.errors import ConfigError, PluginFailed
from hookgw.models.events import Catalog
from hookgw.models.messages import TextMessage
from hookgw.plugins.hooks import Hooks

MockClock = trio.testing.MockClock


class FakeSession:
    """The gateway's side of an instance; it records the calls and their times."""

    def __init__(self, instance: Any = "shop", **options: Any) -> None:
        self.instance: str = instance
        self.options: dict[str, Any] = options
        self.http = httpx.AsyncClient(transport=httpx.AsyncBaseTransport())
        self.events: list[tuple[str, Any]] = []
        self.times: list[float] = []
        self.pause = 0.0

    def _note(self, kind: str, data: Any) -> None:
        self.events.append((kind, data))
        self.times.append(round(trio.current_time(), 6))

    async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
        pause, self.pause = self.pause, 0.0
        await trio.sleep(pause)
        self._note(kind, data)

    async def show_qr_code(self, qr_code: QRCode) -> None:
        await trio.lowlevel.checkpoint()
        self._note("QRCODE_UPDATED", qr_code)

    async def set_state(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        await trio.lowlevel.checkpoint()
        self._note(state.value, more)

    def data_of(self, kind: str) -> list[Any]:
        return [data for name, data in self.events if name == kind]


@pytest.fixture
def simulator(hooks: Hooks) -> Connector:
    return hooks.connectors()["simulator"]


@asynccontextmanager
async def connected(simulator: Connector, session: FakeSession) -> AsyncIterator[None]:
    """Run an instance for the length of the block."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(simulator.run, cast("Session", session))
        yield
        nursery.cancel_scope.cancel()


async def run_for(simulator: Connector, session: FakeSession, seconds: float) -> FakeSession:
    with trio.move_on_after(seconds):
        await simulator.run(cast("Session", session))
    return session


async def test_it_shows_a_qr_code_and_then_opens(simulator: Connector, autojump_clock: MockClock) -> None:
    session = await run_for(simulator, FakeSession(rate=0, connect_delay="2s"), 60)
    assert [name for name, _ in session.events] == ["connecting", "QRCODE_UPDATED", "open"]
    assert session.times == [0, 0, 2]
    (more,) = session.data_of("open")
    assert more["wuid"].endswith("@s.whatsapp.net")
    assert more["profileName"] == "shop"


async def test_it_opens_without_a_qr_code(simulator: Connector, autojump_clock: MockClock) -> None:
    session = await run_for(simulator, FakeSession(rate=0, qr_code=False, connect_delay=0), 1)
    assert [name for name, _ in session.events] == ["connecting", "open"]


async def test_the_picture_is_a_png(simulator: Connector, autojump_clock: MockClock) -> None:
    session = await run_for(simulator, FakeSession(rate=0), 5)
    (code,) = session.data_of("QRCODE_UPDATED")
    head, _, text = code.base64.partition(",")
    assert head == "data:image/png;base64"
    lines, width = read_png(base64.b64decode(text, validate=True))
    corner = [lines[(4 * 6) + 3][(4 + column) * 6] for column in range(9)]
    assert width == len(lines) == 222
    assert corner[:8] == [0, 0, 0, 0, 0, 0, 0, 1]
    assert {pixel for line in lines[:24] for pixel in line} == {1}
    assert len(text) < 2000


def read_png(raw: bytes) -> tuple[list[list[int]], int]:
    """Return the pixels and the width of a grey one-bit PNG, and check every chunk."""
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(raw):
        (length,) = struct.unpack_from(">I", raw, place)
        kind, data = raw[place + 4 : place + 8], raw[place + 8 : place + 8 + length]
        assert struct.unpack_from(">I", raw, place + 8 + length) == (zlib.crc32(kind + data),)
        chunks[kind] = data
        place += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [1, 0, 0, 0, 0]
    pixels, stride = zlib.decompress(chunks[b"IDAT"]), 1 + -(-width // 8)
    assert len(pixels) == stride * height
    rows = [pixels[row * stride : (row + 1) * stride] for row in range(height)]
    assert {row[0] for row in rows} == {0}
    return [[row[1 + x // 8] >> (7 - x % 8) & 1 for x in range(width)] for row in rows], width


async def test_messages_arrive_at_the_rate(simulator: Connector, autojump_clock: MockClock) -> None:
    session = await run_for(simulator, FakeSession(rate=4, connect_delay="1s"), 3.1)
    times = [
        at for at, (name, _) in zip(session.times, session.events, strict=True) if name == "MESSAGES_UPSERT"
    ]
    assert times == [1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0]


async def test_it_stops_after_a_number_of_messages(simulator: Connector, autojump_clock: MockClock) -> None:
    session = await run_for(simulator, FakeSession(rate=100, messages=3), 60)
    assert len(session.data_of("MESSAGES_UPSERT")) == 3
    silent = await run_for(simulator, FakeSession(rate=100, messages=0), 60)
    assert silent.data_of("MESSAGES_UPSERT") == []


async def test_messages_match_the_schema(
    simulator: Connector, autojump_clock: MockClock, catalog: Catalog
) -> None:
    session = await run_for(simulator, FakeSession(rate=100, chats=5, seed=1), 4)
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
        (name, {**data, "messageTimestamp": 0} if isinstance(data, dict) else data)
        for name, data in session.events
    ]


async def test_the_same_seed_gives_the_same_events(simulator: Connector, autojump_clock: MockClock) -> None:
    one, two, other, unseeded, again = [
        without_times(await run_for(simulator, FakeSession(rate=10, **seed), 3.05))
        for seed in ({"seed": 7}, {"seed": 7}, {"seed": 8}, {}, {})
    ]
    assert one == two
    assert one != other
    assert unseeded != again


async def test_two_instances_with_one_seed_differ(simulator: Connector, autojump_clock: MockClock) -> None:
    one = await run_for(simulator, FakeSession("a", rate=10, seed=7), 3.05)
    two = await run_for(simulator, FakeSession("b", rate=10, seed=7), 3.05)
    assert without_times(one) != without_times(two)
    assert one.data_of("open")[0]["wuid"] != two.data_of("open")[0]["wuid"]


async def test_it_does_not_catch_up_after_a_pause(simulator: Connector, autojump_clock: MockClock) -> None:
    session = FakeSession(rate=1, connect_delay=0)
    session.pause = 6.0
    await run_for(simulator, session, 9.5)
    assert session.times[3:] == [7.0, 7.0, 8.0, 9.0]
    assert len(session.data_of("MESSAGES_UPSERT")) == 4


async def test_a_sent_message_is_acknowledged_delivered_and_read(
    simulator: Connector, autojump_clock: MockClock, catalog: Catalog
) -> None:
    session = FakeSession(rate=0, connect_delay=0, status_delay="1s")
    async with connected(simulator, session):
        await trio.testing.wait_all_tasks_blocked()
        message = await simulator.send(
            cast("Session", session), TextMessage(number="+55 (11) 98888-7777", text="Olá"), key="k"
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
    assert session.times[-3:] == [1.0, 2.0, 3.0]
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
        await simulator.send(
            cast("Session", FakeSession()), TextMessage(number=number, text="hello"), key="k"
        )


async def test_an_empty_text_is_refused(simulator: Connector) -> None:
    with pytest.raises(Invalid, match="text must not be empty"):
        await simulator.send(
            cast("Session", FakeSession()), TextMessage(number="5511988887777", text=""), key="k"
        )


@pytest.mark.parametrize(
    ("number", "chat"),
    [
        ("1234567", "1234567@s.whatsapp.net"),
        ("123456789012345", "123456789012345@s.whatsapp.net"),
        ("120363040000000000@g.us", "120363040000000000@g.us"),
        ("5511988887777@s.whatsapp.net", "5511988887777@s.whatsapp.net"),
    ],
)
async def test_numbers_and_jids_are_accepted(
    simulator: Connector, autojump_clock: MockClock, number: str, chat: str
) -> None:
    session = FakeSession(rate=0, connect_delay=0)
    async with connected(simulator, session):
        await trio.testing.wait_all_tasks_blocked()
        assert (
            await simulator.send(cast("Session", session), TextMessage(number=number, text="hello"), key="k")
        )["key"]["remoteJid"] == chat


async def test_sending_while_not_connected_is_refused(
    simulator: Connector, autojump_clock: MockClock
) -> None:
    session = FakeSession(rate=0, connect_delay="5s")
    async with connected(simulator, session):
        await trio.sleep(4)
        with pytest.raises(NetworkRefused, match="not connected"):
            await simulator.send(
                cast("Session", session), TextMessage(number="5511988887777", text="hello"), key="k"
            )
        await trio.sleep(2)
        await simulator.send(
            cast("Session", session), TextMessage(number="5511988887777", text="hello"), key="k"
        )
    with pytest.raises(NetworkRefused, match="not connected"):
        await simulator.send(
            cast("Session", session), TextMessage(number="5511988887777", text="hello"), key="k"
        )


@pytest.mark.parametrize(("share", "refused"), [(1.0, 20), (0.0, 0)])
async def test_fail_send_refuses_that_share_of_messages(
    simulator: Connector, autojump_clock: MockClock, share: float, refused: int
) -> None:
    session = FakeSession(rate=0, connect_delay=0, fail_send=share)
    count = 0
    async with connected(simulator, session):
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(20):
            try:
                await simulator.send(
                    cast("Session", session), TextMessage(number="5511988887777", text="hello"), key="k"
                )
            except NetworkRefused:
                count += 1
    assert count == refused


async def test_defaults_come_from_the_configuration(hooks: Hooks, autojump_clock: MockClock) -> None:
    hooks.configure({"simulator": {"rate": 2, "messages": 4, "connect_delay": 0}})
    simulator = hooks.connectors()["simulator"]
    assert len((await run_for(simulator, FakeSession(), 60)).data_of("MESSAGES_UPSERT")) == 4
    overriding = FakeSession(messages=1, qrcode=True, instanceName="shop")
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
        await simulator.run(cast("Session", FakeSession(rate="fast")))


def test_the_picture_is_the_same_for_the_same_code(module_of: Callable[[str], ModuleType]) -> None:
    picture_of = module_of("simulator").connector.picture_of
    assert picture_of("2@a") == picture_of("2@a") != picture_of("2@b")
