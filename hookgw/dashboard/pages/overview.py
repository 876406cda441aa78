"""The overview: what is going on now, and what is wrong."""

from __future__ import annotations

from quart import Response

from hookgw.dashboard.site import NavEntry, Site
from hookgw.dashboard.streams import Streams


class OverviewPage:
    """``/dashboard/``.

    Args:
        site: the dashboard.
        streams: updates what the page shows.
    """

    def __init__(self, site: Site, streams: Streams) -> None:
        self._site = site
        self._streams = streams
        site.nav.append(NavEntry("Overview", ""))
        site.add("/", self.show)

    async def show(self) -> Response:
        """Show what is going on."""
        return await self._site.render("overview.html")
