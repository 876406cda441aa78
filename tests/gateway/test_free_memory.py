from types import SimpleNamespace

import pytest
import trio
from trio.testing import MockClock

from tests.public.concurrency import TRIM_EVERY, give_back_memory


async def test_free_memory_goes_back_to_the_system_again_and_again(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    given: list[int] = []
    monkeypatch.setattr("ctypes.CDLL", lambda _: SimpleNamespace(malloc_trim=given.append))
    nursery.start_soon(give_back_memory)
    await trio.sleep(2.5 * TRIM_EVERY)
    assert given == [0, 0]


async def test_a_c_library_that_cannot_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: SimpleNamespace())
    with trio.fail_after(1):
        await give_back_memory()
