"""A backup that has its name is whole, also after a kill."""

from collections.abc import Iterator

from tests.simulation.history import BackedUp, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """Each opens and is sound, and what was accepted before its call is in it."""
    for backup in index.history.of(BackedUp):
        for trouble in backup.troubles:
            yield Violation("backups", f"the backup {backup.name} is damaged: {trouble}")
        if backup.troubles or backup.began is None or index.final is None or not index.final.complete:
            continue
        found = set(backup.events)
        for event, accepted in index.accepted.items():
            is_older = accepted.wanted and accepted.at < backup.began
            if is_older and event not in found and not index.may_be_erased(event):
                message = f"{event} is not in the backup {backup.name}"
                yield Violation("backups", message, frozenset({event}))
