"""The connector: plays a messaging network for the gateway."""

from __future__ import annotations

import re
import time
from random import Random
from typing import Any

import msgspec
import trio

from hookgw import (
    ConnectionState,
    Invalid,
    Message,
    NetworkRefused,
    NotSupported,
    QRCode,
    Session,
    TextMessage,
)

from . import traffic
from .options import Options, read_options
from .picture import picture_of

STATUS_STEPS = ("SERVER_ACK", "DELIVERY_ACK", "READ")
"""The statuses of a sent message, in order."""

_JID = re.compile(r"[0-9-]{5,40}@(s\.whatsapp\.net|g\.us)")
# An international number has at most 15 digits (ITU-T E.164).
_NUMBER = re.compile(r"[0-9]{7,15}")


class Connection(msgspec.Struct):
    """One connected instance.

    Attributes:
        options: how it behaves.
        random: decides everything that is random about it.
        nursery: runs the status steps of sent messages.
    """

    options: Options
    random: Random
    nursery: trio.Nursery


class Simulator:
    """Connects instances to a simulated network.

    Attributes:
        name: the instances' ``integration``.
        defaults: options that an instance does not set itself.
    """

    name = "simulator"

    def __init__(self) -> None:
        self.defaults: dict[str, Any] = {}
        self._connections: dict[str, Connection] = {}

    async def run(self, session: Session) -> None:
        """Show a QR code, open, then receive messages until cancelled.

        Raises:
            ValueError: the instance's options are wrong; the message names the first wrong one.
        """
        options = read_options({**self.defaults, **session.options}, strict=False)
        # With the instance's name, so that two instances with one seed do not send the same messages.
        seed = None if options.seed is None else f"{options.seed} {session.instance}"
        random = Random(seed)  # noqa: S311 (no secret)
        async with trio.open_nursery() as nursery:
            await session.set_state(ConnectionState.CONNECTING)
            if options.qr_code:
                code = f"2@{random.getrandbits(128):032x}"
                pairing_code = f"{random.getrandbits(32):08X}"
                qr_code = QRCode(code=code, base64=picture_of(code), pairing_code=pairing_code)
                await session.show_qr_code(qr_code)
            await trio.sleep(options.connect_delay)
            account = traffic.account_of(session.instance)
            await session.set_state(ConnectionState.OPEN, wuid=account, profileName=session.instance)
            # Only now: send refuses messages of an instance that is not in this table.
            self._connections[session.instance] = Connection(options, random, nursery)
            try:
                await _receive_messages(session, options, random)
                # Returning would mean that the account was logged out.
                await trio.sleep_forever()
            finally:
                del self._connections[session.instance]

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:  # noqa: ARG002
        """Send a message. Its status steps follow as MESSAGES_UPDATE.

        Returns:
            The payload of SEND_MESSAGE.

        Raises:
            Invalid: the number or the text is not valid.
            NetworkRefused: the instance is not connected, or the option ``fail_send`` refused the message.
        """
        if not isinstance(message, TextMessage):
            raise NotSupported("The simulator sends texts.")
        number, text = message.number, message.text
        chat = number
        if not _JID.fullmatch(number):
            digits = re.sub(r"[+ ().-]", "", number)
            if not _NUMBER.fullmatch(digits):
                raise Invalid(
                    f"number: {number!r} is not a phone number; use 7 to 15 digits with the country code."
                )
            chat = f"{digits}@s.whatsapp.net"
        if not text:
            raise Invalid("text must not be empty.")
        await trio.lowlevel.checkpoint()
        connection = self._connections.get(session.instance)
        if connection is None:
            raise NetworkRefused("The simulator is not connected.")
        options, random = connection.options, connection.random
        if random.random() < options.fail_send:
            raise NetworkRefused("The simulator refused the message because of its option fail_send.")
        sent = traffic.outgoing(random, chat, text, int(time.time()))
        # In the connection's nursery: the steps continue after this method returned, and end on logout.
        connection.nursery.start_soon(_acknowledge, session, sent, options.status_delay)
        return sent


async def _receive_messages(session: Session, options: Options, random: Random) -> None:
    remaining = options.messages
    due = trio.current_time()
    while options.rate and remaining != 0:
        # emit waits while the gateway cannot store the event. After that, one message is due at once. The
        # others are skipped: a burst would overload a gateway that has just recovered.
        due = max(due + 1 / options.rate, trio.current_time())
        await trio.sleep_until(due)
        message = traffic.incoming(random, options.chats, int(time.time()))
        await session.emit("MESSAGES_UPSERT", message)
        remaining = None if remaining is None else remaining - 1


async def _acknowledge(session: Session, message: dict[str, Any], delay: float) -> None:
    for status in STATUS_STEPS:
        await trio.sleep(delay)
        await session.emit("MESSAGES_UPDATE", traffic.status_of(message, status))
