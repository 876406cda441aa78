"""The load on gateways that are killed: producers, and receivers that know what they answered."""

from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import trio

from hookgw.testing import Answer, Received, Receiver, answer
from tests.crash.account import Arrival
from tests.support.gateway_process import KEY

OK = answer(200)
FAIL = answer(500)
_ASK_AGAIN = 0.02


@dataclass
class Producer:
    """Emits numbered events on one instance, one after the other, at a steady rate.

    What got no 202 is sent again with the same id until it does: so the numbers are the order in which
    events were accepted, and what was accepted is never in doubt.

    Attributes:
        url: says where to send the next try.
        rate: events a second. After an outage it catches up.
        timeout: of a try, in seconds. Longer than nodes are frozen: what such a node answers counts.
        at_least: so many events at least.
        emitted: how many events got their 202.
        accepted: when each of them got it.
        refusals: how many tries got something else, or nothing.
        longest: the longest time, in seconds, from the first refusal of an event to its 202.
        slowest: the longest time, in seconds, that a 503 took.
    """

    url: Callable[[], str]
    instance: str
    rate: float
    timeout: float = 12.0
    at_least: int = 0
    emitted: int = 0
    accepted: list[float] = field(default_factory=list)
    refusals: int = 0
    longest: float = 0.0
    slowest: float = 0.0
    enough: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        """Emit until ``enough`` is set, and there are enough events."""
        began = trio.current_time()
        async with httpx.AsyncClient(
            headers={"apikey": KEY}, trust_env=False, verify=False, timeout=self.timeout
        ) as client:
            while self.emitted < self.at_least or not self.enough.is_set():
                refused_at = None
                while not await self._emit(client):
                    refused_at = refused_at or trio.current_time()
                    self.refusals += 1
                    await trio.sleep(_ASK_AGAIN)
                self.emitted += 1
                self.accepted.append(trio.current_time())
                if refused_at is not None:
                    self.longest = max(self.longest, trio.current_time() - refused_at)
                await trio.sleep_until(began + self.emitted / self.rate)

    async def _emit(self, client: httpx.AsyncClient) -> bool:
        event = {"event": "CALL", "id": f"{self.instance}-{self.emitted}", "data": {"number": self.emitted}}
        began = trio.current_time()
        try:
            answered = await client.post(f"{self.url()}/event/emit/{self.instance}", json=event)
        except httpx.HTTPError:
            return False
        assert answered.status_code in (202, 503), answered.text
        if answered.status_code == 503:
            self.slowest = max(self.slowest, trio.current_time() - began)
        return answered.status_code == 202


class Witness:
    """A receiver, and what it answered.

    Args:
        behave: returns the next answer; what is not ``FAIL`` delivers.
    """

    def __init__(self, receiver: Receiver, behave: Callable[[], Answer]) -> None:
        self.receiver = receiver
        self.behave = behave
        self.url = receiver.url
        self._delivered: list[bool] = []
        receiver.default = self._answer

    def _answer(self, _: Received) -> Answer:
        chosen = self.behave()
        self._delivered.append(chosen is not FAIL)
        return chosen

    def arrivals(self) -> list[Arrival]:
        """What came, in order."""
        return [
            Arrival(int((request.event_id or "").rpartition("-")[2]), request.at, delivered)
            for request, delivered in zip(self.receiver.requests, self._delivered, strict=True)
        ]

    def delivered(self) -> int:
        """Return how many requests were answered with 200."""
        return sum(self._delivered)

    async def wait_for_event(self, number: int) -> None:
        """Wait until that event was delivered, and so all before it."""
        looked_at = 0
        while True:
            for request in self.receiver.requests[looked_at:]:
                looked_at += 1
                if (request.event_id or "").endswith(f"-{number}") and self._delivered[request.position]:
                    return
            await self.receiver.wait_for(looked_at + 1)
