"""Small things that statements need: the numbers of instances, and texts that the server accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from psycopg import Connection

NEWEST_EVENT = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_numbers"
"""SQL: the highest number that an event got."""
_INSTANCE = "SELECT number FROM instance_numbers WHERE name = %s"


def instance_number(connection: Connection, name: str) -> int | None:
    """Return the number of an instance; ``None`` if it has no event."""
    row = connection.execute(_INSTANCE, (sought(name),)).fetchone()
    return None if row is None else row[0]


def sought(text: str) -> str:
    """Return a text of a caller as stored texts have it: a search for it must not be an error."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def columns_of(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return rows as the arrays that ``unnest`` makes rows of."""
    return [list(column) for column in zip(*rows, strict=True)]


def count_rows(connection: Connection, statement: str, given: Sequence[Any] = ()) -> int:
    """Run a statement that changes rows, and return how many it has changed."""
    # In a pipeline, rowcount is not known until the answer is there, for which only fetchone() waits.
    counting = f"WITH done AS ({statement} RETURNING 1) SELECT count(*) FROM done"  # noqa: S608 - constants
    counted: int = one_row(connection, counting, given)[0]
    return counted


def one_row(
    connection: Connection, statement: str, given: Mapping[str, Any] | Sequence[Any] = ()
) -> tuple[Any, ...]:
    """Run a statement that always gives one row, and return it."""
    row = connection.execute(statement, given).fetchone()
    assert row is not None  # noqa: S101
    return row


def backend_pid(connection: Connection) -> int:
    """Return the server's number of the process that answers: behind a pooler, not always the same one."""
    return int(one_row(connection, "SELECT pg_backend_pid()")[0])
