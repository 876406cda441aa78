import trio
from trio.testing import Sequencer, wait_all_tasks_blocked

from tests.public.concurrency import TurnLock


async def test_holders_get_it_in_turn() -> None:
    lock, order = TurnLock(), list[str]()

    async def ask(holder: str) -> None:
        await lock.acquire(holder[0])
        order.append(holder)
        await trio.lowlevel.checkpoint()
        lock.release(holder[0])

    await lock.acquire("x")
    async with trio.open_nursery() as nursery:
        for holder in ("a1", "a2", "a3", "b1", "c1", "c2"):
            nursery.start_soon(ask, holder)
            await wait_all_tasks_blocked()
        lock.release("x")
    assert order == ["a1", "b1", "c1", "a2", "c2", "a3"]
    await lock.acquire("x")  # it is free
    lock.release("x")


async def test_who_is_cancelled_waits_no_longer() -> None:
    lock, sequence = TurnLock(), Sequencer()
    scopes = [trio.CancelScope() for _ in range(2)]
    got: list[int] = []

    async def ask(number: int) -> None:
        with scopes[number]:
            async with sequence(number):
                pass
            await lock.acquire("a")
            got.append(number)
            lock.release("a")

    await lock.acquire("x")
    async with trio.open_nursery() as nursery:
        for number in range(2):
            nursery.start_soon(ask, number)
        await wait_all_tasks_blocked()
        scopes[0].cancel()
        await wait_all_tasks_blocked()
        lock.release("x")
    assert got == [1]
