"""A worker thread: its calls, their results, its end."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
import trio.testing

from hookgw.models.threads import WorkerThread


@pytest.fixture
async def thread() -> AsyncIterator[WorkerThread]:
    thread = WorkerThread("worker")
    try:
        yield thread
    finally:
        thread.close()


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
