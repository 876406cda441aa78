"""The meaning of the server's errors."""

from __future__ import annotations

import psycopg

# SQLSTATE classes of mistakes in what we sent; to report a bug of ours as a lost server would hide it. All
# others (connection, resources, operator, system, corruption, read-only) are the server's. So are those of
# constraints, except NOT NULL: hookgw has unique keys alone, whose numbers a sequence gives twice if it was
# not copied with its table. Others are the operator's.
_OURS = ("0A", "21", "22", "23502", "2F", "34", "3F", "42")

# Data and index corrupted, an error of the disk, a file that is missing.
UNREADABLE = ("XX001", "XX002", "58030", "58P01")

# Of these classes, but the operator's doing and never the caller's fault: a right that was taken away, a
# schema that was dropped.
_OPERATORS = ("42501", "3F000")

LOST = (psycopg.OperationalError, psycopg.InternalError)
"""What the driver raises if a connection is lost, and for other reasons.

The second comes behind a pooler, which adds an error to the server's last one: two results of one ``BEGIN``.
"""

# A transaction that lost against another one, and is to run again.
CONFLICTS = ("40001", "40P01")


def is_server_error(error: BaseException) -> bool:
    """Return whether an error is one of the server or the way to it, not a bug or a bad value."""
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:  # libpq's own: the connection failed. Others come from the driver, for our mistakes.
        return isinstance(error, LOST)
    is_in_function = error.diag.internal_query is not None or bool(_function_of(error))
    is_operators = is_in_function or state in _OPERATORS or has_old_plan(error)
    return is_operators or not state.startswith(_OURS)


def has_old_plan(error: psycopg.Error) -> bool:
    """Return whether somebody has changed the type of a column in a statement that is prepared."""
    return error.diag.source_function == "RevalidateCachedQuery"


def _function_of(error: psycopg.Error) -> str:
    """Return where in a function an error was raised, in the server's words; empty if in a statement itself.

    Such a function is that of a trigger which an operator has given one of hookgw's tables.
    """
    lines = (error.diag.context or "").splitlines()
    # Other lines may have values of rows.
    return next((line for line in lines if "PL/" in line), "")


def first_line(error: psycopg.Error) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def reason_of(error: psycopg.Error) -> str:
    """Return why the server refuses, in one line."""
    if "exit pipeline mode" in str(error) and isinstance(error.__context__, psycopg.Error):
        error = error.__context__  # what ended the pipeline
    primary = error.diag.message_primary
    text = primary or first_line(error)
    function = _function_of(error)
    where = f", in {function}" if function else ""
    state = f" ({error.sqlstate}{where})" if error.sqlstate else ""
    return f"{text.rstrip('.: ')}{state}."
