"""Names that repeat in every row, each kept once and known by a number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

import msgspec

from hookgw.store.sqlite.bulk import Bulk

MAX_REMEMBERED = 100_000

_OF_INSTANCE = "@"
"""Begins the names of instances: a kind or a registration can be called like one, and keeps its name
when the instance is retired. SQL takes it off with ``substr(name, 2)``."""

_ADD = Bulk(
    "INSERT INTO names (name) SELECT column1 FROM",
    1,
    "WHERE column1 IS NOT NULL ON CONFLICT (name) DO NOTHING",
)
_FIND = """SELECT json_group_object(name, number) FROM names
    WHERE name IN (SELECT value FROM json_each(?))"""


def of_instance(name: str) -> str:
    """The name under which an instance is kept here."""
    return _OF_INSTANCE + name


class NameIds:
    """The numbers of names, remembered in memory; for the writing connection alone."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}

    def numbers(self, names: Iterable[str]) -> Mapping[str, int]:
        """A mapping that has at least the given names; unknown ones are added to the data file.

        It is valid until the next call. Call :meth:`forget` where the transaction is undone.
        """
        wanted = set(names)
        if not wanted <= self._numbers.keys():
            self._learn(wanted)
        return self._numbers

    def rename(self, old: str, new: str) -> None:
        """Give a number another name; all rows that have it are known by the new one at once."""
        self._connection.execute("UPDATE names SET name = ? WHERE name = ?", (new, old))
        self.forget()

    def forget(self) -> None:
        """Remember nothing: what was added may not have lasted."""
        self._numbers = {}

    def _learn(self, names: set[str]) -> None:
        if len(self._numbers) + len(names) > MAX_REMEMBERED:
            self._numbers = {}
        unknown = [name for name in names if name not in self._numbers]
        _ADD.run(self._connection, [(name,) for name in unknown])
        rows = self._connection.execute(_FIND, (msgspec.json.encode(unknown).decode(),)).fetchone()[0]
        found = msgspec.json.decode(rows, type=dict[str, int])
        # By the given strings: most of them are in memory anyway, the decoded ones would be copies.
        self._numbers.update((name, found[name]) for name in unknown)
