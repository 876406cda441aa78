"""What an erasure leaves in the tables of the server."""

import json

import psycopg
import pytest
from psycopg import Connection
from structlog.testing import capture_logs

from hookgw.store.postgresql import erase
from tests.public.concurrency import Clock
from tests.public.kernel import StorageUnavailable
from tests.public.postgresql import Server, open_store
from tests.store.support import to
from tests.support.postgres import PostgresServer

ANA = "5511988887777@s.whatsapp.net"


async def test_erased_rows_are_cleaned_up(database: Server, connection: Connection) -> None:
    async with open_store(database, clock=Clock()) as store:
        await store.append(to(*(f"e{n}" for n in range(50)), data=json.dumps({"remoteJid": ANA})))
        found = await store.find_concerned("shop", ANA, await store.cancel_cursor())
        assert (await store.erase(found.events, ANA)).events == 50
        assert await store.scrub()
    # A page that is cleaned up, and has nothing but what everybody sees, is marked as such.
    for table in ("deliveries", "events"):
        row = connection.execute(
            "SELECT relpages, relallvisible FROM pg_class WHERE oid = %s::regclass", (table,)
        ).fetchone()
        assert row is not None
        assert row[0] == row[1]


async def test_a_table_that_is_in_use_is_left(
    database: Server, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "SCRUB_PATIENCE", 0.1)
    async with open_store(database, clock=Clock()) as store:
        with connection.transaction():
            connection.execute("LOCK TABLE events IN SHARE MODE")
            assert not await store.scrub()
        assert await store.scrub()


def test_a_server_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Server, patience: float) -> Connection:
        raise psycopg.OperationalError("gone")

    monkeypatch.setattr(Server, "connect", refuse)
    with pytest.raises(StorageUnavailable, match="gone"):
        erase.remove_dead_rows(Server("postgresql:///x"))


async def test_a_snapshot_that_may_still_read_erased_rows_is_no_success(
    database: Server, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "SCRUB_PATIENCE", 1.0)
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("e", data=json.dumps({"remoteJid": ANA})))
        found = await store.find_concerned("shop", ANA, await store.cancel_cursor())
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM events")
            await store.erase(found.events, ANA)
            with capture_logs() as logs:
                assert not await store.scrub()
        [said] = [entry for entry in logs if "may still read" in entry["event"]]
        assert str(connection.info.backend_pid) in said["holders"][0]
        assert await store.scrub()


async def test_a_table_of_another_owner_is_no_success(
    database: Server, connection: Connection, postgres: PostgresServer
) -> None:
    postgres.execute("CREATE ROLE guest LOGIN")
    postgres.execute(f"GRANT USAGE ON SCHEMA {database.schema} TO guest")
    try:
        guest = Server(postgres.url().replace("user=hookgw", "user=guest"), database.schema)
        with capture_logs() as logs:
            assert not erase.remove_dead_rows(guest)
        assert any("events" in str(entry.get("reason")) for entry in logs)
    finally:
        postgres.execute("DROP OWNED BY guest")
        postgres.execute("DROP ROLE guest")
