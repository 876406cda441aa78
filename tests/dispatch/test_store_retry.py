import itertools

import trio
from trio.testing import MockClock

from tests.public.kernel import StorageUnavailable
from tests.public.lanes import LAST_STORE_WAIT as LAST_WAIT
from tests.public.lanes import retry_until_readable


async def test_waits_double_until_the_disk_can_be_read(autojump_clock: MockClock) -> None:
    tried: list[float] = []
    reasons: list[str] = []

    async def read() -> int:
        tried.append(trio.current_time())
        if len(tried) < 9:
            raise StorageUnavailable(f"no {len(tried)}")
        return 42

    assert await retry_until_readable(read, lambda error: reasons.append(str(error))) == 42
    waits = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, LAST_WAIT, LAST_WAIT, LAST_WAIT]
    assert reasons == [f"no {n}" for n in range(1, 9)]


async def test_a_reason_that_stays_is_told_once(autojump_clock: MockClock) -> None:
    answers = ["full", "full", "full", "read-only", "read-only", "full", ""]
    told: list[str] = []

    async def read() -> None:
        if answer := answers.pop(0):
            raise StorageUnavailable(answer)

    await retry_until_readable(read, lambda error: told.append(str(error)))
    assert told == ["full", "read-only", "full"]
