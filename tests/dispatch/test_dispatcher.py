from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from hookgw.delivery.http.connection import IdleConnection
from hookgw.delivery.http.transport import LaneTransport
from hookgw.dispatch.dispatcher import REST_AFTER, Dispatcher
from hookgw.models.deliveries import DeliveryState, LaneState, Outcome
from tests.dispatch.fakes import URL, FakeTransport, World, registration
from tests.dispatch.sockets import is_closed

OTHER = "http://127.0.0.1:9/other"


@asynccontextmanager
async def running(
    world: World, backlog: Iterable[tuple[str, int]] = (), *, made: list[FakeTransport] | None = None
) -> AsyncIterator[Dispatcher]:
    """A dispatcher at work; ``made`` gets the transports that it makes."""
    transports = [] if made is None else made

    def transport() -> LaneTransport:
        transports.append(FakeTransport())
        return cast("LaneTransport", transports[-1])

    dispatcher = Dispatcher(world.services, transport)
    async with trio.open_nursery() as nursery:
        await nursery.start(dispatcher.run, backlog)
        yield dispatcher
        nursery.cancel_scope.cancel()


async def test_starts_lanes_from_the_backlog(autojump_clock: MockClock) -> None:
    world = World()
    world.store.append(2)
    world.store.append(1, lane=OTHER)
    async with running(world, [(URL, 2), (OTHER, 1)]) as dispatcher:
        assert dispatcher.is_running
        assert {lane.lane: lane.backlog for lane in dispatcher.lanes()} == {URL: 2, OTHER: 1}
        await trio.sleep(1)
    assert sorted(world.courier.order) == ["e1", "e2", "e3"]
    assert not dispatcher.is_running


async def test_a_lane_starts_with_its_first_delivery_and_ends_when_idle(autojump_clock: MockClock) -> None:
    world = World(lane_idle=60.0)
    async with running(world) as dispatcher:
        dispatcher.dispatch(world.store.append(2))
        await trio.sleep(1)
        assert [lane.lane for lane in dispatcher.lanes()] == [URL]
        await trio.sleep(60)
        assert dispatcher.lanes() == []
        assert world.keeper.states == [LaneState.IDLE]
        dispatcher.dispatch(world.store.append(1))
        await trio.sleep(1)
    assert world.courier.order == ["e1", "e2", "e3"]


