"""Advisory locks, each of one schema: gateways in other schemas of the database have locks of their own."""

from __future__ import annotations

from psycopg import Connection

from hookgw.store.postgresql.lookups import one_row

_LOCK = "SELECT pg_advisory_xact_lock(%s, hashtext(current_schema()))"
_SHARE = "SELECT pg_advisory_xact_lock_shared(%s, hashtext(current_schema()))"
_TRY = "SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))"
_UNLOCK = "SELECT pg_advisory_unlock(%s, hashtext(current_schema()))"


def lock(connection: Connection, number: int, *, is_shared: bool = False) -> None:
    """Wait for a lock, and hold it until the transaction ends."""
    connection.execute(_SHARE if is_shared else _LOCK, (number,))


def try_lock(connection: Connection, number: int) -> bool:
    """Take a lock for the connection if nobody holds it; return whether it is taken."""
    return bool(one_row(connection, _TRY, (number,))[0])


def unlock(connection: Connection, number: int) -> None:
    connection.execute(_UNLOCK, (number,))
