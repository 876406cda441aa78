from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from hookgw import DeliveryState, LaneState, Outcome
from tests.dispatch.fakes import LANE, URL, World, registration
from tests.public.kernel import PULL_URL, PluginFailed
from tests.public.lanes import RETIRE_AFTER, UNFETCHED, Dispatcher, Fetches, Lease, PulledLane
from tests.public.records import Ordering, RetryOptions, Settlement

# Lanes whose receiver fetches: leases, their ends, and what they leave to other lanes.


def pulled(**more: Any) -> World:
    return World(registration(url=PULL_URL, **more))


def pulled_with_little_memory(**more: Any) -> World:
    return World(registration(url=PULL_URL, **more), memory=2**20)


@asynccontextmanager
async def running(world: World, backlog: int = 0) -> AsyncIterator[Dispatcher]:
    async with world.dispatcher([(LANE, backlog)] if backlog else []) as dispatcher:
        await trio.testing.wait_all_tasks_blocked()
        yield dispatcher


async def take(dispatcher: Dispatcher, consumer: str = "a", **more: Any) -> Lease | None:
    [lane] = dispatcher.pulled("reg_1")
    options = {"most": 100, "size": 10**6, "length": 60.0, **more}
    return await lane.take(consumer, **options)


def events(lease: Lease | None) -> list[str]:
    return [] if lease is None else [one.delivery.event.id for one in lease.leased]


def the_lane(dispatcher: Dispatcher) -> PulledLane:
    [lane] = dispatcher.pulled("reg_1")
    return lane


async def test_a_lease_that_ends_is_one_attempt_of_the_head_alone(autojump_clock: MockClock) -> None:
    world = pulled(retry=RetryOptions(schedule=(5.0, 5.0)))
    world.outbox.add(3)
    async with running(world, 3) as dispatcher:
        assert events(await take(dispatcher)) == ["e1", "e2", "e3"]
        await trio.sleep(59)
        assert world.monitor.attempts == []
        await trio.sleep(2)
        [(attempt, _)] = world.monitor.attempts
        assert (attempt.outcome, attempt.number, attempt.duration) == (Outcome.UNANSWERED, 1, 60.0)
        assert attempt.error == (
            "The consumer 'a' did not acknowledge it before its lease ended, after 60 s."
        )
        # The first wait is that of the schedule: the timeout plays no part here.
        assert await take(dispatcher) is None
        await trio.sleep(4)
        lease = await take(dispatcher)
        assert events(lease) == ["e1", "e2", "e3"]
        assert lease is not None
        lane = the_lane(dispatcher)
        assert [lane.signed_headers(one)["x-attempt"] for one in lease.leased] == ["2", "1", "1"]
        assert lease.leased[0].body == f"e1 to {PULL_URL}".encode()
    assert world.sender.requests == []


async def test_a_lane_shows_the_last_attempt_of_its_head_from_before_the_restart(
    autojump_clock: MockClock,
) -> None:
    """Otherwise nobody learns why it is behind until its consumer fails again."""
    world = pulled(retry=RetryOptions(schedule=(3_600.0,)))
    world.outbox.add(2)
    async with running(world, 2) as dispatcher:
        lease = await take(dispatcher)
        assert lease is not None
        the_lane(dispatcher).fail(lease.leased[0], "A bug.")
        await trio.testing.wait_all_tasks_blocked()
        error = the_lane(dispatcher).statistics().last_error
    async with running(world, 2) as dispatcher:
        shown = the_lane(dispatcher).statistics()
        assert (shown.last_outcome, shown.last_error) == (Outcome.FAILED, error)


async def test_an_acknowledgement_that_came_while_nothing_ran_counts(mock_clock: MockClock) -> None:
    """The machine was frozen beyond the end of the lease: the consumer is not to blame."""
    world = pulled()
    world.outbox.add(20)

    async def acknowledge(lane: PulledLane, lease: Lease, arrived: trio.Event) -> None:
        await arrived.wait()
        for _ in range(3):  # its head, its body, its turn
            await trio.lowlevel.checkpoint()
        lane.settle(lease.leased)

    async with running(world, 20) as dispatcher, trio.open_nursery() as nursery:
        for _ in range(20):  # the lane and the request run in any order
            lease, arrived = await take(dispatcher, most=1), trio.Event()
            assert lease is not None
            nursery.start_soon(acknowledge, the_lane(dispatcher), lease, arrived)
            await trio.testing.wait_all_tasks_blocked()
            arrived.set()
            mock_clock.jump(64)
            await trio.testing.wait_all_tasks_blocked()
    assert [attempt.outcome for attempt, _ in world.monitor.attempts] == [Outcome.DELIVERED] * 20


