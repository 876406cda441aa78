"""Shelves: ``shelve.Shelf`` over a table of the data file, with JSON values.

The standard library's own files lose keys when the process is killed, and its pickles can run code
when they are read. Here the table commits with everything else, and a value is the JSON of a typed
record or it is an error.
"""

from __future__ import annotations

import shelve
import sqlite3
from collections.abc import Iterator, MutableMapping
from typing import Any, TypeVar

import msgspec

from hookgw.models.errors import StorageUnavailable
from hookgw.models.instances import Instance
from hookgw.models.registrations import Registration
from hookgw.store.encryption import DecryptionFailed, RecordCipher

T = TypeVar("T")


def place_of(shelf: str, key: bytes) -> bytes:
    """What ties a sealed record to its place."""
    return shelf.encode() + b"\0" + key


class Table(MutableMapping[bytes, bytes]):
    """One shelf's rows, keys and values as bytes.

    Args:
        connection: where the table ``shelves`` is; every call runs on it at once.
        shelf: the shelf's name.
    """

    def __init__(self, connection: sqlite3.Connection, shelf: str) -> None:
        self._connection = connection
        self.shelf = shelf

    def __getitem__(self, key: bytes) -> bytes:
        row = self._connection.execute(
            "SELECT value FROM shelves WHERE shelf = ? AND key = ?", (self.shelf, key)
        ).fetchone()
        if row is None:
            raise KeyError(key)
        return bytes(row[0])

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._connection.execute("REPLACE INTO shelves VALUES (?, ?, ?)", (self.shelf, key, value))

    def __delitem__(self, key: bytes) -> None:
        statement = "DELETE FROM shelves WHERE shelf = ? AND key = ?"
        if not self._connection.execute(statement, (self.shelf, key)).rowcount:
            raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        statement = "SELECT key FROM shelves WHERE shelf = ? ORDER BY key"
        return iter([row[0] for row in self._connection.execute(statement, (self.shelf,))])

    def __len__(self) -> int:
        statement = "SELECT count(*) FROM shelves WHERE shelf = ?"
        return int(self._connection.execute(statement, (self.shelf,)).fetchone()[0])

    def rows(self) -> list[tuple[bytes, bytes]]:
        """All keys with their values, by one statement."""
        statement = "SELECT key, value FROM shelves WHERE shelf = ? ORDER BY key"
        return self._connection.execute(statement, (self.shelf,)).fetchall()


class RecordShelf(shelve.Shelf[T]):
    """A shelf of records of one type, as JSON; sealed, where there is a master key.

    Args:
        table: where they are.
        record: the type, anything that msgspec can decode.
        sealer: seals every value; ``None`` keeps them in the clear.

    Every method raises ``sqlite3.Error`` as the disk does; reading a value that is no JSON of the
    type, or cannot be opened, raises ``StorageUnavailable`` and names the shelf and the key.
    """

    def __init__(self, table: Table, record: type[T], sealer: RecordCipher | None = None) -> None:
        super().__init__(table)
        self._table = table
        self._sealer = sealer
        self._decoder = msgspec.json.Decoder(record)

    def __getitem__(self, key: str) -> T:
        return self._decode(key, self._table[key.encode()])

    def __setitem__(self, key: str, value: T) -> None:
        encoded, name = msgspec.json.encode(value), key.encode()
        if self._sealer is not None:
            encoded = msgspec.json.encode(self._sealer.seal(place_of(self._table.shelf, name), encoded))
        self._table[name] = encoded

    def load(self) -> dict[str, T]:
        """Everything on the shelf, by one statement, in the order of the keys."""
        return {(name := key.decode()): self._decode(name, value) for key, value in self._table.rows()}

    def _decode(self, key: str, value: bytes) -> T:
        try:
            if self._sealer is not None:
                sealed = msgspec.json.decode(value)
                value = self._sealer.open(place_of(self._table.shelf, key.encode()), str(sealed))
            return self._decoder.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, DecryptionFailed) as error:
            raise StorageUnavailable(
                f"The data file is damaged: on the shelf {self._table.shelf}, {key!r} is no record ({error})."
            ) from error


class Shelves:
    """The shelves of one connection.

    Args:
        connection: has the table ``shelves``.
        sealer: seals the values; ``None`` where they are in the clear.

    Attributes:
        instances: by name.
        registrations: by registration id.
        moves: the lanes in which pending deliveries of a registration may still be that belong into those
            it has now, by registration id.
        values: plain JSON values, such as the hash of the global key.
    """

    def __init__(self, connection: sqlite3.Connection, sealer: RecordCipher | None = None) -> None:
        self.instances: RecordShelf[Instance] = RecordShelf(Table(connection, "instances"), Instance, sealer)
        self.registrations: RecordShelf[Registration] = RecordShelf(
            Table(connection, "registrations"), Registration, sealer
        )
        self.moves: RecordShelf[list[str]] = RecordShelf(Table(connection, "moves"), list[str], sealer)
        self.values: RecordShelf[Any] = RecordShelf(Table(connection, "values"), object, sealer)
