"""Random bytes for ids: from the system, or in a simulation from its seed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar

random_source: ContextVar[Callable[[int], bytes]] = ContextVar("random_source", default=os.urandom)
"""Returns so many random bytes. If ids are sorted, a simulation must repeat their order from its seed."""


def random_hex(count: int) -> str:
    """Return ``count`` random bytes as hexadecimal digits."""
    return random_source.get()(count).hex()
