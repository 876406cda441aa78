"""Several nodes on one database, all in memory, with a mock clock."""

import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog
import trio

from hookgw import Conflict
from tests.public.config import FleetSettings
from tests.public.fleet import HEARTBEAT, FleetNode
from tests.public.kernel import StorageUnavailable
from tests.public.records import DEAD_AFTER, SHARDS, FleetMember, FleetView, ShardEpoch, share_targets
from tests.public.store import RecordChanges, SharedStore

pytestmark = pytest.mark.usefixtures("autojump_clock")


class Database:
    """The rows of a fleet, and who works on which shard."""

    def __init__(self) -> None:
        self.nodes: dict[int, FleetMember] = {}
        self.beats: dict[int, float] = {}
        self.owners: list[int | None] = [None] * SHARDS
        self.generations = 0
        self.is_away = False
        self.jumped = 0.0
        self.moved = 0
        # Which lease each shard is worked on under, by node: no two valid ones at a time.
        self.working: dict[int, set[str]] = {shard: set() for shard in range(SHARDS)}

    def now(self) -> float:
        """The time by the clock of the database."""
        return trio.current_time() + self.jumped


class Members:
    """One node's connection to the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._generation = 0
        self.is_cut_off = False
        self.delay = 0.0
        self.known_version = 0
        self.refuses_to_give = False

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        yield

    async def changes(self) -> RecordChanges:
        return RecordChanges(0)

    async def _reach(self) -> Database:
        await trio.sleep(self.delay)
        if self._database.is_away or self.is_cut_off:
            raise StorageUnavailable("The database is away.")
        return self._database

    async def join(self, node: str, url: str, *, is_leaving: bool = False) -> int:
        database = await self._reach()
        for other in database.nodes.values():
            if other.name == node and database.now() - database.beats[other.generation] < DEAD_AFTER:
                raise Conflict(f"A node {node} lives.")
        database.generations += 1
        self._generation = database.generations
        database.nodes[self._generation] = FleetMember(node, self._generation, url, 0.0, is_leaving)
        database.beats[self._generation] = database.now()
        return self._generation

    async def heartbeat(self) -> FleetView | None:
        database = await self._reach()
        if self._generation not in database.nodes:
            return None
        database.beats[self._generation] = now = database.now()
        nodes = tuple(
            FleetMember(n.name, n.generation, n.url, now - database.beats[n.generation], n.is_leaving)
            for n in database.nodes.values()
        )
        return FleetView(nodes, tuple(database.owners), time=now)

    def epoch_of(self, shard: int) -> ShardEpoch:
        return ShardEpoch(shard, self._generation)

    async def claim(self) -> frozenset[int]:
        database = await self._reach()
        for generation in list(database.nodes):
            if database.now() - database.beats[generation] >= DEAD_AFTER:
                self._remove(generation)
        held = {
            node.name: database.owners.count(node.generation)
            for node in database.nodes.values()
            if not node.is_leaving
        }
        node = database.nodes.get(self._generation)
        if node is None:
            return frozenset()
        room = share_targets(held).get(node.name, 0) - held.get(node.name, 0)
        for shard in [shard for shard, owner in enumerate(database.owners) if owner is None][: max(0, room)]:
            database.owners[shard] = self._generation
            database.moved += 1
        return frozenset(s for s, owner in enumerate(database.owners) if owner == self._generation)

    async def give(self, shards: Collection[int]) -> None:
        database = await self._reach()
        if self.refuses_to_give:
            raise StorageUnavailable("The database is full.")
        for shard in shards:
            if database.owners[shard] == self._generation:
                database.owners[shard] = None

    async def announce(self, *, is_leaving: bool) -> None:
        database = await self._reach()
        node = database.nodes[self._generation]
        database.nodes[self._generation] = FleetMember(node.name, node.generation, node.url, 0.0, is_leaving)

    async def leave(self) -> None:
        await self._reach()
        self._remove(self._generation)

    def _remove(self, generation: int) -> None:
        self._database.nodes.pop(generation, None)
        self._database.owners = [None if o == generation else o for o in self._database.owners]


def fleet_node(members: Members, name: str) -> FleetNode:
    settings = FleetSettings(node=name, url=f"http://{name}")
    return FleetNode(settings, cast("SharedStore", SimpleNamespace(members=members)))


class Node:
    """A node that works on shards: it notes which, and whether another node does at the same time."""

    def __init__(self, database: Database, name: str) -> None:
        self.name = name
        self.members = Members(database)
        self.this = fleet_node(self.members, name)
        self.lease = self.this.lease
        self.works_on: set[int] = set()
        self.is_suspended = False
        self.reading_takes = 0.0
        self.starting_takes = 0.01
        # Seconds for which attempts of a shard go on.
        self.in_flight: dict[int, float] = {}
        # How many releases are refused.
        self.refusals = 0
        self.acquired: list[float] = []

    async def acquire(self, shards: Collection[int]) -> None:
        await trio.sleep(self.starting_takes)
        self.this.hold(shards)
        self.works_on |= set(shards)
        self.acquired.append(trio.current_time())

    async def release(
        self,
        shards: Collection[int],
        released: Callable[[set[int], StorageUnavailable | None], Awaitable[None]] | None = None,
    ) -> None:
        self.this.drop(shards)
        if self.refusals:
            self.refusals -= 1
            raise StorageUnavailable("The database is away.")
        began = trio.current_time()
        for takes, group in groupby(sorted(shards, key=self._takes), self._takes):
            await trio.sleep_until(began + takes)
            ended = set(group)
            self.works_on -= ended
            if released is not None:
                await released(ended, None)

    def _takes(self, shard: int) -> float:
        return self.in_flight.get(shard, 0.0)

    def busy(self) -> Collection[int]:
        return self.in_flight

    def suspend(self) -> None:
        self.is_suspended = True

    def unsuspend(self) -> None:
        self.is_suspended = False

    async def seen(self, view: FleetView) -> None:
        pass

    @property
    def sends_for(self) -> set[int]:
        """The shards for which an attempt could begin now."""
        return self.works_on if self.lease.is_valid() and not self.is_suspended else set()


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[dict[str, trio.CancelScope]]:
    """Run nodes for the length of a block; cancel a node's scope to kill it."""
    scopes: dict[str, trio.CancelScope] = {}

    async def run(node: Node, *, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as tasks:
            scopes[node.name] = tasks.cancel_scope
            tasks.start_soon(node.this.send_heartbeats)
            await node.this.join()
            await trio.sleep(node.reading_takes)
            await node.this.run(node, task_status=task_status)
        node.works_on.clear()

    async with trio.open_nursery() as nursery:
        for node in nodes:
            await nursery.start(run, node)
        yield scopes
        nursery.cancel_scope.cancel()


def check(*nodes: Node) -> None:
    """No two nodes send for one shard."""
    seen: set[int] = set()
    for node in nodes:
        assert not seen & node.sends_for
        seen |= node.sends_for


async def test_one_node_holds_everything() -> None:
    node = Node(Database(), "a")
    async with running(node):
        await trio.sleep(1)
        assert node.works_on == node.this.shards == set(range(SHARDS))
        assert node.this.view.owner_of(7) is not None


async def test_a_node_says_when_it_has_begun_and_when_it_holds_its_share() -> None:
    database = Database()
    a, b = Node(database, "a"), Node(database, "b")

    def said(logs: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
        whole = [log for log in logs if log["event"] == "this node holds its share"]
        return [(log["node"], log["shards"], log["nodes"]) for log in whole]

    with structlog.testing.capture_logs() as logs:
        a.starting_takes = 0.3
        async with running(a):
            assert not a.this.has_begun()
            assert not a.this.is_whole
            await trio.sleep(1)
            assert a.this.has_begun()
            assert said(logs) == [("a", SHARDS, 1)]
            # Most of what b is to have has an attempt in flight; what it has already, it works on.
            a.in_flight = dict.fromkeys(range(100, SHARDS), 3.0)
            async with running(b):
                await trio.sleep(2)
                assert b.this.has_begun()
                assert not b.this.is_whole
                await trio.sleep(5)
                assert b.this.is_whole
                assert sorted(said(logs)[1:]) == [("a", 128, 2), ("b", 128, 2)]


@pytest.mark.parametrize("others", [0, 1])
async def test_a_node_that_reads_for_long_before_it_works_is_no_dead_one(others: int) -> None:
    database = Database()
    other, node = Node(database, "a"), Node(database, "b")
    node.reading_takes = 10 * DEAD_AFTER
    with structlog.testing.capture_logs() as logs:
        async with running(*[other][:others], node):
            joined, moved = database.generations, database.moved
            await trio.sleep(1)
            assert len(node.works_on) == SHARDS // (others + 1)
            assert database.generations == joined == others + 1
            # Meanwhile, nothing has waited for it.
            assert moved == SHARDS * others
            assert len(other.works_on) == SHARDS // 2 * others
            assert other.acquired[1:] == []
    assert [log for log in logs if log["log_level"] != "info"] == []


async def test_a_node_that_is_due_none_has_begun() -> None:
    database = Database()
    node = Node(database, "one too many")
    for number in range(SHARDS):
        generation = database.generations = number + 1
        database.nodes[generation] = FleetMember(f"n{number}", generation, "", 0.0)
        database.owners[number] = generation
    database.beats = dict.fromkeys(database.nodes, math.inf)
    async with running(node):
        await trio.sleep(1)
        assert node.this.has_begun()
        assert not node.works_on


async def test_nodes_share_evenly_and_a_new_one_moves_only_its_share() -> None:
    database = Database()
    nodes = [Node(database, name) for name in "abc"]
    async with running(*nodes[:2]):
        await trio.sleep(5)
        assert [len(node.works_on) for node in nodes[:2]] == [128, 128]
        before = database.moved
        async with running(nodes[2]):
            await trio.sleep(5)
            assert sorted(len(node.works_on) for node in nodes) == [85, 85, 86]
            assert database.moved - before == min(len(node.works_on) for node in nodes)
            check(*nodes)


async def test_others_take_over_from_a_killed_node() -> None:
    database = Database()
    a, b = Node(database, "a"), Node(database, "b")
    async with running(a, b) as scopes:
        await trio.sleep(5)
        scopes["a"].cancel()
        killed = trio.current_time()
        await trio.sleep(DEAD_AFTER - HEARTBEAT)
        assert len(b.works_on) == SHARDS / 2
        await trio.sleep(4 * HEARTBEAT)
        assert len(b.works_on) == SHARDS
        assert b.acquired[-1] - killed < DEAD_AFTER + 2 * HEARTBEAT


async def test_when_the_clock_of_the_database_jumps_forward_nobody_is_taken_for_dead() -> None:
    database = Database()
    a, b = Node(database, "a"), Node(database, "b")
    async with running(a, b) as scopes:
        await trio.sleep(5)
        moved = database.moved
        database.jumped = 40.0
        for _ in range(100):
            await trio.sleep(0.1)
            check(a, b)
        assert database.moved == moved
        # Who dies with the jump is replaced when the others have had their time.
        database.jumped = 80.0
        scopes["a"].cancel()
        await trio.sleep(DEAD_AFTER + 2 * HEARTBEAT)
        assert len(b.works_on) == SHARDS


async def test_a_node_that_leaves_hands_over_at_once() -> None:
    database = Database()
    a, b = Node(database, "a"), Node(database, "b")
    async with running(a, b) as scopes:
        await trio.sleep(5)
        slow, quick = sorted(a.works_on)[:2]
        a.in_flight = {slow: 4.0, quick: 0.1}
        left = trio.Event()

        async def leave() -> None:
            await a.this.hand_over(math.inf)
            left.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            await trio.sleep(3 * HEARTBEAT)
            assert not left.is_set()
            assert len(b.works_on) == SHARDS - 1  # one has an attempt in flight
            await left.wait()
            await trio.sleep(3 * HEARTBEAT)
            assert len(b.works_on) == SHARDS
            scopes["a"].cancel()
            await a.this.leave(trio.lowlevel.checkpoint)
            assert not a.lease.is_valid()
            assert [node.name for node in database.nodes.values()] == ["b"]


async def test_a_node_that_leaves_waits_for_no_slow_shards_that_it_gives_already() -> None:
    """What else it had stayed until their attempts had ended."""
    database = Database()
    a, b = Node(database, "a"), Node(database, "b")
    async with running(a):
        await trio.sleep(1)
        a.in_flight = dict.fromkeys(range(100, SHARDS), 20.0)
        async with running(b), trio.open_nursery() as nursery:
            await trio.sleep(2)
            assert len(b.works_on) == 100
            a.in_flight = {}
            nursery.start_soon(a.this.hand_over, math.inf)
            await trio.sleep(2)
            assert len(b.works_on) == SHARDS - 28
            await trio.sleep(20)
            assert len(b.works_on) == SHARDS


async def test_shards_whose_giving_is_refused_wait_for_no_slow_ones() -> None:
    database = Database()
    a, b = Node(database, "a"), Node(database, "b")
    async with running(a):
        await trio.sleep(1)
        a.in_flight = dict.fromkeys(range(100, SHARDS), 20.0)
        a.members.refuses_to_give = True
        async with running(b):
            await trio.sleep(1)
            assert not b.works_on
            a.members.refuses_to_give = False
            await trio.sleep(2)
            assert len(b.works_on) == 100


async def test_a_node_that_has_lost_its_place_comes_back_though_its_work_is_refused_meanwhile() -> None:
    """It waited for a heartbeat, which nobody sent."""
    database = Database()
    a = Node(database, "a")
    async with running(a):
        await trio.sleep(1)
        a.refusals = 2
        database.nodes.clear()
        database.owners = [None] * SHARDS
        await trio.sleep(10 * HEARTBEAT)
        assert len(a.sends_for) == SHARDS


async def test_a_node_without_a_lease_waits_for_nothing_when_it_leaves() -> None:
    """The others have removed it, or do so. Its store waits for the database at its end."""
    database = Database()
    a = Node(database, "a")
    async with running(a):
        await trio.sleep(1)
        database.is_away = True
        await trio.sleep(DEAD_AFTER)
        began = trio.current_time()
        await a.this.leave(trio.sleep_forever)
        assert trio.current_time() == began


async def test_a_node_that_leaves_while_it_takes_shards_gives_them_too() -> None:
    database = Database()
    node = Node(database, "a")
    node.starting_takes = 2.0
    async with running(node):
        await trio.sleep(0.1)
        await node.this.hand_over(math.inf)
        assert trio.current_time() >= 2.0  # nothing of a gateway may stop while shards begin
        assert not node.works_on
        assert database.owners == [None] * SHARDS


@pytest.mark.parametrize("failures", [1, 5])
async def test_what_could_not_be_given_is_given_later_and_nothing_else(failures: int) -> None:
    """The database refuses while two nodes join: the first one went on giving, and then worked on nothing."""
    database = Database()
    a, b, c = (Node(database, name) for name in "abc")
    give, left = a.members.give, [None] * failures

    async def refuse(shards: Collection[int]) -> None:
        if left:
            left.pop()
            raise StorageUnavailable("The lock is held.")
        await give(shards)

    a.members.give = refuse  # type: ignore[method-assign]
    async with running(a):
        await trio.sleep(1)
        async with running(b, c):
            for _ in range(200):
                await trio.sleep(0.1)
                assert len(a.works_on) >= SHARDS // 3
                check(a, b, c)
            assert not left
            assert sorted(len(node.works_on) for node in (a, b, c)) == [85, 85, 86]


async def test_a_node_that_was_cut_off_stops_before_others_begin() -> None:
    database = Database()
    a, b = Node(database, "a"), Node(database, "b")
    async with running(a, b):
        await trio.sleep(5)
        a.members.is_cut_off = True
        for _ in range(100):
            await trio.sleep(0.1)
            check(a, b)
        assert a.is_suspended
        assert len(b.works_on) == SHARDS
        a.members.is_cut_off = False
        await trio.sleep(5)
        check(a, b)
        assert [len(a.works_on), len(b.works_on)] == [128, 128]
        assert not a.is_suspended


async def test_each_outage_of_the_database_is_logged_once() -> None:
    database = Database()
    a = Node(database, "a")
    with structlog.testing.capture_logs() as logs:
        async with running(a):
            for _ in range(2):
                await trio.sleep(5)
                database.is_away = True
                await trio.sleep(600)
                assert a.this.refusal == ("The database is away.",)
                database.is_away = False
            await trio.sleep(5)
            assert a.this.refusal == ()
    assert [line["event"] for line in logs].count("no heartbeat") == 2


async def test_a_node_that_was_removed_works_again_as_a_new_member() -> None:
    database = Database()
    a = Node(database, "a")
    async with running(a):
        await trio.sleep(1)
        former = a.this.generation
        # By the database alone: its lease had not ended.
        database.nodes.clear()
        database.owners = [None] * SHARDS
        await trio.sleep(3 * HEARTBEAT)
        assert a.this.generation > former
        assert len(a.sends_for) == SHARDS


async def test_a_node_that_is_removed_again_before_its_first_heartbeat_joins_once_more() -> None:
    """The database is slow: heartbeats ended for good, and the node sent nothing until its restart."""
    database = Database()
    a = Node(database, "a")
    join, removals = a.members.join, [None] * 2

    async def join_and_be_removed(node: str, url: str, *, is_leaving: bool = False) -> int:
        generation = await join(node, url, is_leaving=is_leaving)
        if removals:
            removals.pop()
            database.nodes.clear()
        return generation

    async with running(a):
        await trio.sleep(1)
        a.members.join = join_and_be_removed  # type: ignore[method-assign]
        database.nodes.clear()
        database.owners = [None] * SHARDS
        await trio.sleep(10)
        assert not removals
        assert len(a.sends_for) == SHARDS


async def test_a_node_that_was_removed_while_it_leaves_has_nothing_to_hand_over() -> None:
    database = Database()
    a = Node(database, "a")
    async with running(a):
        await trio.sleep(1)
        a.in_flight = dict.fromkeys(a.works_on, 2.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.this.hand_over, math.inf)
            await trio.sleep(0.1)
            database.nodes.clear()
            database.owners = [None] * SHARDS
        assert not a.works_on
        await trio.sleep(10)
        assert not database.nodes


async def test_what_no_other_node_took_goes_on() -> None:
    database = Database()
    a, b = Node(database, "a"), Node(database, "b")
    async with running(a, b):
        await trio.sleep(5)
        before, moved = set(a.works_on), database.moved
        database.is_away = True
        await trio.sleep(DEAD_AFTER)
        assert a.is_suspended
        assert not a.sends_for
        # All heartbeats are old by now; the first node that is back may not take the other's shards for that
        # reason alone, if the other is back as soon.
        for generation in database.beats:
            database.beats[generation] = trio.current_time()
        database.is_away = False
        await trio.sleep(2 * HEARTBEAT)
        assert a.sends_for == before
        assert database.moved == moved


async def test_after_an_outage_the_first_node_that_is_back_waits_for_the_others() -> None:
    database = Database()
    a, b, dead = Node(database, "a"), Node(database, "b"), Node(database, "dead")
    async with running(a, b):
        async with running(dead):
            await trio.sleep(5)
            b.members.is_cut_off = True  # it is back a second later
            database.is_away = True
            dead.members.is_cut_off = True
            await trio.sleep(60)
        before, moved = set(b.works_on), database.moved
        database.is_away = False
        await trio.sleep(1)
        b.members.is_cut_off = False
        await trio.sleep(1)
        assert b.sends_for == before
        assert database.moved == moved
        await trio.sleep(DEAD_AFTER + 2 * HEARTBEAT)
        assert len(a.sends_for | b.sends_for) == SHARDS


async def test_a_second_node_of_a_name_is_refused() -> None:
    database = Database()
    a, other = Node(database, "a"), Node(database, "a")
    async with running(a):
        with pytest.raises(Conflict):
            await other.this.join()


async def test_a_node_that_was_killed_comes_back_under_its_name() -> None:
    database = Database()
    a, again = Node(database, "a"), Node(database, "a")
    async with running(a) as scopes:
        await trio.sleep(1)
        scopes["a"].cancel()
        async with running(again):
            await trio.sleep(2)
            assert len(again.works_on) == SHARDS


@pytest.mark.parametrize("seed", range(5))
async def test_at_random_no_two_nodes_send_for_one_shard(seed: int) -> None:
    chance = random.Random(seed)
    database = Database()
    nodes = [Node(database, name) for name in "abcd"]
    async with running(*nodes):
        for _ in range(60):
            node = chance.choice(nodes)
            match chance.randrange(4):
                case 0:
                    node.members.is_cut_off = not node.members.is_cut_off
                case 1:
                    node.members.delay = chance.choice([0.0, 0.1, 1.0, 2.0])
                case 2:
                    sample = chance.sample(range(SHARDS), 20)
                    node.in_flight = {shard: chance.choice([0.0, 1.0, 5.0]) for shard in sample}
                case _:
                    database.is_away = chance.random() < 0.2
            for _ in range(chance.randrange(20)):
                await trio.sleep(0.1)
                check(*nodes)
        database.is_away = False
        for node in nodes:
            node.members.is_cut_off, node.members.delay, node.in_flight = False, 0.0, {}
        await trio.sleep(30)
        check(*nodes)
        assert [len(node.sends_for) for node in nodes] == [64] * 4
