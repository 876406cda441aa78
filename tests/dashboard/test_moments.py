"""Times that people enter, in their zone."""

import datetime
from zoneinfo import ZoneInfo

import pytest

from hookgw import Invalid
from tests.public.site import parse_moment, zone_of

PAULO = ZoneInfo("America/Sao_Paulo")
NOW = datetime.datetime(2026, 11, 26, 1, 30, tzinfo=datetime.UTC).timestamp()
"""Half past ten in the evening of the day before, in São Paulo."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", "2026-11-25T23:30:00Z"),
        ("now", "2026-11-26T01:30:00Z"),
        ("today", "2026-11-25T03:00:00Z"),
        ("Today 14:00", "2026-11-25T17:00:00Z"),
        ("yesterday 9:05", "2026-11-24T12:05:00Z"),
        ("agora", "2026-11-26T01:30:00Z"),
        ("Hoje 14:00", "2026-11-25T17:00:00Z"),
        ("amanha\u0303 9:00", "2026-11-26T12:00:00Z"),
        ("mañana", "2026-11-26T03:00:00Z"),
        ("ayer 9:05", "2026-11-24T12:05:00Z"),
        ("14:00", "2026-11-25T17:00:00Z"),
        ("2026-11-20", "2026-11-20T03:00:00Z"),
        ("2026-11-20 14:00", "2026-11-20T17:00:00Z"),
        ("2026-11-20T14:00:30", "2026-11-20T17:00:30Z"),
        ("2026-11-20T14:00:00Z", "2026-11-20T14:00:00Z"),
        ("2026-11-20T14:00:00+02:00", "2026-11-20T12:00:00Z"),
        # What no answer could show is as early, or as late, as can be.
        ("9999w", "1970-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00+01:00", "1970-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-03:00", "9999-12-31T23:59:59Z"),
        ("9999-12-31", "9999-12-31T03:00:00Z"),
    ],
)
def test_a_time_is_in_the_readers_zone(text: str, expected: str) -> None:
    assert parse_moment(text, "From", NOW, PAULO) == datetime.datetime.fromisoformat(expected).timestamp()


def test_nothing_is_no_time() -> None:
    assert parse_moment("  ", "From", NOW, PAULO) is None


@pytest.mark.parametrize(
    "text", ["someday", "25:00", "2026-13-01", "today 9", "9999-99-99 10:00", "-2h", "٢h"]
)
def test_anything_else_is_explained(text: str) -> None:
    with pytest.raises(Invalid, match="From must be a time such as 2h for two hours ago"):
        parse_moment(text, "From", NOW, PAULO)


@pytest.mark.parametrize(
    ("cookie", "offset"),
    [
        ("America/Sao_Paulo -180", -3.0),
        ("Asia/Kolkata 330", 5.5),
        ("Nowhere/Atlantis -210", -3.5),
        ("../../etc/passwd 60", 0.0),
        ("", 0.0),
        ("Europe/Lisbon", 0.0),
        ("x 99999", 0.0),
    ],
)
def test_the_zone_comes_from_the_browser(cookie: str, offset: float) -> None:
    zone = zone_of(cookie)
    assert datetime.datetime(2026, 11, 26, tzinfo=zone).utcoffset() == datetime.timedelta(hours=offset)
