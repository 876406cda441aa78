"""The connector: a device of a GOWA server for each instance."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
import trio

from hookgw import (
    ConnectionState,
    ContactMessage,
    IngestRequest,
    IngestResponse,
    InstanceSettings,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    MediaSink,
    Message,
    MessageKey,
    NetworkRefused,
    NewEvent,
    NotFound,
    NotSupported,
    ProofRefused,
    ReactionMessage,
    Sentence,
    Session,
    TextMessage,
    Unavailable,
)
from hookgw.connectors import (
    EMPTY_TEXT,
    PRESENCE_WITHOUT_CHAT,
    FileToSend,
    NetworkConnector,
    attach_file,
    emit_valid,
    file_to_send,
    filled,
    guess_mimetype,
    is_signature,
    load_state,
    message_data,
    pass_file,
    read_file,
    read_object,
    read_or_close,
    sent_content,
    text,
    text_data,
    whatsapp_chat_of,
    whatsapp_number_of,
)

from .client import FILE_TIMEOUT, Refused
from .connection import Connection, State
from .content import parts_of_link
from .events import Account, translate, unknown
from .options import DEFAULTS, OPTIONS_SCHEMA, check_defaults, read_options

logger = structlog.get_logger("hookgw.gowa")

LARGEST_FILE = 100_000_000
"""Bytes of a file to send: GOWA's own limit for the largest kind. It has smaller ones for others."""
FILE_TIME = 4.0
"""Seconds for a file that goes into its event: GOWA waits ten for an answer."""
_LONGEST_SHOWN_TYPING = 60.0


