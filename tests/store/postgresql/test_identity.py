"""Which server the connections lead to: a standby that was promoted may lack what was stored last."""

from collections.abc import Iterator
from functools import partial

import psycopg
import pytest
import trio

from hookgw.store.postgresql.store import POLL
from tests.fleet.links import open_link
from tests.fleet.nodes import url_at
from tests.public.concurrency import Clock
from tests.public.kernel import Conflict, StorageUnavailable
from tests.public.postgresql import PostgresqlStore, Server, open_store
from tests.public.store import EventQuery
from tests.store.support import LANE, Listener, ids_of, seqs_of, to
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, run_postgres
from tests.support.waits import until

pytestmark = pytest.mark.process
CRASH = 3
MANY = 100
"""More events than a sequence gives numbers for with one record of its log, which the standby has already."""


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary, and a standby that commits do not wait for."""
    with run_postgres(listen=free_port()) as primary, primary.with_standby(free_port()) as standby:
        primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
        primary.execute("SELECT pg_reload_conf()")
        yield primary, standby


async def replicated(primary: PostgresServer, standby: PostgresServer) -> None:
    """Wait until the standby has everything, and let nothing more get to it."""
    (position,) = primary.execute("SELECT pg_current_wal_insert_lsn()")[0]
    await until(lambda: standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") == [(True,)])
    standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
    standby.execute("SELECT pg_reload_conf()")
    await until(lambda: not primary.execute("SELECT 1 FROM pg_stat_replication"))


async def stored(store: PostgresqlStore, event: str) -> None:
    with trio.fail_after(40):
        while True:
            try:
                assert await store.append(to(event)) == [True]
            except StorageUnavailable:
                await trio.sleep(0.05)
            else:
                return


async def listened_to(server: PostgresServer) -> None:
    """Wait until somebody hears there of what other nodes append."""
    listening = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    with trio.fail_after(30):
        while not await trio.to_thread.run_sync(server.execute, listening):  # noqa: ASYNC110
            await trio.sleep(0.05)


async def test_a_promoted_standby_is_noticed_whatever_another_node_has_written_there(
    servers: tuple[PostgresServer, PostgresServer],
) -> None:
    """It gives the numbers of lost deliveries to others: a node that knows those would settle them."""
    primary, standby = servers
    url = url_at(primary.port, standby.port)
    async with (
        open_store(Server(url), clock=Clock()) as one,
        open_store(Server(url), clock=Clock()) as two,
    ):
        heard = Listener()
        two.subscribe(heard)
        for store in (one, two):
            store.share(lambda _: True)
            store.writer.guard = None  # this test is not about membership
        await stored(one, "before")
        await replicated(primary, standby)
        for number in range(MANY):
            await stored(one, f"lost{number}")
        await until(lambda: len(heard.deliveries) > MANY)
        await trio.to_thread.run_sync(partial(primary.stop, CRASH))
        await trio.to_thread.run_sync(standby.execute, "SELECT pg_promote()")
        for number in range(MANY):
            await stored(one, f"new{number}")
        assert await ids_of(one) == ["before", *(f"new{number}" for number in range(MANY))]
        # Not only that of the event before.
        assert len({delivery.seq for delivery in heard.deliveries} & {*await seqs_of(one)}) > 1
        # It has committed nothing before, and the numbers of transactions are beyond those that it has seen.
        await until(lambda: two.server.identity.switches)
        assert await ids_of(two) == await ids_of(one)


END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'hookgw%'"


async def test_a_former_primary_that_comes_back_is_not_used(
    servers: tuple[PostgresServer, PostgresServer],
) -> None:
    """It lacks what the new one has stored since, and the only name leads to it."""
    primary, standby = servers
    port = primary.port
    async with (
        open_link(lambda: port) as link,
        open_store(Server(url_at(link.port)), clock=Clock()) as store,
    ):
        await stored(store, "before")
        await replicated(primary, standby)
        await trio.to_thread.run_sync(partial(primary.stop, CRASH))
        await trio.to_thread.run_sync(standby.execute, "SELECT pg_promote()")
        port = standby.port
        await stored(store, "after")
        await trio.to_thread.run_sync(primary.start)
        port = primary.port
        await trio.to_thread.run_sync(standby.execute, END)
        await until(lambda: store.server.identity.is_switched)
        await trio.sleep(2.5 * POLL)  # it is looked at again and again
        with pytest.raises(StorageUnavailable, match="former primary"):
            await store.append(to("refused"))
        port = standby.port
        await stored(store, "again")
        assert await ids_of(store) == ["before", "after", "again"]


async def test_a_former_primary_that_stands_first_in_the_url_is_passed_over(
    servers: tuple[PostgresServer, PostgresServer],
) -> None:
    primary, standby = servers
    async with open_store(Server(url_at(primary.port, standby.port)), clock=Clock()) as store:
        await stored(store, "before")
        await replicated(primary, standby)
        await trio.to_thread.run_sync(partial(primary.stop, CRASH))
        await trio.to_thread.run_sync(standby.execute, "SELECT pg_promote()")
        await stored(store, "after")
        await trio.to_thread.run_sync(primary.start)
        await trio.to_thread.run_sync(standby.execute, END)
        await stored(store, "again")
        assert await ids_of(store) == ["before", "after", "again"]
        assert store.server.identity.switches == 1
    # A process that starts knows neither.
    async with open_store(Server(url_at(primary.port, standby.port)), clock=Clock()) as store:
        assert await ids_of(store) == ["before", "after", "again"]


async def test_a_connection_to_a_former_primary_that_lives_on_is_not_used(
    servers: tuple[PostgresServer, PostgresServer],
) -> None:
    """It would read what was pending there: lanes would pass over what is pending at the new one."""
    primary, standby = servers
    port = primary.port
    async with (
        open_link(lambda: port) as link,
        open_store(Server(url_at(link.port, standby.port)), clock=Clock()) as store,
    ):
        store.share(lambda _: True)
        store.writer.guard = None  # this test is not about membership
        await stored(store, "before")
        assert await ids_of(store) == ["before"]
        await listened_to(primary)
        await replicated(primary, standby)
        await trio.to_thread.run_sync(standby.execute, "SELECT pg_promote()")
        port = free_port()  # no new connection gets there
        end = f"SELECT pg_terminate_backend({store.writer.backend})"
        await trio.to_thread.run_sync(primary.execute, end)
        await stored(store, "after")
        assert await ids_of(store) == ["before", "after"]
        await listened_to(standby)


async def test_a_cursor_of_what_a_promotion_lost_is_refused_and_an_earlier_one_goes_on(
    servers: tuple[PostgresServer, PostgresServer],
) -> None:
    """What is accepted afterwards gets lower places: a reader would pass over it."""
    primary, standby = servers
    oldest_first = partial(EventQuery, instance="shop", is_oldest_first=True)
    async with open_store(Server(url_at(primary.port, standby.port)), clock=Clock()) as store:
        for name in ("one", "two", "three"):
            await stored(store, name)
        kept = (await store.list_events(oldest_first(limit=1))).cursor
        kept_place = (await store.read_lane(LANE, after=-1, limit=1)).deliveries[0].position
        former = await store.generation()
        await replicated(primary, standby)
        for number in range(MANY):
            await stored(store, f"lost{number}")
        lost = (await store.list_events(oldest_first(limit=MANY))).cursor
        lost_place = (await store.read_lane(LANE, after=-1, limit=2 * MANY)).deliveries[-1].position
        await trio.to_thread.run_sync(partial(primary.stop, CRASH))
        await trio.to_thread.run_sync(standby.execute, "SELECT pg_promote()")
        await stored(store, "new")
        page = await store.list_events(oldest_first(cursor=kept))
        assert [one.event.id for one in page.events] == ["two", "three", "new"]
        with pytest.raises(Conflict):
            await store.list_events(oldest_first(cursor=lost))
        assert await store.has_place(former, kept_place)
        assert not await store.has_place(former, lost_place)
        newest = (await store.read_lane(LANE, after=-1, limit=9)).deliveries[-1].position
        assert await store.has_place(await store.generation(), newest)


def test_a_pooler_that_sends_reads_to_a_standby_is_refused(
    servers: tuple[PostgresServer, PostgresServer],
) -> None:
    """As pgpool does by default. Its connections accept writes, which go to the primary."""
    _, standby = servers
    with (
        psycopg.connect(standby.url(), autocommit=True) as connection,
        pytest.raises(psycopg.OperationalError, match="load_balance_mode"),
    ):
        Server(standby.url()).identity.check(connection)


def test_a_server_that_keeps_its_timeline_to_itself_is_used(postgres: PostgresServer) -> None:
    """As services that are compatible with PostgreSQL do."""
    postgres.execute("CREATE ROLE secretive LOGIN")
    postgres.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC")
    try:
        server = Server(postgres.url().replace("user=hookgw", "user=secretive"))
        server.connect().close()
        server.connect().close()
    finally:
        postgres.execute("GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO PUBLIC")
        postgres.execute("DROP ROLE secretive")
