"""Accepted = delivered + dead + dropped + pending, for each registration."""

from collections import Counter
from collections.abc import Iterator

from tests.simulation.history import Cancelled, Skipped, Violation
from tests.simulation.invariants.index import Exchange, Index


def check(index: Index) -> Iterator[Violation]:
    """At the end, each delivery is there once and in the right state, and nothing is left."""
    final = index.final
    if final is None:
        return
    seen: set[tuple[str, str]] = set()
    pending: Counter[str] = Counter()
    for row in final.rows:
        key = row.event, row.registration
        names = frozenset(key)
        instance = index.instance_of(row.registration, row.event)
        if key in seen and not index.was_accepted_anew(row.event, instance, 0.0, final.at):
            yield Violation("accounting", f"{row.event} has two deliveries to {row.registration}", names)
        seen.add(key)
        outcomes = {
            "none" if exchange.answered is None else exchange.answered.outcome
            for exchange in index.exchanges.get(key, ())
        }
        if row.state == "pending":
            pending[row.registration] += 1
            yield Violation(
                "accounting", f"{row.event} is still pending for {row.registration}, though all works", names
            )
        elif row.state == "delivered" and not outcomes & {"delivered", "unknown", "none"}:
            yield Violation(
                "accounting",
                f"{row.event} counts as delivered, but {row.registration} did not take it",
                names,
            )
        elif row.state in ("dead", "dropped") and "delivered" in outcomes:
            last = [
                one for one in index.exchanges[key] if one.answered and one.answered.outcome == "delivered"
            ]
            answered = last[-1].answered
            if answered is not None and not (
                index.was_lost(answered.at, float("inf"))
                or index.was_requeued(row.event, instance, final.at)
                or index.was_accepted_anew(row.event, instance, 0.0, final.at)
                or _was_cut_off(index, row.registration, answered.at)
                or (answered.is_late and _was_cancelled_before(index, row.event, last[-1]))
            ):
                yield Violation(
                    "accounting", f"{row.event} is {row.state}, but {row.registration} has taken it", names
                )
    if dict(final.backlog) != dict(pending):
        yield Violation(
            "accounting",
            f"the gateway counts {dict(final.backlog)} as pending, and the data file has {dict(pending)}",
            frozenset(dict(final.backlog).keys() | pending.keys()),
        )


def _was_cancelled_before(index: Index, event: str, late: Exchange) -> bool:
    """Return whether a cancellation of an instance's deliveries may have ended one before its late answer."""
    instance = index.instance_of(late.arrived.registration, event)
    until = late.arrived.at if late.answered is None else late.answered.at
    calls = (one.at for one in index.history.of(Cancelled) if one.instance == instance)
    return any(late.arrived.at <= at <= until for at in calls)


def _was_cut_off(index: Index, registration: str, answered: float) -> bool:
    """Return whether a skip may have cut an attempt off while its answer was on the way."""
    skips = (one for one in index.history.of(Skipped) if one.registration == registration)
    return any(one.began <= answered <= one.at for one in skips)
