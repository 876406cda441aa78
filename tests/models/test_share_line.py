"""Places in the line of a share: in turn, and none is lost to a cancellation."""

import random

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw.fair import Share
from tests.public.concurrency import WaitingClaim, take_in_line


async def test_what_fits_is_taken_without_a_checkpoint() -> None:
    share: Share[WaitingClaim] = Share(4, 3)
    with trio.CancelScope() as scope:
        scope.cancel()
        await take_in_line(share, "a")
        assert share.held("a") == 1


async def test_holders_wait_in_turn() -> None:
    share: Share[WaitingClaim] = Share(2, 1)
    share.take("busy", 2)
    served: list[str] = []

    async def one(holder: str) -> None:
        await take_in_line(share, holder)
        served.append(holder)
        share.give(holder)

    async with trio.open_nursery() as nursery:
        for holder in ("a", "a", "a", "b"):
            nursery.start_soon(one, holder)
            await wait_all_tasks_blocked()
        share.give("busy")
    assert served == ["a", "b", "a", "a"]
    assert share.used == 1


async def test_a_cancelled_wait_leaves_the_line() -> None:
    share: Share[WaitingClaim] = Share(1, 1)
    share.take("busy")
    with trio.move_on_after(0):
        await take_in_line(share, "a")
    assert not share.waiting
    share.give("busy")
    assert share.used == 0


async def test_what_is_granted_in_the_moment_of_the_cancellation_is_given_back() -> None:
    share: Share[WaitingClaim] = Share(1, 1)
    share.take("busy")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_in_line, share, "a")
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        share.give("busy")
        assert share.held("a") == 1
    assert share.used == 0


async def test_at_random_nothing_leaks(autojump_clock: MockClock) -> None:
    share: Share[WaitingClaim] = Share(20, 3, 4)
    chance = random.Random(38)
    served = 0

    async def one() -> None:
        nonlocal served
        holder, amount = chance.choice("abcde"), chance.randint(1, 4)
        await trio.sleep(chance.random() * 20)
        with trio.move_on_after(chance.random() * 5):
            await take_in_line(share, holder, amount)
            served += 1
            try:
                assert share.used <= share.total
                await trio.sleep(chance.random() * 3)
            finally:
                share.give(holder, amount)

    async with trio.open_nursery() as nursery:
        for _ in range(500):
            nursery.start_soon(one)
    assert share.used == share.waiting == 0
    assert 100 < served < 500
