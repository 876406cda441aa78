"""Authentication and authorization: one check in front of every route, so that no route can forget it.

The checks come in the order 401, 403, 404, 400: a caller without a key for an instance does not learn whether
the instance exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from quart import g, request
from quart_trio import QuartTrio

from hookgw.auth.keyring import KeyHolder
from hookgw.core.audit import act_as, holder_as_actor
from hookgw.core.ingest_url import INGEST_PATH
from hookgw.kernel.errors import ForeignKey, StorageUnavailable, Unauthorized
from hookgw.records.api_keys import Principal
from hookgw.records.inline_media import MEDIA_PATH
from hookgw.records.instances import check_name
from hookgw.web.request_body import current_exchange
from hookgw.web.server.exchange import RequestResponse

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

INGEST_RULE = f"{INGEST_PATH}<instance>/<token>"
INGEST_BELOW_RULE = f"{INGEST_RULE}/<path:below>"
MEDIA_RULE = f"{MEDIA_PATH}<instance>/<token>"
"""Networks call the first two, and readers of events the third. The token in the path is the key."""
OPEN_PATHS = frozenset(
    {
        "/",
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/docs/http",
        "/docs/<path:page>",
        INGEST_RULE,
        INGEST_BELOW_RULE,
        MEDIA_RULE,
    }
)
_KEY_HEADERS = {len(name): name for name in (b"apikey", b"x-api-key", b"authorization")}
"""By their lengths. WAHA's clients send the second."""
_KEY = "key"
"""The note that holds the API key in a head, and the key's holder."""
VIA = "hookgw.via"
"""Where the scope of a request that hookgw makes itself says for what, for the audit."""
VERIFY_PATH = "/verify-creds"
"""Tells clients of Evolution API whether their key is a global key."""
OPEN_PREFIX = "/public/"
"""Plugins' routes below this path need no key."""
DASHBOARD_PATH = "/dashboard"
"""The dashboard's pages, at this path and below, check the session of a browser instead of a key."""
SHARED_PATHS = frozenset(
    {
        "/instance/fetchInstances",
        "/event/kinds",
        "/event/list",
        "/delivery/list",
        "/delivery/replay",
        "/delivery/cancel",
        "/job/find/<job_id>",
        "/job/list",
        "/job/pause/<job_id>",
        "/job/resume/<job_id>",
        "/job/cancel/<job_id>",
        "/mcp",
    }
)
SHARED_PREFIX = "/shared/"
"""Plugins' routes below this path accept any key, as hookgw's routes in :data:`SHARED_PATHS` do."""


class RequiredKey(StrEnum):
    """The key that a route requires."""

    NONE = "no key"
    ANY = "any key"
    INSTANCE = "the instance's key or a global key"
    GLOBAL = "a global key"


def required_key(rule: str, variables: Collection[str]) -> RequiredKey:
    """Return the key that a route requires.

    A path with an instance requires that instance's key or a global key. Any other path requires a global key
    unless it is listed above, so that a new route is closed by default.
    """
    # In this order: an instance in the path wins over a shared prefix.
    if rule in OPEN_PATHS or rule.startswith(OPEN_PREFIX) or is_dashboard(rule):
        return RequiredKey.NONE
    if "instance" in variables:
        return RequiredKey.INSTANCE
    if rule in SHARED_PATHS or rule.startswith(SHARED_PREFIX):
        return RequiredKey.ANY
    return RequiredKey.GLOBAL


def is_dashboard(path: str) -> bool:
    return path == DASHBOARD_PATH or path.startswith(f"{DASHBOARD_PATH}/")


def install_auth(app: QuartTrio, gateway: Gateway) -> None:
    """Check the key before every route, as :func:`required_key` says."""

    @app.before_request
    async def check_key() -> None:
        rule = request.url_rule
        scope: Any = request.scope
        exchange = current_exchange()
        # Before any refusal, so that refused requests are counted by route, too.
        exchange.route = rule.rule if rule is not None else None
        if rule is not None:
            required = required_key(rule.rule, rule.arguments)
        elif required_key(request.path, ()) is RequiredKey.NONE:
            required = RequiredKey.NONE
        else:
            required = RequiredKey.ANY  # any caller with a key may learn that a route does not exist
        if required is RequiredKey.NONE:
            return
        await learn_key(gateway, exchange)
        holder = g.holder = authenticate(gateway, exchange)
        client = scope["client"]
        act_as(holder_as_actor(holder, client[0] if client else None, scope.get(VIA, "")))
        # The names that the route matched, not the raw path: another spelling of it must not open anything.
        if required is RequiredKey.INSTANCE:
            variables = request.view_args or {}
            check_access(holder.principal, variables["instance"], variables.get("label"))
        elif required is RequiredKey.GLOBAL and not holder.principal.is_global:
            if request.path == VERIFY_PATH:
                raise Unauthorized("This key is not a global key.")
            raise ForeignKey("This call requires a global key.")


