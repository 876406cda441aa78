"""The connector: a session of a WAHA server for each instance."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
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
    MediaMessage,
    MediaSink,
    Message,
    MessageKey,
    NewEvent,
    NotFound,
    NotSupported,
    ProofRefused,
    ReactionMessage,
    Sentence,
    Session,
    TextMessage,
    TooLarge,
    Unavailable,
)
from hookgw import connectors as kit
from hookgw.connectors import EMPTY_TEXT, PRESENCE_WITHOUT_CHAT, mapping, text

from . import outgoing
from .client import FILE_TIMEOUT, Refused
from .connection import Connection
from .content import FILE_MESSAGES, file_of, parts_of_link, path_of, url_of
from .events import translate, unknown
from .groups import group_of, groups_in
from .ids import chat_id_of, is_group, jid_of, message_id_of, parse_message_id
from .options import DEFAULTS, LINK_PREVIEWS, OPTIONS_SCHEMA, check_defaults, read_options
from .remote_session import State

logger = structlog.get_logger("hookgw.waha")

LARGEST_FILE = 36 * 2**20
"""Bytes of a file to send: WAHA takes requests of 50 MB, and base64 makes a file a third longer."""
FILE_TIME = 4.0
"""Seconds for a file that goes into its event, and seconds to wait for the file before it."""
_LONGEST_SHOWN_TYPING = 60.0
# What engines do with the author in the id of an own message: these find it only with the author.
_EXACT_ENGINES = frozenset({"WEBJS", "WPP"})


class Waha(kit.NetworkConnector[Connection]):
    """Connects instances to sessions of WAHA servers."""

    name = "waha"
    message_types = (TextMessage, MediaMessage, LocationMessage, ContactMessage, ReactionMessage)

    options_schema = OPTIONS_SCHEMA
    default_names = DEFAULTS
    not_connected = Sentence("waha.not_connected", "The instance is not connected to its WAHA server.")

    def check_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        check_defaults(options)
        return options

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        await trio.lowlevel.checkpoint()
        read_options(options, self.defaults, public_url)

    async def run(self, session: Session) -> None:
        """Keep the session running, with hookgw's webhook, until cancelled or logged out."""
        await session.set_state(ConnectionState.CONNECTING)
        read = partial(read_options, session.options, self.defaults, session.ingest_url)
        options = await kit.read_or_close(session, read)
        state = await kit.load_state(session, State)
        async with trio.open_nursery() as nursery:
            connection = Connection(session, options, state, nursery)
            with self.connections.joined(session, connection):
                await connection.run()

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Raise the event that the server reports."""
        connection = self.connections.get(session)
        if connection is None or not connection.remote.hmac_key:
            raise Unavailable(self.not_connected)
        try:
            check_proof(request, connection.remote.hmac_key)
        except ProofRefused:
            if "x-webhook-hmac" not in request.headers:
                connection.note_request(is_signed=False)
            raise
        connection.note_request(is_signed=True)
        envelope = await kit.read_object(session, request.body)
        if text(envelope.get("session")) != connection.options.session:
            # A global webhook of the server (WHATSAPP_HOOK_URL) has the events of all sessions.
            return IngestResponse(body=b"This instance has another session.")
        if envelope.get("event") == "session.status":
            # Not what the report says: reports overtake each other. The session itself is asked.
            connection.wake()
            return IngestResponse()
        report = text(envelope.get("id")) or hashlib.sha256(request.body).hexdigest()
        account, payload = connection.account(report), mapping(envelope.get("payload"))
        event = translate(envelope, account, request.body)
        if event is not None and session.catalog.get(event.kind) is None:
            event = unknown(envelope, account, request.body)
        if event is None or connection.ignores(event, payload):
            return IngestResponse(body=b"This is no news for hookgw.")
        try:
            if session.wants_base64() and event.kind == "MESSAGES_UPSERT":
                await self._emit_with_file(connection, event, payload)
            else:
                await session.emit_all([event])
        except (Invalid, TooLarge) as error:
            # Too large, or against the schema of its kind: the server would repeat it for half a day in vain.
            logger.warning("event refused", instance=session.instance, kind=event.kind, reason=error.to_log())
            return IngestResponse(body=b"hookgw cannot store this event.")
        connection.answer_event(event, payload)
        return IngestResponse()

    async def _emit_with_file(self, connection: Connection, event: NewEvent, payload: dict[str, Any]) -> None:
        """Raise the event of a message with its file inside; messages stay in order meanwhile."""
        is_next = False
        try:
            # Rather out of order than too late: the server would repeat the request, which takes longer.
            with trio.move_on_after(FILE_TIME):
                await connection.fetching.acquire()
                is_next = True
            if reference := file_of(payload):
                read, seconds = partial(self._read_file, connection, reference), FILE_TIME if is_next else 0
                await kit.attach_file(connection.session, event, read, seconds=seconds, logger=logger)
            elif event.data["messageType"] in FILE_MESSAGES and not url_of(payload):
                reason = "WAHA has not downloaded the file."
                kit.explain_missing_file(event.data, reason, "WHATSAPP_DOWNLOAD_MEDIA")
            await connection.session.emit_all([event])
        finally:
            if is_next:
                connection.fetching.release()

    async def _read_file(self, connection: Connection, reference: str, limit: int) -> bytes:
        path = path_of(reference)
        async with connection.client.download("files", *(path or ())) as response:
            return await kit.read_file(response, limit)

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        connection = self.connections.of(session)
        if isinstance(message, ReactionMessage):
            return await self._react(connection, message, key)
        if not isinstance(message, outgoing.Sendable):
            raise NotSupported.of("waha.not_supported", "WAHA has no such messages.")
        chat = await connection.chat_of(message.number)
        body: dict[str, Any] = {"session": connection.options.session, "chatId": chat}
        if isinstance(message, TextMessage) and not self.defaults.get(LINK_PREVIEWS, True):
            message = msgspec.structs.replace(message, link_preview=False)
        if message.reply_to is not None:
            answered = message.reply_to
            body["reply_to"] = message_id_of(answered, chat, from_me=answered.from_me, where="quoted.key")
        file: kit.FileToSend | None = None
        seconds = 25.0
        if isinstance(message, MediaMessage):
            file = await kit.file_to_send(message, session, network="WAHA", limit=LARGEST_FILE)
            seconds = FILE_TIMEOUT
        path, more = outgoing.request_of(message, file)
        if file is None:
            # WhatsApp shows a message once, however often it is sent with the same id.
            more |= connection.chosen_id(outgoing.new_message_id(f"{session.instance} {key}"))
        try:
            answer = await connection.client.call("POST", path, body={**body, **more}, seconds=seconds)
        except Refused as error:
            if path == "sendSticker" and error.remote_status == 404 and "sendSticker" in error.words:
                raise NotSupported.of(
                    "waha.no_stickers",
                    "This WAHA server has no call for stickers, which came with 2026.8.2.",
                ) from error
            raise
        sent_to, id_ = outgoing.sent_key(answer)
        sent_to, id_ = sent_to or jid_of(chat), id_ or outgoing.new_message_id(f"{session.instance} {key}")
        sent_to = connection.sent.get(id_) or sent_to  # WAHA may have reported the message already
        connection.sent.put(id_, sent_to)
        return outgoing.payload_of(message, chat=sent_to, id_=id_, now=time.time(), file=file)

    async def _react(self, connection: Connection, message: ReactionMessage, key: str) -> dict[str, Any]:
        chat = chat_id_of(message.key.remote_jid or message.number, "key.remoteJid")
        target = self._message_id(connection, message.key, chat, from_me=message.key.from_me)
        body = {"messageId": target, "reaction": message.reaction, "session": connection.options.session}
        with _doing(connection, "reaction", _id_in(target), message.reaction):
            answer = await connection.client.call("PUT", "reaction", body=body)
        _, id_ = outgoing.sent_key(answer)
        id_ = id_ or outgoing.new_message_id(f"{connection.session.instance} {key}")
        return outgoing.payload_of(message, chat=jid_of(chat), id_=id_, now=time.time())

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        connection = self.connections.of(session)
        if not text:
            raise Invalid(EMPTY_TEXT)
        chat = chat_id_of(key.remote_jid or number, "key.remoteJid")
        target = self._message_id(connection, key, chat, from_me=True)
        path = (connection.options.session, "chats", chat, "messages", target)
        with _doing(connection, "edit", _id_in(target), text):
            await connection.client.call("PUT", *path, body={"text": text})
        return kit.text_data(
            {"remoteJid": jid_of(chat), "fromMe": True, "id": _id_in(target)}, text, time.time()
        )

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        connection = self.connections.of(session)
        chat = chat_id_of(key.remote_jid, "key.remoteJid")
        target = self._message_id(connection, key, chat, from_me=key.from_me)
        path = (connection.options.session, "chats", chat, "messages", target)
        await connection.client.call("DELETE", *path)
        deleted = {"remoteJid": jid_of(chat), "fromMe": key.from_me, "id": _id_in(target)}
        if key.participant:
            deleted["participant"] = key.participant
        return {**deleted, "status": "DELETED", "messageTimestamp": int(time.time())}

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        """Mark messages as read: with one call for each author in a chat."""
        connection = self.connections.of(session)
        calls: dict[tuple[str, str], list[str]] = {}
        for key in keys:
            chat = chat_id_of(key.remote_jid, "key.remoteJid")
            author = (
                chat_id_of(key.participant, "key.participant") if key.participant and is_group(chat) else ""
            )
            calls.setdefault((chat, author), []).append(message_id_of(key, chat, from_me=key.from_me))
        for (chat, author), ids in calls.items():
            body: dict[str, Any] = {"session": connection.options.session, "chatId": chat, "messageIds": ids}
            if len(ids) == 1:
                body["messageId"] = ids[0]  # the only field that older versions know
            if author:
                body["participant"] = author
            await connection.client.call("POST", "sendSeen", body=body)

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        """Show that the account types or records in a chat, or is online."""
        connection = self.connections.of(session)
        if presence in ("available", "unavailable"):
            await connection.show_online(presence == "available")
            return
        if number is None:
            raise Invalid(PRESENCE_WITHOUT_CHAT(presence=presence))
        chat = await connection.chat_of(number)
        body = {"session": connection.options.session, "chatId": chat}
        if presence == "recording":
            await connection.set_presence("recording", chat)
        else:
            await connection.client.call(
                "POST", "startTyping" if presence == "composing" else "stopTyping", body=body
            )
        if presence != "paused" and delay:
            # Not waited for: the caller has other work during the delay.
            connection.in_background(connection.stop_typing, chat, min(delay, _LONGEST_SHOWN_TYPING))

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Return which phone numbers and groups exist."""
        connection = self.connections.of(session)
        found = []
        for number in numbers:
            try:
                chat = chat_id_of(number)
            except Invalid:
                found.append({"number": number, "exists": False, "jid": number})
                continue
            if chat.endswith("@c.us"):
                known = await connection.find_number(chat)
            else:
                known = chat if await self._exists(connection, chat) else ""
            found.append({"number": number, "exists": bool(known), "jid": jid_of(known or chat)})
        return found

    async def find_picture(self, session: Session, number: str) -> dict[str, Any]:
        connection = self.connections.of(session)
        chat = await connection.chat_of(number)
        query = {"contactId": chat, "session": connection.options.session}
        answer = mapping(await connection.client.call("GET", "contacts", "profile-picture", query=query))
        return {"wuid": jid_of(chat), "profilePictureUrl": text(answer.get("profilePictureURL")) or None}

    async def list_groups(self, session: Session, *, with_participants: bool) -> list[dict[str, Any]]:
        connection = self.connections.of(session)
        query = None if with_participants else {"exclude": "participants"}
        answer = await connection.client.call("GET", connection.options.session, "groups", query=query)
        groups = (group_of(one, with_participants=with_participants) for one in groups_in(answer))
        return [group for group in groups if group is not None]

    async def find_group(self, session: Session, group: str) -> dict[str, Any]:
        connection = self.connections.of(session)
        chat = chat_id_of(group, "groupJid")
        try:
            answer = await connection.client.call("GET", connection.options.session, "groups", chat)
        except Refused as error:
            if error.remote_status != 404:
                raise
            answer = None
        found = group_of(mapping(answer), with_participants=True)
        if found is None:
            raise NotFound.of("waha.no_group", "WAHA knows no group {chat}.", chat=chat)
        return found

    async def _exists(self, connection: Connection, chat: str) -> bool:
        name = connection.options.session
        kind = {"g.us": "groups", "lid": "lids", "newsletter": "channels"}.get(chat.partition("@")[2])
        if kind is None:
            return False
        try:
            return bool(mapping(await connection.client.call("GET", name, kind, chat)))
        except Refused as error:
            if error.remote_status == 429 or error.remote_status >= 500 or error.is_unauthorized:
                raise
            return False

    async def settings(self, session: Session, settings: InstanceSettings) -> None:
        await trio.lowlevel.checkpoint()
        if (connection := self.connections.get(session)) is not None:
            connection.follow_settings(settings)

    async def restart(self, session: Session) -> None:
        await self.connections.of(session).restart()

    async def logout(self, session: Session) -> None:
        """Log the account out of WhatsApp, and stop the session."""
        await self.connections.of(session).log_out()

    async def remove(self, session: Session) -> None:
        """Take hookgw's webhook out of the session's configuration."""
        await self.connections.of(session).remove_webhook()

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        connection = self.connections.of(session)
        parts = parts_of_link(reference)
        if parts is None:
            raise NotFound.of("waha.link", "The link does not name a file of WAHA.")
        message_id, path = parts
        try:
            await _stream(connection, path, sink)
        except Refused as error:
            if error.remote_status != 404:
                raise
        else:
            return
        # WAHA deletes files after three minutes, unless WHATSAPP_FILES_LIFETIME says otherwise.
        gone = NotFound.of("waha.file_gone", "The WAHA server no longer has the file.")
        again = await connection.fetch_again(message_id)
        if again is None:
            raise gone
        try:
            await _stream(connection, again, sink)
        except Refused as error:
            if error.remote_status == 404:
                raise gone from error
            raise

    def _message_id(self, connection: Connection, key: MessageKey, chat: str, *, from_me: bool) -> str:
        author = connection.me if from_me and connection.engine in _EXACT_ENGINES else ""
        return message_id_of(key, chat, from_me=from_me, author=author)


