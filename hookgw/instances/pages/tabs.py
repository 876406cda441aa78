"""The tabs of an instance: each is a page with an address of its own."""

from __future__ import annotations

from typing import NamedTuple

from hookgw.kernel.language import N_
from hookgw.records.api_keys import Right
from hookgw.site.page_paths import instance_path


class Tab(NamedTuple):
    """A tab.

    Attributes:
        name: the last part of its address; empty for the first tab.
        right: without it, a visitor does not see the tab.
    """

    name: str
    title: str
    right: Right = Right.READ

    def path(self, instance: str) -> str:
        """Return the path of the page, below the dashboard."""
        return instance_path(instance, self.name)


OVERVIEW = Tab("", N_("Overview"))
CHATS = Tab("chats", N_("Chats"), Right.PAYLOADS)
WEBHOOKS = Tab("webhooks", N_("Webhooks"))
DELIVERIES = Tab("deliveries", N_("Deliveries"))
CONNECTION = Tab("connection", N_("Connection"))
KEYS = Tab("keys", N_("Keys"), Right.KEYS)
SETTINGS = Tab("settings", N_("Settings"))
TABS = (OVERVIEW, CHATS, WEBHOOKS, DELIVERIES, CONNECTION, KEYS, SETTINGS)
