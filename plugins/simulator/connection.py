"""One connected instance: what the simulated network keeps while it is connected. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import trio

from hookgw import InstanceSettings, NetworkRefused, Recent, Sentence

from .options import Options

_REMEMBERED = 10_000


@dataclass
class Connection:
    """One connected instance.

    Attributes:
        account: the JID of its account.
        options: how it behaves.
        settings: how its account behaves; the newest ones.
        random: decides what is random about the connection.
        nursery: runs what continues after a call has returned, such as status steps.
        sent: the last sent messages by their ids.
    """

    account: str
    options: Options
    settings: InstanceSettings
    random: Random
    nursery: trio.Nursery
    sent: Recent[str, dict[str, Any]] = field(default_factory=lambda: Recent(_REMEMBERED))
    _next_send: float = field(default=0.0, init=False)

    def refuse_on_demand(self, now: float) -> None:
        """Refuse a message, if the options say so.

        Args:
            now: Trio's clock, in seconds.

        Raises:
            NetworkRefused: with the values that a real network would give.
        """
        if self.random.random() < self.options.fail_send:
            raise NetworkRefused(
                Sentence(
                    "simulator.fail_send",
                    "The simulator refused the message because of its option fail_send.",
                ),
                code="SIMULATED_FAILURE",
            )
        if self.options.limit_rate is None:
            return
        wait = self._next_send - now
        if wait > 0:
            # Not slept here: the caller decides whether to wait.
            raise NetworkRefused(
                Sentence(
                    "simulator.limit_rate",
                    "The simulator takes {limit_rate:g} messages per second (option limit_rate).",
                    limit_rate=self.options.limit_rate,
                ),
                code="RATE_LIMIT",
                status=429,
                retry_after=wait,
            )
        self._next_send = now + 1 / self.options.limit_rate

    def remember(self, message: dict[str, Any]) -> None:
        """Keep a sent message, so that a repetition of its send finds it."""
        self.sent.put(message["key"]["id"], message)
