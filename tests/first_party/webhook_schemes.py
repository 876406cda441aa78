"""Requests as the senders of plugins/webhook/schemes.py sign them, made without its code.

Each function follows the sender's own description of its signature.
"""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hookgw import IngestRequest
from hookgw.testing import FakeSession
from tests.first_party.runs import CATALOG as CATALOG

URL = "https://hookgw.example/ingest/shop/0123456789abcdef0123456789abcdef"
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}
BODY = json.dumps({"event": "CALL", "id": "evt_1", "event_id": "evt_1", "n": 1}).encode()
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_SEEDS = {"first": bytes(range(32)), "second": bytes(range(1, 33))}


@dataclass(frozen=True)
class Sender:
    """One sender.

    Attributes:
        sign: returns headers, and the query of the URL, of a body.
        secret, other_secret: for the option.
        body: as it sends it.
        tolerance: seconds that its documents, or ours, allow; 0 if it signs no time.
        repeats: whether a repeated request has the same id, although the instance sets no ``id``.
    """

    sign: Callable[[bytes, str, int], tuple[Mapping[str, str], str]]
    tolerance: int
    repeats: bool = True
    secret: str = "shpss_a secret of the shop"
    other_secret: str = "shpss_another secret"
    body: bytes = BODY

    def request(self, at: int, *, secret: str | None = None, body: bytes | None = None) -> IngestRequest:
        """Return a request that the sender signs at a time."""
        raw = self.body if body is None else body
        headers, query = self.sign(raw, self.secret if secret is None else secret, at)
        is_form = self.body != BODY
        return IngestRequest(
            method="POST",
            query=dict(parse_qsl(query)),
            query_string=query,
            headers={**(FORM if is_form else JSON), **headers},
            body=raw,
        )


