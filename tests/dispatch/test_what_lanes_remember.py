"""What a lane remembers of its receiver (:mod:`hookgw.lanes.lane_memory`)."""

import msgspec

from hookgw import Attempt, DeliveryState, Outcome
from tests.dispatch.fakes import BEGAN, FakeOutbox
from tests.dispatch.test_retry_policy import POLICY
from tests.public.delivery import AttemptResult
from tests.public.lanes import LaneMemory

BROKE_OFF = AttemptResult(
    Attempt(number=1, at=BEGAN, duration=0.1, outcome=Outcome.UNREACHABLE), broke_off=True
)


async def test_requests_that_break_in_their_body_are_counted_for_each_delivery() -> None:
    first, second = FakeOutbox().add(2)
    memory, policy = LaneMemory(), msgspec.structs.replace(POLICY, jitter=0.0, first_wait=0.05)
    found = []
    for _ in range(6):
        decision = memory.decide(first, policy, BROKE_OFF, BEGAN)
        first.failures = decision.failures
        found.append((decision.state, decision.wait, decision.failures))
    assert found == [
        (DeliveryState.PENDING, 0.05, 0),
        (DeliveryState.PENDING, 0.1, 0),
        (DeliveryState.PENDING, 5.0, 1),
        (DeliveryState.PENDING, 15.0, 2),
        (DeliveryState.PENDING, 30.0, 3),
        (DeliveryState.DEAD, 0.0, 4),
    ]
    assert memory.decide(second, policy, BROKE_OFF, BEGAN).wait == 0.05
