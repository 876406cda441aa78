"""Connections through a proxy; :mod:`hookgw.delivery.http.proxy` has the handshakes."""

from __future__ import annotations

import socket

from hookgw.config.proxy_url import Proxy
from hookgw.delivery.http.address_rotation import AddressRotation
from hookgw.delivery.http.errors import ConnectFailed
from hookgw.delivery.http.happy_eyeballs import SocketAddress, connect_directly, interleave
from hookgw.delivery.http.proxy import ProxyFailed, open_tunnel
from hookgw.delivery.http.resolver import Resolve
from hookgw.delivery.http.stream import PlainStream, StreamBroken


class ProxyTunnels:
    """Opens connections through one proxy, looking up the proxy's name for each."""

    def __init__(self, proxy: Proxy, resolve: Resolve) -> None:
        self._proxy = proxy
        self._resolve = resolve
        self._rotation = AddressRotation()

    async def connect(self, address: SocketAddress) -> socket.socket:
        """Return a socket connected to the address. The caller owns it, and sets a timeout.

        Raises:
            ConnectionRefusedError: the proxy could not, or may not, connect to the address.
            ConnectFailed: the proxy cannot be reached or used; the message names it, without credentials.
        """
        proxy = self._proxy
        # The guard does not vet the proxy's own address: the operator chose it, and it is often private.
        try:
            found = await self._resolve(proxy.host, proxy.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConnectFailed(f"The proxy {proxy.place} could not be resolved: {reason}.") from error
        addresses = interleave(list(dict.fromkeys(entry[4] for entry in found)))
        sock = await self._rotation.connect(
            proxy.host,
            proxy.port,
            addresses,
            connect_directly,
            f"No connection to the proxy {proxy.place}",
        )
        stream = PlainStream(sock)
        handshake = open_tunnel(proxy, address[0], address[1])
        try:
            outgoing = next(handshake)
            while True:
                await stream.send_all(outgoing)
                outgoing = handshake.send(await stream.receive())
        except StopIteration:
            return sock
        except (ProxyFailed, StreamBroken) as error:
            stream.close_nowait()
            detail = error if isinstance(error, ProxyFailed) else f"broke the connection: {error}"
            raise ConnectFailed(f"The proxy {proxy.place} {detail}.") from error
        except BaseException:
            stream.close_nowait()
            raise
