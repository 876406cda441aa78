"""Error responses, all in one shape.

A body is ``{"status": 404, "error": "Not Found", "response": {"message": […], "errors": […]}}``: ``message``
has sentences, and ``errors`` the id and the values of each. If a messaging network refused, its own code is
beside them in ``code``. With ``server.compatibility: evolution``, two errors look as in Evolution API; see
:func:`response_to`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
import structlog

from hookgw._version import __version__
from hookgw.core.ingest_url import INGEST_PATH
from hookgw.kernel.errors import (
    ForeignKey,
    HookgwError,
    NetworkRefused,
    PluginFailed,
    ProofRefused,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedContentEncoding,
    WrongFields,
)
from hookgw.kernel.sentences import Sentence
from hookgw.records.inline_media import MEDIA_PATH
from hookgw.web.responses import ErrorId, NetworkError, Refusal

logger = structlog.get_logger("hookgw.api")

JSON = "application/json"
# RFC 9110; before 3.13, Python has the former phrases of the last two.
_PHRASES = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Content Too Large",
    422: "Unprocessable Content",
}
_SECRET_PATHS = (INGEST_PATH, MEDIA_PATH)
"""Paths that end in a token."""
BUG = Sentence("gateway.internal_error", "An internal error occurred; see hookgw's log.")
"""The message of a bug for clients."""
VERSION_HEADER = (b"x-hookgw-version", __version__.encode())


def phrase_of(status: int) -> str:
    """Return the reason phrase of a status; ``Unknown`` for one that RFC 9110 and Python do not know."""
    return _PHRASES.get(status, "Unknown")


def error_body(
    status: int,
    messages: Sequence[Sentence],
    code: str | None = None,
    *,
    unknown_numbers: Mapping[str, str] | None = None,
    is_nested: bool = False,
) -> bytes:
    """Return the body of an error response.

    Args:
        status: of the response.
        messages: sentences.
        code: the messaging network's.
        unknown_numbers: numbers that the network does not know, each with the id that its account would have.
        is_nested: whether the sentences are a list in the list, as Evolution API has those about fields.
    """
    # First, as in Evolution API: its clients look at the first message.
    numbers = (unknown_numbers or {}).items()
    unknown = [{"jid": jid, "exists": False, "number": number} for number, jid in numbers]
    errors = [ErrorId("number.not_on_network", {"number": number, "jid": jid}) for number, jid in numbers]
    errors += [ErrorId(message.id, message.values) for message in messages]
    sentences = [str(message) for message in messages]
    # The document of such a gateway says that the list has a list.
    shown: Any = [sentences] if is_nested else [*unknown, *sentences]
    # Those of hookgw's own lack the code.
    reasons = Refusal(shown, errors, msgspec.UNSET if code is None else code)
    return msgspec.json.encode(NetworkError(status, phrase_of(status), reasons))


class JsonResponse(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str] = {}


def response_to(error: Exception, method: str, path: str, *, is_evolution: bool = False) -> JsonResponse:
    """Return the response to an exception of a route. A bug is logged and becomes a 500.

    With ``server.compatibility: evolution`` (``is_evolution``), another instance's key is a wrong one.
    """
    if is_evolution and isinstance(error, ForeignKey):
        # Evolution API has one answer for every key that is not the right one.
        error = Unauthorized(*error.messages)
    if not isinstance(error, HookgwError):
        # The client does not see the exception: it may hold data of other tenants.
        _log(error, method, path)
        return JsonResponse(500, error_body(500, [BUG]))
    headers = {}
    if isinstance(error, Unauthorized):  # RFC 9110, section 15.5.2 requires the challenge
        headers["www-authenticate"] = 'Bearer realm="hookgw"'
    if isinstance(error, ProofRefused):  # only the network's documentation says which proof
        headers["www-authenticate"] = 'Signature realm="hookgw"'
    code, unknown = None, None
    if isinstance(error, NetworkRefused):
        code, unknown = error.code, error.unknown_numbers
    if isinstance(error, Unavailable | TooManyRequests | NetworkRefused) and error.retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))  # whole seconds, never too early
    if isinstance(error, UnsupportedContentEncoding):  # RFC 9110, section 15.5.16
        headers["accept-encoding"] = error.accepted
    if error.status is HTTPStatus.INTERNAL_SERVER_ERROR:
        _log(error, method, path)
    is_nested = is_evolution and isinstance(error, WrongFields)
    body = error_body(error.status, error.messages, code, unknown_numbers=unknown, is_nested=is_nested)
    return JsonResponse(error.status, body, headers)


def shown_path(path: str) -> str:
    """Return a request's path for messages and the log, without the token that it may contain."""
    for secret in _SECRET_PATHS:
        before, found, _ = path.partition(secret)  # perhaps behind a base path, right or wrong
        if found:
            return f"{before}{secret}…"
    return path


def _log(error: Exception, method: str, path: str) -> None:
    if isinstance(error, PluginFailed):
        # Its traceback was logged where the plugin was called, with the secrets in it masked.
        logger.error("request failed", method=method, path=path, reason=str(error))
    else:
        logger.error("request failed", method=method, path=path, exc_info=error)
