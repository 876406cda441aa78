"""Connecting to one of several addresses: each is tried a little after the one before (RFC 8305)."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from itertools import zip_longest
from typing import Any

import trio

from hookgw.delivery.http.errors import ConnectFailed

STAGGER = 0.25
"""Seconds after which the next address is tried beside one that has not answered (RFC 8305, section 5)."""

SocketAddress = tuple[Any, ...]
"""As ``getaddrinfo`` gives it: the IP address first, then the port."""

Connect = Callable[[SocketAddress], Awaitable[socket.socket]]
"""Gives a connected socket, or raises ``OSError`` where the address does not take the connection.

Any other error means that no address would do.
"""


async def connect_to_any(addresses: Sequence[SocketAddress], connect: Connect, failed: str) -> socket.socket:
    """The first connection that comes about; the others are closed.

    Args:
        addresses: those that may be tried, in this order.
        connect: connects to one of them.
        failed: what the error says before the reasons.

    Raises:
        ConnectFailed: each address refused; it is named with its reason.
    """
    return await _Race(connect).run(addresses, failed)


async def connect_directly(address: SocketAddress) -> socket.socket:
    """A connected, non-blocking socket with ``TCP_NODELAY``.

    Raises:
        OSError: the address does not take the connection.
    """
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        error = sock.connect_ex(address)
        if error == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(sock)
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def interleaved(addresses: Sequence[SocketAddress]) -> list[SocketAddress]:
    """The families in turn, beginning with the one that the system prefers (RFC 8305, section 4)."""
    first = [address for address in addresses if (":" in address[0]) == (":" in addresses[0][0])]
    other = [address for address in addresses if address not in first]
    return [address for pair in zip_longest(first, other) for address in pair if address is not None]


class _Race:
    """One connection by whichever address takes it first."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._failures: list[str] = []
        self._winner: socket.socket | None = None
        self._fatal: ConnectFailed | None = None

    async def run(self, addresses: Sequence[SocketAddress], failed: str) -> socket.socket:
        try:
            async with trio.open_nursery() as nursery:
                for address in addresses:
                    refused = trio.Event()
                    nursery.start_soon(self._try, address, refused, nursery.cancel_scope)
                    with trio.move_on_after(STAGGER):
                        await refused.wait()
        except BaseException:
            if self._winner is not None:
                self._winner.close()
            raise
        if self._winner is not None:
            return self._winner
        raise self._fatal or ConnectFailed(f"{failed}: {'; '.join(self._failures)}.")

    async def _try(self, address: SocketAddress, refused: trio.Event, race: trio.CancelScope) -> None:
        try:
            sock = await self._connect(address)
        except OSError as error:
            self._failures.append(f"{address[0]}: {error.strerror or error}")
            refused.set()
        except ConnectFailed as error:
            self._fatal = error
            race.cancel()
        else:
            self._win(sock, race)

    def _win(self, sock: socket.socket, race: trio.CancelScope) -> None:
        if self._winner is None:
            self._winner = sock
            race.cancel()
        else:
            sock.close()
