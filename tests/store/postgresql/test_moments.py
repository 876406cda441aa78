"""What "until now" means while other nodes write to the same database."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio
from psycopg import Connection

from hookgw import Delivery, DeliveryState, Invalid
from hookgw.store import history as pruning
from hookgw.store import steps
from hookgw.store.postgresql import dead_letters, event_ids, history, requeue
from hookgw.store.postgresql.append import append
from tests.public.concurrency import Clock
from tests.public.postgresql import XID, Moment, Server, Transaction, open_store, read_now
from tests.public.records import LaneRule, Ordering
from tests.public.store import Append, AppendedEvent, CancelQuery, ReplayQuery, Store
from tests.store.support import (
    LANE,
    RULE,
    dead,
    delivered,
    event,
    finish,
    ids_of,
    listed,
    park,
    replay,
    seqs_of,
    settle,
    to,
)
from tests.support.stores import turn_of
from tests.support.waits import until

# Makes an instance known to the storage: whoever stores its first event makes others wait.
KNOWN = [Append(event("first"), ())]
QUERY = CancelQuery(instance="shop", registrations=("reg_1",))


@asynccontextmanager
async def opened(database: Server) -> AsyncIterator[Store]:
    async with open_store(database, clock=Clock()) as store:
        yield store


@pytest.fixture
async def store(database: Server) -> AsyncIterator[Store]:
    async with opened(database) as store:
        yield store


@contextmanager
def transaction(connection: Connection) -> Iterator[Transaction]:
    """A transaction of another node, which ends with the block."""
    with connection.transaction():
        row = connection.execute(f"SELECT {XID}").fetchone()
        assert row is not None
        yield Transaction(connection, row[0])


def append_to(transaction: Transaction, appends: Sequence[Append]) -> None:
    news = [
        AppendedEvent(
            0,
            one.event,
            1.0,
            [
                Delivery(
                    seq=0,
                    event=one.event,
                    registration=registration,
                    lane=lane,
                    accepted_at=1.0,
                    position=0,
                    queued_at=1.0,
                )
                for registration, lane in one.targets
            ],
        )
        for one in appends
    ]
    append(transaction.connection, transaction.xid, news)


async def wait_for_lock(connection: Connection) -> None:
    """Wait until a session of the server waits for another one."""
    waiting = "SELECT FROM pg_locks WHERE NOT granted LIMIT 1"
    await until(lambda: connection.execute(waiting).fetchone() is not None)


async def cancel(store: Store, cursor: str) -> int:
    total, at = 0, cursor or None
    while at is not None:
        step = await store.cancel_step(QUERY, "off", at)
        total, at = total + sum(step.counts.values()), step.cursor
    return total


async def test_what_another_node_has_not_committed_is_not_parked(
    store: Store, connection: Connection
) -> None:
    """Its numbers are lower than others that are there already."""
    await store.append(KNOWN)
    with transaction(connection) as other:
        append_to(other, to("in flight"))
        await store.append(to("before"))
        cursor = await store.park_cursor()
    await store.append(to("later"))
    while (await store.park_step("reg_1", "off", cursor)).more:
        pass
    assert await ids_of(store) == ["in flight", "later"]
    assert await listed(store, state=DeliveryState.DEAD) == ["before"]


async def test_what_another_node_has_not_committed_is_not_cancelled(
    store: Store, connection: Connection
) -> None:
    await store.append(KNOWN)
    with transaction(connection) as other:
        append_to(other, to("in flight"))
        await store.append(to("before"))
        cursor = await store.cancel_cursor()
    await store.append(to("later"))
    assert await cancel(store, cursor) == 1
    assert await ids_of(store) == ["in flight", "later"]


async def test_what_another_node_makes_pending_again_is_of_later(
    store: Store, connection: Connection
) -> None:
    [seq] = await finish(store, "e1")
    cursor = await store.cancel_cursor()
    parking = await store.park_cursor()
    with transaction(connection) as other:
        assert requeue.resend(other, "shop", seq, RULE, 2.0) == LANE
    assert await cancel(store, cursor) == 0
    assert (await store.park_step("reg_1", "off", parking)).count == 0
    assert await ids_of(store) == ["e1"]


async def test_writes_of_one_commit_are_before_and_behind_a_moment(
    database: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the same transaction: their numbers tell."""
    cursors: list[str] = []

    async def ask() -> None:
        cursors.append(await store.park_cursor())

    async with trio.open_nursery() as nursery, turn_of(store):
        nursery.start_soon(store.append, to("first"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(store.append, to("before"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(store.append, to("later"))
        await trio.testing.wait_all_tasks_blocked()
    assert (await store.park_step("reg_1", "off", cursors[0])).count == 2
    assert await ids_of(store) == ["later"]


async def test_a_replay_leaves_out_what_others_have_not_committed(
    store: Store, connection: Connection
) -> None:
    await finish(store, "before")
    query, rules = ReplayQuery(instance="shop"), {"reg_1": RULE}
    with transaction(connection) as other:
        append_to(other, to("in flight"))
        await finish(store, "also before")
        first = await store.replay_step(query, rules, None, count=0)
    await settle(store, *map(dead, await seqs_of(store)))
    assert first.cursor is not None
    assert (await store.replay_step(query, rules, first.cursor)).count == 2
    assert await ids_of(store) == ["before", "also before"]


async def test_a_replay_uses_the_rule_of_a_re_partition_of_another_node(
    database: Server, store: Store
) -> None:
    await finish(store, "e1", "e2")
    async with opened(database) as other:
        assert await other.repartition_step(LaneRule("reg_1", 1, Ordering.URL, 1)) is False
    assert (await store.replay_step(ReplayQuery(instance="shop"), {"reg_1": RULE}, None)).count == 2
    assert await ids_of(store, "reg_1:1") == ["e1", "e2"]


async def test_a_re_partition_waits_for_what_is_about_to_be_pending_again(
    store: Store, connection: Connection, database: Server
) -> None:
    """The other node knows the former rule, and commits later."""
    [seq] = await finish(store, "e1")
    watching = database.connect()
    async with trio.open_nursery() as nursery:
        with transaction(connection) as other:
            assert requeue.resend(other, "shop", seq, RULE, 2.0) == LANE
            nursery.start_soon(store.repartition_step, LaneRule("reg_1", 1, Ordering.URL, 1))
            await wait_for_lock(watching)
    watching.close()
    assert await ids_of(store, "reg_1:1") == ["e1"]


async def test_two_nodes_that_make_room_at_once_drop_for_each_of_them(
    store: Store, connection: Connection, database: Server
) -> None:
    """Both choose the oldest. If one of them found nothing left, its producer would be refused."""
    await store.append(to("e1", "e2", "e3", "e4", "e5"))
    watching = database.connect()
    dropped: list[int] = []

    async def drop() -> None:
        dropped.append((await store.drop_oldest(RULE, "shop", "full", count=2, size=0))[0])

    async with trio.open_nursery() as nursery:
        with transaction(connection) as other:
            oldest = dead_letters.oldest_first(other.connection, RULE, "shop", 2, ())
            gone = dead_letters.bury(other.connection, [seq for seq, _ in oldest], "full", 1.0)
            assert [count for count, _ in gone.values()] == [2]
            nursery.start_soon(drop)
            await wait_for_lock(watching)
    watching.close()
    assert dropped == [2]
    assert await ids_of(store) == ["e5"]


async def test_a_walk_finds_what_is_moved_to_before_its_place(
    database: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP", 2)
    await store.append(to("e1", "e2", lane="reg_1:0:1"))
    await store.append(to("e3", "e4", "e5", lane="reg_1:0:2"))
    cursor = await store.park_cursor()
    assert (await store.park_step("reg_1", "off", cursor)).more
    async with opened(database) as other:
        # To lanes whose keys come first.
        while await other.repartition_step(LaneRule("reg_1", -1, Ordering.URL, 1)):
            pass
    assert await ids_of(store, "reg_1:-1") == ["e3", "e4", "e5"]
    while (await store.park_step("reg_1", "off", cursor)).more:
        pass
    assert len(await listed(store, state=DeliveryState.DEAD)) == 5


async def test_two_nodes_that_remove_the_last_deliveries_of_an_event_remove_its_payload(
    database: Server, store: Store, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "PRUNE_STEP", 1)
    await store.append([Append(event("e1"), (("reg_1", LANE), ("reg_2", "reg_2:0")))])
    await settle(store, *map(delivered, [*await seqs_of(store), *await seqs_of(store, "reg_2:0")]))
    watching = database.connect()
    removed: list[int] = []

    async def prune() -> None:
        removed.append(await store.enforce_retention(before=9e9, limit=2**40, ids_before=0))

    async with trio.open_nursery() as nursery:
        with transaction(connection) as other:
            assert history.prune(other, 9e9, 0, 1).amount == 1
            nursery.start_soon(prune)
            await wait_for_lock(watching)
    assert removed == [1]
    assert watching.execute("SELECT octet_length(data), heard < 0 FROM events").fetchall() == [(0, True)]
    watching.close()


async def test_nodes_that_prune_at_once_remove_each_delivery_once(
    database: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "PRUNE_STEP", 7)
    monkeypatch.setattr(pruning, "PRUNE_REST", 0)
    await finish(store, *(f"e{number}" for number in range(100)))
    removed: list[int] = []

    async def prune(node: Store) -> None:
        removed.append(await node.enforce_retention(before=9e9, limit=2**40, ids_before=0))

    async with opened(database) as other, trio.open_nursery() as nursery:
        nursery.start_soon(prune, store)
        nursery.start_soon(prune, other)
    assert sum(removed) == 100
    assert await listed(store) == []


async def test_nothing_is_lost_and_order_holds_while_others_append(
    database: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node parks, cancels and replays what two others append."""
    monkeypatch.setattr(steps, "STEP", 3)
    monkeypatch.setattr(steps, "REPLAY_STEP", 4)
    appending = 2

    async def produce(node: Store, name: str) -> None:
        nonlocal appending
        for number in range(40):
            await node.append(to(f"{name}{number:03}"))
        appending -= 1

    async with opened(database) as second, opened(database) as third, trio.open_nursery() as nursery:
        nursery.start_soon(produce, second, "b")
        nursery.start_soon(produce, third, "c")
        while appending:
            parked = await park(store, "reg_1", "off")
            cancelled = await cancel(store, await store.cancel_cursor())
            again = sum(await replay(store))
            assert again == parked + cancelled
    names = [f"{name}{number:03}" for name in "bc" for number in range(40)]
    left = await ids_of(store)
    assert sorted(left) == names
    assert await listed(store, state=DeliveryState.DEAD) == []
    # The whole backlog is sent again in its original order.
    await park(store, "reg_1", "off")
    assert sum(await replay(store)) == len(names)
    sent_again = await ids_of(store)
    for name in "bc":
        assert [one for one in sent_again if one[0] == name] == [one for one in names if one[0] == name]


async def test_an_unreadable_moment() -> None:
    moment = Moment(5, 7, 6, 9, (8,))
    assert read_now(str(moment)) == moment
    for text in ("", "1.2", "1.2.3", "1.2.3.x", "-1.2.3.4", "1" * 19 + ".2.3.4"):
        with pytest.raises(Invalid):
            read_now(text)


async def test_ids_are_forgotten_by_one_node(database: Server, store: Store, connection: Connection) -> None:
    await finish(store, "e1", "e2")
    await store.enforce_retention(before=9e9, limit=2**40, ids_before=0)
    with transaction(connection) as other:
        assert event_ids.forget_ids(other, 9e9, 0, 1).amount > 0
        await store.enforce_retention(before=0, limit=2**40)
    assert await store.append(to("e1", "e2")) == [True, True]