async def test_a_lane_at_rest_is_shown_as_it_was(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e2"] = [Outcome.REJECTED]
    async with running(world) as dispatcher:
        dispatcher.dispatch(world.store.append(2))
        await trio.sleep(REST_AFTER / 2)
        [idle] = dispatcher.lanes()
        await trio.sleep(REST_AFTER)
        assert dispatcher.lanes() == dispatcher.lanes([URL, OTHER]) == [idle]
        assert (idle.state, idle.last_outcome) == (LaneState.IDLE, Outcome.REJECTED)
        assert world.keeper.states == []


async def test_a_lane_comes_back_from_its_rest_with_its_connection(
    autojump_clock: MockClock, connection: IdleConnection
) -> None:
    world = World()
    made: list[FakeTransport] = []
    async with running(world, made=made) as dispatcher:
        dispatcher.dispatch(world.store.append(1))
        await trio.sleep(REST_AFTER / 2)
        made[0].idle = connection
        await trio.sleep(REST_AFTER)
        assert made[0].idle is None
        dispatcher.dispatch(world.store.append(1))
        assert made[1].idle is connection
        await trio.sleep(REST_AFTER / 2)
        assert not is_closed(connection)
    assert world.courier.order == ["e1", "e2"]


async def test_what_was_settled_before_the_rest_is_not_sent_again_after_it(
    autojump_clock: MockClock,
) -> None:
    world = World()
    async with running(world) as dispatcher:
        first, second = world.store.append(2)
        dispatcher.dispatch([first, second])
        await trio.sleep(2 * REST_AFTER)
        world.store.pending[second.seq] = second  # its outcome is not on disk yet
        world.store.requeue(first)
        dispatcher.requeued({URL: 1})
        await trio.sleep(1)
    assert world.courier.order == ["e1", "e2", "e1"]


async def test_a_lane_at_rest_that_is_paused_reads_the_outbox_from_the_start(
    autojump_clock: MockClock,
) -> None:
    world = World()
    async with running(world) as dispatcher:
        low, high = world.store.append(2)
        dispatcher.dispatch([high])
        await trio.sleep(2 * REST_AFTER)
        assert world.courier.order == ["e2"]
        dispatcher.pause([URL])  # what was pending elsewhere has moved to this lane
        await trio.sleep(1)
    assert world.courier.order == ["e2", low.event.id]


async def test_a_lane_at_rest_has_nothing_under_way_and_nothing_to_resume(autojump_clock: MockClock) -> None:
    world = World()
    async with running(world) as dispatcher:
        dispatcher.dispatch(world.store.append(1))
        await trio.sleep(2 * REST_AFTER)
        assert dispatcher.under_way([URL], "reg_1") == []
        dispatcher.resume([URL])
        await trio.sleep(1)
    assert world.courier.order == ["e1"]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_the_end_closes_the_connections_of_lanes_at_rest(
    autojump_clock: MockClock, connection: IdleConnection, cancelled: bool
) -> None:
    world = World()
    made: list[FakeTransport] = []
    async with running(world, made=made) as dispatcher:
        dispatcher.dispatch(world.store.append(1))
        await trio.sleep(REST_AFTER / 2)
        made[0].idle = connection
        await trio.sleep(REST_AFTER)
        if not cancelled:
            dispatcher.stop()
            await dispatcher.wait_stopped()
    assert dispatcher.lanes() == []
    assert is_closed(connection)
    assert world.keeper.states == ([] if cancelled else [LaneState.IDLE])


async def test_lanes_do_not_wait_for_each_other(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.takes = 1
    async with running(world) as dispatcher:
        dispatcher.dispatch([*world.store.append(2), *world.store.append(2, lane=OTHER)])
        await trio.sleep(2.5)
    assert world.courier.most_on_the_wire == 2
    assert len(world.settled) == 4


async def test_what_is_under_way_is_found_by_registration(autojump_clock: MockClock) -> None:
    world = World(registrations=[registration("reg_1"), registration("reg_2")])
    world.courier.takes = 10
    async with running(world) as dispatcher:
        dispatcher.dispatch(world.store.append(1, registration="reg_2"))
        await trio.sleep(1)
        assert dispatcher.under_way([URL, OTHER], "reg_1") == []
        [(seq, done)] = dispatcher.under_way([URL, OTHER], "reg_2")
        assert seq == 1
        assert not done.is_set()
        await done.wait()
    assert world.settled == [(1, DeliveryState.DELIVERED)]


async def test_paused_lanes_wait_and_then_read_the_outbox(autojump_clock: MockClock) -> None:
    world = World()
    go_on = trio.Event()
    async with running(world) as dispatcher:
        dispatcher.pause([URL], until=[go_on])
        world.store.append(1)
        await trio.sleep(1)
        assert world.courier.order == []
        go_on.set()
        await trio.sleep(1)
    assert world.courier.order == ["e1"]


async def test_resume_wakes_waiting_lanes_and_passes_over_unknown_ones(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.FAILED]
    async with running(world) as dispatcher:
        dispatcher.dispatch(world.store.append(1))
        await trio.sleep(1)
        assert [lane.state for lane in dispatcher.lanes([URL, OTHER])] == [LaneState.WAITING]
        dispatcher.resume([URL, OTHER])
        await trio.sleep(0.1)
    assert world.courier.order == ["e1", "e1"]


async def test_stopping_lets_attempts_end_and_leaves_the_rest_on_disk(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.takes = 5
    async with running(world) as dispatcher:
        dispatcher.dispatch(world.store.append(3))
        await trio.sleep(1)
        dispatcher.stop()
        assert not dispatcher.is_running
        dispatcher.dispatch(world.store.append(1, lane=OTHER))
        with trio.fail_after(10):
            await dispatcher.wait_stopped()
    assert world.settled == [(1, DeliveryState.DELIVERED)]
    assert sorted(world.store.pending) == [2, 3, 4]


async def test_a_bug_in_a_lane_ends_the_dispatcher(autojump_clock: MockClock) -> None:
    world = World()

    def bug(registration_id: str) -> None:
        raise RuntimeError("a bug")

    world.keeper.registration = bug  # type: ignore[method-assign]
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with running(world) as dispatcher:
            dispatcher.dispatch(world.store.append(1))
            await trio.sleep_forever()


async def test_a_nudge_wakes_a_lane_or_starts_it(autojump_clock: MockClock) -> None:
    world = World()
    async with running(world) as dispatcher:
        [first] = world.store.append(1)
        dispatcher.dispatch([first])
        await trio.sleep(1)
        world.store.requeue(first)
        other = world.store.append(2, lane=OTHER)
        dispatcher.requeued({URL: 1, OTHER: 2})
        assert {lane.lane: lane.backlog for lane in dispatcher.lanes()} == {URL: 1, OTHER: 2}
        await trio.sleep(1)
    assert sorted(world.courier.order) == sorted(["e1", "e1", *(d.event.id for d in other)])


async def test_a_nudge_while_stopping_leaves_it_on_disk(autojump_clock: MockClock) -> None:
    world = World()
    async with running(world) as dispatcher:
        dispatcher.stop()
        world.store.append(1)
        dispatcher.requeued({URL: 1})
        await dispatcher.wait_stopped()
    assert world.courier.order == []


async def test_what_is_appended_while_all_ends_by_a_fault_stays_on_disk(autojump_clock: MockClock) -> None:
    """The store still writes then, and tells of it; that must not add a failure to the one there is."""
    world = World()
    async with running(world) as dispatcher:
        pass
    assert not dispatcher.is_running
    dispatcher.dispatch(world.store.append(1))
    dispatcher.requeued({OTHER: 1})
    assert world.courier.order == []


async def test_a_paused_lane_that_is_stopped_waits_for_no_disk(autojump_clock: MockClock) -> None:
    world = World()
    go_on = trio.Event()
    world.store.flush = trio.sleep_forever  # type: ignore[method-assign]
    async with running(world) as dispatcher:
        dispatcher.pause([URL], until=[go_on])
        await trio.sleep(1)
        dispatcher.stop()
        go_on.set()
        with trio.fail_after(1):
            await dispatcher.wait_stopped()