async def test_a_head_that_always_kills_its_consumer_becomes_a_dead_letter(autojump_clock: MockClock) -> None:
    world = pulled(retry=RetryOptions(schedule=(1.0,)))
    world.outbox.add(2)
    async with running(world, 2) as dispatcher:
        for _ in range(2):
            while await take(dispatcher) is None:  # noqa: ASYNC110 -- time passes
                await trio.sleep(1)
            await trio.sleep(20)
            # Whoever asks again gets it at once, and its end stays.
            assert events(await take(dispatcher, length=600.0)) == ["e1", "e2"]
            await trio.sleep(41)
        assert world.settled == [(1, DeliveryState.DEAD)]
        assert events(await take(dispatcher)) == ["e2"]


async def test_each_acknowledgement_gives_the_rest_its_time_again(autojump_clock: MockClock) -> None:
    world = pulled()
    world.outbox.add(3)
    async with running(world, 3) as dispatcher:
        lease = await take(dispatcher)
        assert lease is not None
        for number in range(3):
            await trio.sleep(50)
            the_lane(dispatcher).settle([lease.leased[0]])
            assert len(world.settled) == number + 1
        await trio.sleep(1)
        assert [attempt.outcome for attempt, _ in world.monitor.attempts] == [Outcome.DELIVERED] * 3
        assert [one[0] for one in world.monitor.finals] == ["e1", "e2", "e3"]
        assert the_lane(dispatcher).lease is None


async def test_what_was_settled_and_is_not_on_disk_is_not_given_again(autojump_clock: MockClock) -> None:
    world = pulled(ordering=Ordering.NONE)
    world.outbox.add(3)
    async with running(world, 3) as dispatcher:
        lease = await take(dispatcher)
        assert lease is not None
        world.outbox.writes_late = True
        first, second, _ = lease.leased
        the_lane(dispatcher).settle([second])
        the_lane(dispatcher).fail(first, "no")
        await trio.sleep(600)
        assert events(await take(dispatcher)) == ["e1", "e3"]


async def test_the_next_deliveries_come_after_all_of_a_lease_is_settled(autojump_clock: MockClock) -> None:
    world = pulled()
    world.outbox.add(5)
    async with running(world, 5) as dispatcher:
        lease = await take(dispatcher, most=2)
        assert lease is not None
        assert await take(dispatcher, "b") is None
        the_lane(dispatcher).settle(lease.leased[:1])
        assert events(await take(dispatcher)) == ["e2"]
        the_lane(dispatcher).settle(list(lease.leased))
        assert events(await take(dispatcher, "b")) == ["e3", "e4", "e5"]


async def test_a_lease_has_no_more_bytes_than_asked_for(autojump_clock: MockClock) -> None:
    world = pulled()
    world.outbox.add(3, size=5_000)
    world.outbox.add(1, size=3_000_000)
    async with running(world, 4) as dispatcher:
        assert events(await take(dispatcher, size=1)) == ["e1"]
        used = world.memory.used
        assert used > 0
        the_lane(dispatcher).settle(list(the_lane(dispatcher).lease.leased))  # type: ignore[union-attr]
        for names in (["e2"], ["e3"], ["e4"]):
            lease = await take(dispatcher, size=1)
            assert events(lease) == names
            assert lease is not None
            the_lane(dispatcher).settle(list(lease.leased))
        await trio.sleep(1)
        assert world.memory.used == 0


