import pytest

from tests.simulation.invariants import silence
from tests.simulation.invariants.building import arrived, changed, rules, troubles


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        (changed(10, "delete", enabled=False), "was deleted"),
        (changed(10, enabled=False), "was disabled"),
        (changed(10, "pause", paused=True), "was paused"),
        (changed(10, version=2), "has had another URL"),
    ],
)
def test_no_attempt_begins_after_the_answer(change: object, trouble: str) -> None:
    assert troubles(silence.check, rules(), arrived(9.9, 1), change) == []  # type: ignore[arg-type]
    [found] = troubles(silence.check, rules(), change, arrived(10.1, 1))  # type: ignore[arg-type]
    assert trouble in found


def test_an_attempt_in_flight_may_open_its_connection_later() -> None:
    deleted = changed(10, "delete")
    assert troubles(silence.check, rules(), deleted, arrived(12, 1, dialled=11.0)) == []
    assert troubles(silence.check, rules(), deleted, arrived(62, 1, dialled=61.0)) != []


def test_a_receiver_that_hangs_reads_later_what_was_sent_before() -> None:
    paused = changed(10, "pause", paused=True)
    assert troubles(silence.check, rules(), paused, arrived(62, 1, unread_since=9.0)) == []
    assert troubles(silence.check, rules(), paused, arrived(62, 1, unread_since=11.0)) != []


def test_until_another_call_allows_it() -> None:
    calls = changed(10, "pause", paused=True), changed(20, "resume")
    assert troubles(silence.check, rules(), *calls, arrived(21, 1)) == []


def test_a_call_that_was_not_answered_promises_nothing() -> None:
    assert troubles(silence.check, rules(), changed(10, "maybe", enabled=False), arrived(11, 1)) == []
