"""Connect to one of several addresses, each attempt a little after the one before (RFC 8305)."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from itertools import zip_longest
from typing import Any

import trio

from hookgw.delivery.http.errors import ConnectFailed, OutOfDescriptors

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Errors of the system that say nothing about a receiver."""

STAGGER = 0.25
"""Seconds without an answer after which the next address is tried in parallel (RFC 8305, section 5)."""

AT_A_TIME = 4
"""Addresses of a name that are dialled at a time: a name may have hundreds, chosen by its owner."""

SocketAddress = tuple[Any, ...]
"""As returned by ``getaddrinfo``: the IP address first, then the port."""

Connect = Callable[[SocketAddress], Awaitable[socket.socket]]
"""Returns a connected socket, or raises ``OSError`` if the address does not accept the connection.

``ConnectFailed`` means that no address would do.
"""


async def connect_to_any(  # noqa: C901 -- reads once from top to bottom
    addresses: Sequence[SocketAddress], connect: Connect, error_prefix: str
) -> socket.socket:
    """Return the first connection that succeeds, and close the others. The caller owns the socket.

    Args:
        addresses: tried in this order, at most :data:`AT_A_TIME` at a time.

    Raises:
        ConnectFailed: every address refused; the message names each with its reason. The message starts with
            ``error_prefix``.
        OutOfDescriptors: there is no file descriptor for a socket.
    """
    reasons: list[tuple[str, object]] = []
    places = trio.CapacityLimiter(AT_A_TIME)
    winner: socket.socket | None = None
    fatal: ConnectFailed | None = None

    async def attempt(address: SocketAddress, refused: trio.Event) -> None:
        nonlocal winner, fatal
        try:
            sock = await connect(address)
        except OSError as error:
            reasons.append((address[0], error.strerror or error))
            refused.set()
        except ConnectFailed as error:
            fatal = error
            nursery.cancel_scope.cancel()
        else:
            # Two attempts can succeed in the same turn of the loop, before the cancellation reaches either.
            if winner is None:
                winner = sock
                nursery.cancel_scope.cancel()
            else:
                sock.close()
        finally:
            places.release_on_behalf_of(refused)

    try:
        async with trio.open_nursery() as nursery:
            for address in addresses:
                refused = trio.Event()
                await places.acquire_on_behalf_of(refused)
                nursery.start_soon(attempt, address, refused)
                with trio.move_on_after(STAGGER):
                    await refused.wait()
    except BaseException:
        # The caller may be cancelled in the turn in which an attempt succeeds; its socket would leak.
        if winner is not None:
            winner.close()
        raise
    if winner is not None:
        return winner
    if fatal is not None:
        raise fatal
    # "No connection to port 9 of 127.0.0.1": the URL had the address.
    is_named = len(addresses) == 1 and f" {addresses[0][0]}" in error_prefix
    parts = "; ".join(str(reason) if is_named else f"{address}: {reason}" for address, reason in reasons)
    raise ConnectFailed(f"{error_prefix}: {parts}.")


async def connect_directly(address: SocketAddress) -> socket.socket:
    """Return a connected, non-blocking socket with ``TCP_NODELAY``. The caller owns it.

    Raises:
        OSError: the address does not accept the connection.
        OutOfDescriptors: there is no file descriptor for a socket, or the system watches no more of them, or
            all local ports are in use.
    """
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)  # only Linux knows SOCK_NONBLOCK
    except OSError as refusal:
        if refusal.errno in NO_DESCRIPTOR:
            raise OutOfDescriptors(f"No socket could be opened: {refusal.strerror}.") from refusal
        raise
    try:
        error = sock.connect_ex(address)
        if error == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(sock)
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        # With Nagle's algorithm the end of a large request would wait for a delayed ACK, 40 ms on Linux.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException as ended:
        sock.close()
        number = ended.errno if isinstance(ended, OSError) else None
        if number == errno.ENOSPC:  # epoll(7), max_user_watches
            raise OutOfDescriptors("No socket could be watched: no epoll watches are left.") from ended
        if number == errno.EADDRNOTAVAIL and _has_local_address(family, address):
            raise OutOfDescriptors(
                f"No local port is left for another connection to {address[0]}: too many are open, or were "
                "closed within the last minute."
            ) from ended
        raise
    return sock


def _has_local_address(family: socket.AddressFamily, address: SocketAddress) -> bool:
    """Return whether this machine has an address from which to reach another one.

    Without one, as for ``::1`` where IPv6 is off, the error is the same as without a port. UDP has ports of
    its own, and sends nothing here.
    """
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
    except OSError:
        return False
    return True


def interleave(addresses: Sequence[SocketAddress]) -> list[SocketAddress]:
    """Alternate between the address families, starting with the system's choice (RFC 8305, section 4)."""
    first = [address for address in addresses if (":" in address[0]) == (":" in addresses[0][0])]
    other = [address for address in addresses if address not in first]
    return [address for pair in zip_longest(first, other) for address in pair if address is not None]
