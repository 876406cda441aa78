"""Short ways to write a history, for the tests of the checks."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.simulation.history import (
    Accepted,
    Answered,
    Arrived,
    Changed,
    Committed,
    Ended,
    Erased,
    Final,
    History,
    Record,
    Row,
    Rules,
    Violation,
)
from tests.simulation.invariants.index import Index

HOOK = "shop-default-1"
Check = Callable[[Index], Iterator[Violation]]


def troubles(check: Check, *records: Record) -> list[str]:
    """Return what a check says about a history."""
    return [violation.message for violation in check(Index(History(list(records))))]


def rules(**more: Any) -> Rules:
    return Rules(at=0.0, life=0, **more)


def accepted(at: float, *events: str, began: float | None = None, **more: Any) -> Accepted:
    given = {"instance": "shop", "chats": ("c1",) * len(events), "wanted": (HOOK,), **more}
    return Accepted(at=at, life=1, began=at if began is None else began, events=events, **given)


def arrived(at: float, number: int, event: str = "e1", **more: Any) -> Arrived:
    given = {"registration": HOOK, "version": 1, "attempt": 1, "body": 7, "life": 1, **more}
    return Arrived(at=at, number=number, event=event, **given)


def answered(at: float, number: int, outcome: str, event: str = "e1", **more: Any) -> Answered:
    given = {"registration": HOOK, "life": 1, **more}
    return Answered(at=at, number=number, event=event, outcome=outcome, **given)


def changed(at: float, call: str = "set", **more: Any) -> Changed:
    given = {"began": at, "registration": HOOK, "version": 1, "life": 1, "schedule": (5.0, 15.0), **more}
    return Changed(at=at, call=call, **given)


def committed(began: float) -> Committed:
    return Committed(at=began, life=1, began=began)


def killed(at: float) -> Ended:
    return Ended(at=at, life=1, how="kill")


def erased(at: float, **more: Any) -> Erased:
    given = {"began": at, "instance": "shop", "person": "c1", "life": 1, **more}
    return Erased(at=at, **given)


def final(*rows: tuple[str, str], **more: Any) -> Final:
    """Return an end with rows: event and state."""
    made = (Row(seq, event, HOOK, state, seq, 1) for seq, (event, state) in enumerate(rows, 1))
    return Final(at=100.0, life=2, rows=tuple(made), **more)