class Gowa(NetworkConnector[Connection]):
    """Connects instances to devices of GOWA servers."""

    name = "gowa"
    message_types = (TextMessage, MediaMessage, LocationMessage, ContactMessage, ReactionMessage)

    options_schema = OPTIONS_SCHEMA
    default_names = DEFAULTS
    not_connected = Sentence("gowa.not_connected", "The instance is not connected to its GOWA server.")

    def check_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        check_defaults(options)
        return options

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        await trio.lowlevel.checkpoint()
        read_options(options, self.defaults, public_url)

    async def run(self, session: Session) -> None:
        """Keep the device, with hookgw's webhook, until cancelled or logged out."""
        await session.set_state(ConnectionState.CONNECTING)
        given, url = {"device": session.instance, **session.options}, session.ingest_url
        options = await read_or_close(session, partial(read_options, given, self.defaults, url))
        state = await load_state(session, State)
        async with trio.open_nursery() as nursery:
            connection = Connection(session, options, state, nursery)
            with self.connections.joined(session, connection):
                await connection.run()

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Raise the events that the server reports."""
        connection = self.connections.get(session)
        if connection is None or not connection.state.secret:
            raise Unavailable(self.not_connected)
        proof = request.headers.get("x-hub-signature-256", "")
        if not is_signature(proof.removeprefix("sha256="), connection.state.secret, request.body):
            raise ProofRefused.of(
                "gowa.proof",
                "X-Hub-Signature-256 is not the HMAC-SHA256 of the body with the device's secret.",
            )
        envelope = await read_object(session, request.body)
        if text(envelope.get("session_id")) not in ("", connection.options.device):
            return IngestResponse(body=b"This instance has another device.")
        account = Account(media_url=session.media_url, report=hashlib.sha256(request.body).hexdigest())
        events = translate(envelope, account, request.body)
        if any(session.catalog.get(event.kind) is None for event in events):
            events = [unknown(envelope, account, request.body)]
        events = [event for event in events if not connection.ignores(event, envelope)]
        if not events:
            return IngestResponse(body=b"This is no news for hookgw.")
        if session.wants_base64() and (reference := _file_in(events[0])):
            read = partial(self._read_file, connection, reference)
            await attach_file(session, events[0], read, seconds=FILE_TIME, logger=logger)
        # What breaks a rule would come four times again, in vain.
        await emit_valid(session, events, logger=logger)
        for event in events:
            connection.answer_event(event)
        return IngestResponse()

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        del key  # GOWA cannot be told the id of a message
        connection = self.connections.of(session)
        number, where = message.number, "number"
        if isinstance(message, ReactionMessage):
            number, where = message.key.remote_jid or number, "key.remoteJid"
        chat = whatsapp_chat_of(number, where)
        path, body = _request_of(message)
        body["phone"] = chat
        if message.reply_to is not None:
            body["reply_message_id"] = message.reply_to.id
        file: FileToSend | None = None
        request: dict[str, Any] = {"body": body}
        if isinstance(message, MediaMessage):
            file = await file_to_send(message, session, network="GOWA", limit=LARGEST_FILE)
            form = {_field_of(message): (file.name, file.content, file.mimetype)}
            request = {"data": body, "files": form, "seconds": FILE_TIMEOUT}
        answer = await connection.call("POST", *path, **request)
        sent_key = {"remoteJid": chat, "fromMe": True, "id": text(answer.get("message_id"))}
        if not sent_key["id"]:
            raise NetworkRefused.of("gowa.no_sent_message", "GOWA did not say which message it has sent.")
        answered = message.reply_to.id if message.reply_to is not None else ""
        context = filled(stanzaId=answered, mentionedJid=body.get("mentions"))
        content, more = sent_content(message, chat, file=file), {"status": "SERVER_ACK", "source": "web"}
        return message_data(sent_key, content, time.time(), context=context, **more)

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        connection = self.connections.of(session)
        chat = whatsapp_chat_of(key.remote_jid or number, "key.remoteJid")
        if not text:
            raise Invalid(EMPTY_TEXT)
        body = {"phone": chat, "message": text}
        await connection.call("POST", "message", key.id, "update", body=body)
        return text_data({"remoteJid": chat, "fromMe": True, "id": key.id}, text, time.time())

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        connection, chat = self.connections.of(session), whatsapp_chat_of(key.remote_jid, "key.remoteJid")
        await connection.call("POST", "message", key.id, "revoke", body={"phone": chat})
        deleted = filled(remoteJid=chat, id=key.id, participant=key.participant)
        return {**deleted, "fromMe": key.from_me, "status": "DELETED", "messageTimestamp": int(time.time())}

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        """Mark messages as read, one after the other."""
        connection = self.connections.of(session)
        for key in keys:
            body = {"phone": whatsapp_chat_of(key.remote_jid, "key.remoteJid")}
            await connection.call("POST", "message", key.id, "read", body=body)

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        """Show that the account types in a chat, or is online."""
        connection = self.connections.of(session)
        if presence in ("available", "unavailable"):
            await connection.show_online(presence == "available")
            return
        if number is None:
            raise Invalid(PRESENCE_WITHOUT_CHAT(presence=presence))
        # GOWA cannot show that the account records.
        body = {"phone": whatsapp_chat_of(number), "action": "stop" if presence == "paused" else "start"}
        await connection.call("POST", "send", "chat-presence", body=body)
        if presence != "paused" and delay:
            # Not waited for: the caller has other work during the delay.
            connection.in_background(
                _stop_typing, connection, body["phone"], min(delay, _LONGEST_SHOWN_TYPING)
            )

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Return which phone numbers are on WhatsApp. GOWA does not look up groups and hidden ids."""
        connection, found = self.connections.of(session), []
        for number in numbers:
            jid, exists = "", False
            with suppress(Invalid):
                jid = whatsapp_chat_of(number)
            if jid.endswith("@s.whatsapp.net"):
                answer = await connection.call("GET", "user", "check", query={"phone": jid.partition("@")[0]})
                exists = answer.get("is_on_whatsapp") is True
            found.append({"number": number, "exists": exists, "jid": jid or number})
        return found

    async def settings(self, session: Session, settings: InstanceSettings) -> None:
        await trio.lowlevel.checkpoint()
        connection = self.connections.get(session)
        if connection is not None:
            connection.follow_settings(settings)

    async def restart(self, session: Session) -> None:
        """Connect the account to WhatsApp again."""
        await self.connections.of(session).restart()

    async def logout(self, session: Session) -> None:
        """Log the account out of WhatsApp."""
        await self.connections.of(session).log_out()

    async def remove(self, session: Session) -> None:
        """Take hookgw's webhook out of the device."""
        await self.connections.of(session).remove_webhook()

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        connection = self.connections.of(session)
        path, mimetype = await self._path_of(connection, reference)
        async with connection.client.download(path) as response:
            await pass_file(response, sink, mimetype=mimetype)

    async def _read_file(self, connection: Connection, reference: str, limit: int) -> bytes:
        path, _ = await self._path_of(connection, reference)
        async with connection.client.download(path) as response:
            return await read_file(response, limit)

    async def _path_of(self, connection: Connection, reference: str) -> tuple[str, str | None]:
        """Let the server fetch the file of a message from WhatsApp; return where it has it, and its type."""
        parts = parts_of_link(reference)
        if parts is None:
            raise NotFound.of("gowa.link", "The link does not name a file of GOWA.")
        chat, id_ = parts
        try:
            answer = await connection.call(
                "GET", "message", id_, "download", query={"phone": chat}, seconds=FILE_TIMEOUT
            )
        except Refused as error:
            if error.remote_status in (404, 500) and not error.is_logged_out:
                raise NotFound.of(
                    "gowa.no_file", "The GOWA server does not have the file. {error}", error=error
                ) from error
            raise
        path = text(answer.get("file_path"))
        return path, guess_mimetype(path)


