"""Delivers in the exact form of Evolution API, for receivers that were written for it.

The body has Evolution API's keys in their order and the dotted name of the kind. The headers
``X-Instance-Name``, ``X-Event-Type`` and ``X-Timestamp`` are added. A registration's header ``jwt_key`` is
never sent: instead, each attempt has a new ``Authorization: Bearer`` token signed with that key.

For one registration::

    {"url": "https://…", "plugins": {"evolution_envelope": {}}}

For all registrations, except those with ``{"enabled": false}``::

    plugins: {options: {evolution_envelope: {all: true}}}

An example of ``hookgw_encode`` and ``hookgw_prepare``, and of options in the configuration and in
registrations, one of them a secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from hookgw import Event, EventKind, Outgoing, Registration, hookimpl
from hookgw.kernel.times import rfc3339

from . import gateway_kinds

NAME = "evolution_envelope"
# Seconds. Evolution API's own value: a receiver may check it.
TOKEN_LIFETIME = 600

_DOTTED = {kind.name: kind.dotted_name for kind in gateway_kinds.KINDS}
_JWT_HEADER = {"alg": "HS256", "typ": "JWT"}


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block ``plugins.options.evolution_envelope`` of the configuration.

    Attributes:
        all: use this form for every registration.
        server_url: ``server_url`` in the body, for events without their own.
    """

    all: bool = False
    server_url: str | None = None


class RegistrationOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block of a registration.

    Attributes:
        enabled: use this form for the registration.
        apikey: ``apikey`` in the body; receivers that were written for Evolution API may check it. A secret.
    """

    enabled: bool = True
    apikey: str | None = None


class Envelope(msgspec.Struct, frozen=True):
    """The body, with Evolution API's keys in their order. Unknown values are null."""

    event: str
    instance: str
    # Raw: the payload keeps the bytes that the producer sent, with its key order and numbers.
    data: msgspec.Raw
    destination: str
    date_time: str
    sender: str | None
    server_url: str | None
    apikey: str | None


class Setting:
    """The options of the configuration."""

    # A module variable would do as well: each gateway loads its own copy of this module.

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
    """Check and keep the options of the configuration."""
    Setting.options = msgspec.convert(options, Options)


@hookimpl
def hookgw_reconfigure(options: dict[str, Any]) -> Callable[[], None]:
    """Check options that changed while hookgw runs."""
    changed = msgspec.convert(options, Options)

    def use() -> None:
        Setting.options = changed

    return use


@hookimpl
def hookgw_check_registration(options: dict[str, Any]) -> None:
    """Reject unknown options and wrong types."""
    msgspec.convert(options, RegistrationOptions)


@hookimpl
def hookgw_secret_options() -> list[str]:
    """Say what is masked wherever registrations are shown."""
    return ["apikey"]


@hookimpl
def hookgw_concerns(registration: Registration) -> bool:
    """Say which registrations have this form, or a signing key among their headers."""
    return _options_of(registration).enabled or "jwt_key" in map(str.lower, registration.headers)


@hookimpl
def hookgw_encode(event: Event, registration: Registration) -> bytes | None:
    """Encode the body in Evolution API's form, if the registration wants it."""
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
    """Add Evolution API's headers, and replace ``jwt_key`` with a token."""
    # For each attempt and not in hookgw_encode: a retry an hour later needs a token that is still valid.
    now = time.time()
    # Even if the registration does not use this form: a signing key must never be sent.
    jwt_key = request.headers.pop("jwt_key", None)
    if jwt_key is not None:
        request.headers["authorization"] = f"Bearer {mint_token(jwt_key, now)}"
    if _options_of(registration).enabled:
        request.headers["x-instance-name"] = event.instance
        request.headers["x-event-type"] = _dotted(event.kind)
        request.headers["x-timestamp"] = rfc3339(now)


def mint_token(key: str, now: float) -> str:
    """Return a JSON Web Token signed with HMAC-SHA256 (RFC 7519), with Evolution API's claims.

    Args:
        key: the secret shared with the receiver.
        now: the time of issue, in seconds since the epoch.
    """
    claims = {"iat": int(now), "exp": int(now) + TOKEN_LIFETIME, "app": "evolution", "action": "webhook"}
    signed = b".".join(_base64url(msgspec.json.encode(part)) for part in (_JWT_HEADER, claims))
    signature = hmac.digest(key.encode(), signed, hashlib.sha256)
    return b".".join((signed, _base64url(signature))).decode()


def _base64url(raw: bytes) -> bytes:
    # JWS uses base64url without padding (RFC 7515, section 2).
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
