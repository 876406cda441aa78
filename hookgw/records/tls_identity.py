"""How a registration's receiver and hookgw identify themselves in TLS: the field ``tls``. No I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from hookgw.kernel.masking import repr_without
from hookgw.kernel.times import rfc3339

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
    from cryptography.x509 import Certificate

MAX_RSA_BITS = 8192
"""A signature with a longer key takes more than 50 ms, and one is made for each connection."""

# Not beyond the next line of dashes: each of a thousand BEGINs would be followed to the end of the text.
_KEY = re.compile(r"-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----(?:(?!-----).)*-----END \1-----", re.DOTALL)


class TlsIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The field ``tls`` of a registration. Without any part, connections use hookgw's defaults.

    Attributes:
        ca: the authorities that may have issued the receiver's certificate, in PEM; they replace the usual
            ones.
        client_certificate: what hookgw presents, with its intermediates, in PEM.
        client_key: the key of the certificate, in PEM.
        server_name: the name in the receiver's certificate, if it is not the URL's host.
    """

    ca: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    server_name: str | None = None

    # The certificates are no secrets, but thousands of characters.
    __repr__ = repr_without("ca", "client_certificate", "client_key")


NO_IDENTITY = TlsIdentity()


def read_certificates(pem: str) -> list[Certificate]:
    """Return the certificates in a PEM text.

    Raises:
        ValueError: it has none, or one is malformed.
    """
    # Imported here: most registrations have no certificate, and the import takes long.
    from cryptography.x509 import load_pem_x509_certificates

    return load_pem_x509_certificates(pem.encode())


def as_pem(certificates: list[Certificate]) -> str:
    """Return certificates as one PEM text, without the text between them."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def read_key(pem: str) -> str:
    """Return the block of a PEM text that has the private key.

    Raises:
        ValueError: it is missing or cannot be used; the message continues a sentence that begins with the
            name of the field.
    """
    block = _KEY.search(pem)
    if block is None:
        raise ValueError("contains no PEM private key, which begins with -----BEGIN PRIVATE KEY-----")
    text = f"{block[0]}\n"
    if "ENCRYPTED" in text:
        raise ValueError("is encrypted: send it without a password; hookgw encrypts what it stores")
    key = _load_key(text)
    bits = getattr(key, "key_size", 0)
    if bits > MAX_RSA_BITS:
        raise ValueError(f"has {bits:,} bits; at most {MAX_RSA_BITS:,} are allowed")
    return text


def fits(identity: TlsIdentity) -> bool:
    """Return whether the key belongs to the certificate. The identity has both."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    def encoded(public: PublicKeyTypes) -> bytes:
        return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    try:
        certificate = read_certificates(identity.client_certificate or "")[0]
        return encoded(certificate.public_key()) == encoded(_load_key(identity.client_key or "").public_key())
    except (ValueError, UnsupportedAlgorithm):
        return False


def expired_part(identity: TlsIdentity, now: float) -> str | None:
    """Return a sentence about a certificate that has expired; ``None`` if all may be used.

    ``now`` is in seconds since the epoch.
    """
    if identity.client_certificate is not None:
        # The first one is hookgw's; others may be there for receivers that need them no more.
        end = read_certificates(identity.client_certificate)[0].not_valid_after_utc.timestamp()
        if end < now:
            return f"tls.clientCertificate expired on {rfc3339(end)}."
    if identity.ca is not None:
        end = max(one.not_valid_after_utc.timestamp() for one in read_certificates(identity.ca))
        if end < now:
            return f"tls.ca expired on {rfc3339(end)}."
    return None


def _load_key(pem: str) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        # Without the tests for primes: those of a large key, which a tenant may send, take seconds. Such a
        # wrong key harms only its owner.
        return load_pem_private_key(pem.encode(), None, unsafe_skip_rsa_key_validation=True)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        raise ValueError("contains a private key that cannot be read") from None
