"""Which of a name's addresses an attempt begins with: all of them are reached in the end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from hookgw.delivery.http.happy_eyeballs import SocketAddress

MAX_REMEMBERED = 10_000
"""Hosts that are remembered; the one that was not dialled for longest is forgotten first."""


class AddressRotation:
    """Remembers, for each host that did not accept a connection at once, where the next attempt begins."""

    def __init__(self) -> None:
        # By name and port: the IP address that was tried last, and whether it accepted the connection.
        self._last: OrderedDict[tuple[str, int], tuple[str, bool]] = OrderedDict()

    def order(self, host: str, port: int, addresses: Sequence[SocketAddress]) -> list[SocketAddress]:
        """Return the addresses in the order in which to try them.

        They begin behind the last one that was tried in vain, or with the one that accepted a connection
        after others had not. Without either, and if that address is gone, the order stays the system's.
        """
        last, accepted = self._last.get((host, port), ("", False))
        found = next((index for index, address in enumerate(addresses) if address[0] == last), None)
        if found is None:
            return list(addresses)
        start = found if accepted else found + 1
        return [*addresses[start:], *addresses[:start]]

    def refused(self, host: str, port: int, last: SocketAddress) -> None:
        """No address accepted a connection; ``last`` is the one that was tried last."""
        self._remember(host, port, last, accepted=False)

    def accepted(self, host: str, port: int, address: SocketAddress, *, is_first: bool) -> None:
        """An address accepted a connection; ``is_first`` if it is the one that the system prefers."""
        if is_first:
            # The system may have another favourite next time, and so spreads connections over the addresses.
            self._last.pop((host, port), None)
        else:
            self._remember(host, port, address, accepted=True)

    def _remember(self, host: str, port: int, address: SocketAddress, *, accepted: bool) -> None:
        self._last[host, port] = address[0], accepted
        self._last.move_to_end((host, port))
        if len(self._last) > MAX_REMEMBERED:
            self._last.popitem(last=False)
