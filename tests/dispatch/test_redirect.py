"""What a changed URL, header, secret or timeout means for the lanes of a registration."""

from typing import Any

import pytest
import trio

from hookgw import DeliveryState, LaneState, Outcome
from tests.dispatch.fakes import LANE, NEW_URL, URL, World, registration
from tests.public.kernel import PluginFailed, Secret
from tests.public.lanes import LANE_PAGE as PAGE
from tests.public.lanes import RETIRE_AFTER, Dispatcher
from tests.public.records import Ordering

pytestmark = pytest.mark.usefixtures("autojump_clock")

CHANGES: list[dict[str, Any]] = [
    {"url": NEW_URL},
    {"headers": {"authorization": "Bearer new"}},
    {"secrets": (Secret("whsec_bmV3"),)},
    {"timeout": 3.0},
    {"by_events": True},
]


def change(world: World, dispatcher: Dispatcher, **changes: Any) -> None:
    """Change a registration as the gateway does: first on disk, then in memory, then its lanes."""
    world.outbox.make_due("reg_1")
    world.change(**changes or {"url": NEW_URL})
    dispatcher.redirect("reg_1")


# A lane that waits.


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: next(iter(changes)))
async def test_the_waiting_head_is_tried_at_once(changes: dict[str, Any]) -> None:
    world = World(unreachable_first_wait=1.0, script={"e1": [Outcome.UNREACHABLE] * 6})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(20)
        assert world.sender.times == [0, 1, 3, 7, 15]
        change(world, dispatcher, **changes)
        await trio.sleep(5)
    # The new target is unreachable once, too: its first wait is as short as any first wait.
    assert world.sender.times == [0, 1, 3, 7, 15, 20, 21, 21]
    assert {r.registration is world.registrations["reg_1"] for r in world.sender.requests[5:]} == {True}
    assert world.settled == [(1, DeliveryState.DELIVERED), (2, DeliveryState.DELIVERED)]


async def test_other_registrations_are_not_touched() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1, lane="reg_2:0"))
        await trio.sleep(1)
        change(world, dispatcher)
        await trio.sleep(1)
        assert world.sender.order == ["e1"]


async def test_every_lane_of_the_registration_is_redirected() -> None:
    world = World(registration(ordering=Ordering.INSTANCE, concurrency=1))
    world.sender.refuses[URL] = Outcome.UNREACHABLE
    async with world.dispatcher() as dispatcher:
        for name in ("shop", "bank", "bar"):
            dispatcher.dispatch(world.outbox.add(2, lane=f"reg_1:0:{name}"))
        await trio.sleep(100)
        changed_at = world.clock.steady()
        change(world, dispatcher)
        await trio.sleep(1)
    assert len(world.settled) == 6
    assert [r.at for r in world.sender.requests if r.registration.url == NEW_URL] == [changed_at] * 6


async def test_a_fixed_body_keeps_its_bytes() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(1)
        change(world, dispatcher)
        await trio.sleep(1)
    sent = [(request.registration.url, request.body) for request in world.sender.requests]
    former, later = f"e1 to {URL}".encode(), f"e2 to {NEW_URL}".encode()
    assert sent == [(URL, former), (NEW_URL, former), (NEW_URL, later)]


async def test_a_failure_that_is_settled_before_redirect_does_not_delay_the_first_attempt() -> None:
    """The change is committed, then the attempt in flight fails, then memory and lanes follow."""
    world = World()
    world.sender.takes = 10
    world.sender.script["e1"] = [Outcome.FAILED]
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(5)
        world.outbox.make_due("reg_1")
        await trio.sleep(6)
        assert world.outbox.pending[1].next_at > world.clock.steady()
        world.change(url=NEW_URL)
        dispatcher.redirect("reg_1")
        await trio.sleep(0.1)
        assert len(world.sender.requests) == 2
        await trio.sleep(10)
    assert world.settled == [(1, DeliveryState.DELIVERED)]


async def test_a_stale_wait_is_ignored_even_if_a_pause_comes_between() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        world.outbox.may_settle = trio.Event()  # the lane takes the head, and waits
        world.change(url=NEW_URL)
        dispatcher.redirect("reg_1")
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            await trio.sleep(1)
            world.outbox.may_settle.set()
        await trio.sleep(0.1)
        assert len(world.sender.requests) == 2


