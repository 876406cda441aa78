from dataclasses import dataclass

import pytest

from tests.public.lanes import ChatOrder
from tests.public.records import FIRST, Position


@dataclass(eq=False)
class Partition:
    frontier: Position | None


@pytest.fixture
def lanes() -> list[Partition]:
    """Three partitions, and behind them the wide lane."""
    return [Partition(None) for _ in range(4)]


@pytest.fixture
def order(lanes: list[Partition]) -> ChatOrder:
    order = ChatOrder()
    for lane in lanes:
        order.add(lane, is_wide=lane is lanes[-1])
    return order


def test_partitions_do_not_wait_for_each_other(lanes: list[Partition], order: ChatOrder) -> None:
    lanes[1].frontier = 3
    assert order.may_begin(lanes[0], 7)


@pytest.mark.parametrize(("frontier", "may_begin"), [(None, True), (FIRST, False), (6, False), (8, True)])
def test_a_partition_waits_for_what_comes_before_it(
    lanes: list[Partition], order: ChatOrder, frontier: Position | None, may_begin: bool
) -> None:
    lanes[-1].frontier = frontier
    assert order.may_begin(lanes[0], 7) is may_begin


@pytest.mark.parametrize(("frontier", "may_begin"), [(None, True), (FIRST, False), (6, False), (8, True)])
def test_an_event_about_several_chats_waits_for_all_partitions(
    lanes: list[Partition], order: ChatOrder, frontier: Position | None, may_begin: bool
) -> None:
    lanes[0].frontier, lanes[1].frontier, lanes[-1].frontier = 9, frontier, 7
    assert order.may_begin(lanes[-1], 7) is may_begin


def test_who_waits_is_woken_when_it_may_begin(lanes: list[Partition], order: ChatOrder) -> None:
    woken: list[str] = []
    lanes[0].frontier, lanes[-1].frontier = 3, 7
    order.wait(lanes[-1], 7, lambda: woken.append("wide"))
    order.wait(lanes[1], 9, lambda: woken.append("later"))
    assert not woken
    lanes[0].frontier = 8
    order.advanced()
    assert woken == ["wide"]
    order.leave(lanes[-1])
    lanes[-1].frontier = None
    order.advanced()
    assert woken == ["wide", "later"]


def test_the_end_of_a_lane_is_an_advance(lanes: list[Partition], order: ChatOrder) -> None:
    woken: list[str] = []
    lanes[0].frontier = FIRST
    order.wait(lanes[-1], 7, lambda: woken.append("wide"))
    assert not order.remove(lanes[0])
    assert woken == ["wide"]
    order.leave(lanes[-1])
    assert [order.remove(lane) for lane in lanes[1:]] == [False, False, True]
