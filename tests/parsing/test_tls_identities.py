"""The field ``tls``: what is accepted, and the reason for each refusal."""

from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from hookgw import Invalid
from hookgw.records import tls_identity
from tests.public.kernel import MASK
from tests.public.records import NO_IDENTITY, Catalog, TlsIdentity
from tests.public.webhooks import MAX_PEM, parse_registration, unmask_tls
from tests.support.certificates import certificate_of, pem_of

AUTHORITY = trustme.CA()
CERTIFICATE, KEY = certificate_of(AUTHORITY)
OTHER_CERTIFICATE, OTHER_KEY = certificate_of(AUTHORITY)
PAIR = {"clientCertificate": CERTIFICATE, "clientKey": KEY}
NOT_A_CERTIFICATE = (
    "contains no PEM certificate, which begins with -----BEGIN CERTIFICATE-----, or a damaged one."
)
NOT_A_KEY = "tls.clientKey contains no PEM private key, which begins with -----BEGIN PRIVATE KEY-----."


def pem_key(key: Any, form: PrivateFormat = PrivateFormat.PKCS8, password: bytes = b"") -> str:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    pem: bytes = key.private_bytes(Encoding.PEM, form, encryption)
    return pem.decode()


def check_tls(value: Any, where: str) -> TlsIdentity:
    body = {"url": "https://receiver.internal/", where: value}
    identity: TlsIdentity = parse_registration(body, Catalog([]))[0].tls
    return identity


def problems(value: Any) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        check_tls(value, "tls")
    return caught.value.messages


def test_all_of_it() -> None:
    given = {"ca": pem_of(AUTHORITY), **PAIR, "serverName": "Receiver.Internal."}
    expected = TlsIdentity(pem_of(AUTHORITY), CERTIFICATE, KEY, "receiver.internal")
    assert check_tls(given, "tls") == expected
    snake = {"ca": given["ca"], "client_certificate": CERTIFICATE, "client_key": KEY}
    assert check_tls({**snake, "server_name": "receiver.internal"}, "tls") == expected


@pytest.mark.parametrize("value", [{}, {"ca": None, "clientKey": None}])
def test_an_empty_object_is_no_identity(value: dict[str, Any]) -> None:
    assert check_tls(value, "tls") == NO_IDENTITY


def test_only_certificates_and_the_key_are_kept() -> None:
    noise = "Bag Attributes\n    friendlyName: client\n"
    parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    given = {"clientCertificate": noise + CERTIFICATE, "clientKey": noise + parameters + KEY + CERTIFICATE}
    identity = check_tls(given, "tls")
    assert (identity.client_certificate, identity.client_key) == (CERTIFICATE, KEY)


def test_a_key_that_does_not_end_is_left_before_the_next_line_of_dashes() -> None:
    begun = "-----BEGIN PRIVATE KEY-----\n" * 1000
    assert check_tls({"clientCertificate": CERTIFICATE, "clientKey": begun + KEY}, "tls").client_key == KEY


