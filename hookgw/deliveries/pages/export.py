"""Exports the deliveries of a list as CSV or NDJSON, page by page, so that none has to fit into memory."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import msgspec

from hookgw.deliveries.present import present_delivery, present_of_any
from hookgw.deliveries.responses import DeliveryOfAny
from hookgw.kernel.errors import HookgwError
from hookgw.records.instances import name_before_retirement
from hookgw.store import DeliveryQuery
from hookgw.web.server.exchange import BrokenOff

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

MOST_EXPORTED = 100_000
"""Deliveries in an export, the newest ones."""
STEP = 200
FORMATS = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
_COLUMNS = ("acceptedAt", "instance", "kind", "id", "eventId", "state", "reason", "label", "url", "attempts")
_OF_ATTEMPT = ("outcome", "status", "error")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What begins a formula in programs for tables: what comes from outside must not be one."""


async def export(
    gateway: Gateway, query: DeliveryQuery | None, form: str, is_allowed: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield the deliveries of a query, the newest first; at most :data:`MOST_EXPORTED`.

    Args:
        form: one of :data:`FORMATS`.
        is_allowed: asked before each part; an export ends with the session that asked for it.
    """
    if form == "csv":
        yield _line([*_COLUMNS, "finishedAt", *_OF_ATTEMPT])
    left = MOST_EXPORTED
    while query is not None and left:
        if not is_allowed():
            raise BrokenOff
        try:
            page = await gateway.history.list(msgspec.structs.replace(query, limit=min(STEP, left)))
        except HookgwError as error:
            raise BrokenOff from error
        shown = (
            present_of_any(
                present_delivery(one, gateway.registrations.by_id(one.registration)),
                name_before_retirement(one.instance),
            )
            for one in page.deliveries
        )
        if page.deliveries:
            yield b"".join(map(_csv_of if form == "csv" else _json_of, shown))
        left -= len(page.deliveries)
        query = None if page.cursor is None else msgspec.structs.replace(query, cursor=page.cursor)


def _json_of(one: DeliveryOfAny) -> bytes:
    return msgspec.json.encode(one) + b"\n"


def _csv_of(one: DeliveryOfAny) -> bytes:
    values = msgspec.to_builtins(one)
    attempt = values.get("lastAttempt") or {}
    fields = [values.get(name) for name in (*_COLUMNS, "finishedAt")]
    return _line([*fields, *(attempt.get(name) for name in _OF_ATTEMPT)])


def _line(values: list[object]) -> bytes:
    shown = ["" if one is None else str(one) for one in values]
    out = io.StringIO()
    csv.writer(out).writerow(f"'{one}" if one.startswith(_FORMULA) else one for one in shown)
    return out.getvalue().encode()
