"""The part of the running gateway that plugins may use.

:class:`~hookgw.gateway.gateway.Gateway` satisfies it. Plugins see the gateway through this Protocol, so
that this package does not import the gateway, which imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import httpx

from hookgw.models.deliveries import LaneStatistics
from hookgw.models.events import Catalog, Event, Receipt
from hookgw.models.instances import Instance
from hookgw.models.registrations import Registration


class PluginGateway(Protocol):
    """The running gateway as ``hookgw_run`` and ``hookgw_routes`` receive it.

    Everything here is described in ``docs/plugins.md`` and stable within a major version.
    """

    @property
    def http(self) -> httpx.AsyncClient:
        """A client whose every connection passes the address guard. The gateway closes it."""

    @property
    def catalog(self) -> Catalog:
        """All known event kinds."""

    async def accept(self, events: Sequence[Event], *, single: bool = False) -> Receipt:
        """Store events and address each to the registrations that want it; all of them or none."""

    def instances(self) -> list[Instance]:
        """All instances, sorted by name."""

    def registrations_of(self, instance: str) -> list[Registration]:
        """The registrations of an instance, sorted by label."""

    def lanes(self) -> list[LaneStatistics]:
        """A snapshot of the lanes that have work, or had some recently."""
