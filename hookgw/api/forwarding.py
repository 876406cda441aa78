"""Calls for an instance that another node of the fleet has: they are forwarded there, once.

What concerns an instance (its connector, its lanes, its registrations and keys) is decided by one node.
Events are accepted by any node, and what is only read from the database is read by any.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import structlog
import trio
from quart import Response, request

from hookgw.api.request_body import MAX_VALUES, WHOLE_BODY, in_one_part, read_body
from hookgw.api.server.exchange import EXCHANGE, RequestResponse
from hookgw.auth.fleet_secret import HEADER
from hookgw.gateway.fleet.fleet import Fleet
from hookgw.models.errors import HookgwError, StorageUnavailable, Unavailable
from hookgw.parsing.json_text import decode_strict

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway

logger = structlog.get_logger("hookgw.fleet")

FORWARDED = "hookgw.forwarded"
"""The key in a request's scope that says that another node has forwarded it."""

CREATE_RULE = "/instance/create"
_ANYWHERE = ("/event/emit/<instance>", "/delivery/list/<instance>", "/delivery/find/<instance>/<name>")
"""Beginnings of routes with an instance that every node answers: emits, and what is in the database."""

MOST_NAMED = 2**24
"""Bytes of a body that is searched for a name."""
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "expect", HEADER.decode()}
)


class Forwarder:
    """Forwards requests to other nodes.

    Args:
        gateway: a node of a fleet.
        fleet: the same, as one of many.
    """

    def __init__(self, gateway: Gateway, fleet: Fleet) -> None:
        self._gateway = gateway
        self._fleet = fleet

    def admit(self, scope: Any) -> None:
        """Take the client's address from a request that another node has forwarded.

        Args:
            scope: of the request. The address is changed, and :data:`FORWARDED` is set.
        """
        secret = self._fleet.secret
        if secret is None:
            return
        value = next((value for name, value in scope["headers"] if name == HEADER), None)
        if value is None:
            return
        client = secret.client_of(value, scope["method"], _target(scope), self._gateway.clock.wall())
        if client is not None:
            scope["client"] = (client, 0) if client else None
            scope[FORWARDED] = True

    async def forward(self) -> Response | None:
        """Forward the current request, if another node has its instance.

        Returns:
            The other node's response; ``None`` if this node is to answer.

        Raises:
            Unavailable: the instance moves, or the other node cannot be reached.
        """
        rule = request.url_rule
        if rule is None:
            return None
        scope: Any = request.scope
        body: bytes | None = None
        instance: object = None
        if rule.rule == CREATE_RULE:
            body = scope[WHOLE_BODY] = bytes(await request.body)
            instance = await _name_in(body, scope[EXCHANGE])
        elif "instance" in rule.arguments and not rule.rule.startswith(_ANYWHERE):
            instance = (request.view_args or {})["instance"]
        else:
            return None
        # A request that cannot be right is refused here as well as there.
        if not isinstance(instance, str) or self._fleet.holds(instance):
            return None
        if scope.get(FORWARDED):
            # Two nodes that see the fleet at different moments must not send a request to and fro.
            raise self._fleet.moving(instance)
        response = await self._send(instance, scope, body)
        if request.method not in ("GET", "HEAD"):
            # The client sees its own change, also if its next request comes to this node.
            with suppress(StorageUnavailable):
                await self._fleet.catch_up()
        return response

    async def _send(self, instance: str, scope: Any, body: bytes | None) -> Response:
        node = self._fleet.owner_of(instance)
        secret = self._fleet.secret
        if secret is None:
            raise self._fleet.moving(instance)
        target = _target(scope)
        client = scope["client"][0] if scope["client"] else ""
        signed = secret.sign(scope["method"], target, client, self._gateway.clock.wall())
        headers = [
            (name, value) for name, value in scope["headers"] if name.decode("latin-1") not in _HOP_BY_HOP
        ]
        headers.append((HEADER, signed))
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        url = httpx.URL(node.url).copy_with(raw_path=target)
        content = body if body is not None else request.body if has_body else None
        outgoing = self._fleet.http.build_request(scope["method"], url, headers=headers, content=content)
        try:
            response = await self._fleet.http.send(outgoing, stream=True)
        except httpx.ConnectError as error:
            logger.warning("a node cannot be reached", node=node.name, url=node.url, reason=str(error))
            raise Unavailable(
                f"The node {node.name} of the instance cannot be reached.", retry_after=1.0
            ) from None
        except httpx.HTTPError as error:
            logger.warning("a forwarded call failed", node=node.name, url=node.url, reason=repr(error))
            raise Unavailable(
                f"The node {node.name} of the instance has not answered. What was asked for may be done.",
                retry_after=1.0,
            ) from None
        kept = [(name, value) for name, value in response.headers.multi_items() if name not in _HOP_BY_HOP]
        forwarded = Response(_body_of(response), response.status_code)
        forwarded.headers.clear()
        for name, value in kept:
            forwarded.headers.add(name, value)
        return forwarded


async def _name_in(body: bytes, exchange: RequestResponse) -> object:
    """Return the name of the instance that a request is to create; ``None`` if the request is no good."""
    try:
        whole = await read_body(request.headers, in_one_part(body), MOST_NAMED, exchange)
        value = decode_strict(whole, MAX_VALUES)
    except (HookgwError, ValueError):
        return None  # the route says what is wrong with it
    return value.get("instanceName") if isinstance(value, dict) else None


async def _body_of(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for part in response.aiter_raw():
            yield part
    finally:
        with trio.move_on_after(1, shield=True):
            await response.aclose()


def _target(scope: Any) -> bytes:
    query: bytes = scope["query_string"]
    path: bytes = scope["raw_path"]
    return path + b"?" + query if query else path
