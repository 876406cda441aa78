"""The application with its fast paths, which need no Quart. :mod:`hookgw.app.surfaces` adds the routes."""

from __future__ import annotations

from hookgw.app.gateway import Gateway
from hookgw.events.emit import EmitEndpoint
from hookgw.instances.routes.fast_ingest import FastIngest
from hookgw.instances.routes.ingest_endpoint import IngestEndpoint
from hookgw.web.app import Application


def application_of(gateway: Gateway) -> Application:
    """Return an application without routes."""
    return Application(
        gateway,
        EmitEndpoint(gateway),
        FastIngest(IngestEndpoint(gateway), gateway.node),
    )
