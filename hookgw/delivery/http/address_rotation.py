"""Connects to one of a name's addresses. Over several attempts, every address gets its turn."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from hookgw.delivery.http.happy_eyeballs import Connect, SocketAddress, connect_to_any
from hookgw.kernel.recent import Recent

MAX_ADDRESSES = 8
"""How many addresses of a name one attempt tries; the next one begins behind them."""

MAX_REMEMBERED = 10_000
"""Hosts that are remembered; the one that was not dialled for longest is forgotten first."""


class AddressRotation:
    """Remembers, for each host that did not accept a connection at once, where the next attempt begins."""

    def __init__(self) -> None:
        # By name and port: the IP address that was tried last, and whether it accepted the connection.
        self._last: Recent[tuple[str, int], tuple[str, bool]] = Recent(MAX_REMEMBERED)

    async def connect(
        self,
        host: str,
        port: int,
        addresses: Sequence[SocketAddress],
        connect: Connect,
        error_prefix: str,
        tried: list[SocketAddress] | None = None,
    ) -> socket.socket:
        """Connect to one of the addresses of a host; see :func:`connect_to_any`.

        Args:
            addresses: all of them, as the system prefers them.
            tried: gets the addresses that are dialled.
        """
        tried = [] if tried is None else tried
        accepted: list[tuple[socket.socket, SocketAddress]] = []

        async def connect_and_note(address: SocketAddress) -> socket.socket:
            tried.append(address)
            sock = await connect(address)
            accepted.append((sock, address))
            return sock

        sock = None
        try:
            order = self._order(host, port, addresses)[:MAX_ADDRESSES]
            sock = await connect_to_any(order, connect_and_note, error_prefix)
        finally:
            # Also when it was cancelled: a short timeout must not let it begin with the same address forever.
            if sock is None and tried:
                self._last.put((host, port), (tried[-1][0], False))
        address = next(address for its_sock, address in accepted if its_sock is sock)
        if address == addresses[0]:
            # The system may have another favourite next time, and so spreads connections over the addresses.
            self._last.pop((host, port))
        else:
            self._last.put((host, port), (address[0], True))
        return sock

    def _order(self, host: str, port: int, addresses: Sequence[SocketAddress]) -> list[SocketAddress]:
        """Return the addresses in the order in which to try them.

        Start after the address that failed last, or with the address that succeeded after others had failed.
        Without either, or if that address is gone, keep the system's order.
        """
        last, accepted = self._last.get((host, port)) or ("", False)
        found = next((index for index, address in enumerate(addresses) if address[0] == last), None)
        if found is None:
            return list(addresses)
        start = found if accepted else found + 1
        return [*addresses[start:], *addresses[:start]]
