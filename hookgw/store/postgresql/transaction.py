"""The open transaction of the writer, as the jobs of a commit see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from psycopg import Connection

from hookgw.store.commits.changes import CountedTransaction

INSTANCES = "SELECT name, number FROM instance_numbers WHERE name = ANY(%s)"
ADD_INSTANCES = """INSERT INTO instance_numbers (name) SELECT * FROM unnest(%s::text[])
    ON CONFLICT (name) DO NOTHING"""


class Transaction(CountedTransaction):
    """``xid`` is its number, the first part of every position that it gives."""

    connection: Connection

    def __init__(self, connection: Connection, xid: int) -> None:
        super().__init__()
        self.connection = connection
        self.xid = xid

    def instance_numbers(self, names: Collection[str]) -> Mapping[str, int]:
        return dict(self.connection.execute(INSTANCES, (list(names),)).fetchall())
