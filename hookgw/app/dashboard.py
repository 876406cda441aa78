"""Puts the dashboard together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hookgw.deliveries.pages.compare import ComparePage
from hookgw.deliveries.pages.deliveries import DeliveriesPage
from hookgw.deliveries.pages.delivery import DeliveryPage
from hookgw.deliveries.pages.events import EventsPage
from hookgw.deliveries.pages.lane_actions import LaneActions
from hookgw.deliveries.pages.lanes import LanesPage
from hookgw.events.pages import KindsPage
from hookgw.instances.pages.codes import CodesPage
from hookgw.instances.pages.instance import InstancePage
from hookgw.instances.pages.instances import InstancesPage
from hookgw.keys.pages import KeysPage
from hookgw.keys.portal_pages import PortalPages
from hookgw.messages.pages.chats import ChatsPage
from hookgw.operations.pages.figures import FiguresPage
from hookgw.operations.pages.jobs import JobsPage
from hookgw.operations.pages.overview import OverviewPage
from hookgw.operations.pages.plugin_pages import PluginPages
from hookgw.operations.pages.system import SystemPage
from hookgw.site.sign_in import SignIn
from hookgw.site.site import Site

if TYPE_CHECKING:
    from quart import Blueprint

    from hookgw.app.gateway import Gateway


SLICES = tuple(
    f"hookgw.{name}"
    for name in ("operations", "messages", "instances", "deliveries", "webhooks", "events", "keys")
)
"""Packages with templates of pages."""


class Dashboard:
    def __init__(self, gateway: Gateway) -> None:
        self.site = site = Site(gateway, SLICES)
        SignIn(site)
        # In the order of the navigation.
        OverviewPage(site)
        FiguresPage(site)
        InstancesPage(site)
        InstancePage(site)
        ChatsPage(site)
        CodesPage(site)
        EventsPage(site)
        DeliveriesPage(site)
        DeliveryPage(site)
        ComparePage(site)
        LanesPage(site)
        LaneActions(site)
        JobsPage(site)
        KeysPage(site)
        KindsPage(site)
        PortalPages(site)
        SystemPage(site)
        PluginPages(site)

    async def run(self) -> None:
        """Wait for the end of the server, and end the streams then: they would delay it."""
        try:
            await trio.sleep_forever()
        finally:
            self.site.streams.close()

    @property
    def blueprint(self) -> Blueprint:
        return self.site.blueprint
