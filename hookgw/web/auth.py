"""Authentication and authorization. :mod:`hookgw.web.route_auth` applies them to every route.

Each route declares what it needs (:mod:`hookgw.web.needs`). The checks come in the order 401, 403, 404, 400:
a caller whose key does not reach an instance does not learn whether the instance exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hookgw.auth.keyring import KeyHolder
from hookgw.core.access import check_global, check_reach, check_right, reaches
from hookgw.core.ingest_url import INGEST_PATH
from hookgw.core.registry import Registry
from hookgw.kernel.errors import Unauthorized, Unavailable
from hookgw.kernel.sentences import Sentence
from hookgw.records.api_keys import Principal, Right
from hookgw.records.instances import check_name
from hookgw.records.registrations import DEFAULT_LABEL
from hookgw.web.needs import Need, Scope
from hookgw.web.server.exchange import RequestResponse

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

INGEST_RULE = f"{INGEST_PATH}<instance>/<token>"
INGEST_BELOW_RULE = f"{INGEST_RULE}/<path:below>"
"""Networks call these. The token in the path is the key."""
_KEY_HEADERS = {len(name): name for name in (b"apikey", b"x-api-key", b"authorization")}
"""By their lengths. WAHA's clients send the second."""
_KEY = "key"
"""The note that holds the API key in a head, and the key's holder."""
_ALLOWED = "allowed"
"""The note that holds who was found to meet the needs of the route in a head."""
VIA = "hookgw.via"
"""Where the scope of a request that hookgw makes itself says for what, for the audit."""
VERIFY_PATH = "/verify-creds"
"""Tells clients of Evolution API whether their key is a global key."""
KEY_NOT_LOOKED_UP = Sentence(
    "key.not_looked_up",
    "This key is not known here, and the database cannot be asked for it now. Retry later.",
)
DASHBOARD_PATH = "/dashboard"
"""Below the base path. The pages there check the session of a browser instead of a key."""


def is_dashboard(path: str) -> bool:
    return path == DASHBOARD_PATH or path.startswith(f"{DASHBOARD_PATH}/")


def check_reach_again(
    gateway: Gateway, exchange: RequestResponse, holder: KeyHolder, instance: str | None
) -> None:
    """Let the checks of the key after a wait look at the reach as well: tags change, names are reused."""
    if instance is None or holder.principal.is_global or holder.principal.reach.is_everything:
        return
    check_key = exchange.check_key

    def check() -> None:
        if check_key is not None:  # of the key, or of a session
            check_key()
        check_reach(gateway.registry, holder.principal, instance)

    exchange.check_key = check


async def authorize(
    gateway: Gateway, exchange: RequestResponse, need: Need, variables: Mapping[str, Any]
) -> KeyHolder:
    """Return the holder of a request's key, who may call the route. Call this once for each request.

    The exchange gets the holder and the check of the key, and is counted for the holder's instance.

    Raises:
        Unauthorized: the request has no key, an unknown one, or more than one.
        TooManyRequests: see ``Authenticator.authenticate``; or the instance's quota is used up.
        Unavailable: see :func:`learn_key` and :func:`learn_reach`.
        HookgwError: see :func:`check_need`.
    """
    if gateway.node.is_shared:
        await learn_key(gateway, exchange)
    scope, notes = exchange.scope, exchange.notes
    key, known = notes.get(_KEY) or (shown_key(scope["headers"]), None)
    if exchange.is_forwarded:  # the node that forwards it has counted it
        holder = gateway.keys.holder_of(key)
    else:
        holder = gateway.authenticator.authenticate(key, exchange.client_host, known)
    if holder is None:  # one message for a missing and a wrong key: no hint which it was
        raise Unauthorized.of("key.required", "Send a valid key in the apikey header.")
    notes[_KEY] = key, holder
    exchange.holder = holder
    exchange.check_key = partial(gateway.keys.check_held, holder)
    if holder.counted_as is not None:
        exchange.count_for(holder.counted_as)
    allowed: KeyHolder | None = notes.get(_ALLOWED)
    if allowed is not holder:
        principal = holder.principal
        await learn_reach(gateway, exchange, principal, variables.get("instance"))
        check_need(gateway.registry, principal, need, variables)
        if principal.is_global or principal.reach.is_everything:
            notes[_ALLOWED] = holder  # whatever becomes of the instance
        else:
            check_reach_again(gateway, exchange, holder, variables.get("instance"))
    return holder


