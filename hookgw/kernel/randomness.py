"""Random bytes for ids: the system's, or in a simulation those of its seed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar

random_source: ContextVar[Callable[[int], bytes]] = ContextVar("random_source", default=os.urandom)
"""Returns so many random bytes. Where ids sort, their order must repeat with the seed of a simulation."""


def random_hex(count: int) -> str:
    """Return random bytes as hexadecimal digits, two for each byte."""
    return random_source.get()(count).hex()
