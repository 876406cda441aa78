"""Records of a database are brought to the present master key at start."""

import psycopg
import pytest

from tests.public.concurrency import Clock
from tests.public.config import MasterKeys
from tests.public.kernel import StartError
from tests.public.postgresql import Server, open_store

A, B = bytes([1] * 32), bytes([2] * 32)


async def put(database: Server, keys: MasterKeys, *names: str) -> None:
    async with open_store(database, clock=Clock(), keys=keys) as store:
        for name in names:
            await store.put_value(name, {"secret": "hush"})


async def check(database: Server, keys: MasterKeys, *names: str) -> None:
    async with open_store(database, clock=Clock(), keys=keys) as store:
        for name in names:
            assert await store.get_value(name) == {"secret": "hush"}


def clear_rows(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM shelves WHERE position('hush' IN value) > 0").fetchone()
    assert row is not None
    count: int = row[0]
    return count


async def test_from_clear_to_a_key_to_another_and_back(
    database: Server, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.store.reencrypt.PAGE", 2)
    names = ("a", "b", "c", "d", "e")
    await put(database, MasterKeys(), *names)
    assert clear_rows(connection) == 5
    await check(database, MasterKeys(A), *names)
    assert clear_rows(connection) == 0
    await check(database, MasterKeys(B, (A,)), *names)
    await check(database, MasterKeys(B), *names)
    await check(database, MasterKeys(None, (B,), unseal=True), *names)
    assert clear_rows(connection) == 5


async def test_a_key_that_is_missing_stops_the_start(database: Server) -> None:
    await put(database, MasterKeys(A), "a")
    with pytest.raises(StartError, match=r"The database .* is encrypted with the master key"):
        await check(database, MasterKeys(B))
    with pytest.raises(StartError, match="no master key is configured"):
        await check(database, MasterKeys())


async def test_a_planted_record_stops_the_start(database: Server, connection: psycopg.Connection) -> None:
    await put(database, MasterKeys(A), "a")
    connection.execute("INSERT INTO shelves VALUES ('values', 'planted', '{}')")
    with pytest.raises(StartError, match="in the clear among encrypted ones"):
        await check(database, MasterKeys(A))


async def test_nodes_with_both_keys_change_them_one_after_the_other(database: Server) -> None:
    before, after = MasterKeys(A, (B,)), MasterKeys(B, (A,))
    async with open_store(database, clock=Clock(), keys=before) as running:
        await running.put_value("a", 1)
        async with open_store(database, clock=Clock(), keys=after) as restarted:
            assert await restarted.get_value("a") == 1
            assert await running.get_value("a") == 1
            await running.put_value("b", 2)
            assert await restarted.get_value("b") == 2
    async with open_store(database, clock=Clock(), keys=MasterKeys(B, (A,))) as last:
        assert await last.get_value("b") == 2
    async with open_store(database, clock=Clock(), keys=MasterKeys(B)) as last:
        assert await last.get_value("b") == 2


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (MasterKeys(), MasterKeys(A), "encrypted"),
        (MasterKeys(A), MasterKeys(None, (A,), unseal=True), "decrypted"),
    ],
)
async def test_records_stay_as_they_are_while_a_node_runs_that_would_mix_them(
    database: Server, connection: psycopg.Connection, before: MasterKeys, after: MasterKeys, what: str
) -> None:
    async with open_store(database, clock=Clock(), keys=before) as running:
        await running.members.join("node-a", "")
        await running.put_value("a", 1)
        connection.execute(
            "UPDATE nodes SET heartbeat_at = heartbeat_at + interval '1 h'"
        )  # it sends no other
        with pytest.raises(StartError, match=f"are to be {what}, and nodes run .*: node-a"):
            await check(database, after)
        await running.put_value("b", 2)
        await running.members.leave()
    async with open_store(database, clock=Clock(), keys=after) as started:
        assert await started.get_value("b") == 2
