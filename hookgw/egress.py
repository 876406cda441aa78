"""Everything that leaves the gateway over HTTP: one guard, one dialer, and what is built on them."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from hookgw.delivery.deadlines import Deadlines
from hookgw.delivery.dial import Dialer
from hookgw.delivery.guard import AddressGuard
from hookgw.delivery.own import OwnAddresses
from hookgw.delivery.proxy import parse_proxy
from hookgw.delivery.transport import LaneTransport
from hookgw.settings import DeliverySettings


class Egress:
    """Makes the connections of lanes. Every one of them passes the address guard."""

    def __init__(self, settings: DeliverySettings) -> None:
        self._own = OwnAddresses()
        guard = AddressGuard(
            settings.allow_networks, refused_ports=settings.refused_ports, is_own=self._own.includes
        )
        self._dialer = Dialer(
            guard,
            connect_timeout=settings.connect_timeout,
            proxy=parse_proxy(settings.proxy) if settings.proxy else None,
        )
        self._deadlines = Deadlines()
        self._max_answer = settings.max_answer

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch over the exchanges' deadlines, until cancelled; started before the first exchange."""
        await self._deadlines.run(task_status=task_status)

    def transport(self) -> LaneTransport:
        """A connection for a lane; whoever asked for it closes it."""
        return LaneTransport(self._dialer, max_answer=self._max_answer, deadlines=self._deadlines)

    def listens_on(self, urls: Iterable[str]) -> None:
        """Take note of where the gateway listens, so that it never calls itself."""
        self._own.listen_on(urls)
