"""Connections whose server has to be asked what becomes of an account."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from hookgw import ConnectionState, InstanceSettings, NetworkRefused
from hookgw.connectors import Refused, StatusReason, Unreachable, WatchedConnection
from hookgw.testing import FakeSession

EVERY = 30.0


class Account(WatchedConnection):
    """Fails as often as :attr:`failures` says, and is open then."""

    network = "The chat server"

    def __init__(self, session: FakeSession, nursery: trio.Nursery, *failures: NetworkRefused) -> None:
        super().__init__(session, nursery)
        self.failures = list(failures)
        self.looks: list[float] = []
        self.shown: list[bool] = []

    async def look(self) -> float:
        self.looks.append(trio.current_time())
        if self.failures:
            raise self.failures.pop(0)
        await self.report_open(wuid="ann", profileName="")
        return EVERY

    async def show_online(self, is_online: bool) -> None:
        self.shown.append(is_online)
        raise Unreachable("Away.")  # nobody waits for it


@asynccontextmanager
async def watched(session: FakeSession, *failures: NetworkRefused) -> AsyncIterator[Account]:
    async with trio.open_nursery() as nursery:
        account = Account(session, nursery, *failures)
        nursery.start_soon(account.watch)
        yield account
        nursery.cancel_scope.cancel()


async def test_it_looks_now_and_then_and_when_it_is_woken(autojump_clock: MockClock) -> None:
    session = FakeSession()
    async with watched(session) as account:
        await trio.sleep(1.5 * EVERY)
        account.wake()
        await trio.sleep(0.5 * EVERY)
    start, *others = account.looks
    assert [look - start for look in others] == [EVERY, 1.5 * EVERY]
    assert set(map(str, session.states)) == {str((ConnectionState.OPEN, 200, {"wuid": "ann"}))}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unreachable("No answer."), StatusReason.TIMED_OUT),
        (Refused("Busy.", remote_status=429), StatusReason.TIMED_OUT),
        (Refused("Wrong key.", remote_status=401), StatusReason.FORBIDDEN),
        (Refused("No such session.", remote_status=404), StatusReason.BAD_SESSION),
    ],
)
async def test_a_connection_that_was_never_open_says_why(
    error: NetworkRefused, reason: StatusReason, autojump_clock: MockClock
) -> None:
    session = FakeSession()
    async with watched(session, error):
        await session.wait_until(ConnectionState.CLOSE)
        assert session.states == [(ConnectionState.CLOSE, reason, {"message": str(error)})]
        await session.wait_until(ConnectionState.OPEN)


async def test_an_open_connection_outlasts_a_moment_and_no_refusal(autojump_clock: MockClock) -> None:
    session, away = FakeSession(), Unreachable("No answer.")
    async with watched(session) as account:
        await session.wait_until(ConnectionState.OPEN)
        account.failures = [away, away]
        await trio.sleep(2 * EVERY)
        assert account.is_open
        account.failures = [away, away, away]
        await session.wait_until(ConnectionState.CLOSE)
        assert session.states[-1][1] == StatusReason.TIMED_OUT
        await session.wait_until(ConnectionState.OPEN)
        account.failures = [Refused("Wrong key.", remote_status=403)]
        await session.wait_until(ConnectionState.CLOSE)
        assert session.states[-1][1] == StatusReason.FORBIDDEN


async def test_an_account_is_online_as_its_settings_want(autojump_clock: MockClock) -> None:
    online, usual = InstanceSettings(always_online=True), InstanceSettings()
    session = FakeSession(settings=online)
    async with watched(session) as account:
        account.follow_settings(usual)
        account.follow_settings(online)
        await trio.sleep(2 * EVERY)
        assert account.shown == [True]  # once it is open, and not with each look
        for settings in (online, usual, online):
            account.follow_settings(settings)
            await trio.testing.wait_all_tasks_blocked()
        assert account.shown == [True, False, True]