async def test_a_stale_wait_is_ignored_by_a_lane_that_starts_in_the_pause_of_the_change() -> None:
    """The target and the partitions changed at once: the head is in another lane after the pause."""
    world = World(script={"e1": [Outcome.FAILED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            world.change(url=NEW_URL)
            dispatcher.redirect("reg_1")
            await trio.sleep(1)
            for delivery in world.outbox.pending.values():
                delivery.lane = "reg_1:1:3"
            dispatcher.start([("reg_1:1:3", 2)])
            await trio.sleep(1)
        await trio.sleep(0.1)
        assert world.sender.order == ["e1", "e1", "e2"]
        # The next change of partitions is not one of the target.
        world.sender.script["e3"] = [Outcome.FAILED]
        dispatcher.dispatch(world.outbox.add(1, lane="reg_1:1:3"))
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            world.outbox.pending[3].lane = "reg_1:2"
            dispatcher.start([("reg_1:2", 1)])
        await trio.sleep(1)
        assert world.sender.order == ["e1", "e1", "e2", "e3"]


# An attempt in flight to the former target.


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: next(iter(changes)))
@pytest.mark.parametrize(
    "outcome", [Outcome.FAILED, Outcome.UNREACHABLE, Outcome.GONE, Outcome.REJECTED, Outcome.BLOCKED]
)
async def test_a_failure_of_the_former_target_has_no_consequence(
    outcome: Outcome, changes: dict[str, Any]
) -> None:
    world = World(schedule=())  # one failed attempt is the last
    world.sender.takes = 10
    world.sender.script["e1"] = [outcome]
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(5)
        former = world.registrations["reg_1"]
        change(world, dispatcher, **changes)
        await trio.sleep(1)
        assert len(world.sender.requests) == 1  # the attempt is not cut off
        await trio.sleep(30)
    assert world.sender.times == [0, 10, 20]
    assert world.sender.order == ["e1", "e1", "e2"]
    assert world.settled == [(1, DeliveryState.DELIVERED), (2, DeliveryState.DELIVERED)]
    assert world.monitor.gone_ids == []
    first = world.outbox.settlements[0]
    assert (first.state, first.failures, first.body) == (DeliveryState.PENDING, 0, f"e1 to {URL}".encode())
    assert world.sender.requests[1].body == first.body
    # It is recorded, as an attempt of the registration that it was made for.
    assert first.attempt is not None
    assert first.attempt.outcome is outcome
    assert world.monitor.attempts[0] == (first.attempt, former)
    assert world.sender.requests[1].number == 2


async def test_a_plugin_failure_for_the_former_target_has_no_consequence() -> None:
    world = World(schedule=())
    failure = PluginFailed("upper", "hookgw_transform", "boom")
    slow = world.sender.render_body

    async def render_body(*args: Any) -> bytes | None:
        await trio.sleep(10)
        return await slow(*args)

    world.sender.render_body = render_body  # type: ignore[method-assign,assignment]
    world.sender.script["e1"] = [failure]
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(5)
        change(world, dispatcher)
        await trio.sleep(30)
    assert world.settled == [(1, DeliveryState.DELIVERED)]
    assert [request.body for request in world.sender.requests] == [f"e1 to {NEW_URL}".encode()]


async def test_a_success_of_the_former_target_settles() -> None:
    world = World()
    world.sender.takes = 10
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(5)
        change(world, dispatcher)
        await trio.sleep(30)
    assert world.settled == [(1, DeliveryState.DELIVERED), (2, DeliveryState.DELIVERED)]
    assert [r.registration.url for r in world.sender.requests] == [URL, NEW_URL]


async def test_failures_of_the_former_target_do_not_let_the_head_expire() -> None:
    """The attempt ends after the change is in memory, and before the lane hears of it."""
    world = World(max_age=100.0, unreachable_first_wait=1.0, unreachable_max_wait=8.0)
    world.sender.refuses[URL] = Outcome.UNREACHABLE
    world.sender.takes = 10
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(95)
        assert world.sender.in_flight == 1
        world.outbox.make_due("reg_1")
        world.change(url=NEW_URL)
        await trio.sleep(30)
        dispatcher.redirect("reg_1")
    assert world.sender.requests[-1].registration.url == NEW_URL
    assert world.settled == [(1, DeliveryState.DELIVERED)]


async def test_the_failures_of_the_new_target_count() -> None:
    world = World(schedule=(5.0,))
    world.sender.takes = 1
    world.sender.script["e1"] = [Outcome.FAILED] * 3
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(0.5)
        change(world, dispatcher)
        await trio.sleep(30)
    assert world.sender.times == [0, 1, 7]
    assert [s.failures for s in world.outbox.settlements] == [0, 1, 2]
    assert world.settled == [(1, DeliveryState.DEAD)]


# Lanes in other states.


async def test_an_idle_lane_goes_on_at_the_new_target() -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        change(world, dispatcher)
        await trio.sleep(1)
        assert [lane.state for lane in dispatcher.lanes()] == [LaneState.IDLE]
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
    assert [r.registration.url for r in world.sender.requests] == [URL, NEW_URL]


async def test_a_retired_lane_forgets_its_streak() -> None:
    world = World(unreachable_first_wait=1.0, max_age=10.0, script={"e1": [Outcome.UNREACHABLE] * 99})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(18)  # it expires after 15 s, with a streak of 4
        assert world.settled == [(1, DeliveryState.DEAD)]
        await trio.sleep(RETIRE_AFTER)
        change(world, dispatcher)
        assert [lane.state for lane in dispatcher.lanes("reg_1")] == [LaneState.IDLE]
        world.sender.script["e2"] = [Outcome.UNREACHABLE]
        [late] = world.outbox.add(1)
        late.queued_at = world.outbox.pending[late.seq].queued_at = world.clock.steady()
        dispatcher.dispatch([late])
        await trio.sleep(3)
    assert [round(r.at - world.sender.requests[-1].at) for r in world.sender.requests if r.event == "e2"] == [
        -1,
        0,
    ]


async def test_a_lane_that_reads_from_disk_goes_on_at_the_new_target() -> None:
    world = World()
    world.outbox.may_read = trio.Event()
    world.outbox.add(2 * PAGE + 3)
    async with world.dispatcher([(LANE, 2 * PAGE + 3)]) as dispatcher:
        await trio.sleep(1)
        assert world.outbox.reads == [(LANE, 0)]
        world.outbox.pending[1].next_at = world.clock.steady() + 100  # settled just now, and read before
        change(world, dispatcher)
        dispatcher.dispatch(world.outbox.add(1))
        world.outbox.may_read.set()
        await trio.sleep(1)
    assert world.sender.order == [f"e{number}" for number in range(1, 2 * PAGE + 5)]
    assert {r.registration.url for r in world.sender.requests} == {NEW_URL}


@pytest.mark.parametrize("refusals", [0, 1])
async def test_a_lane_that_starts_over_does_so_again(refusals: int) -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    flush, may_flush = world.outbox.flush, trio.Event()

    async def slow_flush() -> None:
        await may_flush.wait()
        await flush()

    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(1)
        world.outbox.flush = slow_flush  # type: ignore[method-assign]
        with dispatcher.paused("reg_1"):
            pass
        await trio.sleep(1)  # the lane starts over, and waits for the disk
        world.outbox.refusals = refusals
        world.change(url=NEW_URL)
        dispatcher.redirect("reg_1")
        may_flush.set()
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e1", "e2"]


async def test_a_paused_lane_tries_at_once_when_the_pause_ends() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            change(world, dispatcher)
            await trio.sleep(1)
            assert world.sender.order == ["e1"]
        await trio.sleep(0.1)
        assert world.sender.order == ["e1", "e1"]


async def test_a_redirect_holds_for_one_attempt() -> None:
    world = World(script={"e1": [Outcome.FAILED] * 3})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        change(world, dispatcher)
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            await trio.sleep(1)
        await trio.sleep(100)
    assert world.sender.times == [0, 1, 16, 46]


async def test_a_registration_that_was_disabled_with_no_url_may_be_redirected() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        change(world, dispatcher, url="vazio", enabled=False)
        await trio.sleep(0.1)
        assert world.settled == [(1, DeliveryState.DEAD)]
        assert [lane.url for lane in dispatcher.lanes()] == ["vazio"]
        await trio.sleep(RETIRE_AFTER)
        assert [lane.url for lane in dispatcher.lanes()] == ["vazio"]
