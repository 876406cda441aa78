"""The open transaction of the writer, as the jobs of a commit see it."""

from __future__ import annotations

from psycopg import Connection

from hookgw.store.commits.changes import CountedTransaction


class Transaction(CountedTransaction):
    """The writing connection inside a commit. A job must not keep it.

    Attributes:
        connection: in a transaction.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
