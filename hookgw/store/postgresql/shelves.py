"""The records in the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from psycopg import Connection

from hookgw.records.audit import AuditEntry
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.encryption import RecordCipher
from hookgw.store.postgresql.audit import write_audit
from hookgw.store.postgresql.database import Reader
from hookgw.store.postgresql.settle import make_due
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.shelves import ShelvedRecords, Shelves, Table

T = TypeVar("T")


class PostgresqlRecords(ShelvedRecords[Transaction]):
    """The records; see :class:`hookgw.store.protocol.Records`.

    Args:
        commits: writes.
        reader: reads.
        cipher: encrypts the records; ``None`` stores them in the clear.
    """

    def __init__(
        self, commits: GroupCommit[Transaction], reader: Reader, cipher: RecordCipher | None
    ) -> None:
        super().__init__(commits, cipher)
        self._reader = reader

    async def _read(self, function: Callable[[Shelves], T]) -> T:
        return await self._reader.run(
            lambda connection: function(Shelves(partial(PostgresqlTable, connection), self._cipher))
        )

    def _shelves(self, transaction: Transaction) -> Shelves:
        return Shelves(partial(PostgresqlTable, transaction.connection), self._cipher)

    def _write_audit(self, transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
        write_audit(transaction, entries)

    def _rename_instance(self, transaction: Transaction, old: str, new: str) -> None:
        # One row, however many deliveries: they refer to the instance by its number.
        transaction.connection.execute("UPDATE instance_numbers SET name = %s WHERE name = %s", (new, old))

    def _make_due(self, transaction: Transaction, registration: str) -> int:
        return make_due(transaction.connection, registration)


class PostgresqlTable(Table):
    """One shelf's rows, keys and values as bytes.

    Args:
        connection: every call runs on it at once.
        shelf: the shelf's name.
    """

    def __init__(self, connection: Connection, shelf: str) -> None:
        self._connection = connection
        self.shelf = shelf

    def __getitem__(self, key: bytes) -> bytes:
        row = self._connection.execute(
            "SELECT value FROM shelves WHERE shelf = %s AND key = %s", (self.shelf, key)
        ).fetchone()
        if row is None:
            raise KeyError(key)
        found: bytes = row[0]
        return found

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._connection.execute(
            """INSERT INTO shelves VALUES (%s, %s, %s)
            ON CONFLICT (shelf, key) DO UPDATE SET value = excluded.value""",
            (self.shelf, key, value),
        )

    def __delitem__(self, key: bytes) -> None:
        statement = "DELETE FROM shelves WHERE shelf = %s AND key = %s"
        if not self._connection.execute(statement, (self.shelf, key)).rowcount:
            raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        statement = "SELECT key FROM shelves WHERE shelf = %s ORDER BY key"
        return iter([row[0] for row in self._connection.execute(statement, (self.shelf,))])

    def __len__(self) -> int:
        row = self._connection.execute(
            "SELECT count(*) FROM shelves WHERE shelf = %s", (self.shelf,)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def rows(self) -> list[tuple[bytes, bytes]]:
        statement = "SELECT key, value FROM shelves WHERE shelf = %s ORDER BY key"
        return [
            (bytes(key), bytes(value)) for key, value in self._connection.execute(statement, (self.shelf,))
        ]
