"""The part of the running gateway that plugins may use.

:class:`~hookgw.app.gateway.Gateway` and its parts satisfy these Protocols. This package cannot import
them: they call plugins, so they import this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import httpx
from prometheus_client.core import Metric

from hookgw.records.deliveries import LaneStatistics
from hookgw.records.events import Catalog, Event, Receipt
from hookgw.records.instances import Instance
from hookgw.records.problems import ProblemReport
from hookgw.records.registrations import Registration


class Events(Protocol):
    """Accepts events."""

    # Positional-only arguments, here and below: the concrete classes may name theirs as they like.
    async def accept(self, events: Sequence[Event], /) -> Receipt:
        """Store events, and address each one to the registrations that want it: all of them or none.

        Returns once they are on disk. A caller that is cancelled while it waits does not undo that.

        Args:
            events: in delivery order.

        Raises:
            Invalid: an event breaks a rule; each message begins with the event's index.
            NotFound: there is no such instance.
            Unavailable: the disk refused, or a limit of the backlog is reached; retry later.
            TooLarge: the events exceed such a limit on their own.
        """


class Instances(Protocol):
    """The instances of the gateway."""

    def all(self) -> list[Instance]:
        """Return all instances, sorted by name."""

    def find(self, name: str, /) -> Instance | None:
        """Return the instance with this name, or ``None``."""


class Registrations(Protocol):
    """The registrations of the gateway."""

    def of_instance(self, name: str, /) -> list[Registration]:
        """Return the registrations of an instance, sorted by label."""


class GatewayMetrics(Protocol):
    async def collect(self) -> list[Metric]:
        """Return the metrics of ``GET /metrics``, except the process's."""


class PluginRecords(Protocol):
    """The records of this plugin: JSON values by key, on disk, and shared by all nodes of a fleet."""

    async def load(self) -> dict[str, Any]:
        """Return all records by key. Raises ``Unavailable`` if the storage refuses."""

    async def put(self, changes: Mapping[str, Any], /) -> None:
        """Store values by key, all or none; ``None`` removes one. Returns once they are on disk.

        Raises:
            Invalid: a key is empty or longer than 255 characters, a value has more than 1 MiB as JSON, or
                the plugin would have more than 10,000 records.
            TypeError: a value is not JSON.
            Unavailable: the storage refuses, or this node has lost touch with a fleet's database.
        """


class PluginGateway(Protocol):
    """The running gateway as ``hookgw_run``, ``hookgw_routes`` and others receive it.

    It is stable within a major version.
    """

    @property
    def http(self) -> httpx.AsyncClient:
        """A client for the plugin's own requests; its connections pass the address guard. Do not close it."""

    @property
    def catalog(self) -> Catalog:
        """All known event kinds."""

    @property
    def events(self) -> Events:
        """Accepts events."""

    @property
    def instances(self) -> Instances:
        """The instances."""

    @property
    def registrations(self) -> Registrations:
        """The registrations."""

    @property
    def metrics(self) -> GatewayMetrics:
        """The metrics."""

    @property
    def records(self) -> PluginRecords:
        """What this plugin keeps."""

    def lanes(self) -> list[LaneStatistics]:
        """Return a snapshot of the lanes that have work, or had some recently."""

    async def problems(self) -> ProblemReport:
        """Return the present problems of all nodes, and which nodes have answered."""

    async def send_text(self, instance: str, number: str, text: str, /, *, key: str) -> None:
        """Send a text message through an instance of this gateway, on whichever node it is.

        Args:
            number: where it goes, as the network names it.
            key: the same for each repetition, so that a message that was sent is not sent again for some
                minutes.

        Raises:
            Unavailable: the instance or its network refuses it; or its node did not answer in time, and may
                have sent it.
        """