async def test_a_plugin_that_fails_is_an_attempt_and_what_is_before_it_is_given(
    autojump_clock: MockClock,
) -> None:
    world = pulled(retry=RetryOptions(schedule=(5.0,)))
    world.sender.script["e2"] = [PluginFailed("p", "hookgw_transform", "no")]
    world.sender.filtered.add("e1")
    world.outbox.add(3)
    async with running(world, 3) as dispatcher:
        assert await take(dispatcher) is None
        assert world.settled == [(1, DeliveryState.DROPPED)]
        await trio.sleep(6)
        assert events(await take(dispatcher)) == ["e2", "e3"]
        assert [attempt.outcome for attempt, _ in world.monitor.attempts] == [Outcome.FAILED]


async def test_a_pause_keeps_the_lease_with_what_is_still_pending(autojump_clock: MockClock) -> None:
    world = pulled()
    world.outbox.add(3)
    async with running(world, 3) as dispatcher:
        lease = await take(dispatcher)
        with dispatcher.paused("reg_1"):
            assert dispatcher.in_flight("reg_1") == []
            assert await take(dispatcher) is None
            del world.outbox.pending[2]
            await trio.sleep(1)
            assert [lane.state for lane in dispatcher.lanes()] == [LaneState.PAUSED]
        await trio.sleep(1)
        assert await take(dispatcher) is lease
        assert events(lease) == ["e1", "e3"]
        with dispatcher.paused("reg_1"):
            world.outbox.pending.clear()
        await trio.sleep(1)
        assert the_lane(dispatcher).lease is None


async def test_nobody_fetches_until_max_age(autojump_clock: MockClock) -> None:
    world = pulled(retry=RetryOptions(max_age=3600.0))
    world.outbox.add(2)
    async with running(world, 2) as dispatcher:
        await trio.sleep(3599)
        assert world.settled == []
        # One who comes back late gets them.
        world.fetches.note("reg_1", "a", world.clock.wall())
        await trio.sleep(UNFETCHED - 5)
        assert world.settled == []
        await trio.sleep(10)
        assert world.settled == [(1, DeliveryState.DEAD), (2, DeliveryState.DEAD)]
        reason = "Nobody fetched it until it was older than max_age (3600 s)."
        assert [one[2] for one in world.monitor.finals] == [reason, reason]
        dispatcher.dispatch(world.outbox.add(1))


async def test_who_fetches_steadily_gets_what_is_older_than_max_age(autojump_clock: MockClock) -> None:
    world = pulled(retry=RetryOptions(max_age=3600.0))
    world.outbox.add(2)
    async with running(world, 2) as dispatcher:
        with world.fetches.waiting("reg_1"):
            await trio.sleep(7200)
        assert events(await take(dispatcher)) == ["e1", "e2"]


async def test_an_idle_lane_is_retired_and_starts_again(autojump_clock: MockClock) -> None:
    world = pulled()
    async with running(world) as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        lease = await take(dispatcher)
        assert lease is not None
        await trio.sleep(2 * RETIRE_AFTER)
        the_lane(dispatcher).settle(list(lease.leased))
        await trio.sleep(2 * RETIRE_AFTER)
        assert dispatcher.pulled("reg_1") == []
        dispatcher.dispatch(world.outbox.add(1))
        await trio.lowlevel.checkpoint()
        assert events(await take(dispatcher)) == ["e2"]


async def lane_that_has_settled(world: World, dispatcher: Dispatcher) -> PulledLane:
    """Return the lane once its only delivery was fetched and settled."""
    dispatcher.dispatch(world.outbox.add(1))
    await trio.sleep(1)
    lane, lease = the_lane(dispatcher), await take(dispatcher)
    assert lease is not None
    lane.settle(list(lease.leased))
    return lane


async def test_a_lane_is_not_retired_while_a_caller_looks(autojump_clock: MockClock) -> None:
    world = pulled()
    async with running(world) as dispatcher:
        lane = await lane_that_has_settled(world, dispatcher)
        await trio.sleep(1)
        world.outbox.may_read = trio.Event()
        found: list[Lease | None] = []

        async def look() -> None:
            found.append(await take(dispatcher))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await trio.sleep(3 * RETIRE_AFTER)
            assert the_lane(dispatcher) is lane
            dispatcher.dispatch(world.outbox.add(1))
            world.outbox.may_read.set()
        assert the_lane(dispatcher) is lane
        assert events(await take(dispatcher)) == ["e2"]


