"""The rows of a data file as :mod:`hookgw.store.copying` gives and takes them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hookgw.config.file_presence import is_there
from hookgw.config.folders import make_folder, sync_folder
from hookgw.kernel.errors import Conflict, StorageUnavailable
from hookgw.records.sentences import NO_FILE
from hookgw.store.copying import PAGE_BYTES, PAGE_ROWS, Key, Numbers, Row, Rows, Source, Table
from hookgw.store.figures import fold_rest
from hookgw.store.sqlite import figures
from hookgw.store.sqlite.database import BESIDE, open_database, start_errors
from hookgw.store.sqlite.event_ids import BELOW
from hookgw.store.sqlite.file_lock import hold_lock, log_of
from hookgw.store.sqlite.leftovers import copy_of
from hookgw.store.sqlite.maintenance import require_owner
from hookgw.store.sqlite.name_ids import NameIds, of_instance, of_url
from hookgw.store.sqlite.transaction import Transaction

_INSTANCE = "substr(i.name, 2)"


_EVENTS = Source(
    f"t.seq, {_INSTANCE}, t.id, k.name, t.time, t.accepted_at, t.data, t.sender, t.server_url, t.heard",
    "events",
    "JOIN names i ON i.number = t.instance JOIN names k ON k.number = t.kind",
    where="t.heard >= 0",
)
_LOG = "coalesce((SELECT substr(name, 2) FROM names WHERE number = t.instance), '')"
# The prefixes are those of the names; see name_ids.py.
_HOLDER = "coalesce((SELECT name FROM names WHERE number = t.holder), '')"
_SOURCES = {
    "records": Source("t.shelf, t.key, t.value", "shelves", key=("t.shelf", "t.key")),
    "events": _EVENTS,
    "ids": _EVENTS._replace(
        columns=_EVENTS.columns.replace("t.seq,", f"t.seq + {BELOW},", 1), where="t.heard < 0"
    ),
    "deliveries": Source(
        f"""t.seq, t.event, {_INSTANCE}, k.name, r.name, l.name, t.state, t.accepted_at, t.size,
        coalesce(p.place, 0), t.queued_at, t.attempts, t.failures, t.next_at, t.finished_at, t.reason""",
        "deliveries",
        """JOIN names i ON i.number = t.instance JOIN names k ON k.number = t.kind
        JOIN names r ON r.number = t.registration JOIN names l ON l.number = t.lane
        LEFT JOIN places p ON p.seq = t.seq""",
    ),
    "attempts": Source(
        """t.delivery, t.number, t.at, t.duration, t.outcome, t.status, t.error, t.answer, substr(u.name, 2),
        t.heads""",
        "attempts",
        "LEFT JOIN names u ON u.number = t.url",
        ("t.delivery", "t.number"),
    ),
    "bodies": Source("t.seq, t.body", "bodies"),
    "logs": Source(
        f"{_LOG}, t.at",
        "log_begins",
        key=(_LOG,),
        # That of all logs means nothing if they are not whole.
        where="t.instance <> 0 OR (SELECT is_whole FROM log_state)",
    ),
    "figures": Source(
        f"t.step, t.at, {_HOLDER}, t.accepted, t.delivered, t.dead, t.dropped, t.more",
        "figures",
        key=("t.step", "t.at", _HOLDER),
        where="t.holder = 0 OR EXISTS (SELECT 1 FROM names WHERE number = t.holder)",
    ),
    "audit": Source("t.seq, t.at, t.instance, t.instance_id, t.action, t.entry", "audit"),
}
_PLACES = (
    "CREATE TEMP TABLE places (seq INTEGER PRIMARY KEY, place INTEGER NOT NULL)",
    """INSERT INTO places SELECT seq, row_number() OVER (ORDER BY position)
        FROM deliveries WHERE state = 'pending'""",
)
_SET_WHOLE = "UPDATE log_state SET is_whole = EXISTS (SELECT 1 FROM log_begins WHERE instance = 0)"


class FileRows(Rows):
    sources, mark, places = _SOURCES, "?", _PLACES

    def __init__(self, connection: sqlite3.Connection, place: str, unfinished: str = "") -> None:
        super().__init__(connection, place, unfinished)
        self._names = NameIds(connection)

    def read(self, table: Table, after: Key | None, until: Key | None = None) -> list[Row]:
        if table.name == "ids":
            after, until = (key and (key[0] - BELOW,) for key in (after, until))
        source, where, given = self._range(table, after, until)
        statement = f"""SELECT {source.columns} FROM {source.table} t {source.joins}
            WHERE {where} ORDER BY {", ".join(source.key)}"""  # noqa: S608 - constants
        rows: list[Row] = []
        size = 0
        for row in self._connection.execute(statement, given):
            rows.append(row)
            size += sum(len(value) for value in row if isinstance(value, bytes))
            if until is None and (len(rows) == PAGE_ROWS or size >= PAGE_BYTES):
                break
        return rows

    def last_key(self, table: Table) -> Key | None:
        key = super().last_key(table)
        return (key[0] + BELOW,) if key is not None and table.name == "ids" else key

    def write(self, table: Table, rows: Sequence[Row]) -> None:
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                verb = "REPLACE" if table.name == "logs" else "INSERT"
                marks = ", ".join([self.mark] * len(table.columns))
                statement = f"{verb} INTO {self._into(table)} VALUES ({marks})"
                self._connection.executemany(statement, self._encoded(table, rows))
                if table.name == "logs":
                    self._connection.execute(_SET_WHOLE)
        except BaseException:
            self._names.forget()
            raise

    def numbers(self) -> Numbers:
        found: dict[str, int] = dict(self._connection.execute("SELECT name, seq FROM sqlite_sequence"))
        return Numbers(found.get("events", 0), found.get("deliveries", 0), found.get("audit", 0))

    def finish(self, numbers: Numbers) -> None:
        for name, number in zip(("events", "deliveries", "audit"), numbers, strict=True):
            self._connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            self._connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, number))

    def _encoded(self, table: Table, rows: Sequence[Row]) -> list[Row]:
        if table.name in ("events", "ids"):
            ids = self._names.ids({name for row in rows for name in (of_instance(row[1]), row[3])})
            below = BELOW if table.name == "ids" else 0
            return [(row[0] - below, ids[of_instance(row[1])], row[2], ids[row[3]], *row[4:]) for row in rows]
        if table.name == "deliveries":
            ids = self._names.ids({name for row in rows for name in (of_instance(row[2]), *row[3:6])})
            return [
                (
                    *row[:2],
                    ids[of_instance(row[2])],
                    *(ids[name] for name in row[3:6]),
                    *row[6:9],
                    row[9] or row[0],  # a finished delivery has no place in a lane
                    *row[10:],
                )
                for row in rows
            ]
        if table.name == "logs":
            ids = self._names.ids({of_instance(row[0]) for row in rows if row[0]})
            return [(ids[of_instance(row[0])] if row[0] else 0, row[1]) for row in rows]
        if table.name == "figures":
            ids = self._names.ids({row[2] for row in rows if row[2]})
            return [(*row[:2], ids[row[2]] if row[2] else 0, *row[3:]) for row in rows]
        if table.name == "attempts":
            urls = {row[8]: of_url(row[8]) for row in rows if row[8] is not None}
            ids = self._names.ids(urls.values()) if urls else {}
            return [(*row[:8], None if row[8] is None else ids[urls[row[8]]], *row[9:]) for row in rows]
        return list(rows)


@contextmanager
def open_source(path: Path) -> Iterator[FileRows]:
    """Open a data file that no gateway uses, to copy it.

    Raises:
        StorageUnavailable: there is no such file.
        StartError: it is in use, or cannot be used.
    """
    with start_errors(path):
        if not is_there(path) or not path.is_file():
            raise StorageUnavailable(NO_FILE(path=path))
    with open_database(path) as connections, start_errors(path):
        connection = connections.writer
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            fold_rest(figures, Transaction(connection, NameIds(connection)))
        yield FileRows(connection, str(path))


@contextmanager
def open_target(path: Path) -> Iterator[FileRows]:
    """Make a data file, to copy to it. It gets its name at the end; until then it is ``<name>.copy``.

    No gateway starts with that name meanwhile, nor after a copy that was cut off.

    Raises:
        Conflict: there is a data file of that name, or the log of one.
        StartError: it cannot be made, or the folder belongs to another user.
    """
    path = Path(os.path.realpath(path))
    with start_errors(path):
        make_folder(path.parent)
        require_owner(path)
        with hold_lock(path):
            if there := [file for file in (path, log_of(path)) if os.path.lexists(file)]:
                raise Conflict.of(
                    "storage.data_file_there",
                    "There is a data file {path}. Move it away, or name another one.",
                    path=there[0],
                )
            spare = copy_of(path)
            with open_database(spare) as connections, start_errors(spare):
                yield FileRows(connections.writer, str(path), str(spare))
            spare.rename(path)
            for suffix in BESIDE:
                with suppress(FileNotFoundError):
                    spare.with_name(spare.name + suffix).unlink()
            sync_folder(path.parent)
