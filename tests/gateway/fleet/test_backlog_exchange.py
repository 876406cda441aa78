"""Nodes that tell each other what they change, all in memory, with a mock clock."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from tests.gateway.test_backlog import Observer
from tests.public.config import LimitsSettings
from tests.public.core import Backlog, Need
from tests.public.fleet import COUNT_EVERY, EXCHANGE_EVERY, BacklogExchange, FleetNode
from tests.public.kernel import StorageUnavailable
from tests.public.records import FleetMember, FleetView
from tests.public.store import BacklogNews, PendingChange

pytestmark = pytest.mark.usefixtures("autojump_clock")


class Database:
    """What is pending, and what nodes have told."""

    def __init__(self) -> None:
        self.pending: Need = {}
        self.told: dict[int, dict[int, BacklogNews]] = {}
        self.generations = 0
        self.counts = 0
        self.count_takes = 0.0
        self.refuses: list[str] = []

    def change(self, change: Need) -> None:
        for holder, (count, size) in change.items():
            has = self.pending.get(holder, (0, 0))
            self.pending[holder] = has[0] + count, has[1] + size

    @property
    def count(self) -> int:
        return sum(count for count, _ in self.pending.values())


class Shared:
    """One node's connection to the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def exchange(self, told: BacklogNews | None, known: Mapping[int, int]) -> list[BacklogNews]:
        await trio.sleep(0.01)
        database = self._database
        refused = database.refuses.pop() if database.refuses else ""
        if refused == "before":
            raise StorageUnavailable("The database is away.")
        if told is not None:
            database.told.setdefault(told.generation, {}).setdefault(told.number, told)
        if refused == "after":
            raise StorageUnavailable("The answer was lost.")
        return [
            news
            for generation, number in known.items()
            for found, news in database.told.get(generation, {}).items()
            if found > number
        ]

    async def count(self) -> tuple[PendingChange, Mapping[int, int]]:
        database = self._database
        found = dict(database.pending), {name: max(news) for name, news in database.told.items()}
        database.counts += 1
        await trio.sleep(database.count_takes)
        if database.refuses:
            database.refuses.pop()
            raise StorageUnavailable("The database is away.")
        return found


class Node:
    """A node that counts; a member as long as its block lasts."""

    def __init__(self, database: Database) -> None:
        self.removed: list[str] = []
        database.generations += 1
        self.generation = database.generations
        self.view = FleetView()
        self.database = database
        self.backlog = Backlog(LimitsSettings(), 0, Observer())
        self.backlog.changed(database.pending)
        shared, node = Shared(database), cast("FleetNode", self)
        self.exchange = BacklogExchange(shared, self.backlog, node, self.removed.append)
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            await self.exchange.run()

    def change(self, change: Need) -> None:
        """Commit something."""
        self.database.change(change)
        self.backlog.changed(change)


