"""The connector: an instance of an Evolution API server for each instance of hookgw."""

from __future__ import annotations

import hmac
import mimetypes
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx
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
    Session,
    TemplateMessage,
    TextMessage,
    Unavailable,
)

from .client import REQUEST_TIMEOUT, Client, Refused
from .connection import Connection
from .media import reference_of, send_file
from .messages import found_messages
from .options import OPTIONS_SCHEMA, Defaults, read_options
from .outgoing import key_of, recipient_of, request_of
from .receiving import Receiver
from .state import read_state
from .webhook import PROOF

_CLOSING_TIME = 2.0
"""Seconds for which a logout waits for Evolution API's own report of it."""
LARGEST_FILE = 64 * 2**20
"""Bytes of a file to send: Evolution API takes 136 MiB of JSON, and base64 takes a third more."""
_BAD_REQUEST, _NOT_FOUND = 400, 404
PICTURE = ("wuid", "profilePictureUrl")

logger = structlog.get_logger("hookgw.evolution")


class Evolution:
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

    def __init__(self) -> None:
        self._defaults = Defaults()
        self._connections: dict[str, Connection] = {}
        self._receivers: dict[str, Receiver] = {}

    def set_defaults(self, defaults: Defaults) -> None:
        """Set the options that an instance does not set itself; its next run takes them."""
        self._defaults = defaults

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        """Refuse options with which no event would ever arrive."""
        await trio.lowlevel.checkpoint()
        read_options(options, self._defaults, "")  # the name matters only as the default of remote
        if public_url is None:
            raise Invalid(
                "server.public_url is not set: set it in hookgw's configuration to the URL under which "
                "Evolution API reaches hookgw, because it sends the events there."
            )

    async def run(self, session: Session) -> None:
        """Keep the webhook in Evolution API set, and the state known, until cancelled.

        It never returns: also after the account was logged out, Evolution API has events to tell, and drops
        them if hookgw does not take them.
        """
        connection = Connection(session, read_state(await session.load_state()))
        self._connections[session.instance] = connection
        self._receivers[session.instance] = Receiver(connection)
        try:
            # From here on, `ingest` is called.
            await connection.report(ConnectionState.CONNECTING)
            try:
                options = read_options(session.options, self._defaults, session.instance)
                if "://" not in (session.ingest_url or ""):
                    raise Invalid(
                        "server.public_url is not set: Evolution API cannot send its events anywhere."
                    )
            except Invalid as error:
                await connection.report(ConnectionState.CLOSE, _BAD_REQUEST, message=str(error))
                await trio.sleep_forever()
            else:
                await connection.run(options)
        finally:
            if self._connections.get(session.instance) is connection:
                del self._connections[session.instance], self._receivers[session.instance]

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Turn a webhook of Evolution API into events.

        Evolution API repeats a request for some minutes, except after 400, 401, 403, 404 and 422, after which
        it drops the event for good. What hookgw will never take is acknowledged, with a line in the log.

        Raises:
            ProofRefused: the header that hookgw has set in the webhook is missing or wrong.
            Unavailable: the connector is about to start, or hookgw cannot store events now.
        """
        connection = self._connections.get(session.instance)
        if connection is None:
            raise Unavailable("The connector is about to start. Retry later.")
        given = request.headers.get(PROOF, "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, connection.state.secret.encode()):
            raise ProofRefused(f"The header {PROOF} is missing, or is not the one that hookgw has set.")
        if request.method != "POST":
            raise NotSupported("Evolution API sends its events with POST.")
        try:
            await self._receivers[session.instance].take(request.body, request.path)
        except ValueError:
            # A part may be missing: not 400, after which Evolution API would not send the whole.
            return IngestResponse(status=408, body=b"The body is not JSON. Send it again.")
        return IngestResponse()

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:  # noqa: ARG002
        """Send a message. Evolution API knows no key of a repeated send."""
        client = self._connected(session)
        if isinstance(message, MediaMessage) and message.url and not self._defaults.forward_urls:
            message = await self._fetched(session, message)
        elif isinstance(message, TextMessage) and not self._defaults.link_previews:
            message = msgspec.structs.replace(message, link_preview=False)
        path, body = request_of(message)
        sent = await client.call("POST", path, body)
        key_sent = sent.get("key") if isinstance(sent, dict) else None
        if not isinstance(key_sent, dict) or not isinstance(key_sent.get("id"), str):
            raise NetworkRefused("Evolution API did not say which message it has sent.")
        stamp = sent.get("messageTimestamp")
        return {
            "message": {},
            "status": "PENDING",
            **sent,
            "messageTimestamp": stamp if type(stamp) is int else int(time.time()),
        }

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        """Replace the text of a message of the account."""
        client = self._connected(session)
        body = {"number": recipient_of(key.remote_jid or number), "key": key_of(key), "text": text}
        await client.call("POST", "chat/updateMessage", body)
        return {
            "key": key_of(key),
            "message": {"conversation": text},
            "messageType": "conversation",
            "messageTimestamp": int(time.time()),
            "editedMessage": {"conversation": text},  # where Evolution API's own MESSAGES_EDITED has it
        }

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        """Delete a message for everyone."""
        await self._connected(session).call("DELETE", "chat/deleteMessageForEveryone", key_of(key))
        return {**key_of(key), "status": "DELETED"}

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        """Mark messages as read."""
        read = [{"remoteJid": key.remote_jid, "fromMe": key.from_me, "id": key.id} for key in keys]
        await self._connected(session).call("POST", "chat/markMessageAsRead", {"readMessages": read})

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        """Show a presence in a chat, or of the account."""
        client = self._connected(session)
        if number is None:
            await client.call("POST", "instance/setPresence", {"presence": presence})
            return
        body = {"number": recipient_of(number), "presence": presence, "delay": int(delay * 1000)}
        # It answers when the presence has ended.
        await client.call("POST", "chat/sendPresence", body, seconds=REQUEST_TIMEOUT + delay)

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Return which numbers are on WhatsApp."""
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
        found = {
            one["number"]: one
            for one in (answer if isinstance(answer, list) else [])
            if isinstance(one, dict) and isinstance(one.get("number"), str)
        }
        result = []
        for number in numbers:
            one = found.get(known.get(number, ""), {})
            jid = one.get("jid")
            exists = one.get("exists") is True
            result.append(
                {"number": number, "exists": exists, "jid": jid if isinstance(jid, str) else number}
            )
        return result

    async def find_picture(self, session: Session, number: str) -> dict[str, Any]:
        """Return the picture of an account or a group."""
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
        """Return a group with its participants."""
        client, query = self._connected(session), f"?groupJid={quote(recipient_of(group), safe='')}"
        try:
            answer = await client.call("GET", "group/findGroupInfos", query=query)
        except Refused as error:
            if error.remote_status != _NOT_FOUND or error.is_missing:
                raise
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), str):
            raise NotFound(f"Evolution API knows no group {group}.")
        return answer

    async def media_reference(self, session: Session, key: MessageKey) -> str | None:
        """Return the reference of the file of a message: without ``media_links``, no event has a link."""
        del session
        await trio.lowlevel.checkpoint()
        return reference_of(key.remote_jid, key.id, from_me=key.from_me)

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        """Send the file of a received message to a sink."""
        try:
            await send_file(self._connected(session), reference, sink)
        except Refused as error:
            if error.remote_status == _BAD_REQUEST:
                raise NotFound(f"Evolution API does not have the file: {error}") from error
            raise

    async def settings(self, session: Session, settings: InstanceSettings) -> None:
        """Forward the settings of the account."""
        connection = self._connections.get(session.instance)
        if connection is not None:
            await connection.forward_settings(settings)

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
        connection = self._connections.get(session.instance)
        client = self._connected(session)
        assert connection is not None  # noqa: S101 -- it has the client
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
        connection = self._connections.get(session.instance)
        if connection is not None:
            await connection.release()

    async def _fetched(self, session: Session, message: MediaMessage) -> MediaMessage:
        # Evolution API would fetch it from any address in its own network, for everybody with the key of one
        # instance.
        url = message.url or ""
        content = await session.fetch(url, limit=LARGEST_FILE)
        return msgspec.structs.replace(
            message,
            url=None,
            content=content,
            mimetype=message.mimetype
            or mimetypes.guess_type(url.partition("?")[0])[0]
            or content.mimetype
            or None,
            file_name=message.file_name or httpx.URL(url).path.rpartition("/")[2],
        )

    def _connected(self, session: Session) -> Client:
        connection = self._connections.get(session.instance)
        if connection is None or connection.client is None:
            raise NetworkRefused("The instance is not connected to Evolution API.", status=409)
        return connection.client
