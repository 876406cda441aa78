"""Puts the dashboard together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hookgw.dashboard.pages.deliveries import DeliveriesPage
from hookgw.dashboard.pages.delivery import DeliveryPage
from hookgw.dashboard.pages.instance import InstancePage
from hookgw.dashboard.pages.instances import InstancesPage
from hookgw.dashboard.pages.kinds import KindsPage
from hookgw.dashboard.pages.lanes import LanesPage
from hookgw.dashboard.pages.overview import OverviewPage
from hookgw.dashboard.pages.plugin_pages import PluginPages
from hookgw.dashboard.pages.system import SystemPage
from hookgw.dashboard.sign_in import SignIn
from hookgw.dashboard.site import Site
from hookgw.dashboard.streams import Streams

if TYPE_CHECKING:
    from quart import Blueprint

    from hookgw.gateway.gateway import Gateway


class Dashboard:
    """The dashboard of one gateway.

    Args:
        gateway: the gateway.

    Attributes:
        site: the frame of all pages.
        streams: the live parts of pages; close them when the server stops.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.site = site = Site(gateway)
        self.streams = Streams(gateway.sessions, gateway.fleet.holds if gateway.fleet else lambda _: True)
        SignIn(site)
        # In the order of the navigation.
        OverviewPage(site, self.streams)
        InstancesPage(site, self.streams)
        InstancePage(site, self.streams)
        DeliveriesPage(site, self.streams)
        DeliveryPage(site, self.streams)
        LanesPage(site, self.streams)
        KindsPage(site)
        SystemPage(site, self.streams)
        PluginPages(site)

    async def run(self) -> None:
        """Wait for the end of the server, and end the streams then: they would hold it up."""
        try:
            await trio.sleep_forever()
        finally:
            self.streams.close()

    @property
    def blueprint(self) -> Blueprint:
        """The routes, for the application."""
        return self.site.blueprint