async def learn_reach(
    gateway: Gateway, exchange: RequestResponse, principal: Principal, instance: str | None
) -> None:
    """Read other nodes' changes if an instance is out of a key's reach: it may be new, or have new tags.

    Raises:
        StorageUnavailable: the database cannot be asked.
        Unauthorized: the key was revoked meanwhile.
    """
    if instance is None or principal.reach.is_everything or reaches(gateway.registry, principal, instance):
        return
    await gateway.refresh.catch_up()
    if exchange.check_key is not None:
        exchange.check_key()


async def learn_key(gateway: Gateway, exchange: RequestResponse) -> None:
    """Read other nodes' changes if a request shows an unknown key: it may be new.

    Raises:
        TooManyRequests: too many wrong keys came from the client's address. Nothing is read then.
        Unavailable: the database cannot be asked. It counts as a wrong key.
    """
    key = shown_key(exchange.scope["headers"])
    if key:
        # Of a forwarded request, the node that forwards it has checked the address.
        await look_for_key(gateway, key, None if exchange.is_forwarded else exchange.client_host)


async def look_for_key(gateway: Gateway, key: str, address: str | None) -> None:
    """Read other nodes' changes if a key is unknown; see :func:`learn_key`."""
    if gateway.keys.holder_of(key) is None:
        gateway.authenticator.check_address(address)
        try:
            # Calls at once share one read, so that guesses cost the database little.
            await gateway.refresh.look_up(KEY_NOT_LOOKED_UP)  # not 401: producers do not repeat that
        except Unavailable:
            gateway.authenticator.note_failure(address)
            raise


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
            raise Unauthorized.of(
                "key.header_repeated",
                "The request has more than one {name} header; send one.",
                name=name.decode(),
            )
        shown[name] = value.decode("latin-1")
    authorization = shown.pop(b"authorization", None)
    if authorization is not None:
        # Prometheus can send only a bearer token. Other schemes may be meant for a proxy, and are no key.
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer":
            shown[b"authorization"] = token.strip()
    if len(shown) > 1 and len(set(shown.values())) > 1:
        names = " and ".join(name.decode() for name in _KEY_HEADERS.values() if name in shown)
        raise Unauthorized.of(
            "key.headers_differ",
            "The {names} headers have different keys; send one of them.",
            names=names,
        )
    return next(iter(shown.values()), "")


def check_need(registry: Registry, principal: Principal, need: Need, variables: Mapping[str, Any]) -> None:
    """Check that a caller may call a route, and then that the names in the path are valid.

    Raises:
        Forbidden: the key lacks a right.
        ForeignKey: the instance is out of the key's reach, or the call is about everything.
        Invalid: the name of the instance or the label breaks the rules.
    """
    label = variables.get("label")
    if need.scope is Scope.EVERYTHING:
        check_global(principal)
    if need.right is not None:
        is_of_label = need.right is Right.RECEIVE
        check_right(principal, need.right, (label or DEFAULT_LABEL) if is_of_label else None)
    if need.scope is Scope.INSTANCE:
        check_reach(registry, principal, variables["instance"])
    # The names are checked last: a 400 must not tell another instance's key anything that 403 does not.
    if "instance" in variables:
        check_name(variables["instance"], "The name of the instance")
    if label is not None:
        check_name(label, "The label")


def check_named(
    registry: Registry, principal: Principal, right: Right, instance: str, label: str | None = None
) -> None:
    """Check a right on an instance that a form or a body names, as :func:`check_need` does for paths."""
    names = {"instance": instance} if label is None else {"instance": instance, "label": label}
    check_need(registry, principal, Need(Scope.INSTANCE, right), names)


def current_principal() -> Principal:
    return current_holder().principal


def current_holder() -> KeyHolder:
    from quart import g  # here, because the fast paths use this module before Quart is loaded

    holder: KeyHolder = g.holder
    return holder