def _request_of(message: Message) -> tuple[list[str], dict[str, Any]]:
    """Return the path of a call for a message, and its body, without chat, file and the answered message.

    Raises:
        Invalid: a number in it is none.
        NotSupported: GOWA has no such message.
    """
    match message:
        case TextMessage():
            mentions = [whatsapp_chat_of(mention, "mentioned") for mention in message.mentions]
            return ["send", "message"], {"message": message.text, **filled(mentions=mentions)}
        case LocationMessage():
            return ["send", "location"], {
                "latitude": str(message.latitude),
                "longitude": str(message.longitude),
            }
        case ContactMessage(contacts=[contact]):
            number = whatsapp_number_of(contact.phone_number, "contact.phoneNumber")
            return ["send", "contact"], {"contact_name": contact.full_name, "contact_phone": number}
        case ContactMessage():
            raise NotSupported.of("gowa.one_contact", "GOWA sends one contact at a time.")
        case ReactionMessage():
            return ["message", message.key.id, "reaction"], {"emoji": message.reaction}
        case MediaMessage():
            more = filled(caption=message.caption, ptt="true" if message.is_voice else "")
            return ["send", _field_of(message)], more
    raise NotSupported.of("gowa.not_supported", "GOWA has no such messages.")


def _file_in(event: NewEvent) -> str:
    """Return what identifies the file of a message; empty if it has none."""
    if event.kind != "MESSAGES_UPSERT" or event.data["messageType"] not in _WITH_FILE:
        return ""
    return f"{event.data['key']['remoteJid']} {event.data['key']['id']}"


_WITH_FILE = frozenset(
    {"imageMessage", "videoMessage", "ptvMessage", "audioMessage", "documentMessage", "stickerMessage"}
)


async def _stop_typing(connection: Connection, chat: str, delay: float) -> None:
    await trio.sleep(delay)
    body = {"phone": chat, "action": "stop"}
    await connection.client.call("POST", "send", "chat-presence", body=body)


def _field_of(message: MediaMessage) -> str:
    """Return the field of a file, which is also the name of its call."""
    return "file" if message.kind is MediaKind.DOCUMENT else message.kind.value
