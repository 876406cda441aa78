"""The late response: a slow receiver answers after the deadline of the attempt.

A receiver may need longer than the timeout. So after a deadline the connection stays open while the lane
waits for its next attempt, and the lane listens on it. A response that ends the delivery (a 2xx, above all)
settles it without another attempt. Any other response changes nothing: the next attempt comes when it is due,
and brings its own response.

A lane listens to one connection, that of its last attempt. It stops when the next attempt begins, when
another delivery is its head, when the registration has another target, and when the lane ends. It goes on
listening through a pause, and while a head that is due waits for a plugin, a connection or the disk. Nobody
listens while the head is read again; the lane then looks at what has come. The pools close the connection
whenever they need it (see :mod:`hookgw.delivery.http.pools`). A restart loses it: the receiver then gets the
event again.
"""

from __future__ import annotations

from collections.abc import Callable

from hookgw.delivery.http.pools import ConnectionPools, PooledTransport
from hookgw.delivery.http.response import Response
from hookgw.lanes.services import DeliveryPlan
from hookgw.records.deliveries import Attempt, Outcome

ENDS_DELIVERY = (Outcome.DELIVERED, Outcome.REJECTED, Outcome.GONE)
"""The outcomes of a late response that settle the delivery: another attempt would add nothing."""


class LateResponse:
    """The response that may still come on the connection of an attempt whose deadline has passed.

    Args:
        transport: the connection, given back to the pools.
        plan: with which it was sent.
        attempt_of: makes the record of the attempt with a response.

    Attributes:
        attempt: the attempt with the late response; ``None`` until that comes.
    """

    __slots__ = ("_attempt_of", "_pools", "_transport", "attempt", "plan", "seq")

    def __init__(
        self,
        pools: ConnectionPools,
        transport: PooledTransport,
        seq: int,
        plan: DeliveryPlan,
        attempt_of: Callable[[Response], Attempt],
    ) -> None:
        self._pools = pools
        self._transport = transport
        self._attempt_of = attempt_of
        self.seq = seq
        self.plan = plan
        self.attempt: Attempt | None = None

    @property
    def has_arrivals(self) -> bool:
        """Whether there is something that :meth:`wait` would read at once."""
        return self._transport.has_late_arrivals

    @property
    def has_status(self) -> bool:
        """Whether the status is there: :meth:`wait` returns within a second."""
        return self.attempt is not None or self._transport.has_late_status

    async def wait(self) -> Attempt | None:
        """Wait for the response; return ``None`` if the connection ends without one."""
        if self.attempt is None:
            response = await self._transport.receive_late()
            if response is not None:
                self.attempt = self._attempt_of(response)
            self.close_nowait()
        return self.attempt

    def close_nowait(self) -> None:
        self._pools.close_late(self._transport)


def describe_late(attempt: Attempt) -> str:
    """Return why a delivery is settled by a late response, as a sentence."""
    return (
        f"Attempt {attempt.number} was answered late: status {attempt.status} after {attempt.duration:.3g} s."
    )
