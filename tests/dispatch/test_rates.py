"""Lanes of registrations with a rate, on a clock that jumps as soon as everybody waits."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
import trio

from hookgw import DeliveryState, LaneState, Outcome
from tests.dispatch.fakes import World, registration
from tests.public.kernel import parse_rate
from tests.public.lanes import RateLimit, RateLimits
from tests.public.records import Ordering

pytestmark = pytest.mark.usefixtures("autojump_clock")


def rated(text: str, **more: Any) -> World:
    return World(registration(rate=parse_rate(text), **more), schedule=[0.0] * 50)


async def test_attempts_come_at_a_steady_pace_after_the_burst() -> None:
    world = rated("20/s")
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(42))
        await trio.sleep(60)
    times = world.sender.times
    assert times[:2] == [0, 0]
    assert [round(b - a, 3) for a, b in pairwise(times[1:])] == [0.05] * 40
    assert world.sender.order == [f"e{n}" for n in range(1, 43)]


async def test_no_burst_follows_a_wait_for_the_receiver() -> None:
    """A receiver that allows no burst would refuse the second one after each wait, and so on without end."""
    world = rated("20/s")
    world.sender.script["e3"] = [Outcome.UNREACHABLE] * 4
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(12))
        await trio.sleep(60)
    times = world.sender.times
    again = world.sender.order.index("e4") - 1
    assert times[again] - times[again - 1] > 0.3  # the bucket was full
    assert [round(b - a, 3) for a, b in pairwise(times[again:])] == [0.05] * 9


async def test_no_minute_has_more_than_the_count_and_a_tenth() -> None:
    world = rated("100/m")
    async with world.dispatcher() as dispatcher:
        for rest in (0.0, 7.0, 300.0, 2.0):
            await trio.sleep(rest)
            dispatcher.dispatch(world.outbox.add(100))
        await trio.sleep(1000)
    times = world.sender.times
    assert len(times) == 400
    assert 105 < max(sum(begin <= at < begin + 60 for at in times) for begin in times) <= 110


async def test_a_retry_is_an_attempt() -> None:
    world = rated("1/s")
    world.sender.script["e1"] = [Outcome.FAILED] * 3
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(60)
    assert world.sender.order == ["e1"] * 4 + ["e2"]
    assert world.sender.times == [0, 1, 2, 3, 4]


async def test_a_lane_that_waits_for_its_rate_shows_it_and_holds_nothing() -> None:
    world = rated("10/h")
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(3))
        await trio.sleep(10)
        [lane] = dispatcher.lanes()
        assert (lane.state, lane.waits_for, lane.backlog) == (LaneState.WAITING, "rate", 2)
        assert lane.waiting_until == world.sender.requests[0].at + 360
        assert (world.memory.used, world.pools.statistics().lent) == (0, 0)
        assert world.monitor.states == []  # nobody is failing
        dispatcher.resume("reg_1")
        await trio.sleep(10)
        assert len(world.sender.requests) == 1
        await trio.sleep(705)
        assert dispatcher.lanes()[0].waits_for is None
    assert world.sender.times == [0, 360, 720]


@pytest.mark.parametrize("takes", [0.0, 0.4])
async def test_lanes_share_the_rate_in_turn(takes: float) -> None:
    world = rated("10/s", ordering=Ordering.CHAT, concurrency=8)
    world.sender.takes = takes
    lanes = [f"reg_1:0:{number}" for number in range(8)]
    async with world.dispatcher() as dispatcher:
        for lane in lanes:
            dispatcher.dispatch(world.outbox.add(20, lane=lane))
        await trio.sleep(8.05)
        first = Counter(request.lane for request in world.sender.requests)
        await trio.sleep(100)
    times = world.sender.times
    assert len(times) == 160
    assert times[-1] == pytest.approx(15.9, abs=0.5)  # no token is lost
    assert max(sum(begin <= at < begin + 1 for at in times) for begin in times) <= 11
    assert max(first[lane] for lane in lanes) - min(first[lane] for lane in lanes) <= 2


async def test_what_is_filtered_out_takes_no_token() -> None:
    world = rated("1/s")
    world.sender.filtered = {f"e{number}" for number in range(1, 20)}
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(20))
        await trio.sleep(0.5)
        assert world.sender.order == ["e20"]


async def test_another_rate_counts_at_once() -> None:
    world = rated("1/h")
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(5))
        await trio.sleep(10)
        world.change(rate=parse_rate("1/s"))
        dispatcher.rate_changed("reg_1")
        await trio.sleep(2.5)
        assert world.sender.times == [0, 10, 11, 12]
        world.change(rate=None)
        dispatcher.rate_changed("reg_1")
        await trio.sleep(0.1)
    assert len(world.sender.order) == 5


async def test_a_pause_during_the_wait_for_the_rate() -> None:
    world = rated("1/m")
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(3))
        await trio.sleep(10)
        with dispatcher.paused("reg_1"):
            await trio.sleep(10)
            assert dispatcher.lanes()[0].waits_for is None
        await trio.sleep(200)
    assert world.sender.times == [0, 60, 120]


async def test_lanes_that_are_resumed_together_do_not_wake_for_the_same_token() -> None:
    world = rated("1/m", ordering=Ordering.CHAT, concurrency=8)
    async with world.dispatcher() as dispatcher:
        for number in range(8):
            dispatcher.dispatch(world.outbox.add(1, lane=f"reg_1:0:{number}"))
        await trio.sleep(10)
        for again in (dispatcher.resume, dispatcher.rate_changed, dispatcher.redirect):
            again("reg_1")
            await trio.sleep(1)
            began, lanes = world.sender.requests[0].at, dispatcher.lanes()
            waiting = sorted(lane.waiting_until for lane in lanes if lane.waiting_until is not None)
            assert [until - began for until in waiting] == [60, 120, 180, 240, 300, 360, 420]
        await trio.sleep(500)
    assert world.sender.times == [0, 60, 120, 180, 240, 300, 360, 420]


async def test_an_unreachable_receiver_and_a_rate() -> None:
    world = rated("1/s")
    world.sender.script["e1"] = [Outcome.UNREACHABLE] * 4
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(60)
    # The waits are 50, 100, 200 and 400 ms: the rate is slower.
    assert world.sender.times == [0, 1, 2, 3, 4, 5]
    assert world.settled == [(1, DeliveryState.DELIVERED), (2, DeliveryState.DELIVERED)]


class Standing:
    """A lane in line."""

    def __init__(self) -> None:
        self.is_leaving = False
        self.moved: list[float] = []

    def move_up(self, opens_at: float) -> None:
        self.moved.append(opens_at)


def known(limits: RateLimits) -> Mapping[str, RateLimit]:
    return limits._limits


def test_a_limit_is_kept_while_a_new_one_would_give_more() -> None:
    limits = RateLimits()
    mine = registration(rate=parse_rate("10/h"))
    limit = limits.of(mine, 0.0)
    assert limit is not None
    assert limit.take(0.0)
    for number in range(500):
        limits.of(registration(f"reg_x{number}", rate=parse_rate("1/s")), 10.0)
    assert limits.of(mine, 10.0) is limit
    assert len(known(limits)) < 300
    assert limits.of(registration(), 10.0) is None


def test_an_idle_limit_is_kept_while_a_lane_holds_it() -> None:
    limits = RateLimits()
    mine = registration(rate=parse_rate("10/s"))
    limit = limits.of(mine, 0.0)
    for number in range(500):
        limits.of(registration(f"reg_x{number}", rate=parse_rate("1/s")), 10.0)
    assert limits.of(mine, 10.0) is limit
    assert len(known(limits)) < 300


def test_a_limit_that_rested_long_gives_no_more_than_its_burst() -> None:
    limit = RateLimit(parse_rate("30/s"))
    now = 1_000_000.0
    assert [limit.take(now) for _ in range(5)] == [True, True, True, False, False]
    assert limit.turn(now, has_waited=True) == pytest.approx(now + 1 / 30)
    for _ in range(2):
        limit.line_up(Standing(), has_waited=False)
    assert limit.turn(now, has_waited=False) == pytest.approx(now + 3 / 30)
    limit.line_up(Standing(), has_waited=True)
    assert limit.turn(now, has_waited=True) == pytest.approx(now + 2 / 30)
    assert limit.turn(now, has_waited=False) == pytest.approx(now + 4 / 30)
    assert limit.turn(now + 1, has_waited=True) == pytest.approx(now + 1 / 30)  # there is a token


@pytest.mark.parametrize("has_waited", [False, True])
def test_a_limit_with_somebody_in_line_is_not_idle(has_waited: bool) -> None:
    limit, lane = RateLimit(parse_rate("1/s")), Standing()
    assert limit.is_idle(1.0)
    limit.line_up(lane, has_waited=has_waited)
    assert not limit.is_idle(1.0)
    limit.leave(lane, 1.0, is_early=False)
    assert limit.is_idle(1.0)


def test_those_behind_who_leaves_early_move_up() -> None:
    limit = RateLimit(parse_rate("1/s"))
    lanes = [Standing() for _ in range(6)]
    for lane in lanes[2:]:
        limit.line_up(lane, has_waited=False)
    for lane in lanes[:2]:
        limit.line_up(lane, has_waited=True)
    assert limit.take(100.0)
    for number in (0, 1, 3):
        lanes[number].is_leaving = True
    limit.leave(lanes[0], 100.5, is_early=True)
    moved = [lane.moved for lane in lanes]
    assert moved == [[], [], [101.0], [], [102.0], [103.0]]
    for number in (1, 3):
        limit.leave(lanes[number], 100.5, is_early=True)  # it was passed over already
    limit.leave(lanes[2], 101.0, is_early=False)
    assert [lane.moved for lane in lanes] == moved
    assert limit.turn(101.0, has_waited=False) == 103.0


def test_those_behind_get_no_tokens_of_a_time_that_is_past() -> None:
    limit = RateLimit(parse_rate("1/s"))
    lanes = [Standing() for _ in range(3)]
    for lane in lanes:
        limit.line_up(lane, has_waited=False)
    limit.leave(lanes[0], 500.0, is_early=True)
    assert [lane.moved for lane in lanes] == [[], [500.0], [501.0]]
