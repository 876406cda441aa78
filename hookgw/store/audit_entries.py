"""Entries of the audit as an engine stores and lists them: the same for every engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec
import trio

from hookgw.models.audit import Actor, AuditEntry, FieldChange
from hookgw.models.errors import Invalid
from hookgw.store.records import AuditPage, AuditQuery, seconds

# So many entries are looked at in one turn, and removed in one commit; and the rest between two commits.
ROWS = 5_000
STEP = 500
REST = 0.01
# A list with a filter may have to look at all entries. After this many seconds it returns what it has found.
LIST_SECONDS = 1.0


class StoredEntry(msgspec.Struct, omit_defaults=True):
    """The column ``entry``: what is neither searched nor sorted by."""

    actor: Actor
    subject: str | None = None
    changes: tuple[FieldChange, ...] = ()
    details: dict[str, str] = {}


class AuditRow(msgspec.Struct, array_like=True):
    """One entry of a list; its time is in microseconds."""

    at: int
    seq: int
    instance: str | None
    instance_id: str | None
    action: str
    entry: StoredEntry


class AuditPart(NamedTuple):
    """A part of a search: what matches, how many entries were looked at, and the place of the last one."""

    found: list[AuditRow]
    rows: int
    last: tuple[int, int]


def stored(entry: AuditEntry) -> str:
    """Return the column ``entry``."""
    return msgspec.json.encode(StoredEntry(entry.actor, entry.subject, entry.changes, entry.details)).decode()


async def list_audit(
    query: AuditQuery, search: Callable[[tuple[int, int] | None], Awaitable[AuditPart]]
) -> AuditPage:
    """Return a page of the audit; see :meth:`hookgw.store.protocol.Audit.list_audit`.

    Args:
        query: which entries.
        search: looks at the next :data:`ROWS` entries before a time and number, ``None`` for all, and finds
            up to one more than the limit.
    """
    before = None if query.cursor is None else _read_cursor(query.cursor)
    deadline = trio.current_time() + LIST_SECONDS
    found: list[AuditRow] = []
    while True:
        part = await search(before)
        found += part.found
        if len(found) > query.limit:
            page = found[: query.limit]
            return AuditPage([_entry(row) for row in page], _cursor(page[-1].at, page[-1].seq))
        if part.rows < ROWS:
            return AuditPage([_entry(row) for row in found])
        before = part.last
        if trio.current_time() >= deadline:
            return AuditPage([_entry(row) for row in found], _cursor(*before))


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(
        at=seconds(row.at),
        action=row.action,
        actor=row.entry.actor,
        instance=row.instance,
        instance_id=row.instance_id,
        subject=row.entry.subject,
        changes=row.entry.changes,
        details=row.entry.details,
    )


def _cursor(at: int, seq: int) -> str:
    return f"{at}-{seq}"


def _read_cursor(cursor: str) -> tuple[int, int]:
    at, _, seq = cursor.partition("-")
    # 18 digits always fit 64-bit integers. A time of before 1970 is no time of an entry.
    if not all(text.isascii() and text.isdigit() and len(text) <= 18 for text in (at, seq)):
        raise Invalid("cursor must be the cursor of the page before.")
    return int(at), int(seq)
