"""What errors of the server mean."""

import psycopg
import pytest

from tests.public.postgresql import (
    Server,
    is_server_error,
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.OperationalError("the connection is lost"), True),
        (psycopg.InternalError("received 2 results from command 'BEGIN'"), True),
        (psycopg.errors.DiskFull("no space"), True),
        (psycopg.errors.ReadOnlySqlTransaction("a standby"), True),
        (psycopg.errors.InsufficientPrivilege("permission denied"), True),
        (psycopg.errors.DeadlockDetected("deadlock"), True),
        (psycopg.errors.SyntaxError("a bug"), False),
        (psycopg.errors.UniqueViolation("a sequence was not copied with its table"), True),
        (psycopg.errors.NotNullViolation("a bug"), False),
        (psycopg.errors.CheckViolation("of a rule that hookgw's tables do not have"), True),
        (psycopg.errors.ForeignKeyViolation("the same"), True),
        (psycopg.ProgrammingError("can't adapt"), False),
        (ValueError("a bug"), False),
    ],
)
def test_what_the_server_is_to_blame_for(error: Exception, expected: bool) -> None:
    assert is_server_error(error) == expected


def test_a_reason_that_has_no_words_ends_as_a_sentence() -> None:
    """As that of pgpool, when it loses its server while a client connects."""
    error = psycopg.OperationalError(
        'connection failed: connection to server at "db.test", port 5432 failed:'
    )
    assert str(Server("postgresql://db.test/hooks").unavailable(error)).endswith("port 5432 failed.")
