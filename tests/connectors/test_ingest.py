"""Requests of the network: only the right proof is taken, and only a JSON object."""

import base64
import hashlib
import hmac

import pytest

from hookgw import IngestRequest, Invalid
from hookgw.connectors import answer_challenge, is_secret, is_signature, read_object
from hookgw.testing import FakeSession


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
    in_base64 = base64.b64encode(bytes.fromhex(given)).decode()
    assert is_signature(in_base64, "key", b"body", algorithm=algorithm, encoding="base64")
    assert not is_signature(given, "key", b"body", algorithm=algorithm, encoding="base64")
    assert not is_signature(in_base64, "key", b"body", algorithm=algorithm)


def test_a_challenge_needs_the_token() -> None:
    def request(query: dict[str, str]) -> IngestRequest:
        return IngestRequest(method="GET", query=query, headers={}, body=b"")

    query = {"hub.mode": "subscribe", "hub.verify_token": "v", "hub.challenge": "1158201444"}
    answer = answer_challenge(request(query), "v")
    assert (answer.status, answer.body) == (200, b"1158201444")
    for wrong in ({"hub.verify_token": "é\ud800"}, {"hub.mode": "unsubscribe"}, {"hub.verify_token": ""}):
        assert answer_challenge(request({**query, **wrong}), "v").status == 403
    assert answer_challenge(request({**query, "hub.verify_token": ""}), "").status == 403
    for odd in ("", "a b", "é", "x" * 2000):
        with pytest.raises(Invalid):
            answer_challenge(request({**query, "hub.challenge": odd}), "v")


async def test_a_body_is_a_json_object() -> None:
    assert await read_object(FakeSession(), b'{"a": "\\ud83d\\ude4f"}') == {"a": "🙏"}
    # Half of a character, and numbers that are too large, are no reason to lose a message.
    body = b'{"a": "x\\ud83d", "b": [1e400]}'
    assert await read_object(FakeSession(), body) == {"a": "x\ufffd", "b": [None]}
    for body in (b"", b"{", b"\xff", b"[" * 100_000, b'{"a":' * 100_000):
        with pytest.raises(Invalid, match=r"^The body .+"):
            await read_object(FakeSession(), body)
    for body in (b"[]", b"null", b"3"):
        with pytest.raises(Invalid, match=r"^The body is not a JSON object\.$"):
            await read_object(FakeSession(), body)
