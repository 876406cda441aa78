"""The error responses of the document. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from hookgw.web.openapi.describe import JSON


class ErrorResponse(msgspec.Struct, frozen=True):
    """An error that many routes can have. ``headers`` are only its own, with their meanings."""

    name: str
    meaning: str
    headers: dict[str, str] = {}


# Seconds, not a date: both are allowed (RFC 9110, section 10.2.3), and clients handle seconds more often.
_RETRY_AFTER = {"retry-after": "When to retry, in seconds."}

ERRORS: dict[int, ErrorResponse] = {
    400: ErrorResponse("BadRequest", "The input breaks a rule, or is not valid JSON."),
    401: ErrorResponse(
        "Unauthorized",
        "The key is missing or unknown. Checked before everything else. From `/ingest`: the network's proof "
        "is missing or wrong.",
        {"www-authenticate": "How to send a key."},
    ),
    403: ErrorResponse(
        "Forbidden",
        "The key lacks a right, or does not reach the instance, or the call requires a global key, or a name "
        "is taken. Checked before 404.",
    ),
    404: ErrorResponse("NotFound", "The resource does not exist. Checked before the body is read."),
    408: ErrorResponse("RequestTimeout", "The head or the body did not arrive in time."),
    409: ErrorResponse("Conflict", "The current state does not allow the call."),
    410: ErrorResponse("Gone", "The link has expired."),
    413: ErrorResponse("ContentTooLarge", "The body exceeds its limit, or a batch a limit of the backlog."),
    415: ErrorResponse(
        "UnsupportedMediaType",
        "The content type is missing or not supported, or the content encoding is not gzip. `/ingest` takes "
        "no content encoding.",
    ),
    422: ErrorResponse("UnprocessableContent", "The `Idempotency-Key` was used before, for something else."),
    429: ErrorResponse(
        "TooManyRequests",
        "The key makes too many requests, or its address sent too many wrong keys.",
        _RETRY_AFTER,
    ),
    431: ErrorResponse("RequestHeaderFieldsTooLarge", "The head of the request exceeds its limit."),
    500: ErrorResponse("InternalServerError", "A bug, or a plugin that failed; the log says more."),
    501: ErrorResponse("NotImplemented", "The instance's network has no such call."),
    502: ErrorResponse(
        "BadGateway",
        "The messaging network refused or did not answer; `message` is its reason, `code` its own code. "
        "A connector may choose another status for a refusal.",
    ),
    503: ErrorResponse(
        "ServiceUnavailable",
        "hookgw cannot store anything at the moment and stored nothing of the request, or it is too busy.",
        _RETRY_AFTER,
    ),
    505: ErrorResponse("HTTPVersionNotSupported", "The request uses another version of HTTP."),
}
"""The errors, by status."""

ANY_ERROR = "Refused"
"""The error for the statuses that a connector may choose."""
_REFUSED = ErrorResponse(
    ANY_ERROR,
    "The messaging network refused, and the connector chose the status: any from 400, except 401 and 407.",
)


def error_components() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for error in (*ERRORS.values(), _REFUSED):
        # Every response has the version, whatever raised the error.
        headers: dict[str, Any] = {"x-hookgw-version": {"$ref": "#/components/headers/Version"}}
        for name, meaning in error.headers.items():
            headers[name] = {"description": meaning, "required": True, "schema": {"type": "string"}}
        found[error.name] = {
            "description": error.meaning,
            "headers": headers,
            "content": {JSON: {"schema": {"$ref": "#/components/schemas/ApiError"}}},
        }
    return found
