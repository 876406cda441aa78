"""Resolves a host, checks every address, and connects to an allowed one."""

from __future__ import annotations

import math
import socket

import trio

from hookgw.config.proxy_url import Proxy
from hookgw.delivery.http.address_guard import AddressGuard
from hookgw.delivery.http.address_rotation import MAX_ADDRESSES, AddressRotation
from hookgw.delivery.http.errors import Blocked, OutOfDescriptors, Phase, ResolveFailed, TimedOut
from hookgw.delivery.http.happy_eyeballs import (
    NO_DESCRIPTOR,
    Connect,
    SocketAddress,
    connect_directly,
    interleave,
)
from hookgw.delivery.http.proxy_tunnel import ProxyTunnels
from hookgw.delivery.http.resolver import Resolve, SystemResolver


class Dialer:
    """Opens connections to vetted addresses.

    Args:
        connect_timeout: seconds for resolving and connecting together, including the proxy's part.
        connect: opens the connection to a vetted address, instead of the system; not with a proxy.
    """

    def __init__(
        self,
        guard: AddressGuard,
        *,
        connect_timeout: float,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._guard = guard
        self._resolve = resolve or SystemResolver()
        if proxy is not None:
            connect = ProxyTunnels(proxy, self._resolve).connect
        self._connect: Connect = connect or connect_directly
        self._through = f" through the proxy {proxy.place}" if proxy else ""
        self._rotation = AddressRotation()
        self.connect_timeout = connect_timeout

    async def dial(
        self, host: str, port: int, holder: str = "", scheme: str = "", deadline: float = math.inf
    ) -> socket.socket:
        """Connect to a host: a name, or an IP address without brackets.

        Args:
            holder: the instance on whose behalf the name is looked up; empty for the operator's own names.
            scheme: of the URL, for the guard; see :meth:`AddressGuard.port_refusal`.
            deadline: of the caller, which may be sooner than ``connect_timeout``.

        Returns:
            A connected, non-blocking socket with ``TCP_NODELAY``. The caller owns it.

        Raises:
            Blocked, ResolveFailed: see :meth:`vet`.
            ConnectFailed: no address accepted the connection (the message names each with its reason), or the
                proxy cannot be used.
            OutOfDescriptors: there is no file descriptor for a socket.
            TimedOut: connecting took longer than ``connect_timeout``, or until the deadline.
        """
        # One limit, so that what took too long is named in either case.
        limit = max(0.0, min(self.connect_timeout, deadline - trio.current_time()))
        where, found = f"port {port} of {host}", None
        tried: list[SocketAddress] = []
        with trio.move_on_after(limit):
            # The vetted addresses are dialled, and a proxy is asked for them. The name is not looked up
            # again: it could point elsewhere by then (DNS rebinding).
            found = await self.vet(host, port, holder, scheme)
            return await self._rotation.connect(
                host, port, found, self._connect, f"No connection to {where}{self._through}", tried
            )
        if found is None:
            phase, what = Phase.RESOLVE, f"Looking up {host}"
        else:
            names = ", ".join(address[0] for address in tried if address[0] != host)
            which = f" ({names})" if names else ""
            phase, what = Phase.CONNECT, f"Connecting to {where}{which}{self._through}"
        raise TimedOut(phase, f"{what} took longer than {limit:.3g} s.")

    async def vet(self, host: str, port: int, holder: str = "", scheme: str = "") -> list[SocketAddress]:
        """Return a host's addresses in the order in which to try them, after the guard has checked them.

        There is no timeout; the caller sets one.

        Raises:
            Blocked: the guard refuses the port, or at least one of the host's addresses.
            ResolveFailed: the host has no address.
            OutOfDescriptors: there is no file descriptor for the lookup.
        """
        # Before the lookup, which would tell the name's owner that this URL is registered here.
        if refusal := self._guard.port_refusal(port, scheme):
            raise Blocked(f"The host {host} is blocked. {refusal}")
        try:
            found = await self._resolve(host, port, type=socket.SOCK_STREAM, holder=holder)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            if getattr(error, "errno", None) in NO_DESCRIPTOR:
                raise OutOfDescriptors(f"The host {host} could not be resolved: {reason}.") from error
            raise ResolveFailed(f"The host {host} could not be resolved: {reason}.") from error
        addresses = list(dict.fromkeys(entry[4] for entry in found))
        # One bad address refuses the host, even if others are good. Skipping it would let the owner of a name
        # mix addresses until one gets through.
        refusals = [text for address in addresses if (text := self._guard.refusal(address[0], port))]
        if refusals:
            raise Blocked(f"The host {host} is blocked. {' '.join(refusals[:MAX_ADDRESSES])}")
        if not addresses:
            raise ResolveFailed(f"The host {host} has no address.")
        return interleave(addresses)
