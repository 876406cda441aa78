"""The receivers of the demo: they verify, keep account, and have troubles when they are told."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum

from hookgw.cli.demo.ledger import Ledger
from hookgw.cli.received_event import ReceivedEvent, read_received_event
from hookgw.models.signing_keys import VerifyingKey
from hookgw.testing.answers import Answer, answer
from hookgw.testing.received import Received
from hookgw.testing.receiver import Receiver, open_receiver


class Trouble(StrEnum):
    """What can be wrong with a receiver, in the words that are shown."""

    NONE = "is up"
    REFUSES = "is down"
    FAILS = "answers 500"


@asynccontextmanager
async def open_demo_receiver(name: str) -> AsyncIterator[DemoReceiver]:
    """Run a receiver on a free port of 127.0.0.1 for the length of the block."""
    async with open_receiver() as receiver:
        yield DemoReceiver(name, receiver)


class DemoReceiver:
    """A verifying receiver.

    Attributes:
        name: the label of its registration.
        ledger: what it was promised and what it took.
        trouble: what is wrong with it just now.
        last: what arrived last.
        keys: to verify with; set once its registration has a secret.
    """

    def __init__(self, name: str, receiver: Receiver) -> None:
        self.name = name
        self.ledger = Ledger()
        self.trouble = Trouble.NONE
        self.last: ReceivedEvent | None = None
        self.keys: tuple[VerifyingKey, ...] = ()
        self._receiver = receiver
        receiver.default = self._choose

    @property
    def url(self) -> str:
        """What is registered."""
        return f"{self._receiver.url}{self.name}"

    async def begin(self, trouble: Trouble) -> None:
        """Have a trouble from now on. What is being answered at this moment is answered still."""
        self.trouble = trouble
        if trouble is Trouble.REFUSES:
            await self._receiver.stop_listening()

    async def recover(self) -> None:
        """Be well again, at the same address."""
        await self._receiver.restart()
        self.trouble = Trouble.NONE

    def _choose(self, request: Received) -> Answer:
        self._receiver.requests.clear()
        if self.trouble is not Trouble.NONE:
            return answer(500)
        arrival = read_received_event(request, self.keys, time.time())
        if not arrival.verified or arrival.id is None:
            self.ledger.unverified += 1
            return answer(401)
        self.last = arrival
        self.ledger.arrive(arrival.id)
        return answer(200)
