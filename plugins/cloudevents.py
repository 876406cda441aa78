"""Delivers as CloudEvents 1.0, in structured or binary mode, for receivers that read them.

For one registration, over HTTP or to any other destination::

    {"url": "https://…", "plugins": {"cloudevents": {"mode": "binary"}}}

docs/destinations.md has the attributes. An example of ``hookgw_concerns``, ``hookgw_encode`` and
``hookgw_prepare`` that belong together: retries send the bytes of the first attempt, whatever the options say
by then.
"""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from hookgw import Event, Outgoing, Registration, hookimpl
from hookgw.kernel.times import rfc3339

NAME = "cloudevents"
_STRUCTURED = "application/cloudevents+json"
_BEGINNING = b'{"specversion":"1.0",'
# HTTP Protocol Binding for CloudEvents 1.0, section 3.1.3.2: what is not encoded in a header.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_URI_REFERENCE = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,512}", re.ASCII)
_TYPE = re.compile(r"[!-~]{0,128}", re.ASCII)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block of a registration.

    Attributes:
        mode: ``structured``: all in the body. ``binary``: the data in the body, the attributes in headers.
        source: the attribute of this name, with ``{instance}`` for the instance.
        type_prefix: precedes the kind in the attribute ``type``.
    """

    mode: Literal["structured", "binary"] = "structured"
    source: str = "/hookgw/{instance}"
    type_prefix: str = "hookgw."


class Envelope(msgspec.Struct, frozen=True):
    """The body of structured mode (JSON Event Format for CloudEvents 1.0); ``instance`` is an extension."""

    specversion: str
    id: str
    source: str
    type: str
    time: str
    datacontenttype: str
    instance: str
    # Raw: the payload keeps the bytes that the producer sent, with its key order and numbers.
    data: msgspec.Raw


def options_of(registration: Registration) -> Options | None:
    block = registration.plugins.get(NAME)
    return None if block is None else msgspec.convert(block, Options)


def attributes_of(event: Event, options: Options) -> dict[str, str]:
    """Return the attributes of an event, without ``datacontenttype``."""
    return {
        "specversion": "1.0",
        "id": event.id,
        "source": options.source.replace("{instance}", event.instance),
        "type": f"{options.type_prefix}{event.kind}",
        "time": rfc3339(event.time),
        "instance": event.instance,
    }


@hookimpl
def hookgw_check_registration(options: dict[str, Any]) -> None:
    """Check the mode and the attributes."""
    found = msgspec.convert(options, Options)
    if not _URI_REFERENCE.fullmatch(found.source.replace("{instance}", "x")):
        raise ValueError("source: use a URI or a path, such as /shops/{instance}, of at most 512 characters")
    if not _TYPE.fullmatch(found.type_prefix):
        raise ValueError("type_prefix: use visible ASCII characters, at most 128, such as com.example.")


@hookimpl
def hookgw_concerns(registration: Registration) -> bool:
    """Registrations without the block cost nothing."""
    return NAME in registration.plugins


@hookimpl
def hookgw_encode(event: Event, registration: Registration) -> bytes | None:
    """Write the body: the whole event, or its data."""
    options = options_of(registration)
    if options is None:
        return None
    if options.mode == "binary":
        return event.data_json
    attributes = attributes_of(event, options)
    envelope = Envelope(**attributes, datacontenttype="application/json", data=msgspec.Raw(event.data_json))
    return msgspec.json.encode(envelope)


@hookimpl
def hookgw_prepare(request: Outgoing, event: Event, registration: Registration) -> None:
    """Write the headers that fit the body."""
    options = options_of(registration)
    if options is None:
        return
    # By the body, not by the mode: the first attempt may have been made under other options. The data may
    # be a CloudEvent itself.
    if request.body.startswith(_BEGINNING) and request.body != event.data_json:
        request.headers["content-type"] = _STRUCTURED
    elif options.mode == "binary":
        request.headers["content-type"] = "application/json"
        for name, value in attributes_of(event, options).items():
            request.headers[f"ce-{name}"] = quote(value, safe=_PLAIN)
