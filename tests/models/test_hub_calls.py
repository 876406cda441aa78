"""Calls that other threads leave to the hub."""

import threading
from functools import partial

import pytest
import trio

from tests.public.concurrency import Hub, WorkerThread
from tests.support.watched import Full, at_rest, running

CALLS = 500


async def test_the_calls_of_each_thread_are_made_in_order_in_the_loops_thread() -> None:
    made: list[tuple[int, int, int]] = []

    def note(thread: int, number: int) -> None:
        made.append((thread, number, threading.get_ident()))

    def leave(thread: int) -> None:
        for number in range(CALLS):
            assert world.hub.call_soon(partial(note, thread, number))

    async with running() as world:
        async with trio.open_nursery() as threads:
            for thread in range(3):
                threads.start_soon(trio.to_thread.run_sync, leave, thread)
        await at_rest()
    for thread in range(3):
        assert [number for one, number, _ in made if one == thread] == [*range(CALLS)]
    assert {ident for _, _, ident in made} == {threading.get_ident()}


async def test_the_caller_of_a_worker_goes_on_in_a_light_step() -> None:
    seen: list[object] = []
    async with running() as world:
        thread = WorkerThread("worker", world.hub)

        async def work() -> None:
            for number in range(3):
                seen.append((await thread.run(partial(int, number)), world.is_light))
            try:
                await thread.run(partial(int, "no number"))
            except ValueError:
                seen.append(world.is_light)
            is_over.set()

        is_over = trio.Event()
        world.go(work)
        with trio.fail_after(30):
            await is_over.wait()
        thread.close()
    assert seen == [(0, True), (1, True), (2, True), True]


async def test_a_call_that_the_hub_has_taken_is_made_though_it_ends() -> None:
    made: list[int] = []
    async with running() as world:
        assert world.hub.call_soon(lambda: made.append(1))
        world.scope.cancel()
        await at_rest()
        assert made == [1]
        assert not world.hub.call_soon(lambda: made.append(2))
    assert made == [1]


async def test_a_worker_whose_hub_ends_during_a_call_goes_on() -> None:
    began, free = threading.Event(), threading.Event()

    def call() -> int:
        began.set()
        assert free.wait(30)
        return 7

    async with running() as world:
        thread = WorkerThread("worker", world.hub)
        seen: list[int] = []

        async def work() -> None:
            seen.append(await thread.run(call))
            is_over.set()

        is_over = trio.Event()
        world.go(work)
        await trio.to_thread.run_sync(began.wait)
        world.scope.cancel()
        await at_rest()
        free.set()
        with trio.fail_after(30):
            await is_over.wait()
        thread.close()
    assert seen == [7]


async def test_a_hub_that_does_not_run_or_may_watch_nothing_takes_no_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    not_yet, off, full = Hub(), Hub(is_on=False), Hub()
    monkeypatch.setattr(full, "_epoll", Full())
    async with trio.open_nursery() as nursery:
        await nursery.start(off.run)
        await nursery.start(full.run)
        assert full.is_running
        for hub in (not_yet, off, full):
            assert not hub.call_soon(pytest.fail)
        nursery.cancel_scope.cancel()
