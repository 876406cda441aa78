"""The account of a soak run must itself notice each kind of broken promise."""

import pytest

from tests.soak.account import Account, Arrival, settle_up

ACCEPTED = {"shop": ["a", "b"]}
REGISTRATIONS = {"shop": ["one", "two"]}


def listed(*rows: tuple[str, str, str]) -> dict[str, list[dict[str, str]]]:
    return {"shop": [{"eventId": e, "registrationId": r, "state": state} for e, r, state in rows]}


GOOD = (
    ("a", "one", "delivered"),
    ("a", "two", "dead"),
    ("b", "one", "pending"),
    ("b", "two", "dropped"),
)
ARRIVALS = [Arrival("a", "one", False), Arrival("a", "one", True), Arrival("a", "one", True)]


def test_all_is_there_once() -> None:
    found = settle_up(ACCEPTED, listed(*GOOD), REGISTRATIONS, ARRIVALS)
    assert found == Account(4, found.states, 3, 1)
    assert found.states == {"delivered": 1, "dead": 1, "pending": 1, "dropped": 1}


@pytest.mark.parametrize(
    ("rows", "arrivals", "message"),
    [
        (GOOD[1:], ARRIVALS, "lost: .*'a', 'one'"),
        ((*GOOD, ("c", "one", "dead")), ARRIVALS, "from nowhere: .*'c'"),
        ((*GOOD, GOOD[1]), ARRIVALS, "more than once"),
        (GOOD, ARRIVALS[:1], "delivered without a 2xx"),
    ],
)
def test_a_broken_promise_is_noticed(
    rows: tuple[tuple[str, str, str], ...], arrivals: list[Arrival], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        settle_up(ACCEPTED, listed(*rows), REGISTRATIONS, arrivals)
