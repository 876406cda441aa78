"""Errors of Quart's routes, in the one shape of :mod:`hookgw.web.server.errors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from quart import Response, current_app, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from hookgw.kernel.errors import HookgwError
from hookgw.kernel.nearest import nearest
from hookgw.kernel.sentences import Sentence, sentence_of
from hookgw.web.server.errors import BUG, JSON, error_body, phrase_of, response_to, shown_path

_MOST_WORDS = 8
"""Words of a path that are looked up: clients choose how many there are."""
_SIMILAR = 0.8
"""``sendPol`` means ``sendPoll``, and ``sendPoll`` does not mean ``sendText``."""


def error_response(
    status: int, messages: Sequence[Sentence], headers: Mapping[str, str] | None = None
) -> Response:
    return Response(error_body(status, messages), status, dict(headers or {}), content_type=JSON)


def _asked_path() -> str:
    """Return the current request's path, with the base path, for messages."""
    scope: Any = request.scope
    root: str = scope.get("root_path", "")
    return root + shown_path(request.path)


def install_error_handlers(app: QuartTrio, *, is_evolution: bool) -> None:
    """Give the errors that routes, or the routing itself, raise the one shape; see :func:`response_to`."""

    async def handle_route_error(error: Exception) -> Response:
        path = shown_path(request.path)
        status, body, headers = response_to(error, request.method, path, is_evolution=is_evolution)
        return Response(body, status, dict(headers), content_type=JSON)

    app.register_error_handler(HookgwError, handle_route_error)
    app.register_error_handler(HTTPException, _handle_routing_error)
    app.register_error_handler(Exception, handle_route_error)


async def _handle_routing_error(error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 -- registered for this type only
    status = error.code or 500
    if isinstance(error, NotFound) and request.url_rule is None:  # a plugin's route may raise it, too
        path = _asked_path()
        message = Sentence("route.unknown", "No such route: {path}.", path=path)
        if near := _near_route(request.path):
            near = request.root_path + near
            message = Sentence(
                "route.near", "No such route: {path}. Did you mean {near}?", path=path, near=near
            )
        return error_response(status, [message])
    if isinstance(error, MethodNotAllowed):
        allowed = ", ".join(sorted(error.valid_methods or ()))
        message = Sentence(
            "route.method",
            "{path} accepts {allowed}, not {method}.",
            path=_asked_path(),
            allowed=allowed,
            method=request.method,
        )
        return error_response(status, [message], {"allow": allowed})
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return error_response(status, [BUG])
    description = error.description or phrase_of(status)
    return error_response(status, [sentence_of(f"{description.removesuffix('.')}.")])


def _near_route(path: str) -> str | None:
    """Return the route of the HTTP API that a path means; ``None`` if it is similar to none.

    Words may be misspelled, names may be missing or too many, and other words may come first (``/api/v1``).
    """
    asked = [word for word in path.lower().split("/", _MOST_WORDS) if word]
    rules = [rule.rule.split("/")[1:] for rule in current_app.url_map.iter_rules()]
    for words in (asked, asked[1:], asked[2:]):
        left, matched = [rule for rule in rules if rule[0] != "dashboard"], 0
        for word in words:
            left = [rule for rule in left if len(rule) > matched]
            known = {rule[matched].lower() for rule in left if not rule[matched].startswith("<")}
            near = nearest(word, known, _SIMILAR)
            if near is None:
                break
            left = [rule for rule in left if rule[matched].lower() == near]
            matched += 1
        names = len(words) - matched
        left = [rule for rule in left if all(word.startswith("<") for word in rule[matched:])]
        if matched and left:
            best = min(left, key=lambda rule: abs(len(rule) - matched - names))
            return "/" + "/".join(best)
    return None
