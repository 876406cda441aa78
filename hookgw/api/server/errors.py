"""Errors as answers: one shape, whatever raised them.

``{"status": 404, "error": "Not Found", "response": {"message": ["…"]}}``, where ``message`` is a list of
sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

import msgspec
import structlog
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from hookgw._version import __version__
from hookgw.api.responses import Error, Messages
from hookgw.models.errors import HookgwError, TooManyRequests, Unauthorized, Unavailable

logger = structlog.get_logger("hookgw.api")

JSON = "application/json"
_PHRASES = {413: "Content Too Large"}
"""As RFC 9110 has them, where an older Python says it in other words."""
_BUG = "Something went wrong inside hookgw; its log says what."


def error_body(status: int, messages: Sequence[str]) -> bytes:
    """The body of an error's answer."""
    phrase = _PHRASES.get(status) or HTTPStatus(status).phrase
    return msgspec.json.encode(Error(status, phrase, Messages(list(messages))))


def error_response(
    status: int, messages: Sequence[str], headers: Mapping[str, str] | None = None
) -> Response:
    """An error's answer."""
    return Response(error_body(status, messages), status, dict(headers or {}), content_type=JSON)


class Answer(NamedTuple):
    """An answer in JSON, before it is written in anybody's terms."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


def answer_to(error: Exception, method: str, path: str) -> Answer:
    """The answer to what a route raised. What has no reader is logged and not shown."""
    if not isinstance(error, HookgwError):
        _log(error, method, path)
        return Answer(500, error_body(500, [_BUG]))
    headers = {}
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = 'Bearer realm="hookgw"'
    if isinstance(error, Unavailable | TooManyRequests):
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))
    if error.status is HTTPStatus.INTERNAL_SERVER_ERROR:
        _log(error, method, path)
    return Answer(error.status, error_body(error.status, error.messages), headers)


def install_error_handlers(app: QuartTrio) -> None:
    """Give every error that a route raises, or the routing itself, the one shape."""
    app.register_error_handler(HookgwError, _of_route)
    app.register_error_handler(HTTPException, _of_werkzeug)
    app.register_error_handler(Exception, _of_route)


async def _of_route(error: Exception) -> Response:
    status, body, headers = answer_to(error, request.method, request.path)
    return Response(body, status, dict(headers), content_type=JSON)


async def _of_werkzeug(error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 -- what it is registered for
    status = error.code or 500
    if isinstance(error, NotFound):
        return error_response(status, [f"There is nothing at {request.path}."])
    if isinstance(error, MethodNotAllowed):
        allowed = ", ".join(sorted(error.valid_methods or ()))
        message = f"{request.path} takes {allowed}, not {request.method}."
        return error_response(status, [message], {"allow": allowed})
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return error_response(status, [_BUG])
    description = error.description or HTTPStatus(status).phrase
    return error_response(status, [f"{description.removesuffix('.')}."])


def _log(error: Exception, method: str, path: str) -> None:
    logger.error("request failed", method=method, path=path, exc_info=error)


VERSION_HEADER = (b"x-hookgw-version", __version__.encode())
