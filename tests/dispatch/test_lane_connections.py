"""Lanes that wait for a connection: the pool of their host has one, and another lane has it."""

from functools import partial
from typing import Any, cast

import pytest
import trio

from hookgw import DeliveryState, LaneState, Outcome
from tests.dispatch.fakes import LANE, NEW_URL, OTHER_LANE, URL, World, registration
from tests.public.delivery import (
    AttemptResult,
    ConnectFailed,
    ConnectionPools,
    Dialer,
    MayNotSend,
    NoAttempt,
    OutOfDescriptors,
    PooledTransport,
)
from tests.public.lanes import Dispatcher
from tests.public.records import Ordering

pytestmark = pytest.mark.usefixtures("autojump_clock")

HOST = ("http", "127.0.0.1", 9, None)


def small_world(**settings: Any) -> World:
    """A world whose pools lend one connection; an attempt takes ten seconds."""
    world = World(**settings)
    world.pools = ConnectionPools(partial(PooledTransport, cast("Dialer", None)), host_connections=1)
    world.sender.takes = 10.0
    return world


async def make_second_lane_wait(world: World, dispatcher: Dispatcher) -> None:
    dispatcher.dispatch(world.outbox.add(1, lane=LANE))
    await trio.sleep(0.01)  # tasks start in any order
    dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
    await trio.sleep(0.99)
    [waiting] = dispatcher.lanes("reg_2")
    assert (waiting.state, waiting.waits_for) == (LaneState.DELIVERING, "connection")
    assert world.sender.order == ["e1"]
    assert dispatcher.in_flight("reg_2") == []


def assert_no_leak(world: World) -> None:
    statistics = world.pools.statistics(9)
    assert (statistics.lent, [host.waiting for host in statistics.hosts if host.waiting]) == (0, [])


async def test_a_lane_waits_for_its_host_and_its_timeout_starts_with_the_connection() -> None:
    world = small_world()
    async with world.dispatcher() as dispatcher:
        await make_second_lane_wait(world, dispatcher)
        await trio.sleep(30)
        assert [lane.waits_for for lane in dispatcher.lanes()] == [None, None]
    assert world.sender.times == [0, 10]
    assert world.sender.most_in_flight == 1
    assert_no_leak(world)


async def test_lanes_of_other_hosts_do_not_wait() -> None:
    world = small_world()
    world.change("reg_2", url=NEW_URL)
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1, lane=LANE))
        dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
        await trio.sleep(30)
    assert world.sender.times == [0, 0]


async def test_lanes_of_one_instance_leave_turns_to_another() -> None:
    world = small_world()
    world.registrations["reg_1"] = registration(ordering=Ordering.NONE, concurrency=8)
    async with world.dispatcher() as dispatcher:
        for number in range(5):
            dispatcher.dispatch(world.outbox.add(1, lane=f"reg_1:0:{number}", instance="busy"))
            await trio.sleep(0.01)
        dispatcher.dispatch(world.outbox.add(2, lane=OTHER_LANE, instance="quiet"))
        await trio.sleep(100)
    assert world.sender.order == ["e1", "e2", "e6", "e3", "e7", "e4", "e5"]
    assert_no_leak(world)


async def test_a_registration_that_is_deleted_meanwhile_gets_no_attempt() -> None:
    world = small_world()
    async with world.dispatcher() as dispatcher:
        await make_second_lane_wait(world, dispatcher)
        del world.registrations["reg_2"]
        await trio.sleep(30)
    assert world.sender.order == ["e1"]
    assert (2, DeliveryState.DEAD) in world.settled
    assert_no_leak(world)


async def test_a_disabled_registration_gets_no_attempt_before_it_is_parked() -> None:
    world = small_world()
    async with world.dispatcher() as dispatcher:
        await make_second_lane_wait(world, dispatcher)
        world.change("reg_2", enabled=False)
        with dispatcher.paused("reg_2"):
            assert dispatcher.in_flight("reg_2") == []
            world.outbox.pending.pop(2)  # the store parks it
            await trio.sleep(30)
        await trio.sleep(30)
    assert world.sender.order == ["e1"]
    assert_no_leak(world)