@pytest.mark.parametrize(
    ("value", "reasons"),
    [
        ("pem", ["tls must be an object, not a string."]),
        ({"ca": 1}, ["tls.ca must be a string, not a number."]),
        ({"ca": ""}, [f"tls.ca must have 1 to {MAX_PEM:,} characters, not 0."]),
        ({"ca": "x" * (MAX_PEM + 1)}, [f"tls.ca must have 1 to {MAX_PEM:,} characters, not 32,769."]),
        ({"ca": "-----BEGIN CERTIFICATE-----\nAAAA\n"}, [f"tls.ca {NOT_A_CERTIFICATE}"]),
        ({"ca": KEY}, ["tls.ca contains a private key: send that in clientKey, and here the certificates."]),
        (
            {"ca": "no", "clientCertificate": "no", "clientKey": "no"},
            [f"tls.ca {NOT_A_CERTIFICATE}", f"tls.clientCertificate {NOT_A_CERTIFICATE}", NOT_A_KEY],
        ),
        (
            {"clientCertificate": CERTIFICATE + KEY},
            ["tls.clientCertificate contains a private key: send that in clientKey, and here"],
        ),
        (
            {"clientCertificate": CERTIFICATE},
            [f"tls.clientCertificate needs its key: send tls.clientKey, or {MASK} for the stored one."],
        ),
        ({"clientKey": KEY}, ["tls.clientKey needs its certificate: send tls.clientCertificate."]),
        ({"clientKey": MASK}, ["tls.clientKey needs its certificate: send tls.clientCertificate."]),
        (
            {"clientCertificate": CERTIFICATE, "clientKey": OTHER_KEY},
            ["tls.clientKey does not fit the first certificate in tls.clientCertificate."],
        ),
        (
            {"serverName": "two words"},
            ["tls.serverName must be a host name or an IP address, as in receiver.example."],
        ),
        ({"cert": CERTIFICATE}, ["tls.cert is not a field of tls."]),
        (
            {"clientCertifcate": CERTIFICATE},
            ["tls.clientCertifcate is not a field of tls. Did you mean clientCertificate?"],
        ),
    ],
)
def test_the_reason_of_a_refusal(value: Any, reasons: list[str]) -> None:
    found = problems(value)
    assert len(found) == len(reasons)
    assert all(problem.startswith(reason) for problem, reason in zip(found, reasons, strict=True)), found


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_an_encrypted_key_is_refused(form: PrivateFormat) -> None:
    key = pem_key(ec.generate_private_key(ec.SECP256R1()), form, b"password")
    (problem,) = problems({**PAIR, "clientKey": key})
    assert problem == (
        "tls.clientKey is encrypted: send it without a password; hookgw encrypts what it stores."
    )


@pytest.mark.parametrize(
    "key",
    [
        pem_key(ed25519.Ed25519PrivateKey.generate()),
        pem_key(rsa.generate_private_key(65537, 2048), PrivateFormat.TraditionalOpenSSL),
        pem_key(ec.generate_private_key(ec.SECP256R1()), PrivateFormat.TraditionalOpenSSL),
        pem_key(dsa.generate_private_key(1024)),
    ],
    ids=["ed25519", "rsa", "ec", "dsa"],
)
def test_a_key_of_another_kind_does_not_fit(key: str) -> None:
    (problem,) = problems({**PAIR, "clientKey": key})
    assert "does not fit" in problem


def test_a_key_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_identity, "MAX_RSA_BITS", 2047)  # making a longer one takes seconds
    key = pem_key(rsa.generate_private_key(65537, 2048))
    (problem,) = problems({**PAIR, "clientKey": key})
    assert problem == "tls.clientKey has 2,048 bits; at most 2,047 are allowed."


@pytest.mark.parametrize("body", ["", "AAAA", "//8="])
def test_a_key_that_cannot_be_read_is_refused(body: str) -> None:
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"
    assert problems({**PAIR, "clientKey": key}) == (
        "tls.clientKey contains a private key that cannot be read.",
    )


def test_a_masked_key_stands_for_the_stored_one() -> None:
    stored = check_tls(PAIR, "tls")
    masked = check_tls({**PAIR, "clientKey": MASK, "serverName": "receiver.internal"}, "tls")
    assert unmask_tls(masked, stored) == TlsIdentity(None, CERTIFICATE, KEY, "receiver.internal")
    assert unmask_tls(stored, NO_IDENTITY) is stored


def test_a_masked_key_without_a_stored_one_that_fits_is_refused() -> None:
    masked = check_tls({**PAIR, "clientKey": MASK}, "tls")
    with pytest.raises(Invalid, match=r"tls\.clientKey is masked, but no key is stored: send it\."):
        unmask_tls(masked, NO_IDENTITY)
    with pytest.raises(Invalid, match="does not fit"):
        unmask_tls(masked, TlsIdentity(None, OTHER_CERTIFICATE, OTHER_KEY))
