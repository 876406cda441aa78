"""Bring all records of the database to the present master key, at start."""

from __future__ import annotations

from psycopg import Connection

from hookgw.config.master_keys import MasterKeys
from hookgw.kernel.errors import StartError
from hookgw.store import reencrypt as keys_of_records
from hookgw.store.encryption import PREFIX, RecordCipher
from hookgw.store.postgresql.locks import lock
from hookgw.store.postgresql.nodes import DEAD
from hookgw.store.postgresql.record_changes import lock_records
from hookgw.store.reencrypt import CHECK_KEY, Convert, records_of

# Nodes that start together do it one after the other.
_LOCK = 0x686B6B79

_KEYS_FOUND = f"""SELECT DISTINCT CASE
        WHEN substring(value FOR {len(PREFIX) + 1}) = convert_to('"{PREFIX}', 'UTF8')
        THEN convert_from(substring(value FOR {len(PREFIX) + 17}), 'UTF8')
    END FROM shelves"""  # noqa: S608 - constants
_LIVING = f"SELECT name FROM nodes WHERE NOT {DEAD} ORDER BY name"  # noqa: S608 - constants
_ADD_CHECK = "INSERT INTO shelves VALUES ('values', %s, %s) ON CONFLICT DO NOTHING"
_NEXT_PAGE = """SELECT shelf, key, value FROM shelves WHERE (shelf, key) > (%s, %s)
    ORDER BY shelf, key LIMIT %s FOR UPDATE"""


def reencrypt(connection: Connection, keys: MasterKeys, place: str) -> RecordCipher | None:
    """Encrypt all records with the present key, in one transaction, unless they are already.

    The former versions of the rows stay in the server's files until it has cleaned them up (VACUUM), and in
    its log for as long as it keeps that.

    See :func:`hookgw.store.reencrypt.reencrypt`.

    Raises:
        StartError: as there; or records in the clear are to be encrypted, or decrypted, and other nodes run:
            they would go on as before, and no node could start with records of both kinds.
        psycopg.Error: the server refused; nothing was changed.
    """
    with connection.transaction():
        lock(connection, _LOCK)
        found = [row[0] for row in connection.execute(_KEYS_FOUND.encode())]

        def rewrite(convert: Convert) -> None:
            living = [name for (name,) in connection.execute(_LIVING.encode())]
            if living and (None in found) == (keys.present is not None):
                raise StartError(
                    f"The records of the database {place} are to be {'en' if keys.present else 'de'}crypted, "
                    f"and nodes run that would go on without that: {', '.join(living)}.",
                    "Stop all nodes, and start them with the same master key.",
                )
            # Other nodes may run: what they change must not be overwritten with what was read before.
            lock_records(connection, changes=True)
            connection.execute(_ADD_CHECK, (CHECK_KEY.encode(), b"true"))
            for shelf, key, value in records_of(connection, _NEXT_PAGE):
                connection.execute(
                    "UPDATE shelves SET value = %s WHERE shelf = %s AND key = %s",
                    (convert(shelf, key, value), shelf, key),
                )

        return keys_of_records.reencrypt(found, keys, rewrite, kind="database", database=place)
