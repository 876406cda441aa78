"""A dispatcher of a node in a fleet: it delivers what is in the shards that it holds."""

import pytest
import trio

from hookgw import LaneState, Registration
from hookgw.lanes import held_shards
from tests.dispatch.fakes import LANE, OTHER_LANE, World, registration
from tests.public.lanes import RETIRE_AFTER, UNKNOWN, EveryLane, HeldShards
from tests.public.records import SHARDS, Ordering, shard_of

pytestmark = pytest.mark.usefixtures("autojump_clock")

OURS, THEIRS = shard_of("ours"), shard_of("theirs")


def shards() -> HeldShards:
    return HeldShards(lambda id_: registration(id_, instance="ours" if id_ == "reg_1" else "theirs"))


class Backlog:
    """Reads the backlog of a world when it is asked, and not before ``may_read``."""

    def __init__(self, world: World, lane: str = LANE) -> None:
        self._world = world
        self._lane = lane
        self.may_read = trio.Event()
        self.began = trio.Event()

    async def __call__(self) -> list[tuple[str, int]]:
        self.began.set()
        await self.may_read.wait()
        count = await self._world.outbox.count_pending(self._lane)
        return [(self._lane, count)] if count else []


def hold_disk(world: World) -> None:
    world.outbox.writes_late, world.outbox.may_flush = True, trio.Event()


async def now(world: World, lane: str = LANE) -> list[tuple[str, int]]:
    backlog = Backlog(world, lane)
    backlog.may_read.set()
    return await backlog()


async def test_lanes_of_other_shards_do_not_start() -> None:
    world = World()
    async with world.dispatcher([(LANE, 1)], shards()) as dispatcher:
        world.outbox.add(1)
        dispatcher.dispatch([*world.outbox.add(1), *world.outbox.add(1, lane=OTHER_LANE)])
        dispatcher.requeued({OTHER_LANE: 1})
        await trio.sleep(1)
        assert dispatcher.lanes() == []
    assert world.sender.order == []


async def test_what_is_pending_and_what_comes_later_is_delivered_once_a_shard_is_held() -> None:
    world = World()
    async with world.dispatcher(shards=shards()) as dispatcher:
        dispatcher.dispatch([*world.outbox.add(2), *world.outbox.add(2, lane=OTHER_LANE)])
        await dispatcher.acquire({OURS}, lambda: now(world))
        dispatcher.dispatch([*world.outbox.add(1), *world.outbox.add(1, lane=OTHER_LANE)])
        await trio.sleep(1)
        assert world.sender.order == ["e1", "e2", "e5"]
        await dispatcher.acquire({THEIRS}, lambda: now(world, OTHER_LANE))
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2", "e5", "e3", "e4", "e6"]


async def test_a_delivery_that_comes_while_the_backlog_is_read_passes_nothing() -> None:
    world = World()
    async with world.dispatcher(shards=shards()) as dispatcher, trio.open_nursery() as nursery:
        backlog = Backlog(world, OTHER_LANE)  # the answer is of another time: it lacks our lane
        world.outbox.add(2)
        nursery.start_soon(dispatcher.acquire, {OURS}, backlog)
        await backlog.began.wait()
        dispatcher.dispatch(world.outbox.add(1))
        backlog.may_read.set()
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2", "e3"]


async def test_shards_whose_backlog_cannot_be_read_are_not_acquired() -> None:
    async def refuse() -> list[tuple[str, int]]:
        raise OSError

    world = World()
    async with world.dispatcher(shards=shards()) as dispatcher:
        with pytest.raises(OSError):
            await dispatcher.acquire({OURS}, refuse)
        dispatcher.dispatch(world.outbox.add(1))
        assert dispatcher.lanes() == []


async def test_a_release_waits_for_attempts_in_flight_and_begins_no_more() -> None:
    world = World()
    async with world.dispatcher(shards=shards()) as dispatcher, trio.open_nursery() as nursery:
        await dispatcher.acquire({OURS, THEIRS}, lambda: now(world))
        world.sender.takes = 5.0
        dispatcher.dispatch([*world.outbox.add(2), *world.outbox.add(2, lane=OTHER_LANE)])
        await trio.sleep(1)
        released = trio.Event()

        async def release() -> None:
            await dispatcher.release({OURS})
            released.set()

        nursery.start_soon(release)
        await trio.sleep(3)
        assert not released.is_set()
        await trio.sleep(2)
        assert released.is_set()
        assert [lane.lane for lane in dispatcher.lanes()] == [OTHER_LANE]
        assert sorted(seq for seq, _ in world.settled) == [1, 3]
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(20)
    assert sorted(world.sender.order) == ["e1", "e3", "e4"]


async def test_of_two_releases_each_ends_with_its_own_lanes() -> None:
    """A node that lost its place releases all shards, while it gives some."""
    world = World()
    ended: dict[int, float] = {}

    async def release(shard: int) -> None:
        with trio.fail_after(60):
            await dispatcher.release({shard})
        ended[shard] = trio.current_time() - began

    async with world.dispatcher(shards=shards()) as dispatcher, trio.open_nursery() as nursery:
        await dispatcher.acquire({OURS, THEIRS}, lambda: now(world))
        began = trio.current_time()
        world.sender.takes = 5.0
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
        await trio.sleep(1)
        nursery.start_soon(release, OURS)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(release, THEIRS)
    assert ended == {OURS: 5.0, THEIRS: 6.0}


