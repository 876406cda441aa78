"""The connector: plays a messaging network for the gateway."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, get_args

import trio

from hookgw import (
    ConnectionState,
    IngestRequest,
    IngestResponse,
    InstanceSettings,
    Invalid,
    MediaSink,
    Message,
    MessageKey,
    NetworkRefused,
    NotFound,
    QRCode,
    ReactionMessage,
    Sentence,
    Session,
    TextMessage,
    Unavailable,
)
from hookgw.connectors import EMPTY_TEXT, NetworkConnector, answer_challenge, text_data

from . import traffic
from .connection import Connection
from .network_requests import read_messages
from .options import OPTIONS_SCHEMA, Options, read_options
from .outgoing import chat_of, message_id_of, outgoing, payload_of
from .picture import picture_of, png_of
from .receiving import events_of, receive_messages, status_event
from .state import read_state

STATUS_STEPS = ("SERVER_ACK", "DELIVERY_ACK", "READ")
"""The statuses of a sent message, in order."""

_CHUNK = 4096
_NEVER = float("inf")
_PRESENCE_ENDS = {"available": "unavailable", "composing": "paused", "recording": "paused"}

_NOT_CONNECTED = Sentence("simulator.not_connected", "The simulator is not connected.")


class Simulator(NetworkConnector[Connection]):
    """Connects instances to a simulated network."""

    name = "simulator"
    message_types = get_args(Message)

    options_schema = OPTIONS_SCHEMA

    def __init__(self) -> None:
        super().__init__()
        self._restarting: set[str] = set()

    def check_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        read_options(options, strict=True)
        return options

    async def run(self, session: Session) -> None:
        """Show a QR code, open, then receive messages until cancelled or logged out.

        Raises:
            ValueError: the instance's options are wrong; the message names the first wrong one.
            ConnectionError: the connection broke, because of the option ``lose_connection``.
        """
        options = self._options_of(session)
        state = read_state(await session.load_state())
        seed = state.seed if options.seed is None else options.seed
        random = Random(f"{seed} {session.instance}")  # noqa: S311 (no secret)
        await session.set_state(ConnectionState.CONNECTING)
        is_logged_in = session.instance in self._restarting
        self._restarting.discard(session.instance)
        if options.qr_code and not is_logged_in:
            code = f"2@{random.getrandbits(128):032x}"
            pairing_code = f"{random.getrandbits(32):08X}"
            await session.show_qr_code(QRCode(code=code, base64=picture_of(code), pairing_code=pairing_code))
        await trio.sleep(options.connect_delay)
        log_out_after = _NEVER if options.log_out_after is None else options.log_out_after
        lose_after = _NEVER if options.lose_connection is None else options.lose_connection
        account = traffic.account_of(session.instance)
        async with trio.open_nursery() as nursery:
            connection = Connection(account, options, session.settings, random, nursery)
            # Before the state is open: from then on, messages are sent.
            with self.connections.joined(session, connection):
                await session.set_state(ConnectionState.OPEN, wuid=account, profileName=session.instance)
                with trio.move_on_after(min(log_out_after, lose_after)):
                    await receive_messages(session, connection, state)
                    # Returning would mean that the account was logged out.
                    await trio.sleep_forever()
            nursery.cancel_scope.cancel()
        if lose_after < log_out_after:
            # The gateway reports the closed connection, and calls run again after a wait.
            raise ConnectionError("The connection broke because of the option lose_connection.")
        await session.set_state(ConnectionState.CLOSE, 401)

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        """Send a message. Its status steps follow as MESSAGES_UPDATE.

        Returns:
            The payload of SEND_MESSAGE.

        Raises:
            Invalid: the number or the text is not valid.
            NetworkRefused: the instance is not connected, or an option refused the message.
        """
        chat = chat_of(message.number, "key.remoteJid" if isinstance(message, ReactionMessage) else "number")
        if isinstance(message, TextMessage) and not message.text:
            raise Invalid(EMPTY_TEXT)
        connection = self._connection_of(session)
        message_id = message_id_of(session.instance, key)
        sent = connection.sent.get(message_id)
        if sent is None:
            connection.refuse_on_demand(trio.current_time())
            sent = outgoing(message, chat, message_id, int(time.time()))
            connection.remember(sent)
            # In the connection's nursery: the steps continue after this method returned, and end on logout.
            connection.nursery.start_soon(_acknowledge, session, sent["key"], connection.options.status_delay)
        # The message is on its way, and the network takes its time to say so. If the caller does not wait so
        # long and repeats the call with the same key, nothing is sent again.
        await trio.sleep(connection.options.slow_send)
        return sent

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Answer the network's challenge, or turn its messages into events.

        Raises:
            ProofRefused: the network's proof is wrong.
            Invalid: the request is malformed.
            Unavailable: the instance is not connected.
        """
        options = self._options_of(session)
        if request.method == "GET":
            return answer_challenge(request, options.verify_token)
        messages = await read_messages(session, request, options)
        connection = self.connections.get(session)
        if connection is None:
            # The network repeats the request after a 503, and not after a 4xx.
            raise Unavailable(_NOT_CONNECTED)
        events = []
        for message in messages:
            payload = traffic.written(
                chat_of(message.sender), message.id, message.name, message.text, int(time.time())
            )
            events += events_of(payload, connection.settings)
        # The network repeats requests, even answered ones. The events' ids make each count once.
        await session.emit_all(events)
        return IngestResponse()

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:  # noqa: ARG002
        """Mark messages as read: the gateway raises MESSAGES_UPDATE, and the network has nothing to add."""
        self._connection_of(session)
        await trio.lowlevel.checkpoint()

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        """Show a presence, and after the delay its end, as PRESENCE_UPDATE."""
        connection = self._connection_of(session)
        account = connection.account
        chat = account if number is None else chat_of(number)
        # Not waited for: the caller has other work during the delay.
        connection.nursery.start_soon(_show_presence, session, account, chat, presence, delay)
        await trio.lowlevel.checkpoint()

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        """Replace the text of an own message.

        Returns:
            The payload of MESSAGES_EDITED.
        """
        await self._check_own(session, key)
        chat = chat_of(number)
        return text_data({**payload_of(key), "remoteJid": chat}, text, time.time())

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        """Delete an own message for everyone.

        Returns:
            The payload of MESSAGES_DELETE.
        """
        await self._check_own(session, key)
        return {**payload_of(key), "status": "DELETED"}

    async def settings(self, session: Session, settings: InstanceSettings) -> None:
        """Apply changed settings; the simulator knows ``groupsIgnore`` and ``readMessages``."""
        await trio.lowlevel.checkpoint()
        connection = self.connections.get(session)
        if connection is not None:
            connection.settings = settings

    async def restart(self, session: Session) -> None:
        """Prepare a restart: the account stays logged in, so the next run shows no QR code."""
        await trio.lowlevel.checkpoint()
        self._restarting.add(session.instance)

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Return which numbers have an account: all that are phone numbers."""
        self._connection_of(session)
        await trio.lowlevel.checkpoint()
        found = []
        for number in numbers:
            try:
                found.append({"number": number, "exists": True, "jid": chat_of(number)})
            except Invalid:
                found.append({"number": number, "exists": False, "jid": ""})
        return found

    async def find_picture(self, session: Session, number: str) -> dict[str, Any]:
        """Return the picture that everybody has."""
        self._connection_of(session)
        await trio.lowlevel.checkpoint()
        chat = chat_of(number)
        return {"wuid": chat, "profilePictureUrl": session.media_url(chat, mimetype="image/png")}

    async def list_groups(self, session: Session, *, with_participants: bool) -> list[dict[str, Any]]:
        """Return the groups among its chats."""
        self._connection_of(session)
        await trio.lowlevel.checkpoint()
        found = traffic.groups(self._options_of(session).chats, traffic.account_of(session.instance))
        if not with_participants:
            for group in found:
                del group["participants"]
        return found

    async def find_group(self, session: Session, group: str) -> dict[str, Any]:
        for found in await self.list_groups(session, with_participants=True):
            if found["id"] == group:
                return found
        raise NotFound.of("simulator.no_group", "The simulator has no group {group}.", group=group)

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        """Send the picture of an incoming message to a sink.

        Raises:
            NotFound: the option ``lose_media`` says so.
        """
        if self._options_of(session).lose_media:
            raise NotFound.of(
                "simulator.media_lost",
                "The simulator no longer has the file, because of its option lose_media.",
            )
        picture = png_of(reference)
        await sink.begin(mimetype="image/png", size=len(picture), file_name=f"{reference}.png")
        # In parts, as a real file comes from its network: no file is in memory as a whole.
        for start in range(0, len(picture), _CHUNK):
            await sink.write(picture[start : start + _CHUNK])

    def _options_of(self, session: Session) -> Options:
        return read_options({**self.defaults, **session.options}, strict=False)

    def _connection_of(self, session: Session) -> Connection:
        connection = self.connections.get(session)
        if connection is None:
            raise NetworkRefused(_NOT_CONNECTED, code="NOT_CONNECTED")
        return connection

    async def _check_own(self, session: Session, key: MessageKey) -> None:
        self._connection_of(session)
        await trio.lowlevel.checkpoint()
        if not key.from_me:
            raise NetworkRefused(
                Sentence("simulator.foreign_message", "Only messages of the account itself can be changed."),
                code="NOT_OWN",
                status=403,
            )


async def _acknowledge(session: Session, key: dict[str, Any], delay: float) -> None:
    for status in STATUS_STEPS:
        await trio.sleep(delay)
        await session.emit_all([status_event(key, status)])


async def _show_presence(session: Session, account: str, chat: str, presence: str, delay: float) -> None:
    """Emit a presence of the account and, after a delay in seconds, its end."""
    await _emit_presence(session, account, chat, presence)
    if delay and presence in _PRESENCE_ENDS:
        await trio.sleep(delay)
        await _emit_presence(session, account, chat, _PRESENCE_ENDS[presence])


async def _emit_presence(session: Session, account: str, chat: str, presence: str) -> None:
    presences = {account: {"lastKnownPresence": presence}}
    # The plugin gateway_kinds adds this kind, and may be disabled.
    with suppress(Invalid):
        await session.emit("PRESENCE_UPDATE", {"id": chat, "presences": presences})
