from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from hookgw import Delivery, DeliveryState, LaneState, Outcome, Registration
from tests.dispatch.fakes import LANE, OTHER_LANE, URL, World, every_lane, registration
from tests.public.delivery import AttemptResult
from tests.public.lanes import RETIRE_AFTER, Dispatcher
from tests.public.records import Ordering
from tests.public.store import Held, LaneBacklog
from tests.support.exceptions import stray_cancelled

pytestmark = pytest.mark.usefixtures("autojump_clock")

# Starting, retiring and ending lanes.


async def test_starts_lanes_from_the_backlog() -> None:
    world = World()
    world.outbox.add(2)
    world.outbox.add(1, lane=OTHER_LANE)
    async with world.dispatcher([(LANE, 2), (OTHER_LANE, 1)]) as dispatcher:
        assert dispatcher.is_running
        assert {lane.lane: lane.backlog for lane in dispatcher.lanes()} == {LANE: 2, OTHER_LANE: 1}
        await trio.sleep(1)
    assert sorted(world.sender.order) == ["e1", "e2", "e3"]
    assert not dispatcher.is_running


async def test_start_starts_only_lanes_that_do_not_run() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        world.outbox.add(1, lane=OTHER_LANE)
        dispatcher.start([(LANE, 1), (OTHER_LANE, 1)])
        assert {lane.lane: lane.backlog for lane in dispatcher.lanes()} == {LANE: 1, OTHER_LANE: 1}
        await trio.sleep(1)
    assert sorted(world.sender.order) == ["e1", "e2"]


async def test_start_wakes_a_retired_lane() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(2 * RETIRE_AFTER)
        world.outbox.add(1)
        dispatcher.start([(LANE, 1)])
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2"]


async def test_a_lane_starts_with_its_first_delivery_and_ends_when_idle() -> None:
    world = World(lane_idle=60.0)
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(1)
        assert [lane.lane for lane in dispatcher.lanes()] == [LANE]
        await trio.sleep(60)
        assert dispatcher.lanes() == dispatcher.lanes("reg_1") == []
        assert world.monitor.states == [LaneState.IDLE]
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2", "e3"]


async def test_lanes_of_a_registration() -> None:
    world = World(registration(url="http://user:secret@a/hook", ordering=Ordering.INSTANCE, concurrency=4))
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1, lane="reg_1:0:shop"))
        await trio.sleep(2 * RETIRE_AFTER)
        dispatcher.dispatch(world.outbox.add(1, lane="reg_1:0:bank"))
        dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
        shown = [(lane.lane, lane.partition, lane.url) for lane in dispatcher.lanes("reg_1")]
        assert shown == [
            ("reg_1:0:bank", "bank", "http://a/hook"),
            ("reg_1:0:shop", "shop", "http://a/hook"),
        ]
        [other] = dispatcher.lanes("reg_2")
        assert (other.lane, other.partition, other.url) == (OTHER_LANE, None, None)
        assert dispatcher.lanes("reg_3") == []
        assert len(dispatcher.lanes()) == 3


