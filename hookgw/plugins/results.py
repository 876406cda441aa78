"""What the hooks of a delivery may return or set. No I/O.

The checks run inside the boundary, because a look at a plugin's object may run the plugin's code: a
comparison, a length, an attribute. What they return has the exact types of hookgw's records, and no code of
the plugin in it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from hookgw.models.deliveries import Delivery, Outgoing
from hookgw.models.errors import Invalid
from hookgw.models.events import Event
from hookgw.models.registrations import Registration
from hookgw.parsing.headers import check_headers
from hookgw.plugins.boundary import WrongResult

_YEAR_10000 = 253_402_300_800.0

# It reads a text without making objects of it.
_skim = msgspec.json.Decoder(msgspec.Raw).decode


def check_filtered(answer: Any) -> bool:
    """Return whether the event passes a filter."""
    # By identity: 0 or "" is a mistake of the plugin, and must not drop an event.
    if answer is not None and answer is not True and answer is not False:
        raise _wrong(answer, "True, False or None")
    return answer is not False


def check_transformed(event: Event, answer: Any) -> Event:
    """Return the event that a transform made of ``event``."""
    if answer is None or answer is event:
        return event
    if not isinstance(answer, Event):
        raise _wrong(answer, "event.replace(data=…) or None")
    # Receivers deduplicate by id; the instance decides who may see the delivery.
    if answer.id != event.id or answer.instance != event.instance:
        raise WrongResult("it changed the event's id or instance, which must stay")
    data_json, at = answer.data_json, answer.time
    if data_json is not event.data_json:
        if type(data_json) is not bytes:
            raise WrongResult(
                f"it set data_json to a value of type {type(data_json).__name__}; use event.replace(data=…)"
            )
        try:
            # The decoder skips over texts without a look at their encoding.
            data_json.decode()
            _skim(data_json)
        except (ValueError, RecursionError) as error:
            raise WrongResult(f"it set data_json to bytes that are not JSON: {error}") from None
    if at is not event.time and (type(at) not in (int, float) or not 0 <= at < _YEAR_10000):
        raise WrongResult("it set time to a value that is not seconds since the epoch, before the year 10000")
    return Event(
        id=event.id,
        kind=_text(answer.kind, "kind"),
        instance=event.instance,
        data_json=data_json,
        time=at,
        sender=None if answer.sender is None else _text(answer.sender, "sender"),
        server_url=None if answer.server_url is None else _text(answer.server_url, "server_url"),
    )


def check_body(answer: Any) -> bytes | None:
    """Return the body that an encoder made, or ``None``."""
    if answer is None or type(answer) is bytes:
        return answer
    # A bytearray could still change after it was signed.
    if not isinstance(answer, bytes):
        raise _wrong(answer, "bytes or None")
    return bytes(memoryview(answer))


class PreparedRequest:
    """A request as it was before a plugin prepared it.

    Args:
        request: the plugin may change its headers.
    """

    def __init__(self, request: Outgoing) -> None:
        self._request = request
        self._url = request.url
        self._body = request.body
        self._number = request.attempt
        self._headers = request.headers.copy()

    def check(self, answer: Any) -> None:  # noqa: ARG002 -- what the hook returns has no meaning
        """Check what the plugin did to the request, and leave plain headers in it."""
        request, before = self._request, self._headers
        url, body = request.url, request.body
        if type(url) is not str or url != self._url or type(body) is not bytes or body != self._body:
            raise WrongResult("it changed the request's url or body; only headers may change here")
        request.attempt = self._number
        found = request.headers
        if not isinstance(found, dict):
            name = type(found).__name__
            raise WrongResult(
                f"it set request.headers to a value of type {name}; change the dict that is there"
            )
        headers: dict[str, str] = {}
        changed: dict[str, Any] = {}
        for given_name, given in dict.items(found):
            # A subclass of str may show itself in another way each time.
            name = str.__str__(given_name) if isinstance(given_name, str) else given_name
            value = str.__str__(given) if isinstance(given, str) else given
            # Not all headers: the plugin is not to blame for those of the registration or of other plugins.
            if name not in before or before[name] != value:
                if type(name) is not str or name != name.lower():
                    raise WrongResult(f"it set a header {name!r}; write the name as a string in lower case")
                changed[name] = value
            headers[name] = value
        # The rules for a registration's own headers. Without them, a CR or LF in a value that a plugin copies
        # from an event would inject headers into the request.
        try:
            check_headers(changed, "request.headers")
        except Invalid as error:
            raise WrongResult(f"it set a header that cannot be sent: {error}") from None
        request.headers = headers


def copy_for_observer(record: Any) -> Any:
    """Return a copy of a record that an observer could change, down to the decoded payload of an event."""
    if isinstance(record, Delivery):
        return msgspec.structs.replace(record, event=msgspec.structs.replace(record.event))
    if isinstance(record, Event):
        return msgspec.structs.replace(record)
    if isinstance(record, Registration):
        return copy_for_plugins(record)
    return record


def copy_for_plugins(registration: Registration) -> Registration:
    """Return a copy of a registration with headers and options of its own."""
    return msgspec.structs.replace(
        registration, headers=registration.headers.copy(), plugins=deepcopy(registration.plugins)
    )


def _wrong(answer: object, wanted: str) -> WrongResult:
    return WrongResult(f"it returned a value of type {type(answer).__name__}; return {wanted}")


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise WrongResult(f"it set {field} to a value of type {type(value).__name__}; set a string")
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongResult(f"it set {field} to a text with half of a surrogate pair") from None
    return text
