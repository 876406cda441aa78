"""Connecting to one of several addresses; ``test_dialer.py`` does it with real sockets."""

import errno
import os
import socket

import pytest
import trio
import trio.testing

from tests.public.delivery import (
    STAGGER,
    ConnectFailed,
    OutOfDescriptors,
    SocketAddress,
    connect_directly,
    connect_to_any,
    interleave,
)


def places(*addresses: str) -> list[SocketAddress]:
    return [(address, 80) for address in addresses]


def test_address_families_alternate() -> None:
    assert interleave(places("::1", "::2", "::3", "1.1.1.1")) == places("::1", "1.1.1.1", "::2", "::3")
    assert interleave(places("1.1.1.1", "::1", "2.2.2.2")) == places("1.1.1.1", "::1", "2.2.2.2")
    assert interleave([]) == []


async def test_connect_failed_ends_all_attempts() -> None:
    asked: list[str] = []

    async def connect(address: SocketAddress) -> socket.socket:
        asked.append(address[0])
        raise ConnectFailed("The proxy is no proxy.")

    with pytest.raises(ConnectFailed, match="The proxy is no proxy"):
        await connect_to_any(places("1.1.1.1", "2.2.2.2"), connect, "No connection")
    assert asked == ["1.1.1.1"]


async def test_a_second_connection_in_the_same_moment_is_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    made: list[socket.socket] = []

    async def connect(_: SocketAddress) -> socket.socket:
        with trio.CancelScope(shield=True):
            await trio.sleep_until(STAGGER * 2)
        made.append(socket.socket())
        return made[-1]

    with await connect_to_any(places("1.1.1.1", "2.2.2.2"), connect, "No connection") as winner:
        assert [sock.fileno() >= 0 for sock in made] == [sock is winner for sock in made]
        assert len(made) == 2


async def test_cancelling_closes_the_connection(autojump_clock: trio.testing.MockClock) -> None:
    made: list[socket.socket] = []

    async def connect(_: SocketAddress) -> socket.socket:
        made.append(socket.socket())
        scope.cancel()
        return made[-1]

    with trio.CancelScope() as scope:
        await connect_to_any(places("1.1.1.1", "2.2.2.2"), connect, "No connection")
    assert scope.cancelled_caught
    assert [sock.fileno() for sock in made] == [-1]


async def test_the_error_names_each_address_with_its_reason() -> None:
    async def connect(address: SocketAddress) -> socket.socket:
        raise ConnectionRefusedError(f"{address[0]} is shut")

    with pytest.raises(ConnectFailed) as caught:
        await connect_to_any(places("1.1.1.1", "::1"), connect, "No connection to port 80 of a")
    assert caught.value.message == (
        "No connection to port 80 of a: 1.1.1.1: 1.1.1.1 is shut; ::1: ::1 is shut."
    )


async def test_a_single_address_that_the_url_names_is_not_repeated() -> None:
    async def connect(address: SocketAddress) -> socket.socket:
        raise ConnectionRefusedError(111, "Connection refused")

    for place, told in (("127.0.0.1", "127.0.0.1: "), ("localhost", "localhost: 127.0.0.1: ")):
        with pytest.raises(ConnectFailed) as caught:
            await connect_to_any(places("127.0.0.1"), connect, f"No connection to port 9 of {place}")
        assert caught.value.message == f"No connection to port 9 of {told}Connection refused."


async def test_an_address_that_refuses_at_once() -> None:
    with pytest.raises(OSError, match=r"."):
        await connect_directly(("255.255.255.255", 9))


class WithoutPorts(socket.socket):
    """A socket on a machine whose local ports are all in use by connections."""

    def connect_ex(self, _: object) -> int:
        return errno.EADDRNOTAVAIL

    def refuse(self, _: object) -> None:
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))


async def test_a_machine_without_a_free_port_says_nothing_about_the_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "socket", WithoutPorts)
    with pytest.raises(OutOfDescriptors, match=r"No local port is left .* to 127.0.0.1"):
        await connect_to_any([("127.0.0.1", 9)], connect_directly, "No connection")
    # Where IPv6 is off, the same error means that there is no address, and the next one is tried.
    monkeypatch.setattr(WithoutPorts, "connect", WithoutPorts.refuse)
    with pytest.raises(ConnectFailed, match=r"^No connection to ::1: Cannot assign") as caught:
        await connect_to_any([("::1", 9)], connect_directly, "No connection to ::1")
    assert type(caught.value) is ConnectFailed


async def test_a_socket_that_the_system_cannot_watch_says_nothing_about_the_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(_: socket.socket) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # epoll(7): max_user_watches

    monkeypatch.setattr(trio.lowlevel, "wait_writable", refuse)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(OutOfDescriptors, match="watch"):
        await connect_to_any([server.getsockname()], connect_directly, "No connection")
