"""The decorator with which plugins declare their routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hookgw.records.api_keys import Right
from hookgw.web.openapi import describe
from hookgw.web.openapi.describe import Body, Parameter, View


def describes(
    tag: str,
    responses: Mapping[int, Any],
    *,
    needs: Right | None = None,
    body: Body | None = None,
    query: tuple[Parameter, ...] = (),
    errors: tuple[int, ...] = (),
    other: Any = None,
    headers: Mapping[str, str] = {},
) -> Callable[[View], View]:
    """Declare a route: the right that it needs, and what ``/openapi.json`` shows of it.

    The first paragraph of the handler's docstring is the summary, the others are the description.

    Args:
        tag: the group that shows the route.
        responses: the successful responses by status: a type that msgspec supports, a JSON Schema as a
            ``dict``, a :class:`NotJson`, or ``None`` for a response without a body.
        needs: the right that a caller needs, on the ``<instance>`` in the path, or, without one, over
            everything. By default the path decides: none below ``/public/`` and ``/shared/``, and otherwise
            ``operate``.
        body: the body of the request.
        query: parameters in the query and headers.
        errors: the statuses of its errors, besides the errors implied by the path and the body (400, 401,
            403 and 404 for instances, 413, 415, 503, and those of HTTP itself).
        other: the response with a status that a connector chooses, as in ``responses``; ``None`` for none.
        headers: headers that a successful response may have, each with a sentence.
    """
    return describe.describes(
        tag, needs, responses, body=body, query=query, errors=errors, other=other, headers=headers
    )
