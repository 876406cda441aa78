"""The records in the database."""

from __future__ import annotations

from hookgw.store.postgresql.audit import write_audit
from hookgw.store.postgresql.figures import forget_figures
from hookgw.store.postgresql.lookups import count_rows
from hookgw.store.postgresql.settle import make_due
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.shelves import Table

__all__ = ["forget_figures", "make_due", "rename_instance", "table", "write_audit"]  # RecordStatements


class PostgresqlTable(Table):
    mark = "%s"
    put = """INSERT INTO shelves VALUES (?, ?, ?)
        ON CONFLICT (shelf, key) DO UPDATE SET value = excluded.value"""

    def __delitem__(self, key: bytes) -> None:
        statement = "DELETE FROM shelves WHERE shelf = %s AND key = %s"
        if not count_rows(self._connection, statement, (self.shelf, key)):
            raise KeyError(key)


table = PostgresqlTable


def rename_instance(transaction: Transaction, old: str, new: str) -> None:
    transaction.connection.execute("UPDATE instance_numbers SET name = %s WHERE name = %s", (new, old))
