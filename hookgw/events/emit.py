"""The endpoint behind ``POST /event/emit/<instance>``, shared by the ordinary route and the fast path."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import trio
from msgspec import UNSET
from msgspec.json import Encoder

from hookgw.concurrency.light import in_task
from hookgw.events.emit_limits import emit_limits
from hookgw.events.requests import EventReader, is_single
from hookgw.events.responses import Emitted
from hookgw.kernel.errors import Invalid, KeyReused
from hookgw.kernel.json_text import is_same_json
from hookgw.records.api_keys import Right
from hookgw.records.events import Event
from hookgw.web.body import NDJSON, Headers, content_type, parse_in_turns, read_body
from hookgw.web.needs import Need, Scope
from hookgw.web.responses import Backlog
from hookgw.web.server.errors import JSON
from hookgw.web.server.exchange import RequestResponse

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

EMIT_PATH = "/event/emit/"
EMIT_RULE = f"{EMIT_PATH}<instance>"
EMIT_NEED = Need(Scope.INSTANCE, Right.SEND)
EMIT_STATUS = 202

_encode = Encoder().encode
TRACE_HEADERS = ("traceparent", "tracestate", "baggage")
"""The headers of the W3C's Trace Context and Baggage, which plugins may see."""
_SHORT = 4096
"""Bytes of an event that is read in less than 0.1 ms, whatever is in it."""


class EmitEndpoint:
    """Accepts events over HTTP."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        server = gateway.settings.server
        self._limit = max(server.max_body, server.max_batch_body)
        self._limits = emit_limits(gateway.settings)

    async def emit(
        self,
        instance: str,
        headers: Headers,
        chunks: AsyncIterable[bytes] | None,
        exchange: RequestResponse,
        kind: str | None = None,
    ) -> bytes:
        """Accept the events in a request; return once they are on disk.

        Args:
            instance: the instance's name; the caller may access it.
            headers: the request's headers.
            chunks: see :func:`~hookgw.web.request_body.read_body`.
            exchange: counts the body in memory, and has the query.
            kind: the kind in the path, if there is one.

        Returns:
            The body of the response, for status :data:`EMIT_STATUS`.

        Raises:
            KeyReused: the ``Idempotency-Key`` belongs to another event.
            HookgwError: the response is an error.
        """
        gateway = self._gateway
        if gateway.instances.find(instance) is None:
            await gateway.refresh.catch_up()  # another node may have made it a moment ago
        gateway.instances.get(instance)  # 404 comes before any error of the body
        query: bytes = exchange.scope["query_string"]
        by_message = bool(query) and _asks_for_dedupe(query)
        lines = content_type(headers, JSON, NDJSON) == NDJSON
        body = await read_body(headers, chunks, self._limit, exchange)
        reader = EventReader(
            instance,
            gateway.catalog,
            now=gateway.clock.wall(),
            key=headers.get("idempotency-key"),
            limits=self._limits,
            kind=kind,
            by_message=by_message,
            schemas=gateway.events.schemas,
        )
        # A short event is read at once: it need not wait for its turn behind the work of other requests.
        if len(body) <= _SHORT and is_single(body, lines=lines):
            batch = reader.read_single(body)
        else:
            batch = await parse_in_turns(exchange, instance, reader.read(body, lines=lines))
        del body  # the events have their own bytes
        # A client that disconnects now cancels this task. An append that has begun still reaches the disk;
        # the client's retry with the same ids is a duplicate.
        receipt = await gateway.events.accept_checked(batch, headers=self._headers_for_observers(headers))
        accepted = receipt.fresh.count(True)
        if reader.has_key and not accepted:
            await self._compare(batch.events[0])
        emitted = Emitted(
            accepted=accepted,
            duplicates=len(receipt.fresh) - accepted,
            ids=[event.id for event in batch.events],
            backlog=Backlog(*gateway.backlog.of_instance(instance)),
            warnings=[*batch.warnings, *receipt.warnings] or UNSET,
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

    def _headers_for_observers(self, headers: Headers) -> dict[str, str]:
        if not self._gateway.hooks.implements("hookgw_accept"):
            return {}
        # No others: a plugin need not see keys.
        return {name: value for name in TRACE_HEADERS if (value := headers.get(name)) is not None}


def _asks_for_dedupe(query: bytes) -> bool:
    """Return whether a query says ``dedupe=message``. Raise ``Invalid`` for any other value."""
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name == "dedupe":
            # With byEvents, Evolution API appends "/messages-upsert" to the whole URL, behind its query.
            if value.partition("/")[0] != "message":
                raise Invalid.of("query.dedupe", "dedupe in the query must be message.")
            return True
    return False
