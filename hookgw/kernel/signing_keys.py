"""Signing secrets in the forms of Standard Webhooks, and their keys. No I/O.

Each form is a prefix and base64. ``whsec_``: a shared secret of 24 to 64 bytes (``v1``, HMAC-SHA256).
``whsk_``: an ed25519 key of 64 bytes, the seed and then the public key, known only to the sender (``v1a``).
``whpk_``: its public half of 32 bytes, for verification. See
https://github.com/standard-webhooks/standard-webhooks, "Signature scheme", and RFC 8032 for ed25519.
"""

from __future__ import annotations

import base64
import secrets
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from hookgw.kernel.masking import repr_without

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SigningKey: TypeAlias = "bytes | Ed25519PrivateKey"
"""For signing: a shared secret, or a private key."""
VerifyingKey: TypeAlias = "bytes | Ed25519PublicKey"
"""For verification: a shared secret, or a public key."""

SYMMETRIC, PRIVATE, PUBLIC = "whsec_", "whsk_", "whpk_"
# RFC 8032, section 5.1.5. The public key has the same length.
SEED_BYTES = 32


class Signature(StrEnum):
    """The signature scheme of a registration.

    Attributes:
        V1: HMAC-SHA256 with a secret that both sides have.
        V1A: ed25519; the receiver has the public key alone.
    """

    V1 = "v1"
    V1A = "v1a"


def signature_of(secret: str) -> Signature:
    return Signature.V1A if secret.startswith(PRIVATE) else Signature.V1


def make_secret(signature: Signature) -> str:
    """Create a secret of 32 random bytes, or an ed25519 key."""
    seed = secrets.token_bytes(SEED_BYTES)
    if signature is Signature.V1:
        return SYMMETRIC + _encode(seed)
    return PRIVATE + _encode(seed + _private(seed).public_key().public_bytes_raw())


def check_secret_form(secret: str) -> None:
    """Check a secret that a caller sent.

    Raises:
        ValueError: it is malformed; the message says what is expected and repeats nothing of the secret.
    """
    if secret.startswith(PRIVATE):
        key = _decode(secret, PRIVATE)
        # Two halves that do not belong together would sign, and no receiver could verify the signatures.
        if len(key) != 64 or _private(key[:SEED_BYTES]).public_key().public_bytes_raw() != key[SEED_BYTES:]:
            raise ValueError(
                "must be whsk_ followed by the base64 of 64 bytes: an ed25519 seed and its public key."
            )
    elif not 24 <= len(_decode(secret, SYMMETRIC)) <= 64:
        raise ValueError("must be whsec_ followed by the base64 of 24 to 64 bytes.")


def public_key_of(secret: str) -> str:
    """Return the public key, ``whpk_…``, of a checked ed25519 key."""
    return PUBLIC + _encode(_decode(secret, PRIVATE)[SEED_BYTES:])


def signing_key(secret: str) -> SigningKey:
    """Return the key in a checked secret: the bytes of ``whsec_…``, the private key of ``whsk_…``."""
    if secret.startswith(PRIVATE):
        return _private(_decode(secret, PRIVATE)[:SEED_BYTES])
    return _decode(secret, SYMMETRIC)


def verifying_key(text: str) -> VerifyingKey:
    """Return the key that verifies signatures.

    Args:
        text: a secret (``whsec_…`` or ``whsk_…``) or a public key (``whpk_…``).

    Raises:
        ValueError: the text is malformed; the message repeats nothing of it.
    """
    if text.startswith(PUBLIC):
        key = _decode(text, PUBLIC)
        if len(key) != SEED_BYTES:
            raise ValueError("a public key is whpk_ followed by the base64 of 32 bytes.")
        return _public(key)
    if text.startswith(PRIVATE):
        check_secret_form(text)
        return _public(_decode(text, PRIVATE)[SEED_BYTES:])
    # Shorter secrets than check_secret_form allows are fine here: other senders may use them.
    key = _decode(text, SYMMETRIC)
    if not key:
        raise ValueError("a secret is whsec_ followed by base64.")
    return key


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _decode(text: str, prefix: str) -> bytes:
    # Malformed text decodes to no bytes, and every caller checks the length: so no exception carries the
    # secret into a traceback.
    try:
        if text.startswith(prefix):
            return base64.b64decode(text.removeprefix(prefix).encode("ascii"), validate=True)
    except ValueError:
        pass
    return b""


# cryptography is imported with the first ed25519 key: most installations never have one.
def _private(seed: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)


def _public(key: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(key)


class Secret(msgspec.Struct, frozen=True):
    """A signing secret in the form of Standard Webhooks.

    Attributes:
        value: ``whsec_…``, or ``whsk_…`` for ed25519; see :mod:`hookgw.kernel.signing_keys`.
        expires_at: seconds since the epoch; ``None`` while it is the newest.
    """

    value: str
    expires_at: float | None = None

    __repr__ = repr_without("value")

    @property
    def signature(self) -> Signature:
        """The secret's scheme."""
        return signature_of(self.value)
