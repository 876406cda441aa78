"""What is removed of the audit, by whatever plan the server chooses."""

import re
from collections.abc import Callable
from importlib import import_module
from inspect import getmembers
from pkgutil import iter_modules

import psycopg
import pytest

import hookgw.store.postgresql as engine
from hookgw.store.postgresql.audit import remove_old, remove_oldest_of
from tests.public.postgresql import Transaction

# Without these, the server joins by nested loops, and runs a subquery that is the inner side of one for
# each row of the outer side.
PLANS = ("hashjoin", "mergejoin", "material", "memoize", "hashagg", "sort")


@pytest.fixture(params=["as usual", "nested loops"])
def audit(connection: psycopg.Connection, request: pytest.FixtureRequest) -> psycopg.Connection:
    """A connection to an audit of six entries of one instance."""
    if request.param == "nested loops":
        for plan in PLANS:
            connection.execute(f"SET enable_{plan} = off".encode())
    connection.execute(
        """INSERT INTO audit (at, instance, instance_id, action, entry)
        SELECT g, 'shop', 'id-1', 'key.create', '' FROM generate_series(1, 6) g"""
    )
    return connection


@pytest.mark.parametrize(
    "remove",
    [lambda writer: remove_old(writer, 9, 2), lambda writer: remove_oldest_of(writer, "shop", 2)],
    ids=["by age", "of an instance"],
)
def test_no_more_is_removed_than_was_asked_for(
    audit: psycopg.Connection, remove: Callable[[Transaction], int]
) -> None:
    with audit.transaction():
        assert remove(Transaction(audit, 9)) == 2
    assert audit.execute("SELECT array_agg(at ORDER BY at) FROM audit").fetchone() == ([3, 4, 5, 6],)


def test_no_statement_changes_rows_that_a_subquery_of_in_chooses_and_locks() -> None:
    statements = {
        f"{module.name}.{name}": value
        for module in iter_modules(engine.__path__, f"{engine.__name__}.")
        for name, value in getmembers(import_module(module.name), lambda value: isinstance(value, str))
        if re.match(r"\s*(DELETE|UPDATE|WITH)\b", value)
    }
    assert len(statements) > 20
    chosen = re.compile(r"\bIN\s*\(\s*SELECT\b(?:(?!\)\)).)*\bLIMIT\b[^()]*\bFOR UPDATE\b", re.DOTALL)
    assert [name for name, statement in statements.items() if chosen.search(statement)] == []