@contextmanager
def _doing(connection: Connection, *what: str) -> Iterator[None]:
    """Note what a call does: WAHA reports it, too, perhaps before it answers.

    After a failure, the gateway raises no event: a report is news then.
    """
    connection.done.put(what, "")
    try:
        yield
    except BaseException:
        connection.done.put(what, "failed")
        raise


async def _stream(connection: Connection, path: list[str], sink: MediaSink) -> None:
    async with connection.client.download("files", *path) as response:
        await kit.pass_file(response, sink)


def check_proof(request: IngestRequest, key: bytes) -> None:
    """Check that the server sent a request.

    Raises:
        ProofRefused: the proof is missing or wrong.
    """
    algorithm = request.headers.get("x-webhook-hmac-algorithm", "sha512")
    if algorithm.lower() != "sha512":
        raise ProofRefused.of("waha.proof_algorithm", "X-Webhook-Hmac-Algorithm must be sha512.")
    given = request.headers.get("x-webhook-hmac")
    if given is None:
        raise ProofRefused.of(
            "waha.proof_missing", "X-Webhook-Hmac is missing: WAHA does not sign its requests."
        )
    if not kit.is_signature(given.lower(), key, request.body, algorithm="sha512"):
        raise ProofRefused.of(
            "waha.proof_wrong",
            "X-Webhook-Hmac is not the HMAC-SHA512 of the body with the webhook's key.",
        )


def _id_in(message_id: str) -> str:
    parsed = parse_message_id(message_id)
    return parsed.id if parsed is not None else message_id
