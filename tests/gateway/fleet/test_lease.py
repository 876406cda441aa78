import time

import pytest
import trio
from trio.testing import MockClock

from tests.public.fleet import HEARTBEAT, MARGIN, DatabaseClock, Lease, seconds_asleep
from tests.public.records import DEAD_AFTER


async def test_a_new_lease_allows_nothing() -> None:
    assert not Lease().is_valid()


async def test_it_counts_from_the_moment_at_which_the_heartbeat_was_sent(autojump_clock: MockClock) -> None:
    lease = Lease()
    sent = trio.current_time()
    await trio.sleep(2)  # the database answers late
    lease.renewed(sent)
    assert lease.is_valid()
    await trio.sleep(DEAD_AFTER - MARGIN - 2)
    assert not lease.is_valid()


async def test_heartbeats_renew_it(autojump_clock: MockClock) -> None:
    lease = Lease()
    for _ in range(20):
        lease.renewed(trio.current_time())
        await trio.sleep(HEARTBEAT)
        assert lease.is_valid()


async def test_an_answer_that_comes_late_does_not_shorten_it(autojump_clock: MockClock) -> None:
    lease = Lease()
    await trio.sleep(10)
    lease.renewed(trio.current_time())
    until = lease.until
    lease.renewed(trio.current_time() - 1)
    assert lease.until == until


async def test_an_ended_lease_allows_nothing_until_the_next_heartbeat(autojump_clock: MockClock) -> None:
    lease = Lease()
    lease.renewed(trio.current_time())
    lease.end()
    assert not lease.is_valid()
    lease.renewed(trio.current_time())
    assert lease.is_valid()


async def test_a_frozen_process_finds_it_ended(mock_clock: MockClock) -> None:
    lease = Lease()
    lease.renewed(trio.current_time())
    mock_clock.jump(8)  # no task has run meanwhile
    assert not lease.is_valid()


async def test_a_machine_that_has_slept_finds_it_ended(mock_clock: MockClock) -> None:
    """Its usual clock stood still."""
    slept = 0.0
    lease = Lease(lambda: slept)
    lease.renewed(lease.now())
    assert lease.until == trio.current_time() + DEAD_AFTER - MARGIN
    slept = 8.0
    assert not lease.is_valid()
    assert lease.until < trio.current_time()
    lease.renewed(lease.now())
    assert lease.is_valid()


def test_the_time_asleep_is_what_one_clock_counts_and_the_other_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boot_time = getattr(time, "CLOCK_BOOTTIME", 7)
    clocks = {boot_time: 1000.5, time.CLOCK_MONOTONIC: 400.0}
    monkeypatch.setattr("hookgw.fleet.lease.BOOT_TIME", boot_time)
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    assert seconds_asleep() == 600.5


def test_without_such_a_clock_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgw.fleet.lease.BOOT_TIME", None)
    assert seconds_asleep() == 0.0


def test_slow_answers_are_no_jump_of_the_clock_of_the_database() -> None:
    clock = DatabaseClock()
    assert clock.read(1000.0, 0.0, 2.0) == 0  # at once, or just before the answer came
    assert clock.read(1002.9, 1.0, 3.0) == 0
    assert clock.read(1003.0, 3.0, 4.9) == 0
    assert clock.read(1004.0, 5.0, 5.1) == 0


@pytest.mark.parametrize("jump", [-40.0, -1.0, 1.0, 40.0])
def test_a_jump_of_the_clock_of_the_database_is_noticed(jump: float) -> None:
    clock = DatabaseClock()
    clock.read(1000.0, 0.0, 0.0)
    assert clock.read(1000.5 + jump, 0.5, 0.5) == pytest.approx(jump)
    assert clock.read(1001.0 + jump, 1.0, 1.0) == 0
