"""The event kinds, with their meanings."""

from __future__ import annotations

import msgspec
from quart import Response

from hookgw.kernel.language import N_
from hookgw.site.site import NavEntry, Page, Site
from hookgw.web.needs import ANY_KEY


class KindsPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.nav.append(NavEntry(N_("Event kinds"), "/kinds", right=None))
        site.add("/kinds", self.show, ANY_KEY)

    async def show(self) -> Response:
        return await self._site.render(
            "kinds.html",
            kinds=self._site.gateway.catalog.of_instances(),
            operational=[kind for kind in self._site.gateway.catalog if kind.operational],
            json=lambda value: msgspec.json.format(msgspec.json.encode(value)).decode(),
        )
