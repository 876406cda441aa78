"""What a connector gets in a call counts as memory until the call has ended."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from hookgw import NetworkRefused
from hookgw.testing import FakeConnector
from tests.public.delivery import AnswerMemory
from tests.public.instances import call_in_time
from tests.public.plugins import Boundary, ContainedConnector, check_connector

CONNECTOR = ContainedConnector(check_connector(FakeConnector()), "mine", Boundary())


async def get(memory: AnswerMemory) -> None:
    """Get an answer of ten bytes."""
    held = memory.hold("shop")
    await held.take(10)
    held.hand_over()


@pytest.mark.parametrize("end", ["returns", "fails", "takes too long"])
async def test_an_answer_counts_until_the_call_has_ended(end: str, autojump_clock: MockClock) -> None:
    memory = AnswerMemory(2**20)

    async def call() -> Any:
        await get(memory)
        await get(memory)
        assert memory.share.held("shop") == 20
        if end == "fails":
            raise NetworkRefused("No.")
        await trio.sleep(60 if end == "takes too long" else 1)
        assert memory.share.held("shop") == 20

    if end == "returns":
        await call_in_time(CONNECTOR, call)
    else:
        with pytest.raises(NetworkRefused):
            await call_in_time(CONNECTOR, call)
    assert memory.share.used == 0


async def test_an_answer_of_no_call_does_not_count_once_it_is_handed_over() -> None:
    memory = AnswerMemory(2**20)
    await get(memory)
    assert memory.share.used == 0


async def test_an_answer_that_a_task_gets_after_its_call_does_not_count_for_ever() -> None:
    memory, call_ended = AnswerMemory(2**20), trio.Event()

    async def later() -> None:
        await call_ended.wait()
        await get(memory)

    async with trio.open_nursery() as nursery:

        async def call() -> None:
            nursery.start_soon(later)

        await call_in_time(CONNECTOR, call)
        call_ended.set()
    assert memory.share.used == 0
