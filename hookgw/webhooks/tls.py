"""The field ``tls`` of a registration. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hookgw.kernel.json_fields import Fields, as_object, text_up_to
from hookgw.models.errors import Invalid
from hookgw.models.host_name import parse_host
from hookgw.models.masking import MASK
from hookgw.models.tls_identity import TlsIdentity, as_pem, fits, read_certificates, read_key

MAX_PEM = 32 * 2**10
"""Characters of a PEM text: a certificate has 1 to 3 KiB, and a registration is kept in memory."""
MAX_CERTIFICATES = 20
MAX_SERVER_NAME = 253


def check_tls(value: Any, where: str) -> TlsIdentity:
    """Check the field ``tls``; an empty object is no identity.

    A masked key is left as it is: :func:`unmask_tls` puts the stored one in its place.

    Raises:
        Invalid: with every mistake.
    """
    inner = Fields((where, as_object(value, where)))
    identity = TlsIdentity(
        ca=inner.pick(_check_certificates, "ca"),
        client_certificate=inner.pick(_check_certificates, "clientCertificate", "client_certificate"),
        client_key=inner.pick(_check_key, "clientKey", "client_key"),
        server_name=inner.pick(_check_server_name, "serverName", "server_name"),
    )
    # Not a warning: with a misspelt certificate, every delivery would fail.
    inner.refuse_unknown("tls")
    inner.finish()
    if identity.client_certificate is not None and identity.client_key is None:
        raise Invalid(
            f"{where}.clientCertificate needs its key: send {where}.clientKey, or {MASK} for the stored one."
        )
    if identity.client_key is not None and identity.client_certificate is None:
        raise Invalid(f"{where}.clientKey needs its certificate: send {where}.clientCertificate.")
    if identity.client_key != MASK:
        _check_fit(identity, where)
    return identity


def unmask_tls(given: TlsIdentity, stored: TlsIdentity, where: str = "tls") -> TlsIdentity:
    """Replace a masked key with the stored one.

    Raises:
        Invalid: no key is stored, or it does not fit the certificate.
    """
    if given.client_key != MASK:
        return given
    if stored.client_key is None:
        raise Invalid(f"{where}.clientKey is masked, but no key is stored: send it.")
    identity = msgspec.structs.replace(given, client_key=stored.client_key)
    _check_fit(identity, where)
    return identity


def _check_fit(identity: TlsIdentity, where: str) -> None:
    if identity.client_key is not None and not fits(identity):
        raise Invalid(f"{where}.clientKey does not fit the first certificate in {where}.clientCertificate.")


_text: Callable[[Any, str], str] = text_up_to(MAX_PEM)


def _check_certificates(value: Any, where: str) -> str:
    text = _text(value, where)
    # What is here is shown again.
    if "PRIVATE KEY-----" in text:
        raise Invalid(f"{where} contains a private key: send that in clientKey, and here the certificates.")
    try:
        certificates = read_certificates(text)
    except ValueError:
        raise Invalid(
            f"{where} contains no PEM certificate, which begins with -----BEGIN CERTIFICATE-----, "
            "or a damaged one."
        ) from None
    if len(certificates) > MAX_CERTIFICATES:
        raise Invalid(
            f"{where} has {len(certificates)} certificates; at most {MAX_CERTIFICATES} are allowed."
        )
    return as_pem(certificates)


def _check_key(value: Any, where: str) -> str:
    text = _text(value, where)
    if text == MASK:
        return text
    try:
        return read_key(text)
    except ValueError as error:
        raise Invalid(f"{where} {error}.") from None


def _check_server_name(value: Any, where: str) -> str:
    text = text_up_to(MAX_SERVER_NAME)(value, where)
    try:
        return parse_host(f"[{text}]" if ":" in text else text).removesuffix(".")
    except ValueError:
        # Without the text: somebody may have put the key here.
        raise Invalid(f"{where} must be a host name or an IP address, as in receiver.example.") from None