async def test_a_shard_is_released_as_soon_as_its_own_lanes_have_ended() -> None:
    """A slow receiver held up all shards that are given with its own."""
    world = World()
    ended: list[tuple[set[int], float]] = []
    idle = next(shard for shard in range(SHARDS) if shard not in (OURS, THEIRS))

    async def released(shards: set[int]) -> None:
        await trio.lowlevel.checkpoint()
        ended.append((shards, trio.current_time() - began))

    async with world.dispatcher(shards=shards()) as dispatcher:
        await dispatcher.acquire({OURS, THEIRS, idle}, lambda: now(world))
        began = trio.current_time()
        world.sender.takes = 5.0
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
        await trio.sleep(1)
        await dispatcher.release({OURS, THEIRS, idle}, released)
    assert ended == [({idle}, 2.0), ({OURS}, 5.0), ({THEIRS}, 6.0)]


async def test_a_shard_that_comes_back_is_read_from_the_start() -> None:
    world = World()
    async with world.dispatcher(shards=shards()) as dispatcher:
        await dispatcher.acquire({OURS}, lambda: now(world))
        dispatcher.dispatch([first := world.outbox.add(1)[0]])
        await trio.sleep(2 * RETIRE_AFTER)
        await dispatcher.release({OURS})
        assert world.monitor.states == [LaneState.IDLE]
        # The settlement was stale, because another node held the shard by then: it changed nothing.
        world.outbox.pending[first.seq] = first
        await dispatcher.acquire({OURS}, lambda: now(world))
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e1"]


async def test_a_suspended_dispatcher_begins_no_attempt() -> None:
    world = World(registration(), registration("reg_2"))
    async with world.dispatcher(shards=shards()) as dispatcher:
        await dispatcher.acquire({OURS, THEIRS}, lambda: now(world))
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        dispatcher.suspend()
        dispatcher.dispatch([*world.outbox.add(1), *world.outbox.add(1, lane=OTHER_LANE)])
        await trio.sleep(10)
        assert world.sender.order == ["e1"]
        with dispatcher.paused("reg_2"):
            dispatcher.unsuspend()
            await trio.sleep(1)
            assert world.sender.order == ["e1", "e2"]
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2", "e3"]


async def test_no_attempt_begins_without_a_lease() -> None:
    world, leased = World(), [False]
    world.may_send = lambda: leased[0]
    async with world.dispatcher(shards=shards()) as dispatcher:
        await dispatcher.acquire({OURS}, lambda: now(world))
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(10)
        assert not world.sender.order
        assert not world.outbox.settlements
        leased[0] = True
        await trio.sleep(1)
    assert world.sender.order == ["e1"]


@pytest.mark.parametrize("in_a_fleet", [True, False])
async def test_in_a_fleet_an_attempt_waits_until_the_last_one_is_on_disk(in_a_fleet: bool) -> None:
    world = World()
    world.is_shared = in_a_fleet
    async with world.dispatcher(shards=shards()) as dispatcher:
        await dispatcher.acquire({OURS}, lambda: now(world))
        dispatcher.dispatch(world.outbox.add(3))
        hold_disk(world)
        await trio.sleep(1)
        assert world.sender.order == (["e1"] if in_a_fleet else ["e1", "e2", "e3"])
        world.outbox.write()
        await trio.sleep(1)
        assert world.sender.order == (["e1", "e2"] if in_a_fleet else ["e1", "e2", "e3"])
        world.outbox.write()
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2", "e3"]


async def test_in_a_fleet_unsettled_attempts_count_for_the_concurrency() -> None:
    world = World(registration(ordering=Ordering.INSTANCE, concurrency=2))
    world.is_shared = True
    hold_disk(world)
    async with world.dispatcher(shards=shards()) as dispatcher:
        await dispatcher.acquire({OURS}, lambda: now(world))
        dispatcher.dispatch([*(world.outbox.add(1, lane=f"reg_1:{number}")[0] for number in range(5))])
        for sent in (2, 4, 5):
            await trio.sleep(1)
            assert len(world.sender.order) == sent
            world.outbox.write()


async def test_a_lane_that_waits_for_the_disk_stops_at_once() -> None:
    world = World()
    world.is_shared = True
    async with world.dispatcher(shards=shards()) as dispatcher:
        await dispatcher.acquire({OURS}, lambda: now(world))
        dispatcher.dispatch(world.outbox.add(2))
        hold_disk(world)
        await trio.sleep(1)
        with trio.fail_after(1):
            await dispatcher.release({OURS})
        # And goes on when it is here again.
        world.outbox.write()
        await dispatcher.acquire({OURS}, lambda: now(world))
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2"]


def test_a_lane_is_found_also_after_its_registration_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_shards, "MOST_KNOWN", 2)
    ids, there = [f"reg_{n}" for n in range(4)], dict[str, Registration]()
    lanes = HeldShards(there.get)
    lanes.complete([OURS])
    assert lanes.is_wanted("reg_0:0")  # of a registration that it does not know yet
    assert not lanes.is_of_this_node("reg_0:0")  # its node knows it
    assert lanes.shard_of_lane("reg_0:1") == UNKNOWN
    assert lanes.unknown == {"reg_0:1"}

    there.update({id_: registration(id_, instance="theirs") for id_ in ids})
    assert {lanes.shard_of_lane(f"{id_}:0") for id_ in ids} == {THEIRS}
    there.clear()
    # Lanes that still run are found, and a node that sees registrations come and go does not grow.
    assert [lanes.is_wanted(f"{id_}:5") for id_ in ids] == [True, True, False, False]
    assert lanes.unknown == {"reg_0:1"}


def test_the_only_node_admits_every_lane_and_keeps_no_names() -> None:
    lanes = EveryLane()
    assert not lanes.admits("reg_1")
    lanes.begin(range(SHARDS))
    assert not lanes.admits("reg_1")
    assert lanes.complete(range(SHARDS)) == {"reg_1"}
    assert lanes.admits("reg_2")
    assert not lanes.unknown
