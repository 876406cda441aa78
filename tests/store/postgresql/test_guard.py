"""A store whose node others have removed, and events that were addressed by old records."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from psycopg import Connection

from tests.public.concurrency import Clock
from tests.public.kernel import StorageUnavailable
from tests.public.postgresql import PostgresqlStore, Server, open_store
from tests.public.records import FIRST, Instance
from tests.public.store import ConnectorState, RecordsChanged
from tests.store.support import LANE, delivered, to
from tests.support.postgres import PostgresServer
from tests.support.waits import until

STATE = ConnectorState(instance="shop", instance_id="1", state_json=b"1")
SHOP = Instance(name="shop", id="1")


@asynccontextmanager
async def opened(
    database: Server, node: str = "a", removed: Callable[[], None] = lambda: None
) -> AsyncIterator[PostgresqlStore]:
    async with open_store(database, clock=Clock()) as store:
        store.share(lambda _: True, removed=removed)
        await store.members.join(node, "")
        await catch_up(store)
        yield store


async def catch_up(store: PostgresqlStore) -> None:
    store.members.known_version = (await store.members.changes()).version


def remove(connection: Connection) -> None:
    """Do what another node does that finds all others dead."""
    connection.execute("DELETE FROM members")
    connection.execute("DELETE FROM nodes")


async def test_a_removed_node_settles_nothing(database: Server, connection: Connection) -> None:
    async with opened(database) as store:
        await store.append(to("e1", "e2"))
        first, second = (await store.read_lane(LANE, FIRST, 10)).deliveries
        store.settle_nowait(delivered(first.seq))
        await store.flush()
        remove(connection)
        store.settle_nowait(delivered(second.seq))
        await store.flush()
        assert [one.seq for one in (await store.read_lane(LANE, FIRST, 10)).deliveries] == [second.seq]
        # As a member again, it can.
        await store.members.join("a", "")
        store.settle_nowait(delivered(second.seq))
        await store.flush()
        assert (await store.read_lane(LANE, FIRST, 10)).deliveries == []


async def test_the_first_commit_tells_a_node_that_it_was_removed(
    database: Server, connection: Connection
) -> None:
    """All clocks of its machine stood still, so its lease seems valid."""
    heard: list[str] = []
    async with opened(database, removed=lambda: heard.append("removed")) as store:
        await store.append(to("e1", "e2"))
        first, second = (await store.read_lane(LANE, FIRST, 10)).deliveries
        store.settle_nowait(delivered(first.seq))
        await store.flush()
        assert heard == []
        remove(connection)
        store.settle_nowait(delivered(second.seq))
        await store.flush()
        assert heard == ["removed"]


async def test_a_removed_node_stores_nothing_of_its_connectors_and_changes_nothing(
    database: Server, connection: Connection
) -> None:
    async with opened(database) as store:
        await store.append(to("e1"), state=STATE)
        remove(connection)
        with pytest.raises(StorageUnavailable, match="taken over"):
            await store.append(to("e2"), state=STATE)
        with pytest.raises(StorageUnavailable, match="taken over"):
            await store.put_instance(SHOP)
        # Events of producers are stored by any node.
        assert await store.append(to("e3")) == [True]
        assert await store.load_instances() == {}
        assert await store.load_state("1") == 1
        assert len((await store.read_lane(LANE, FIRST, 10)).deliveries) == 2


async def test_the_events_of_a_connector_need_the_shard_also_without_a_state(
    database: Server, connection: Connection, postgres: PostgresServer
) -> None:
    async with opened(database) as a:
        await a.members.claim()
        epoch = a.members.epoch_of(5)
        assert await a.append(to("e1"), epoch=epoch) == [True]
        # Frozen, found dead, and replaced.
        connection.execute("UPDATE nodes SET heartbeat_at = heartbeat_at - interval '1 h'")
        runs = f"SELECT 1 FROM pg_stat_activity WHERE pid = {a.writer.backend}"
        async with opened(Server(postgres.url(), database.schema), "b") as b:
            assert 5 in await b.members.claim()
            await until(lambda: not postgres.execute(runs))
            refused = []

            async def raise_event() -> None:
                with pytest.raises(StorageUnavailable, match="another node"):
                    await a.append(to("e2"), epoch=epoch)
                refused.append("e2")

            # In the same commit, what a producer emits is stored.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(raise_event)
                nursery.start_soon(a.append, to("e3"))
            assert refused == ["e2"]
            assert await b.append(to("e4"), epoch=b.members.epoch_of(5)) == [True]
            found = (await b.read_lane(LANE, FIRST, 10)).deliveries
            assert sorted(one.event.id for one in found) == ["e1", "e3", "e4"]


async def test_what_was_raised_before_a_shard_moved_away_and_back_is_refused(database: Server) -> None:
    async with opened(database) as store:
        await store.members.claim()
        epoch = store.members.epoch_of(5)
        await store.members.give({5})
        with pytest.raises(StorageUnavailable, match="another node"):
            store.members.epoch_of(5)
        await store.members.claim()
        with pytest.raises(StorageUnavailable, match="another node"):
            await store.append(to("e1"), epoch=epoch)
        assert await store.append(to("e1"), epoch=store.members.epoch_of(5)) == [True]


async def test_a_commit_with_events_of_connectors_does_not_wait_for_a_node_that_takes_over(
    database: Server,
) -> None:
    async with opened(database) as a, opened(database, "b") as b:
        await a.members.claim()
        await b.members.claim()

        async def raise_events() -> None:
            for number in range(30):
                await a.append(to(f"e{number}"), epoch=a.members.epoch_of(5), state=STATE)

        async def move() -> None:
            for _ in range(30):
                await a.members.give({6})
                await b.members.claim()
                await b.members.give({6})
                await a.members.claim()

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(raise_events)
                nursery.start_soon(move)


async def test_events_that_were_addressed_by_old_records_are_not_stored(database: Server) -> None:
    async with opened(database) as a, opened(database, "b") as b:
        await a.put_instance(SHOP)
        with pytest.raises(RecordsChanged) as caught:
            await b.append(to("e1"))
        assert caught.value.version > b.members.known_version
        await catch_up(b)
        assert await b.append(to("e1")) == [True]


async def test_others_of_the_same_commit_are_stored(database: Server, connection: Connection) -> None:
    async with opened(database) as store:
        known = store.members.known_version
        async with open_store(database, clock=Clock()) as other:
            await other.put_instance(SHOP)
        results: dict[str, object] = {}

        async def append(event: str, version: int) -> None:
            store.members.known_version = version
            try:
                results[event] = await store.append(to(event))
            except RecordsChanged as error:
                results[event] = error.version

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append, "old", known)
            nursery.start_soon(append, "new", known + 100)
        assert results["new"] == [True]
        assert results["old"] == known + 1


async def test_nodes_that_change_records_and_accept_at_once_do_not_wait_for_each_other(
    database: Server,
) -> None:
    async with opened(database) as a, opened(database, "b") as b:

        async def work(store: PostgresqlStore, name: str) -> None:
            for number in range(15):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(store.put_instance, Instance(name=name, id=name))
                    nursery.start_soon(accept, store, f"{name}{number}")

        async def accept(store: PostgresqlStore, event: str) -> None:
            while True:
                try:
                    await store.append(to(event))
                except RecordsChanged:
                    await catch_up(store)
                else:
                    return

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work, a, "shop")
                nursery.start_soon(work, b, "bank")
