"""No output contains a secret."""

from collections.abc import Iterator

from tests.simulation.history import Printed, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """No log line and no body had a secret in it."""
    for printed in index.history.of(Printed):
        if printed.secret:
            yield Violation("secrets", f"{printed.secret} is in {printed.where}")
