"""Words of the API that pages and tables show in the reader's language: states, outcomes, phrases of HTTP.

Each word is neutral, or fits the one noun that it is said of: deliveries, lanes and connections are feminine
in Portuguese and Spanish, so a translation of ``dead`` is.
"""

from __future__ import annotations

from hookgw.kernel.language import N_
from hookgw.kernel.language import gettext as _

STATES = (
    *(N_("open"), N_("close"), N_("connecting")),  # connections
    *(N_("active"), N_("failing"), N_("disabled")),  # webhooks
    N_("cancelled"),  # jobs
    *(N_("events"), N_("account"), N_("time"), N_("unknown")),  # what a problem costs
)
"""Those of no enum that marks its own."""
PHRASES = (
    N_("Bad Request"),
    N_("Unauthorized"),
    N_("Forbidden"),
    N_("Not Found"),
    N_("Method Not Allowed"),
    N_("Conflict"),
    N_("Gone"),
    N_("Content Too Large"),
    N_("Unsupported Media Type"),
    N_("Unprocessable Content"),
    N_("Too Many Requests"),
    N_("Internal Server Error"),
    N_("Not Implemented"),
    N_("Bad Gateway"),
    N_("Service Unavailable"),
    N_("Gateway Timeout"),
)
WAITS = {
    "rate": N_("its rate"),
    "memory": N_("memory to read it"),
    "connection": N_("a connection to this host"),
    "descriptor": N_("a file descriptor"),
    "order": N_("its order with other lanes"),
    "backfill": N_("the backfill that comes before it"),
    "fetch": N_("its receiver to fetch it"),
}
"""What a lane waits for, by the words of the API."""


def wait_in_words(waits_for: str | None) -> str | None:
    return None if waits_for is None else _(WAITS.get(waits_for, waits_for))
