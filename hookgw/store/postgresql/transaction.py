"""The open transaction of the writer, as the jobs of a commit see it."""

from __future__ import annotations

from psycopg import Connection

from hookgw.store.commits.changes import CountedTransaction


class Transaction(CountedTransaction):
    """The writing connection inside a commit. A job must not keep it.

    Attributes:
        connection: in a transaction.
        xid: the number of the transaction, the first part of every position that it gives.
    """

    def __init__(self, connection: Connection, xid: int) -> None:
        super().__init__()
        self.connection = connection
        self.xid = xid
