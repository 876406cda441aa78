"""What becomes pending is reported once, in order, whichever node did it, and never too early."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
import trio

from hookgw.store.postgresql import feed
from hookgw.store.postgresql import store as store_module
from tests.public.concurrency import Clock
from tests.public.postgresql import PostgresqlStore, Server, open_store
from tests.store.support import LANE, RULE, Listener, Watch, ids_of, pending, seqs_of, settle, to
from tests.store.support import delivered as as_delivered
from tests.support.postgres import PostgresServer
from tests.support.waits import until


def everything(_: str) -> bool:
    return True


class Ear(Listener):
    """A listener that one can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.called = trio.Event()

    def requeued(self, lanes: Any) -> None:
        super().requeued(lanes)
        self.called.set()

    def appended(self, deliveries: Any) -> None:
        super().appended(deliveries)
        self.called.set()


class Node:
    """A store that shares a database, and what it has heard."""

    def __init__(self, store: PostgresqlStore, watch: Watch) -> None:
        self.store = store
        self.watch = watch
        self.listener = Ear()
        store.subscribe(self.listener)

    def heard(self) -> list[str]:
        return [delivery.event.id for delivery in self.listener.deliveries]

    async def wait_heard(self, count: int) -> list[str]:
        with trio.fail_after(30):
            while len(self.listener.deliveries) < count:
                await self.listener.called.wait()
                self.listener.called = trio.Event()
        return self.heard()


@asynccontextmanager
async def nodes(
    server: Server, count: int = 2, wanted: Callable[[str], bool] = everything
) -> AsyncIterator[list[Node]]:
    async with trio.open_nursery() as nursery:
        found: list[Node] = []
        done = trio.Event()

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            watch = Watch()
            async with open_store(server, clock=Clock(), observer=watch) as store:
                store.share(wanted)
                store.writer.guard = None  # these tests are not about membership
                found.append(Node(store, watch))
                task_status.started()
                await done.wait()

        for _ in range(count):
            await nursery.start(run)
        yield found
        done.set()