async def test_a_lane_that_has_ended_gives_nothing_away(autojump_clock: MockClock) -> None:
    world = pulled()
    async with running(world) as dispatcher:
        lane = await lane_that_has_settled(world, dispatcher)
        await trio.sleep(2 * RETIRE_AFTER)
        assert dispatcher.pulled("reg_1") == []
        dispatcher.dispatch(world.outbox.add(1))
        # A caller who has looked at several lanes may come to one that is not the lane any more.
        assert await lane.take("a", 1, 10**6, 60.0) is None
        assert world.memory.used == 0
        await trio.sleep(1)
        assert events(await take(dispatcher, "b")) == ["e2"]


async def test_a_bell_lasts_as_long_as_somebody_waits() -> None:
    fetches = Fetches(0.0)
    with fetches.waiting("reg_1"):
        with fetches.waiting("reg_1"):
            bell = fetches.bell("reg_1")
        assert fetches.bell("reg_1") is bell
    with fetches.waiting("reg_1"):
        assert fetches.bell("reg_1") is not bell  # or those of deleted webhooks would stay for ever


async def test_a_bell_rings_for_whoever_waits(autojump_clock: MockClock) -> None:
    world = pulled(retry=RetryOptions(schedule=(7.0,)))
    async with running(world) as dispatcher:
        bell = world.fetches.bell("reg_1")
        dispatcher.dispatch(world.outbox.add(1))
        assert bell.is_set()
        await trio.sleep(1)
        lease = await take(dispatcher)
        assert lease is not None
        the_lane(dispatcher).fail(lease.leased[0], "no")
        began = world.clock.steady()
        assert await take(dispatcher) is None
        assert the_lane(dispatcher).available_at == pytest.approx(began + 7)


async def test_a_node_without_its_lease_gives_nothing_away(autojump_clock: MockClock) -> None:
    world = pulled()
    world.may_send = lambda: False
    world.outbox.add(1)
    async with running(world, 1) as dispatcher:
        assert await take(dispatcher) is None
        world.may_send = lambda: True


async def test_what_is_appended_during_a_count_is_pending(autojump_clock: MockClock) -> None:
    world = pulled(ordering=Ordering.CHAT, concurrency=2)
    one, wide = "reg_1:0.c2:0", "reg_1:0.c2:all"
    async with world.dispatcher([(one, 1), (wide, 1)]) as dispatcher:
        await trio.sleep(1)
        lanes = {lane.key: lane for lane in dispatcher.pulled("reg_1")}
        world.outbox.may_read = trio.Event()
        lanes[one].refresh()
        await trio.sleep(1)
        for key in (one, wide):
            lanes[key].offer(world.outbox.add(1, lane=key)[0])
        world.outbox.may_read.set()
        await trio.sleep(1)
        found = lanes[one].statistics()
        assert (found.state, found.backlog) == (LaneState.WAITING, 1)
        # It was accepted after what the partition holds.
        assert await lanes[wide].take("a", most=100, size=10**6, length=60.0) is None


async def test_an_event_about_several_chats_waits_for_the_partitions_and_they_for_it(
    autojump_clock: MockClock,
) -> None:
    world = pulled(ordering=Ordering.CHAT, concurrency=2)
    one, wide = "reg_1:0.c2:0", "reg_1:0.c2:all"
    world.outbox.add(1, lane=one)
    world.outbox.add(1, lane=wide)
    world.outbox.add(1, lane=one)
    async with world.dispatcher([(one, 2), (wide, 1)]) as dispatcher:
        await trio.sleep(1)
        lanes = {lane.key: lane for lane in dispatcher.pulled("reg_1")}

        async def next_of(key: str) -> Lease | None:
            return await lanes[key].take("a", most=100, size=10**6, length=60.0)

        assert await next_of(wide) is None
        first = await next_of(one)
        assert events(first) == ["e1"]
        assert first is not None
        lanes[one].settle(list(first.leased))
        await trio.sleep(1)
        assert await next_of(one) is None
        second = await next_of(wide)
        assert events(second) == ["e2"]
        assert second is not None
        lanes[wide].settle(list(second.leased))
        await trio.sleep(1)
        assert events(await next_of(one)) == ["e3"]


