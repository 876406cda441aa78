"""Locks by name: in order, for one name, and gone when nobody needs them."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.public.core import KeyedLocks


async def test_the_holders_of_a_name_take_turns_and_other_names_do_not_wait() -> None:
    locks, order = KeyedLocks(), list[str]()

    async def hold(who: str, name: str, until: trio.Event) -> None:
        async with locks.hold(name):
            order.append(f"{who} begins")
            await until.wait()
            order.append(f"{who} ends")

    first, now = trio.Event(), trio.Event()
    now.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, "a", "shop", first)
        await wait_all_tasks_blocked()
        nursery.start_soon(hold, "b", "shop", now)
        await wait_all_tasks_blocked()
        nursery.start_soon(hold, "c", "shop", now)
        nursery.start_soon(hold, "d", "bar", now)
        with trio.move_on_after(0):
            await hold("gone", "shop", now)
        await wait_all_tasks_blocked()
        assert order == ["a begins", "d begins", "d ends"]
        first.set()
    assert order[3:] == ["a ends", "b begins", "b ends", "c begins", "c ends"]
    assert len(locks) == 0


async def test_who_waits_until_a_lock_is_free_does_not_take_it() -> None:
    locks, order = KeyedLocks(), list[str]()

    async def hold() -> None:
        async with locks.hold("shop"):
            order.append("held")

    async def wait(who: str) -> None:
        await locks.free("shop")
        order.append(f"free for {who}, held: {locks.is_held('shop')}")

    async with trio.open_nursery() as nursery:
        async with locks.hold("shop"):
            nursery.start_soon(wait, "a")
            nursery.start_soon(hold)
            nursery.start_soon(wait, "b")
            with trio.move_on_after(0):
                await locks.free("shop")
            await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()
        order.sort()
        assert order == ["free for a, held: False", "free for b, held: False", "held"]
        await wait("c")
    assert order[-1] == "free for c, held: False"


async def test_as_many_hold_a_lock_as_it_admits() -> None:
    locks, holding = KeyedLocks(2), list[str]()

    async def hold(who: str, until: trio.Event) -> None:
        async with locks.hold("shop"):
            holding.append(who)
            await until.wait()

    first, last = trio.Event(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, "a", first)
        await wait_all_tasks_blocked()
        nursery.start_soon(hold, "b", last)
        await wait_all_tasks_blocked()
        nursery.start_soon(hold, "c", last)
        await wait_all_tasks_blocked()
        assert holding == ["a", "b"]
        first.set()
        await wait_all_tasks_blocked()
        assert holding == ["a", "b", "c"]
        last.set()
    assert len(locks) == 0


async def test_a_block_that_fails_holds_nobody_up() -> None:
    locks = KeyedLocks()
    with pytest.raises(ValueError, match="mine"):
        async with locks.hold("shop"):
            raise ValueError("mine")
    assert len(locks) == 0
    async with locks.hold("shop"):
        assert len(locks) == 1
        assert (locks.is_held("shop"), locks.is_held("bar")) == (True, False)
    assert not locks.is_held("shop")
