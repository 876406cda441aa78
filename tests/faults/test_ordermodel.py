"""The judge of the order must itself notice each kind of broken promise."""

import pytest

from tests.faults.ordermodel import Key, Ledger

A, B, C = (Key(event, "shop") for event in "abc")
OTHER = Key("a", "bar")
URL = "http://receiver/"


def ledger(*arrivals: tuple[str, Key, bool]) -> Ledger:
    made = Ledger()
    made.queue([A, B, OTHER, C])
    for url, key, delivered in arrivals:
        made.arrived(url, key, delivered)
    return made


def test_retries_in_a_row_are_in_order() -> None:
    ledger((URL, A, False), (URL, A, True), (URL, B, True), (URL, OTHER, True), (URL, C, False)).judge()


def test_what_is_sent_again_comes_at_the_end() -> None:
    made = ledger((URL, A, True), (URL, B, True))
    made.queue([A])
    made.arrived(URL, C, True)
    made.arrived(URL, A, True)
    made.judge()


def test_registrations_with_one_url_have_no_common_order() -> None:
    ledger((URL, C, True), (URL, OTHER, True)).judge()


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        ([(URL, B, True), (URL, A, True)], "out of order"),
        ([(URL, A, False), (URL, B, True), (URL, A, True)], "out of order"),
        ([(URL, B, True), ("http://elsewhere/", A, True)], "shop: arrived out of order"),
        ([(URL, A, True), (URL, A, True)], "more than once"),
        ([(URL, A, True), (URL, A, False)], "after its 2xx"),
    ],
)
def test_a_broken_promise_is_noticed(arrivals: list[tuple[str, Key, bool]], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        ledger(*arrivals).judge()
