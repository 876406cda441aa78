"""The receivers of the demo: they verify requests, keep a ledger, and fail on demand."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum

from hookgw.demo.ledger import Ledger
from hookgw.kernel.signing_keys import VerifyingKey
from hookgw.listen.received_event import read_received_event
from hookgw.testing.answers import Answer, answer
from hookgw.testing.received import Received
from hookgw.testing.receiver import Receiver, open_receiver


class Trouble(StrEnum):
    """The state of a failing receiver, as the demo prints it."""

    NONE = "is up"
    REFUSES = "is down"
    FAILS = "answers 500"


@asynccontextmanager
async def open_demo_receiver(name: str) -> AsyncIterator[DemoReceiver]:
    """Run a receiver on a free port of 127.0.0.1 until the block ends."""
    async with open_receiver() as receiver:
        yield DemoReceiver(name, receiver)


class DemoReceiver:
    """A receiver that verifies requests.

    Attributes:
        name: the label of its registration.
        keys: verify with these keys; set when its registration has a secret.
    """

    def __init__(self, name: str, receiver: Receiver) -> None:
        self.name = name
        self.ledger = Ledger()
        self.trouble = Trouble.NONE
        self.keys: tuple[VerifyingKey, ...] = ()
        self._receiver = receiver
        receiver.default = self._respond

    @property
    def url(self) -> str:
        return f"{self._receiver.url}{self.name}"

    async def begin(self, trouble: Trouble) -> None:
        """Start a trouble. It does not affect responses that have begun."""
        self.trouble = trouble
        if trouble is Trouble.REFUSES:
            await self._receiver.stop_listening()

    async def recover(self) -> None:
        """End the trouble; the URL stays the same."""
        await self._receiver.restart()
        self.trouble = Trouble.NONE

    def _respond(self, request: Received) -> Answer:
        # The receiver of the test kit records every request; the demo may run for days.
        self._receiver.requests.clear()
        # "is down" also lands here: a request may arrive just before the port closes.
        if self.trouble is not Trouble.NONE:
            return answer(500)
        event = read_received_event(request, self.keys, time.time())
        if not event.verified or event.id is None:
            self.ledger.unverified += 1
            return answer(401)
        self.ledger.arrive(event.id)
        return answer(200)
