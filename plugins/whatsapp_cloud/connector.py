"""The connector: a phone number of the Cloud API for each instance."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, get_args

import trio

from hookgw import (
    ConnectionState,
    IngestRequest,
    IngestResponse,
    MediaMessage,
    MediaSink,
    Message,
    MessageKey,
    NetworkRefused,
    NotSupported,
    ProofRefused,
    ReactionMessage,
    Sentence,
    Session,
    Unavailable,
)
from hookgw.connectors import (
    NetworkConnector,
    Unreachable,
    answer_challenge,
    file_to_send,
    pass_file,
    read_or_close,
)

from . import outgoing, webhooks
from .connection import Connection
from .options import DEFAULTS, OPTIONS_SCHEMA, check_defaults, read_options

LARGEST_FILE = 100 * 2**20
"""Bytes of a file to send: Meta's own limit for the largest kind. It has smaller ones for others."""


class WhatsAppCloud(NetworkConnector[Connection]):
    """Connects instances to WhatsApp's Cloud API."""

    name = "whatsapp_cloud"
    message_types = get_args(Message)

    options_schema = OPTIONS_SCHEMA
    default_names = DEFAULTS

    def check_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        check_defaults(options)
        return options

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:  # noqa: ARG002
        """Check that nothing is missing which neither the instance nor the configuration has.

        Raises:
            Invalid: something is.
        """
        read_options(options, self.defaults)
        await trio.lowlevel.checkpoint()

    async def run(self, session: Session) -> None:
        """Check the number, and go on checking it until cancelled."""
        await session.set_state(ConnectionState.CONNECTING)
        options = await read_or_close(session, partial(read_options, session.options, self.defaults))
        async with trio.open_nursery() as nursery:
            connection = Connection(session, options, nursery)
            with self.connections.joined(session, connection):
                nursery.start_soon(connection.mark_received_as_read)
                await connection.watch()

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Answer Meta's challenge, or store what it reports.

        Raises:
            ProofRefused: the signature is missing or wrong.
            Invalid: the body is no JSON object, or the challenge none.
            Unavailable: the instance is not ready.
        """
        connection = self.connections.get(session)
        if connection is None:  # without the options, Meta's proof cannot be checked; it comes again
            raise Unavailable.of(
                "whatsapp_cloud.not_connected", "The instance is not connected, or lacks an option."
            )
        if request.method == "GET":
            return answer_challenge(request, connection.options.verify_token)
        try:
            webhooks.check_proof(request, connection.options.app_secret)
        except ProofRefused as refusal:
            # Meta gives up after seven days. A wrong secret must be found before.
            connection.tell("request of meta refused", reason=str(refusal))
            raise
        await connection.receive(request.body)
        return IngestResponse()

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        """Send a message. Its statuses follow as MESSAGES_UPDATE.

        The Cloud API cannot recognise a repetition. The key comes back in the statuses, so that a caller who
        got no answer can find out whether the message was sent.
        """
        number, where = message.number, "number"
        if isinstance(message, ReactionMessage):
            number, where = message.key.remote_jid or number, "key.remoteJid"
        jid, recipient = outgoing.recipient_of(number, where)
        media_id, file = "", None
        with self._connected(session) as connection:
            if isinstance(message, MediaMessage) and message.content is not None:
                file = await file_to_send(message, session, network="WhatsApp", limit=LARGEST_FILE)
                media_id = await connection.client.upload(file)
            request = outgoing.request_of(message, media_id=media_id, key=key)
            answer = await connection.client.post_message({**recipient, **request})
        payload = outgoing.payload_of(
            message,
            answer,
            jid=jid,
            now=time.time(),
            media_id=media_id,
            file=file,
            media_url=session.media_url,
        )
        if not payload["key"]["id"]:
            raise Unreachable("Meta did not say whether it has taken the message. It may have been sent.")
        return payload

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        """Mark messages as read; each covers the messages before it in its chat."""
        ids = [outgoing.check_id(key.id) for key in keys]
        with self._connected(session) as connection:
            for id_ in ids:
                await connection.mark_read(id_)

    async def set_presence(
        self,
        session: Session,
        presence: str,
        *,
        number: str | None,
        delay: float,  # noqa: ARG002
    ) -> None:
        """Show that the number types, for 25 s or until its next message.

        Raises:
            NotSupported: the Cloud API has no such presence.
            NetworkRefused: no message of the chat is known, and only an answer can be announced.
        """
        if presence not in ("composing", "recording", "paused") or number is None:
            raise NotSupported.of(
                "whatsapp_cloud.only_typing",
                "The Cloud API only shows that somebody types an answer in a chat.",
            )
        chat, _ = outgoing.recipient_of(number)
        with self._connected(session) as connection:
            if presence == "paused":
                await trio.lowlevel.checkpoint()
                return
            newest = connection.newest_in(chat)
            if newest is None:
                raise NetworkRefused(
                    Sentence(
                        "whatsapp_cloud.nothing_to_answer",
                        "WhatsApp shows typing only as the answer to a message, and none has arrived from "
                        "this chat since the instance connected.",
                    ),
                    status=409,
                )
            await connection.mark_read(newest, is_typing=True)

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        with self._connected(session) as connection:
            async with connection.client.download(reference) as (response, mimetype, size):
                mimetype = mimetype or "application/octet-stream"
                await pass_file(response, sink, mimetype=mimetype, size=size)

    @contextmanager
    def _connected(self, session: Session) -> Iterator[Connection]:
        connection = self.connections.of(session)
        try:
            yield connection
        except NetworkRefused as refusal:
            connection.doubt(refusal)
            raise
