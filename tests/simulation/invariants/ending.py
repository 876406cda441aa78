"""Every task ends at a stop, in time, and with it every connection. Every request is answered before."""

from collections.abc import Iterator

from tests.simulation.history import Stopped, Unanswered, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """No stop took longer than it may, and none left a connection open; no client waited in vain."""
    for unanswered in index.history.of(Unanswered):
        if unanswered.is_owed:
            yield Violation("ending", f"a client got no answer until {unanswered.at:.6f}")
    for stopped in index.history.of(Stopped):
        if stopped.took > stopped.allowed:
            yield Violation("ending", f"a stop took {stopped.took:.3f} s, not {stopped.allowed:.3f} s")
        if stopped.open_connections:
            yield Violation("ending", f"{stopped.open_connections} connections are open after a stop")