async def test_what_others_append_between_the_adoption_of_a_server_and_the_next_commit_is_heard(
    database: Server, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit may wait for a standby there, while lanes already read what is pending."""
    released = threading.Event()
    async with (
        nodes(database, 1) as (node,),
        open_store(Server(postgres.url(), database.schema), clock=Clock()) as other,
    ):
        commit = node.store.writer.commit

        def commit_late(*given: Any, **more: Any) -> Any:
            released.wait(30)
            return commit(*given, **more)

        monkeypatch.setattr(node.store.writer, "commit", commit_late)
        database.identity.is_switched = True
        await until(lambda: database.identity.switches)
        assert await ids_of(node.store) == []
        await other.append(to("e1"))
        released.set()
        assert await node.wait_heard(1) == ["e1"]


async def test_a_node_acts_for_no_shard_any_more_before_it_adopts_a_server(database: Server) -> None:
    """Others may take its shards there at once, before its next heartbeat."""
    ended: list[int] = []
    identity = database.identity
    async with open_store(database, clock=Clock()) as store:
        store.share(everything, removed=lambda: ended.append(identity.switches))
        identity.is_switched = True
        await until(lambda: identity.switches)
        assert ended == [0]


async def test_others_hear_of_what_is_appended_and_not_of_outcomes(
    database: Server, connection: psycopg.Connection
) -> None:
    """A commit of outcomes makes nothing pending: it costs no further way to the server, and wakes nobody."""
    async with nodes(database, 1) as (node,):
        channel = f"hookgw_{database.schema}"
        connection.execute(f'LISTEN "{channel}"'.encode())
        await node.store.append(to("e1"))
        (delivery,) = await pending(node.store)
        assert [one.channel for one in connection.notifies(timeout=5, stop_after=1)] == [channel]
        await settle(node.store, as_delivered(delivery.seq))
        assert await pending(node.store) == []
        # In its order among all notifications, so one of the outcome would come first.
        connection.execute(f"NOTIFY \"{channel}\", 'the last one'".encode())
        told = [one.payload for one in connection.notifies(timeout=5, stop_after=1)]
        assert told == ["the last one"]


async def test_a_node_hears_what_others_append(database: Server) -> None:
    async with nodes(database) as (one, two):
        await one.store.append(to("e1", data='{"a": 1}'))
        assert one.heard() == ["e1"]
        assert await two.wait_heard(1) == ["e1"]
        await two.store.append(to("e2"))
        assert await one.wait_heard(2) == ["e1", "e2"]
        places = [(delivery.seq, delivery.position) for delivery in one.listener.deliveries]
        assert places == [(delivery.seq, delivery.position) for delivery in await pending(one.store)]
        # Of another node as they are stored, with times in whole microseconds.
        assert two.listener.deliveries[0] == (await pending(one.store))[0]


async def test_other_nodes_are_woken(database: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "POLL", 3600.0)
    async with nodes(database) as (one, two):
        with trio.fail_after(30):
            while not two.heard():  # the connection that listens may not be there yet
                await one.store.append(to(str(trio.current_time())))
                await trio.sleep(0.05)


async def test_a_node_hears_of_its_lanes_only(database: Server) -> None:
    async with nodes(database, wanted=lambda lane: lane == "reg_2:0") as (one, two):
        await one.store.append([*to("e1"), *to("e2", registration="reg_2"), *to("e3")])
        assert await two.wait_heard(1) == ["e2"]
        assert one.heard() == ["e1", "e2", "e3"]


async def test_nothing_is_read_before_older_transactions_have_ended(
    database: Server, connection: psycopg.Connection
) -> None:
    async with nodes(database, 1) as (one,):
        connection.execute("BEGIN")
        connection.execute("SELECT pg_current_xact_id()")
        assert await one.store.append(to("e1")) == [True]
        assert one.heard() == []
        assert await ids_of(one.store) == []
        assert await one.store.count_pending(LANE) == 0
        connection.execute("COMMIT")
        assert await one.wait_heard(1) == ["e1"]
        assert await ids_of(one.store) == ["e1"]


async def test_a_transaction_that_commits_late_is_in_its_place(
    database: Server, connection: psycopg.Connection
) -> None:
    """The trap: the row of the older transaction has the greater number, and appears last."""
    async with nodes(database, 2) as (one, two):
        # As another node would: its transaction begins first, and takes its numbers last.
        connection.execute("BEGIN")
        row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        await one.store.append(to("later"))
        connection.execute(
            """INSERT INTO events SELECT nextval('event_numbers'), instance, 'earlier', kind, time,
                accepted_at, data, sender, server_url, heard FROM events"""
        )
        connection.execute(
            """INSERT INTO deliveries SELECT n.number, e.seq, d.instance, d.kind, d.registration, d.lane,
                d.state, d.accepted_at, d.size, %s, n.number, d.queued_at, 0, 0, 0
            FROM deliveries d, events e, nextval('delivery_numbers') AS n (number) WHERE e.id = 'earlier'""",
            row,
        )
        await trio.sleep(0.05)
        connection.execute("COMMIT")
        for node in (one, two):
            assert await node.wait_heard(2) == ["earlier", "later"]
            assert await ids_of(node.store) == ["earlier", "later"]


async def test_a_delivery_that_is_sent_again_is_reported_to_all(database: Server) -> None:
    async with nodes(database) as (one, two):
        await one.store.append(to("e1"))
        await two.wait_heard(1)
        [seq] = await seqs_of(one.store)
        await settle(one.store, as_delivered(seq))
        two.listener.take()
        two.listener.called = trio.Event()
        assert await one.store.resend("shop", seq, RULE) == LANE
        with trio.fail_after(30):
            await two.listener.called.wait()
        assert two.listener.take() == [("requeued", {LANE: 1})]


async def test_a_long_page_goes_on_at_once(database: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_ROWS", 3)
    async with nodes(database) as (one, two):
        await one.store.append(to(*(f"e{number}" for number in range(10))))
        assert await two.wait_heard(10) == one.heard()


async def test_lanes_read_large_payloads_themselves(
    database: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST_BYTES", 100)
    async with nodes(database) as (one, two):
        await one.store.append(to("small", "large", data='"' + "x" * 60 + '"'))
        assert await two.wait_heard(1) == ["small"]
        assert ("requeued", {LANE: 1}) in two.listener.calls


async def test_all_nodes_hear_the_same_order(database: Server) -> None:
    """Three nodes append to one lane at the same time, some of it twice, and settle."""
    async with nodes(database, 3) as found:

        async def append(node: Node, name: int) -> None:
            for number in range(30):
                await node.store.append(to(f"{name}.{number}", f"all.{number}"))

        async with trio.open_nursery() as nursery:
            for name, node in enumerate(found):
                nursery.start_soon(append, node, name)
        orders = [await node.wait_heard(120) for node in found]
        assert orders[0] == orders[1] == orders[2]
        assert len(set(orders[0])) == 120
        assert orders[0] == await ids_of(found[0].store)
        positions = [delivery.position for delivery in found[1].listener.deliveries]
        assert positions == sorted(positions)
        await settle(found[2].store, *(as_delivered(seq) for seq in await seqs_of(found[2].store)))
        assert await ids_of(found[0].store) == []


async def test_to_read_is_no_commit(database: Server, connection: psycopg.Connection) -> None:
    async with nodes(database, 1) as (one,):
        connection.execute("BEGIN")
        connection.execute("SELECT pg_current_xact_id()")
        await one.store.append(to("e1"))
        commits = one.watch.commits
        connection.execute("COMMIT")
        await one.wait_heard(1)
        assert one.watch.commits == commits


async def test_a_feed_that_waits_is_not_read_all_the_time(
    database: Server, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    usual = feed.Feed.read

    def read(self: feed.Feed, reading: psycopg.Connection) -> feed.News:
        nonlocal reads
        reads += 1
        return usual(self, reading)

    monkeypatch.setattr(feed.Feed, "read", read)
    async with nodes(database, 1) as (one,):
        connection.execute("BEGIN")
        connection.execute("SELECT pg_current_xact_id()")
        await one.store.append(to("e1"))
        await trio.sleep(0.3)
        assert reads <= 12  # after 2, 4, 8, … ms
        connection.execute("COMMIT")
        await one.wait_heard(1)


async def test_after_a_crash_the_server_gives_numbers_of_transactions_once_more(
    postgres: PostgresServer, database: Server, connection: psycopg.Connection
) -> None:
    """A crash, or a standby, forgets transactions that left nothing behind, with their numbers."""
    # What nobody waits for is not on disk so soon.
    postgres.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
    postgres.execute("SELECT pg_reload_conf()")
    try:
        async with nodes(database) as (one, two):
            await one.store.append(to("e1"))
            await two.wait_heard(1)
            for _ in range(20):
                with connection.transaction(force_rollback=True):
                    connection.execute("SELECT pg_current_xact_id()")
            for node in (one, two):
                await node.store.flush()  # the feed is read
            postgres.stop()
            postgres.start()
            await one.store.append(to("e2"))
            assert await two.wait_heard(2) == ["e1", "e2"]
            assert one.heard() == ["e1", "e2"]
    finally:
        postgres.execute("ALTER SYSTEM RESET wal_writer_delay")
