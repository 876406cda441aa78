"""A gateway that is not started, for the checks of ``hookgw check-config``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from hookgw.config.settings import Settings
from hookgw.core.metrics import Metrics
from hookgw.delivery.outbound import OutboundHttp
from hookgw.kernel.errors import Unavailable
from hookgw.kernel.sentences import Sentence
from hookgw.plugins.hooks import Hooks
from hookgw.records.deliveries import LaneStatistics
from hookgw.records.events import Catalog, Event, Receipt
from hookgw.records.instances import Instance
from hookgw.records.problems import ProblemReport
from hookgw.records.registrations import Registration

_NOT_RUNNING = Sentence("gateway.not_running", "hookgw is not running.")


class IdleGateway:
    """The parts of a gateway that plugins may use, as at its first start: without instances."""

    def __init__(self, catalog: Catalog, http: httpx.AsyncClient) -> None:
        self.catalog = catalog
        self.http = http
        self.events = _NoEvents()
        self.instances = _NoInstances()
        self.registrations = _NoRegistrations()
        self.metrics = Metrics()
        self.records = _NoRecords()

    def lanes(self) -> list[LaneStatistics]:
        return []

    async def problems(self) -> ProblemReport:
        return ProblemReport(0.0, [], [])

    async def send_text(self, _instance: str, _number: str, _text: str, /, *, key: str) -> None:  # noqa: ARG002
        raise Unavailable(_NOT_RUNNING)


class _NoEvents:
    async def accept(self, _events: Sequence[Event], /) -> Receipt:
        raise Unavailable(_NOT_RUNNING)


class _NoRecords:
    async def load(self) -> dict[str, Any]:
        raise Unavailable(_NOT_RUNNING)

    async def put(self, _changes: Mapping[str, Any], /) -> None:
        raise Unavailable(_NOT_RUNNING)


class _NoInstances:
    def all(self) -> list[Instance]:
        return []

    def find(self, _name: str, /) -> Instance | None:
        return None


class _NoRegistrations:
    def of_instance(self, _name: str, /) -> list[Registration]:
        return []


async def check_routes(hooks: Hooks, catalog: Catalog, settings: Settings) -> None:
    """Let plugins add their routes to an application that is not served; raise ``StartError``."""
    # Importing Quart takes half a second, and most plugins add no routes.
    from quart_trio import QuartTrio

    from hookgw.web.plugin_routes import PluginRoutes

    app = QuartTrio("hookgw.web", static_folder=None)
    outbound = OutboundHttp(settings.delivery)
    hooks.routes(app, lambda _: IdleGateway(catalog, outbound.http), PluginRoutes(app).contain)
