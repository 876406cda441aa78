"""Dialling: every address is vetted, several are tried, errors name each with its reason."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from tests.public.delivery import (
    MAX_ADDRESSES,
    STAGGER,
    AddressGuard,
    Blocked,
    ConnectFailed,
    Dialer,
    Phase,
    ResolveFailed,
    TimedOut,
)

LOCAL = AddressGuard(["127.0.0.0/8", "::1"])


def names(*addresses: str) -> Any:
    """Return a resolver that finds these addresses for every name."""

    async def resolve(host: str, port: int, **options: Any) -> Sequence[Any]:
        await trio.lowlevel.checkpoint()
        assert options == {"type": socket.SOCK_STREAM, "holder": ""}
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    return resolve


@asynccontextmanager
async def listening(address: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    with trio.socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        await listener.bind((address, port))
        listener.listen()
        yield listener.getsockname()[1]


@asynccontextmanager
async def black_hole() -> AsyncIterator[int]:
    """A port that neither accepts nor refuses connections: its queue is full."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.9", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_a_socket_is_connected_with_tcp_nodelay(address: str) -> None:
    async with listening(address) as port:
        with await Dialer(LOCAL, connect_timeout=5).dial(address, port) as sock:
            assert sock.getpeername()[:2] == (address, port)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert not sock.getblocking()


async def test_a_name_is_resolved_by_the_system() -> None:
    async with listening() as port:
        with await Dialer(LOCAL, connect_timeout=5).dial("localhost", port) as sock:
            assert sock.getpeername()[1] == port


@pytest.mark.parametrize("addresses", [("127.0.0.1", "10.1.2.3"), ("8.8.8.8", "10.1.2.3", "8.8.4.4")])
async def test_one_refused_address_refuses_the_host(addresses: tuple[str, ...]) -> None:
    with pytest.raises(Blocked) as caught:
        await Dialer(LOCAL, connect_timeout=5, resolve=names(*addresses)).dial("example.com", 80)
    assert caught.value.message == (
        "The host example.com is blocked. "
        "Port 80 of 10.1.2.3 is not dialled: the address is private (10.0.0.0/8). "
        'To allow it, set delivery.allow_networks: ["10.1.2.3/32"].'
    )


async def test_every_refused_address_is_named() -> None:
    with pytest.raises(Blocked, match=r"10\.0\.0\.1/32.*10\.0\.0\.2/32"):
        await Dialer(LOCAL, connect_timeout=5, resolve=names("10.0.0.1", "10.0.0.2")).dial("example.com", 80)


async def test_the_number_of_refused_addresses_in_the_error_is_limited() -> None:
    many = [f"10.0.0.{number}" for number in range(MAX_ADDRESSES + 1)]
    with pytest.raises(Blocked) as caught:
        await Dialer(LOCAL, connect_timeout=5, resolve=names("8.8.8.8", *many)).dial("example.com", 80)
    assert caught.value.message.count("is not dialled") == MAX_ADDRESSES


async def test_an_address_behind_many_good_ones_is_vetted_too() -> None:
    many = [f"8.8.8.{number}" for number in range(MAX_ADDRESSES)]
    with pytest.raises(Blocked, match=r"10\.0\.0\.1"):
        await Dialer(LOCAL, connect_timeout=5, resolve=names(*many, "10.0.0.1")).dial("example.com", 80)


async def test_a_refused_port_is_refused_before_the_name_is_looked_up() -> None:
    async def resolve(*_: Any, **__: Any) -> Any:
        pytest.fail("looked up")

    with pytest.raises(Blocked, match=r"The host example\.com is blocked\. Port 22 is not dialled: "):
        await Dialer(LOCAL, connect_timeout=5, resolve=resolve).dial("example.com", 22)


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "localhost", "::ffff:7f00:1", "0"])
async def test_every_address_that_the_system_finds_is_vetted(host: str) -> None:
    with pytest.raises(Blocked):
        await Dialer(AddressGuard(), connect_timeout=5).dial(host, 80)


async def test_the_next_address_is_tried_when_one_refuses() -> None:
    async with listening("127.0.0.3") as port:
        dialer = Dialer(LOCAL, connect_timeout=5, resolve=names("127.0.0.2", "::1", "127.0.0.3"))
        with await dialer.dial("example.com", port) as sock:
            assert sock.getpeername()[0] == "127.0.0.3"


async def test_the_next_address_is_tried_in_parallel_with_a_silent_one(
    mock_clock: trio.testing.MockClock,
) -> None:
    async def dial() -> None:
        with await dialer.dial("example.com", port) as sock:
            assert sock.getpeername()[0] == "127.0.0.3"

    async with black_hole() as port, listening("127.0.0.3", port), trio.open_nursery() as nursery:
        dialer = Dialer(LOCAL, connect_timeout=5, resolve=names("127.0.0.9", "127.0.0.3"))
        nursery.start_soon(dial)
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(STAGGER)


async def test_if_all_addresses_refuse_the_error_names_each() -> None:
    async with listening() as port:
        pass
    with pytest.raises(ConnectFailed) as caught:
        await Dialer(LOCAL, connect_timeout=5, resolve=names("127.0.0.2", "127.0.0.3")).dial(
            "example.com", port
        )
    assert caught.value.message == (
        f"No connection to port {port} of example.com: "
        "127.0.0.2: Connection refused; 127.0.0.3: Connection refused."
    )


async def test_the_number_of_addresses_tried_is_limited() -> None:
    async with listening() as port:
        pass
    addresses = [f"127.0.1.{number}" for number in range(MAX_ADDRESSES + 3)]
    with pytest.raises(ConnectFailed) as caught:
        await Dialer(LOCAL, connect_timeout=5, resolve=names(*addresses)).dial("example.com", port)
    assert caught.value.message.count("refused") == MAX_ADDRESSES


