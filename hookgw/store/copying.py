"""Everything that lasts, copied from one storage to another, of whatever engine.

An engine gives and takes rows in one form, in the order of their keys. Rows are copied page by page, each in
one transaction, so a copy that was cut off goes on behind the last key in the target. At the end, both
storages are read again and compared.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hookgw.kernel.errors import StartError

Row = tuple[Any, ...]
Key = tuple[Any, ...]

PAGE_ROWS = 1_000
PAGE_BYTES = 8 * 2**20
"""A page has at most this many rows, and bytes of payloads, or one row."""


class Table(NamedTuple):
    """A kind of rows. The first ``key`` columns are the key.

    Times are in microseconds, and names are texts, as in the columns of
    :mod:`hookgw.store.postgresql.schema`.
    """

    name: str
    columns: tuple[str, ...]
    key: int


_EVENT = ("seq", "instance", "id", "kind", "time", "accepted_at", "data", "sender", "server_url", "heard")

TABLES = (
    Table("records", ("shelf", "key", "value"), 2),
    Table("events", _EVENT, 1),
    # Events of which only the id is left.
    Table("ids", _EVENT, 1),
    # The place is that among all pending deliveries, counted from 1; 0 for finished ones.
    Table(
        "deliveries",
        (
            *("seq", "event", "instance", "kind", "registration", "lane", "state", "accepted_at", "size"),
            *("place", "queued_at", "attempts", "failures", "next_at", "finished_at", "reason"),
        ),
        1,
    ),
    Table(
        "attempts",
        ("delivery", "number", "at", "duration", "outcome", "status", "error", "answer", "url", "heads"),
        2,
    ),
    Table("bodies", ("seq", "body"), 1),
    # From when on the logs of instances are whole; of all of them, under an empty name.
    Table("logs", ("instance", "at"), 1),
    # A holder is ``@`` and an instance, ``#`` and a tag, the id of a registration, or empty: the gateway.
    Table("figures", ("step", "at", "holder", "accepted", "delivered", "dead", "dropped", "more"), 3),
    Table("audit", ("seq", "at", "instance", "instance_id", "action", "entry"), 1),
)


class Numbers(NamedTuple):
    """The highest numbers ever given: none is given a second time."""

    event: int
    delivery: int
    audit: int


class Source(NamedTuple):
    """How an engine reads a kind of rows from the table ``t``. ``size`` are the bytes of a row's payload."""

    columns: str
    table: str
    joins: str = ""
    key: tuple[str, ...] = ("t.seq",)
    where: str = "true"
    size: str = "0"


class Rows(ABC):
    """The rows of one storage that no gateway uses. The connection is in autocommit mode.

    Attributes:
        place: names the storage.
        unfinished: what is to be removed, so that a copy to it begins anew.
    """

    sources: Mapping[str, Source]
    mark: str
    """How the engine writes a parameter."""
    places: Sequence[str]
    """The statements that make the table ``places``: the order of all pending deliveries."""

    def __init__(self, connection: Any, place: str, unfinished: str = "") -> None:
        self.place = place
        self.unfinished = unfinished or f"what was copied to {place}"
        self._connection = connection
        self._has_places = False

    def count(self, table: Table) -> int:
        source = self.sources[table.name]
        # The ids of a removed instance may have lost its name, and with it their meaning.
        joins = source.joins if table.name == "ids" else ""
        statement = f"SELECT count(*) FROM {source.table} t {joins} WHERE {source.where}"  # noqa: S608
        return int(self._connection.execute(statement).fetchone()[0])

    @abstractmethod
    def read(self, table: Table, after: Key | None, until: Key | None = None) -> list[Row]:
        """Return the next rows in the order of their keys.

        Args:
            after: only rows behind this key.
            until: up to this key, however many there are; ``None`` for one page.
        """

    def last_key(self, table: Table) -> Key | None:
        source = self.sources[table.name]
        order = ", ".join(f"{column} DESC" for column in source.key)
        statement = f"""SELECT {", ".join(source.key)} FROM {source.table} t WHERE {source.where}
            ORDER BY {order} LIMIT 1"""  # noqa: S608 - constants
        row: Key | None = self._connection.execute(statement).fetchone()
        return row

    @abstractmethod
    def write(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows in one transaction."""

    def as_stored(self, row: Row) -> Row:
        """Return what is read after a row was written: not every engine can store every text."""
        return row

    @abstractmethod
    def numbers(self) -> Numbers: ...

    @abstractmethod
    def finish(self, numbers: Numbers) -> None:
        """Let gateways use the storage."""

    def _into(self, table: Table, *more: str) -> str:
        """Return the table that rows go to, and its columns; ``more`` are those of this engine alone."""
        columns = ["position" if column == "place" else column for column in table.columns]
        return f"{self.sources[table.name].table} ({', '.join([*columns, *more])})"

    def _range(self, table: Table, after: Key | None, until: Key | None) -> tuple[Source, str, list[Any]]:
        """Return the source of a kind of rows, the condition of those between two keys, and its values."""
        if table.name == "deliveries" and not self._has_places:
            for statement in self.places:
                self._connection.execute(statement)
            self._has_places = True
        source = self.sources[table.name]
        conditions, given = [f"({source.where})"], list[Any]()
        for bound, sign in ((after, ">"), (until, "<=")):
            if bound is not None:
                marks = ", ".join([self.mark] * len(bound))
                conditions.append(f"({', '.join(source.key)}) {sign} ({marks})")
                given += bound
        return source, " AND ".join(conditions), given


class Copied(NamedTuple):
    """One kind of rows in both storages, with a SHA-256 over all of them in the order of their keys."""

    name: str
    rows: int
    checksum: str


def copy_rows(
    source: Rows,
    target: Rows,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
    on_copied: Callable[[], None] = lambda: None,
) -> list[Copied]:
    """Copy everything from one storage to another, and compare them.

    Args:
        target: empty, or as an interrupted copy from the same source left it.
        on_progress: called with the current step, how many of its rows are done, and how many there are.
        on_copied: called once all is copied, before both are compared.

    Raises:
        StartError: the storages differ. The target is not finished.
    """
    for table in TABLES:
        total, done = source.count(table), target.count(table)
        after = target.last_key(table)
        on_progress(f"copying {table.name}", done, total)
        while rows := source.read(table, after):
            target.write(table, rows)
            after = rows[-1][: table.key]
            done += len(rows)
            on_progress(f"copying {table.name}", done, total)
    on_copied()
    copied = [_compare(source, target, table, on_progress) for table in TABLES]
    target.finish(source.numbers())
    return copied


def _compare(
    source: Rows, target: Rows, table: Table, on_progress: Callable[[str, int, int], None]
) -> Copied:
    remedy = (
        f"Remove {target.unfinished}, and copy again. If it differs again, check the source with hookgw "
        "storage check."
    )
    total, done = source.count(table), 0
    after: Key | None = None
    checksum, other = hashlib.sha256(), hashlib.sha256()
    while rows := source.read(table, after):
        until = rows[-1][: table.key]
        for row in rows:
            checksum.update(msgspec.msgpack.encode(target.as_stored(row)))
        for row in target.read(table, after, until):
            other.update(msgspec.msgpack.encode(row))
        if checksum.digest() != other.digest():
            raise StartError(f"The copy differs from {source.place}: {table.name} behind {after}.", remedy)
        after = until
        done += len(rows)
        on_progress(f"comparing {table.name}", done, total)
    if target.count(table) != done:
        raise StartError(f"The copy has more {table.name} than {source.place}.", remedy)
    return Copied(table.name, done, checksum.hexdigest())
