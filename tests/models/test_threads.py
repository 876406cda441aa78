"""A worker thread: its calls, their results, its end."""

import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.public.concurrency import RESERVED, SYSTEM_THREADS, Hub, WorkerThread


@pytest.fixture(params=[False, True], ids=["without a hub", "with a hub"])
async def thread(request: pytest.FixtureRequest) -> AsyncIterator[WorkerThread]:
    hub = Hub(is_on=request.param)
    async with trio.open_nursery() as nursery:
        await nursery.start(hub.run)
        thread = WorkerThread("worker", hub)
        try:
            yield thread
        finally:
            thread.close()
            nursery.cancel_scope.cancel()


async def test_all_calls_are_made_in_one_other_thread(thread: WorkerThread) -> None:
    idents = {await thread.run(threading.get_ident) for _ in range(3)}
    assert len(idents) == 1
    assert threading.get_ident() not in idents


async def test_an_exception_is_raised_where_the_call_was_made(thread: WorkerThread) -> None:
    with pytest.raises(ValueError, match="no number"):
        await thread.run(partial(_fail, ValueError("no number")))
    assert await thread.run(lambda: 7) == 7


def _fail(error: Exception) -> None:
    raise error


async def test_cancellation_waits_for_the_end_of_a_call(thread: WorkerThread) -> None:
    free, ended = threading.Event(), []
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                assert await thread.run(partial(free.wait, 30))
                ended.append(1)

            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
                assert ended == []
                free.set()
    assert ended == [1]


async def test_the_data_of_a_call_is_not_held(thread: WorkerThread) -> None:
    class Data:
        pass

    data = Data()
    known = weakref.ref(data)
    await thread.run(partial(id, data))
    del data
    await thread.run(gc.collect)  # the thread has gone on
    assert known() is None


async def test_it_ends() -> None:
    thread = WorkerThread("worker")
    worker = await thread.run(threading.current_thread)
    thread.close()
    with trio.fail_after(30):
        await trio.to_thread.run_sync(worker.join)
    assert not worker.is_alive()


# A system that refuses threads.


@pytest.fixture
def refuses(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """Let the system refuse new threads, or stop doing so."""
    is_refusing = [False]
    start = threading.Thread.start

    def may_start(thread: threading.Thread) -> None:
        if is_refusing[0]:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", may_start)
    ended = threading.Event()

    def refuse(refused: bool) -> None:
        is_refusing[0] = refused
        # Trio uses idle threads again, also those of former tests: all of them wait here.
        with suppress(RuntimeError):
            while refused:
                trio.lowlevel.start_thread_soon(ended.wait, lambda _: None)

    yield refuse
    ended.set()


async def test_calls_go_on_in_the_reserve_while_no_thread_can_start(refuses: Callable[[bool], None]) -> None:
    async with SYSTEM_THREADS.reserve():
        refuses(True)
        names: list[str] = []

        async def call() -> None:
            names.append(await SYSTEM_THREADS.run(lambda: threading.current_thread().name))

        async with trio.open_nursery() as nursery:
            for _ in range(3 * RESERVED):
                nursery.start_soon(call)
        assert len(names) == 3 * RESERVED
        assert all(name.startswith("hookgw reserve") for name in names)
        with pytest.raises(ZeroDivisionError):
            await SYSTEM_THREADS.run(lambda: 1 // 0)


async def test_a_call_that_uses_the_loop_waits_for_a_thread_of_its_own(
    refuses: Callable[[bool], None], autojump_clock: MockClock
) -> None:
    async with SYSTEM_THREADS.reserve():
        refuses(True)
        with trio.move_on_after(5) as scope:
            await SYSTEM_THREADS.run(lambda: None, uses_loop=True)
        assert scope.cancelled_caught
        refuses(False)
        name = await SYSTEM_THREADS.run(
            lambda: SYSTEM_THREADS.run_in_loop(threading.get_ident), uses_loop=True
        )
        assert name == threading.get_ident()


async def test_an_error_of_a_call_is_no_refused_thread() -> None:
    calls = 0

    def fail() -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError, match="new thread"):
        await SYSTEM_THREADS.run(fail)
    assert calls == 1


async def test_a_worker_and_a_reserve_wait_for_their_threads(
    refuses: Callable[[bool], None], autojump_clock: MockClock
) -> None:
    refuses(True)
    worker = SYSTEM_THREADS.worker("writer")
    done: list[object] = []

    async def call() -> None:
        done.append(await worker.run(lambda: "written"))

    async def open_reserve() -> None:
        async with SYSTEM_THREADS.reserve():
            done.append("reserved")

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            nursery.start_soon(open_reserve)
            await trio.sleep(10)
            assert done == []
            refuses(False)
    assert set(done) == {"written", "reserved"}
    worker.close()


async def test_a_worker_makes_calls_in_the_event_loops_thread_too() -> None:
    worker = SYSTEM_THREADS.worker("writer")
    here = threading.get_ident()
    assert worker.run_here(threading.get_ident) == here
    assert await worker.run(threading.get_ident) != here
    assert worker.run_here(threading.get_ident) == here
    worker.close()
