"""Lanes that one delivery holds up."""

from typing import Any

import pytest
import trio

from hookgw import Attempt, LaneState, Outcome
from tests.dispatch.fakes import LANE, World
from tests.public.delivery import AttemptResult
from tests.public.records import LaneStatistics, advice_for, is_stuck, skippable

# A receiver, or a proxy before it, that answers.
BUSY, THROTTLED = (
    [
        AttemptResult(
            Attempt(number=number, at=0.0, duration=0.0, outcome=Outcome.UNREACHABLE, status=status)
        )
        for number in range(1, 1000)
    ]
    for status in (503, 429)
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


def lane(**more: Any) -> LaneStatistics:
    given: dict[str, Any] = {"head": 17, "head_instance": "loja1", "tried_since": 100.0, "backlog": 101}
    return LaneStatistics(
        **{"lane": LANE, "registration": "reg_1", "partition": None, "url": None, "state": LaneState.WAITING}
        | given
        | more
    )


@pytest.mark.parametrize(
    ("more", "now", "expected"),
    [
        ({}, 700.1, True),
        ({}, 700.0, False),
        ({"backlog": 100}, 9000.0, False),
        ({"tried_since": None}, 9000.0, False),
        ({"state": LaneState.DELIVERING}, 9000.0, True),
        ({"state": LaneState.PAUSED}, 9000.0, False),
    ],
)
def test_it_takes_more_than_ten_minutes_and_a_hundred_behind(
    more: dict[str, Any], now: float, expected: bool
) -> None:
    assert is_stuck(lane(**more), now) is expected
    assert (advice_for(lane(**more), now) is not None) is expected


def test_the_advice_names_the_delivery_and_both_remedies() -> None:
    advice = advice_for(lane(backlog=1234), 1600.0)
    assert advice is not None
    assert "dlv_17 of loja1 has been tried for 25 minutes, and 1,233 wait behind it" in advice
    assert "skip it: hookgw delivery cancel loja1 dlv_17." in advice
    assert "retry.maxAge" in advice


async def test_a_head_is_reported_once() -> None:
    world = World(script={"e1": [*BUSY]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(101))
        await trio.sleep(600)
        assert world.monitor.stuck == []
        await trio.sleep(6000)
        ((at, found),) = world.monitor.stuck
        assert 600 < at < 1200
        assert (found.head, found.head_instance, found.backlog) == (1, "shop", 101)
        # The next one that holds it up is another report.
        world.sender.script["e2"] = [*BUSY]
        dispatcher.dispatch(world.outbox.add(50))
        with dispatcher.paused("reg_1"):
            del world.outbox.pending[1]
            dispatcher.cut_off("reg_1", 1)
        await trio.sleep(2000)
        assert [one.head for _, one in world.monitor.stuck] == [1, 2]


@pytest.mark.parametrize("answers", [[Outcome.UNREACHABLE] * 1000, THROTTLED], ids=["unreachable", "limits"])
async def test_a_receiver_that_nothing_reaches_or_that_limits_its_callers_is_no_delivery_s_fault(
    answers: list[Outcome | AttemptResult],
) -> None:
    world = World(script={"e1": [*answers]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(200))
        await trio.sleep(6000)
        assert world.monitor.stuck == []
        (found,) = dispatcher.lanes()
        assert found.tried_since is not None
        assert (skippable(found), advice_for(found, trio.current_time())) == ("", None)
        world.sender.script["e1"] = [*BUSY]
        await trio.sleep(1000)
        (found,) = dispatcher.lanes()
        assert skippable(found) == "shop/dlv_1"
        assert len(world.monitor.stuck) == 1


async def test_a_request_that_breaks_in_its_middle_may_be_its_fault() -> None:
    world = World()
    broken = Attempt(number=1, at=0.0, duration=0.0, outcome=Outcome.UNREACHABLE)
    world.sender.script["e1"] = [AttemptResult(broken, broke_off=True)]
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.testing.wait_all_tasks_blocked()
        (found,) = dispatcher.lanes()
        assert skippable(found) == "shop/dlv_1"


async def test_one_with_few_behind_it_is_reported_when_there_are_more() -> None:
    world = World(script={"e1": [*BUSY]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(100))
        await trio.sleep(6000)
        assert world.monitor.stuck == []
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(600)
        assert len(world.monitor.stuck) == 1


async def test_another_target_begins_anew() -> None:
    world = World(script={"e1": [*BUSY]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(101))
        await trio.sleep(500)
        world.change(url="http://127.0.0.3:9/hook")
        world.outbox.make_due("reg_1")
        dispatcher.redirect("reg_1")
        await trio.sleep(500)
        assert world.monitor.stuck == []
        (found,) = dispatcher.lanes()
        assert found.tried_since == pytest.approx(world.clock.steady() - 500, abs=1)
