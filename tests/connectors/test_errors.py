"""What a network's refusal becomes for the caller, and when a connector tries again."""

from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from hookgw import ConnectionState, NetworkRefused
from hookgw.connectors import Refused, Unreachable, pause_after, wait_after
from hookgw.testing import FakeSession


@pytest.mark.parametrize(
    ("remote_status", "status", "is_temporary"),
    [
        *((400, 400, False), (403, 403, False), (404, 404, False), (429, 429, True), (408, 408, True)),
        # The caller would take it for a wrong key of its own.
        (401, 409, False),
        *((500, 502, True), (501, 502, True), (503, 502, True), (302, 502, True)),
    ],
)
def test_the_status_of_a_refusal(remote_status: int, status: int, is_temporary: bool) -> None:
    refused = Refused("No.", remote_status=remote_status, code="NO", retry_after=2.0)
    assert (refused.status, refused.remote_status, refused.is_temporary) == (
        status,
        remote_status,
        is_temporary,
    )
    assert (str(refused), refused.code, refused.retry_after) == ("No.", "NO", 2.0)


def test_a_connector_may_choose_the_status() -> None:
    assert Refused("No.", remote_status=501, status=501).status == 501


def test_waits_double_to_a_minute_and_undercut_no_server_that_asks_for_an_hour() -> None:
    waits = [wait_after(Unreachable("Away."), failures) for failures in (1, 2, 3, 8, 100)]
    for wait, least in zip(waits, (0.5, 1, 2, 60, 60), strict=True):
        assert least <= wait <= least * 1.2
    assert wait_after(Unreachable("Busy.", retry_after=300), 1) == 300
    assert wait_after(NetworkRefused("Busy.", retry_after=0), 5) == 0.5
    # The page of a proxy asks for a day, and the server is back in a minute.
    assert wait_after(Unreachable("Closed.", retry_after=86_400), 1) == 3600


async def paused(error: NetworkRefused, failures: int, **state: bool) -> tuple[bool, list[Any]]:
    session, logger = FakeSession(), structlog.get_logger()
    is_open = await pause_after(session, error, failures, "poll failed", logger, **state)
    return is_open, session.states


async def test_one_failure_is_an_outage_only_if_the_server_wants_a_long_wait(
    autojump_clock: MockClock,
) -> None:
    for error, failures in (Unreachable("Away."), 1), (Unreachable("Busy.", retry_after=5), 1):
        assert await paused(error, failures, is_open=True, was_open=True) == (True, [])
    for error, failures in (Unreachable("Away."), 2), (Unreachable("Busy.", retry_after=60), 1):
        lost = (ConnectionState.CONNECTING, 503, {"message": str(error)})
        assert await paused(error, failures, is_open=True, was_open=True) == (False, [lost])
        assert await paused(error, failures, is_open=False, was_open=True) == (False, [])


async def test_a_server_that_was_never_reached_is_a_reason_of_the_state(autojump_clock: MockClock) -> None:
    never = (ConnectionState.CLOSE, 503, {"message": "Away. hookgw keeps trying."})
    for error in Unreachable("Away"), Unreachable("Away."):
        assert await paused(error, 1, is_open=False, was_open=False) == (False, [])
        assert await paused(error, 2, is_open=False, was_open=False) == (False, [never])


async def test_a_pause_says_why(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    with structlog.testing.capture_logs() as logs:
        error = Refused("Busy.", remote_status=429, code="SLOW", retry_after=7)
        await paused(error, 1, is_open=True, was_open=True)
    assert trio.current_time() == began + 7
    assert logs == [
        {
            "log_level": "warning",
            "event": "poll failed",
            "instance": "shop",
            "reason": "Busy.",
            "code": "SLOW",
            "retry_after": 7,
        }
    ]
