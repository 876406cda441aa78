"""The connector: a bot of Telegram for each instance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
import trio

from hookgw import (
    ConnectionState,
    ContactMessage,
    IngestRequest,
    IngestResponse,
    Invalid,
    LocationMessage,
    MediaMessage,
    MediaSink,
    Message,
    MessageKey,
    NetworkRefused,
    NotSupported,
    ReactionMessage,
    Sentence,
    Session,
    TextMessage,
    Unavailable,
)
from hookgw import connectors as kit
from hookgw.connectors import PRESENCE_WITHOUT_CHAT, mapping

from . import outgoing
from .client import Refused
from .connection import Connection, State, TokenRefused
from .events import SOURCE, chat_of, data_of
from .options import (
    OFFICIAL,
    OPTIONS_SCHEMA,
    Defaults,
    Options,
    check_webhook_url,
    read_defaults,
    read_options,
)
from .outgoing import Target
from .polling import Poller
from .webhook import WebhookKeeper, receive

ACTION_TIME = 4.0
"""Seconds after which a chat action is repeated: apps show one for 5 s."""
_ACTIONS = {"composing": "typing", "recording": "record_voice"}
# What the server says if it could not fetch a file from its URL, or takes no such file that way.
_URL_FAILED = ("http url", "web page content", "upload file by url", "wrong file identifier", "wrong type")


class Telegram(kit.NetworkConnector[Connection]):
    """Connects instances to Telegram."""

    name = "telegram"
    message_types = (TextMessage, MediaMessage, LocationMessage, ContactMessage, ReactionMessage)

    options_schema = OPTIONS_SCHEMA
    default_names = Defaults.__struct_fields__
    not_connected = Sentence("telegram.account_not_connected", "The instance is not connected to Telegram.")

    def check_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of the configuration, with those that it leaves out."""
        return msgspec.structs.asdict(read_defaults(options))

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        """Refuse options with which no update would ever come."""
        self._options_of(options, public_url)
        await trio.lowlevel.checkpoint()

    async def run(self, session: Session) -> None:
        """Receive updates until cancelled, or until the token is refused."""
        read = partial(self._options_of, session.options, session.ingest_url)
        options = await kit.read_or_close(session, read)
        state = await kit.load_state(session, State)
        async with trio.open_nursery() as nursery:
            connection = Connection(session, options, state, nursery)
            # Before the first state, with which requests of Telegram are let in.
            with self.connections.joined(session, connection):
                try:
                    await session.set_state(ConnectionState.CONNECTING)
                    await (WebhookKeeper if options.mode == "webhook" else Poller)(connection).run()
                except TokenRefused as error:
                    await session.set_state(
                        ConnectionState.CLOSE, HTTPStatus.UNAUTHORIZED, message=str(error)
                    )
            nursery.cancel_scope.cancel()

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Store the events of an update that Telegram posts."""
        if (connection := self.connections.get(session)) is None:
            raise Unavailable(self.not_connected)
        return await receive(connection, request)

    async def logout(self, session: Session) -> None:
        """Let Telegram keep the updates, instead of posting them to an instance that is not connected."""
        await self.remove(session)

    async def remove(self, session: Session) -> None:
        """Delete the webhook that :meth:`run` has set."""
        connection = self.connections.get(session)
        if connection is not None and connection.options.mode == "webhook":
            async with connection.changing_webhook:
                connection.is_leaving = True  # whatever the run is about to find out
                await connection.client.call("deleteWebhook")

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:  # noqa: ARG002
        """Send a message to a chat. Telegram cannot detect a repetition, so ``key`` is of no use there."""
        connection = self.connections.of(session)
        if isinstance(message, TextMessage):
            sent = await _call(connection, "sendMessage", outgoing.text_parameters(message))
        elif isinstance(message, MediaMessage):
            sent = await self._send_file(connection, message)
        elif isinstance(message, LocationMessage):
            sent = await _call(connection, *outgoing.location_call(message))
        elif isinstance(message, ContactMessage):
            sent = await _call(connection, "sendContact", outgoing.contact_parameters(message))
        elif isinstance(message, ReactionMessage):
            return await self._react(connection, message)
        else:
            raise NotSupported.of("telegram.not_supported", "Telegram has no such messages.")
        data = _own_message(connection, sent)
        connection.note("sent", data["key"]["remoteJid"], data["key"]["id"])
        return data

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        """Replace the text, or the caption, of a message of the bot."""
        connection = self.connections.of(session)
        target = outgoing.target_of(key.remote_jid or number, "key.remoteJid")
        parameters = {**_chat_parameters(target), "message_id": outgoing.message_id(key)}
        # Before the call: of chats of business accounts, Telegram reports it, perhaps before it answers.
        connection.note("edited", key.remote_jid or number, key.id, text)
        try:
            changed = {**parameters, "text": outgoing.checked_text(text)}
            sent = await _call(connection, "editMessageText", changed)
        except Refused as error:
            if "no text in the message" not in str(error):
                raise
            changed = {**parameters, "caption": outgoing.checked_text(text, "text", outgoing.LONGEST_CAPTION)}
            sent = await _call(connection, "editMessageCaption", changed)
        data = _own_message(connection, sent)
        data["editTimestamp"] = int(time.time())
        return data

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        connection = self.connections.of(session)
        target = outgoing.target_of(key.remote_jid, "key.remoteJid")
        id_ = outgoing.message_id(key)
        if target.connection:
            # Before the call: Telegram reports the deletion, perhaps before it answers.
            connection.note("deleted", key.remote_jid, key.id)
            try:
                await connection.client.call(
                    "deleteBusinessMessages", business_connection_id=target.connection, message_ids=[id_]
                )
            except NetworkRefused:
                connection.note("deleted", key.remote_jid, key.id, is_done=False)
                raise
        else:
            await _call(connection, "deleteMessage", {**_chat_parameters(target), "message_id": id_})
        return {
            "remoteJid": key.remote_jid,
            "fromMe": key.from_me,
            "id": key.id,
            "status": "DELETED",
            "deletedBy": connection.options.bot,
            "messageTimestamp": int(time.time()),
        }

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        """Mark messages of a business account's chats as read. Bots themselves read nothing."""
        connection = self.connections.of(session)
        calls = []
        for key in keys:
            target = outgoing.target_of(key.remote_jid, "key.remoteJid")
            if not target.connection:
                raise NotSupported.of(
                    "telegram.no_read_receipts",
                    "Bots of Telegram send no read receipts. Only messages of a connected business "
                    "account can be marked as read.",
                )
            calls.append({**_chat_parameters(target), "message_id": outgoing.message_id(key)})
        for parameters in calls:
            await connection.client.call("readBusinessMessage", **parameters)

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        """Show in a chat that the bot writes, or records, and repeat that until the delay is over."""
        connection = self.connections.of(session)
        if presence in ("available", "unavailable"):
            raise NotSupported.of(
                "telegram.no_own_presence", "Bots of Telegram are neither online nor offline."
            )
        if number is None:
            raise Invalid(PRESENCE_WITHOUT_CHAT(presence=presence))
        parameters = outgoing.target_of(number).parameters
        action = _ACTIONS.get(presence)
        if action is None:  # "paused": apps show no action for longer than 5 s
            await trio.lowlevel.checkpoint()
            return
        ends_at = trio.current_time() + delay
        while True:
            await _call(connection, "sendChatAction", {**parameters, "action": action})
            if ends_at - trio.current_time() <= ACTION_TIME:
                return
            await trio.sleep(ACTION_TIME)

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Return which chats the bot can write to, as far as Telegram tells."""
        connection = self.connections.of(session)
        found = []
        for wanted in numbers:
            jid = ""
            try:
                target = outgoing.target_of(wanted)
                chat = await connection.client.get("getChat", chat_id=target.chat_id)
                jid = chat_of(mapping(chat), target.connection)
            except Refused as error:
                if error.is_temporary or error.is_unauthorized:
                    raise
            except Invalid:
                pass
            found.append({"number": wanted, "exists": bool(jid), "jid": jid or wanted})
        return found

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        connection = self.connections.of(session)
        async with connection.client.download(reference) as response:
            # Telegram's server says application/octet-stream for most files; the link knows better.
            await kit.pass_file(response, sink, mimetype="")

    async def _send_file(self, connection: Connection, message: MediaMessage) -> Any:
        method, field, parameters = outgoing.media_call(message)
        # Another server than Telegram's own would fetch the file in the operator's network.
        if outgoing.is_sent_by_url(message) and connection.options.base_url.rstrip("/") == OFFICIAL:
            try:
                return await _call(connection, method, {**parameters, field: message.url})
            except Refused as error:
                reason = str(error).lower()
                if error.error_code != HTTPStatus.BAD_REQUEST or not any(
                    one in reason for one in _URL_FAILED
                ):
                    raise
                # Telegram cannot fetch it: hookgw may, and Telegram takes larger files that are uploaded.
        limit = outgoing.LARGEST_FILE
        file = await kit.file_to_send(message, connection.session, network="Telegram", limit=limit)
        if not file.content:
            raise Invalid.of("telegram.media_empty", "media is empty.")
        name = file.name if "." in file.name else f"{file.name}{kit.suffix_of(file.mimetype)}"
        upload = field, (name, file.content, file.mimetype)
        return await _call(connection, method, parameters, upload=upload)

    async def _react(self, connection: Connection, message: ReactionMessage) -> dict[str, Any]:
        target = outgoing.target_of(message.key.remote_jid or message.number, "key.remoteJid")
        if target.connection:
            raise NotSupported.of(
                "telegram.no_business_reactions",
                "Telegram lets bots react in no chat of a business account.",
            )
        id_ = outgoing.message_id(message.key)
        reaction = [{"type": "emoji", "emoji": message.reaction}] if message.reaction else []
        parameters = {**_chat_parameters(target), "message_id": id_, "reaction": reaction}
        await _call(connection, "setMessageReaction", parameters)
        chat = message.key.remote_jid or message.number
        now = time.time()
        # A reaction is no message of its own on Telegram, and has no id.
        key = {"remoteJid": chat, "fromMe": True, "id": f"reaction-{id_}-{int(now * 1000)}"}
        content = kit.sent_content(message, chat)
        return kit.message_data(key, content, now, status="SERVER_ACK", source=SOURCE)

    def _options_of(self, options: dict[str, Any], url: str | None) -> Options:
        found = read_options({**self.defaults, **options})
        if found.mode == "webhook":
            check_webhook_url(url, found.base_url)
        return found


async def _call(
    connection: Connection,
    method: str,
    parameters: dict[str, Any],
    *,
    upload: tuple[str, tuple[str, bytes, str]] | None = None,
) -> Any:
    """Call a method of the Bot API for a chat, or for the supergroup that the chat has become."""
    client = connection.client

    async def call(chat: dict[str, Any]) -> Any:
        if upload is None:
            return await client.call(method, **{**parameters, **chat})
        return await client.upload(method, *upload, **{**parameters, **chat})

    try:
        return await call({})
    except Refused as error:
        # A group that gets public or large becomes a supergroup, with another id. The old one is gone.
        if not error.migrated_to:
            raise
        return await call({"chat_id": int(error.migrated_to)})


def _chat_parameters(target: Target) -> dict[str, Any]:
    """Return the parameters of a call that concerns a message: its topic is known."""
    return {name: value for name, value in target.parameters.items() if name != "message_thread_id"}


def _own_message(connection: Connection, sent: Any) -> dict[str, Any]:
    """Return the payload of a message of the bot, as the server has stored it."""
    message = mapping(sent)
    data = data_of(message, connection.bot)
    if data is None:
        raise NetworkRefused.of(
            "telegram.no_message_id", "The Bot API server did not say which message it stored."
        )
    # In a channel, the channel is the author.
    data["key"]["fromMe"] = True
    return {**data, "status": "SERVER_ACK"}