async def test_a_retired_lane_is_shown_as_it_was() -> None:
    world = World(script={"e2": [Outcome.REJECTED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(RETIRE_AFTER / 2)
        [idle] = dispatcher.lanes()
        await trio.sleep(RETIRE_AFTER)
        assert dispatcher.lanes() == dispatcher.lanes("reg_1") == [idle]
        assert (idle.state, idle.last_outcome, idle.url) == (LaneState.IDLE, Outcome.REJECTED, URL)
        assert world.monitor.states == []


async def test_a_retired_lane_whose_registration_was_deleted_has_no_url() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(2 * RETIRE_AFTER)
        world.registrations.clear()
        [lane] = dispatcher.lanes()
        assert (lane.registration, lane.url) == ("reg_1", None)


async def test_a_retired_lane_starts_again() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(RETIRE_AFTER / 2)
        await trio.sleep(RETIRE_AFTER)
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(RETIRE_AFTER / 2)
    assert world.sender.order == ["e1", "e2"]


async def test_a_lane_does_not_send_again_what_it_settled_before_it_was_retired() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        first, second = world.outbox.add(2)
        dispatcher.dispatch([first, second])
        await trio.sleep(2 * RETIRE_AFTER)
        world.outbox.pending[second.seq] = second  # its settlement is not on disk yet
        world.outbox.requeue(first)
        dispatcher.requeued({LANE: 1})
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2", "e1"]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_the_end_forgets_retired_lanes(cancelled: bool) -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(RETIRE_AFTER / 2)
        await trio.sleep(RETIRE_AFTER)
        if not cancelled:
            dispatcher.stop()
            await dispatcher.wait_stopped()
    assert dispatcher.lanes() == dispatcher.lanes("reg_1") == []
    assert world.monitor.states == ([] if cancelled else [LaneState.IDLE])


async def test_a_lane_that_stops_is_reported() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(RETIRE_AFTER / 2)
        dispatcher.stop()
        await dispatcher.wait_stopped()
    assert world.monitor.states == [LaneState.IDLE]


async def test_lanes_do_not_wait_for_each_other() -> None:
    world = World()
    world.sender.takes = 1
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch([*world.outbox.add(2), *world.outbox.add(2, lane=OTHER_LANE)])
        await trio.sleep(2.5)
    assert world.sender.most_in_flight == 2
    assert len(world.settled) == 4


async def test_two_registrations_with_one_url_do_not_hold_each_other_up() -> None:
    world = World(
        registration("reg_1", URL), registration("reg_2", URL), script={"e1": [Outcome.UNREACHABLE] * 1000}
    )
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch([*world.outbox.add(2), *world.outbox.add(2, lane=OTHER_LANE)])
        await trio.sleep(1000)
    assert world.settled == [(3, DeliveryState.DELIVERED), (4, DeliveryState.DELIVERED)]
    assert [request.at for request in world.sender.requests if request.lane == OTHER_LANE] == [
        world.sender.requests[0].at
    ] * 2


async def test_requeued_deliveries_wake_a_lane_or_start_it() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        [first] = world.outbox.add(1)
        dispatcher.dispatch([first])
        await trio.sleep(1)
        world.outbox.requeue(first)
        other = world.outbox.add(2, lane=OTHER_LANE)
        dispatcher.requeued({LANE: 1, OTHER_LANE: 2})
        assert {lane.lane: lane.backlog for lane in dispatcher.lanes()} == {LANE: 1, OTHER_LANE: 2}
        await trio.sleep(1)
    assert sorted(world.sender.order) == sorted(["e1", "e1", *(d.event.id for d in other)])


async def raise_stray_cancelled() -> None:
    raise await stray_cancelled()


async def raise_a_bug() -> None:
    raise RuntimeError("a bug")


@pytest.mark.parametrize("bug", [raise_a_bug, raise_stray_cancelled])
async def test_a_bug_in_a_lane_stops_this_lane_alone_and_for_a_while(
    bug: Callable[[], Awaitable[None]],
) -> None:
    world = World()
    send, tries = world.sender.send, 0

    async def fail_four_times(delivery: Delivery, *arguments: Any, **options: Any) -> AttemptResult:
        nonlocal tries
        if delivery.event.id == "e1" and tries < 4:
            tries += 1
            await bug()
        return await send(delivery, *arguments, **options)

    world.sender.send = fail_four_times  # type: ignore[method-assign]
    async with world.dispatcher() as dispatcher:
        began = trio.current_time()
        dispatcher.dispatch(world.outbox.add(2))
        dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
        await trio.sleep(0.5)
        assert world.sender.order == ["e3"]
        assert dispatcher.recovering == [LANE]
        (lane,) = dispatcher.lanes("reg_1")
        assert (lane.state, lane.head) == (LaneState.PAUSED, None)
        assert "An error in hookgw ended the lane" in str(lane.last_error)
        dispatcher.dispatch(world.outbox.add(1))  # while the lane waits
        await trio.sleep(30)
        assert world.sender.order == ["e3", "e1", "e2", "e4"]
        assert dispatcher.recovering == []
    assert [at - began for at, _ in world.monitor.failures] == [0, 1, 3, 8]
    assert all(reason.startswith(f"{LANE}: ") for _, reason in world.monitor.failures)


async def test_a_lane_that_waits_for_its_restart_is_paused_redirected_and_stopped() -> None:
    world = World()
    world.sender.send = lambda *_, **__: raise_a_bug()  # type: ignore[method-assign,assignment]
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(0.5)
        with dispatcher.paused("reg_1"):
            dispatcher.redirect("reg_1")
            dispatcher.resume("reg_1")
            await trio.sleep(10)
            assert len(world.monitor.failures) == 1
        await trio.sleep(1)
        assert len(world.monitor.failures) == 2
        dispatcher.stop()
        with trio.fail_after(0.1):
            await dispatcher.wait_stopped()
    assert dispatcher.recovering == []


# Attempts in flight, and resuming.


async def test_attempts_in_flight_are_found_by_registration() -> None:
    world = World()
    world.sender.takes = 10
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2, lane=OTHER_LANE))
        await trio.sleep(1)
        assert dispatcher.in_flight("reg_1") == []
        [(seq, ended)] = dispatcher.in_flight("reg_2")
        assert seq == 1
        assert not ended.is_set()
        assert world.loop_load.is_only({OTHER_LANE})
        assert not world.loop_load.is_only({LANE})
        await ended.wait()
        assert world.settled == [(1, DeliveryState.DELIVERED)]
        await trio.sleep(30)
        assert world.loop_load.is_only(set())


async def test_a_retired_lane_has_nothing_in_flight_and_nothing_to_resume() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(2 * RETIRE_AFTER)
        assert dispatcher.in_flight("reg_1") == []
        dispatcher.resume("reg_1")
        await trio.sleep(1)
    assert world.sender.order == ["e1"]


async def test_resume_wakes_the_waiting_lanes_of_one_registration() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        assert [lane.state for lane in dispatcher.lanes("reg_1")] == [LaneState.WAITING]
        dispatcher.resume("reg_2")
        await trio.sleep(1)
        assert world.sender.order == ["e1"]
        dispatcher.resume("reg_1")
        await trio.sleep(0.1)
    assert world.sender.order == ["e1", "e1"]


# Pausing.


async def test_paused_lanes_wait_and_then_read_the_outbox() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            world.outbox.add(1)  # it was moved into the lane
            dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
            await trio.sleep(1)
            assert world.sender.order == ["e1", "e3"]
            assert [lane.state for lane in dispatcher.lanes("reg_1")] == [LaneState.PAUSED]
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e3", "e2"]


async def test_a_lane_that_starts_while_its_registration_is_paused_waits() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        with dispatcher.paused("reg_1"):
            early, late = world.outbox.add(2)
            dispatcher.dispatch([late])
            await trio.sleep(10)
            assert world.sender.order == []
        await trio.sleep(1)
    assert world.sender.order == [early.event.id, late.event.id]


async def test_one_lane_of_a_registration_is_paused() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        with dispatcher.paused("reg_1", "reg_1:0:a"):
            dispatcher.dispatch(world.outbox.add(1, lane="reg_1:0:a"))
            dispatcher.dispatch(world.outbox.add(1, lane="reg_1:0:b"))
            await trio.sleep(1)
            assert world.sender.order == ["e2"]
            # It waits for the end of both pauses.
            with dispatcher.paused("reg_1"):
                dispatcher.dispatch(world.outbox.add(1, lane="reg_1:0:b"))
                await trio.sleep(1)
            await trio.sleep(1)
            assert world.sender.order == ["e2", "e3"]
            whole = dispatcher.paused("reg_1")
            whole.__enter__()
        await trio.sleep(1)
        assert world.sender.order == ["e2", "e3"]
        whole.__exit__(None, None, None)
        await trio.sleep(1)
    assert world.sender.order == ["e2", "e3", "e1"]


@pytest.mark.parametrize("first_ends_first", [True, False])
async def test_lanes_wait_for_the_end_of_every_pause(first_ends_first: bool) -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        first, second = dispatcher.paused("reg_1"), dispatcher.paused("reg_1")
        with first if first_ends_first else second:
            await trio.sleep(1)
            other = second if first_ends_first else first
            other.__enter__()
            dispatcher.dispatch(world.outbox.add(1))
            await trio.sleep(1)
        await trio.sleep(10)
        assert world.sender.order == ["e1"]
        other.__exit__(None, None, None)
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2"]


async def test_a_pause_may_begin_as_another_ends() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            await trio.sleep(1)
        with dispatcher.paused("reg_1"):  # the lane has not run between the two
            dispatcher.dispatch(world.outbox.add(1))
            await trio.sleep(1)
            assert world.sender.order == ["e1"]
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2"]


async def test_an_attempt_in_flight_ends_during_a_pause() -> None:
    world = World()
    world.sender.takes = 10
    world.sender.script["e1"] = [Outcome.FAILED]
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            [(_, ended)] = dispatcher.in_flight("reg_1")
            await ended.wait()
            assert dispatcher.in_flight("reg_1") == []
            await trio.sleep(100)
            assert world.sender.order == ["e1"]
            assert world.outbox.pending[1].failures == 1
        await trio.sleep(11)
    assert world.settled == [(1, DeliveryState.DELIVERED)]


async def test_an_error_in_the_block_ends_the_pause() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        with pytest.raises(trio.TooSlowError), trio.fail_after(1), dispatcher.paused("reg_1"):
            await trio.sleep_forever()
        assert world.sender.order == []
        await trio.sleep(1)
        assert world.sender.order == ["e1"]
        dispatcher.dispatch(world.outbox.add(1, lane="reg_1:0:3"))
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2"]


async def test_the_monitor_hears_that_a_lane_delivers_after_a_wait_and_a_pause() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            await trio.sleep(10)
        await trio.sleep(1)
    assert world.monitor.states == [LaneState.WAITING, LaneState.DELIVERING]


# Stopping.


async def test_stop_lets_attempts_end_and_leaves_the_rest_on_disk() -> None:
    world = World()
    world.sender.takes = 5
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(3))
        await trio.sleep(1)
        dispatcher.stop()
        assert not dispatcher.is_running
        dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
        with trio.fail_after(10):
            await dispatcher.wait_stopped()
    assert world.settled == [(1, DeliveryState.DELIVERED)]
    assert sorted(world.outbox.pending) == [2, 3, 4]