def _mac(secret: str | bytes, content: bytes, algorithm: str = "sha256") -> bytes:
    key = secret.encode() if isinstance(secret, str) else secret
    return hmac.new(key, content, algorithm).digest()


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _standard(prefix: str) -> Callable[[bytes, str, int], tuple[Mapping[str, str], str]]:
    def sign(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signature = _b64(_mac(key, b"evt_1.%d.%b" % (at, body)))
        headers = {"id": "evt_1", "timestamp": str(at), "signature": f"v1,{signature}"}
        return {f"{prefix}-{name}": value for name, value in headers.items()}, ""

    return sign


def _github(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    headers = {
        "x-hub-signature-256": f"sha256={_mac(secret, body).hex()}",
        "x-github-event": "call",
        "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    }
    return headers, ""


def _stripe(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    signature = _mac(secret, b"%d.%b" % (at, body)).hex()
    return {"stripe-signature": f"t={at},v1={signature},v0={'0' * 64}"}, ""


def _shopify(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    headers = {
        "x-shopify-hmac-sha256": _b64(_mac(secret, body)),
        "x-shopify-topic": "orders/create",
        "x-shopify-webhook-id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
    }
    return headers, ""


def _typeform(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    return {"typeform-signature": f"sha256={_b64(_mac(secret, body))}"}, ""


def _calendly(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    return {"calendly-webhook-signature": f"t={at},v1={_mac(secret, b'%d.%b' % (at, body)).hex()}"}, ""


def _woocommerce(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    headers = {
        "x-wc-webhook-signature": _b64(_mac(secret, body)),
        "x-wc-webhook-topic": "order.created",
        "x-wc-webhook-delivery-id": "e8cdfb2ea7cb53e1b1cdf3bd6a4b7ee1",
    }
    return headers, ""


def _mercadopago(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    # Of the body, only the id is signed, and that is in the URL.
    named = hashlib.sha256(body).hexdigest()[:12].upper()
    manifest = f"id:{named.lower()};request-id:bb56a2f1-6aae-46ac-982e-9dcd3581d08e;ts:{at * 1000};"
    headers = {
        "x-signature": f"ts={at * 1000},v1={_mac(secret, manifest.encode()).hex()}",
        "x-request-id": "bb56a2f1-6aae-46ac-982e-9dcd3581d08e",
    }
    return headers, f"data.id={named}&type=payment"


def _slack(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    signature = _mac(secret, b"v0:%d:%b" % (at, body)).hex()
    return {"x-slack-signature": f"v0={signature}", "x-slack-request-timestamp": str(at)}, ""


def _discord(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    [seed] = [seed for seed in _SEEDS.values() if _public(seed) == secret]
    signature = Ed25519PrivateKey.from_private_bytes(seed).sign(str(at).encode() + body)
    return {"x-signature-ed25519": signature.hex(), "x-signature-timestamp": str(at)}, ""


def _public(seed: bytes) -> str:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw().hex()


def _chatwoot(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    headers = {
        "x-chatwoot-signature": f"sha256={_mac(secret, b'%d.%b' % (at, body)).hex()}",
        "x-chatwoot-timestamp": str(at),
        "x-chatwoot-delivery": "7d2a9a3e-3f0e-4c6b-9a55-1f7a3a1f6c0d",
    }
    return headers, ""


def _twilio(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    fields = sorted(parse_qsl(body.decode(), keep_blank_values=True))
    content = URL + "?from=twilio" + "".join(name + value for name, value in fields)
    headers = {
        "x-twilio-signature": _b64(_mac(secret, content.encode(), "sha1")),
        "i-twilio-idempotency-token": "0d6f1e9b-58ea-4b27-9b3e-b0d9f3a3f2a1",
    }
    return headers, "from=twilio"


def _pagseguro(body: bytes, secret: str, at: int) -> tuple[Mapping[str, str], str]:
    return {"x-authenticity-token": hashlib.sha256(secret.encode() + b"-" + body).hexdigest()}, ""


SENDERS = {
    "standard-webhooks": Sender(
        _standard("webhook"), 300, secret=STANDARD_SECRET, other_secret="whsec_" + _b64(b"x" * 32)
    ),
    "svix": Sender(_standard("svix"), 300, secret=STANDARD_SECRET, other_secret="whsec_" + _b64(b"x" * 32)),
    "github": Sender(_github, 0),
    "stripe": Sender(_stripe, 300, secret="whsec_it is no base64"),
    "shopify": Sender(_shopify, 0),
    "typeform": Sender(_typeform, 0),
    "calendly": Sender(_calendly, 180, repeats=False),
    "woocommerce": Sender(_woocommerce, 0),
    "mercadopago": Sender(_mercadopago, 3600),
    "slack": Sender(_slack, 300),
    "chatwoot": Sender(_chatwoot, 300),
    "discord": Sender(_discord, 900, secret=_public(_SEEDS["first"]), other_secret=_public(_SEEDS["second"])),
    "twilio": Sender(
        _twilio, 0, body=b"event=CALL&From=%2B5511988887777&Body=Bom+dia%21&NumMedia=0&Body=2&Empty="
    ),
    "pagseguro": Sender(_pagseguro, 0, repeats=False),
}


class SchemeSession(FakeSession):
    """Has the URL for which the requests are signed."""

    @property
    def ingest_url(self) -> str | None:
        return URL


def session_of(scheme: str, **options: Any) -> FakeSession:
    """Return the session of an instance with a scheme and its secret."""
    given = {"scheme": scheme, "kind": "/event", "secret": SENDERS[scheme].secret, **options}
    return SchemeSession(options=given, catalog=CATALOG)


def with_headers(request: IngestRequest, **changed: str) -> IngestRequest:
    """Return a request with other headers; an empty one is left out."""
    headers = {**request.headers, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return msgspec.structs.replace(request, headers={name: value for name, value in headers.items() if value})


def signed(name: str, body: Any, **headers: str) -> IngestRequest:
    """Return a request of a sender, signed now, with more headers."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return with_headers(SENDERS[name].request(int(time.time()), body=raw), **headers)
