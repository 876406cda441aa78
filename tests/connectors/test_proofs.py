"""Proofs of the network: only the right one is taken, of whatever bytes the others are."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from hookgw.connectors import is_secret, is_signature


def test_a_secret() -> None:
    assert is_secret("key", "key")
    assert is_secret("clé", "clé")
    for given in ("", "kei", "key ", "k\ud800y", "Key"):
        assert not is_secret(given, "key")
    # An emoji that was cut in two is no question mark.
    assert not is_secret("?", "\ud800")


def test_without_a_secret_nothing_is_a_proof() -> None:
    assert not is_secret("", "")
    assert not is_signature("", "", b"body")
    assert not is_signature(hmac.new(b"", b"body", "sha256").hexdigest(), "", b"body")


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
def test_a_signature(algorithm: str) -> None:
    given = hmac.new(b"key", b"body", getattr(hashlib, algorithm)).hexdigest()
    assert is_signature(given, "key", b"body", algorithm=algorithm)
    assert is_signature(given, b"key", b"body", algorithm=algorithm)
    for wrong in (given.upper(), given[:-1], f"{given}0", "é"):
        assert not is_signature(wrong, "key", b"body", algorithm=algorithm)
    assert not is_signature(given, "key", b"Body", algorithm=algorithm)