async def test_a_lane_becomes_one_that_posts_and_back(autojump_clock: MockClock) -> None:
    world = pulled()
    async with running(world) as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(1)
        assert await take(dispatcher) is not None
        world.change(url=URL)
        dispatcher.redirect("reg_1")
        await trio.sleep(1)
        assert world.sender.order == ["e1", "e2"]
        assert dispatcher.pulled("reg_1") == []
        world.sender.takes = 5.0
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(1)
        world.change(url=PULL_URL)
        dispatcher.redirect("reg_1")
        await trio.sleep(10)
        assert world.sender.order == ["e1", "e2", "e3"]
        assert events(await take(dispatcher)) == ["e4"]


async def test_the_deliveries_of_a_deleted_registration_become_dead_letters(
    autojump_clock: MockClock,
) -> None:
    world = pulled()
    world.outbox.add(2)
    async with running(world, 2) as dispatcher:
        world.change(enabled=False)
        dispatcher.dispatch([])
        dispatcher.redirect("reg_1")
        await trio.sleep(1)
        assert [state for _, state in world.settled] == [DeliveryState.DEAD] * 2
    assert {one[2] for one in world.monitor.finals} == {"The registration was disabled."}


async def test_more_expire_than_fit_in_memory(autojump_clock: MockClock) -> None:
    world = pulled_with_little_memory(retry=RetryOptions(max_age=3600.0))
    world.outbox.add(50, size=50_000)
    async with running(world, 50) as dispatcher:
        await trio.sleep(3700)
        assert world.settled == [(number, DeliveryState.DEAD) for number in range(1, 51)]
        assert world.memory.used == 0
        dispatcher.dispatch(world.outbox.add(1))
        assert events(await take(dispatcher)) == ["e51"]


async def test_more_are_left_of_a_disabled_registration_than_fit_in_memory(autojump_clock: MockClock) -> None:
    world = pulled_with_little_memory()
    world.outbox.add(50, size=50_000)
    async with running(world, 50) as dispatcher:
        world.change(enabled=False)
        dispatcher.redirect("reg_1")
        await trio.sleep(10)
        assert world.settled == [(number, DeliveryState.DEAD) for number in range(1, 51)]
        assert world.memory.used == 0


async def test_a_receiver_has_more_already_than_fits_in_memory(autojump_clock: MockClock) -> None:
    world = pulled_with_little_memory()
    made = world.outbox.add(51, size=50_000)
    async with running(world, 51) as dispatcher:
        found: list[str] = []
        with trio.fail_after(60):
            while not found:
                bell = world.fetches.bell("reg_1")
                found = events(await take(dispatcher, after=made[49].position))
                if not found:
                    await bell.wait()
        assert found == ["e51"]
        await trio.testing.wait_all_tasks_blocked()
        assert len(world.monitor.finals) == 50


async def test_the_disk_refuses_for_a_while(autojump_clock: MockClock) -> None:
    world = pulled()
    world.outbox.add(1)
    async with running(world, 1) as dispatcher:
        world.outbox.refusals = 5
        assert events(await take(dispatcher)) == ["e1"]


async def test_a_caller_that_is_cancelled_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    world = pulled()
    world.outbox.add(1)
    async with running(world, 1) as dispatcher:
        world.outbox.may_read = trio.Event()
        with trio.move_on_after(1):
            await take(dispatcher)
        world.outbox.may_read.set()
        assert world.memory.used == 0
        assert events(await take(dispatcher)) == ["e1"]


async def test_a_caller_that_is_cancelled_before_the_disk_has_a_failure(autojump_clock: MockClock) -> None:
    world = pulled(retry=RetryOptions(schedule=(5.0,)))
    world.outbox.add(1)
    async with running(world, 1) as dispatcher:
        lease = await take(dispatcher)
        assert lease is not None
        await trio.sleep(1)
        world.outbox.writes_late = True
        the_lane(dispatcher).fail(lease.leased[0], "no")
        await trio.sleep(10)
        world.outbox.may_flush = trio.Event()
        with trio.move_on_after(1) as scope:
            await take(dispatcher)
        assert scope.cancelled_caught
        world.outbox.may_flush.set()
        lease = await take(dispatcher)
        assert lease is not None
        assert [one.delivery.attempts for one in lease.leased] == [1]


