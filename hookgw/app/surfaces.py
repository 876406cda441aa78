"""Every slice's routes in one application."""

from __future__ import annotations

from collections.abc import Sequence

from quart import Blueprint

from hookgw.accounts.routes import ApplyRoutes
from hookgw.app.gateway import Gateway
from hookgw.app.json_schemas import request_schemas
from hookgw.deliveries.log_routes import EventLogRoutes
from hookgw.deliveries.pull_routes import PullRoutes
from hookgw.deliveries.routes import DeliveryRoutes
from hookgw.events.emit import EmitEndpoint
from hookgw.events.fast_emit import FastEmit
from hookgw.events.routes import EventRoutes
from hookgw.instances.routes.accounts import AccountRoutes
from hookgw.instances.routes.connectors import ConnectorRoutes
from hookgw.instances.routes.fast_ingest import FastIngest
from hookgw.instances.routes.ingest import IngestEndpoint, IngestRoutes
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
from hookgw.web.auth import install_auth
from hookgw.web.openapi.routes import OpenApiRoutes
from hookgw.web.query import install_query_check
from hookgw.web.server.errors import install_error_handlers
from hookgw.webhooks.routes import WebhookRoutes


def create_app(gateway: Gateway, *pages: Blueprint) -> Application:
    """Return the HTTP API of a gateway, with the routes of its plugins. It need not be closed.

    Args:
        pages: further routes, which check the caller themselves: the dashboard's.

    Raises:
        StartError: a plugin failed.
    """
    while True:
        before = gateway.hooks.plugins()
        app = _app_with_routes(gateway, pages)
        # An optional plugin that failed may have added some of its routes, or a check of all requests.
        if gateway.hooks.plugins() == before:
            return app


def _app_with_routes(gateway: Gateway, pages: Sequence[Blueprint]) -> Application:
    app = Application(gateway)
    install_error_handlers(app, is_evolution=gateway.settings.server.is_evolution)
    install_auth(app, gateway)
    install_query_check(app)
    app.install_forwarding()
    emit = EmitEndpoint(gateway)
    ingest = IngestEndpoint(gateway)
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
        EventRoutes(gateway, emit),
        IngestRoutes(ingest),
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
        app.register_blueprint(blueprint)
    app.expect_plugins()
    gateway.hooks.routes(app, gateway.for_plugin)
    app.use_fast_paths(FastEmit(gateway, emit), FastIngest(ingest, gateway.node.holds))
    return app