async def test_after_stop_no_lane_starts() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.stop()
        dispatcher.dispatch(world.outbox.add(1))
        dispatcher.requeued({OTHER_LANE: 1})
        dispatcher.start([("reg_1:0:1", 1)])
        assert dispatcher.lanes() == []
        await dispatcher.wait_stopped()
    assert world.sender.order == []


async def test_stop_ends_a_paused_lane_at_once() -> None:
    """The pause may last as long as the disk refuses, and the lane needs nothing from the disk to end."""
    world = World()
    world.outbox.flush = trio.sleep_forever  # type: ignore[method-assign]
    async with world.dispatcher() as dispatcher:
        with dispatcher.paused("reg_1"):
            dispatcher.dispatch(world.outbox.add(1))
            await trio.sleep(1)
            dispatcher.stop()
            with trio.fail_after(1):
                await dispatcher.wait_stopped()
    assert world.sender.order == []


def do_everything(dispatcher: Dispatcher, world: World) -> None:
    dispatcher.dispatch(world.outbox.add(1))
    dispatcher.requeued({OTHER_LANE: 1})
    dispatcher.start([(LANE, 1)])
    dispatcher.redirect("reg_1")
    dispatcher.resume("reg_1")
    dispatcher.set_attempt_limit("reg_1", 2)
    with dispatcher.paused("reg_1"):
        assert dispatcher.in_flight("reg_1") == []
    assert dispatcher.lanes() == dispatcher.lanes("reg_1") == []


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("idle", [0.1, 2 * RETIRE_AFTER])
async def test_everything_is_harmless_once_the_dispatcher_has_ended(orderly: bool, idle: float) -> None:
    """The store still writes, and registrations still change, while the gateway ends after a fault."""
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(idle)
        if orderly:
            dispatcher.stop()
            await dispatcher.wait_stopped()
    do_everything(dispatcher, world)
    assert world.sender.order == ["e1"]


