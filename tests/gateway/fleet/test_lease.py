from __future__ import annotations

import trio
from trio.testing import MockClock

from hookgw.gateway.fleet.lease import HEARTBEAT, MARGIN, Lease
from hookgw.models.fleet import DEAD_AFTER


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
