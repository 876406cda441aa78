"""The body of ``/key/create``. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import Fields, as_object, as_text, duration
from hookgw.kernel.times import parse_rfc3339, rfc3339
from hookgw.kernel.units import Duration

# The lifetime of a key with an expiry, in seconds.
SHORTEST_LIFE = 1.0
LONGEST_LIFE = 3650 * 86400.0


class KeyRequest(msgspec.Struct, frozen=True):
    """The key to create. The gateway checks the name.

    Attributes:
        name: of the key.
        expires_at: seconds since the epoch; ``None`` if the request does not say.
    """

    name: str
    expires_at: float | None = None


def parse_key_request(body: Any, *, now: float) -> tuple[KeyRequest, list[str]]:
    """Read the body of a key's ``create``.

    Args:
        body: the decoded JSON.
        now: durations count from here, in seconds since the epoch.

    Returns:
        The request, and a warning for each ignored field.

    Raises:
        Invalid: with every mistake.
    """
    latest = now + LONGEST_LIFE

    def moment(value: Any, where: str) -> float:
        try:
            # A time in the past passes: the gateway compares it with its own clock when it creates the key.
            expires_at = parse_rfc3339(as_text(value, where))
        except (ValueError, OverflowError):
            raise Invalid(f"{where} must be an RFC 3339 time such as 2026-11-20T12:00:00Z.") from None
        if expires_at > latest:
            raise Invalid(f"{where} must be at most {Duration(LONGEST_LIFE)} ahead, by {rfc3339(latest)}.")
        return expires_at

    fields = Fields(("", as_object(body, "The body")))
    name = fields.need(as_text, "", "name")
    life = fields.pick(duration(SHORTEST_LIFE, LONGEST_LIFE), "expiresIn", "expires_in")
    expires_at = fields.pick(moment, "expiresAt", "expires_at")
    # Not read(): two wrong values are two mistakes, and this is a third one.
    if fields.find("expiresIn", "expires_in") and fields.find("expiresAt", "expires_at"):
        fields.problems.append("Send expiresIn or expiresAt, not both.")
    warnings = fields.finish()
    return KeyRequest(name, expires_at if life is None else now + life), warnings
