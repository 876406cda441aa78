"""From a host to a connected socket: resolve, vet every address, connect to one that was vetted."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from itertools import zip_longest
from typing import Any

import trio

from hookgw.delivery.errors import Blocked, ConnectFailed, Phase, ResolveFailed, TimedOut
from hookgw.delivery.guard import AddressGuard

STAGGER = 0.25
"""Seconds after which the next address is tried beside one that has not answered (RFC 8305, section 5)."""

MAX_ADDRESSES = 8
"""How many addresses of a name are tried, or named where they are refused; all of them are vetted."""

MAX_LOOKUPS = 64
"""How many names are looked up at once by one dialer; each takes a thread until the system answers."""

_SocketAddress = tuple[Any, ...]

Resolve = Callable[..., Awaitable[Sequence[tuple[Any, Any, int, str, Any]]]]
"""As ``trio.socket.getaddrinfo``: called with host, port and ``type=``."""


class Dialer:
    """Opens connections to vetted addresses.

    A name is resolved once for each connection, and the address that was vetted is the one that is
    dialled: a name that changes between the two (DNS rebinding) gains nothing.

    Args:
        guard: says which addresses may be dialled.
        connect_timeout: seconds for resolving and connecting together.
        resolve: in the place of the system's resolver.
    """

    def __init__(
        self, guard: AddressGuard, *, connect_timeout: float, resolve: Resolve | None = None
    ) -> None:
        self._guard = guard
        self._resolve = resolve or _SystemResolver()
        self.connect_timeout = connect_timeout

    async def dial(self, host: str, port: int) -> socket.socket:
        """Connect to a host.

        Args:
            host: a name, or an IP address without brackets.
            port: 1 to 65535.

        Returns:
            A connected, non-blocking socket with ``TCP_NODELAY``; the caller owns it.

        Raises:
            Blocked: the guard refuses the port, or one of the host's addresses (even if others are
                good: who controls the name may not choose by luck).
            ResolveFailed: it has no address.
            ConnectFailed: none of its addresses took the connection; each is named with its reason.
            TimedOut: it took longer than ``connect_timeout``.
        """
        phase, tried = Phase.RESOLVE, ""
        with trio.move_on_after(self.connect_timeout):
            addresses = await self._vetted(host, port)
            phase, tried = Phase.CONNECT, _listed(addresses, host)
            return await _Race(addresses).run(f"port {port} of {host}")
        what = (
            f"Looking up {host}" if phase is Phase.RESOLVE else f"Connecting to port {port} of {host}{tried}"
        )
        raise TimedOut(phase, f"{what} took longer than {self.connect_timeout:g} s.")

    async def _vetted(self, host: str, port: int) -> list[_SocketAddress]:
        if refusal := self._guard.port_refusal(port):
            raise Blocked(f"The host {host} is blocked. {refusal}")
        try:
            found = await self._resolve(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ResolveFailed(f"The host {host} could not be resolved: {reason}.") from error
        addresses = list(dict.fromkeys(entry[4] for entry in found))
        refusals = [text for address in addresses if (text := self._guard.refusal(address[0], port))]
        if refusals:
            raise Blocked(f"The host {host} is blocked. {' '.join(refusals[:MAX_ADDRESSES])}")
        if not addresses:
            raise ResolveFailed(f"The host {host} has no address.")
        return _interleaved(addresses)[:MAX_ADDRESSES]


class _SystemResolver:
    """``getaddrinfo`` in threads of its own.

    Trio's runs in the threads that everybody shares; names whose servers never answer would take them
    all.
    """

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(MAX_LOOKUPS)

    async def __call__(
        self, host: str, port: int, **options: Any
    ) -> Sequence[tuple[Any, Any, int, str, Any]]:
        if _is_address(host):
            return socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST, **options)
        return await trio.to_thread.run_sync(
            lambda: socket.getaddrinfo(host, port, **options), abandon_on_cancel=True, limiter=self._limiter
        )


class _Race:
    """Tries addresses in turn, each a little after the one before; the first that connects wins."""

    def __init__(self, addresses: list[_SocketAddress]) -> None:
        self._addresses = addresses
        self._failures: list[str] = []
        self._winner: socket.socket | None = None

    async def run(self, where: str) -> socket.socket:
        try:
            async with trio.open_nursery() as nursery:
                for address in self._addresses:
                    failed = trio.Event()
                    nursery.start_soon(self._try, address, failed, nursery.cancel_scope)
                    with trio.move_on_after(STAGGER):
                        await failed.wait()
        except BaseException:
            if self._winner is not None:
                self._winner.close()
            raise
        if self._winner is None:
            raise ConnectFailed(f"No connection to {where}: {'; '.join(self._failures)}.")
        return self._winner

    async def _try(self, address: _SocketAddress, failed: trio.Event, race: trio.CancelScope) -> None:
        try:
            sock = await _connect(address)
        except OSError as error:
            self._failures.append(f"{address[0]}: {error.strerror or error}")
            failed.set()
            return
        if self._winner is None:
            self._winner = sock
            race.cancel()
        else:
            sock.close()


async def _connect(address: _SocketAddress) -> socket.socket:
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


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _interleaved(addresses: list[_SocketAddress]) -> list[_SocketAddress]:
    """The families in turn, beginning with the one that the system prefers (RFC 8305, section 4)."""
    first = [address for address in addresses if (":" in address[0]) == (":" in addresses[0][0])]
    other = [address for address in addresses if address not in first]
    return [address for pair in zip_longest(first, other) for address in pair if address is not None]


def _listed(addresses: list[_SocketAddress], host: str) -> str:
    names = [address[0] for address in addresses if address[0] != host]
    return f" ({', '.join(names)})" if names else ""
