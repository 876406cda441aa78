"""The endpoint behind ``POST /event/emit/<instance>[/<kind>]``, which comes thousands of times a second.

Quart's request object and tasks cost more than everything else in the request, so it is served without them,
by :meth:`EmitEndpoint.respond`. If plugins add request hooks, which are Quart's, a route calls
:meth:`EmitEndpoint.emit` instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

import trio
from msgspec import UNSET
from msgspec.json import Encoder

from hookgw.concurrency.light import in_task
from hookgw.events.requests import EmitLimits, EventReader
from hookgw.events.responses import Emitted
from hookgw.kernel.errors import Invalid, KeyReused
from hookgw.kernel.json_text import is_same_json
from hookgw.kernel.nearest import MOST_LOOKED_UP, misspelled_parameter
from hookgw.records.api_keys import Right
from hookgw.records.events import Event
from hookgw.web.auth import authorize
from hookgw.web.body import NDJSON, check_key_again, content_type, parse_in_turns, read_body, without_mark
from hookgw.web.first_headers import FirstHeaders
from hookgw.web.needs import Need, Scope
from hookgw.web.responses import Backlog
from hookgw.web.server.errors import JSON, response_to
from hookgw.web.server.exchange import Gone, RequestResponse

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

EMIT_PATH = "/event/emit/"
EMIT_RULE = f"{EMIT_PATH}<instance>"
EMIT_KIND_RULE = f"{EMIT_RULE}/<kind>"
EMIT_NEED = Need(Scope.INSTANCE, Right.SEND)
EMIT_STATUS = 202

_NO_HEADERS: Mapping[str, str] = {}
_encode = Encoder().encode
_id_of = attrgetter("event.id")
TRACE_HEADERS = ("traceparent", "tracestate", "baggage")
"""The headers of the W3C's Trace Context and Baggage, which plugins may see."""
_ASKED = "emit"
"""The note about a head that has its :class:`_Asked`."""
_SHORT = 4096
"""Bytes of an event that is read in less than 0.1 ms, whatever is in it."""


class _Asked(NamedTuple):
    """What the head of an emit says, beside its path.

    Attributes:
        key: the ``Idempotency-Key``.
        lines: whether the body is NDJSON.
        traces: the headers that plugins may see. No others: a plugin need not see keys.
    """

    headers: FirstHeaders
    key: str | None
    by_message: bool
    lines: bool
    traces: Mapping[str, str]


def _read_head(scope: Any) -> _Asked:
    """Raise ``Invalid`` or ``UnsupportedContentType`` for an invalid query or content type, in this order."""
    query, headers = scope["query_string"], FirstHeaders(scope["headers"])
    by_message = bool(query) and _asks_for_dedupe(query)
    lines = content_type(headers, JSON, NDJSON) == NDJSON
    traces = {name: value for name in TRACE_HEADERS if (value := headers.get(name)) is not None}
    return _Asked(headers, headers.get("idempotency-key"), by_message, lines, traces)