class World:
    """A fleet whose nodes come and go."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.database = Database()
        self.nodes: list[Node] = []
        self._nursery = nursery

    def start(self) -> Node:
        node = Node(self.database)
        self.nodes.append(node)
        self._nursery.start_soon(node.run)
        self.look()
        return node

    def kill(self, node: Node) -> None:
        node.scope.cancel()
        self.nodes.remove(node)
        self.look()

    def look(self) -> None:
        """All nodes see who is there."""
        view = FleetView(
            tuple(FleetMember(str(one.generation), one.generation, "", 0.0) for one in self.nodes)
        )
        for node in self.nodes:
            node.view = view

    async def settle(self) -> None:
        """All nodes count once more, while nothing changes, and then no more."""
        self.database.refuses, self.database.count_takes = [], 0.0
        await trio.sleep(25)  # a long count may have begun
        for node in self.nodes:
            node.exchange.rest_until = trio.current_time()
            node.exchange.count_at = trio.current_time()
        await trio.sleep(COUNT_EVERY)
        self.check()
        counts = self.database.counts
        await trio.sleep(3 * COUNT_EVERY)
        assert self.database.counts == counts

    def check(self) -> None:
        """All nodes know what is pending."""
        pending = {holder: amount for holder, amount in self.database.pending.items() if amount != (0, 0)}
        for node in self.nodes:
            assert (node.backlog.count, node.backlog.size) == (
                sum(count for count, _ in pending.values()),
                sum(size for _, size in pending.values()),
            )
            registrations: dict[str, int] = {}
            for (registration, _), (count, _) in pending.items():
                registrations[registration] = registrations.get(registration, 0) + count
            assert dict(node.backlog.registrations()) == {k: v for k, v in registrations.items() if v}


@pytest.fixture
def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def of(count: int, size: int = 0, registration: str = "reg_1", instance: str = "shop") -> Need:
    return {(registration, instance): (count, size or 100 * count)}


async def test_nodes_hear_of_each_other_within_a_second(world: World) -> None:
    a, b, c = (world.start() for _ in range(3))
    await trio.sleep(2)
    a.change(of(5))
    b.change(of(3, registration="reg_2"))
    await trio.sleep(1)
    world.check()
    assert a.backlog.count == 8
    # What one appends, another one delivers: also known in the other order.
    c.change(of(-5))
    await trio.sleep(1)
    world.check()
    a.change(of(-3, registration="reg_2"))
    await trio.sleep(1)
    world.check()
    assert dict(b.backlog.registrations()) == {}


def has_noted_nothing(node: Node) -> bool:
    return node.backlog._noted is None


async def test_a_node_alone_notes_nothing_and_asks_nothing(world: World) -> None:
    a = world.start()
    a.change(of(5))
    await trio.sleep(100)
    assert has_noted_nothing(a)
    assert (world.database.told, world.database.counts) == ({}, 0)


async def test_it_counts_what_a_node_had_not_told_when_it_was_killed(world: World) -> None:
    a, b = world.start(), world.start()
    await trio.sleep(2)
    b.change(of(7))
    world.kill(b)
    await trio.sleep(2)
    world.check()
    assert a.backlog.count == 7
    assert has_noted_nothing(a)
    # Alone, then with another one.
    a.change(of(2))
    world.start()
    a.change(of(2))
    await trio.sleep(2)
    world.check()


async def test_a_node_that_was_removed_and_joins_again_begins_anew(world: World) -> None:
    a, b = world.start(), world.start()
    await trio.sleep(2)
    b.change(of(7))
    world.database.generations += 1
    b.generation = world.database.generations
    world.look()
    b.change(of(1))
    await trio.sleep(2)
    world.check()
    b.change(of(1))
    await trio.sleep(1)
    world.check()
    assert a.backlog.count == 9


async def test_the_exchange_goes_on_while_a_long_count_is_taken(world: World) -> None:
    a, b = world.start(), world.start()
    await trio.sleep(2)
    world.database.count_takes = 20.0
    world.start()
    for number in range(40):
        a.change(of(number, registration="reg_2"))
        b.change(of(10))
        await trio.sleep(1)
        a.change(of(-number, registration="reg_2"))
        # What others had not told when the count began may be counted twice, until the next count.
        for node in (a, b):
            assert 0 <= node.backlog.of("reg_1")[0] - 10 * (number + 1) <= 10
    await world.settle()


async def test_what_rests_is_counted_right_however_busy_others_are(
    world: World, nursery: trio.Nursery
) -> None:
    a, b = world.start(), world.start()
    await trio.sleep(2)

    async def be_busy() -> None:
        more = 1
        while True:
            for node, count in ((a, more), (b, more), (b, -more), (a, -more)):
                node.change(of(count, registration="busy"))
                await trio.sleep(0.03)
            more += 1

    nursery.start_soon(be_busy)
    # Webhooks that fail get some events, while all nodes count because another one comes.
    for number in range(40):
        if number == 10:
            world.start()
        (a, b)[number % 2].change(of(1, registration=f"failing {number}"))
        await trio.sleep(0.05)
    await trio.sleep(3 * COUNT_EVERY)
    for node in world.nodes:
        assert [node.backlog.of(f"failing {number}") for number in range(40)] == [(1, 100)] * 40
    nursery.cancel_scope.cancel()


async def test_what_is_accepted_and_delivered_while_a_node_counts_is_not_pending_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = world.start(), world.start()
    await trio.sleep(2)
    shared = cast("Shared", a.exchange._shared)
    look = shared.count

    async def count() -> tuple[PendingChange, Mapping[int, int]]:
        b.change(of(1))
        found = await look()
        b.change(of(-1))  # nothing is left of it when b tells the others
        return found

    with monkeypatch.context() as patched:
        patched.setattr(shared, "count", count)
        a.exchange.must_count = True
        await trio.sleep(1)
    await trio.sleep(2 * COUNT_EVERY)
    world.check()


async def test_a_node_hears_what_another_one_has_taken_away(world: World) -> None:
    a, b = world.start(), world.start()
    await trio.sleep(2)
    a.change(of(30) | of(30, registration="reg_2"))
    await trio.sleep(1)
    for _ in range(10):
        a.change(of(-1))
        await trio.sleep(0.3)
    a.change(of(-1, registration="reg_2"))
    await trio.sleep(2)
    assert a.removed == []
    assert 3 <= b.removed.count("reg_1") <= 4
    assert "reg_2" in b.removed
    world.check()


async def test_all_nodes_count_a_deleted_instance_under_its_later_name(world: World) -> None:
    a, b, c = (world.start() for _ in range(3))
    await trio.sleep(2)
    a.change(of(5))
    c.change(of(1, instance="mall"))
    await world.settle()
    # One hears of the deletion before it hears of the last events, another one long after.
    a.change(of(2))
    b.backlog.retired("shop", "shop 0b0c")
    world.database.change(of(-7) | of(7, instance="shop 0b0c"))
    a.backlog.retired("shop", "shop 0b0c")
    a.change(of(-1, instance="shop 0b0c"))
    await trio.sleep(2)
    c.backlog.retired("shop", "shop 0b0c")
    await world.settle()
    for node in world.nodes:
        assert dict(node.backlog.instances()) == {"shop 0b0c": (6, 600), "mall": (1, 100)}
        assert node.backlog.of_instance("shop") == (0, 0)


async def test_a_lost_answer_counts_nothing_twice(world: World) -> None:
    a, b = world.start(), world.start()
    await trio.sleep(2)
    with capture_logs() as log:
        a.change(of(3))
        world.database.refuses = ["after", "before", "after", "after"]
        await trio.sleep(5 * EXCHANGE_EVERY)
        a.change(of(4))
        await trio.sleep(2 * COUNT_EVERY)  # a count may have seen the second change before b heard of it
    world.check()
    assert b.backlog.count == 7
    assert len(log) <= 2  # once for each node


async def test_that_it_cannot_count_is_logged_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exchange has a connection to the database; the count got none."""

    async def count(_: Shared) -> tuple[PendingChange, Mapping[int, int]]:
        raise StorageUnavailable("no more connections")

    a, _ = world.start(), world.start()
    monkeypatch.setattr(Shared, "count", count)
    with capture_logs() as log:
        a.exchange.must_count = True
        await trio.sleep(60)
        monkeypatch.undo()
        await world.settle()
    assert [line["event"] for line in log] == ["the backlog of other nodes is not known"] * 2


