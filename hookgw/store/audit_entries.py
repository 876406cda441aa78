"""Entries of the audit as an engine stores and lists them: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, Protocol

import msgspec
import trio

from hookgw.kernel.audited import FieldChange
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Invalid
from hookgw.records.audit import Actor, AuditEntry
from hookgw.records.sentences import CURSOR_OF_PAGE
from hookgw.store import searches
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx, Tx_contra
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import AuditPage, AuditQuery, micros, seconds

# Entries that one turn looks at, entries that one commit removes, and the seconds between two such commits.
ROWS = 5_000
STEP = 500
REST = 0.01


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
    return msgspec.json.encode(StoredEntry(entry.actor, entry.subject, entry.changes, entry.details)).decode()


class AuditStatements(Protocol[C_contra, Tx_contra]):
    """What an engine brings, as a module. Times are in microseconds."""

    def write_audit(self, transaction: Tx_contra, entries: Sequence[AuditEntry]) -> None: ...

    def search_audit(
        self, connection: C_contra, query: AuditQuery, before: tuple[int, int] | None, rows: int
    ) -> AuditPart:
        """Return the newest entries that match a query, up to one more than its limit.

        Args:
            query: which ones. Its cursor has no effect.
            before: only entries before this time and number; ``None`` for all.
            rows: the most entries to look at, whether they match or not.
        """

    def count_too_many(self, connection: C_contra, most: int) -> list[tuple[str, int]]:
        """Return the instances with more entries than ``most``, and how many more."""

    def remove_old(self, transaction: Tx_contra, before: int, count: int) -> int:
        """Remove the oldest entries of before a time; return how many there were."""

    def remove_oldest_of(self, transaction: Tx_contra, instance: str, count: int) -> int: ...


class SteppedAudit(Collaborator, Generic[C, Tx]):
    """The audit; see :class:`hookgw.store.AuditLog`."""

    _commits: GroupCommit[Tx]
    _lists: ConnectionReader[C]
    _background: ConnectionReader[C]
    _sql: AuditStatements[C, Tx]

    async def record_audit(self, entries: Sequence[AuditEntry]) -> None:
        await self._commits.call(partial(self._sql.write_audit, entries=entries))

    async def list_audit(self, query: AuditQuery) -> AuditPage:
        before = None if query.cursor is None else _read_cursor(query.cursor)
        deadline = trio.current_time() + searches.LIST_SECONDS
        found: list[AuditRow] = []
        while True:
            search = partial(self._sql.search_audit, query=query, before=before, rows=ROWS)
            part = await self._lists.run(search)
            found += part.found
            if len(found) > query.limit:
                page = found[: query.limit]
                return _page(page, _cursor(page[-1].at, page[-1].seq))
            if part.rows < ROWS:
                return _page(found, None)
            before = part.last
            if trio.current_time() >= deadline:
                return _page(found, _cursor(*before))

    async def prune_audit(self, *, before: float, most: int) -> int:
        removed = 0
        while count := await self._remove(partial(self._sql.remove_old, before=micros(before), count=STEP)):
            removed += count
        for instance, extra in await self._background.run(partial(self._sql.count_too_many, most=most)):
            left = extra
            while left > 0:
                step = partial(self._sql.remove_oldest_of, instance=instance, count=min(left, STEP))
                if not (count := await self._remove(step)):
                    break
                left, removed = left - count, removed + count
        return removed

    async def _remove(self, step: Callable[[Tx], int]) -> int:
        """Remove some entries in a commit, and rest; return how many there were."""

        def remove(transaction: Tx) -> int:
            count = step(transaction)
            transaction.count_rows(count)
            return count

        count = await self._commits.call(remove)
        if count:
            await trio.sleep(REST)
        return count


def _page(rows: list[AuditRow], cursor: str | None) -> AuditPage:
    entries = [
        AuditEntry(
            at=seconds(row.at),
            action=row.action,
            actor=row.entry.actor,
            instance=row.instance,
            instance_id=row.instance_id,
            subject=row.entry.subject,
            changes=row.entry.changes,
            details=row.entry.details,
        )
        for row in rows
    ]
    return AuditPage(entries, cursor, [_cursor(row.at, row.seq) for row in rows])


def _cursor(at: int, seq: int) -> str:
    return f"{at}-{seq}"


def _read_cursor(cursor: str) -> tuple[int, int]:
    at, _, seq = cursor.partition("-")
    # 18 digits always fit 64-bit integers. A time of before 1970 is no time of an entry.
    if not all(text.isascii() and text.isdigit() and len(text) <= 18 for text in (at, seq)):
        raise Invalid(CURSOR_OF_PAGE)
    return int(at), int(seq)
