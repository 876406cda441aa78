"""The audit: entries written with the changes they describe."""

from __future__ import annotations

from collections.abc import Sequence

from hookgw.models.audit import AuditEntry
from hookgw.store.audit_entries import stored
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import micros

_ADD = """INSERT INTO audit (at, instance, instance_id, action, entry)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[])"""


def write_audit(transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
    """Store entries with whatever else the transaction changes."""
    if entries:
        transaction.connection.execute(
            _ADD,
            (
                [micros(entry.at) for entry in entries],
                [entry.instance for entry in entries],
                [entry.instance_id for entry in entries],
                [entry.action for entry in entries],
                [stored(entry) for entry in entries],
            ),
        )
        transaction.count_rows(len(entries))
