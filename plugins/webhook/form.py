"""Bodies of forms, ``application/x-www-form-urlencoded``. No I/O."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import suppress

import msgspec

from hookgw import IngestRequest, Invalid
from hookgw.kernel.form_text import decode_form

_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 1_000
# In the content type, or in a field: `charset` of PayPal's IPN, `_charset_` of HTML. Browsers read both names
# as windows-1252, which has all letters of ISO-8859-1.
_WINDOWS_1252 = re.compile(rb'charset_?="?(?:windows-1252|iso-8859-1)(?![\w-])')


def is_form(request: IngestRequest) -> bool:
    """Return whether the body is a form: the content type says so also of JSON, if curl sends it."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return content_type == _FORM and b"=" in request.body and request.body.lstrip()[:1] not in b'{["'


def fields_of(request: IngestRequest) -> Generator[None, None, list[tuple[str, str]]]:
    """Return names and texts, in their order; a name may be there more than once.

    Raises:
        Invalid: there are too many fields, or they are neither in UTF-8 nor in windows-1252 and say so.
    """
    body = request.body
    if body.count(b"&") >= _MOST_FIELDS:
        raise Invalid.of(
            "inbound.too_many_fields", "The form has more than {most:,} fields.", most=_MOST_FIELDS
        )
    try:
        return (yield from decode_form(body))
    except UnicodeDecodeError as error:
        content_type = request.headers.get("content-type", "").lower().encode()
        if any(_WINDOWS_1252.search(text) for text in (content_type, body)):
            with suppress(UnicodeDecodeError):
                return (yield from decode_form(body, "cp1252"))
        raise Invalid.of("inbound.form_not_utf8", "The form is not in UTF-8.") from error


def json_of(fields: Sequence[tuple[str, str]], payload: str) -> bytes:
    """Return a form as JSON: an object of texts, and of a list of texts for a repeated name.

    Args:
        fields: of the form.
        payload: the name of a field that has all of it as JSON; empty if the sender has none.
    """
    found: dict[str, list[str]] = {}
    for name, value in fields:
        if payload and name == payload:
            return value.encode()
        found.setdefault(name, []).append(value)
    return msgspec.json.encode(
        {name: values[0] if len(values) == 1 else values for name, values in found.items()}
    )