async def test_a_pause_ends_the_wait_and_the_lane_comes_back() -> None:
    world = small_world()
    async with world.dispatcher() as dispatcher:
        await make_second_lane_wait(world, dispatcher)
        with dispatcher.paused("reg_2"):
            await trio.sleep(1)
            assert [lane.state for lane in dispatcher.lanes("reg_2")] == [LaneState.PAUSED]
            await trio.sleep(50)
            assert world.sender.order == ["e1"]
            assert_no_leak(world)
        await trio.sleep(0.5)
        assert world.sender.order == ["e1", "e2"]


async def test_a_redirect_leads_to_the_new_host_at_once() -> None:
    world = small_world()
    async with world.dispatcher() as dispatcher:
        await make_second_lane_wait(world, dispatcher)
        world.change("reg_2", url=NEW_URL)
        dispatcher.redirect("reg_2")
        await trio.sleep(1)
        assert [r.registration.url for r in world.sender.requests] == [URL, NEW_URL]
        assert [r.body for r in world.sender.requests][1] == f"e2 to {NEW_URL}".encode()


async def test_a_change_that_nobody_reported_is_seen_all_the_same() -> None:
    world = small_world()
    async with world.dispatcher() as dispatcher:
        await make_second_lane_wait(world, dispatcher)
        world.change("reg_2", url=NEW_URL)
        await trio.sleep(30)
        assert [r.registration.url for r in world.sender.requests] == [URL, NEW_URL]
    assert_no_leak(world)


async def test_stop_ends_the_wait_and_leaves_the_delivery_on_disk() -> None:
    world = small_world()
    async with world.dispatcher() as dispatcher:
        await make_second_lane_wait(world, dispatcher)
        dispatcher.stop()
        await dispatcher.wait_stopped()
        assert world.sender.order == ["e1"]
    assert list(world.outbox.pending) == [2]
    assert_no_leak(world)


@pytest.mark.parametrize("granted", [False, True])
async def test_cancelling_a_lane_leaks_no_slot(granted: bool) -> None:
    world = small_world()
    async with world.dispatcher() as dispatcher:
        await make_second_lane_wait(world, dispatcher)
        if granted:
            # The first attempt ends, and everything is cancelled before the second lane has run.
            [[sequence, _]] = dispatcher.in_flight("reg_1")
            assert sequence == 1
            await trio.sleep(9)
    assert_no_leak(world)


async def test_a_lane_that_waits_shares_the_failure_of_the_probe() -> None:
    world = small_world(unreachable_first_wait=100.0)
    failure = ConnectFailed("No connection to port 9 of 127.0.0.1: refused.")
    async with world.dispatcher() as dispatcher:
        probe = world.pools.borrow_nowait(HOST, "elsewhere")
        assert probe is not None
        world.pools.connect_failed(probe, failure)
        world.pools.give_back(probe)
        probe = world.pools.borrow_nowait(HOST, "elsewhere")
        assert probe is not None
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        assert [lane.waits_for for lane in dispatcher.lanes()] == ["connection"]
        world.pools.connect_failed(probe, failure)
        world.pools.give_back(probe)
        await trio.sleep(1)
        [shown] = dispatcher.lanes()
        assert (shown.state, shown.last_outcome) == (LaneState.WAITING, Outcome.UNREACHABLE)
        assert world.sender.requests == []
        [settlement] = world.outbox.settlements
        assert settlement.attempt is not None
        assert (settlement.attempt.number, settlement.attempt.outcome) == (1, Outcome.UNREACHABLE)
        assert settlement.body == f"e1 to {URL}".encode()
        await trio.sleep(115)
        assert [request.number for request in world.sender.requests] == [2]


@pytest.mark.parametrize(
    "reason",
    [
        OutOfDescriptors("No socket could be opened: Too many open files."),
        MayNotSend("This node's lease ended while it connected."),
    ],
)
async def test_what_has_its_reason_here_is_no_attempt(reason: NoAttempt) -> None:
    world = World()
    send, refusals = world.sender.send, 3

    async def send_or_not(*arguments: object, **options: object) -> AttemptResult:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise reason
        return await send(*arguments, **options)  # type: ignore[arg-type]

    world.sender.send = send_or_not  # type: ignore[method-assign]
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(5)
        assert [lane.state for lane in dispatcher.lanes()] == [LaneState.IDLE]
    assert [(request.event, request.number) for request in world.sender.requests] == [("e1", 1), ("e2", 1)]
    assert [attempt.outcome for attempt, _ in world.monitor.attempts] == [Outcome.DELIVERED] * 2
    assert world.monitor.states == []
    assert_no_leak(world)
