"""Signatures: published vectors, the public libraries, and requests that must not verify."""

import base64
import hmac
import json
import time
from collections.abc import Sequence

import pytest
import standardwebhooks
import svix
from hypothesis import given
from hypothesis import strategies as st

from tests.public.delivery import MOST_SIGNATURES, SignatureInvalid, sign, verify
from tests.public.delivery import SIGNATURE_TOLERANCE as TOLERANCE
from tests.public.kernel import Signature, SigningKey, make_secret, public_key_of, signing_key, verifying_key

KEY = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
BODY = b'{"test": 2432232314}'
MESSAGE_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
NOW = 1614265330.0
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def headers(keys: Sequence[SigningKey], body: bytes = BODY, timestamp: float = NOW) -> dict[str, str]:
    return {
        "webhook-id": MESSAGE_ID,
        "webhook-timestamp": str(int(timestamp)),
        "webhook-signature": sign(keys, MESSAGE_ID, int(timestamp), body),
    }


def test_the_published_vector() -> None:
    """Of the reference libraries' own tests (standard-webhooks/libraries)."""
    assert sign([KEY], MESSAGE_ID, int(NOW), BODY) == SIGNATURE


def test_one_signature_for_each_key_in_their_order() -> None:
    both = sign([b"k" * 24, KEY], MESSAGE_ID, int(NOW), BODY)
    assert both == f"{sign([b'k' * 24], MESSAGE_ID, int(NOW), BODY)} {SIGNATURE}"


@given(st.binary(min_size=24, max_size=64), st.text(max_size=200))
def test_the_public_libraries_verify(key: bytes, text: str) -> None:
    secret, body = "whsec_" + base64.b64encode(key).decode(), json.dumps(text).encode()
    signed = headers([b"o" * 24, key], body, time.time())
    for library in (standardwebhooks.Webhook(secret), svix.Webhook(secret)):
        library.verify(body, signed)


def test_signatures_verify() -> None:
    verify([KEY], headers([KEY]), BODY, now=NOW)
    verify([b"o" * 24, KEY], headers([b"n" * 24, KEY]), BODY, now=NOW)


@pytest.mark.parametrize("away", [TOLERANCE, -TOLERANCE])
def test_the_timestamp_has_a_tolerance(away: float) -> None:
    verify([KEY], headers([KEY]), BODY, now=NOW + away)
    with pytest.raises(SignatureInvalid, match=r"301 s in the (past|future)\."):
        verify([KEY], headers([KEY]), BODY, now=NOW + away * 301 / 300)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"webhook-id": "msg_other"}, "no signature of this body"),
        ({"webhook-id": ""}, "webhook-id is missing"),
        ({"webhook-timestamp": "1614265331"}, "no signature of this body"),
        ({"webhook-timestamp": "now"}, "not a whole number"),
        ({"webhook-timestamp": "-1"}, "not a whole number"),
        ({"webhook-timestamp": "²"}, "not a whole number"),
        ({"webhook-timestamp": "1" * 400}, "not a whole number"),
        ({"webhook-timestamp": ""}, "webhook-timestamp is missing"),
        ({"webhook-signature": ""}, "webhook-signature is missing"),
        ({"webhook-signature": SIGNATURE.removeprefix("v1,")}, "no signature of this body"),
        ({"webhook-signature": "v1a" + SIGNATURE[2:]}, "no signature of this body"),
        ({"webhook-signature": SIGNATURE[:-2] + "A="}, "no signature of this body"),
        ({"webhook-signature": "v1,ünïcode"}, "no signature of this body"),
    ],
)
def test_requests_that_do_not_verify(changed: dict[str, str], reason: str) -> None:
    with pytest.raises(SignatureInvalid, match=reason):
        verify([KEY], headers([KEY]) | changed, BODY, now=NOW)


def test_another_body_or_key_does_not_verify() -> None:
    with pytest.raises(SignatureInvalid):
        verify([KEY], headers([KEY]), BODY + b" ", now=NOW)
    with pytest.raises(SignatureInvalid):
        verify([b"o" * 24], headers([KEY]), BODY, now=NOW)


@given(key=st.binary(max_size=200), content=st.binary(max_size=5000))
def test_the_signature_is_an_hmac_for_keys_of_any_length(key: bytes, content: bytes) -> None:
    expected = hmac.digest(key, b"m.1." + content, "sha256")
    assert sign([key], "m", 1, content) == "v1," + base64.b64encode(expected).decode()


PRIVATE_KEY = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
ASYMMETRIC = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="


def test_the_published_vector_of_ed25519() -> None:
    """Of the reference libraries' own tests (standard-webhooks/libraries)."""
    assert sign([signing_key(PRIVATE_KEY)], MESSAGE_ID, int(NOW), BODY) == ASYMMETRIC
    signed = headers([]) | {"webhook-signature": ASYMMETRIC}
    for key in (PRIVATE_KEY, public_key_of(PRIVATE_KEY)):
        verify([verifying_key(key)], signed, BODY, now=NOW)


def test_both_schemes_in_one_header() -> None:
    both = sign([signing_key(PRIVATE_KEY), KEY], MESSAGE_ID, int(NOW), BODY)
    assert both == f"{ASYMMETRIC} {SIGNATURE}"
    signed = headers([]) | {"webhook-signature": both}
    verify([KEY], signed, BODY, now=NOW)
    verify([verifying_key(public_key_of(PRIVATE_KEY))], signed, BODY, now=NOW)


@pytest.mark.parametrize(
    "signature",
    [
        ASYMMETRIC.replace("v1a,", "v1,"),
        ASYMMETRIC.removeprefix("v1a,"),
        ASYMMETRIC[:-8],
        "v1a,",
        "v1a,é",
        "v1a," + base64.b64encode(bytes(64)).decode(),
        SIGNATURE,
    ],
)
def test_signatures_that_the_public_key_does_not_verify(signature: str) -> None:
    with pytest.raises(SignatureInvalid, match="no signature of this body"):
        verify([verifying_key(PRIVATE_KEY)], headers([]) | {"webhook-signature": signature}, BODY, now=NOW)


@pytest.mark.parametrize(("body", "away"), [(BODY + b" ", 0), (BODY, 1)])
def test_another_body_or_time_does_not_verify_with_the_public_key(body: bytes, away: int) -> None:
    signed = headers([]) | {"webhook-signature": ASYMMETRIC, "webhook-timestamp": str(int(NOW) + away)}
    with pytest.raises(SignatureInvalid):
        verify([verifying_key(PRIVATE_KEY)], signed, body, now=NOW)


def test_the_number_of_signatures_checked_is_limited() -> None:
    for others, fits in ((MOST_SIGNATURES - 1, True), (MOST_SIGNATURES, False)):
        signed = headers([]) | {"webhook-signature": "v1,x " * others + SIGNATURE}
        if fits:
            verify([KEY], signed, BODY, now=NOW)
        else:
            with pytest.raises(SignatureInvalid):
                verify([KEY], signed, BODY, now=NOW)


@given(st.binary(max_size=300))
def test_fresh_keys_sign_and_verify(body: bytes) -> None:
    for signature in Signature:
        secret = make_secret(signature)
        verify([verifying_key(secret)], headers([signing_key(secret)], body), body, now=NOW)
