"""The application: what every request passes before a fast path or a route answers it.

It knows nothing of Quart, whose routes (:mod:`hookgw.web.routing`) may be loaded after the server listens.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

import structlog
import trio

from hookgw.auth.client_address import TrustedProxies
from hookgw.auth.proxy_people import ProxyPeople
from hookgw.auth.request_quota import RequestQuota
from hookgw.concurrency.light import in_task
from hookgw.concurrency.turn_lock import TurnLock
from hookgw.fleet.all_nodes import PATH as QUESTIONS
from hookgw.kernel.errors import Unauthorized
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.units import Size
from hookgw.web.auth import is_dashboard, shown_key
from hookgw.web.cors import CrossOrigin
from hookgw.web.fleet_questions import FleetQuestions
from hookgw.web.no_forwarding import forwarding_of
from hookgw.web.server.body_memory import COPIES, BodyMemory
from hookgw.web.server.client import AGAIN, REQUEST, Client, client_of
from hookgw.web.server.errors import error_body, shown_path
from hookgw.web.server.exchange import ActiveRequests, RequestResponse, ServerLimits
from hookgw.web.server.request_head import HOST
from hookgw.web.server.response_memory import ResponseMemory

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway
    from hookgw.web.routing import Routing

logger = structlog.get_logger("hookgw.api")

UNMATCHED = "none"
"""The route that metrics show for requests that match no route."""

_OF_PROXIES = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host")

_HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that respond even beyond ``server.max_requests``: an orchestrator must not restart a busy process."""

_INSTANCE_SHARE = 4
"""Each instance may use at most a quarter of ``server.max_requests`` at a time."""
_BODIES = 4
"""An instance may have this many bodies of the largest size in memory at a time."""
_SHARES = 2
"""Each instance may fill half of ``server.body_memory``; one body of the largest size always fits."""

_BUSY = error_body(
    503,
    [
        Sentence(
            "server.too_many_requests",
            "Too many requests are in progress (server.max_requests). Retry later.",
        )
    ],
)
_RETRY_SOON = {"retry-after": "1"}
_WARN_EVERY = 60.0


_ENCODED_SLASH = re.compile(b"%2f", re.IGNORECASE)


class FastPath(Protocol):
    """Handles some requests without Quart."""

    def matches(self, scope: Any) -> bool:
        """Return whether it handles a request; the path in its scope is relative to the base path."""

    async def respond(self, exchange: RequestResponse) -> None:
        """Respond to a request, unless the client has left, and end the exchange in any case."""


