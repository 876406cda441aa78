"""The application: every resource's routes, one check of keys, one shape of errors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from quart_trio import QuartTrio

from hookgw.api.auth import ROUTE, install_auth
from hookgw.api.contract.routes import ContractRoutes
from hookgw.api.deliveries import DeliveryRoutes
from hookgw.api.emitting import Emitting
from hookgw.api.errors import install_error_handlers
from hookgw.api.events import EventRoutes
from hookgw.api.exchange import Exchange
from hookgw.api.instances import InstanceRoutes
from hookgw.api.keys import KeyRoutes
from hookgw.api.messages import MessageRoutes
from hookgw.api.operation import OperationRoutes
from hookgw.api.shortcut import Shortcut
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
        self._shortcut: Shortcut | None = None
        self._limit = max(gateway.settings.server.max_body, gateway.settings.server.max_batch_body)
        self.config["MAX_CONTENT_LENGTH"] = None  # counted in Exchange, which answers
        self.config["BODY_TIMEOUT"] = None
        self.url_map.strict_slashes = False

    async def asgi_app(self, scope: Any, receive: Any, send: Any) -> None:
        """One exchange, or the answer to what is none."""
        if scope["type"] == "http":
            scope["path"] = self._path(scope["path"])
            exchange = Exchange(scope, receive, send, self._limit, self._count)
            if self._shortcut is not None and self._shortcut.takes(scope):
                await exchange.run(partial(self._shortcut.answer, exchange))
            else:
                await exchange.run(partial(super().asgi_app, scope, exchange.receive, exchange.send))
        else:
            await super().asgi_app(scope, receive, send)

    def shorten(self, shortcut: Shortcut | None) -> None:
        """Let a shortcut answer what it takes, or none.

        To be called when all routes are there. Where plugins have hung something before, behind or round
        every request, there is none: they would not hear of what it answers.
        """
        own = [check for checks in self.before_request_funcs.values() for check in checks]
        hung = (self.after_request_funcs, self.teardown_request_funcs, self.url_value_preprocessors)
        self._shortcut = None if len(own) > 1 or any(hung) else shortcut

    @property
    def is_shortened(self) -> bool:
        """Whether a shortcut answers what it takes."""
        return self._shortcut is not None

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
    emitting = Emitting(gateway)
    resources = (
        WebhookRoutes(gateway),
        InstanceRoutes(gateway),
        KeyRoutes(gateway),
        MessageRoutes(gateway),
        EventRoutes(gateway, emitting),
        DeliveryRoutes(gateway),
        OperationRoutes(gateway),
        ContractRoutes(app, gateway),
    )
    for resource in resources:
        app.register_blueprint(resource.blueprint())
    gateway.hooks.routes(app, gateway)
    app.shorten(Shortcut(gateway, emitting))
    return app