async def test_news_that_is_gone_is_counted(world: World) -> None:
    a, b = world.start(), world.start()
    await trio.sleep(2)
    with frozen(b):
        a.change(of(3))
        await trio.sleep(1)
        world.database.told[a.generation].clear()
        a.change(of(1))
        await trio.sleep(1)
    await trio.sleep(2)
    world.check()


@contextmanager
def frozen(node: Node) -> Iterator[None]:
    """Keep a node from hearing anything for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node.exchange, "_shared", Shared(Database()))
        yield


@pytest.mark.parametrize("seed", range(30))
async def test_at_random_all_nodes_know_what_is_pending(world: World, seed: int) -> None:
    rng = random.Random(seed)
    database = world.database
    for _ in range(3):
        world.start()
    for _ in range(150):
        node = rng.choice(world.nodes)
        match rng.randrange(12):
            case 0 if len(world.nodes) > 1:
                world.kill(node)
            case 1 if len(world.nodes) < 4:
                world.start()
            case 2:
                database.refuses = rng.choices(["before", "after"], k=rng.randrange(4))
            case 3:
                database.count_takes = rng.choice((0.0, 0.3, 2.0, 20.0))
            case 4 | 5 if database.count:
                holder = rng.choice([one for one, amount in database.pending.items() if amount[0]])
                count, size = database.pending[holder]
                node.change({holder: (-count, -size)})
            case _:
                instance = rng.choice("abc")
                node.change(of(rng.randrange(1, 50), registration=f"reg_{instance}", instance=instance))
        await trio.sleep(rng.choice((0, 0.1, 0.5, 2.0)))
    await world.settle()
