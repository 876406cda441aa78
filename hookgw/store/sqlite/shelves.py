"""The records in the data file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from hookgw.records.audit import AuditEntry
from hookgw.records.jobs import Job
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.encryption import RecordCipher
from hookgw.store.shelves import ShelvedRecords, Shelves, Table
from hookgw.store.sqlite.audit import write_audit
from hookgw.store.sqlite.database import Reader
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.sequence_numbers import SequenceNumbers, keep_number
from hookgw.store.sqlite.settle import make_due
from hookgw.store.sqlite.transaction import Transaction

T = TypeVar("T")


class SqliteRecords(ShelvedRecords[Transaction]):
    """The records; see :class:`hookgw.store.protocol.Records`.

    Args:
        commits: writes.
        reader: reads.
        cipher: encrypts the records; ``None`` stores them in the clear.
        numbers: that the cursors of jobs are made of.
    """

    def __init__(
        self,
        commits: GroupCommit[Transaction],
        reader: Reader,
        cipher: RecordCipher | None,
        numbers: SequenceNumbers,
    ) -> None:
        super().__init__(commits, cipher)
        self._reader = reader
        self._numbers = numbers

    def write_job(self, transaction: Transaction, job: Job | None) -> None:
        super().write_job(transaction, job)
        if job is not None:
            # What is appended after a restart must be behind the job's cursor, as it would be without one.
            keep_number(transaction.connection, self._numbers.newest)

    async def _read(self, function: Callable[[Shelves], T]) -> T:
        return await self._reader.run(
            lambda connection: function(Shelves(partial(SqliteTable, connection), self._cipher))
        )

    def _shelves(self, transaction: Transaction) -> Shelves:
        return Shelves(partial(SqliteTable, transaction.connection), self._cipher)

    def _write_audit(self, transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
        write_audit(transaction, entries)

    def _rename_instance(self, transaction: Transaction, old: str, new: str) -> None:
        # One row, however many deliveries: they refer to the instance by its number.
        transaction.names.rename(of_instance(old), of_instance(new))

    def _make_due(self, transaction: Transaction, registration: str) -> int:
        return make_due(transaction.connection, registration)


class SqliteTable(Table):
    """One shelf's rows, keys and values as bytes.

    Args:
        connection: where the table ``shelves`` is; every call runs on it at once.
        shelf: the shelf's name.
    """

    def __init__(self, connection: sqlite3.Connection, shelf: str) -> None:
        self._connection = connection
        self.shelf = shelf

    def __getitem__(self, key: bytes) -> bytes:
        row = self._connection.execute(
            "SELECT value FROM shelves WHERE shelf = ? AND key = ?", (self.shelf, key)
        ).fetchone()
        if row is None:
            raise KeyError(key)
        return bytes(row[0])

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._connection.execute("REPLACE INTO shelves VALUES (?, ?, ?)", (self.shelf, key, value))

    def __delitem__(self, key: bytes) -> None:
        statement = "DELETE FROM shelves WHERE shelf = ? AND key = ?"
        if not self._connection.execute(statement, (self.shelf, key)).rowcount:
            raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        statement = "SELECT key FROM shelves WHERE shelf = ? ORDER BY key"
        return iter([row[0] for row in self._connection.execute(statement, (self.shelf,))])

    def __len__(self) -> int:
        statement = "SELECT count(*) FROM shelves WHERE shelf = ?"
        return int(self._connection.execute(statement, (self.shelf,)).fetchone()[0])

    def rows(self) -> list[tuple[bytes, bytes]]:
        """Return all keys with their values, read by one statement."""
        statement = "SELECT key, value FROM shelves WHERE shelf = ? ORDER BY key"
        return self._connection.execute(statement, (self.shelf,)).fetchall()