async def test_the_clock_was_set_back_while_hookgw_was_down(autojump_clock: MockClock) -> None:
    again = RetryOptions(schedule=(50.0,), max_age=3600.0)
    world = World(registration(url=PULL_URL, retry=again), retry_after_max=60.0, unreachable_max_wait=60.0)
    for made in world.outbox.add(2):
        on_disk = world.outbox.pending[made.seq]
        on_disk.queued_at += 90_000
        on_disk.next_at = on_disk.queued_at + 50 if made.seq == 1 else 0.0
    async with running(world, 2) as dispatcher:
        for _ in range(4):
            # Whoever asks again and again does not put the wait off each time.
            assert await take(dispatcher) is None
            the_lane(dispatcher).refresh()
            await trio.sleep(14)
        await trio.sleep(5)
        assert events(await take(dispatcher)) == ["e1", "e2"]
        the_lane(dispatcher).release()
        await trio.sleep(3600)
        assert world.settled == [(1, DeliveryState.DEAD)]
        await trio.sleep(3600)
        assert world.settled == [(1, DeliveryState.DEAD), (2, DeliveryState.DEAD)]


async def test_what_is_behind_a_barrier_waits_for_the_backfill(autojump_clock: MockClock) -> None:
    world = pulled()
    world.outbox.add(2)
    async with world.dispatcher() as dispatcher:
        dispatcher.set_barrier("reg_1", 2)
        dispatcher.start([(LANE, 2)])
        await trio.sleep(1)
        lease = await take(dispatcher)
        assert events(lease) == ["e1"]
        assert lease is not None
        assert not dispatcher.is_drained("reg_1")
        the_lane(dispatcher).settle(list(lease.leased))
        await trio.sleep(1)
        assert dispatcher.is_drained("reg_1")
        assert await take(dispatcher) is None
        assert [lane.waits_for for lane in dispatcher.lanes()] == ["backfill"]
        dispatcher.lift_barrier("reg_1")
        await trio.sleep(1)
        assert events(await take(dispatcher)) == ["e2"]


async def test_a_disabled_lane_behind_a_barrier_does_not_read_all_the_time(autojump_clock: MockClock) -> None:
    world = pulled()
    made = world.outbox.add(2)
    async with running(world, 2) as dispatcher:
        the_lane(dispatcher).set_barrier(made[0].position)
        await trio.sleep(1)
        world.change(enabled=False)
        dispatcher.redirect("reg_1")
        before = len(world.outbox.reads)
        await trio.sleep(10)
        assert len(world.outbox.reads) < before + 20
        the_lane(dispatcher).set_barrier(None)
        await trio.sleep(1)
        assert [state for _, state in world.settled] == [DeliveryState.DEAD] * 2


async def test_a_delivery_that_fails_again_and_again_is_reported(autojump_clock: MockClock) -> None:
    world = pulled(retry=RetryOptions(schedule=(300.0,) * 10))
    world.outbox.add(150)
    async with running(world, 150) as dispatcher:
        for _ in range(4):
            while (lease := await take(dispatcher, most=1)) is None:  # noqa: ASYNC110 -- time passes
                await trio.sleep(10)
            the_lane(dispatcher).fail(lease.leased[0], "no")
        await trio.sleep(1)
    [(_, stuck)] = world.monitor.stuck
    assert (stuck.head, stuck.backlog, stuck.url) == (1, 150, PULL_URL)


async def test_what_was_cancelled_is_not_the_consumers_any_more_while_the_lane_is_still_paused(
    autojump_clock: MockClock,
) -> None:
    world = pulled()
    world.outbox.add(3)
    async with running(world, 3) as dispatcher:
        lease, lane = await take(dispatcher), the_lane(dispatcher)
        with dispatcher.paused("reg_1"):  # until another webhook's attempt in flight has ended, perhaps
            await trio.testing.wait_all_tasks_blocked()
            world.outbox.settle_nowait(
                Settlement(seq=1, state=DeliveryState.DEAD, at=0.0, reason="Cancelled.")
            )
            await lane.catch_up()
            assert events(lease) == ["e2", "e3"]