async def connected_to(dialer: Dialer, port: int) -> str | None:
    """Dial the name once; return the address that accepted the connection."""
    try:
        with await dialer.dial("example.com", port) as sock:
            return str(sock.getpeername()[0])
    except ConnectFailed:
        return None


async def test_every_address_is_reached_in_the_end() -> None:
    addresses = [f"127.0.1.{number}" for number in range(2 * MAX_ADDRESSES + 3)]
    async with listening(addresses[-1]) as port:
        dialer = Dialer(LOCAL, connect_timeout=5, resolve=names(*addresses))
        assert [await connected_to(dialer, port) for _ in range(4)] == [
            None,
            None,
            addresses[-1],
            addresses[-1],
        ]


async def test_an_address_that_accepted_is_tried_first_until_it_refuses() -> None:
    addresses = ("127.0.1.1", "127.0.1.2", "127.0.1.3")
    dialled: list[str] = []
    good = {"127.0.1.2"}

    async def connect(address: Any) -> socket.socket:
        await trio.lowlevel.checkpoint()
        dialled.append(address[0])
        if address[0] in good:
            return socket.socket()
        raise ConnectionRefusedError(111, "Connection refused")

    dialer = Dialer(LOCAL, connect_timeout=5, resolve=names(*addresses), connect=connect)

    async def tried() -> list[str]:
        dialled.clear()
        (await dialer.dial("example.com", 80)).close()
        return list(dialled)

    assert await tried() == ["127.0.1.1", "127.0.1.2"]
    assert await tried() == ["127.0.1.2"]
    good = {"127.0.1.1"}
    assert await tried() == ["127.0.1.2", "127.0.1.3", "127.0.1.1"]
    assert await tried() == ["127.0.1.1"]


async def test_four_addresses_are_dialled_at_a_time(autojump_clock: trio.testing.MockClock) -> None:
    """All are silent, so each attempt gets no further than four, and the next one goes on behind them."""
    addresses = [f"127.0.1.{number}" for number in range(10)]
    dialled: list[str] = []

    async def connect(address: Any) -> socket.socket:
        dialled.append(address[0])
        await trio.sleep_forever()
        raise AssertionError

    dialer = Dialer(LOCAL, connect_timeout=5, resolve=names(*addresses), connect=connect)
    for _ in range(3):
        with pytest.raises(TimedOut) as caught:
            await dialer.dial("example.com", 80)
        assert f"({', '.join(dialled[-4:])})" in caught.value.message
    assert dialled == [*addresses, *addresses[:2]]


async def test_an_attempt_with_a_short_deadline_begins_behind_the_last_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    addresses = [f"127.0.1.{number}" for number in range(4)]
    dialled: list[str] = []

    async def connect(address: Any) -> socket.socket:
        dialled.append(address[0])
        await trio.sleep_forever()
        raise AssertionError

    dialer = Dialer(LOCAL, connect_timeout=5, resolve=names(*addresses), connect=connect)
    for _ in range(4):
        with trio.move_on_after(STAGGER / 2):
            await dialer.dial("example.com", 80)
    assert dialled == addresses


async def test_a_silent_address_times_out(mock_clock: trio.testing.MockClock) -> None:
    async def dial() -> None:
        with pytest.raises(TimedOut) as caught:
            await Dialer(LOCAL, connect_timeout=5, resolve=names("127.0.0.9")).dial("example.com", port)
        assert caught.value.phase is Phase.CONNECT
        assert (
            caught.value.message
            == f"Connecting to port {port} of example.com (127.0.0.9) took longer than 5 s."
        )

    async with black_hole() as port, trio.open_nursery() as nursery:
        nursery.start_soon(dial)
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(5.1)


async def test_a_silent_name_server_times_out(autojump_clock: trio.testing.MockClock) -> None:
    async def resolve(*_: Any, **__: Any) -> Any:
        await trio.sleep_forever()

    with pytest.raises(TimedOut, match=r"Looking up example\.com took longer than 5 s\.") as caught:
        await Dialer(LOCAL, connect_timeout=5, resolve=resolve).dial("example.com", 80)
    assert caught.value.phase is Phase.RESOLVE


async def test_a_deadline_before_the_connect_timeout_is_told_in_the_same_words(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def resolve(*_: Any, **__: Any) -> Any:
        await trio.sleep_forever()

    dialer = Dialer(LOCAL, connect_timeout=5, resolve=resolve)
    with pytest.raises(TimedOut, match=r"Looking up example\.com took longer than 2 s\.") as caught:
        await dialer.dial("example.com", 80, deadline=trio.current_time() + 2)
    assert caught.value.phase is Phase.RESOLVE


async def test_cancelling_leaves_no_socket_open() -> None:
    async with black_hole() as port:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Dialer(LOCAL, connect_timeout=5).dial, "127.0.0.9", port)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (UnicodeError("label too long"), "label too long"),
    ],
)
async def test_an_unknown_name(error: Exception, reason: str) -> None:
    async def resolve(*_: Any, **__: Any) -> Any:
        raise error

    with pytest.raises(ResolveFailed) as caught:
        await Dialer(LOCAL, connect_timeout=5, resolve=resolve).dial("nowhere.example", 80)
    assert caught.value.message == f"The host nowhere.example could not be resolved: {reason}."


async def test_a_name_without_an_address() -> None:
    with pytest.raises(ResolveFailed, match="has no address"):
        await Dialer(LOCAL, connect_timeout=5, resolve=names()).dial("nowhere.example", 80)
