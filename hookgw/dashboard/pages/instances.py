"""The list of instances."""

from __future__ import annotations

from typing import NamedTuple

from quart import Response, request

from hookgw.dashboard.site import NavEntry, Site, visitor
from hookgw.dashboard.streams import Streams
from hookgw.models.api_keys import Principal
from hookgw.models.connectors import ConnectionState

PAGE = 50
"""Instances on a page."""


class Row(NamedTuple):
    """An instance in the list."""

    name: str
    integration: str
    state: ConnectionState
    reason: str | None
    registrations: int
    backlog: int


class InstancesPage:
    """``/dashboard/instances``.

    Args:
        site: the dashboard.
        streams: updates the list.
    """

    def __init__(self, site: Site, streams: Streams) -> None:
        self._site = site
        self._gateway = site.gateway
        self._streams = streams
        site.nav.append(NavEntry("Instances", "/instances"))
        site.add("/instances", self.list)
        site.add("/instances/live", self.live)

    async def list(self) -> Response:
        """Show a page of the instances that the key may see."""
        search, number = self._asked()
        table = await self._table(visitor().principal, search, number)
        return await self._site.render("instances.html", table=table, search=search)

    async def live(self) -> Response:
        """Stream the table."""
        principal = visitor().principal
        search, number = self._asked()

        async def render() -> str:
            return await self._table(principal, search, number)

        return self._streams.open(
            visitor().signed_in, ("instances", principal.instance, search, number), render
        )

    def _asked(self) -> tuple[str, int]:
        page = request.args.get("page", "1")
        # Six digits are enough, and int() raises an error of its own beyond 4,300.
        number = int(page) if page.isascii() and page.isdecimal() and len(page) <= 6 else 1
        return request.args.get("search", "").strip()[:64], max(1, number)

    async def _table(self, principal: Principal, search: str, number: int) -> str:
        instances = self._gateway.instances
        wanted = search.casefold()
        names = [
            one.name for one in instances.all() if principal.may(one.name) and wanted in one.name.casefold()
        ]
        pages = max(1, -(-len(names) // PAGE))
        number = min(number, pages)
        rows = []
        for name in names[(number - 1) * PAGE : number * PAGE]:
            instance = instances.get(name)
            rows.append(
                Row(
                    name,
                    instance.integration,
                    instances.connection_state(name),
                    instances.close_reason(name),
                    len(self._gateway.registrations.of_instance(name)),
                    self._gateway.backlog.of_instance(name)[0],
                )
            )
        return await self._site.fragment(
            "instances_table.html", rows=rows, count=len(names), page=number, pages=pages, search=search
        )
