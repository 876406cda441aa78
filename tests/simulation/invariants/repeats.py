"""Only what was in flight when the process ended is repeated, with the same id and bytes."""

from collections.abc import Iterator
from itertools import chain, pairwise

from tests.simulation.history import FINAL, Violation
from tests.simulation.invariants.index import GLOBAL, Exchange, Index


def check(index: Index) -> Iterator[Violation]:
    """Nothing comes again after an answer that ends its delivery, and every retry has the same bytes."""
    for (event, registration), exchanges in index.exchanges.items():
        names = frozenset({event, registration})
        for trouble in chain(
            _repeats(index, event, registration, exchanges), _bodies(index, event, registration, exchanges)
        ):
            yield Violation("repeats", f"{event} came to {registration} {trouble}", names)
        if not all(
            exchange.arrived.signed or _secret_is_unknown(index, registration, exchange.arrived.at)
            for exchange in exchanges
        ):
            yield Violation("repeats", f"{event} came to {registration} without a valid signature", names)


def _secret_is_unknown(index: Index, registration: str, at: float) -> bool:
    """Return whether the receiver may not have the secret: the client had no answer to its change yet."""
    known = [change for change in index.changes[registration] if change.began <= at]
    return bool(known) and (known[-1].call == "maybe" or known[-1].at > at)


def _repeats(index: Index, event: str, registration: str, exchanges: list[Exchange]) -> Iterator[str]:
    instance = index.instance_of(registration, event)
    for before, after in pairwise(exchanges):
        answered, at = before.answered, after.arrived.at
        if answered is None or answered.outcome not in FINAL or answered.at > at:
            continue
        # What a former receiver refused is tried at the new one, and its late answer does not count. In a
        # pause, a late answer is only in memory.
        is_former = answered.outcome != "delivered" or answered.is_late
        if is_former and _has_changed(index, registration, before, at):
            continue
        if answered.is_late and index.has_ended(before.arrived.at, at):
            continue
        # The gateway listens until the next attempt begins, which may have been before that answer.
        if answered.is_late and after.earliest <= answered.at:
            continue
        is_excused = (
            index.was_lost(answered.at, at)
            or index.was_requeued(event, instance, at)
            or _was_accepted_anew(index, event, registration, before, at)
            or index.was_cut_off_in_vain(instance, answered.at, at)
        )
        if not is_excused:
            yield f"again after it was {answered.outcome}"


def _bodies(index: Index, event: str, registration: str, exchanges: list[Exchange]) -> Iterator[str]:
    fixed: Exchange | None = None
    for before, after in pairwise(exchanges):
        answered, at = before.answered, after.arrived.at
        if _was_accepted_anew(index, event, registration, before, at):
            fixed = None
            continue
        if fixed is not None and fixed.answered and index.was_forgotten(fixed.answered, at):
            fixed = None
        # The first attempt that fails fixes the bytes, once that is on disk.
        has_failed = answered is not None and answered.outcome in ("failed", "unanswered", "unreachable")
        if fixed is None and answered is not None and has_failed and not before.may_go_on:
            fixed = None if index.was_forgotten(answered, at) else before
        if fixed is not None and after.arrived.body != fixed.arrived.body:
            yield "with other bytes"
        elif (
            not index.rules.alters
            and not _has_changed(index, registration, before, at)
            and after.arrived.body != before.arrived.body
        ):
            yield "again, with other bytes"


def _was_accepted_anew(index: Index, event: str, registration: str, before: Exchange, until: float) -> bool:
    """Return whether the id may be that of another event after an exchange."""
    # A webhook of the configuration may get the former event when its instance is gone, and then the new.
    since = 0.0 if registration.startswith(GLOBAL) else before.arrived.at
    return index.was_accepted_anew(event, index.instance_of(registration, event), since, until)


def _has_changed(index: Index, registration: str, before: Exchange, until: float) -> bool:
    """Return whether the registration was changed at or after an attempt."""
    changes = index.changes[registration]
    return any(before.earliest <= change.at and change.began <= until for change in changes)
