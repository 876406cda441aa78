"""The body of ``/key/create``. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from hookgw.models.clock import parse_rfc3339, rfc3339
from hookgw.models.errors import Invalid
from hookgw.models.units import Duration
from hookgw.parsing.fields import Check, Fields, as_object, as_text, duration

SHORTEST_LIFE = 1.0
LONGEST_LIFE = 3650 * 86400.0
"""How long a key with an expiry may last, in seconds."""


class KeyRequest(msgspec.Struct, frozen=True):
    """What a ``create`` asks for. The gateway checks the name.

    Attributes:
        name: of the key.
        expires_at: seconds since the epoch; ``None`` where nothing is said of it.
    """

    name: str
    expires_at: float | None = None


def parse_key_request(body: Any, *, now: float) -> tuple[KeyRequest, list[str]]:
    """What is asked for, and warnings about what was ignored of it.

    Args:
        body: the decoded JSON.
        now: what a length of time counts from, in seconds since the epoch.

    Raises:
        Invalid: with everything that is wrong.
    """
    fields = Fields(("", as_object(body, "The body")))
    name = fields.need(as_text, "", "name")
    life = fields.pick(duration(SHORTEST_LIFE, LONGEST_LIFE), "expiresIn", "expires_in")
    moment = fields.pick(_moment(now + LONGEST_LIFE), "expiresAt", "expires_at")
    if fields.find("expiresIn", "expires_in") and fields.find("expiresAt", "expires_at"):
        fields.problems.append("Give expiresIn or expiresAt, not both.")
    warnings = fields.finish()
    return KeyRequest(name, moment if life is None else now + life), warnings


def _moment(latest: float) -> Check[float]:
    """A check for a time; whether it is past already is for the gateway to say."""

    def check(value: Any, where: str) -> float:
        try:
            moment = parse_rfc3339(as_text(value, where))
        except (ValueError, OverflowError):
            raise Invalid(f"{where} must be an RFC 3339 time such as 2026-11-20T12:00:00Z.") from None
        if moment > latest:
            raise Invalid(f"{where} must be at most {Duration(LONGEST_LIFE)} ahead, by {rfc3339(latest)}.")
        return moment

    return check
