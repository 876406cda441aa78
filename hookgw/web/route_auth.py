"""The one check in front of every route, so that no route can forget it; see :mod:`hookgw.web.auth`."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from quart import Response, g, request
from quart_trio import QuartTrio
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.routing import Rule

from hookgw.core.audit import act_as, holder_as_actor
from hookgw.kernel.sentences import Sentence
from hookgw.web.auth import DASHBOARD_PATH, VIA, authorize, is_dashboard, shown_key
from hookgw.web.needs import ANY_KEY, OPEN, OPEN_PREFIX, Need, Scope, need_of
from hookgw.web.openapi.describe import operation_of
from hookgw.web.request_body import current_exchange
from hookgw.web.route_errors import error_response
from hookgw.web.server.errors import shown_path

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway


def need_of_view(app: QuartTrio, rule: Rule) -> Need:
    """Return what a route needs; the dashboard's pages check their sessions themselves."""
    if is_dashboard(rule.rule):
        return OPEN
    view = app.view_functions.get(rule.endpoint)
    operation = None if view is None else operation_of(view)
    return need_of(None if operation is None else operation.needs, rule.rule, rule.arguments)


def is_open_otherwise(app: QuartTrio) -> bool:
    """Return whether the current path, which has no such method, is open with another one: that is a 405."""
    error = request.routing_exception
    if not isinstance(error, MethodNotAllowed) or not error.valid_methods:
        return False
    adapter: Any = app.create_url_adapter(request)
    rule, _ = adapter.match(method=next(iter(error.valid_methods)), return_rule=True)
    return need_of_view(app, rule) is OPEN


def api_path(app: QuartTrio) -> str | None:
    """Return the path of the HTTP API that a call below the dashboard means; ``None`` if it means none."""
    path = request.path.removeprefix(DASHBOARD_PATH)
    if not is_dashboard(request.path) or not path:
        return None
    adapter: Any = app.create_url_adapter(request)
    return path if adapter.test(path, request.method) else None


def install_auth(app: QuartTrio, gateway: Gateway) -> None:
    """Check before every route what its declaration says that it needs."""

    @app.before_request
    async def check_key() -> Response | None:
        rule: Any = request.url_rule
        scope: Any = request.scope
        exchange = current_exchange()
        # Before any refusal, so that refused requests are counted by route, too.
        exchange.route = rule.rule if rule is not None else None
        is_page = rule is not None and rule.rule != f"{DASHBOARD_PATH}/<path:rest>"
        if not is_page and (right := api_path(app)) and shown_key(scope["headers"]):
            root = scope.get("root_path", "")
            elsewhere = Sentence(
                "route.below_dashboard",
                "No such route: {path}. The HTTP API is not below {dashboard}: use {right}.",
                path=root + shown_path(request.path),
                dashboard=root + DASHBOARD_PATH,
                right=root + shown_path(right),
            )
            # Not raised: the dashboard would make a page of it.
            return error_response(HTTPStatus.NOT_FOUND, [elsewhere])
        if rule is not None:
            need = need_of_view(app, rule)
        elif is_dashboard(request.path) or request.path.startswith(OPEN_PREFIX) or is_open_otherwise(app):
            need = OPEN  # so that a plugin's path says no less when the plugin is off
        else:
            need = ANY_KEY  # any caller with a key may learn that a route does not exist
        if need.scope is Scope.OPEN:
            return None
        # The names that the route matched, not the raw path: another spelling of it must not open anything.
        holder = g.holder = await authorize(gateway, exchange, need, request.view_args or {})
        act_as(holder_as_actor(holder, exchange.client_host, scope.get(VIA, "")))
        return None
