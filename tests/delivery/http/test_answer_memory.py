"""The memory for answers: divided among instances, and no two answers wait for each other for ever."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.public.delivery import ANSWER_PATIENCE as PATIENCE
from tests.public.delivery import AnswerMemory, HeldAnswer, MemoryFull

pytestmark = pytest.mark.usefixtures("autojump_clock")

KIB = 2**10


async def fill(memory: AnswerMemory, holder: str, piece: int = KIB) -> list[HeldAnswer]:
    """Let answers of a holder arrive until one of them has to wait."""
    answers: list[HeldAnswer] = []
    with trio.CancelScope() as scope:
        while True:
            answers.append(memory.hold(holder))
            scope.deadline = trio.current_time() + 1
            await answers[-1].take(piece)
    return answers


async def test_one_instance_gets_half_and_the_next_one_a_quarter() -> None:
    memory = AnswerMemory(256 * KIB)
    await fill(memory, "a")
    assert memory.share.held("a") == 128 * KIB == memory.most_of_holder
    await fill(memory, "b")
    assert memory.share.held("b") == 64 * KIB


async def test_what_is_released_goes_to_those_that_wait() -> None:
    memory = AnswerMemory(4 * KIB)
    first = memory.hold("a")
    await first.take(2 * KIB)
    waiting = memory.hold("a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.take, KIB)
        await wait_all_tasks_blocked()
        first.release()
        first.release()
    assert memory.share.used == KIB
    waiting.release()
    assert memory.share.used == 0


async def test_an_answer_that_waits_for_too_long_fails_and_keeps_what_it_has() -> None:
    memory = AnswerMemory(4 * KIB)
    held = memory.hold("a")
    await held.take(2 * KIB)
    started = trio.current_time()
    with pytest.raises(MemoryFull, match=r"delivery\.answer_memory\)\. Retry later\.") as failure:
        await held.take(1)
    assert trio.current_time() - started == PATIENCE
    assert held.failure is failure.value
    assert memory.share.used == 2 * KIB
    held.release()
    assert memory.share.used == 0


async def test_of_two_answers_that_wait_for_each_other_one_goes_on(autojump_clock: MockClock) -> None:
    # Both begin to wait in the same moment, so that their patience ends together.
    memory, whole, failed = AnswerMemory(4 * KIB), [], []

    async def arrive(name: str) -> None:
        held = memory.hold("a")
        try:
            await held.take(KIB)
            await wait_all_tasks_blocked()
            await held.take(KIB)
            whole.append(name)
        except MemoryFull:
            failed.append(name)
        finally:
            held.release()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(arrive, "one")
        nursery.start_soon(arrive, "other")
    assert len(whole) == len(failed) == 1
    assert memory.share.used == 0


async def test_a_cancelled_answer_leaves_nothing() -> None:
    memory = AnswerMemory(4 * KIB)
    held, other = memory.hold("a"), memory.hold("a")
    await held.take(2 * KIB)
    with trio.move_on_after(1):
        await other.take(KIB)
    other.release()
    held.release()
    assert memory.share.used == 0
    assert not memory.share.waiting
