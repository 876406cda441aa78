"""Bodies of forms, ``application/x-www-form-urlencoded`` as PHP and Node write them (``quoted[key][id]=…``).

A form has nothing but texts. The fields that are something else in JSON are converted by their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, TypeVar

from quart import g, request

from hookgw.kernel.errors import Invalid
from hookgw.kernel.form_text import decode_form, truth_of
from hookgw.kernel.json_fields import show_name
from hookgw.kernel.json_text import decode_strict
from hookgw.kernel.sentences import Sentence
from hookgw.web.body import MAX_VALUES, content_type, parse_in_turns, read_body
from hookgw.web.request_body import current_exchange, read_parsed
from hookgw.web.server.errors import JSON

T = TypeVar("T")

FORM = "application/x-www-form-urlencoded"
NOTE = f"Also as `{FORM}`."
"""What the document says of a body that may be a form, too."""
FIELD_REPEATED = Sentence.declared("form.field_repeated", "The form has the field {name} twice.")
_MOST_FIELDS = 1_000
_DEEPEST = 5
_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_NUMBERS = {"delay", "latitude", "longitude"}
_FLAGS = {"linkPreview", "mentionsEveryOne", "everyOne", "encoding", "fromMe"}
_AS_JSON = {"quoted", "options", "key", "contact", "mentioned", "components"}
"""Fields that are objects or lists in JSON. Clients also write them as JSON into the text."""


def typed(name: str, text: str) -> Any:
    """Return the value of a form's field, as JSON has it. What is none stays a text, which parsers refuse."""
    if name in _FLAGS and (truth := truth_of(text)) is not None:
        return truth
    if name in _NUMBERS | _AS_JSON:
        with suppress(ValueError):
            value = decode_strict(text.encode(), MAX_VALUES)
            if isinstance(value, dict | list) == (name in _AS_JSON):
                return value
    return text


async def read_send(limit: int, parse: Callable[[Any], T]) -> T:
    """Return what a function makes of the current request's body, which is JSON or a form.

    Args:
        limit: the most bytes.
        parse: takes the value; raises ``Invalid``.

    Raises:
        Invalid, UnsupportedContentType, TooLarge, Unauthorized: see
            :func:`hookgw.web.request_body.read_parsed`.
    """
    if content_type(request.headers, JSON, FORM) == JSON:
        return await read_parsed(limit, parse)
    return parse(await read_form(limit))


async def read_form(limit: int) -> dict[str, Any]:
    """Return the fields of the form in the current request's body; see :func:`read_send`."""
    exchange = current_exchange()
    body = await read_body(request.headers, request.body, limit, exchange)
    holder: str | None = g.holder.counted_as
    return await parse_in_turns(exchange, holder or "", _fields_of(body))


def _fields_of(body: bytes) -> Generator[None, None, dict[str, Any]]:
    if body.count(b"&") >= _MOST_FIELDS:
        raise Invalid.of("form.too_many_fields", "The form has more than {most:,} fields.", most=_MOST_FIELDS)
    try:
        entries = yield from decode_form(body)
    except UnicodeDecodeError:
        raise Invalid.of("form.malformed", "The body is not a form as {form} in UTF-8.", form=FORM) from None
    fields: dict[str, Any] = {}
    for name, text in entries:
        _put(fields, name, text)
        yield
    found: dict[str, Any] = _with_lists(fields)
    return found


def _put(fields: dict[str, Any], name: str, text: str) -> None:
    found = _NAME.fullmatch(name)
    if found is None:
        raise Invalid.of(
            "form.field_name",
            "The form has a field {name}; write names as in quoted[key][id].",
            name=show_name(name),
        )
    *outer, last = [found[1], *re.findall(r"\[([^\[\]]*)\]", found[2])]
    if len(outer) > _DEEPEST:
        raise Invalid.of(
            "form.field_too_deep",
            "The form has a field {name}, which is nested too deeply.",
            name=show_name(name),
        )
    for part in outer:
        fields = fields.setdefault(part, {})
        if not isinstance(fields, dict):
            raise Invalid.of(
                "form.field_also_text",
                "The form has the field {name} as a text, too.",
                name=show_name(name),
            )
    if not last:  # mentioned[]=…
        last = str(len(fields))
    if last in fields:
        raise Invalid(FIELD_REPEATED(name=show_name(name)))
    fields[last] = typed(last, text)


def _with_lists(value: Any) -> Any:
    """Return the value with lists for objects whose names are 0, 1, 2 and so on."""
    if not isinstance(value, dict):
        return value
    if value and list(value) == [str(index) for index in range(len(value))]:
        return [_with_lists(item) for item in value.values()]
    return {name: _with_lists(item) for name, item in value.items()}
