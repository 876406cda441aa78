"""The schema of a database, and the migrations of databases of earlier versions.

The tables are those of the data file (:mod:`hookgw.store.sqlite.schema`), with the same numbers of versions.
What differs, and why:

*Order.* The place of a delivery in its lane is the pair ``(xid, position)``: the transaction that made it
pending, and a number from ``delivery_numbers``. Numbers alone are given before the commit, and transactions
commit in any order: a reader that goes on behind the highest number it has seen skips what commits later.
Only rows with an ``xid`` below the oldest open transaction (:data:`SETTLED`) are read in order, because
nothing can appear before them any more.

*Names.* Kinds, registrations, lanes and URLs are stored as text. Numbers for them, as the data file has,
would need a cache on every node that a rename or a removal by another node makes wrong. The price is about
100 bytes for each delivery, and as much in the index of the outbox while it is pending. Instances have
numbers, in ``instance_numbers``: when an instance is removed, one row is renamed, not all of its deliveries.
Statements look the numbers up; no node remembers them.

*The log.* Its order is ``(xid, seq)``, for the same reason. Events get their ``xid`` by default, so that
nodes of an earlier version, which do not know it, write it, too.

*Sequences.* ``event_numbers`` and ``delivery_numbers`` give numbers to all nodes. A delivery that is sent
again keeps its ``seq`` and gets a new ``xid`` and ``position``; until then ``position`` equals ``seq``.

A schema that was released is never edited: a change is a further migration.
"""

from __future__ import annotations

import re

import structlog
from psycopg import Connection, sql
from psycopg.errors import InsufficientPrivilege

from hookgw.kernel.errors import StartError
from hookgw.store.postgresql.lookups import one_row
from hookgw.store.postgresql.record_changes import CHANGES

logger = structlog.get_logger("hookgw.store")

VERSION = 7
OLDEST_VERSION = 6
"""The oldest schema that is migrated."""

# Taken for the length of a migration: nodes that start together create the tables once.
_LOCK = 0x686B6777

UNFINISHED = "unfinished_copy"
"""The table that is there while everything is copied into a database; see copy_rows.py."""

SETTLED = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
"""SQL: every transaction before this one has ended. Nothing becomes visible below it any more."""

XID = "pg_current_xact_id()::text::bigint"
"""SQL: the number of this transaction."""

# A holder is ``@`` and the number of an instance, ``#`` and a tag, the id of a registration, or empty.
FIGURES = (
    """CREATE TABLE figures (
        step integer NOT NULL,
        at bigint NOT NULL,
        holder text COLLATE "C" NOT NULL,
        accepted bigint NOT NULL,
        delivered bigint NOT NULL,
        dead bigint NOT NULL,
        dropped bigint NOT NULL,
        more text NOT NULL,
        PRIMARY KEY (step, at, holder)
    )""",
    """CREATE TABLE figure_news (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        entries text NOT NULL
    )""",
)
_SINCE_7 = {"figures", "figure_news"}

