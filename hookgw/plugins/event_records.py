"""Events of plugins: any class, with any values in their fields. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from hookgw.records.events import Event

# It reads a text without making objects of it.
_skim = msgspec.json.Decoder(msgspec.Raw).decode


def plain_event(event: Any, *, known_data: bytes | None = None) -> Event:
    """Return an event whose fields have exactly the types of :class:`Event`, and whose payload is JSON.

    Its values are not checked beyond that: the time may be any number, and the kind any text.

    Args:
        event: of a plugin. A look at it may run the plugin's code, which may raise anything.
        known_data: a payload that was checked before.

    Raises:
        ValueError: it is no event, or a field is wrong. The message completes "the event …".
    """
    if not isinstance(event, Event):
        raise ValueError(f"is a value of type {type(event).__name__}, not a hookgw.Event")  # noqa: TRY004
    data_json, at = event.data_json, event.time
    if type(data_json) is not bytes:
        raise ValueError(
            f"has data_json of type {type(data_json).__name__}; it must be bytes: use event.replace(data=…) "
            "or hookgw.Event.encode(…)"
        )
    if data_json is not known_data:
        try:
            # The decoder skips over texts without a look at their encoding.
            data_json.decode()
            _skim(data_json)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"has data_json that is not JSON: {error}") from None
    if type(at) not in (int, float):
        raise ValueError(f"has time of type {type(at).__name__}; it must be seconds since the epoch")
    return Event(
        id=_text(event.id, "id"),
        kind=_text(event.kind, "kind"),
        instance=_text(event.instance, "instance"),
        data_json=data_json,
        time=at,
        sender=None if event.sender is None else _text(event.sender, "sender"),
        server_url=None if event.server_url is None else _text(event.server_url, "server_url"),
    )


def _text(value: Any, field: str) -> str:
    if type(value) is str and value.isascii() and "\0" not in value:  # nearly always
        return value
    if not isinstance(value, str):
        raise ValueError(f"has {field} of type {type(value).__name__}; it must be a string")  # noqa: TRY004
    # A subclass of str may show itself in another way each time.
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"has half of a surrogate pair in {field}") from None
    if "\0" in text:  # which PostgreSQL stores in no text
        raise ValueError(f"has a NUL character in {field}")
    return text
