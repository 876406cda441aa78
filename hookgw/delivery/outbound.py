"""Everything that leaves the gateway over HTTP: one guard, one dialer, and what is built on them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import structlog
import trio

from hookgw.config.proxy_url import parse_proxy
from hookgw.config.settings import DeliverySettings
from hookgw.delivery.http.address_guard import AddressGuard
from hookgw.delivery.http.deadlines import Deadlines
from hookgw.delivery.http.dialer import Dialer
from hookgw.delivery.http.errors import Blocked, ResolveFailed
from hookgw.delivery.http.own_addresses import OwnAddresses
from hookgw.delivery.http.plugin_client import MAX_ANSWER, guarded_client
from hookgw.delivery.http.resolver import Resolve
from hookgw.delivery.http.transport import LaneTransport
from hookgw.models.registrations import Registration
from hookgw.models.target_url import parse_target

logger = structlog.get_logger("hookgw.egress")

CHECK_PATIENCE = 2.0
"""Seconds that looking up the host of a registration that is being set may take."""


class OutboundHttp:
    """Makes the connections of lanes and plugins. Every one of them passes the address guard.

    Args:
        settings: which addresses and ports may be dialled, through which proxy, and for how long.
        resolve: in the place of the system's resolver.

    Attributes:
        http: the client for plugins; :meth:`run` closes it.
    """

    def __init__(self, settings: DeliverySettings, resolve: Resolve | None = None) -> None:
        self._own = OwnAddresses()
        guard = AddressGuard(
            settings.allow_networks, refused_ports=settings.refused_ports, is_own=self._own.includes
        )
        self._dialer = Dialer(
            guard,
            connect_timeout=settings.connect_timeout,
            resolve=resolve,
            proxy=parse_proxy(settings.proxy) if settings.proxy else None,
        )
        self._deadlines = Deadlines()
        self._max_answer = settings.max_answer
        self.http = guarded_client(
            partial(LaneTransport, self._dialer, max_answer=MAX_ANSWER), patience=settings.timeout
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch over the exchanges' deadlines, until cancelled; started before the first exchange."""
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._deadlines.run)
                task_status.started()
        finally:
            with trio.move_on_after(1, shield=True):
                await self.http.aclose()

    def transport(self) -> LaneTransport:
        """A connection for a lane; whoever asked for it closes it."""
        return LaneTransport(self._dialer, max_answer=self._max_answer, deadlines=self._deadlines)

    def listens_on(self, urls: Iterable[str]) -> None:
        """Take note of where the gateway listens, so that it never calls itself."""
        self._own.listen_on(urls)

    async def warnings(self, registration: Registration) -> list[str]:
        """What would keep deliveries from being made now, for whoever sets the registration.

        Only what the guard refuses is told, in the words that an attempt would have; so nobody learns more
        of a name's addresses than by an attempt. A name that is not known (yet), or not known within
        :data:`CHECK_PATIENCE`, is left to the attempts.
        """
        if not registration.enabled:
            return []
        target = parse_target(registration.url)
        with trio.move_on_after(CHECK_PATIENCE):
            try:
                await self._dialer.vet(target.host, target.port)
            except Blocked as refusal:
                return [f"url: {refusal.message}"]
            except ResolveFailed:
                pass
        return []

    async def tell_of_refused(self, registrations: Iterable[Registration]) -> None:
        """Log what :meth:`warnings` says of the registrations of the configuration, which nobody sets."""
        for registration in registrations:
            for reason in await self.warnings(registration):
                logger.warning(
                    "a URL of the configuration is refused", registration=registration.label, reason=reason
                )
