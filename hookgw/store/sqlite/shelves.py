"""The records in the data file."""

from __future__ import annotations

import sqlite3

from hookgw.records.jobs import Job
from hookgw.store.shelves import ShelvedRecords, Table
from hookgw.store.sqlite.audit import write_audit
from hookgw.store.sqlite.figures import forget_figures
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.sequence_numbers import SequenceNumbers, keep_number
from hookgw.store.sqlite.settle import make_due
from hookgw.store.sqlite.transaction import Transaction

__all__ = ["forget_figures", "make_due", "rename_instance", "table", "write_audit"]  # RecordStatements


class SqliteTable(Table):
    mark = "?"
    put = "REPLACE INTO shelves VALUES (?, ?, ?)"


table = SqliteTable


def rename_instance(transaction: Transaction, old: str, new: str) -> None:
    transaction.names.rename(of_instance(old), of_instance(new))


class SqliteRecords(ShelvedRecords[sqlite3.Connection, Transaction]):
    _numbers: SequenceNumbers

    def write_job(self, transaction: Transaction, job: Job | None) -> None:
        super().write_job(transaction, job)
        if job is not None:
            # What is appended after a restart must be behind the job's cursor, as it would be without one.
            keep_number(transaction.connection, self._numbers.newest)
