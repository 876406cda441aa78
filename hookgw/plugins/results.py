"""Checks the results of the hooks of a delivery. No I/O.

The checks run inside the boundary, because a look at a plugin's object may run the plugin's code: a
comparison, a length, an attribute. Their results have the exact types of hookgw's records, and contain no
code of the plugin.
"""

from __future__ import annotations

from operator import is_
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.rules import check_headers
from hookgw.kernel.times import YEAR_10000
from hookgw.kernel.units import Size
from hookgw.plugins.boundary import WrongResult
from hookgw.plugins.event_records import plain_event
from hookgw.records.deliveries import Delivery, Outgoing
from hookgw.records.destinations import Response
from hookgw.records.events import Event
from hookgw.records.registrations import Registration

MAX_HOOK_BODY = Size(64 * 2**20)
"""The largest body of a delivery that a plugin may make.

The first attempt's body is stored. SQLite refuses a value of more than a billion bytes, and a body that the
store refuses would end hookgw, again at every start.
"""


def check_verdict(answer: Any) -> bool:
    # By identity: 0 or "" is a mistake of the plugin, and must not drop an event.
    if answer is not None and answer is not True and answer is not False:
        raise wrong_type(answer, "True, False or None")
    return answer is not False


def check_transformed(event: Event, answer: Any) -> Event:
    if answer is None or answer is event:
        return event
    if not isinstance(answer, Event):
        raise wrong_type(answer, "event.replace(data=…) or None")
    try:
        checked = plain_event(answer, known_data=event.data_json)
    except ValueError as error:
        raise WrongResult(f"it returned an event that {error}") from None
    if not 0 <= checked.time < YEAR_10000:
        raise WrongResult("it returned an event whose time is not between the years 1970 and 10000")
    # Receivers deduplicate by id; the instance decides who may see the delivery.
    if checked.id != event.id or checked.instance != event.instance:
        raise WrongResult("it changed the event's id or instance, which must stay")
    # The body that hookgw makes of the event has a limit, too.
    for name in ("data_json", "kind", "sender", "server_url"):
        length = len(getattr(checked, name) or "")
        if length > MAX_HOOK_BODY:
            raise WrongResult(
                f"it returned an event whose {name} has {length:,} bytes; the limit is {MAX_HOOK_BODY}"
            )
    return checked


def check_body(answer: Any) -> bytes | None:
    if answer is None:
        return None
    # A bytearray could still change after it was signed.
    if not isinstance(answer, bytes):
        raise wrong_type(answer, "bytes or None")
    size = memoryview(answer).nbytes  # a subclass may claim another length
    if size > MAX_HOOK_BODY:
        raise WrongResult(f"it returned a body of {size:,} bytes; the limit is {MAX_HOOK_BODY}")
    return answer if type(answer) is bytes else bytes(memoryview(answer))


def check_response(answer: Any) -> Response:
    if not isinstance(answer, Response):
        raise wrong_type(answer, "hookgw.Response(status, body)")
    status, body = answer.status, answer.body
    # A bool is an int, too.
    if type(status) is not int or not 200 <= status <= 599:
        raise WrongResult("it returned a Response whose status is not a number from 200 to 599")
    return Response(status, check_body(body) or b"")


class PreparedRequest:
    """A request as it was before a plugin prepared it, to check the plugin's changes to the headers."""

    def __init__(self, request: Outgoing) -> None:
        self._request = request
        self._url = request.url
        self._body = request.body
        self._number = request.attempt
        self._headers = request.headers.copy()

    def check(self, answer: Any) -> None:  # noqa: ARG002 -- what the hook returns has no meaning
        """Check the plugin's changes to the request, and leave plain headers in it."""
        request, before = self._request, self._headers
        url, body = request.url, request.body
        if type(url) is not str or url != self._url or type(body) is not bytes or body != self._body:
            raise WrongResult("it changed the request's url or body; only headers may change here")
        request.attempt = self._number
        found = request.headers
        if not isinstance(found, dict):
            name = type(found).__name__
            raise WrongResult(f"it set request.headers to a value of type {name}; change the existing dict")
        # The usual case: the same objects, so no code of a plugin can be among them.
        if (
            type(found) is dict
            and len(found) == len(before)
            and all(map(is_, found, before))
            and all(map(is_, found.values(), before.values()))
        ):
            return
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
        if changed:
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
        return record.detached()
    if isinstance(record, list):
        return [copy_for_observer(one) for one in record]
    if isinstance(record, dict):
        return record.copy()
    return record


def wrong_type(answer: object, wanted: str) -> WrongResult:
    return WrongResult(f"it returned a value of type {type(answer).__name__}; return {wanted}")
