"""The rows of a database as :mod:`hookgw.store.copying` gives and takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from psycopg import Connection, Error

from hookgw.kernel.errors import Conflict, StartError
from hookgw.records.fleet import DEAD_AFTER
from hookgw.store.copying import PAGE_BYTES, PAGE_ROWS, Key, Numbers, Row, Rows, Source, Table
from hookgw.store.figures import fold_rest
from hookgw.store.postgresql import figures
from hookgw.store.postgresql.environment import check_server
from hookgw.store.postgresql.locks import try_lock, unlock
from hookgw.store.postgresql.lookups import one_row, sought
from hookgw.store.postgresql.schema import UNFINISHED, migrate
from hookgw.store.postgresql.server import Server
from hookgw.store.postgresql.start_checks import check_pooler, start_errors
from hookgw.store.postgresql.transaction import ADD_INSTANCES, INSTANCES, Transaction

_EVENTS = Source(
    "t.seq, i.name, t.id, t.kind, t.time, t.accepted_at, t.data, t.sender, t.server_url, t.heard",
    "events",
    "JOIN instance_numbers i ON i.number = t.instance",
    where="t.heard >= 0",
    size="octet_length(t.data)",
)
_LOG = "coalesce((SELECT name FROM instance_numbers WHERE number = t.instance), '')"
_NAME = "(SELECT name FROM instance_numbers WHERE number = substr(t.holder, 2)::bigint)"
_HOLDER = f"CASE WHEN t.holder ^@ '@' THEN '@' || {_NAME} ELSE t.holder END"
_SOURCES = {
    "records": Source("t.shelf, t.key, t.value", "shelves", key=("t.shelf", "t.key")),
    "events": _EVENTS,
    "ids": _EVENTS._replace(where="t.heard < 0"),
    "deliveries": Source(
        """t.seq, t.event, i.name, t.kind, t.registration, t.lane, t.state, t.accepted_at, t.size,
        coalesce(p.place, 0), t.queued_at, t.attempts, t.failures, t.next_at, t.finished_at, t.reason""",
        "deliveries",
        "JOIN instance_numbers i ON i.number = t.instance LEFT JOIN places p ON p.seq = t.seq",
    ),
    "attempts": Source(
        "t.delivery, t.number, t.at, t.duration, t.outcome, t.status, t.error, t.answer, t.url, t.heads",
        "attempts",
        key=("t.delivery", "t.number"),
    ),
    "bodies": Source("t.seq, t.body", "bodies", size="octet_length(t.body)"),
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
        where=f"NOT t.holder ^@ '@' OR {_NAME} IS NOT NULL",
    ),
    "audit": Source("t.seq, t.at, t.instance, t.instance_id, t.action, t.entry", "audit"),
}
# With an index, or each page would go through all of them.
_PLACES = (
    """CREATE TEMP TABLE places AS SELECT seq, row_number() OVER (ORDER BY xid, position) AS place
        FROM deliveries WHERE state = 'pending'""",
    "ALTER TABLE places ADD PRIMARY KEY (seq)",
    "ANALYZE places",
)
_NUMBERS = """SELECT (SELECT last_value FROM event_numbers), (SELECT last_value FROM delivery_numbers),
    coalesce((SELECT max(seq) FROM audit), 0)"""
_SET_NUMBERS = """SELECT setval('event_numbers', greatest(1, %s)),
    setval('delivery_numbers', greatest(1, %s)),
    setval(pg_get_serial_sequence('audit', 'seq'), greatest(1, %s))"""
_SET_WHOLE = "UPDATE log_state SET is_whole = EXISTS (SELECT FROM log_begins WHERE instance = 0)"
_ALIVE = f"""SELECT name FROM nodes
    WHERE heartbeat_at > clock_timestamp() - interval '{DEAD_AFTER} s' LIMIT 1"""  # noqa: S608 - a constant
_LOCK = 0x686B6370
"""The advisory lock of a copy to a database."""
_IS_USED = "SELECT EXISTS (SELECT FROM shelves) OR EXISTS (SELECT FROM events)"


class DatabaseRows(Rows):
    sources, mark, places = _SOURCES, "%s", _PLACES

    def __init__(self, connection: Connection, place: str) -> None:
        super().__init__(connection, place)
        self._instances: dict[str, int] = {}

    def read(self, table: Table, after: Key | None, until: Key | None = None) -> list[Row]:
        source, where, given = self._range(table, after, until)
        if until is None and source.size != "0":
            # Cut to size before a payload is read.
            where += f""" AND t.seq IN (SELECT seq FROM (
                SELECT seq, sum(size) OVER (ORDER BY seq) - size AS before_it FROM (
                    SELECT t.seq, {source.size} AS size FROM {source.table} t WHERE {where}
                    ORDER BY t.seq LIMIT {PAGE_ROWS}
                ) page
            ) summed WHERE before_it < {PAGE_BYTES})"""  # noqa: S608 - constants
            given += given
        limit = f"LIMIT {PAGE_ROWS}" if until is None else ""
        statement = f"""SELECT {source.columns} FROM {source.table} t {source.joins}
            WHERE {where} ORDER BY {", ".join(source.key)} {limit}"""  # noqa: S608 - constants
        rows: list[Row] = self._connection.execute(statement, given).fetchall()
        return rows

    def write(self, table: Table, rows: Sequence[Row]) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            instances: dict[str, int] = {}
            if table.name in ("events", "ids", "deliveries"):
                instances = self._numbers_of({row[2 if table.name == "deliveries" else 1] for row in rows})
            if table.name == "logs":
                instances = {"": 0, **self._numbers_of({row[0] for row in rows if row[0]})}
            if table.name == "figures":
                instances = self._numbers_of({row[2][1:] for row in rows if row[2].startswith("@")})
            # Before every transaction of this server, as after a restore; see restored.py.
            xid = ("xid",) if table.name in ("events", "ids", "deliveries") else ()
            with cursor.copy(f"COPY {self._into(table, *xid)} FROM STDIN") as copy:
                for row in map(self.as_stored, rows):
                    if table.name == "deliveries":
                        # A finished delivery has no place in a lane.
                        place = row[9] or row[0]
                        copy.write_row((*row[:2], instances[row[2]], *row[3:9], place, *row[10:], 0))
                    elif table.name == "logs":
                        copy.write_row((instances[row[0]], row[1]))
                    elif table.name == "figures":
                        holder = f"@{instances[row[2][1:]]}" if row[2].startswith("@") else row[2]
                        copy.write_row((*row[:2], holder, *row[3:]))
                    elif instances:
                        copy.write_row((row[0], instances[row[1]], *row[2:], 0))
                    else:
                        copy.write_row(row)
            if table.name == "logs":
                self._connection.execute(_SET_WHOLE)

    def as_stored(self, row: Row) -> Row:
        return tuple(sought(value) if isinstance(value, str) else value for value in row)

    def numbers(self) -> Numbers:
        return Numbers(*one_row(self._connection, _NUMBERS))

    def finish(self, numbers: Numbers) -> None:
        with self._connection.transaction():
            self._connection.execute(_SET_NUMBERS, numbers)
            self._connection.execute(f"DROP TABLE {UNFINISHED}")
        # The plans of the first statements would be made for empty tables.
        self._connection.execute("ANALYZE events, deliveries, attempts, bodies, shelves, audit")

    def _numbers_of(self, names: set[str]) -> dict[str, int]:
        missing = sorted(sought(name) for name in names if sought(name) not in self._instances)
        if missing:
            self._connection.execute(ADD_INSTANCES, (missing,))
            self._instances.update(self._connection.execute(INSTANCES, (missing,)).fetchall())
        return self._instances


@contextmanager
def open_source(server: Server) -> Iterator[DatabaseRows]:
    """Open a database that no gateway uses, to copy it.

    Raises:
        StartError: a node uses it, or it cannot be used.
    """
    with _opened(server) as connection:
        with connection.transaction():
            fold_rest(figures, Transaction(connection, 0))
        yield DatabaseRows(connection, server.place)


@contextmanager
def open_target(server: Server, source: str) -> Iterator[DatabaseRows]:
    """Open a database to copy to it: no node uses it until the copy is finished.

    Raises:
        Conflict: there is something in it, and no unfinished copy from the same source.
        StartError: a node uses it, another copy to it is running, or it cannot be used.
    """
    with _opened(server, copying=True) as connection:
        if not try_lock(connection, _LOCK):
            raise StartError(f"Another copy to {server.place} is running.", "Let it end.")
        try:
            with connection.transaction():
                if one_row(connection, "SELECT to_regclass(%s) IS NULL", (UNFINISHED,))[0]:
                    if one_row(connection, _IS_USED)[0]:
                        raise Conflict.of(
                            "storage.copy_target_not_empty",
                            "There is something in {place} already. Name an empty database.",
                            place=server.place,
                        )
                    connection.execute(f"CREATE TABLE {UNFINISHED} (source text NOT NULL)")
                    connection.execute(f"INSERT INTO {UNFINISHED} VALUES (%s)", (source,))  # noqa: S608
                (former,) = one_row(connection, f"SELECT source FROM {UNFINISHED}")  # noqa: S608
            if former != source:
                raise Conflict.of(
                    "storage.copy_unfinished",
                    "There is an unfinished copy of {former} in {place}.",
                    former=former,
                    place=server.place,
                )
            yield DatabaseRows(connection, server.place)
        finally:
            # The server ends the session some time after the connection, and would refuse the next copy until
            # then. The lock of a connection that is lost ends with its session.
            with suppress(Error):
                unlock(connection, _LOCK)


@contextmanager
def _opened(server: Server, *, copying: bool = False) -> Iterator[Connection]:
    with start_errors(server):
        connection = server.connect(patience=0)
        try:
            check_pooler(connection, server)
            check_server(connection, server.place)
            migrate(connection, server.schema, server.place, copying=copying)
            if node := connection.execute(_ALIVE).fetchone():
                raise StartError(f"The node {node[0]} uses {server.place}.", "Stop all nodes, and try again.")
            yield connection
        finally:
            connection.close()
