"""The plain records of deliveries: their names and their defaults."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import Attempt, Delivery, DeliveryState, Event, LaneState, Outcome
from tests.public.records import Settlement, parse_delivery_id


def delivery(seq: int) -> Delivery:
    event = Event(id="msg_1", kind="CALL", instance="loja1", data_json=b"{}", time=0.0)
    return Delivery(
        seq=seq,
        event=event,
        registration="reg_1",
        lane="https://a",
        accepted_at=0.0,
        position=1,
        queued_at=0.0,
    )


@given(st.integers(0, 10**18 - 1))
def test_the_id_of_a_delivery_gives_its_number_back(seq: int) -> None:
    assert parse_delivery_id(delivery(seq).id) == seq


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "dlv_",
        "dlv_-5",
        "dlv_5 ",
        "dlv_+5",
        "dlv_5.0",
        "dlv_٥",
        "dlv_²",
        "DLV_5",
        "dlv_dlv_5",
        "msg_5",
    ],
)
def test_malformed_delivery_ids_give_none(text: str) -> None:
    assert parse_delivery_id(text) is None


def test_a_number_beyond_64_bits_gives_none() -> None:
    assert parse_delivery_id("dlv_" + "9" * 18) == 10**18 - 1
    assert parse_delivery_id("dlv_" + "9" * 19) is None


def test_a_new_delivery_has_no_attempts_and_is_due() -> None:
    new = delivery(1)
    assert (new.attempts, new.failures, new.next_at, new.body) == (0, 0, 0.0, None)


def test_the_words_of_the_interface() -> None:
    """They are stored, shown and used as labels: changing one breaks somebody."""
    assert list(DeliveryState) == ["pending", "delivered", "dead", "dropped"]
    assert list(Outcome) == [
        "delivered",
        "rejected",
        "failed",
        "unanswered",
        "unreachable",
        "gone",
        "blocked",
    ]
    assert list(LaneState) == ["idle", "delivering", "waiting", "paused"]


def test_an_outcome_of_a_later_version_reads_as_failed() -> None:
    assert [Outcome.of_text(outcome.value) for outcome in Outcome] == list(Outcome)
    assert Outcome.of_text("puzzled") is Outcome.FAILED


def test_attempts_and_settlements_cannot_be_changed() -> None:
    attempt = Attempt(number=1, at=0.0, duration=0.1, outcome=Outcome.DELIVERED, status=200)
    settlement = Settlement(seq=1, state=DeliveryState.DELIVERED, at=0.1, attempt=attempt)
    for record in (attempt, settlement):
        with pytest.raises(AttributeError):
            record.at = 5.0  # type: ignore[misc]


def test_an_attempt_survives_being_written_as_json() -> None:
    attempt = Attempt(
        number=2, at=1.5, duration=0.1, outcome=Outcome.FAILED, status=500, error="No.", answer="é"
    )
    assert msgspec.json.decode(msgspec.json.encode(attempt), type=Attempt) == attempt