class EmitEndpoint:
    """Accepts events over HTTP. It is a :class:`~hookgw.web.app.FastPath`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        server = gateway.settings.server
        self._limit = max(server.max_body, server.max_batch_body)
        self._limits = EmitLimits.of(gateway.settings)

    def matches(self, scope: Any) -> bool:
        path: str = scope["path"]
        if scope["method"] != "POST" or not path.startswith(EMIT_PATH):
            return False
        instance, slash, kind = path[len(EMIT_PATH) :].partition("/")
        # An empty name, or a further segment, is another route, or none: Quart decides.
        return instance != "" and (not slash or (kind != "" and "/" not in kind))

    async def respond(self, exchange: RequestResponse) -> None:
        scope = exchange.scope
        instance, _, kind = scope["path"][len(EMIT_PATH) :].partition("/")
        exchange.route = EMIT_KIND_RULE if kind else EMIT_RULE
        status, headers = EMIT_STATUS, _NO_HEADERS
        try:
            try:
                body = await self.emit(exchange, None, instance, kind or None)
            except Gone:
                return  # the client left: a response would reach no one
            except Exception as error:  # noqa: BLE001 -- a bug is logged and becomes a 500
                is_evolution = self._gateway.settings.server.is_evolution
                status, body, headers = response_to(
                    error, scope["method"], scope["path"], is_evolution=is_evolution
                )
            await exchange.respond(status, headers, body)
        finally:
            exchange.end()

    async def emit(
        self, exchange: RequestResponse, chunks: AsyncIterable[bytes] | None, instance: str, kind: str | None
    ) -> bytes:
        """Accept the events in a request; return once they are on disk.

        Args:
            exchange: the request.
            chunks: see :func:`~hookgw.web.body.read_body`.
            instance, kind: of the path.

        Returns:
            The body of the response, for status :data:`EMIT_STATUS`.

        Raises:
            KeyReused: the ``Idempotency-Key`` belongs to another event.
            HookgwError: the response is an error.
        """
        gateway, notes = self._gateway, exchange.notes
        if exchange.holder is None:  # Quart checks the key before plugins' hooks see the request
            await authorize(gateway, exchange, EMIT_NEED, {"instance": instance})
        if gateway.registry.find_instance(instance) is None:
            await gateway.refresh.catch_up()  # another node may have made it a moment ago
            check_key_again(exchange)
            gateway.instances.get(instance)  # 404 comes before any error of the body
        asked: _Asked = notes.get(_ASKED) or notes.setdefault(_ASKED, _read_head(exchange.scope))
        key, lines = asked.key, asked.lines
        body = without_mark(await read_body(asked.headers, chunks, self._limit, exchange))
        reader = EventReader(
            instance,
            gateway.catalog,
            now=gateway.clock.wall(),
            limits=self._limits,
            key=key,
            path_kind=kind,
            by_message=asked.by_message,
            schemas=gateway.events.schemas,
        )
        # A short event is read at once: it need not wait for its turn behind the work of other requests.
        batch = reader.read_single(body, lines=lines) if len(body) <= _SHORT else None
        if batch is None:
            batch = await parse_in_turns(exchange, instance, reader.read(body, lines=lines))
        del body  # the events have their own bytes
        # A client that disconnects now cancels this task. An append that has begun still reaches the disk;
        # the client's retry with the same ids is a duplicate.
        receipt = await gateway.events.accept_checked(batch, headers=asked.traces)
        accepted = receipt.fresh.count(True)
        if key is not None and not accepted:
            await self._compare(batch.checked[0].event)
        emitted = Emitted(
            accepted=accepted,
            duplicates=len(receipt.fresh) - accepted,
            ids=[*map(_id_of, batch.checked)],
            backlog=Backlog(*gateway.backlog.of_instance(instance)),
            warnings=[*batch.warnings, *receipt.warnings] if batch.warnings or receipt.warnings else UNSET,
        )
        return _encode(emitted)

    async def _compare(self, event: Event) -> None:
        """Raise ``KeyReused`` if the stored event with the id of a repeated event is another one."""
        stored = await self._gateway.history.find_content(event.instance, event.id)
        if stored is None:  # it was erased, it is too old, or events.keep leaves it out
            return
        kind, data = stored
        if kind == event.kind and data != event.data_json:
            if len(data) + len(event.data_json) <= _SHORT:
                is_same = is_same_json(data, event.data_json)
            else:
                await in_task()
                is_same = await trio.to_thread.run_sync(is_same_json, data, event.data_json)
        else:
            is_same = kind == event.kind
        if not is_same:
            what = "data" if kind == event.kind else "kind"
            raise KeyReused.of(
                "idempotency.event_differs",
                "Idempotency-Key: it was used for an event with another {what}. Use a new key for "
                "each event.",
                what=what,
            )


def _asks_for_dedupe(query: bytes) -> bool:
    """Return whether a query says ``dedupe=message``. Raise ``Invalid`` for what is near that."""
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    for name, value in given:
        if name == "dedupe":
            # With byEvents, Evolution API appends "/messages-upsert" to the whole URL, behind its query.
            if value.partition("/")[0] != "message":
                raise Invalid.of("query.dedupe", "dedupe in the query must be message.")
            return True
    for name, _ in given[:MOST_LOOKED_UP]:
        if (problem := misspelled_parameter(name, ["dedupe"])) is not None:
            raise Invalid(problem)
    return False
