"""Who may call what: one check in front of every route, so that no route can forget it.

The order of the answers is 401, 403, 404, 400: whoever has no key of an instance does not learn
whether it exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quart import g, request
from quart_trio import QuartTrio

from hookgw.access import Principal
from hookgw.api.bodies import Headers
from hookgw.errors import Forbidden, Unauthorized
from hookgw.instances import check_name

if TYPE_CHECKING:
    from hookgw.gateway import Gateway

ROUTE = "hookgw.route"
"""Where the template of the route stands in the request's scope, for the metrics."""

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
OPEN_BELOW = "/public/"
"""Plugins' routes below it need no key."""


def install_auth(app: QuartTrio, gateway: Gateway) -> None:
    """Ask for a key before every route, and for the instance's or the global one where a route names one."""

    @app.before_request
    async def check_key() -> None:
        rule = request.url_rule
        scope: Any = request.scope
        scope[ROUTE] = rule.rule if rule is not None else None
        if rule is not None and is_open(rule.rule):
            return
        principal = g.principal = authenticate(gateway, request.headers)
        named = request.view_args
        if named:
            check_reach(principal, named.get("instance"), named.get("label"))


def is_open(rule: str) -> bool:
    """Whether a route needs no key."""
    return rule in OPEN_PATHS or rule.startswith(OPEN_BELOW)


def authenticate(gateway: Gateway, headers: Headers) -> Principal:
    """Whose key a request has.

    Raises:
        Unauthorized: it has none, or one that nobody knows.
    """
    principal = gateway.authenticate(_given_key(headers))
    if principal is None:
        raise Unauthorized("Send a valid key in the apikey header.")
    return principal


def _given_key(headers: Headers) -> str:
    """The ``apikey`` header; or a bearer token, which is what Prometheus can send."""
    key = headers.get("apikey")
    if key is None:
        scheme, _, token = (headers.get("authorization") or "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else ""
    return key


def check_reach(principal: Principal, instance: str | None, label: str | None = None) -> None:
    """Check that a caller may touch what a path names, and then that such names can be.

    Raises:
        Forbidden: the instance is not the caller's.
        Invalid: the name of the instance or the label breaks the rules.
    """
    if instance is not None:
        if not principal.may(instance):
            raise Forbidden("This key is another instance's.")
        check_name(instance, "The name of the instance")
    if label is not None:
        check_name(label, "The label")


def principal_here() -> Principal:
    """Who is calling."""
    principal: Principal = g.principal
    return principal


def need_global() -> None:
    """Let only the global key pass.

    Raises:
        Forbidden: it is an instance's key.
    """
    if principal_here().instance is not None:
        raise Forbidden("Only the global key may do this.")
