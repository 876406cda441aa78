from email.utils import formatdate

import pytest

from hookgw import Outcome
from tests.public.delivery import outcome_of_status, parse_retry_after

NOW = 1_700_000_000.0
REJECTED = {400, 411, 413, 414, 415, 422, 431}
UNREACHABLE = {408, 425, 429, 502, 503, 521, 522, 523, 525, 526, 527, 530}
UNANSWERED = {504, 520, 524}


@pytest.mark.parametrize("status", range(200, 600))
def test_every_status_has_its_outcome(status: int) -> None:
    expected = (
        Outcome.DELIVERED
        if status < 300
        else Outcome.REJECTED
        if status in REJECTED
        else Outcome.UNREACHABLE
        if status in UNREACHABLE
        else Outcome.UNANSWERED
        if status in UNANSWERED
        else Outcome.GONE
        if status == 410
        else Outcome.FAILED
    )
    assert outcome_of_status(status) is expected


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
