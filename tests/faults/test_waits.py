"""How long a lane waits: by the schedule, with the jitter, and as the receiver asks."""

import itertools
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import pytest

from hookgw import DeliveryState
from hookgw.testing import Answer, GatewayKit, Received, Receiver, answer, open_kit
from tests.faults.support import KIND, state_of, wait_of, wait_out
from tests.public.config import DeliverySettings

pytestmark = pytest.mark.usefixtures("hookgw_clock")

SCHEDULE = [float(wait) for wait in DeliverySettings().schedule]
JITTER = 1.1


async def test_failed_attempts_follow_the_schedule(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(500)
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    for wait in SCHEDULE:
        assert wait - 0.01 <= await wait_out(hookgw_gateway, hookgw_receiver) <= wait * JITTER
    assert await state_of(hookgw_gateway, event) is DeliveryState.DEAD
    times = [request.at for request in hookgw_receiver.requests]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(gaps) == len(SCHEDULE)
    for gap, wait in zip(gaps, SCHEDULE, strict=True):
        assert wait <= gap <= wait * JITTER + 0.1


async def test_waits_for_an_unreachable_receiver_double_up_to_five_minutes(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    for wait in (*(0.05 * 2**n for n in range(13)), 300, 300):
        assert wait - 0.01 <= await wait_out(hookgw_gateway, hookgw_receiver) <= wait * JITTER


async def test_a_receiver_that_limits_its_callers_is_left_alone_for_a_second_first(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(429)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    for wait in (1, 2, 4):
        assert wait - 0.01 <= await wait_out(hookgw_gateway, hookgw_receiver) <= wait * JITTER


def asks(status: int, value: Callable[[float], str], kit: GatewayKit) -> Callable[[Received], Answer]:
    return lambda _: answer(status, headers={"retry-after": value(kit.gateway.clock.wall())})


@pytest.mark.parametrize(
    ("status", "usual"), [(503, 0.05), (429, 1.0), (500, SCHEDULE[0]), (504, SCHEDULE[0])]
)
@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        pytest.param(lambda _: "120", 120, 120, id="seconds"),
        pytest.param(lambda _: "7.5", 7.5, 7.5, id="decimals"),
        pytest.param(lambda now: formatdate(now + 90, usegmt=True), 89, 90, id="date"),
        pytest.param(lambda now: formatdate(now - 90, usegmt=True), 0, 0, id="past date"),
        pytest.param(lambda _: "1000000000", 3600, 3600, id="10^9"),
        pytest.param(lambda now: formatdate(now + 1e9, usegmt=True), 3600, 3600, id="far date"),
        pytest.param(lambda _: "0", 0, 0, id="zero"),
        pytest.param(lambda _: "-5", 0, 0, id="negative"),
        pytest.param(lambda _: "soon", 0, 0, id="garbage"),
        pytest.param(lambda _: "9" * 400, 3600, 3600, id="beyond a float"),
    ],
)
async def test_retry_after_is_never_undercut_and_never_over_the_cap(
    status: int,
    usual: float,
    value: Callable[[float], str],
    least: float,
    most: float,
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
) -> None:
    hookgw_receiver.will(asks(status, value, hookgw_gateway))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    wait = await wait_out(hookgw_gateway, hookgw_receiver)
    assert max(least, usual) - 0.01 <= wait <= max(most, usual * JITTER)
    assert await state_of(hookgw_gateway, event) is DeliveryState.DELIVERED


async def test_a_restart_cuts_no_wait_short(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(503, headers={"retry-after": "1000"}))
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await kit.advance(400)
    async with open_kit(tmp_path) as kit:
        await kit.settled()
        assert 599 <= wait_of(kit) <= 600
        await wait_out(kit, hookgw_receiver)
        assert await state_of(kit, event) is DeliveryState.DELIVERED
