"""What a route says of itself, beside its handler. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

View = TypeVar("View", bound=Callable[..., Any])

_ATTRIBUTE = "__hookgw_operation__"
JSON = "application/json"


class Parameter(msgspec.Struct, frozen=True):
    """Something in the query or in a header of a request; it may be left out.

    Attributes:
        name: its name.
        meaning: a sentence.
        schema: JSON Schema of it.
        place: ``query`` or ``header``.
        may_be_empty: whether nothing after the ``=`` means the same as leaving it out.
    """

    name: str
    meaning: str
    schema: Mapping[str, Any]
    place: str = "query"
    may_be_empty: bool = False


class Body(msgspec.Struct, frozen=True):
    """The body of a request.

    Attributes:
        schemas: JSON Schema by content type.
        examples: bodies in JSON, by what is special about each.
        required: whether there must be one.
    """

    schemas: Mapping[str, Mapping[str, Any]]
    examples: Mapping[str, Any] = {}
    required: bool = True


class Other(msgspec.Struct, frozen=True):
    """An answer that is not JSON.

    Attributes:
        content_type: its content type.
        meaning: what it is.
    """

    content_type: str
    meaning: str


class Operation(msgspec.Struct, frozen=True):
    """What a route says of itself; see :func:`describes`."""

    tag: str
    answers: Mapping[int, Any]
    body: Body | None
    query: tuple[Parameter, ...]
    errors: frozenset[int]
    summary: str
    description: str


def describes(
    tag: str,
    answers: Mapping[int, Any],
    *,
    body: Body | None = None,
    query: tuple[Parameter, ...] = (),
    errors: tuple[int, ...] = (),
) -> Callable[[View], View]:
    """Say in ``/openapi.json`` what a route takes and answers. It changes nothing about the route.

    The first paragraph of the handler's docstring is the summary, the others are the description.

    Args:
        tag: the group it is shown in.
        answers: what it answers with success, by status: a type that msgspec knows, a JSON Schema as a
            ``dict``, an :class:`Other`, or ``None`` for no body.
        body: what it takes.
        query: what may stand in its query and headers.
        errors: the statuses of its errors, beside those that follow from its path and its body (400, 401,
            403 and 404 for instances, 413, 415, 503, and those of HTTP itself).
    """

    def declare(view: View) -> View:
        summary, _, description = _text(view.__doc__).partition("\n\n")
        operation = Operation(tag, answers, body, query, frozenset(errors), summary, description)
        setattr(view, _ATTRIBUTE, operation)
        return view

    return declare


def operation_of(view: Callable[..., Any]) -> Operation | None:
    """What a handler says of itself; ``None`` where it says nothing."""
    found: Operation | None = getattr(view, _ATTRIBUTE, None)
    return found


def undeclared(view: Callable[..., Any]) -> Operation:
    """What can be said of a handler that says nothing."""
    summary, _, description = _text(view.__doc__).partition("\n\n")
    return Operation("Plugins", {}, None, (), frozenset(), summary, description)


def json_body(name: str, *, required: bool = True, **examples: Any) -> Body:
    """A body in JSON whose schema is a component of that name; ``_`` in the examples' names is a space."""
    named = {title.replace("_", " "): example for title, example in examples.items()}
    return Body({JSON: {"$ref": f"#/components/schemas/{name}"}}, named, required)


def _text(docstring: str | None) -> str:
    paragraphs = (docstring or "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
