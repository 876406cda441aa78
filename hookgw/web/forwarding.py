"""Forwards calls for another node's instances to that node, once.

:mod:`hookgw.web.call_places` says which calls these are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import structlog
import trio
from quart import Quart, Response, request

from hookgw.auth.fleet_secret import HEADER, OF_NODE, Origin
from hookgw.fleet.peers import Peers
from hookgw.kernel.errors import HookgwError, NotFound, StorageUnavailable, TooManyRequests, Unavailable
from hookgw.kernel.json_text import decode_strict
from hookgw.kernel.rules import HOP_BY_HOP
from hookgw.kernel.sentences import Sentence
from hookgw.records.fleet import FleetMember
from hookgw.records.inline_media import MEDIA_PATH
from hookgw.records.sentences import TOO_MANY_LIVE_PAGES
from hookgw.records.shards import shard_of
from hookgw.web.auth import is_dashboard
from hookgw.web.body import MAX_VALUES, in_one_part, read_body
from hookgw.web.call_places import CallPlace, place_of
from hookgw.web.request_body import current_exchange
from hookgw.web.server.errors import JSON, VERSION_HEADER, response_to
from hookgw.web.server.exchange import BrokenOff, RequestResponse

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

logger = structlog.get_logger("hookgw.fleet")

CREATE_RULE = "/instance/create"

_OF_RECORDS = frozenset({CallPlace.RECORDS, CallPlace.ALL, CallPlace.OWNER_IN_BODY})
"""Calls that choose among the records of many instances."""

WAITING_RULES = "/delivery/pull/"
"""The paths of calls that may wait for as long as they want, and do nothing meanwhile."""

MOST_STREAMS = 500
"""The most streams of other nodes that pass through this one at a time."""
_STREAM = "text/event-stream"

MOST_NAMED = 2**24
"""Bytes of a body that is searched for a name."""
_NOT_FORWARDED = HOP_BY_HOP | {"expect", HEADER.decode()}
_OF_SERVER = _NOT_FORWARDED | {"date", "x-content-type-options", VERSION_HEADER[0].decode()}
"""Headers of a response that the server of this node writes."""

_UNREACHABLE = Sentence.declared("node.unreachable", "The node {name} cannot be reached.")


class Forwarder:
    def __init__(self, gateway: Gateway, peers: Peers) -> None:
        self._gateway = gateway
        self._node = peers.node
        self._peers = peers
        self._streams = 0
        self._reading: set[trio.CancelScope] = set()
        self._responses: dict[RequestResponse, httpx.Response] = {}
        self._is_closed = False

    def install(self, app: Quart) -> None:
        """Look at every request that no fast path handles."""
        app.before_request(self.forward)
        app.after_request(self._doubt)

    def close(self) -> None:
        """End the streams of other nodes, because the server shuts down."""
        self._is_closed = True
        for scope in self._reading:
            scope.cancel()

    async def close_response(self, exchange: RequestResponse) -> None:
        """Close the other node's response to a request that has ended, if it was forwarded.

        The body's generator cannot do this: it never starts if the request ends before its response begins,
        for example because the client leaves. Then the connection would be held for good.
        """
        response = self._responses.pop(exchange, None)
        if response is not None:
            with trio.move_on_after(1, shield=True):
                await response.aclose()

    def admit(self, exchange: RequestResponse) -> None:
        """Note whether a request comes from another node.

        If that node has forwarded it, it has passed on the client's address and scheme.
        """
        exchange.forward_to_owner = self.forward_to_owner
        scope, secret = exchange.scope, self._peers.secret
        if secret is None:
            return
        value = next((value for name, value in scope["headers"] if name == HEADER), None)
        if value is None:
            return
        origin = secret.origin_of(value, scope["method"], _target(scope), self._gateway.clock.wall())
        if origin is None:
            return
        if origin.scheme == OF_NODE:
            exchange.is_question = True
        else:
            exchange.address = scope["client"] = (origin.client, 0) if origin.client else None
            # The names of cookies depend on it, and this node may not trust the proxy that says so.
            scope["scheme"] = origin.scheme
            exchange.named = origin.named
            exchange.is_forwarded = True

    async def forward(self) -> Response | None:
        """Forward the current request, if its path or its query names another node's instance.

        Return the other node's response; ``None`` if this node is to answer.

        Raises:
            Unavailable: the instance moves, or the other node cannot be reached, or it is not known here and
                the database cannot be asked.
        """
        rule = request.url_rule
        if rule is None:
            return None
        variables = request.view_args or {}
        place = place_of(rule.rule, rule.arguments)
        if rule.rule.startswith(WAITING_RULES):
            # It waits on the other node, which limits it.
            current_exchange().stop_counting()
        if place is CallPlace.OWNER:
            return await self.forward_to_owner(variables["instance"])
        if place is CallPlace.NAMED:
            return await self._forward_to_node(request.args.get("node", ""))
        if "instance" in rule.arguments and self._gateway.instances.find(variables["instance"]) is None:
            # Another node may have made it a moment ago. Who cannot look must not call it unknown.
            await self._gateway.refresh.catch_up()
        elif rule.rule == CREATE_RULE:
            exchange = current_exchange()
            body = exchange.whole_body = bytes(await request.body)
            name = await _name_in(body, exchange)
            # An invalid request is refused here as well as there.
            return await self.forward_to_owner(name) if isinstance(name, str) else None
        elif place in _OF_RECORDS and not self._node.is_database_slow():
            # A client's last call may have changed something by another node. Without the database, the
            # answer is from what was known a moment ago.
            with suppress(StorageUnavailable):
                await self._gateway.refresh.catch_up()
        return None

    async def _doubt(self, response: Response) -> Response:
        """Let this node call nothing unknown once its lease has ended: others may have made it since."""
        rule, variables = request.url_rule, request.view_args or {}
        if (
            rule is None
            # A link to a file gets 403, whether or not its instance exists.
            or response.status_code not in ((403, 404) if rule.rule.startswith(MEDIA_PATH) else (404,))
            or place_of(rule.rule, rule.arguments) is not CallPlace.OWNER
            or not self._node.holds(variables["instance"])
            or is_dashboard(request.path)  # for people, who load the page again
        ):
            return response
        try:
            self._node.epoch_of(variables["instance"])
        except StorageUnavailable as error:
            status, body, headers = response_to(error, request.method, request.path)
            return Response(body, status, dict(headers), content_type=JSON)
        return response

    async def forward_to_owner(self, instance: str) -> Response | None:
        """Forward the current request, if another node has an instance.

        If the body names the instance, the exchange has the body as ``whole_body``. Return the other node's
        response; ``None`` if this node has the instance.

        Raises:
            Unavailable: the instance moves, or the other node cannot be reached, or is gone before it
                answers.
        """
        if self._node.holds(instance):
            return None
        exchange = current_exchange()
        if exchange.is_forwarded:
            # Two nodes that see the fleet at different moments must not forward a request in circles.
            raise self._node.moving(instance)
        response = await self._send(self._node.owner_of(instance), exchange, shard_of(instance))
        if request.method not in ("GET", "HEAD"):
            # The client sees its own change, also if its next request comes to this node.
            with suppress(StorageUnavailable):
                await self._gateway.refresh.catch_up()
        return response

    async def _forward_to_node(self, name: str) -> Response | None:
        """Forward the current request to the node that its query names, if that is another one.

        Raises:
            NotFound: there is no such node.
        """
        exchange = current_exchange()
        if not name or name == self._node.name or exchange.is_forwarded:
            return None
        node = next((node for node in self._node.view.nodes if node.name == name), None)
        if node is None or not node.url:
            raise NotFound.of("node.not_found", "There is no node {name!r}.", name=name[:64])
        return await self._send(node, exchange, None)

    async def _send(self, node: FleetMember, exchange: RequestResponse, shard: int | None) -> Response:
        scope, secret = exchange.scope, self._peers.secret
        if secret is None:  # two nodes without it cannot be in one fleet
            raise Unavailable(_UNREACHABLE(name=node.name), retry_after=1.0)
        target = _target(scope)
        origin = Origin(exchange.client_host or "", scope["scheme"], exchange.named)
        signed = secret.sign(scope["method"], target, origin, self._gateway.clock.wall())
        # Whom a proxy names is in the signature, and a node may be a trusted proxy of the others.
        dropped = {*_NOT_FORWARDED, (self._gateway.settings.auth.proxy_header or "").lower()}
        headers = [(name, value) for name, value in scope["headers"] if name.decode("latin-1") not in dropped]
        headers.append((HEADER, signed))
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        content: Any = exchange.whole_body
        if content is None and has_body:
            content = request.body
        # Not the client's: that would add headers of its own. Not in the URL, which would be changed.
        outgoing = httpx.Request(
            scope["method"], node.url, headers=headers, content=content, extensions={"target": target}
        )
        response = None
        rule = request.url_rule
        waits = rule is not None and rule.rule.startswith(WAITING_RULES)
        try:
            # What comes next would be leased to a client that is gone. Other calls do their work anyhow.
            with self._peers.calls.waiting(node, shard, lambda: exchange.is_client_there() or not waits):
                response = await self._peers.http.send(outgoing, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            logger.warning("a node cannot be reached", node=node.name, url=node.url, reason=repr(error))
            raise Unavailable(_UNREACHABLE(name=node.name), retry_after=1.0) from None
        except httpx.HTTPError as error:
            logger.warning("a forwarded call failed", node=node.name, url=node.url, reason=repr(error))
        if response is None:
            # It is not sent to another node: this one may have acted on it, and died before it responded.
            raise Unavailable.of(
                "node.no_answer",
                "The node {name} has not answered. The call may have been carried out.",
                name=node.name,
                retry_after=1.0,
            )
        self._responses[exchange] = response
        is_stream = response.headers.get("content-type", "").startswith(_STREAM)
        if is_stream and self._streams >= MOST_STREAMS:
            raise TooManyRequests(TOO_MANY_LIVE_PAGES, retry_after=10)
        if scope["method"] == "HEAD":
            forwarded = Response(b"", response.status_code)
        else:
            body = self._body_of(node, shard, response, exchange, is_stream)
            forwarded = Response(body, response.status_code)
        # The other node ends requests that take too long, and knows which may: a stream, a large file.
        forwarded.timeout = None
        forwarded.headers.clear()
        for name, value in response.headers.multi_items():
            if name not in _OF_SERVER:
                forwarded.headers.add(name, value)
        return forwarded

    async def _body_of(
        self,
        node: FleetMember,
        shard: int | None,
        response: httpx.Response,
        exchange: RequestResponse,
        is_stream: bool,
    ) -> AsyncIterator[bytes]:
        if is_stream:
            # It lasts as long as the page is open, and does nothing most of the time.
            exchange.stop_counting()
            self._streams += 1
        parts = response.aiter_raw()
        try:
            while not (is_stream and self._is_closed):
                part = None
                # The rest of an answer that the node began before it gave the instance away is good.
                with self._peers.calls.waiting(node, shard if is_stream else None) as waiting:
                    if is_stream:
                        self._reading.add(waiting)
                    try:
                        part = await anext(parts, None)
                    finally:
                        self._reading.discard(waiting)
                if waiting.cancelled_caught and not is_stream:
                    logger.warning(
                        "a forwarded response broke off", node=node.name, reason="the node is gone"
                    )
                    raise BrokenOff
                if part is None:
                    break  # of a stream that was ended here, the browser connects again
                yield part
        except httpx.HTTPError as error:
            logger.warning("a forwarded response broke off", node=node.name, reason=repr(error))
            raise BrokenOff from error
        finally:
            if is_stream:
                self._streams -= 1


async def _name_in(body: bytes, exchange: RequestResponse) -> object:
    """Return the name of the instance that a request is to create; ``None`` if the request is invalid."""
    try:
        whole = await read_body(request.headers, in_one_part(body), MOST_NAMED, exchange)
        value = decode_strict(whole, MAX_VALUES)
    except (HookgwError, ValueError):
        return None  # the route says what is wrong with it
    return value.get("instanceName") if isinstance(value, dict) else None


def _target(scope: Any) -> bytes:
    query: bytes = scope["query_string"]
    path: bytes = scope["raw_path"]
    return path + b"?" + query if query else path


async def forward_call(instance: str) -> Response | None:
    """Forward the current request, if its form or JSON body concerns another node's instance.

    Call this after the body was read and checked; see :meth:`Forwarder.forward_to_owner`.
    """
    forward = current_exchange().forward_to_owner
    return None if forward is None else await forward(instance)
