"""Connections through a proxy, over real sockets; :mod:`hookgw.delivery.http.proxy` has the handshake."""

from __future__ import annotations

import socket

from hookgw.config.proxy_url import Proxy
from hookgw.delivery.http.errors import ConnectFailed
from hookgw.delivery.http.happy_eyeballs import SocketAddress, connect_directly, connect_to_any, interleaved
from hookgw.delivery.http.proxy import Handshake, ProxyFailed, open_tunnel
from hookgw.delivery.http.resolver import Resolve
from hookgw.delivery.http.stream import PlainStream, StreamBroken


class ProxyTunnels:
    """Opens connections through one proxy.

    The proxy is the operator's choice: its own address is looked up as any other, and is not vetted.

    Args:
        proxy: which one.
        resolve: looks its name up, for each connection anew.
    """

    def __init__(self, proxy: Proxy, resolve: Resolve) -> None:
        self._proxy = proxy
        self._resolve = resolve

    async def connect(self, address: SocketAddress) -> socket.socket:
        """A connected socket whose other end is that address. The caller owns it, and gives the deadline.

        Raises:
            ConnectionRefusedError: the proxy could not, or may not, connect there.
            ConnectFailed: the proxy cannot be reached or used; the message names it, without credentials.
        """
        sock = await self._reach_proxy()
        wire = PlainStream(sock)
        try:
            await _shake_hands(wire, open_tunnel(self._proxy, address[0], address[1]))
        except (ProxyFailed, StreamBroken) as error:
            wire.close_nowait()
            reason = error if isinstance(error, ProxyFailed) else f"broke the connection: {error}"
            raise ConnectFailed(f"The proxy {self._proxy.place} {reason}.") from error
        except BaseException:
            wire.close_nowait()
            raise
        return sock

    async def _reach_proxy(self) -> socket.socket:
        proxy = self._proxy
        try:
            found = await self._resolve(proxy.host, proxy.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConnectFailed(f"The proxy {proxy.place} could not be resolved: {reason}.") from error
        addresses = interleaved(list(dict.fromkeys(entry[4] for entry in found)))
        return await connect_to_any(addresses, connect_directly, f"No connection to the proxy {proxy.place}")


async def _shake_hands(wire: PlainStream, handshake: Handshake) -> None:
    try:
        outgoing = next(handshake)
        while True:
            await wire.send_all(outgoing)
            outgoing = handshake.send(await wire.receive())
    except StopIteration:
        return
