"""From a body to an event. No I/O."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from typing import Any

import msgspec

from hookgw import IngestRequest, Invalid, NewEvent, event_id_of
from hookgw.connectors import network_event
from hookgw.kernel.json_decoding import decode_json
from hookgw.kernel.network_json import mend
from hookgw.kernel.times import parse_rfc3339
from hookgw.records.events import EVENT_ID, Catalog

from .options import Options
from .schemes import HEADER

_SPACE = b" \t\r\n"
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)
_OFFSET = re.compile(r"(Z|[+-][0-9]{2}:[0-9]{2})\Z", re.ASCII | re.IGNORECASE)
# RFC 6901, section 4: no leading zeros.
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
# A number of seconds below this, and of milliseconds from it on: the years 5138 and 1973.
_MILLISECONDS = 1e11
_YEAR_10000 = 253402300800.0
# hookgw takes ids of this form for its own, which nobody repeats, and forgets them sooner.
_OWN_ID = re.compile(r"msg_[0-9a-f]{32}", re.ASCII)
_NOTHING = object()


def read_body(text: bytes) -> tuple[bytes, Any]:
    """Return a body without what no strict reader takes, and its value.

    JavaScript writes half of an emoji where it cuts a text, and programs on Windows a byte order mark: that
    must not cost the event.

    Raises:
        Invalid: it is not JSON.
    """
    text = text.removeprefix(codecs.BOM_UTF8)
    with suppress(Invalid):
        return text, _decode(text)
    with suppress(ValueError):
        text.decode()  # another encoding is refused: mended, it would lose its letters
        text = mend(text)
    return text, _decode(text)


def _decode(text: bytes) -> Any:
    try:
        return decode_json(text)
    except msgspec.ValidationError:
        raise Invalid.of("inbound.number_range", "The body contains a number that is out of range.") from None
    except RecursionError:
        raise Invalid.of("inbound.too_deep", "The body is nested too deeply.") from None
    except ValueError as error:  # not JSON, or not UTF-8
        raise Invalid.of("inbound.not_json", "The body is not JSON: {error}.", error=error) from None


def event_of(request: IngestRequest, text: bytes, body: Any, options: Options, catalog: Catalog) -> NewEvent:
    """Return the event of a request whose proof was checked.

    Args:
        request: as it arrived.
        text: the body as JSON; byte for byte, if it was JSON.
        body: its value.
        options: of the instance.
        catalog: the known event kinds.

    Raises:
        Invalid: the body has no known kind, or an id or time that cannot be one.
    """
    kind, word = _kind_of(request, body, options, catalog)
    event_id = _event_id(request, options, body, kind, *([] if word is None else [word]))
    # The bytes as they came: Python would write some numbers in another way.
    text = text.strip(_SPACE)
    event = NewEvent(kind=kind, data_json=text)
    if word is not None and kind == "NETWORK_EVENT":
        event = network_event("webhook", word, text)
    time = None if not options.time_at else _time(look_up(body, options.time_at), options.time_at)
    return msgspec.structs.replace(event, event_id=event_id, time=time)


def _kind_of(request: IngestRequest, body: Any, options: Options, catalog: Catalog) -> tuple[str, str | None]:
    """Return the kind, and, if it is the one of unknown events, the sender's own word; ``None`` otherwise."""
    at = options.kind_at
    if not at:
        return catalog.resolve(options.kind, "The option kind").name, None
    found = _found(request, body, at)
    if isinstance(found, str):
        kind = catalog.get(found.replace("/", "_"))
        if kind is not None and not (kind.operational and options.otherwise):
            return kind.name, None
    if options.otherwise:
        kind_of_rest = catalog.resolve(options.otherwise, "The option otherwise").name
        return kind_of_rest, found if isinstance(found, str) else ""
    is_header = at.startswith(HEADER)
    if found is _NOTHING and is_header:
        raise Invalid.of(
            "inbound.no_header",
            "The request has no header {header}, which names the kind.",
            header=at.removeprefix(HEADER),
        )
    if found is _NOTHING:
        raise Invalid.of(
            "inbound.no_kind",
            "The body has no kind at {pointer}, the pointer of the option kind.",
            pointer=at,
        )
    where = f"in the header {at.removeprefix(HEADER)}" if is_header else f"at {at} of the body"
    return catalog.resolve(found, f"The kind of the event, {where}").name, None


def _found(request: IngestRequest, body: Any, place: str) -> Any:
    if place.startswith(HEADER):
        return request.headers.get(place.removeprefix(HEADER)) or _NOTHING
    return look_up(body, place)


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


def _event_id(request: IngestRequest, options: Options, body: Any, *happened: str) -> str | None:
    if options.id_at:
        found = _id_at(_found(request, body, options.id_at))
        if isinstance(found, str) and found:
            # With the kind: order 17 is created, and later paid.
            return event_id_of(found, *happened)
        if found is not _NOTHING and found is not None:
            raise Invalid.of(
                "inbound.id_form",
                "The id of the event, at {pointer} of the body, must be a text or an integer.",
                pointer=options.id_at,
            )
    usual = options.scheme.event_id
    if usual and not usual.startswith(HEADER):
        found = _id_at(look_up(body, usual))
        if isinstance(found, str) and found:
            return event_id_of(found, *happened)
    given = request.headers.get(usual.removeprefix(HEADER), "") if usual else ""
    # GitLab and others repeat a request with the second one.
    given = given or request.headers.get("webhook-id") or request.headers.get("idempotency-key", "")
    if not given:
        return None
    if EVENT_ID.fullmatch(given) and not _OWN_ID.fullmatch(given):
        return given
    return event_id_of(given)


def _id_at(found: Any) -> Any:
    return str(found) if isinstance(found, int) and not isinstance(found, bool) else found


def _time(found: Any, pointer: str) -> float | None:
    if found is _NOTHING or found is None:
        return None
    seconds = -1.0
    if isinstance(found, str) and not _NUMBER.fullmatch(found):
        # Without an offset, it is the time of some clock: UTC would be a guess, hours off.
        with suppress(ValueError):
            seconds = parse_rfc3339(found) if _OFFSET.search(found) else -1.0
    elif isinstance(found, str | int | float) and not isinstance(found, bool):
        number = float(found) if isinstance(found, str) else found
        # Compared before it is divided: an integer may have so many digits that no float can hold it.
        if number < _MILLISECONDS:
            seconds = number
        elif number < _YEAR_10000 * 1000:
            seconds = number / 1000
    if not 0 <= seconds < _YEAR_10000:
        raise Invalid.of(
            "inbound.time_form",
            "The time of the event, at {pointer} of the body, must be RFC 3339 with Z or an "
            "offset, or seconds or milliseconds since 1970.",
            pointer=pointer,
        )
    return float(seconds)
