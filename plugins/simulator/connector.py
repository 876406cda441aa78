"""The connector: plays a messaging network towards the gateway."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import trio

from hookgw import ConnectionState, Invalid, NetworkRefused, QRCode, Session, Unavailable

from . import traffic
from .options import Options, read_options
from .picture import picture_of

STATUS_STEPS = ("SERVER_ACK", "DELIVERY_ACK", "READ")
"""What becomes of a message that was sent, in order."""

_JID = re.compile(r"[0-9-]{5,40}@(s\.whatsapp\.net|g\.us)")
_NUMBER = re.compile(r"[0-9]{7,15}")


class Line(msgspec.Struct):
    """One connected instance.

    Attributes:
        options: how it behaves.
        dice: decides whatever is left to chance.
        tasks: where the status steps of sent messages run.
    """

    options: Options
    dice: Random
    tasks: trio.Nursery


class Simulator:
    """Connects instances to a network that is not there.

    Args:
        wall: gives Unix seconds, for the times in messages. All waiting is Trio's.

    Attributes:
        name: what ``integration`` says.
        defaults: options of instances that do not say otherwise.
    """

    name = "simulator"

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.defaults: dict[str, Any] = {}
        self._wall = wall
        self._lines: dict[str, Line] = {}

    async def run(self, session: Session) -> None:
        """Show a QR code, open, then get messages until cancelled.

        Raises:
            ValueError: the instance's options are wrong; the sentence names the first.
        """
        options = read_options({**self.defaults, **session.options}, strict=False)
        seed = None if options.seed is None else f"{options.seed} {session.instance}"
        async with trio.open_nursery() as nursery:
            line = Line(options=options, dice=Random(seed), tasks=nursery)  # noqa: S311 (no secret)
            await self._connect(session, line)
            self._lines[session.instance] = line
            try:
                await self._receive(session, line)
            finally:
                del self._lines[session.instance]

    async def send_text(self, session: Session, number: str, text: str) -> dict[str, Any]:
        """Send a message; its status steps follow as MESSAGES_UPDATE.

        Returns:
            The payload of SEND_MESSAGE.

        Raises:
            Invalid: the number or the text cannot be sent.
            NetworkRefused: the instance is not connected, or ``fail_send`` hit.
        """
        chat = _chat_of(number)
        if not text:
            raise Invalid("text must not be empty.")
        await trio.lowlevel.checkpoint()
        line = self._lines.get(session.instance)
        if line is None:
            raise NetworkRefused("The simulator is not connected.")
        if line.dice.random() < line.options.fail_send:
            raise NetworkRefused("The simulator refused the message, as its option fail_send asks.")
        message = traffic.outgoing(line.dice, chat, text, int(self._wall()))
        line.tasks.start_soon(_acknowledge, session, message, line.options.status_delay)
        return message

    async def _connect(self, session: Session, line: Line) -> None:
        await session.set_state(ConnectionState.CONNECTING)
        if line.options.qr_code:
            code = f"2@{line.dice.getrandbits(128):032x}"
            pairing = f"{line.dice.getrandbits(32):08X}"
            await session.show_qr_code(QRCode(code=code, base64=picture_of(code), pairing_code=pairing))
        await trio.sleep(line.options.connect_delay)
        account = traffic.account_of(session.instance)
        await session.set_state(ConnectionState.OPEN, wuid=account, profileName=session.instance)

    async def _receive(self, session: Session, line: Line) -> None:
        """Get messages at the rate. After a forced pause one comes at once; the others are not made up."""
        options = line.options
        left = options.messages
        due = trio.current_time()
        while options.rate and left != 0:
            due = max(due + 1 / options.rate, trio.current_time())
            await trio.sleep_until(due)
            await _emit(
                session, "MESSAGES_UPSERT", traffic.incoming(line.dice, options.chats, int(self._wall()))
            )
            left = None if left is None else left - 1
        await trio.sleep_forever()


async def _acknowledge(session: Session, message: dict[str, Any], delay: float) -> None:
    for status in STATUS_STEPS:
        await trio.sleep(delay)
        await _emit(session, "MESSAGES_UPDATE", traffic.status_of(message, status))


async def _emit(session: Session, kind: str, data: dict[str, Any]) -> None:
    """Raise an event; while the gateway cannot keep it, wait and try again."""
    while True:
        try:
            return await session.emit(kind, data)
        except Unavailable as error:
            await trio.sleep(error.retry_after)


def _chat_of(number: str) -> str:
    if _JID.fullmatch(number):
        return number
    digits = re.sub(r"[+ ().-]", "", number)
    if not _NUMBER.fullmatch(digits):
        raise Invalid(f"number: {number!r} is no phone number; use 7 to 15 digits with the country code.")
    return f"{digits}@s.whatsapp.net"