async def learn_key(gateway: Gateway, exchange: RequestResponse) -> None:
    """Read other nodes' changes if a request shows an unknown key: it may be new.

    Raises:
        TooManyRequests: too many wrong keys came from the client's address. Nothing is read then.
    """
    if gateway.node.is_shared:
        scope = exchange.scope
        key = shown_key(scope["headers"])
        if key and gateway.keys.holder_of(key) is None:
            if not exchange.is_forwarded:  # the node that forwards it has checked it
                client = scope["client"]
                gateway.authenticator.check_address(client[0] if client else None)
            # Calls at once share one read, so that guesses cost the database little.
            with suppress(StorageUnavailable):
                await gateway.refresh.catch_up()


def authenticate(gateway: Gateway, exchange: RequestResponse) -> KeyHolder:
    """Return the holder of a request's key, and count the request against the instance's quota.

    The exchange gets the holder and the check of the key, and is counted for the instance.

    Raises:
        Unauthorized: the request has no key, an unknown one, or more than one.
        TooManyRequests: see ``Authenticator.authenticate``; or the instance's quota is used up.
    """
    scope, notes = exchange.scope, exchange.notes
    key, known = notes.get(_KEY) or (shown_key(scope["headers"]), None)
    if exchange.is_forwarded:  # the node that forwards it has counted it
        holder = gateway.keys.holder_of(key)
    else:
        client = scope["client"]
        holder = gateway.authenticator.authenticate(key, client[0] if client else None, known)
    if holder is None:  # one message for a missing and a wrong key: no hint which it was
        raise Unauthorized("Send a valid key in the apikey header.")
    notes[_KEY] = key, holder
    exchange.holder = holder
    exchange.check_key = partial(gateway.keys.check_held, holder)
    if holder.principal.instance is not None:
        exchange.count_for(holder.principal.instance)
    return holder


def shown_key(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the key of ``apikey``, ``X-Api-Key`` or a bearer token; empty if the request shows none.

    Raises:
        Unauthorized: the request has one of the headers twice, or several with different keys.
    """
    # A proxy in front that checks or logs the other key would see another caller than hookgw does.
    shown: dict[bytes, str] = {}
    for raw_name, value in headers:
        # The lengths first: this runs for every request, and most headers are none of these.
        name = _KEY_HEADERS.get(len(raw_name))
        if name is None or raw_name.lower() != name:
            continue
        if name in shown:
            raise Unauthorized(f"The request has more than one {name.decode()} header; send one.")
        shown[name] = value.decode("latin-1")
    authorization = shown.pop(b"authorization", None)
    if authorization is not None:
        # Prometheus can send only a bearer token. Other schemes may be meant for a proxy, and are no key.
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer":
            shown[b"authorization"] = token.strip()
    if len(shown) > 1 and len(set(shown.values())) > 1:
        names = " and ".join(name.decode() for name in _KEY_HEADERS.values() if name in shown)
        raise Unauthorized(f"The {names} headers have different keys; send one of them.")
    return next(iter(shown.values()), "")


def check_access(principal: Principal, instance: str, label: str | None = None) -> None:
    """Check that a caller may access an instance, and then that the names in the path are valid.

    Raises:
        ForeignKey: the key belongs to another instance.
        Invalid: the name of the instance or the label breaks the rules.
    """
    # The name is checked last: its 400 must not tell another instance's key anything that 403 does not.
    if not principal.may(instance):
        raise ForeignKey("This key belongs to another instance.")
    check_name(instance, "The name of the instance")
    if label is not None:
        check_name(label, "The label")


def current_principal() -> Principal:
    return current_holder().principal


def current_holder() -> KeyHolder:
    holder: KeyHolder = g.holder
    return holder
