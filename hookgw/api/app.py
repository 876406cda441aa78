"""The application: every resource's routes, one check of keys, one shape of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quart_trio import QuartTrio

from hookgw.api.auth import ROUTE, install_auth
from hookgw.api.deliveries import DeliveryRoutes
from hookgw.api.errors import install_error_handlers
from hookgw.api.events import EventRoutes
from hookgw.api.exchange import Exchange, refuse_websocket
from hookgw.api.instances import InstanceRoutes
from hookgw.api.messages import MessageRoutes
from hookgw.api.operation import OperationRoutes
from hookgw.api.webhooks import WebhookRoutes

if TYPE_CHECKING:
    from hookgw.gateway import Gateway

NO_ROUTE = "none"
"""The route in the metrics of requests that match none."""

_NOWHERE = " "
"""A path that no route can have."""


class Application(QuartTrio):
    """The HTTP interface of one gateway. Made by :func:`create_app`."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__("hookgw.api", static_folder=None)
        self._gateway = gateway
        self._base_path = gateway.settings.server.base_path
        self._limit = max(gateway.settings.server.max_body, gateway.settings.server.max_batch_body)
        self.config["MAX_CONTENT_LENGTH"] = None  # counted in Exchange, which answers
        self.config["BODY_TIMEOUT"] = None
        self.url_map.strict_slashes = False

    async def asgi_app(self, scope: Any, receive: Any, send: Any) -> None:
        """One exchange, or the answer to what is none."""
        if scope["type"] == "websocket":
            await refuse_websocket(send)
        elif scope["type"] == "http":
            scope["path"] = self._path(scope["path"])
            await Exchange(scope, receive, send, self._limit, self._count).run(super().asgi_app)
        else:
            await super().asgi_app(scope, receive, send)

    def _path(self, path: str) -> str:
        """The path below the base path."""
        if not self._base_path:
            return path
        return path.removeprefix(self._base_path) if path.startswith(f"{self._base_path}/") else _NOWHERE

    def _count(self, scope: Any, status: int) -> None:
        self._gateway.metrics.requested(scope.get(ROUTE) or NO_ROUTE, status)


def create_app(gateway: Gateway) -> Application:
    """The HTTP interface of a gateway, with the routes of its plugins.

    It holds nothing that must be closed. :func:`hookgw.api.serving.serve` runs it.
    """
    app = Application(gateway)
    install_error_handlers(app)
    install_auth(app, gateway)
    resources = (WebhookRoutes, InstanceRoutes, MessageRoutes, EventRoutes, DeliveryRoutes, OperationRoutes)
    for resource in resources:
        app.register_blueprint(resource(gateway).blueprint())
    gateway.hooks.routes(app, gateway)
    return app
