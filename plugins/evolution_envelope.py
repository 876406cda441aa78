"""Delivers in the exact form of Evolution API, for receivers that were written for it.

The body has Evolution API's keys in its order, with the dotted name of the kind, and the headers
``X-Instance-Name``, ``X-Event-Type`` and ``X-Timestamp`` are added. A header ``jwt_key`` of a
registration is not sent: each attempt carries a fresh ``Authorization: Bearer`` token signed with it.

For one registration::

    {"url": "https://…", "plugins": {"evolution_envelope": {}}}

For all, with ``{"enabled": false}`` as the way out for one::

    plugins: {options: {evolution_envelope: {all: true}}}

An example of ``hookgw_encode`` and ``hookgw_prepare``, and of options in both places.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from functools import lru_cache
from typing import Any

import msgspec

from hookgw import Event, EventKind, Outgoing, Registration, hookimpl
from hookgw.models.clock import rfc3339

from . import gateway_kinds

NAME = "evolution_envelope"
TOKEN_LIFETIME = 600
"""How long a token is valid, in seconds; Evolution API's own choice."""

_DOTTED = {kind.name: kind.dotted_name for kind in gateway_kinds.hookgw_event_kinds()}
_JWT_HEADER = {"alg": "HS256", "typ": "JWT"}


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block ``plugins.options.evolution_envelope`` of the configuration.

    Attributes:
        all: whether every registration is delivered to in this form.
        server_url: what the body says as ``server_url`` of events that name none.
    """

    all: bool = False
    server_url: str | None = None


class RegistrationOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block of a registration.

    Attributes:
        enabled: whether it is delivered to in this form.
        apikey: what the body says as ``apikey``; receivers written for Evolution API may check it.
    """

    enabled: bool = True
    apikey: str | None = None


class Envelope(msgspec.Struct, frozen=True):
    """The body. Its keys and their order are Evolution API's; what is unknown is null."""

    event: str
    instance: str
    data: msgspec.Raw
    destination: str
    date_time: str
    sender: str | None
    server_url: str | None
    apikey: str | None


class Setting:
    """What the configuration says; set at the start."""

    options = Options()


def _options_of(registration: Registration) -> RegistrationOptions:
    block = registration.plugins.get(NAME)
    if block is None:
        return RegistrationOptions(enabled=Setting.options.all)
    return msgspec.convert(block, RegistrationOptions)


@lru_cache(maxsize=1024)
def _dotted(kind: str) -> str:
    return _DOTTED.get(kind) or EventKind(name=kind, meaning="").dotted_name


@hookimpl
def hookgw_configure(options: dict[str, Any]) -> None:
    """Take the options of the configuration."""
    Setting.options = msgspec.convert(options, Options)


@hookimpl
def hookgw_check_registration(options: dict[str, Any]) -> None:
    """Refuse an unknown option and a wrong type."""
    msgspec.convert(options, RegistrationOptions)


@hookimpl
def hookgw_encode(event: Event, registration: Registration) -> bytes | None:
    """Give the body in Evolution API's form, where the registration is to have it."""
    options = _options_of(registration)
    if not options.enabled:
        return None
    envelope = Envelope(
        event=_dotted(event.kind),
        instance=event.instance,
        data=msgspec.Raw(event.data_json),
        destination=registration.address,
        date_time=event.date_time,
        sender=event.sender,
        server_url=event.server_url or Setting.options.server_url,
        apikey=options.apikey,
    )
    return msgspec.json.encode(envelope)


@hookimpl
def hookgw_prepare(request: Outgoing, event: Event, registration: Registration) -> None:
    """Add Evolution API's headers, and a token in the place of ``jwt_key``.

    The key is turned into a token also where the body is hookgw's own: it must never be sent.
    """
    now = time.time()
    jwt_key = request.headers.pop("jwt_key", None)
    if jwt_key is not None:
        request.headers["authorization"] = f"Bearer {mint_token(jwt_key, now)}"
    if _options_of(registration).enabled:
        request.headers["x-instance-name"] = event.instance
        request.headers["x-event-type"] = _dotted(event.kind)
        request.headers["x-timestamp"] = rfc3339(now)


def mint_token(key: str, now: float) -> str:
    """A JSON Web Token signed with HMAC-SHA256 (RFC 7519, RFC 7515), as Evolution API makes it.

    Args:
        key: the secret that the receiver shares.
        now: the time of issue, in seconds since the epoch.
    """
    claims = {"iat": int(now), "exp": int(now) + TOKEN_LIFETIME, "app": "evolution", "action": "webhook"}
    signed = b".".join(_base64url(msgspec.json.encode(part)) for part in (_JWT_HEADER, claims))
    signature = hmac.digest(key.encode(), signed, hashlib.sha256)
    return b".".join((signed, _base64url(signature))).decode()


def _base64url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