# Texts are compared by their bytes, as in the data file: it is faster, and the same on every server.
SCHEMA: tuple[str, ...] = (
    "CREATE SEQUENCE event_numbers",
    "CREATE SEQUENCE delivery_numbers",
    """CREATE TABLE instance_numbers (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE
    )""",
    """CREATE TABLE events (
        seq bigint PRIMARY KEY,
        instance bigint NOT NULL,
        id text COLLATE "C" NOT NULL,
        kind text COLLATE "C" NOT NULL,
        time bigint NOT NULL,
        accepted_at bigint NOT NULL,
        data bytea NOT NULL,
        sender text,
        server_url text,
        heard integer NOT NULL,
        xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
        UNIQUE (id, instance)
    )""",
    "CREATE INDEX log_order ON events (xid, seq) WHERE heard >= 0",
    "CREATE INDEX unheard ON events (accepted_at, seq) WHERE heard = 0",
    "CREATE INDEX remembered ON events (accepted_at, heard, seq) WHERE heard < 0",
    """CREATE TABLE deliveries (
        seq bigint PRIMARY KEY,
        event bigint NOT NULL,
        instance bigint NOT NULL,
        kind text COLLATE "C" NOT NULL,
        registration text COLLATE "C" NOT NULL,
        lane text COLLATE "C" NOT NULL,
        state text COLLATE "C" NOT NULL,
        accepted_at bigint NOT NULL,
        size bigint NOT NULL,
        xid bigint NOT NULL,
        position bigint NOT NULL,
        queued_at bigint NOT NULL,
        attempts integer NOT NULL,
        failures integer NOT NULL,
        next_at bigint NOT NULL,
        finished_at bigint,
        reason text
    )""",
    """CREATE INDEX outbox ON deliveries (registration, lane, xid, position) INCLUDE (instance, size)
        WHERE state = 'pending'""",
    # What became pending lately, whatever its lane: see feed.py.
    "CREATE INDEX feed ON deliveries (xid, position) WHERE state = 'pending'",
    "CREATE INDEX waiting ON deliveries (registration) WHERE state = 'pending' AND next_at > 0",
    "CREATE INDEX deliveries_of_event ON deliveries (event)",
    "CREATE INDEX history ON deliveries (instance, seq) INCLUDE (kind, accepted_at)",
    """CREATE INDEX undelivered ON deliveries (instance, state, seq) INCLUDE (kind, accepted_at)
        WHERE state <> 'delivered'""",
    # With the size, so that the history is measured without its rows.
    "CREATE INDEX finished ON deliveries (finished_at, seq) INCLUDE (size) WHERE finished_at IS NOT NULL",
    "CREATE TABLE bodies (seq bigint PRIMARY KEY, body bytea NOT NULL)",
    """CREATE TABLE attempts (
        delivery bigint NOT NULL,
        number integer NOT NULL,
        at bigint NOT NULL,
        duration bigint NOT NULL,
        outcome text NOT NULL,
        status integer,
        error text,
        answer text NOT NULL,
        url text,
        heads text,
        PRIMARY KEY (delivery, number)
    )""",
    """CREATE TABLE shelves (
        shelf text COLLATE "C" NOT NULL,
        key bytea NOT NULL,
        value bytea NOT NULL,
        PRIMARY KEY (shelf, key)
    )""",
    # Of the newest re-partition of each registration: see repartition.py.
    """CREATE TABLE lane_rules (
        registration text COLLATE "C" PRIMARY KEY,
        generation integer NOT NULL,
        ordering text NOT NULL,
        concurrency integer NOT NULL
    )""",
    "CREATE TABLE probe (number integer PRIMARY KEY, writes bigint NOT NULL)",
    """CREATE TABLE audit (
        seq bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
        at bigint NOT NULL,
        instance text COLLATE "C",
        instance_id text COLLATE "C",
        action text COLLATE "C" NOT NULL,
        entry text NOT NULL
    )""",
    "CREATE INDEX audited ON audit (at, seq)",
    "CREATE INDEX audited_instances ON audit (instance, at, seq) WHERE instance IS NOT NULL",
    # Rows of the outbox change once or twice and then stay. Without this, the server would clean up the
    # index of the outbox after a fifth of the whole history has changed.
    *(
        f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000)"
        for table in ("events", "deliveries", "bodies")
    ),
    # The fleet: see nodes.py.
    "CREATE SEQUENCE node_generations",
    "CREATE TABLE members (generation bigint PRIMARY KEY)",
    """CREATE TABLE nodes (
        generation bigint PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE,
        url text NOT NULL,
        heartbeat_at timestamptz NOT NULL,
        is_leaving boolean NOT NULL,
        token text NOT NULL
    ) WITH (fillfactor = 50)""",
    "CREATE TABLE shards (shard integer PRIMARY KEY, generation bigint, epoch bigint NOT NULL)",
    "INSERT INTO shards SELECT shard, NULL, 0 FROM generate_series(0, 255) shard",  # as records/shards.py
    # Which records have changed: see record_changes.py.
    "CREATE SEQUENCE record_versions",
    "SELECT nextval('record_versions')",  # an unused sequence shows its first value already
    *CHANGES,
    # What nodes change of what is pending: see backlog_changes.py.
    """CREATE UNLOGGED TABLE backlog_changes (
        generation bigint NOT NULL,
        number bigint NOT NULL,
        at timestamptz NOT NULL,
        changes bytea,
        PRIMARY KEY (generation, number)
    )""",
    "CREATE TABLE hookgw_schema (version integer NOT NULL)",
    # ``home`` says where these tables are: after a restore they are elsewhere. See restored.py.
    """CREATE TABLE log (
        instance bigint NOT NULL,
        xid bigint NOT NULL,
        seq bigint NOT NULL,
        kind text COLLATE "C" NOT NULL,
        accepted_at bigint NOT NULL,
        chat bigint NOT NULL,
        sender bigint NOT NULL,
        message bigint NOT NULL,
        unwanted bigint NOT NULL,
        PRIMARY KEY (instance, xid, seq)
    )""",
    "CREATE TABLE log_begins (instance bigint PRIMARY KEY, at bigint NOT NULL)",
    """CREATE TABLE log_state (
        only_one boolean PRIMARY KEY CHECK (only_one),
        generation text NOT NULL,
        home text NOT NULL,
        xid bigint NOT NULL,
        seq bigint NOT NULL,
        is_whole boolean NOT NULL
    )""",
    "INSERT INTO log_state VALUES (true, '', '', -1, -1, false)",
    *FIGURES,
)


# The highest number that rows have, of each sequence.
_SEQUENCES = {
    "event_numbers": "greatest((SELECT max(seq) FROM events), (SELECT max(event) FROM deliveries))",
    "delivery_numbers": "(SELECT max(seq) FROM deliveries)",
    "instance_numbers_number_seq": "(SELECT max(number) FROM instance_numbers)",
    "audit_seq_seq": "(SELECT max(seq) FROM audit)",
    "figure_news_number_seq": "(SELECT max(number) FROM figure_news)",
    "node_generations": (
        "greatest((SELECT max(generation) FROM members), (SELECT max(generation) FROM nodes))"
    ),
    "record_versions": "(SELECT max(version) FROM record_changes)",
}
_NAMES = tuple(
    found[1]
    for statement in SCHEMA
    if (found := re.match(r"CREATE (?:UNLOGGED )?(?:TABLE|SEQUENCE) (\w+)", statement))
)


