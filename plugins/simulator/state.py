"""The state of a simulated account, which hookgw keeps: where the incoming messages continue. No I/O."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec


class State(msgspec.Struct, kw_only=True):
    """What a connection continues from.

    Attributes:
        received: the number of messages that arrived so far.
        seed: decides what the messages contain, unless the options have a seed.
    """

    received: int = 0
    seed: int


def read_state(stored: Any) -> State:
    """Return the state in what the session has loaded: a new one for an account that never connected."""
    if stored is None:
        return State(seed=secrets.randbits(32))
    return msgspec.convert(stored, State)
