"""The open transaction of the writer, as the jobs of a commit see it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

from hookgw.store.commits.changes import CountedTransaction
from hookgw.store.sqlite.name_ids import NameIds, of_instance


class Transaction(CountedTransaction):
    """The open transaction.

    Attributes:
        appended: the rows of new events, with the columns of :func:`hookgw.store.sqlite.append.append`.
    """

    connection: sqlite3.Connection

    def __init__(self, connection: sqlite3.Connection, names: NameIds) -> None:
        super().__init__()
        self.connection = connection
        self.names = names
        self.appended: list[tuple[Any, ...]] = []

    def instance_numbers(self, names: Collection[str]) -> Mapping[str, int]:
        stored = {name: of_instance(name) for name in names}
        ids = self.names.ids(stored.values())
        return {name: ids[stored[name]] for name in names}
