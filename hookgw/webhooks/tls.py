"""The field ``tls`` of a registration. No I/O."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import Block, Field, Input, Line, Option, request_schema
from hookgw.kernel.host_name import parse_host
from hookgw.kernel.json_fields import check_count, text_up_to
from hookgw.kernel.masking import MASK
from hookgw.kernel.schema_parts import text_schema
from hookgw.kernel.sentences import Sentence
from hookgw.records.tls_identity import TlsIdentity, as_pem, fits, read_certificates, read_key

MAX_PEM = 32 * 2**10
"""Characters of a PEM text: a certificate has 1 to 3 KiB, and a registration is kept in memory."""
MAX_CERTIFICATES = 20
_TOO_MANY = Sentence.declared(
    "tls.too_many_certificates", "{where} has {count} certificates; at most {most} are allowed."
)
MAX_SERVER_NAME = 253
_check_text = text_up_to(MAX_PEM)


def check_whole(identity: TlsIdentity, where: str) -> None:
    """Check that the parts fit. Instead of a masked key, :func:`unmask_tls` checks the stored one."""
    if identity.client_certificate is not None and identity.client_key is None:
        raise Invalid.of(
            "tls.key_missing",
            "{where}.clientCertificate needs its key: send {where}.clientKey, or {mask} for the stored one.",
            where=where,
            mask=MASK,
        )
    if identity.client_key is not None and identity.client_certificate is None:
        raise Invalid.of(
            "tls.certificate_missing",
            "{where}.clientKey needs its certificate: send {where}.clientCertificate.",
            where=where,
        )
    if identity.client_key != MASK:
        _check_fit(identity, where)


def unmask_tls(given: TlsIdentity, stored: TlsIdentity) -> TlsIdentity:
    """Replace a masked key with the stored one. Raise ``Invalid`` if there is none, or it does not fit."""
    if given.client_key != MASK:
        return given
    if stored.client_key is None:
        raise Invalid.of(
            "tls.key_masked", "{where}.clientKey is masked, but no key is stored: send it.", where="tls"
        )
    identity = msgspec.structs.replace(given, client_key=stored.client_key)
    _check_fit(identity, "tls")
    return identity


def _check_fit(identity: TlsIdentity, where: str) -> None:
    if identity.client_key is not None and not fits(identity):
        raise Invalid.of(
            "tls.key_does_not_fit",
            "{where}.clientKey does not fit the first certificate in {where}.clientCertificate.",
            where=where,
        )


def _check_certificates(value: Any, where: str) -> str:
    text = _check_text(value, where)
    # What is here is shown again.
    if "PRIVATE KEY-----" in text:
        raise Invalid.of(
            "tls.holds_key",
            "{where} contains a private key: send that in clientKey, and here the certificates.",
            where=where,
        )
    try:
        certificates = read_certificates(text)
    except ValueError:
        raise Invalid.of(
            "tls.no_certificate",
            "{where} contains no PEM certificate, which begins with -----BEGIN CERTIFICATE-----, "
            "or a damaged one.",
            where=where,
        ) from None
    check_count(certificates, MAX_CERTIFICATES, where, _TOO_MANY)
    return as_pem(certificates)


def _check_key(value: Any, where: str) -> str:
    text = _check_text(value, where)
    if text == MASK:
        return text
    try:
        return read_key(text)
    except ValueError as error:
        raise Invalid.of("tls.refused", "{where} {reason}.", where=where, reason=error) from None


def _check_server_name(value: Any, where: str) -> str:
    text = text_up_to(MAX_SERVER_NAME)(value, where)
    try:
        return parse_host(f"[{text}]" if ":" in text else text).removesuffix(".")
    except ValueError:
        # Without the text: a user may have put the key here.
        raise Invalid.of(
            "tls.server_name",
            "{where} must be a host name or an IP address, as in receiver.example.",
            where=where,
        ) from None


_PEM = text_schema(MAX_PEM)
_CERTIFICATES = Block(_check_certificates, _PEM | {"pattern": "-----BEGIN CERTIFICATE-----"}, str)

TLS_PARTS = (
    Field(
        name="ca",
        kind=_CERTIFICATES,
        meaning="Authorities for the receiver's certificate, in PEM; they replace the usual ones.",
        shows="the authorities that may have issued the receiver's certificate, in PEM.",
        is_optional=True,
        form=Input(
            "Authorities to trust, instead of the usual ones",
            "-----BEGIN CERTIFICATE-----",
            name="tls_ca",
        ),
        option=Option("PEM file: trust only these authorities for the receiver's certificate.", "FILE"),
    ),
    Field(
        name="client_certificate",
        kind=_CERTIFICATES,
        meaning="What hookgw presents, with its intermediates, in PEM.",
        shows="what hookgw presents, in PEM.",
        is_optional=True,
        form=Input("Client certificate", "-----BEGIN CERTIFICATE-----", name="tls_certificate"),
        option=Option("PEM file: present this certificate to the receiver.", "FILE"),
    ),
    Field(
        name="client_key",
        kind=Block(
            _check_key, _PEM | {"pattern": f"-----BEGIN ([A-Z]+ )?PRIVATE KEY-----|^{re.escape(MASK)}$"}, str
        ),
        meaning="The key of the certificate, in PEM, without a password. It is never shown; the mask keeps "
        "the stored one.",
        shows="masked; a `set` that sends the mask back keeps the stored key.",
        is_optional=True,
        show=lambda identity, _: None if identity.client_key is None else MASK,
        is_secret=True,
        form=Input(
            "Key of the client certificate",
            "-----BEGIN PRIVATE KEY-----",
            "The stored key is never shown; a masked one stays as it is.",
            name="tls_key",
        ),
        option=Option("PEM file: the key of that certificate; - reads it from standard input.", "FILE"),
    ),
    Field(
        name="server_name",
        kind=Line(_check_server_name, text_schema(MAX_SERVER_NAME), str),
        meaning="The name in the receiver's certificate, if it is not the URL's host.",
        shows="the name in the receiver's certificate.",
        is_optional=True,
        form=Input("Name in the receiver's certificate", "as in the URL", name="tls_server_name"),
        option=Option("Name in the receiver's certificate; '' removes it.", "NAME"),
    ),
)
# No schema can say that a key fits, or when a certificate expires.
TLS = request_schema(TLS_PARTS, "How hookgw and the receiver identify themselves in TLS.", is_closed=True)
