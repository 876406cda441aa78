"""The connector: it listens, and does nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from hookgw import (
    ConnectionState,
    IngestRequest,
    IngestResponse,
    Invalid,
    Message,
    NotSupported,
    ProofRefused,
    Session,
    Unavailable,
)
from hookgw.connectors import answer_challenge, is_secret, read_or_close
from hookgw.kernel.units import Size
from hookgw.records.events import Catalog

from .body import event_of, read_body
from .form import fields_of, is_form, json_of
from .options import OPTIONS_SCHEMA, Options, read_options

_SHORT = 16 * 1024
_GREETING = b"Send each event to this URL as a POST with a JSON body.\n"


class Webhook:
    """Turns JSON that other systems post into events.

    Attributes:
        catalog: the known event kinds; ``None`` before the gateway runs.
    """

    name = "webhook"
    message_types: tuple[type, ...] = ()
    options_schema = OPTIONS_SCHEMA

    def __init__(self) -> None:
        self.catalog: Catalog | None = None

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        """Check the pointers, the proof, and the kind if all events have the same."""
        await trio.lowlevel.checkpoint()
        _checked(options, self.catalog, public_url)

    async def run(self, session: Session) -> None:
        """Be open: there is nothing to connect to."""
        # The options may be older than this version, and the kind may be gone.
        read = partial(_checked, session.options, session.catalog, session.ingest_url)
        await read_or_close(session, read)
        await session.set_state(ConnectionState.OPEN)
        await trio.sleep_forever()

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:  # noqa: ARG002
        """Refuse: there is nobody to send to."""
        await trio.lowlevel.checkpoint()
        raise NotSupported.of("inbound.only_receives", "The connector 'webhook' only receives.")

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Store the event of a request, or answer what is none: a ``GET``, a challenge, a ping.

        Raises:
            ProofRefused: the sender has not proved itself.
            Invalid: the body makes no event.
            EventLeftOut: the body has too many values.
            Unavailable: the options are wrong, which somebody will correct.
        """
        if request.method == "GET":
            token = session.options.get("verify_token")
            if token and isinstance(token, str) and "hub.mode" in request.query:
                return answer_challenge(request, token)
            # Some systems look whether the URL answers, before they are willing to store it.
            return IngestResponse(body=_GREETING)
        try:
            options = _checked(session.options, session.catalog, session.ingest_url)
        except Invalid:
            # Not its text, which is for the owner; and not its 400, after which nobody repeats the request.
            raise Unavailable.of(
                "inbound.options_wrong", "The options of the instance are wrong. Retry later."
            ) from None
        scheme = options.scheme
        if scheme.ping is not None and scheme.ping.fullmatch(request.body):
            return IngestResponse()
        size = len(request.body)
        if size > session.max_data:
            raise Invalid.of(
                "inbound.body_too_long",
                "The body has {size:,} bytes; the limit is {limit}.",
                size=size,
                limit=Size(session.max_data),
            )
        fields: Sequence[tuple[str, str]] | None = None
        if scheme.signs_fields and is_form(request):
            fields = await session.in_turns(fields_of(request))
        _check_proof(request, options, session.ingest_url or "", fields)
        if fields is None and is_form(request):
            fields = await session.in_turns(fields_of(request))
        text = request.body if fields is None else json_of(fields, scheme.payload)
        if len(text) > _SHORT:  # a body with very many values would hold up everything else
            with suppress(ValueError):
                await session.decode_json(text, events=("",))
        text, body = read_body(text)
        if (answer := scheme.challenge(body)) is not None:
            return answer
        await session.emit_all([event_of(request, text, body, options, session.catalog)])
        return scheme.received(body)


def _check_proof(
    request: IngestRequest, options: Options, url: str, fields: Sequence[tuple[str, str]] | None
) -> None:
    # With both proofs, both must be right.
    if options.header and not is_secret(request.headers.get(options.header, ""), options.value):
        raise ProofRefused.of(
            "inbound.header_wrong", "The header {header} is missing or wrong.", header=options.header
        )
    if options.secret:
        options.scheme.check(request, options.secret, now=time.time(), url=url, fields=fields)


def _checked(options: dict[str, Any], catalog: Catalog | None, url: str | None) -> Options:
    found = read_options(options)
    if found.scheme.signs_url and not (url or "").startswith("http"):  # it may be a path
        raise Invalid.of(
            "inbound.public_url_missing",
            "scheme needs the setting server.public_url: the sender signs the URL that it calls.",
        )
    for name, given in (("kind", found.kind), ("otherwise", found.otherwise)):
        if given and catalog is not None:
            try:
                kind = catalog.resolve(given, name)
            except Invalid as error:
                if name != "kind":
                    raise
                raise Invalid.of(
                    "inbound.kind_unknown", "{reason} A JSON pointer begins with /.", reason=error
                ) from None
            if kind.operational:
                raise Invalid.of(
                    "inbound.operational_kind",
                    "{name}: {kind} is an operational event, which only hookgw raises.",
                    name=name,
                    kind=kind.name,
                )
    return found
