"""From a body to an event. No I/O."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec

from hookgw import IngestRequest, Invalid, NewEvent, event_id_of
from hookgw.kernel.json_decoding import decode_json
from hookgw.kernel.times import parse_rfc3339
from hookgw.records.events import EVENT_ID, Catalog

from .options import Options

_SPACE = b" \t\r\n"
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)
# RFC 6901, section 4: no leading zeros.
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
# A number of seconds below this, and of milliseconds from it on: the years 5138 and 1973.
_MILLISECONDS = 1e11
_YEAR_10000 = 253402300800.0
# hookgw takes ids of this form for its own, which nobody repeats, and forgets them sooner.
_OWN_ID = re.compile(r"msg_[0-9a-f]{32}", re.ASCII)
_NOTHING = object()


def event_of(request: IngestRequest, options: Options, catalog: Catalog) -> NewEvent:
    """Return the event of a request whose proof was checked.

    Raises:
        Invalid: the body is not JSON, has no known kind, or an id or time that cannot be one.
    """
    try:
        body = decode_json(request.body)
    except msgspec.ValidationError:
        raise Invalid("The body contains a number that is out of range.") from None
    except RecursionError:
        raise Invalid("The body is nested too deeply.") from None
    except ValueError as error:  # not JSON, or not UTF-8
        raise Invalid(f"The body is not JSON: {error}.") from None
    kind, where = options.kind, "The option kind"
    if options.kind_at:
        kind, where = (
            look_up(body, options.kind_at),
            f"The kind of the event, at {options.kind_at} of the body",
        )
        if kind is _NOTHING:
            raise Invalid(f"The body has no kind at {options.kind_at}, the pointer of the option kind.")
    name = catalog.resolve(kind, where).name
    return NewEvent(
        kind=name,
        # The bytes as they came: Python would write some numbers in another way.
        data_json=request.body.strip(_SPACE),
        event_id=_event_id(request, options, body, name),
        time=None if not options.time_at else _time(look_up(body, options.time_at), options.time_at),
    )


def look_up(body: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901); a mark of this module if there is none."""
    for token in pointer[1:].split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(body, dict) and name in body:
            body = body[name]
        elif isinstance(body, list) and _INDEX.fullmatch(name) and int(name) < len(body):
            body = body[int(name)]
        else:
            return _NOTHING
    return body


def _event_id(request: IngestRequest, options: Options, body: Any, kind: str) -> str | None:
    if options.id_at:
        found = look_up(body, options.id_at)
        if isinstance(found, int) and not isinstance(found, bool):
            found = str(found)
        if isinstance(found, str) and found:
            # With the kind: order 17 is created, and later paid.
            return event_id_of(found, kind)
        if found is not _NOTHING and found is not None:
            raise Invalid(
                f"The id of the event, at {options.id_at} of the body, must be a text or an integer."
            )
    # GitLab and others repeat a request with the second one.
    given = request.headers.get("webhook-id") or request.headers.get("idempotency-key", "")
    if not given:
        return None
    if EVENT_ID.fullmatch(given) and not _OWN_ID.fullmatch(given):
        return given
    return event_id_of(given)


def _time(found: Any, pointer: str) -> float | None:
    if found is _NOTHING or found is None:
        return None
    seconds = -1.0
    if isinstance(found, str) and not _NUMBER.fullmatch(found):
        with suppress(ValueError):
            seconds = parse_rfc3339(found)
    elif isinstance(found, str | int | float) and not isinstance(found, bool):
        number = float(found) if isinstance(found, str) else found
        # Compared before it is divided: an integer may have so many digits that no float can hold it.
        if number < _MILLISECONDS:
            seconds = number
        elif number < _YEAR_10000 * 1000:
            seconds = number / 1000
    if not 0 <= seconds < _YEAR_10000:
        raise Invalid(
            f"The time of the event, at {pointer} of the body, must be RFC 3339, or seconds or milliseconds "
            "since 1970."
        )
    return float(seconds)
