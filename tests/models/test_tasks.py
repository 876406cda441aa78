"""Functions that are tried again after an error in hookgw."""

import pytest
import trio

from hookgw import HookgwError, NotFound
from tests.public.concurrency import RETRY_WAITS, TaskFailed, retry_contained

pytestmark = pytest.mark.usefixtures("autojump_clock")


class Work:
    """Raises its errors, one for each call, and then returns; notes when it is called, and each failure."""

    def __init__(self, *errors: BaseException) -> None:
        self._errors = list(errors)
        self.calls: list[float] = []
        self.failures: list[str] = []

    async def run(self) -> str:
        self.calls.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        if self._errors:
            raise self._errors.pop(0)
        return "done"

    def failed(self, failure: TaskFailed) -> None:
        self.failures.append(str(failure))


async def test_it_is_tried_again_after_growing_waits() -> None:
    work = Work(*[ValueError(str(number)) for number in range(7)])
    began = trio.current_time()
    assert await retry_contained(work.run, work.failed) == "done"
    assert work.failures == [f"ValueError: {number}" for number in range(7)]
    waits = [later - earlier for earlier, later in zip(work.calls, work.calls[1:], strict=False)]
    assert work.calls[0] == began
    assert waits == pytest.approx([*RETRY_WAITS, RETRY_WAITS[-1], RETRY_WAITS[-1]])


@pytest.mark.parametrize("error", [NotFound("gone"), ValueError("a bug")])
async def test_what_ends_it(error: Exception) -> None:
    """An error that says why the work cannot be done, or the caller that does not want another try."""

    def fail(failure: TaskFailed) -> None:
        raise failure

    with pytest.raises((HookgwError, TaskFailed)) as raised:
        await retry_contained(Work(error).run, fail)
    assert error in (raised.value, raised.value.__cause__)


async def test_a_caller_that_is_cancelled() -> None:
    work = Work(ValueError(), ValueError())
    with trio.move_on_after(sum(RETRY_WAITS[:2]) - 0.5) as scope:
        await retry_contained(work.run, work.failed)
    assert scope.cancelled_caught
    assert len(work.calls) == 2


async def test_a_stray_cancelled_is_an_error() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            stray = cancelled
    work = Work(stray)
    assert await retry_contained(work.run, work.failed) == "done"
    assert len(work.failures) == 1
