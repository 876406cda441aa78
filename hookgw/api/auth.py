"""Who may call what: one check in front of every route, so that no route can forget it.

The order of the answers is 401, 403, 404, 400: whoever has no key of an instance does not learn
whether it exists.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from quart import g, request
from quart_trio import QuartTrio

from hookgw.api.request_body import Headers
from hookgw.api.server.exchange import QUOTA_LEASE
from hookgw.auth.keyring import KeyHolder
from hookgw.models.api_keys import Principal
from hookgw.models.errors import Forbidden, Unauthorized
from hookgw.models.instances import check_name

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway

ROUTE = "hookgw.route"
"""Where the template of the route stands in the request's scope, for the metrics."""

REQUEST_QUOTA = "hookgw.shares"
"""Where the :class:`~hookgw.auth.request_quota.RequestQuota` stand in a request's scope, if there are any."""

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})
OPEN_BELOW = "/public/"
"""Plugins' routes below it need no key."""
SHARED_PATHS = frozenset({"/instance/fetchInstances", "/event/kinds"})
SHARED_BELOW = "/shared/"
"""Plugins' routes below it take any key, as those of ours in :data:`SHARED_PATHS` do."""


class Need(StrEnum):
    """What key a route needs."""

    NOTHING = "no key"
    ANY = "any key"
    INSTANCE = "the instance's key, or a global one"
    GLOBAL = "a global key"


def install_auth(app: QuartTrio, gateway: Gateway) -> None:
    """Ask for a key before every route: the instance's or the global one where the path names an instance.

    Where it names none, the global key is needed, unless the route is declared to be open or shared: a
    route that nobody thought about is closed.
    """

    @app.before_request
    async def check_key() -> None:
        rule = request.url_rule
        scope: Any = request.scope
        scope[ROUTE] = rule.rule if rule is not None else None
        need = _need_of_path(request.path) if rule is None else need_of(rule.rule, rule.arguments)
        if need is Need.NOTHING:
            return
        holder = g.holder = authenticate(gateway, request.headers, scope)
        if need is Need.INSTANCE:
            named = request.view_args or {}
            check_reach(holder.principal, named["instance"], named.get("label"))
        elif need is Need.GLOBAL:
            need_global(holder.principal)


def need_of(rule: str, variables: Collection[str]) -> Need:
    """What key a route needs.

    Args:
        rule: its path.
        variables: the names of what stands in it.
    """
    if rule in OPEN_PATHS or rule.startswith(OPEN_BELOW):
        return Need.NOTHING
    if "instance" in variables:
        return Need.INSTANCE
    return Need.ANY if rule in SHARED_PATHS or rule.startswith(SHARED_BELOW) else Need.GLOBAL


def _need_of_path(path: str) -> Need:
    """What is asked of a request that no route takes: whoever has a key may know that there is none."""
    return Need.NOTHING if need_of(path, ()) is Need.NOTHING else Need.ANY


def authenticate(gateway: Gateway, headers: Headers, scope: Any) -> KeyHolder:
    """Whose key a request has.

    Args:
        gateway: knows the keys.
        headers: the request's.
        scope: the request's; its ``client`` says where it comes from.

    Raises:
        Unauthorized: it has none, or one that nobody knows.
        TooManyRequests: see ``Authenticator.authenticate``; or its instance has enough.
    """
    client = scope["client"]
    holder = gateway.authenticator.authenticate(_given_key(headers), client[0] if client else None)
    if holder is None:
        raise Unauthorized("Send a valid key in the apikey header.")
    instance, shares = holder.principal.instance, scope.get(REQUEST_QUOTA)
    if instance is not None and shares is not None:
        scope[QUOTA_LEASE] = shares.enter(instance)
    return holder


def _given_key(headers: Headers) -> str:
    """The ``apikey`` header; or a bearer token, which is what Prometheus can send."""
    key = headers.get("apikey")
    if key is None:
        scheme, _, token = (headers.get("authorization") or "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else ""
    return key


def check_reach(principal: Principal, instance: str, label: str | None = None) -> None:
    """Check that a caller may touch what a path names, and then that such names can be.

    Raises:
        Forbidden: the instance is not the caller's.
        Invalid: the name of the instance or the label breaks the rules.
    """
    if not principal.may(instance):
        raise Forbidden("This key is another instance's.")
    check_name(instance, "The name of the instance")
    if label is not None:
        check_name(label, "The label")


def need_global(principal: Principal) -> None:
    """Let only the global key pass.

    Raises:
        Forbidden: it is an instance's key.
    """
    if not principal.is_global:
        raise Forbidden("Only a global key may do this.")


def principal_here() -> Principal:
    """Who is calling."""
    return holder_here().principal


def holder_here() -> KeyHolder:
    """Whose key the caller has shown."""
    holder: KeyHolder = g.holder
    return holder
