"""Operators hear of a machine's clock that was set, and of one that has slept."""

from structlog.testing import capture_logs

from tests.public.concurrency import Clock
from tests.public.operations import ClockWatch


async def test_a_jump_is_told_once_and_so_is_its_end() -> None:
    jump = 0.0
    clock = Clock(lambda: 1_000_000 + jump)
    watch = ClockWatch(clock)
    with capture_logs() as logs:
        for seconds in (0, 50, 36_100, 36_120, -36_100, 1, 30):
            jump = seconds
            watch.look()
    assert [entry.get("reason") for entry in logs] == [
        "The times of hookgw are 10h behind the machine's clock.",
        "The times of hookgw are 10h ahead of the machine's clock.",
        None,
    ]
