"""``POST /event/emit/<instance>``: what it takes and answers, whoever reads the request."""

from __future__ import annotations

from collections.abc import AsyncIterable
from functools import partial
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET
from msgspec.json import Encoder

from hookgw.api.request_body import LINES, Headers, content_type, read_body
from hookgw.api.responses import Emitted
from hookgw.api.server.errors import JSON
from hookgw.parsing import Batch, EmitLimits, parse_events

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway

EMITTED = 202
"""The status of the answer once events are on disk."""

_encode = Encoder().encode
_LONG_BODY = 256 * 1024
"""Bytes from which a body is read in a thread, so that other requests go on meanwhile."""


class Emitter:
    """Takes events over HTTP on behalf of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        server = gateway.settings.server
        self._limit = max(server.max_body, server.max_batch_body)
        self._limits = EmitLimits(
            max_data=gateway.settings.events.max_data,
            max_single=server.max_body,
            max_events=server.max_batch_events,
        )
        self._threads = trio.CapacityLimiter(1)

    async def emit(self, instance: str, headers: Headers, chunks: AsyncIterable[bytes]) -> bytes:
        """Accept the events in a request; returns once they are on disk.

        Args:
            instance: whose events they are; the caller's key has been checked.
            headers, chunks: the request's headers and the parts of its body as they arrive.

        Returns:
            The body of the answer, whose status is :data:`EMITTED`.

        Raises:
            HookgwError: the answer is an error.
        """
        self._gateway.instances.get(instance)
        lines = content_type(headers, JSON, LINES) == LINES
        body = await read_body(headers, chunks, self._limit)
        batch = await self._parse(body, instance, lines, headers.get("idempotency-key"))
        receipt = await self._gateway.events.accept(batch.events, single=batch.is_single)
        accepted = sum(receipt.fresh)
        emitted = Emitted(
            accepted=accepted,
            duplicates=len(receipt.fresh) - accepted,
            ids=[event.id for event in batch.events],
            warnings=[*batch.warnings, *receipt.warnings] or UNSET,
        )
        return _encode(emitted)

    async def _parse(self, body: bytes, instance: str, lines: bool, key: str | None) -> Batch:
        parse = partial(
            parse_events,
            body,
            instance,
            self._gateway.catalog,
            now=self._gateway.clock.wall(),
            lines=lines,
            key=key,
            limits=self._limits,
        )
        if len(body) < _LONG_BODY:
            return parse()
        return await trio.to_thread.run_sync(parse, limiter=self._threads)
