"""Every task ends at a stop, in time, and with it every connection."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.history import Stopped, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """No stop took longer than it may, and none left a connection open."""
    for stopped in index.history.of(Stopped):
        if stopped.took > stopped.allowed:
            yield Violation("ending", f"a stop took {stopped.took:.3f} s, not {stopped.allowed:.3f} s")
        if stopped.open_connections:
            yield Violation("ending", f"{stopped.open_connections} connections are open after a stop")
