from typing import cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.public.config import ServerSettings
from tests.public.kernel import Duration
from tests.public.web import ClientConnection, ClientTimeouts, Refused, Wait


class Client:
    """A fake connection that records how it ended."""

    def __init__(self) -> None:
        self.fate = ""
        self.is_served = False

    def waits_in(self, _: Wait) -> bool:
        return not self.is_served

    def abort(self) -> None:
        self.fate = "aborted"

    def time_out(self, refusal: Refused) -> None:
        self.fate = f"{refusal.status} {refusal.message}"


def clients(count: int) -> list[ClientConnection]:
    return [cast("ClientConnection", Client()) for _ in range(count)]


def fates(*connections: ClientConnection) -> list[str]:
    return [cast("Client", connection).fate for connection in connections]


def one_wait() -> Wait:
    return Wait(0, 10, lambda connection: connection.abort())


async def test_each_connection_expires_at_its_own_deadline(
    mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    first, second, served = clients(3)
    wait = one_wait()
    nursery.start_soon(wait.watch)
    await wait_all_tasks_blocked()
    for connection in (first, served):
        wait.begin(connection)
    mock_clock.jump(6)
    wait.begin(second)
    wait.end(served)
    seen = []
    for seconds in (3.5, 2, 3, 2):
        mock_clock.jump(seconds)
        await wait_all_tasks_blocked()
        seen.append(fates(first, second, served))
    gone = "aborted"
    assert seen == [["", "", ""], [gone, "", ""], [gone, "", ""], [gone, gone, ""]]
    assert wait.first() is None
    nursery.cancel_scope.cancel()


async def test_a_wait_may_end_without_a_call(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    timeouts = ClientTimeouts(ServerSettings(keep_alive_timeout=Duration(10)))
    wait, connections = timeouts.idles, clients(3)
    nursery.start_soon(timeouts.watch)
    for connection in connections:
        wait.begin(connection)
    first, second, third = connections
    for served in (first, second):
        cast("Client", served).is_served = True
    assert wait.first() is third
    cast("Client", second).is_served = False
    mock_clock.jump(6)
    wait.begin(second)
    await wait_all_tasks_blocked()
    mock_clock.jump(5)
    await wait_all_tasks_blocked()
    assert fates(*connections) == ["", "", "aborted"]
    wait.begin(first)
    timeouts.close()
    assert fates(*connections) == ["", "aborted", "aborted"]
    nursery.cancel_scope.cancel()


async def test_a_second_wait_restarts_the_timeout(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    first, second = clients(2)
    wait = one_wait()
    wait.begin(first)
    began = trio.current_time()
    mock_clock.jump(6)
    wait.begin(second)
    assert (wait.first(), wait.since(first), wait.since(second)) == (first, began, began + 6)
    wait.begin(first)
    assert (wait.first(), wait.since(first)) == (second, began + 6)
    nursery.start_soon(wait.watch)
    mock_clock.jump(9)
    await wait_all_tasks_blocked()
    assert fates(first, second) == ["", ""]
    mock_clock.jump(2)
    await wait_all_tasks_blocked()
    assert fates(first, second) == ["aborted", "aborted"]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("table", "seconds", "fate"),
    [
        ("heads", 3, "408 The head did not arrive within 3s (server.header_timeout)."),
        ("bodies", 7, "408 The body did not arrive within 7s (server.body_timeout)."),
        ("idles", 5, "aborted"),
        ("writes", 9, "aborted"),
    ],
)
async def test_each_wait_has_its_setting(
    table: str, seconds: float, fate: str, mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = ClientTimeouts(
        ServerSettings(
            header_timeout=Duration(3),
            body_timeout=Duration(7),
            keep_alive_timeout=Duration(5),
            write_timeout=Duration(9),
        )
    )
    (client,) = clients(1)
    getattr(timeouts, table).begin(client)
    nursery.start_soon(timeouts.watch)
    mock_clock.jump(seconds - 0.5)
    await wait_all_tasks_blocked()
    assert fates(client) == [""]
    mock_clock.jump(1)
    await wait_all_tasks_blocked()
    assert fates(client) == [fate]
    nursery.cancel_scope.cancel()


def test_shutdown_closes_connections_without_a_request() -> None:
    async def main() -> None:
        timeouts = ClientTimeouts(ServerSettings())
        every = clients(4)
        for wait, client in zip(timeouts.all, every, strict=True):
            wait.begin(client)
        assert not timeouts.is_closing
        timeouts.close()
        assert timeouts.is_closing
        assert fates(*every) == ["aborted", "aborted", "", ""]

    trio.run(main)
