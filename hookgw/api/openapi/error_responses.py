"""The errors of the interface as the document tells of them. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from hookgw.api.openapi.describe import JSON


class Failure(msgspec.Struct, frozen=True):
    """An error that many routes can have.

    Attributes:
        name: of its component.
        meaning: when it comes.
        headers: those that only it has: their meanings, by name.
    """

    name: str
    meaning: str
    headers: dict[str, str] = {}


_WHEN = {"retry-after": "When to try again, in seconds."}

ERRORS: dict[int, Failure] = {
    400: Failure("BadRequest", "The input breaks a rule, or is no JSON."),
    401: Failure(
        "Unauthorized",
        "There is no key, or one that nobody knows. Checked before everything else.",
        {"www-authenticate": "How to send a key."},
    ),
    403: Failure(
        "Forbidden",
        "The key is another instance's, or only the global key may do this, or a name is taken. "
        "Checked before 404.",
    ),
    404: Failure("NotFound", "There is no such thing. Checked before the body is looked at."),
    408: Failure("RequestTimeout", "The head or the body did not arrive in time."),
    409: Failure("Conflict", "The state of what is named does not allow it now."),
    413: Failure("ContentTooLarge", "The body is over its limit, or a batch over one of the backlog's."),
    415: Failure("UnsupportedMediaType", "The body has another content type, or none."),
    429: Failure(
        "TooManyRequests",
        "The key makes too many requests, or its address showed too many wrong ones.",
        _WHEN,
    ),
    431: Failure("RequestHeaderFieldsTooLarge", "The head of the request is over its limit."),
    500: Failure("InternalServerError", "A bug, or a plugin that failed; the log says more."),
    502: Failure("BadGateway", "The messaging network refused; the message is its reason."),
    503: Failure(
        "ServiceUnavailable",
        "hookgw cannot keep what it was given just now, and kept nothing of it, or is too busy.",
        _WHEN,
    ),
    505: Failure("HTTPVersionNotSupported", "The request is of another version of HTTP."),
}
"""By status."""


def failure_responses() -> dict[str, Any]:
    """The components of the document."""
    return {failure.name: _response(failure) for failure in ERRORS.values()}


def _response(failure: Failure) -> dict[str, Any]:
    own = {
        name: {"description": meaning, "required": True, "schema": {"type": "string"}}
        for name, meaning in failure.headers.items()
    }
    return {
        "description": failure.meaning,
        "headers": {"x-hookgw-version": {"$ref": "#/components/headers/Version"}, **own},
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