class Application:
    """The HTTP API of one gateway (ASGI).

    Args:
        fast_paths: handle their requests from the start. All others wait for :meth:`use_routing`.
    """

    def __init__(self, gateway: Gateway, *fast_paths: FastPath) -> None:
        server = gateway.settings.server
        self._gateway = gateway
        self._base_path = server.base_path
        self.fast_paths = fast_paths
        self._routing: Routing | None = None
        self.routed = trio.Event()
        """Set once there are routes."""
        self._limit = max(server.max_body, server.max_batch_body, server.max_upload)
        self.active = ActiveRequests(server.max_requests, gateway.loop_load)
        self.beginning = TurnLock()
        # One share for bodies of every kind: they are in memory at the same time. It always holds one body of
        # the largest size, because a smaller share would contradict the limit on that size.
        room = COPIES * _SHARES * self._limit
        if room > server.body_memory:
            logger.warning(
                "one instance can fill server.body_memory",
                largest_body=str(Size(self._limit)),
                fix=f"Set server.body_memory to {Size(room)}, or lower max_body, max_batch_body, max_upload.",
            )
        self.quota = RequestQuota(max(1, server.max_requests // _INSTANCE_SHARE), gateway.metrics.limited)
        self._memory = BodyMemory(
            server.body_memory,
            min(_BODIES * self._limit, max(self._limit, server.body_memory // (_SHARES * COPIES))),
            gateway.metrics.limited,
        )
        self.response_memory = ResponseMemory(server.response_memory, gateway.metrics.limited)
        self.limits = ServerLimits(
            self._limit, self._count, self.active, self._memory, self.response_memory, self.quota
        )
        self._forwarding = forwarding_of(gateway)
        self._questions = FleetQuestions(gateway.views.nodes)
        self._cross_origin = CrossOrigin(server.cors_origins) if server.cors_origins else None
        self._people = ProxyPeople(gateway.settings.auth)
        # Whether what comes before a fast path depends on nothing but the request's head.
        self._follows_from_head = not (
            server.trusted_proxies or server.cors_origins or self._people.header or gateway.node.is_shared
        )
        self._next_warning = 0.0
        self._proxies = TrustedProxies(server.trusted_proxies) if server.trusted_proxies else None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        routing = self._routing
        if routing is not None and routing.has_middleware:
            await in_task()
            await routing(scope, receive, send)  # which calls respond()
        else:
            await self.respond(scope, receive, send)

    async def respond(self, scope: Any, receive: Any, send: Any, *, has_middleware: bool = False) -> None:
        """Respond to a request, below a plugin's middleware if there is one."""
        base, is_outside = self._base_path, self._read_path(scope)
        path = scope["path"]
        client = client_of(scope, receive, send, has_middleware=has_middleware)
        exchange = RequestResponse(scope, scope["client"], client, self.limits)
        peer = exchange.client_host
        self.believe_proxy(exchange)
        self._forwarding.admit(exchange)
        if self._people.header and not exchange.is_forwarded:
            self._learn_person(exchange, peer)
        cross_origin = None if is_outside else self._cross_origin
        if cross_origin is not None and await self._is_preflight(exchange, cross_origin, path):
            return
        if exchange.is_question and path.startswith(QUESTIONS):
            await in_task()
            # Also beyond the limit: otherwise the others would think that a busy node is dead.
            await exchange.run(partial(self._questions.respond, exchange))
            return
        refusal = self._refusal(path, is_outside=is_outside)
        if refusal is not None:
            await exchange.run(partial(exchange.respond, *refusal))
            return
        for fast_path in self.fast_paths:
            if fast_path.matches(scope):
                if self._follows_from_head and not (has_middleware or exchange.is_forwarded):
                    of_connection = (REQUEST, "client", "scheme", "server", "state")
                    known = MappingProxyType({k: v for k, v in scope.items() if k not in of_connection})
                    exchange.notes[AGAIN] = partial(self._respond_again, self.fast_paths, fast_path, known)
                async with self._gateway.node.waiting(exchange.answer_for):
                    await fast_path.respond(exchange)
                return
        await in_task()
        await self.routed.wait()
        await self._wait_turn(exchange)
        if base:
            # As ASGI has it: Quart puts the prefix before the path to which it redirects.
            scope["root_path"], scope["path"] = base, base + path
        scope[REQUEST] = exchange  # only here: thousands of emits would be cycles, and wait as garbage
        try:
            async with self._gateway.node.waiting(exchange.answer_for):
                await exchange.run(
                    partial(self.routing.respond_by_route, scope, exchange.receive, exchange.send)
                )
        finally:
            del scope[REQUEST]
            await self._forwarding.close_response(exchange)  # noqa: ASYNC102 -- it shields and bounds itself

    def _respond_again(
        self, fast_paths: tuple[FastPath, ...], fast_path: FastPath, known: Mapping[str, Any], client: Client
    ) -> Awaitable[None] | None:
        """Respond to a request with a head that was read before; see :data:`~hookgw.web.server.client.Again`.

        Args:
            fast_paths: those of which ``fast_path`` was chosen.
            known: what the scopes of all requests with that head have in common.
        """
        routing = self._routing
        if (
            fast_paths is not self.fast_paths
            or self.active.is_full
            or (routing is not None and routing.has_middleware)
        ):
            return None
        return fast_path.respond(RequestResponse(known, client.address, client, self.limits))

    async def _wait_turn(self, exchange: RequestResponse) -> None:
        """Let one request begin in each round of the event loop, in turn among keys.

        A request takes Quart a millisecond. Without this, 250 that arrive at once take one round together,
        and everything else waits a quarter of a second.
        """
        try:
            asker = shown_key(exchange.scope["headers"])
        except Unauthorized:
            asker = ""
        asker = asker or exchange.client_host or ""
        await self.beginning.acquire(asker)
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self.beginning.release(asker)

    def _refusal(self, path: str, *, is_outside: bool) -> tuple[int, Mapping[str, str], bytes] | None:
        """Return the response to a request that no route sees; ``None`` if a route may."""
        if is_outside:
            # Before any key is asked for: a proxy that strips the prefix is a fault of the setup.
            message = Sentence(
                "route.outside_base_path",
                "No such route: {path}. All paths begin with {base_path}/ (server.base_path).",
                path=shown_path(path),
                base_path=self._base_path,
            )
            return 404, {}, error_body(404, [message])
        if self.active.is_full and path not in _HEALTH_PATHS:
            return 503, _RETRY_SOON, _BUSY
        return None

    async def _is_preflight(self, exchange: RequestResponse, cross_origin: CrossOrigin, path: str) -> bool:
        """Add the headers that browsers need; return whether the request only asked for them, and is
        answered.
        """
        if exchange.is_forwarded or is_dashboard(path):
            return False  # the node that forwarded it adds them
        exchange.extra = cross_origin.lines(exchange.scope)
        lines = cross_origin.preflight(exchange.scope)
        if lines is None:
            return False
        exchange.extra += lines
        await exchange.run(partial(exchange.respond, 204, {}, b""))
        return True

    def _read_path(self, scope: Any) -> bool:
        """Set the path, relative to the base path, in the scope; return whether it is outside."""
        base, path = self._base_path, _one_slash_first(_decoded_path(scope))
        is_outside = bool(base) and not path.startswith(f"{base}/")
        if base and not is_outside:
            path = _one_slash_first(path.removeprefix(base))
        scope["path"] = path
        return is_outside

    def believe_proxy(self, exchange: RequestResponse) -> None:
        """Take the client's address, scheme and host from a trusted proxy."""
        scope = exchange.scope
        peer = exchange.client_host  # a Unix socket can be a trusted proxy
        if self._proxies is None or not self._proxies.trusts(peer):
            return
        said: dict[bytes, list[str]] = {name: [] for name in _OF_PROXIES}
        for name, value in scope["headers"]:
            if name in said:
                said[name].append(value.decode("latin-1"))
        client = self._proxies.client_of(peer, said[b"x-forwarded-for"])
        if client is not None and client != peer:
            # Proxies do not report the client's port.
            exchange.address = scope["client"] = (client, 0)
        # Behind several proxies, the first value is that of the outermost one. A browser can state neither of
        # the two for another site's page, so a lie gains nothing.
        scheme = ",".join(said[b"x-forwarded-proto"]).partition(",")[0].strip().lower()
        if scheme in ("http", "https"):
            scope["scheme"] = scheme
        host = ",".join(said[b"x-forwarded-host"]).partition(",")[0].strip().lower()
        # Most proxies pass the host on and repeat it. Then the headers stay the same list, and the notes
        # about the head hold for the connection's next requests.
        is_name = bool(host) and HOST.fullmatch(host.encode())
        if is_name and (b"host", host.encode()) not in scope["headers"]:
            scope["headers"] = [
                (name, host.encode() if name == b"host" else value) for name, value in scope["headers"]
            ]
            exchange.notes = {}

    def _learn_person(self, exchange: RequestResponse, peer: str | None) -> None:
        """Note whom a trusted proxy names as the person who sends a request."""
        named = self._people.named_in(exchange.scope["headers"])
        if not named:
            return
        if self._proxies is not None and self._proxies.trusts(peer):
            exchange.named = named
        elif self._gateway.clock.steady() >= self._next_warning:
            # Anybody can send the header: one line a minute says enough.
            self._next_warning = self._gateway.clock.steady() + _WARN_EVERY
            logger.warning(
                "a header that names people was ignored",
                header=self._people.header,
                peer=peer or "a Unix socket",
                fix="If this is your proxy, add it to server.trusted_proxies.",
            )

    async def hold_streams(self) -> None:
        """Wait for the end of the server, and end the streams of other nodes then: they would delay it."""
        try:
            await trio.sleep_forever()
        finally:
            self._forwarding.close()

    def install_forwarding(self, routing: Routing) -> None:
        """Forward calls for instances of other nodes. The key is checked before."""
        self._forwarding.install(routing)

    def use_routing(self, routing: Routing) -> None:
        """Let routes answer what no fast path handles, from now on. All of them were added."""
        # Request hooks of plugins must see every request. Their routes may be more exact than a fast path.
        hides_route = any(
            fast_path.matches({"method": method, "path": rule.rule})
            for fast_path in self.fast_paths
            for rule in routing.plugin_rules
            for method in rule.methods or ()
        )
        if hides_route or routing.has_request_hooks:
            self.use_fast_paths()
        self._routing = routing
        self.routed.set()

    @property
    def routing(self) -> Routing:
        """The routes; call it once there are any."""
        assert self._routing is not None  # noqa: S101 -- the caller knows
        return self._routing

    def use_fast_paths(self, *fast_paths: FastPath) -> None:
        self.fast_paths = fast_paths

    def _count(self, exchange: RequestResponse, status: int) -> None:
        self._gateway.metrics.requested(exchange.route or UNMATCHED, status)


def _decoded_path(scope: Any) -> str:
    path: str = scope["path"]
    raw = scope.get("raw_path") or b""
    if b"%2" in raw and _ENCODED_SLASH.search(raw):
        # It stays encoded: a slash in a name must not make two names of it. The names are refused then.
        return unquote(_ENCODED_SLASH.sub(b"%252F", raw).decode("latin-1"))
    return path


def _one_slash_first(path: str) -> str:
    # Many clients write a slash between a base URL that ends in one and a path that begins with one. Further
    # on, two slashes have an empty name between them, and the name behind it must not take its place.
    return f"/{path.lstrip('/')}" if path.startswith("//") else path
