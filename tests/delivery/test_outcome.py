from email.utils import formatdate

import pytest

from hookgw import Outcome
from tests.public.delivery import outcome_of_status, parse_retry_after

NOW = 1_700_000_000.0
REJECTED = {400, 411, 413, 414, 415, 422, 431}
UNREACHABLE = {408, 425, 429, 502, 503, 521, 522, 523, 525, 526, 527, 530}
UNANSWERED = {504, 520, 524}


def test_every_status_has_its_outcome() -> None:
    others = {
        **dict.fromkeys(range(200, 300), Outcome.DELIVERED),
        **dict.fromkeys(REJECTED, Outcome.REJECTED),
        **dict.fromkeys(UNREACHABLE, Outcome.UNREACHABLE),
        **dict.fromkeys(UNANSWERED, Outcome.UNANSWERED),
        410: Outcome.GONE,
    }
    expected = dict.fromkeys(range(200, 600), Outcome.FAILED) | others
    assert {status: outcome_of_status(status) for status in expected} == expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("120", 120.0),
        (" 120 ", 120.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("1.5.5", None),
        ("٣", None),
        ("1000000000", 1e9),
        ("9" * 400, float("inf")),
        (formatdate(NOW + 90, usegmt=True), 90.0),
        (formatdate(NOW - 90, usegmt=True), 0.0),
        ("Wed, 99 Nov 2026 99:99:99 GMT", None),
        ("Tue, 14 Nov 2023 22:14:20 -0000", 60.0),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds
