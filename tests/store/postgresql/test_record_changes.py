from contextlib import closing, suppress
from functools import partial

import pytest
from psycopg import Connection
from psycopg.errors import LockNotAvailable

from tests.public.postgresql import RECORD_CHANGES_VERSION as VERSION
from tests.public.postgresql import PostgresqlTable, Server, lock_records, read_changes
from tests.public.records import Instance, Key
from tests.public.store import RecordChanges, Shelves


def versions(connection: Connection) -> dict[tuple[str, str], int]:
    rows = connection.execute("SELECT shelf, convert_from(key, 'UTF8'), version FROM record_changes")
    return {(shelf, key): version for shelf, key, version in rows.fetchall()}


def test_each_change_of_a_record_has_a_version(connection: Connection) -> None:
    connection.execute("INSERT INTO shelves VALUES ('instances', 'shop', '1')")
    first = versions(connection)[("instances", "shop")]
    connection.execute("INSERT INTO shelves VALUES ('registrations', 'reg_1', '1')")
    connection.execute("UPDATE shelves SET value = '2' WHERE key = 'shop'")
    connection.execute("DELETE FROM shelves WHERE key = 'reg_1'")
    found = versions(connection)
    assert found.keys() == {("instances", "shop"), ("registrations", "reg_1")}
    assert first < found[("instances", "shop")] < found[("registrations", "reg_1")]
    assert connection.execute(VERSION).fetchone() == (found[("registrations", "reg_1")],)


@pytest.mark.parametrize("shelf", ["states", "jobs", "values"])
def test_what_one_node_keeps_for_itself_has_none(connection: Connection, shelf: str) -> None:
    connection.execute("INSERT INTO shelves VALUES (%s, 'x', '1')", (shelf,))
    assert versions(connection) == {}


def test_values_that_all_nodes_know_have_one(connection: Connection) -> None:
    connection.execute("INSERT INTO shelves VALUES ('values', 'disabled_webhooks.all', '1')")
    assert versions(connection).keys() == {("values", "disabled_webhooks.all")}


def test_accepting_waits_for_a_change_that_is_not_committed_and_for_nothing_else(
    connection: Connection, database: Server
) -> None:
    with closing(database.connect()) as other:
        other.execute("SET lock_timeout = '50ms'")
        with connection.transaction(), other.transaction():
            lock_records(connection, changes=False)
            lock_records(other, changes=False)
        with connection.transaction():
            connection.execute("INSERT INTO shelves VALUES ('states', 'x', '1')")
            with other.transaction():
                lock_records(other, changes=False)
        with connection.transaction():
            connection.execute("INSERT INTO shelves VALUES ('instances', 'shop', '1')")
            with pytest.raises(LockNotAvailable), other.transaction():
                lock_records(other, changes=False)


def test_what_has_changed_is_read_with_the_version(connection: Connection) -> None:
    instance = Instance(name="shop", id="1")
    shelves = Shelves(partial(PostgresqlTable, connection), None)
    shelves.instances["shop"] = instance
    first = read_changes(connection, 0, None)
    assert first.instances == {"shop": instance}
    assert (first.registrations, first.sessions, first.keys) == ({}, {}, {})
    assert read_changes(connection, first.version, None) == RecordChanges(first.version)
    del shelves.instances["shop"]
    shelves.keys["acme"] = key = Key(name="acme", hash="aa", rights=("read",))
    second = read_changes(connection, first.version, None)
    assert (second.instances, second.keys) == ({"shop": None}, {"acme": key})
    del shelves.keys["acme"]
    shelves.values["disabled_webhooks.all"] = "Gone."
    third = read_changes(connection, second.version, None)
    assert (third.disabled_webhooks, third.keys) == ({"all": "Gone."}, {"acme": None})
    shelves.values["disabled_webhooks.all"] = None
    assert read_changes(connection, third.version, None).disabled_webhooks == {"all": None}


def test_a_change_that_was_undone_is_passed_over(connection: Connection) -> None:
    # Its version is used up. A node that never got there would read the changes for ever.
    with suppress(Undone), connection.transaction():
        connection.execute("INSERT INTO shelves VALUES ('instances', 'shop', '{}')")
        raise Undone
    found = read_changes(connection, 0, None)
    assert found.instances == {}
    assert connection.execute(VERSION).fetchone() == (found.version,)


class Undone(Exception):
    pass
