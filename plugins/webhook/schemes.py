"""How senders sign: one table. No I/O.

A row says which header has the signature, how it is made and written, what is signed, and how old a request
may be. To add a sender, add a row, its request in ``tests/first_party/webhook_schemes.py``, and its section
in docs/networks/webhook.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hookgw import IngestRequest, IngestResponse, Invalid, ProofRefused
from hookgw.connectors import is_secret, is_signature
from hookgw.delivery.signing import MOST_SIGNATURES, SIGNATURE_TOLERANCE, SignatureInvalid, verify
from hookgw.kernel.signing_keys import verifying_key

HEADER = "header:"
"""Stands before the name of a header, where a JSON pointer may stand, too."""

# A time from this on is in milliseconds: in seconds, it is the year 5138.
_MILLISECONDS = 10**11
_PUBLIC_KEY = re.compile("[0-9a-fA-F]{64}", re.ASCII)
_WOOCOMMERCE_PING = re.compile(rb"webhook_id=[0-9]{1,20}")
_PAGSEGURO_CODE = re.compile(
    rb"notificationCode=[0-9A-Fa-f-]{1,64}&notificationType=[A-Za-z]{1,32}"
    rb"|notificationType=[A-Za-z]{1,32}&notificationCode=[0-9A-Fa-f-]{1,64}"
)


def _slack_challenge(body: Any) -> IngestResponse | None:
    if isinstance(body, dict) and body.get("type") == "url_verification":
        challenge = body.get("challenge")
        if isinstance(challenge, str):
            return IngestResponse(body=challenge.encode())
    return None


def _discord_ping(body: Any) -> IngestResponse | None:
    # 1 is the ping of interactions, and an event among webhook events, whose ping is 0.
    if not isinstance(body, dict) or "event" in body or isinstance(body.get("type"), bool):
        return None
    if body.get("type") == 1:
        return IngestResponse(body=b'{"type":1}', content_type="application/json")
    return IngestResponse(status=204) if body.get("type") == 0 else None


def _discord_received(body: Any) -> IngestResponse:
    # 202 says of an interaction that somebody answers it at Discord's API.
    return IngestResponse(status=202 if isinstance(body, dict) and "token" in body else 204)


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """How one sender proves itself, and what else is its own.

    Attributes:
        header: has the signature.
        algorithm: ``hmac-`` and a hash; a hash without a key, where the secret is a part of what is signed;
            or ``ed25519``, where the secret is the public key.
        other_algorithm: that some of the sender's secrets have instead.
        encoding: of the signature, ``hex`` or ``base64``.
        signed: a text with the parts ``{body}``, ``{time}``, ``{secret}``, ``{url}``, ``{fields}`` and
            ``{notification}``.
        prefix: of the signature.
        names: of the time and of the signatures, if the header is a list such as ``t=1,v1=…,v1=…``.
        time: the header that has the time.
        tolerance: how many seconds the time may lie in the past or future; 0 if the sender signs none.
        event_id: where the id of the event is, if the instance has no option ``id``. A repeated request has
            the same one.
        payload: the field of a form that has the event as JSON.
        ping: bodies that are no events, and that the sender does not sign.
        unsigned: bodies that are events, and that the sender does not sign: they only say where to ask.
        challenge: returns the answer to a body that is no event.
        received: returns the answer to an event, from its body.
    """

    header: str
    algorithm: str = "hmac-sha256"
    other_algorithm: str = ""
    encoding: str
    signed: str
    prefix: str = ""
    names: tuple[str, str] | None = None
    time: str = ""
    tolerance: float = 0
    event_id: str = ""
    payload: str = ""
    ping: re.Pattern[bytes] | None = None
    unsigned: re.Pattern[bytes] | None = None
    challenge: Callable[[Any], IngestResponse | None] = lambda _: None
    received: Callable[[Any], IngestResponse] = lambda _: IngestResponse()

    @property
    def signs_fields(self) -> bool:
        """Whether the fields of a form must be known before the proof."""
        return "{fields}" in self.signed

    @property
    def signs_url(self) -> bool:
        return "{url}" in self.signed

    def check_secret(self, secret: str) -> None:
        """Raise ``Invalid`` if a secret cannot be one; the message does not repeat it."""
        if self.algorithm == "ed25519" and not _PUBLIC_KEY.fullmatch(secret):
            raise Invalid.of(
                "inbound.public_key_form",
                "secret must be the public key of the application, 64 hexadecimal digits.",
            )

    def check(
        self,
        request: IngestRequest,
        secret: str,
        *,
        now: float,
        url: str = "",
        fields: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        """Check that the sender signed a request.

        Args:
            request: as it arrived.
            secret: of the instance, checked.
            now: seconds since the epoch.
            url: the instance's ``ingestUrl``.
            fields: of the form in the body; ``None`` if it is none.

        Raises:
            ProofRefused: the signature is missing or wrong, or its time is too far off.
        """
        shown = request.headers.get(self.header, "")
        if not shown:
            if self.unsigned is not None and self.unsigned.fullmatch(request.body):
                return
            raise ProofRefused.of("inbound.signature_missing", "{header} is missing.", header=self.header)
        time, signatures = request.headers.get(self.time, ""), [shown]
        if self.names is not None:
            time, signatures = self._listed(shown)
        if self.tolerance:
            self._check_time(time, now)
        # Twilio signs the URL, and of a body that is no form the hash in it.
        hashed = request.query.get("bodySHA256", "") if self.signs_url and fields is None else None
        if hashed is not None and not is_secret(hashed, hashlib.sha256(request.body).hexdigest()):
            raise ProofRefused.of(
                "inbound.body_hash", "The body is no form, and bodySHA256 of the URL is not its hash."
            )
        parts = {
            "body": request.body,
            "time": _bytes(time),
            "secret": _bytes(secret),
            "notification": _notification(request, time),
            # A name may be there more than once.
            "fields": _bytes("".join(name + value for name, value in sorted(set(fields or ())))),
        }
        for address in _addresses(url, request) if self.signs_url else [""]:
            content = _content(self.signed, {**parts, "url": _bytes(address)})
            if any(self._is_right(signature, secret, content) for signature in signatures):
                return
        raise ProofRefused.of(
            "inbound.signature_wrong",
            "{header} is not the signature of this request with the secret.",
            header=self.header,
        )

    def _listed(self, shown: str) -> tuple[str, list[str]]:
        """Return the time and the signatures of a header that is a list."""
        time_name, signature_name = self.names or ("", "")
        pairs = [pair.strip().partition("=") for pair in shown.split(",", MOST_SIGNATURES)[:MOST_SIGNATURES]]
        times = [value for name, _, value in pairs if name == time_name]
        if len(times) != 1:
            raise ProofRefused.of(
                "inbound.time_repeated",
                "{header} must have {time_name} once.",
                header=self.header,
                time_name=time_name,
            )
        return times[0], [value for name, _, value in pairs if name == signature_name]

    def _check_time(self, text: str, now: float) -> None:
        name = self.time or f"{(self.names or ('',))[0]} in {self.header}"
        # int() takes digits of every script, signs and underscores.
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise ProofRefused.of(
                "inbound.time_not_whole", "{name} is not a whole number of Unix seconds.", name=name
            )
        seconds = int(text) if int(text) < _MILLISECONDS else int(text) / 1000
        age = now - seconds
        if abs(age) > self.tolerance:
            raise ProofRefused.of(
                "inbound.time_off",
                "{name} is {seconds:.0f} s in the {direction}.",
                name=name,
                seconds=abs(age),
                direction="past" if age > 0 else "future",
            )

    def _is_right(self, shown: str, secret: str, content: bytes) -> bool:
        if not shown.startswith(self.prefix):
            return False
        given = shown.removeprefix(self.prefix)
        if self.algorithm == "ed25519":
            return _is_ed25519(given, secret, content)
        if self.algorithm.startswith("hmac-"):
            hashes = [one.removeprefix("hmac-") for one in (self.algorithm, self.other_algorithm) if one]
            return any(
                is_signature(given, secret, content, algorithm=one, encoding=self.encoding) for one in hashes
            )
        return bool(secret) and is_secret(given, hashlib.new(self.algorithm, content).hexdigest())


@dataclass(frozen=True, kw_only=True)
class StandardWebhooks(Scheme):
    """Standard Webhooks, under one of the names of its headers."""

    def check_secret(self, secret: str) -> None:
        """Raise ``Invalid`` if a secret is none of Standard Webhooks."""
        try:
            verifying_key(secret)
        except ValueError:
            raise Invalid.of(
                "inbound.secret_form",
                "secret must be whsec_ and the secret in base64, as the sender shows it.",
            ) from None

    def check(
        self,
        request: IngestRequest,
        secret: str,
        *,
        now: float,
        url: str = "",  # noqa: ARG002
        fields: Sequence[tuple[str, str]] | None = None,  # noqa: ARG002
    ) -> None:
        """Check that the sender signed a request: see :meth:`Scheme.check`."""
        names = self.header.removesuffix("signature")
        headers = {
            name: request.headers.get(names + name.removeprefix("webhook-"), "")
            for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
        }
        try:
            verify([verifying_key(secret)], headers, request.body, now=now, tolerance=self.tolerance)
        except SignatureInvalid as error:
            raise ProofRefused(str(error).replace("webhook-", names)) from None


def _standard_webhooks(name: str) -> Scheme:
    return StandardWebhooks(
        header=f"{name}-signature",
        encoding="base64",
        signed=f"{{{name}-id}}.{{time}}.{{body}}",
        prefix="v1,",
        time=f"{name}-timestamp",
        tolerance=SIGNATURE_TOLERANCE,
        event_id=f"{HEADER}{name}-id",
    )


DEFAULT = "standard-webhooks"

SCHEMES: Mapping[str, Scheme] = {
    DEFAULT: _standard_webhooks("webhook"),
    "svix": _standard_webhooks("svix"),
    "github": Scheme(
        header="x-hub-signature-256",
        encoding="hex",
        signed="{body}",
        prefix="sha256=",
        event_id=f"{HEADER}x-github-delivery",
        payload="payload",
    ),
    "stripe": Scheme(
        header="stripe-signature",
        encoding="hex",
        signed="{time}.{body}",
        names=("t", "v1"),
        tolerance=300,
        event_id="/id",
    ),
    "shopify": Scheme(
        header="x-shopify-hmac-sha256",
        encoding="base64",
        signed="{body}",
        event_id=f"{HEADER}x-shopify-webhook-id",
    ),
    "typeform": Scheme(
        header="typeform-signature",
        encoding="base64",
        signed="{body}",
        prefix="sha256=",
        event_id="/event_id",
    ),
    "calendly": Scheme(
        header="calendly-webhook-signature",
        encoding="hex",
        signed="{time}.{body}",
        names=("t", "v1"),
        tolerance=180,
    ),
    "woocommerce": Scheme(
        header="x-wc-webhook-signature",
        encoding="base64",
        signed="{body}",
        event_id=f"{HEADER}x-wc-webhook-delivery-id",
        ping=_WOOCOMMERCE_PING,
    ),
    "mercadopago": Scheme(
        header="x-signature",
        encoding="hex",
        signed="{notification}",
        names=("ts", "v1"),
        # Nobody says whether a repeated notification is signed again; the first ones come within an hour.
        tolerance=3600,
        event_id="/id",
    ),
    "slack": Scheme(
        header="x-slack-signature",
        encoding="hex",
        signed="v0:{time}:{body}",
        prefix="v0=",
        time="x-slack-request-timestamp",
        tolerance=300,
        event_id="/event_id",
        payload="payload",
        challenge=_slack_challenge,
    ),
    "chatwoot": Scheme(
        header="x-chatwoot-signature",
        encoding="hex",
        signed="{time}.{body}",
        prefix="sha256=",
        time="x-chatwoot-timestamp",
        tolerance=300,
        event_id=f"{HEADER}x-chatwoot-delivery",
    ),
    "discord": Scheme(
        header="x-signature-ed25519",
        algorithm="ed25519",
        encoding="hex",
        signed="{time}{body}",
        time="x-signature-timestamp",
        # Discord repeats a webhook event for 10 minutes.
        tolerance=900,
        event_id="/id",
        challenge=_discord_ping,
        received=_discord_received,
    ),
    "twilio": Scheme(
        header="x-twilio-signature",
        algorithm="hmac-sha1",
        # Of shared keys, which x-twilio-webhooks-signature-settings names.
        other_algorithm="hmac-sha256",
        encoding="base64",
        signed="{url}{fields}",
        event_id=f"{HEADER}i-twilio-idempotency-token",
        # An answer of another type is a warning in Twilio's console, or a message to the person.
        received=lambda _: IngestResponse(body=b"<Response/>", content_type="text/xml"),
    ),
    "pagseguro": Scheme(
        header="x-authenticity-token",
        algorithm="sha256",
        encoding="hex",
        signed="{secret}-{body}",
        event_id="/notificationCode",
        unsigned=_PAGSEGURO_CODE,
    ),
}


def _content(template: str, parts: Mapping[str, bytes]) -> bytes:
    pieces = re.split(r"\{([a-z]+)\}", template)
    return b"".join(
        parts[piece] if index % 2 else piece.encode("ascii") for index, piece in enumerate(pieces)
    )


def _notification(request: IngestRequest, time: str) -> bytes:
    """Return what Mercado Pago signs: what the notification is about, without what is not there."""
    facts = {
        "id": request.query.get("data.id", "").lower(),
        "request-id": request.headers.get("x-request-id", ""),
        "ts": time,
    }
    return _bytes("".join(f"{name}:{value};" for name, value in facts.items() if value))


def _addresses(url: str, request: IngestRequest) -> list[str]:
    """Return the URLs under which a sender may know this request: with the usual port, or without one."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    bare = re.sub(r":[0-9]+$", "", host)
    below = f"/{quote(request.path)}" if request.path else ""
    query = f"?{request.query_string}" if request.query_string else ""
    hosts = dict.fromkeys((host, bare, f"{bare}:{443 if scheme == 'https' else 80}"))
    return [f"{scheme}://{one}/{path}{below}{query}" for one in hosts]


def _is_ed25519(given: str, public_key: str, content: bytes) -> bool:
    # Imported here: it takes 35 ms, and only Discord needs it.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    # fromhex() also takes spaces.
    if not re.fullmatch("[0-9a-f]{128}", given, re.ASCII):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(given), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
