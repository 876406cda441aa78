"""The decorator that declares a route's requests and responses. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from hookgw.web.needs import Declared

View = TypeVar("View", bound=Callable[..., Any])

_ATTRIBUTE = "__hookgw_operation__"
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
BYTES = "application/octet-stream"


class Parameter(msgspec.Struct, frozen=True):
    """A query parameter or header of a request.

    Attributes:
        name: its name.
        meaning: a sentence.
        schema: its JSON Schema.
        place: ``query`` or ``header``.
        may_be_empty: whether an empty value means the same as no parameter.
        is_required: whether a request must have it.
    """

    name: str
    meaning: str
    schema: Mapping[str, Any]
    place: str = "query"
    may_be_empty: bool = False
    is_required: bool = False


filter_of = partial(Parameter, may_be_empty=True)
"""A parameter by which a list is filtered."""


class Body(msgspec.Struct, frozen=True):
    """The body of a request.

    Attributes:
        schemas: JSON Schemas, by content type.
        examples: JSON bodies, by title.
        required: whether the body is required.
        note: a sentence on further forms of the body, of which generated clients have no use.
    """

    schemas: Mapping[str, Mapping[str, Any]]
    examples: Mapping[str, Any] = {}
    required: bool = True
    note: str = ""


class NotJson(msgspec.Struct, frozen=True):
    """A response that is not JSON.

    Attributes:
        content_type: its content type; ``*/*`` for bytes of any.
        meaning: a sentence.
    """

    content_type: str
    meaning: str


class OrEvents(msgspec.Struct, frozen=True):
    """A JSON response, or a stream of server-sent events if the request prefers ``text/event-stream``.

    Attributes:
        whole: the type of the JSON response.
        events: sentences on the messages of the stream.
    """

    whole: Any
    events: str


class Operation(msgspec.Struct, frozen=True):
    tag: str
    responses: Mapping[int, Any]
    body: Body | None
    query: tuple[Parameter, ...]
    errors: frozenset[int]
    other: Any
    headers: Mapping[str, str]
    summary: str
    description: str
    needs: Declared | None


def describes(
    tag: str,
    needs: Declared | None,
    responses: Mapping[int, Any],
    *,
    body: Body | None = None,
    query: tuple[Parameter, ...] = (),
    errors: tuple[int, ...] = (),
    other: Any = None,
    headers: Mapping[str, str] = {},
) -> Callable[[View], View]:
    """Declare a route: what it needs of its caller, and what ``/openapi.json`` shows of it.

    The other arguments are those of :func:`hookgw.web.openapi.plugin_describe.describes`.

    Args:
        needs: what the route needs of its caller; ``None`` only for a route of a plugin.
    """

    def declare(view: View) -> View:
        summary, description = _texts(view)
        operation = Operation(
            tag, responses, body, query, frozenset(errors), other, headers, summary, description, needs
        )
        # On the function itself, so that a wrapped or re-registered handler keeps its declaration.
        setattr(view, _ATTRIBUTE, operation)
        return view

    return declare


def operation_of(view: Callable[..., Any]) -> Operation | None:
    operation: Operation | None = getattr(view, _ATTRIBUTE, None)
    return operation


def undeclared(view: Callable[..., Any]) -> Operation:
    """Return a declaration for a plugin's handler that has none."""
    summary, description = _texts(view)
    return Operation("Plugins", {}, None, (), frozenset(), None, {}, summary, description, None)


def json_body(name: str, *, required: bool = True, note: str = "", **examples: Any) -> Body:
    """Return a JSON body with the schema of a component; ``_`` in the titles of examples is a space."""
    # Keyword arguments cannot have spaces.
    titled = {title.replace("_", " "): example for title, example in examples.items()}
    return Body({JSON: {"$ref": f"#/components/schemas/{name}"}}, titled, required, note)


def _texts(view: Callable[..., Any]) -> tuple[str, str]:
    # Docstrings are wrapped for the source; each viewer wraps the document itself.
    paragraphs = [" ".join(paragraph.split()) for paragraph in (view.__doc__ or "").strip().split("\n\n")]
    return paragraphs[0], "\n\n".join(paragraphs[1:])