async def test_everything_is_harmless_before_the_dispatcher_runs() -> None:
    world = World()
    do_everything(Dispatcher(world.settings, every_lane()), world)


# A limit on attempts: ordering ``instance``.


def many_instances(concurrency: int) -> Registration:
    return registration(ordering=Ordering.INSTANCE, concurrency=concurrency)


async def test_lanes_of_ordering_instance_share_a_limit_on_attempts() -> None:
    world = World(many_instances(2), registration("reg_2"))
    world.sender.takes = 1
    async with world.dispatcher() as dispatcher:
        for number in range(5):
            dispatcher.dispatch(world.outbox.add(2, lane=f"reg_1:0:shop{number}", instance=f"shop{number}"))
        await trio.sleep(0.5)
        assert world.sender.in_flight == 2
        dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
        await trio.sleep(0.1)
        assert world.sender.in_flight == 3  # another registration's
        await trio.sleep(10)
    assert len(world.settled) == 11
    for number in range(5):
        lane = f"reg_1:0:shop{number}"
        events = [int(r.event.removeprefix("e")) for r in world.sender.requests if r.lane == lane]
        assert events == sorted(events)
    # In turn: at most the two lanes of one moment come a second time before each has come once.
    lanes = [request.lane for request in world.sender.requests if request.lane != OTHER_LANE]
    assert len(set(lanes[:6])) == 5


