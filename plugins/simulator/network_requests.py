"""Requests of the network to an instance's ``ingestUrl``, proved as Meta's networks prove them."""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from hookgw import IngestRequest, Invalid, ProofRefused, Session
from hookgw.connectors import NetworkEvents, is_signature

from .options import Options


class InboundMessage(msgspec.Struct, rename={"sender": "from"}):
    """One message in a request."""

    id: str
    sender: str
    text: str
    name: str = ""


async def read_messages(session: Session, request: IngestRequest, options: Options) -> list[InboundMessage]:
    """Return the messages of a ``POST``.

    Raises:
        ProofRefused: the signature is missing or wrong.
        Invalid: the body is not what the network sends.
    """
    algorithm, _, signature = request.headers.get("x-hub-signature-256", "").partition("=")
    if algorithm != "sha256" or not is_signature(signature, options.app_secret, request.body):
        raise ProofRefused.of(
            "simulator.proof",
            "x-hub-signature-256 is not the HMAC-SHA256 of the body with the option app_secret.",
        )
    try:
        body = await session.decode_json(request.body, events=("/messages/#",))
        messages = body.get("messages") if isinstance(body, dict) else None
        if not isinstance(messages, NetworkEvents):
            raise ValueError("it has no list `messages`")  # noqa: TRY004
        return await session.in_turns(_converted(messages))
    except ValueError as error:
        raise Invalid.of(
            "simulator.body", "The body is not a request of the simulated network: {error}.", error=error
        ) from None


def _converted(messages: NetworkEvents) -> Generator[None, None, list[InboundMessage]]:
    converted = []
    for message in messages:
        converted.append(msgspec.convert(message, InboundMessage))
        yield
    return converted
