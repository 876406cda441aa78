"""The application: every resource's routes, one check of keys, one shape of errors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from quart_trio import QuartTrio

from hookgw.api.auth import REQUEST_QUOTA, ROUTE, install_auth
from hookgw.api.fast_emit import FastEmit
from hookgw.api.openapi.routes import ContractRoutes
from hookgw.api.routes.deliveries import DeliveryRoutes
from hookgw.api.routes.emit import Emitter
from hookgw.api.routes.events import EventRoutes
from hookgw.api.routes.health import HealthRoutes
from hookgw.api.routes.instances import InstanceRoutes
from hookgw.api.routes.keys import KeyRoutes
from hookgw.api.routes.messages import MessageRoutes
from hookgw.api.routes.webhooks import WebhookRoutes
from hookgw.api.server.errors import error_body, install_error_handlers
from hookgw.api.server.exchange import ActiveRequests, RequestResponse
from hookgw.auth.client_address import TrustedProxies
from hookgw.auth.request_quota import RequestQuota

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway

NO_ROUTE = "none"
"""The route in the metrics of requests that match none."""

_NOWHERE = " "
"""A path that no route can have."""

_ALWAYS = frozenset({"/healthz", "/readyz"})
"""Paths that are answered however much is under way."""

_ONE_IN = 4
"""Which part of the requests at a time one instance may have."""
_BODIES = 4
"""How many of the largest bodies one instance may have in memory at a time."""

_BUSY = error_body(503, ["Too many requests are under way (server.max_requests). Try again."])
_SOON = {"retry-after": "1"}


class Application(QuartTrio):
    """The HTTP interface of one gateway. Made by :func:`create_app`."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__("hookgw.api", static_folder=None)
        self._gateway = gateway
        self._base_path = gateway.settings.server.base_path
        self._fast_emit: FastEmit | None = None
        server = gateway.settings.server
        self._limit = max(server.max_body, server.max_batch_body)
        self._active = ActiveRequests(server.max_requests)
        self._shares = RequestQuota(
            max(1, server.max_requests // _ONE_IN), _BODIES * self._limit, gateway.metrics.limited
        )
        self._proxies = TrustedProxies(server.trusted_proxies) if server.trusted_proxies else None
        self.config["MAX_CONTENT_LENGTH"] = None  # counted in RequestResponse, which answers
        self.config["BODY_TIMEOUT"] = None
        self.url_map.strict_slashes = False

    async def asgi_app(self, scope: Any, receive: Any, send: Any) -> None:
        """One exchange, or the answer to what is none."""
        if scope["type"] == "http":
            scope["path"] = self._path(scope["path"])
            scope[REQUEST_QUOTA] = self._shares
            if self._proxies is not None:
                scope["client"] = _client(self._proxies, scope)
            exchange = RequestResponse(scope, receive, send, self._limit, self._count, self._active)
            if self._active.is_full and scope["path"] not in _ALWAYS:
                await exchange.run(partial(exchange.respond, 503, _SOON, _BUSY))
            elif self._fast_emit is not None and self._fast_emit.matches(scope):
                await exchange.run(partial(self._fast_emit.respond, exchange))
            else:
                await exchange.run(partial(super().asgi_app, scope, exchange.receive, exchange.send))
        else:
            await super().asgi_app(scope, receive, send)

    def use_fast_emit(self, fast_emit: FastEmit | None) -> None:
        """Let a fast_emit answer what it takes, or none.

        To be called when all routes are there. Where plugins have hung something before, behind or round
        every request, there is none: they would not hear of what it answers.
        """
        own = [check for checks in self.before_request_funcs.values() for check in checks]
        hung = (self.after_request_funcs, self.teardown_request_funcs, self.url_value_preprocessors)
        self._fast_emit = None if len(own) > 1 or any(hung) else fast_emit

    @property
    def uses_fast_emit(self) -> bool:
        """Whether a fast_emit answers what it takes."""
        return self._fast_emit is not None

    def _path(self, path: str) -> str:
        """The path below the base path."""
        if not self._base_path:
            return path
        return path.removeprefix(self._base_path) if path.startswith(f"{self._base_path}/") else _NOWHERE

    def _count(self, scope: Any, status: int) -> None:
        self._gateway.metrics.requested(scope.get(ROUTE) or NO_ROUTE, status)


def _client(proxies: TrustedProxies, scope: Any) -> tuple[str, int] | None:
    """Whom a request comes from: the peer, or whom the proxies in front name. Those name no port."""
    given: tuple[str, int] | None = scope["client"]
    peer = None if given is None else given[0]
    named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    client = proxies.client_of(peer, named)
    return given if client is None or client == peer else (client, 0)


def create_app(gateway: Gateway) -> Application:
    """The HTTP interface of a gateway, with the routes of its plugins.

    It holds nothing that must be closed. :func:`hookgw.api.server.serve.serve` runs it.
    """
    app = Application(gateway)
    install_error_handlers(app)
    install_auth(app, gateway)
    emitting = Emitter(gateway)
    resources = (
        WebhookRoutes(gateway),
        InstanceRoutes(gateway),
        KeyRoutes(gateway),
        MessageRoutes(gateway),
        EventRoutes(gateway, emitting),
        DeliveryRoutes(gateway),
        HealthRoutes(gateway),
        ContractRoutes(app, gateway),
    )
    for resource in resources:
        app.register_blueprint(resource.blueprint())
    gateway.hooks.routes(app, gateway)
    app.use_fast_emit(FastEmit(gateway, emitting))
    return app
