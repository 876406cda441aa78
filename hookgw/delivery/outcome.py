"""What a response means for a delivery. No I/O.

Only a 2xx is a delivery. A status about the *payload* is final for that payload. A status about the
*receiver* makes the lane wait. If a proxy's status says that the receiver did not respond, that is no
response. Everything else fails this delivery, and is retried on its schedule.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from hookgw.records.deliveries import DELIVERED_OUTCOME, Outcome

_SPECIAL = {
    # A 404 is not among these: workflow tools answer it while a workflow is switched off.
    **dict.fromkeys((400, 411, 413, 414, 415, 422, 431), Outcome.REJECTED),
    # 521 and up are Cloudflare's for an origin that it could not connect to.
    **dict.fromkeys((408, 425, 429, 502, 503, 521, 522, 523, 525, 526, 527, 530), Outcome.UNREACHABLE),
    # The proxy sent the request on, and the receiver behind it may have done the work. 520 and 524 are
    # Cloudflare's: an empty response, and none in time.
    **dict.fromkeys((504, 520, 524), Outcome.UNANSWERED),
    410: Outcome.GONE,
}


def outcome_of_status(status: int) -> Outcome:
    if 200 <= status <= 299:
        return DELIVERED_OUTCOME
    return _SPECIAL.get(status, Outcome.FAILED)


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for (RFC 9110, section 10.2.3).

    The value is seconds or an HTTP date, which is compared to ``now``, in seconds since the epoch. Some
    receivers send decimals, so they are accepted. The result is at least 0 and not limited; ``None`` if there
    is no header or it cannot be parsed.
    """
    if value is None:
        return None
    text = value.strip()
    # isdigit() alone accepts digits of every script.
    if text.replace(".", "", 1).isdigit() and text.isascii():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        # "-0000" gives a naive time that means UTC; timestamp() would take it for local time.
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now)
