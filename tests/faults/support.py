"""What the tests of faults say often: what became of an event, and how long its lane waits."""

from hookgw import Attempt, DeliveryState, Event, LaneState
from hookgw.testing import GatewayKit, Receiver
from tests.public.store import DeliveryReport

KIND = "CALL"


async def report_of(kit: GatewayKit, event: Event) -> DeliveryReport:
    """Everything that is kept of an event's newest delivery."""
    await kit.gateway.store.flush()
    report = await kit.gateway.store.find_delivery(event.instance, event.id)
    assert report is not None
    return report


async def state_of(kit: GatewayKit, event: Event) -> DeliveryState:
    return (await report_of(kit, event)).summary.state


async def attempts_of(kit: GatewayKit, event: Event) -> list[Attempt]:
    return list((await report_of(kit, event)).attempts)


def wait_of(kit: GatewayKit, url: str = "") -> float:
    """How long the only lane, or the one with this text in its URL, will wait from now on, in seconds."""
    [lane] = [one for one in kit.gateway.lanes() if url in (one.url or "")]
    assert lane.state is LaneState.WAITING
    assert lane.waiting_until is not None
    return lane.waiting_until - kit.gateway.clock.steady()


async def wait_out(kit: GatewayKit, receiver: Receiver) -> float:
    """Let the only lane's wait pass: nothing may be sent until just before its end, then one attempt.

    Returns:
        how long it was.
    """
    await kit.settled()
    wait, before = wait_of(kit), len(receiver.requests)
    await kit.advance(wait - 0.001)
    assert len(receiver.requests) == before
    await kit.advance(0.002)
    assert len(receiver.requests) > before
    return wait
