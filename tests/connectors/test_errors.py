"""What a network's refusal becomes for the caller, and when a connector tries again."""

import pytest
import structlog
import trio
from trio.testing import MockClock

from hookgw import NetworkRefused
from hookgw.connectors import Refused, Unreachable, is_outage, pause_after, wait_after


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


def test_one_failure_is_an_outage_only_if_the_server_wants_a_long_wait() -> None:
    assert not is_outage(Unreachable("Away."), 1)
    assert is_outage(Unreachable("Away."), 2)
    assert not is_outage(Unreachable("Busy.", retry_after=5), 1)
    assert is_outage(Unreachable("Busy.", retry_after=60), 1)


async def test_a_pause_says_why(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    with structlog.testing.capture_logs() as logs:
        error = Refused("Busy.", remote_status=429, code="SLOW", retry_after=7)
        await pause_after(error, 1, "poll failed", instance="shop", logger=structlog.get_logger())
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
