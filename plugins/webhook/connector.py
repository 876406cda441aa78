"""The connector: it listens, and does nothing else."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import trio

from hookgw import (
    ConnectionState,
    IngestRequest,
    IngestResponse,
    Invalid,
    Message,
    NotSupported,
    Session,
    Unavailable,
)
from hookgw.kernel.units import Size
from hookgw.records.events import Catalog

from .body import event_of
from .options import OPTIONS_SCHEMA, Options, read_options
from .proof import check_proof

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

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:  # noqa: ARG002
        """Check the pointers, the proof, and the kind if all events have the same."""
        await trio.lowlevel.checkpoint()
        _checked(options, self.catalog)

    async def run(self, session: Session) -> None:
        """Be open: there is nothing to connect to."""
        try:
            _checked(session.options, session.catalog)
        except Invalid as error:  # the options are older than this version, or the kind is gone
            await session.set_state(ConnectionState.CLOSE, 400, message=str(error))
        else:
            await session.set_state(ConnectionState.OPEN)
        # Also while it is closed: a return would be a logout, and the next start must try again.
        await trio.sleep_forever()

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:  # noqa: ARG002
        """Refuse: there is nobody to send to."""
        await trio.lowlevel.checkpoint()
        raise NotSupported("The connector 'webhook' only receives.")

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Store the event of a request; answer a ``GET`` with a sentence.

        Raises:
            ProofRefused: the sender has not proved itself.
            Invalid: the body makes no event.
            EventLeftOut: the body has too many values.
            Unavailable: the options are wrong, which somebody will correct.
        """
        if request.method == "GET":
            # Some systems look whether the URL answers, before they are willing to store it.
            return IngestResponse(body=_GREETING)
        try:
            options = _checked(session.options, session.catalog)
        except Invalid:
            # Not its text, which is for the owner; and not its 400, after which nobody repeats the request.
            raise Unavailable("The options of the instance are wrong. Retry later.") from None
        check_proof(request, options, time.time())
        size = len(request.body)
        if size > session.max_data:
            raise Invalid(f"The body has {size:,} bytes; the limit is {Size(session.max_data)}.")
        if size > _SHORT:  # a body with very many values would hold up everything else
            with suppress(ValueError):
                await session.decode_json(request.body, events=("",))
        await session.emit_all([event_of(request, options, session.catalog)])
        return IngestResponse()


def _checked(options: dict[str, Any], catalog: Catalog | None) -> Options:
    found = read_options(options)
    if found.kind and catalog is not None:
        try:
            kind = catalog.resolve(found.kind, "kind")
        except Invalid as error:
            raise Invalid(f"{error} A JSON pointer begins with /.") from None
        if kind.operational:
            raise Invalid(f"kind: {kind.name} is an operational event, which only hookgw raises.")
    return found
