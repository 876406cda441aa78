"""Every slice's routes in one application. This loads Quart."""

from __future__ import annotations

from collections.abc import Generator

from quart import Blueprint

from hookgw.accounts.routes import ApplyRoutes
from hookgw.app.dashboard import Dashboard
from hookgw.app.gateway import Gateway
from hookgw.app.json_schemas import request_schemas
from hookgw.deliveries.log_routes import EventLogRoutes
from hookgw.deliveries.pull_routes import PullRoutes
from hookgw.deliveries.routes import DeliveryRoutes
from hookgw.events.emit import EmitEndpoint
from hookgw.events.routes import EventRoutes
from hookgw.instances.routes.accounts import AccountRoutes
from hookgw.instances.routes.connectors import ConnectorRoutes
from hookgw.instances.routes.ingest import IngestRoutes
from hookgw.instances.routes.ingest_endpoint import IngestEndpoint
from hookgw.instances.routes.instances import InstanceRoutes
from hookgw.keys.portal_routes import PortalRoutes
from hookgw.keys.routes import KeyRoutes
from hookgw.manual.routes import ManualRoutes
from hookgw.mcp.routes import McpRoutes
from hookgw.messages.routes.chats import ChatRoutes
from hookgw.messages.routes.groups import GroupRoutes
from hookgw.messages.routes.media import MediaRoutes
from hookgw.messages.routes.messages import MessageRoutes
from hookgw.operations.routes.audit import AuditRoutes
from hookgw.operations.routes.diagnosis import DiagnosisRoutes
from hookgw.operations.routes.figures import FigureRoutes
from hookgw.operations.routes.health import HealthRoutes
from hookgw.operations.routes.jobs import JobRoutes
from hookgw.operations.routes.nodes import NodeRoutes
from hookgw.operations.routes.problems import ProblemRoutes
from hookgw.operations.routes.root import RootRoutes
from hookgw.operations.routes.storage import StorageRoutes
from hookgw.web.app import Application
from hookgw.web.openapi.routes import OpenApiRoutes
from hookgw.web.query import install_query_check
from hookgw.web.route_auth import install_auth
from hookgw.web.route_errors import install_error_handlers
from hookgw.web.routing import Routing
from hookgw.webhooks.routes import WebhookRoutes


def load_surfaces(app: Application, gateway: Gateway) -> Generator[None, None, Dashboard | None]:
    """Add all routes and pages to an application; return the dashboard, if it is enabled.

    It pauses at each ``yield``: the whole takes 50 ms, and the fast paths serve requests meanwhile.

    Raises:
        StartError: a plugin failed, or the brand's logo is not valid.
    """
    dashboard = None
    if gateway.settings.dashboard.enabled:
        dashboard = Dashboard(gateway)
        yield
    yield from add_routes(app, gateway, *(() if dashboard is None else (dashboard.blueprint,)))
    return dashboard


def add_routes(app: Application, gateway: Gateway, *pages: Blueprint) -> Generator[None, None, None]:
    """Add the routes of every slice, and of plugins, to an application.

    Args:
        pages: further routes, which check the caller themselves: the dashboard's.
    """
    while True:
        before = gateway.hooks.plugins()
        routing = yield from _routing_of(app, gateway, pages)
        # An optional plugin that failed may have added some of its routes, or a check of all requests.
        if gateway.hooks.plugins() == before:
            app.use_routing(routing)
            return


def _routing_of(
    app: Application, gateway: Gateway, pages: tuple[Blueprint, ...]
) -> Generator[None, None, Routing]:
    routing = Routing(app.respond)
    install_error_handlers(routing, is_evolution=gateway.settings.server.is_evolution)
    install_auth(routing, gateway)
    install_query_check(routing)
    app.install_forwarding(routing)
    resources = (
        WebhookRoutes(gateway),
        InstanceRoutes(gateway),
        ApplyRoutes(gateway),
        AccountRoutes(gateway),
        ConnectorRoutes(gateway),
        KeyRoutes(gateway),
        PortalRoutes(gateway),
        MessageRoutes(gateway),
        ChatRoutes(gateway),
        GroupRoutes(gateway),
        MediaRoutes(gateway),
        EventRoutes(gateway, EmitEndpoint(gateway)),
        IngestRoutes(IngestEndpoint(gateway)),
        DeliveryRoutes(gateway),
        EventLogRoutes(gateway),
        PullRoutes(gateway),
        JobRoutes(gateway),
        AuditRoutes(gateway),
        StorageRoutes(gateway),
        NodeRoutes(gateway),
        DiagnosisRoutes(gateway),
        ProblemRoutes(gateway),
        FigureRoutes(gateway),
        RootRoutes(gateway, has_dashboard=bool(pages)),
        HealthRoutes(gateway),
        McpRoutes(app, gateway),
        reference := OpenApiRoutes(app, gateway, request_schemas),
        ManualRoutes(gateway.settings.server, reference),
    )
    for blueprint in (*(resource.blueprint() for resource in resources), *pages):
        routing.register_blueprint(blueprint)
        yield
    routing.expect_plugins()
    gateway.hooks.routes(routing, gateway.for_plugin, routing.contain)
    return routing
