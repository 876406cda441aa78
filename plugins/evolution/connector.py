"""The connector: an instance of an Evolution API server for each instance of hookgw."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

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
    MessageQuery,
    NetworkRefused,
    NotFound,
    NotSupported,
    ProofRefused,
    ReactionMessage,
    Sentence,
    Session,
    TemplateMessage,
    TextMessage,
    Unavailable,
)
from hookgw import connectors as kit
from hookgw.connectors import found_at, items
from hookgw.connectors import text as text_of

from .client import Client, Refused
from .connection import Connection
from .media import file_of, reference_of, send_file, with_link
from .messages import found_messages
from .options import OPTIONS_SCHEMA, Defaults, read_defaults, read_options
from .outgoing import key_of, recipient_of, request_of
from .receiving import Receiver
from .state import State
from .webhook import PROOF

_CLOSING_TIME = 2.0
"""Seconds for which a logout waits for Evolution API's own report of it."""
LARGEST_FILE = 64 * 2**20
"""Bytes of a file to send: Evolution API takes 136 MiB of JSON, and base64 takes a third more."""
_BAD_REQUEST, _NOT_FOUND = 400, 404
PICTURE = ("wuid", "profilePictureUrl")

logger = structlog.get_logger("hookgw.evolution")


class Evolution(kit.NetworkConnector[Receiver]):
    """Connects instances to the accounts in Evolution API."""

    name = "evolution"
    message_types = (
        TextMessage,
        MediaMessage,
        LocationMessage,
        ContactMessage,
        ReactionMessage,
        TemplateMessage,
    )
    options_schema = OPTIONS_SCHEMA
    default_names = Defaults.__struct_fields__
    not_connected = Sentence("evolution.not_connected", "The instance is not connected to Evolution API.")

    def check_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        read_defaults(options)
        return options

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Set the options that an instance does not set itself; an instance's own stay without defaults."""
        self.defaults = defaults

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        await trio.lowlevel.checkpoint()
        # The name matters only as the default of remote.
        read_options(options, read_defaults(self.defaults), "", public_url)

    async def run(self, session: Session) -> None:
        """Keep the webhook in Evolution API set, and the state known, until cancelled.

        It never returns: also after the account was logged out, Evolution API has events to tell, and drops
        them if hookgw does not take them.
        """
        state = await kit.load_state(session, State)
        state.secret = state.secret or secrets.token_urlsafe(32)
        connection = Connection(session, state)
        receiver = Receiver(connection)
        with self.connections.joined(session, receiver):
            # From here on, `ingest` is called.
            await connection.report(ConnectionState.CONNECTING)
            try:
                defaults, url = read_defaults(self.defaults), session.ingest_url
                options = read_options(session.options, defaults, session.instance, url)
            except Invalid as error:
                await connection.report(ConnectionState.CLOSE, _BAD_REQUEST, message=str(error))
                await trio.sleep_forever()
            else:
                await connection.run(options, receiver.missed)

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Turn a webhook of Evolution API into events.

        Evolution API repeats a request for some minutes, except after 400, 401, 403, 404 and 422, after which
        it drops the event for good. What hookgw will never take is acknowledged, with a line in the log.

        Raises:
            ProofRefused: the header that hookgw has set in the webhook is missing or wrong.
            Unavailable: the connector is about to start, or hookgw cannot store events now.
        """
        receiver = self.connections.get(session)
        if receiver is None:
            raise Unavailable.of("evolution.starting", "The connector is about to start. Retry later.")
        if not kit.is_secret(request.headers.get(PROOF, ""), receiver.connection.state.secret):
            raise ProofRefused.of(
                "evolution.proof",
                "The header {proof} is missing or has the wrong value. Evolution API must send the value "
                "that hookgw has set.",
                proof=PROOF,
            )
        if request.method != "POST":
            raise NotSupported.of("evolution.post_only", "Evolution API sends its events with POST.")
        try:
            await receiver.take(request.body, request.path)
        except ValueError:
            # A part may be missing: not 400, after which Evolution API would not send the whole.
            return IngestResponse(status=408, body=b"The body is not JSON. Send it again.")
        return IngestResponse()

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:  # noqa: ARG002
        """Send a message. Evolution API knows no key of a repeated send."""
        client = self._connected(session)
        if (
            isinstance(message, MediaMessage)
            and message.url
            and not read_defaults(self.defaults).forward_urls
        ):
            message = await self._fetched(session, message)
        elif isinstance(message, TextMessage) and not read_defaults(self.defaults).link_previews:
            message = msgspec.structs.replace(message, link_preview=False)
        path, body = request_of(message)
        sent = await client.call("POST", path, body)
        if not isinstance(found_at(sent, "key", "id"), str):
            raise NetworkRefused.of(
                "evolution.no_sent_message", "Evolution API did not say which message it has sent."
            )
        sent.setdefault("message", {})
        sent.setdefault("status", "PENDING")
        if type(sent.get("messageTimestamp")) is not int:
            sent["messageTimestamp"] = int(time.time())
        # As in Evolution API's own report of the message: both are one event.
        options, content = self.connections.of(session).connection.options, file_of(sent)
        if content is not None and options is not None and options.media_links:
            return cast("dict[str, Any]", with_link(sent, content, session))
        return cast("dict[str, Any]", sent)

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        client = self._connected(session)
        body = {
            "number": recipient_of(key.remote_jid or number, "key.remoteJid"),
            "key": key_of(key),
            "text": text,
        }
        await client.call("POST", "chat/updateMessage", body)
        data = kit.text_data(key_of(key), text, time.time())
        return {**data, "editedMessage": data["message"]}  # where Evolution API's own MESSAGES_EDITED has it

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        await self._connected(session).call("DELETE", "chat/deleteMessageForEveryone", key_of(key))
        return {**key_of(key), "status": "DELETED"}

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        read = [{"remoteJid": key.remote_jid, "fromMe": key.from_me, "id": key.id} for key in keys]
        await self._connected(session).call("POST", "chat/markMessageAsRead", {"readMessages": read})

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        client = self._connected(session)
        if number is None:
            await client.call("POST", "instance/setPresence", {"presence": presence})
            return
        body = {"number": recipient_of(number), "presence": presence, "delay": int(delay * 1000)}
        # It answers when the presence has ended.
        await client.call("POST", "chat/sendPresence", body, seconds=kit.REQUEST_TIMEOUT + delay)

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        client = self._connected(session)
        known: dict[str, str] = {}
        for number in numbers:
            with suppress(Invalid):
                known[number] = recipient_of(number)
        if not known:
            return [{"number": number, "exists": False, "jid": number} for number in numbers]
        asked = {"numbers": list(dict.fromkeys(known.values()))}
        answer = await client.call("POST", "chat/whatsappNumbers", asked)
        # It sorts groups before people.
        found = {one["number"]: one for one in items(answer) if isinstance(one.get("number"), str)}
        result = []
        for number in numbers:
            one = found.get(known.get(number, ""), {})
            exists = one.get("exists") is True
            result.append({"number": number, "exists": exists, "jid": text_of(one.get("jid")) or number})
        return result

    async def find_picture(self, session: Session, number: str) -> dict[str, Any]:
        asked = {"number": recipient_of(number)}
        answer = await self._connected(session).call("POST", "chat/fetchProfilePictureUrl", asked)
        wuid, url = (answer.get(name) for name in PICTURE) if isinstance(answer, dict) else (None, None)
        return {
            "wuid": wuid if isinstance(wuid, str) else number,
            "profilePictureUrl": url if isinstance(url, str) else None,
        }

    async def find_messages(self, session: Session, query: MessageQuery) -> dict[str, Any]:
        """Return what Evolution API has stored."""
        return await found_messages(self._connected(session), query)

    async def list_groups(self, session: Session, *, with_participants: bool) -> list[dict[str, Any]]:
        """Return the groups of the account, as Evolution API shows them."""
        query = f"?getParticipants={str(with_participants).lower()}"
        answer = await self._connected(session).list("GET", "group/fetchAllGroups", query=query)
        return [one for one in answer if isinstance(one, dict) and isinstance(one.get("id"), str)]

    async def find_group(self, session: Session, group: str) -> dict[str, Any]:
        client, query = (
            self._connected(session),
            f"?groupJid={quote(recipient_of(group, 'groupJid'), safe='')}",
        )
        try:
            answer = await client.call("GET", "group/findGroupInfos", query=query)
        except Refused as error:
            if error.remote_status != _NOT_FOUND or error.is_missing:
                raise
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), str):
            raise NotFound.of("evolution.no_group", "Evolution API knows no group {group}.", group=group)
        return answer

    async def media_reference(self, session: Session, key: MessageKey) -> str | None:
        """Return the reference of the file of a message: without ``media_links``, no event has a link."""
        del session
        await trio.lowlevel.checkpoint()
        return reference_of(key.remote_jid, key.id, from_me=key.from_me)

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        try:
            await send_file(self._connected(session), reference, sink)
        except Refused as error:
            if error.remote_status == _BAD_REQUEST:
                raise NotFound.of(
                    "evolution.no_file", "Evolution API does not have the file: {error}", error=error
                ) from error
            raise

    async def settings(self, session: Session, settings: InstanceSettings) -> None:
        if (receiver := self.connections.get(session)) is not None:
            await receiver.connection.forward_settings(settings)

    async def restart(self, session: Session) -> None:
        """Restart the connection of the account in Evolution API."""
        client = self._connected(session)
        try:
            try:
                await client.call("POST", "instance/restart")
            except Refused as error:
                # Versions before 2.2 have PUT.
                if error.remote_status != _NOT_FOUND or error.is_missing:
                    raise
                await client.call("PUT", "instance/restart")
        except Refused as error:
            if error.remote_status != _BAD_REQUEST:  # it has no connection: the next run asks for one
                raise

    async def logout(self, session: Session) -> None:
        """Log the account out of WhatsApp, and give the webhook back."""
        client, connection = self._connected(session), self.connections.of(session).connection
        try:
            await client.call("DELETE", "instance/logout")
        except Refused as error:
            if error.remote_status != _BAD_REQUEST:  # it is logged out already
                raise
        else:
            # Its last events are this connection's, too.
            with trio.move_on_after(_CLOSING_TIME):
                await connection.closed.wait()
        # Nobody takes events from now on. Clients that delete the instance next would never give it back.
        await connection.release()

    async def remove(self, session: Session) -> None:
        """Give the webhook back to the receiver that had it before hookgw."""
        if (receiver := self.connections.get(session)) is not None:
            await receiver.connection.release()

    async def _fetched(self, session: Session, message: MediaMessage) -> MediaMessage:
        file = await kit.file_to_send(message, session, network="Evolution API", limit=LARGEST_FILE)
        guessed = kit.guess_mimetype((message.url or "").partition("?")[0])
        mimetype = message.mimetype or guessed or file.mimetype
        return msgspec.structs.replace(
            message, url=None, content=file.content, mimetype=mimetype, file_name=file.name
        )

    def _connected(self, session: Session) -> Client:
        client = self.connections.of(session).connection.client
        if client is None:
            raise NetworkRefused(self.not_connected, status=HTTPStatus.CONFLICT)
        return client