async def test_a_refused_event_of_one_instance_blocks_only_that_instance() -> None:
    world = World(many_instances(1), script={"e1": [Outcome.UNREACHABLE] * 1000})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2, lane="reg_1:0:shop"))
        await trio.sleep(1)
        dispatcher.dispatch(world.outbox.add(20, lane="reg_1:0:bank"))
        await trio.sleep(0.5)
        assert [seq for seq, _ in world.settled] == list(range(3, 23))
        assert 1 in world.outbox.pending
        await trio.sleep(1000)
    assert 2 in world.outbox.pending


async def test_a_changed_attempt_limit_takes_effect_at_once() -> None:
    world = World(many_instances(1))
    world.sender.takes = 10
    async with world.dispatcher() as dispatcher:
        for number in range(5):
            dispatcher.dispatch(world.outbox.add(2, lane=f"reg_1:0:shop{number}"))
        await trio.sleep(1)
        assert world.sender.in_flight == 1
        dispatcher.set_attempt_limit("reg_1", 4)
        await trio.sleep(1)
        assert world.sender.in_flight == 4
        dispatcher.set_attempt_limit("reg_1", 2)
        dispatcher.set_attempt_limit("reg_2", 1)  # it has no lanes
        await trio.sleep(10)
        assert world.sender.in_flight == 2


async def test_a_limit_that_was_set_while_no_lane_ran_holds() -> None:
    world = World(many_instances(1))
    world.sender.takes = 1
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1, lane="reg_1:0:shop"))
        await trio.sleep(100)
        assert dispatcher.lanes() == []
        world.change(concurrency=2)
        for number in range(5):
            dispatcher.dispatch(world.outbox.add(1, lane=f"reg_1:0:shop{number}"))
        await trio.sleep(0.5)
        assert world.sender.in_flight == 2


async def test_a_lane_that_waits_for_its_turn_can_be_paused_and_stopped() -> None:
    world = World(many_instances(1))
    world.sender.takes = 10
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch([*world.outbox.add(1, lane="reg_1:0:a"), *world.outbox.add(1, lane="reg_1:0:b")])
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            assert len(dispatcher.in_flight("reg_1")) == 1
            await trio.sleep(100)
            assert len(world.sender.requests) == 1
        await trio.sleep(1)
        assert len(world.sender.requests) == 2
        dispatcher.dispatch(world.outbox.add(1, lane="reg_1:0:a"))
        await trio.sleep(1)
        dispatcher.stop()
        await dispatcher.wait_stopped()
    assert len(world.sender.requests) == 2
    assert sorted(world.outbox.pending) == [3]


async def test_while_it_is_cancelled_no_commit_fails() -> None:
    """A commit may end at any moment of that. Its listener must not fail: the writer has more to write."""
    world = World()

    async def commit_all_the_time() -> None:
        with trio.CancelScope(shield=True):
            for _ in range(50):
                dispatcher.requeued({OTHER_LANE: 1})
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        dispatcher = Dispatcher(world.settings, every_lane())
        await nursery.start(dispatcher.run, world.services)
        nursery.cancel_scope.cancel()
        nursery.start_soon(commit_all_the_time)
    assert not dispatcher.is_running


async def test_a_lane_with_nothing_but_deliveries_that_are_held_back_is_shown() -> None:
    world = World()
    world.outbox.held_back = Held(
        lanes={
            "reg_1": [LaneBacklog(LANE, 2)],
            "reg_2": [LaneBacklog(OTHER_LANE, 5)],
            "reg_3": [LaneBacklog("reg_3:0:7", 1)],
        }
    )
    async with world.dispatcher([(LANE, 1)]) as dispatcher:
        assert {one.lane: one.held for one in dispatcher.lanes()} == {LANE: 2, OTHER_LANE: 5, "reg_3:0:7": 1}
        [other] = dispatcher.lanes("reg_2")
        assert (other.state, other.backlog, other.url) == (LaneState.IDLE, 0, URL)
        [gone] = dispatcher.lanes("reg_3")
        assert (gone.partition, gone.url, gone.held) == ("7", None, 1)
        world.change("reg_2", paused_at=1.0)
        assert [(one.state, one.held) for one in dispatcher.lanes("reg_2")] == [(LaneState.PAUSED, 5)]
        world.outbox.held_back = Held()
        assert [one.lane for one in dispatcher.lanes()] == [LANE]
