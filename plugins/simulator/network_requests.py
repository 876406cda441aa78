"""Requests of the network to an instance's ``ingestUrl``, proved as Meta's networks prove them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Generator

import msgspec

from hookgw import IngestRequest, Invalid, NetworkEvents, ProofRefused, Session

from .options import Options


class InboundMessage(msgspec.Struct, rename={"sender": "from"}):
    """One message in a request."""

    id: str
    sender: str
    text: str
    name: str = ""


def answer_challenge(request: IngestRequest, options: Options) -> bytes:
    """Return the challenge of a ``GET``, by which the network verifies that the URL is ours.

    Raises:
        ProofRefused: the verify token is wrong.
    """
    if not _is_same(request.query.get("hub.verify_token", ""), options.verify_token):
        raise ProofRefused("hub.verify_token is not the option verify_token.")
    return request.query.get("hub.challenge", "").encode()


async def read_messages(session: Session, request: IngestRequest, options: Options) -> list[InboundMessage]:
    """Return the messages of a ``POST``.

    Raises:
        ProofRefused: the signature is missing or wrong.
        Invalid: the body is not what the network sends.
    """
    # On the bytes as they came: the same JSON could be written in other bytes. And before they are parsed.
    signature = hmac.new(options.app_secret.encode(), request.body, hashlib.sha256).hexdigest()
    if not _is_same(
        request.headers.get("x-hub-signature-256", ""), options.app_secret and f"sha256={signature}"
    ):
        raise ProofRefused(
            "x-hub-signature-256 is not the HMAC-SHA256 of the body with the option app_secret."
        )
    try:
        body = await session.decode_json(request.body, events=("/messages/#",))
        messages = body.get("messages") if isinstance(body, dict) else None
        if not isinstance(messages, NetworkEvents):
            raise ValueError("it has no list `messages`")  # noqa: TRY004
        return await session.in_turns(_converted(messages))
    except ValueError as error:
        raise Invalid(f"The body is not a request of the simulated network: {error}.") from None


def _converted(messages: NetworkEvents) -> Generator[None, None, list[InboundMessage]]:
    converted = []
    for message in messages:
        converted.append(msgspec.convert(message, InboundMessage))
        yield
    return converted


def _is_same(given: str, wanted: str) -> bool:
    # In constant time: how long a comparison takes must not say how much of a guess is right. Without the
    # secret in the options, nothing is right.
    return bool(wanted) and hmac.compare_digest(given.encode(), wanted.encode())
