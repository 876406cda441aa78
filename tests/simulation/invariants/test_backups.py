from typing import Any

from tests.simulation.history import BackedUp
from tests.simulation.invariants import backups
from tests.simulation.invariants.building import accepted, erased, final, rules, troubles

TWO = (rules(), accepted(1, "e1"), accepted(2, "e2"))


def backup(began: float | None, *events: str, **more: Any) -> BackedUp:
    return BackedUp(at=9, life=1, name="b1.db", began=began, events=events, **more)


def test_a_backup_has_what_was_accepted_before() -> None:
    assert troubles(backups.check, *TWO, backup(1.5, "e1"), final()) == []
    assert troubles(backups.check, *TWO, backup(1.5), final()) == ["e1 is not in the backup b1.db"]
    assert troubles(backups.check, *TWO, backup(None), final()) == []


def test_what_was_erased_need_not_be_in_it() -> None:
    assert troubles(backups.check, *TWO, erased(1.2), backup(1.5), final()) == []


def test_a_damaged_backup_is_found() -> None:
    assert troubles(backups.check, rules(), backup(None, troubles=("Page 3 is never used.",))) == [
        "the backup b1.db is damaged: Page 3 is never used."
    ]
