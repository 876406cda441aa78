"""Every status from 200 to 599 has its outcome, and the lane does what follows from it."""

from collections import defaultdict

import pytest
import trio

from hookgw import DeliveryState, Outcome
from hookgw.testing import Answer, GatewayKit, Received, Receiver, answer, open_receiver, redirect
from tests.faults.support import KIND, attempts_of, report_of
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

REJECTED = {400, 411, 413, 414, 415, 422, 431}
UNREACHABLE = {408, 425, 429, 502, 503, 521, 522, 523, 525, 526, 527, 530}
UNANSWERED = {504, 520, 524}
STATUSES = range(200, 600)


def outcome_of(status: int) -> Outcome:
    """The table of docs/guarantees.md, written down once more."""
    if status < 300:
        return Outcome.DELIVERED
    if status in REJECTED:
        return Outcome.REJECTED
    if status in UNREACHABLE:
        return Outcome.UNREACHABLE
    if status in UNANSWERED:
        return Outcome.UNANSWERED
    return Outcome.GONE if status == 410 else Outcome.FAILED


def as_the_path_says(request: Received) -> Answer:
    return answer(int(request.path.strip("/")))


async def test_every_status_has_its_outcome_and_what_follows(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = as_the_path_says
    instances: dict[str, list[int]] = defaultdict(list)
    async with trio.open_nursery() as nursery:
        for status in STATUSES:
            instance = f"i{status // 16}"
            instances[instance].append(status)
            nursery.start_soon(register, hookgw_gateway, f"{hookgw_receiver.url}{status}", instance)
    for instance in instances:
        for number in range(2):
            await hookgw_gateway.emit(KIND, {}, instance=instance, event_id=f"{instance}_{number}")
    await hookgw_gateway.settled()
    sent: dict[int, list[str | None]] = defaultdict(list)
    for request in hookgw_receiver.requests:
        sent[int(request.path.strip("/"))].append(request.event_id)
    for instance, statuses in instances.items():
        first, second = f"{instance}_0", f"{instance}_1"
        for status in statuses:
            goes_on = outcome_of(status) in (Outcome.DELIVERED, Outcome.REJECTED)
            assert sent[status] == ([first, second] if goes_on else [first]), status
    disabled = {
        registration.label
        for instance in instances
        for registration in hookgw_gateway.gateway.registrations.of_instance(instance)
        if not registration.enabled
    }
    assert disabled == {"s410"}


async def register(kit: GatewayKit, url: str, instance: str) -> None:
    await kit.register(url, instance=instance, label=f"s{url.rpartition('/')[2]}")


@pytest.mark.parametrize(
    ("status", "state"),
    [
        *((status, DeliveryState.DELIVERED) for status in (200, 204, 299)),
        *(
            (status, DeliveryState.PENDING)
            for status in (300, 404, 500, 599, *sorted(UNREACHABLE | UNANSWERED))
        ),
        *((status, DeliveryState.DEAD) for status in (410, *sorted(REJECTED))),
    ],
)
async def test_the_attempt_is_recorded(
    status: int, state: DeliveryState, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(status, "" if status == 204 else "because"))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    report = await report_of(hookgw_gateway, event)
    [attempt] = report.attempts
    assert report.summary.state is state
    assert (attempt.status, attempt.outcome) == (status, outcome_of(status))
    assert attempt.answer == ("" if status == 204 else "because")
    assert (attempt.error is None) == (state is DeliveryState.DELIVERED)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_its_target_sees_nothing(
    status: int, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    async with open_receiver() as elsewhere:
        hookgw_receiver.default = redirect(status, elsewhere.url)
        await hookgw_gateway.register(hookgw_receiver.url)
        event = await hookgw_gateway.emit(KIND, {})
        await hookgw_gateway.advance(1.2 * FIRST_WAIT)
        assert len(hookgw_receiver.requests) == 2
        assert (elsewhere.connections, elsewhere.requests) == (0, [])
        for attempt in await attempts_of(hookgw_gateway, event):
            assert attempt.outcome is Outcome.FAILED
            assert f" to {elsewhere.url}; redirects are not followed" in (attempt.error or "")
