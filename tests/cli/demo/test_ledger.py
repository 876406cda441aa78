"""The ledger of one receiver."""

import pytest

from hookgw.demo import ledger as ledger_module
from tests.public.demo import Ledger


def test_an_empty_ledger_is_flawless() -> None:
    assert Ledger().flawless


def test_once_in_order_and_verified_is_flawless() -> None:
    ledger = Ledger()
    for seq, event_id in enumerate("abc", start=1):
        ledger.accept(event_id)
        assert (ledger.missing, ledger.complete) == (1, False)
        ledger.arrive(event_id)
        assert (ledger.missing, ledger.unsettled, ledger.complete) == (0, 1, False)
        ledger.settle(seq, event_id)
    assert (ledger.accepted, ledger.arrived) == (3, 3)
    assert ledger.flawless


def test_an_event_may_arrive_before_its_acceptance_is_reported() -> None:
    ledger = Ledger()
    ledger.arrive("a")
    ledger.settle(1, "a")
    assert not ledger.complete
    ledger.accept("a")
    assert ledger.flawless


def test_an_event_that_does_not_arrive_is_missing() -> None:
    ledger = Ledger()
    ledger.accept("a")
    assert (ledger.missing, ledger.complete, ledger.flawless) == (1, False, False)


def test_an_event_that_was_not_accepted_is_a_flaw() -> None:
    ledger = Ledger()
    ledger.arrive("a")
    ledger.settle(1, "a")
    assert not ledger.flawless


def test_a_second_arrival_is_a_repeat() -> None:
    ledger = Ledger()
    ledger.accept("a")
    ledger.arrive("a")
    ledger.arrive("a")
    ledger.settle(1, "a")
    assert (ledger.arrived, ledger.repeated, ledger.complete, ledger.flawless) == (1, 1, True, False)


def test_arrivals_out_of_the_accepted_order_are_detected() -> None:
    ledger = Ledger()
    for event_id in "ab":
        ledger.accept(event_id)
    for seq, event_id in ((2, "b"), (1, "a")):
        ledger.arrive(event_id)
        ledger.settle(seq, event_id)
    assert (ledger.out_of_order, ledger.complete, ledger.flawless) == (1, True, False)


def test_arrivals_out_of_the_settled_order_are_detected() -> None:
    ledger = Ledger()
    for event_id in "ab":
        ledger.accept(event_id)
    for event_id in "ba":
        ledger.arrive(event_id)
    for seq, event_id in ((1, "a"), (2, "b")):
        ledger.settle(seq, event_id)
    assert (ledger.out_of_order, ledger.complete) == (1, True)


def test_a_settlement_without_an_arrival_is_detected() -> None:
    ledger = Ledger()
    ledger.accept("a")
    ledger.settle(1, "a")
    assert (ledger.out_of_order, ledger.missing, ledger.complete) == (1, 1, False)


def test_an_unverified_request_is_a_flaw() -> None:
    ledger = Ledger()
    ledger.unverified += 1
    assert ledger.complete
    assert not ledger.flawless


def test_failed_attempts_are_not_a_flaw() -> None:
    ledger = Ledger()
    ledger.failed_attempts += 1
    assert ledger.flawless


def test_only_the_newest_ids_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_REMEMBERED", 2)
    ledger = Ledger()
    for seq, event_id in enumerate("abc", start=1):
        ledger.accept(event_id)
        ledger.arrive(event_id)
        ledger.settle(seq, event_id)
    ledger.arrive("b")
    assert ledger.repeated == 1
    ledger.arrive("a")
    assert ledger.repeated == 1
