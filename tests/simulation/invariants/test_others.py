"""The short checks: endings, secrets, records."""

from tests.simulation.history import Known, Printed, Stopped, Unanswered
from tests.simulation.invariants import ending, records, secrets
from tests.simulation.invariants.building import HOOK, changed, killed, rules, troubles


def test_a_stop_ends_in_time_with_its_connections() -> None:
    good = Stopped(at=9, life=1, took=3.0, allowed=3.0, open_connections=0)
    bad = Stopped(at=9, life=1, took=3.1, allowed=3.0, open_connections=2)
    assert troubles(ending.check, good) == []
    assert troubles(ending.check, bad) == [
        "a stop took 3.100 s, not 3.000 s",
        "2 connections are open after a stop",
    ]


def test_a_client_that_waits_gets_an_answer() -> None:
    assert troubles(ending.check, Unanswered(at=9, life=1, events=("e1",))) == []
    assert troubles(ending.check, Unanswered(at=9, life=1, events=(), is_owed=True)) == [
        "a client got no answer until 9.000000"
    ]


def test_a_secret_in_an_output_is_found() -> None:
    printed = Printed(at=1, life=1, where="the log: …", secret="the global key")
    assert troubles(secrets.check, printed) == ["the global key is in the log: …"]


def known(*registrations: tuple[str, int]) -> Known:
    return Known(at=20, life=2, registrations=registrations)


def test_an_answered_change_is_there_after_a_start() -> None:
    history = (rules(), changed(1, version=1), changed(2, version=2), killed(3))
    assert troubles(records.check, *history, known((HOOK, 2))) == []
    assert troubles(records.check, *history, known((HOOK, 1))) == ["shop-default-1 has URL 1, not 2"]
    assert troubles(records.check, *history, known()) == ["shop-default-1 is gone after a start"]


def test_a_deleted_registration_stays_deleted() -> None:
    history = (rules(), changed(1), changed(2, "delete"), killed(3))
    assert troubles(records.check, *history, known()) == []
    assert troubles(records.check, *history, known((HOOK, 1))) == [
        "shop-default-1 was deleted, and is there again"
    ]


def test_a_call_that_was_not_answered_may_have_had_effect() -> None:
    history = (rules(), changed(1), changed(2, "maybe", version=2), killed(3))
    assert troubles(records.check, *history, known((HOOK, 1))) == []
    assert troubles(records.check, *history, known((HOOK, 2))) == []