# As connections set it: the schema alone.
_CLOSED_SCHEMA = """SELECT nspname FROM pg_namespace
    WHERE nspname = (parse_ident(current_setting('search_path')))[1]
    AND NOT has_schema_privilege(oid, 'USAGE')"""


def missing_tables(connection: Connection) -> list[str]:
    """Return the tables and sequences of hookgw that are not there, in the order in which they are made.

    Raises:
        InsufficientPrivilege: hookgw's user sees none of them.
    """
    if row := connection.execute(_CLOSED_SCHEMA).fetchone():
        schema = row[0]
        raise InsufficientPrivilege(
            f"hookgw's user may not use the schema {schema}: GRANT USAGE, CREATE ON SCHEMA {schema} TO …"
        )
    rows = connection.execute(
        "SELECT name FROM unnest(%s::text[]) name WHERE to_regclass(name) IS NULL", (list(_NAMES),)
    )
    return [name for (name,) in rows]


def raise_sequences(connection: Connection) -> list[str]:
    """Raise each sequence that would give a number that its table has already; return their names.

    Logical replication, and some tools for copies, leave sequences behind. A number that is given twice would
    be refused by the table's key.
    """
    behind = []
    for sequence, highest in _SEQUENCES.items():
        row = connection.execute(
            f"""SELECT setval(%s, highest) FROM (SELECT {highest} AS highest) of_table
            WHERE highest > coalesce(pg_sequence_last_value(%s::regclass), 0)""",  # noqa: S608 - constants
            (sequence, sequence),
        ).fetchone()
        if row is not None:
            behind.append(sequence)
    return behind


def set_aside(connection: Connection, schema: str) -> str | None:
    """Rename a schema of which tables are missing, so that a new one can be made in its place.

    Returns:
        The new name of the former schema; ``None`` if nothing was in the way, or if it is whole.
    """
    missing = missing_tables(connection)
    if not missing or len(missing) == len(_NAMES):
        return None
    (now,) = one_row(connection, "SELECT to_char(now(), 'YYYYMMDD_HH24MISS')")
    aside = f"{schema[:46]}_{now}"
    connection.execute(
        sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(schema), sql.Identifier(aside))
    )
    return aside


def _upgrade(connection: Connection, missing: list[str], place: str) -> list[str]:
    """Bring tables of an earlier version to the present one; return the tables that are missing then."""
    row = connection.execute("SELECT version FROM hookgw_schema").fetchone()
    version: int = row[0] if row else 0
    if not OLDEST_VERSION <= version < VERSION or {*missing} != _SINCE_7:
        return missing
    connection.execute("ALTER TABLE attempts ADD COLUMN heads text")
    for statement in FIGURES:
        connection.execute(statement)
    connection.execute("UPDATE hookgw_schema SET version = %s", (VERSION,))
    logger.info("tables migrated", database=place, version=VERSION)
    return []


def migrate(connection: Connection, schema: str, place: str, *, copying: bool = False) -> None:
    """Bring a database to the present schema; an empty one gets all of it. One node does it, others wait.

    Args:
        copying: go on with a copy that was cut off.

    Raises:
        StartError: it is too old, or a newer hookgw wrote it, or has an unfinished copy.
    """
    with connection.transaction():
        # Not as other locks: the schema may be missing.
        connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, schema))
        missing = missing_tables(connection)
        if not {*missing} - _SINCE_7:
            missing = _upgrade(connection, missing, place)
        if 0 < len(missing) < len(_NAMES):
            raise StartError(
                f"Tables of hookgw are missing in the schema {schema} of {place}: {', '.join(missing)}.",
                "Restore a backup. To set the remaining tables aside and begin with an empty gateway, start "
                "once with: hookgw serve --new",
            )
        if missing:
            # CREATE SCHEMA IF NOT EXISTS needs the right to create one even where it exists.
            if not connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,)).rowcount:
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO hookgw_schema VALUES (%s)", (VERSION,))
            logger.info("tables created", database=place, schema=schema)
            return
        row = connection.execute("SELECT version FROM hookgw_schema").fetchone()
        version: int = row[0] if row else 0
        is_whole = connection.execute("SELECT to_regclass(%s)", (UNFINISHED,)).fetchone() == (None,)
    if version > VERSION:
        raise StartError(
            f"The tables in {place} have version {version}, and this hookgw knows {VERSION}: a newer hookgw "
            "wrote them.",
            "Install that version again.",
        )
    if version < OLDEST_VERSION:
        raise StartError(
            f"The tables in {place} have version {version}; this hookgw migrates from {OLDEST_VERSION} on.",
            "Restore a backup, or start with an empty database.",
        )
    if not is_whole and not copying:
        raise StartError(
            f"A copy into {place} is not finished.",
            "Run the same hookgw storage copy again: it goes on where it was cut off.",
        )
