"""What a response means for a delivery. No I/O.

Only a 2xx is a delivery. A status about the *payload* is final for that payload. A status about the
*receiver* makes the lane wait. If a proxy's status says that the receiver did not respond, that is no
response. Everything else fails this delivery, and is retried on its schedule.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.client import responses

from hookgw.kernel.masking import with_masked_user
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
OTHER_NAME = (
    "TLS asked for another name than the host of the URL. Register a URL with the name of tls.serverName; or "
    "let the proxy before the receiver pass the name on (SNI)."
)
_ADVICE = {
    # The page that people see, a URL of another service, a file that a web server serves.
    405: ": it takes no POST there. Correct the URL, or let it take POST.",
    413: ": the event is larger than it takes. Raise its limit for bodies.",
    419: ": it wants a CSRF token. Exempt the URL from it.",  # Laravel's
    421: f": {OTHER_NAME}",  # Apache; Caddy, nginx and Traefik if sites want different certificates
    # Warp of Haskell, with TLS; ws of Node.js.
    426: (
        ": its port wants TLS, or speaks WebSocket alone. Use https:// in the URL, or register one that "
        "takes POST."
    ),
    # After each one the lane waits for a second or more: a limit of 50/s lets little more than 1/s through.
    429: ": it gets more requests than it takes. Set rate of the registration below its limit.",
    # Of every request: those of fasthttp and Fiber take 4 KiB, as much as a registration's headers may have.
    431: (
        ": the headers are longer than it takes. Raise its limit for headers, or shorten those of the "
        "registration."
    ),
}
LATE = 5.0
"""Seconds from the start of an attempt, after which a time limit of the receiver may have ended it."""
TIME_LIMIT = (
    "It took long, so a time limit there may have ended the work: raise it, or let the receiver answer "
    "before it does the work."
)
# Pekko, Armeria, Sanic and Go's TimeoutHandler answer 503 then, others 408. A proxy answers 502 if a server
# has killed its worker.
_OF_TIME_LIMITS = frozenset({408, 502, 503, 504, 524})
# A web app of Google Apps Script, which has worked on the request and shows its output there.
_SCRIPT_OUTPUT = re.compile(r"https://script\.googleusercontent\.com(?=[/?#]|$)", re.IGNORECASE)
# A page where people log in, which may well answer a POST with 200: never a URL to register. Its path says
# so, or its query: OAuth and OpenID Connect (RFC 6749, section 4.1.1), SAML, WS-Federation, and the name of
# ingress-nginx, oauth2-proxy, Authelia and authentik for the page to return to.
_LOGIN = re.compile(
    r"(?:[^/?#]*//[^/?#]*)?/(?:[^?#]*/)?(?:wp-|service)?(?:log|sign)[-_]?in(?:\.\w+)?(?=[/?#]|$)"
    r"|[^?#]*\?(?:[^#]*&)?(?:response_type=|SAMLRequest=|wa=wsignin1\.0|rd=)",
    re.IGNORECASE,
)


def outcome_of_status(status: int) -> Outcome:
    if 200 <= status <= 299:
        return DELIVERED_OUTCOME
    return _SPECIAL.get(status, Outcome.FAILED)


def describe_status(status: int, location: str | None, seconds: float = 0.0) -> str | None:
    """Return a sentence that says why a response is not a delivery; ``None`` for a 2xx.

    For a redirect it names the location, without user and password.

    Args:
        seconds: that the attempt took.
    """
    if 200 <= status <= 299:
        return None
    phrase = f"{status} {responses.get(status, '')}".rstrip()
    if not 300 <= status <= 399 or status == 304:  # which is about a cache, and has no target
        error = f"The receiver answered {phrase}{_ADVICE.get(status, '.')}"
        return f"{error} {TIME_LIMIT}" if seconds >= LATE and status in _OF_TIME_LIMITS else error
    # The receiver chooses this text and may make it long; the sentence is stored with every attempt.
    location = (location or "")[:512]
    if _SCRIPT_OUTPUT.match(location):
        # That URL works once. Each repetition of the request runs the script again.
        return (
            f"The receiver answered {phrase}: redirects are not followed. The script has run; let its doPost "
            "end with return HtmlService.createHtmlOutput(), which answers 200."
        )
    where = f" to {with_masked_user(location)}" if location else ""
    if _LOGIN.match(location):
        return f"The receiver answered {phrase}{where}: it wants a login. Exempt the URL from it."
    return f"The receiver answered {phrase}{where}; redirects are not followed. Register the final URL."


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
