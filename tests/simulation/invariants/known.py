"""An event whose id its instance has used is a duplicate."""

from collections.abc import Iterator

from tests.simulation.history import Accepted, Violation
from tests.simulation.invariants.index import Index

REMEMBERED = 3 * 86_400.0
"""Seconds for which an id is known in any case: eight days, less what the machine's clock may jump by."""


def check(index: Index) -> Iterator[Violation]:
    """No id is answered as new twice, unless its instance was deleted in between. An erasure leaves ids."""
    former: dict[tuple[str, str], Accepted] = {}
    for accepted in index.history.of(Accepted):
        for event in accepted.events:
            before = former.get((accepted.instance, event))
            former[accepted.instance, event] = accepted
            if (
                before is not None
                and accepted.at < before.began + REMEMBERED
                and not index.was_accepted_anew(event, accepted.instance, before.began, accepted.at)
            ):
                message = f"{event} was answered as new at {before.at:.6f}, and again at {accepted.at:.6f}"
                yield Violation("known", message, frozenset({event}))
