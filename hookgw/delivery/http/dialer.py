"""From a host to a connected socket: resolve, vet every address, connect to one that was vetted."""

from __future__ import annotations

import socket

import trio

from hookgw.config.proxy_url import Proxy
from hookgw.delivery.http.address_guard import AddressGuard
from hookgw.delivery.http.errors import Blocked, Phase, ResolveFailed, TimedOut
from hookgw.delivery.http.happy_eyeballs import (
    Connect,
    SocketAddress,
    connect_directly,
    connect_to_any,
    interleaved,
)
from hookgw.delivery.http.proxy_tunnel import ProxyTunnels
from hookgw.delivery.http.resolver import Resolve, SystemResolver

MAX_ADDRESSES = 8
"""How many addresses of a name are tried, or named where they are refused; all of them are vetted."""


class Dialer:
    """Opens connections to vetted addresses.

    A name is resolved once for each connection, and the address that was vetted is the one that is
    dialled: a name that changes between the two (DNS rebinding) gains nothing. A proxy, too, is asked for
    the vetted address.

    Args:
        guard: says which addresses may be dialled.
        connect_timeout: seconds for resolving and connecting together, a proxy's part included.
        resolve: in the place of the system's resolver.
        proxy: what all connections go through.
    """

    def __init__(
        self,
        guard: AddressGuard,
        *,
        connect_timeout: float,
        resolve: Resolve | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._guard = guard
        self._resolve = resolve or SystemResolver()
        self._connect: Connect = ProxyTunnels(proxy, self._resolve).connect if proxy else connect_directly
        self._through = f" through the proxy {proxy.place}" if proxy else ""
        self.connect_timeout = connect_timeout

    async def dial(self, host: str, port: int) -> socket.socket:
        """Connect to a host.

        Args:
            host: a name, or an IP address without brackets.
            port: 1 to 65535.

        Returns:
            A connected, non-blocking socket with ``TCP_NODELAY``; the caller owns it.

        Raises:
            Blocked, ResolveFailed: see :meth:`vet`.
            ConnectFailed: none of its addresses took the connection, each is named with its reason; or
                the proxy cannot be used.
            TimedOut: it took longer than ``connect_timeout``.
        """
        where, phase, tried = f"port {port} of {host}", Phase.RESOLVE, ""
        with trio.move_on_after(self.connect_timeout):
            addresses = await self.vet(host, port)
            phase, tried = Phase.CONNECT, _listed(addresses, host)
            return await connect_to_any(addresses, self._connect, f"No connection to {where}{self._through}")
        what = (
            f"Looking up {host}" if phase is Phase.RESOLVE else f"Connecting to {where}{tried}{self._through}"
        )
        raise TimedOut(phase, f"{what} took longer than {self.connect_timeout:g} s.")

    async def vet(self, host: str, port: int) -> list[SocketAddress]:
        """Look a host up and ask the guard about what is found. The caller gives the deadline.

        Returns:
            The addresses that may be dialled, in the order in which to try them.

        Raises:
            Blocked: the guard refuses the port, or one of the host's addresses (even if others are
                good: who controls the name may not choose by luck).
            ResolveFailed: it has no address.
        """
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
        return interleaved(addresses)[:MAX_ADDRESSES]


def _listed(addresses: list[SocketAddress], host: str) -> str:
    names = [address[0] for address in addresses if address[0] != host]
    return f" ({', '.join(names)})" if names else ""
