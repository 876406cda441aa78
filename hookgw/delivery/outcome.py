"""What an answer means. Pure: status in, outcome out.

The table is the whole rule. A 2xx is a delivery and nothing else is. What a receiver says about the
*payload* is final for that payload; what it says about *itself* makes the lane wait; everything else
is a failure of this delivery, retried on its schedule.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from hookgw.models.deliveries import Outcome
from hookgw.models.masking import with_masked_user

_SPECIAL = {
    **dict.fromkeys((400, 411, 413, 414, 415, 422, 431), Outcome.REJECTED),
    **dict.fromkeys((408, 425, 429, 502, 503, 504), Outcome.UNREACHABLE),
    410: Outcome.GONE,
}


def outcome_of_status(status: int) -> Outcome:
    """The outcome of an attempt that got an answer with that status."""
    if 200 <= status <= 299:
        return Outcome.DELIVERED
    return _SPECIAL.get(status, Outcome.FAILED)


def describe_status(status: int, location: str | None) -> str | None:
    """Why an answer is no delivery, as a sentence; ``None`` for a 2xx.

    Redirects are never followed, so the sentence says where one pointed.
    """
    if 200 <= status <= 299:
        return None
    try:
        phrase = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    if 300 <= status <= 399:
        where = f" to {with_masked_user(location[:512])}" if location else ""
        return f"The receiver answered {phrase}{where}; redirects are not followed. Register the final URL."
    return f"The receiver answered {phrase}."


def parse_retry_after(value: str | None, now: float) -> float | None:
    """The wait that a ``Retry-After`` header asks for, in seconds (RFC 9110, section 10.2.3).

    Args:
        value: the header's value: seconds (decimals are taken too) or an HTTP date.
        now: the machine's time in seconds since the epoch, to which a date is compared.

    Returns:
        At least 0; ``None`` where there is no header or it makes no sense.
    """
    if value is None:
        return None
    text = value.strip()
    if text.replace(".", "", 1).isdigit() and text.isascii():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now)
