"""Events on their way to one place: in order, a few at a time, no more than there is room for."""

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from hookgw import Event
from hookgw.core.operational import queue as module
from tests.public.core import EventQueue


def event(number: int) -> Event:
    return Event(id=str(number), kind="LANE_FAILING", instance="*", data_json=b"{}", time=0.0)


class Place:
    """Takes events, once it may."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may = trio.Event()
        self.may.set()

    async def send(self, events: list[Event]) -> None:
        self.batches.append([event.id for event in events])
        await self.may.wait()


async def test_events_are_sent_in_order_a_few_at_a_time(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    place = Place()
    queue = EventQueue("place")
    for number in range(5):
        queue.put(event(number))
    nursery.start_soon(queue.run, place.send)
    await queue.wait_empty()
    assert place.batches == [["0", "1"], ["2", "3"], ["4"]]
    queue.put(event(5))
    await queue.wait_empty()
    assert place.batches[3:] == [["5"]]


async def test_an_empty_one_need_not_run_to_be_empty() -> None:
    await EventQueue("place").wait_empty()


async def test_what_comes_meanwhile_is_waited_for(nursery: trio.Nursery) -> None:
    place = Place()
    place.may = trio.Event()
    queue = EventQueue("place")
    nursery.start_soon(queue.run, place.send)
    queue.put(event(0))
    await trio.testing.wait_all_tasks_blocked()
    queue.put(event(1))
    place.may.set()
    await queue.wait_empty()
    assert place.batches == [["0"], ["1"]]


async def test_what_one_instance_has_too_much_of_is_lost_and_not_that_of_another(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 10)
    place = Place()
    queue = EventQueue("place")
    for number in range(20):
        queue.put(event(number), "greedy")
    queue.put(event(100), "quiet")
    queue.put(event(101))
    nursery.start_soon(queue.run, place.send)
    await queue.wait_empty()
    assert place.batches == [["0", "1", "2", "3", "4", "100", "101"]]
    queue.put(event(20), "greedy")
    await queue.wait_empty()
    assert place.batches[1:] == [["20"]]


async def test_what_there_is_no_room_for_is_lost_and_logged(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 4)
    place = Place()
    queue = EventQueue("place")
    with capture_logs() as logs:
        for number in range(3):
            queue.put(event(number))
    assert [(entry["place"], entry["kind"]) for entry in logs] == [("place", "LANE_FAILING")]
    nursery.start_soon(queue.run, place.send)
    await queue.wait_empty()
    assert place.batches == [["0", "1"]]
