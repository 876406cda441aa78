"""Changes of records: nodes keep records in memory, and read again what another node has changed.

Every change of a record that nodes keep writes its key and a new version, in its own transaction. A change
holds the lock :data:`LOCK` alone from then on; accepting events shares it. So in a transaction that has the
lock, the last version says for certain whether a node knows everything that was committed before: an event is
never stored for the registrations of a moment ago. Versions are committed in their order.

What belongs to one node at a time (the state of a connector, which changes with every event, or a job) is
kept by no other node, and does not count.
"""

from __future__ import annotations

from psycopg import Connection

from hookgw.store.postgresql.locks import lock

VERSION = "SELECT last_value FROM record_versions"
"""SQL: the version of the records. Exact in a transaction that has the lock."""

LOCK = 1751872099
"""The advisory lock: held alone by transactions that change records, and shared by those that accept."""

NOTE = """
    DECLARE
        changed_shelf text := CASE WHEN TG_OP = 'DELETE' THEN OLD.shelf ELSE NEW.shelf END;
        changed_key bytea := CASE WHEN TG_OP = 'DELETE' THEN OLD.key ELSE NEW.key END;
    BEGIN
        IF changed_shelf IN ('instances', 'registrations', 'sessions', 'keys')
            OR changed_shelf = 'values' AND substring(changed_key FOR 18) = 'disabled_webhooks.' THEN
            PERFORM pg_advisory_xact_lock(1751872099, hashtext(TG_TABLE_SCHEMA));
            INSERT INTO record_changes VALUES (changed_shelf, changed_key, nextval('record_versions'))
                ON CONFLICT (shelf, key) DO UPDATE SET version = EXCLUDED.version;
        END IF;
        RETURN NULL;
    END """
"""PL/pgSQL: the body of the trigger's function."""

CHANGES = (
    """CREATE TABLE record_changes (
        shelf text COLLATE "C" NOT NULL,
        key bytea NOT NULL,
        version bigint NOT NULL,
        PRIMARY KEY (shelf, key)
    )""",
    "CREATE INDEX record_changes_by_version ON record_changes (version)",
    f"CREATE FUNCTION note_record_change() RETURNS trigger LANGUAGE plpgsql AS $${NOTE}$$",
    """CREATE TRIGGER note_record_change AFTER INSERT OR UPDATE OR DELETE ON shelves
        FOR EACH ROW EXECUTE FUNCTION note_record_change()""",
)


def lock_records(connection: Connection, *, changes: bool) -> None:
    """Take the lock in a transaction. After it, :data:`VERSION` is the version of the records.

    Args:
        connection: in a transaction that has changed no record yet.
        changes: whether the transaction may change records. After it has shared the lock, it must not ask
            for it alone: two of these would wait for each other.
    """
    lock(connection, LOCK, is_shared=not changes)
