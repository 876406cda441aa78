"""The tour: five steps from an empty gateway to the first delivery, which tick themselves."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import NamedTuple

from quart import Response, request

from hookgw.core.access import names_within
from hookgw.records.api_keys import Principal, Right
from hookgw.records.connectors import ConnectionState
from hookgw.records.deliveries import DeliveryState
from hookgw.site.addresses import address_for_programs
from hookgw.site.page_paths import delivery_path
from hookgw.site.site import Page, Site, visitor
from hookgw.store import DeliveryQuery
from hookgw.web.needs import within_reach

MOST_INSTANCES = 5
"""With more, nobody is shown the tour who does not ask for it; its steps look at so many."""
MOST_DELIVERED = 10
"""Deliveries of a day: with more, the end of the tour is no news."""
_COOKIE = "hookgw_tour"
_HIDDEN = "hidden"
_YEAR = 31_536_000
_THIS_MACHINE = ip_address("127.0.0.1")


class Tour(NamedTuple):
    """What is there, of what a first delivery needs.

    Attributes:
        instance: the name of an instance; empty if there is none.
        is_connected: whether an account is connected, or needs no connection: its events come over HTTP.
        delivery: the path of the newest delivered delivery, below the dashboard; empty if there is none.
        address: the URL of hookgw for the reader's programs; empty if they can have no key.
        reaches_this_machine: whether hookgw may send to the machine it runs on.
    """

    instance: str
    is_connected: bool
    has_webhook: bool
    has_event: bool
    delivery: str
    address: str
    reaches_this_machine: bool

    @property
    def ticks(self) -> tuple[bool, ...]:
        return (
            bool(self.instance),
            self.is_connected,
            self.has_webhook,
            self.has_event,
            bool(self.delivery),
        )

    @property
    def next(self) -> int:
        """The first step that is not done, counted from 1; 0 if all are."""
        return 0 if all(self.ticks) else self.ticks.index(False) + 1


class TourPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        networks = map(ip_network, site.gateway.settings.delivery.allow_networks)
        self._reaches_this_machine = any(_THIS_MACHINE in network for network in networks)
        site.add("/tour", self.show, within_reach(Right.READ))
        site.add("/tour/show", self.choose, within_reach(Right.READ), "POST", page="/tour")

    def is_for(self, principal: Principal) -> bool:
        """Return whether somebody can take all steps but the first, which may be done."""
        return all(principal.rights.has(right) for right in (Right.WEBHOOKS, Right.SEND))

    def is_hidden(self) -> bool:
        """Return whether the current request's reader has hidden the tour."""
        return request.cookies.get(_COOKIE) == _HIDDEN

    def address(self) -> str:
        """Return the URL of hookgw for the reader's programs; empty for customers of a portal: no key."""
        return "" if visitor().portal else address_for_programs(self._gateway.settings.server)

    async def show(self) -> Response:
        return await self._site.render(
            "tour.html",
            tour=await self.of(visitor().principal, self.address()),
            is_hidden=self.is_hidden(),
        )

    async def choose(self) -> Response:
        """Show the tour on the overview, or hide it there."""
        form = await self._site.form()
        hides = form.get("tour") == _HIDDEN
        response = self._site.redirect("/" if hides else "/tour")
        response.set_cookie(
            _COOKIE,
            _HIDDEN if hides else "",
            max_age=_YEAR if hides else 0,
            path=self._site.root,
            samesite="Strict",
            httponly=True,
        )
        return response

    async def of_overview(self, principal: Principal, address: str, delivered: int) -> Tour | None:
        """Return the tour, for those whose gateway or part of it is new; ``None`` for all others."""
        count = self._gateway.instances.count() if principal.is_global else len(self._names(principal))
        if not self.is_for(principal) or count > MOST_INSTANCES or delivered > MOST_DELIVERED:
            return None
        return await self.of(principal, address)

    def _names(self, principal: Principal) -> list[str]:
        names = names_within(self._gateway.registry, principal)
        return [one.name for one in self._gateway.instances.all()] if names is None else [*names]

    async def of(self, principal: Principal, address: str) -> Tour:
        gateway, names = self._gateway, self._names(principal)[:MOST_INSTANCES]
        connections = await gateway.views.connections(names)
        instances = [one for one in map(gateway.instances.find, names) if one is not None]
        with_webhook = [name for name in names if gateway.registrations.count(name)]
        newest = await gateway.history.newest(names) if names else {}
        delivered = DeliveryQuery(
            instance=None,
            among=tuple(names),
            state=DeliveryState.DELIVERED,
            limit=1,
            without_global=not principal.is_global,
        )
        page = (await gateway.history.list(delivered)).deliveries if names else []
        chosen = (with_webhook or names or [""])[0]
        return Tour(
            chosen,
            any(
                not one.integration or connections.of(one).state is ConnectionState.OPEN for one in instances
            ),
            bool(with_webhook),
            bool(newest),
            delivery_path(page[0].instance, page[0].id) if page else "",
            address,
            self._reaches_this_machine,
        )
