"""What must hold in every run: pure checks of a history, one promise a file."""

from tests.simulation.history import History, Violation
from tests.simulation.invariants import (
    accounting,
    backfills,
    backups,
    blocking,
    ending,
    erasing,
    kept,
    known,
    limits,
    logged,
    metrics,
    operational,
    order,
    pulled,
    records,
    repeats,
    secrets,
    silence,
    skipped,
    state,
    waits,
)
from tests.simulation.invariants.index import Index

CHECKS = (
    *(kept, order, repeats, accounting, waits, silence, limits, secrets, records, state, ending),
    *(logged, erasing, backups, operational, blocking, metrics, known, skipped, backfills, pulled),
)


def broken_promises(history: History) -> list[Violation]:
    index = Index(history)
    return [violation for module in CHECKS for violation in module.check(index)]
