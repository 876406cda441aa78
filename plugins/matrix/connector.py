"""The connector: a Matrix account for each instance."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import trio

from hookgw import (
    ConnectionState,
    Invalid,
    LocationMessage,
    MediaMessage,
    MediaSink,
    Message,
    MessageKey,
    NetworkRefused,
    NotFound,
    NotSupported,
    ReactionMessage,
    Sentence,
    Session,
    TextMessage,
)
from hookgw import connectors as kit

from . import outgoing
from .client import Refused
from .connection import Connection, LoggedOut, State
from .options import OPTIONS_SCHEMA, read_options
from .sync import Receiver

LARGEST_FILE = 100 * 2**20
"""Bytes of a file to send."""
TYPING_TIME = 10.0
"""Seconds for which a presence of unknown length is shown."""


class Matrix(kit.NetworkConnector[Connection]):
    """Connects instances to Matrix."""

    name = "matrix"
    message_types = (TextMessage, MediaMessage, LocationMessage, ReactionMessage)
    options_schema = OPTIONS_SCHEMA
    not_connected = Sentence("matrix.not_connected", "The instance is not connected to its homeserver.")

    async def run(self, session: Session) -> None:
        """Log in, then raise events until cancelled, or logged out by the homeserver."""
        await session.set_state(ConnectionState.CONNECTING)
        options = await kit.read_or_close(session, partial(read_options, session.options))
        connection = Connection(session, options, await kit.load_state(session, State))
        with self.connections.joined(session, connection):
            async with trio.open_nursery() as nursery:
                try:
                    await Receiver(connection, nursery).run()
                except LoggedOut as error:
                    await session.set_state(ConnectionState.CLOSE, 401, message=str(error))
                nursery.cancel_scope.cancel()

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        """Send a message to a room, or to a user."""
        connection = self._connected(session)
        if isinstance(message, ReactionMessage):
            return await self._react(connection, message, key)
        if not isinstance(message, TextMessage | LocationMessage | MediaMessage):
            raise NotSupported.of("matrix.not_supported", "Matrix has no such messages.")
        if message.reply_to is not None:
            outgoing.check_id(message.reply_to)
        room = await connection.room_to_write_to(await connection.room_of(message.number))
        if await connection.is_encrypted(room):
            raise outgoing.encrypted_room(room)
        if isinstance(message, MediaMessage):
            file = await kit.file_to_send(message, session, network="Matrix", limit=LARGEST_FILE)
            mimetype, size = file.mimetype, len(file.content)
            address = await connection.client.upload(
                file.content, mimetype=mimetype, file_name=message.file_name
            )
            kind, content = outgoing.event_of(message, address=address, mimetype=mimetype, size=size)
        else:
            kind, content = outgoing.event_of(message)
        return await self._send(connection, room, kind, content, key)

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        connection = self._connected(session)
        outgoing.check_id(key)
        room = await connection.room_of(key.remote_jid or number, "key.remoteJid")
        if await connection.is_encrypted(room):
            raise outgoing.encrypted_room(room)
        content = outgoing.edit_of(key, text)
        await connection.send_event(room, "m.room.message", content, _new_transaction())
        edited = {"remoteJid": room, "fromMe": True, "id": key.id, "participant": connection.user}
        return kit.text_data(edited, text, time.time())

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        """Redact a message: its content is removed for everyone."""
        connection = self._connected(session)
        outgoing.check_id(key)
        room = await connection.room_of(key.remote_jid, "key.remoteJid")
        await connection.redact(room, key.id, _new_transaction())
        author = connection.authors.get(key.id) or (connection.user if key.from_me else key.participant)
        return {
            "remoteJid": room,
            "fromMe": author == connection.user,
            "id": key.id,
            "participant": author,
            "status": "DELETED",
            "deletedBy": connection.user,
            "messageTimestamp": int(time.time()),
        }

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        """Send a read receipt for each message; it covers the messages before it."""
        connection = self._connected(session)
        for key in keys:
            outgoing.check_id(key)
        for key in keys:
            room = await connection.room_of(key.remote_jid, "key.remoteJid")
            await connection.client.post("rooms", room, "receipt", "m.read", key.id, body={})

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        """Show that the account types in a room, or is online."""
        connection = self._connected(session)
        if presence in ("available", "unavailable"):
            connection.presence = "online" if presence == "available" else "offline"
            status = {"presence": connection.presence}
            await connection.client.put("presence", connection.user, "status", body=status)
            return
        if number is None:
            raise Invalid.of(
                "matrix.presence_without_room",
                "presence: {presence} is shown in a room; say in which with number.",
                presence=presence,
            )
        is_typing = presence in ("composing", "recording")
        typing: dict[str, Any] = {"typing": is_typing}
        if is_typing:
            typing["timeout"] = int((delay or TYPING_TIME) * 1000)
        room = await connection.room_to_write_to(await connection.room_of(number))
        await connection.client.put("rooms", room, "typing", connection.user, body=typing)

    async def restart(self, session: Session) -> None:
        """Nothing is to be prepared: the state has the position."""

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Return which users, aliases and rooms exist, as far as the homeserver tells."""
        connection = self._connected(session)
        found = []
        for number in numbers:
            jid = ""
            try:
                if number.startswith("@") and ":" in number:
                    await connection.client.get("profile", number)
                    jid = number
                elif number.startswith(("#", "!")):
                    jid = await connection.room_of(number)
                    await connection.client.get("rooms", jid, "state", "m.room.member", connection.user)
            except Refused as error:
                if error.is_temporary or error.is_logged_out:
                    raise
                jid = ""
            except Invalid:
                jid = ""
            found.append({"number": number, "exists": bool(jid), "jid": jid or number})
        return found

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        connection = self._connected(session)
        try:
            async with connection.client.download(reference) as response:
                await kit.pass_file(response, sink)
        except Refused as error:
            if error.code == "M_NOT_FOUND":
                raise NotFound.of("matrix.no_file", "The homeserver no longer has the file.") from error
            raise

    async def _react(self, connection: Connection, message: ReactionMessage, key: str) -> dict[str, Any]:
        outgoing.check_id(message.key)
        room = await connection.room_of(message.key.remote_jid or message.number, "key.remoteJid")
        kind, content = outgoing.event_of(message)
        if message.reaction:
            # Reactions are not encrypted, also in encrypted rooms.
            return await self._send(connection, room, kind, content, key)
        own = await connection.own_reaction(room, message.key.id)
        if own is None:
            raise Invalid.of("matrix.no_reaction", "The account has not reacted to this message.")
        await connection.redact(room, own, outgoing.transaction_id(key))
        return self._payload(connection, room, kind, content, own)

    async def _send(
        self, connection: Connection, room: str, kind: str, content: dict[str, Any], key: str
    ) -> dict[str, Any]:
        id_ = await connection.send_event(room, kind, content, outgoing.transaction_id(key))
        return self._payload(connection, room, kind, content, id_)

    def _payload(
        self, connection: Connection, room: str, kind: str, content: dict[str, Any], id_: str
    ) -> dict[str, Any]:
        return outgoing.payload_of(
            kind,
            content,
            room=room,
            id_=id_,
            user=connection.user,
            now=time.time(),
            media_url=connection.session.media_url,
        )

    def _connected(self, session: Session) -> Connection:
        connection = self.connections.of(session)
        if not connection.client.token:
            raise NetworkRefused(self.not_connected, status=409)
        return connection


def _new_transaction() -> str:
    return outgoing.transaction_id(secrets.token_hex(16))
