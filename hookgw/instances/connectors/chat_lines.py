"""Sends that wait before the network is called: for their delay, and for earlier sends to their chat.

A client that asks for a delay wants the pause of a person who types. What it sends to the chat afterwards
must not overtake the message that is still being typed. A chat to which nobody sends with a delay has no
line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog
import trio

from hookgw.connectors.whatsapp_numbers import chat_or_text
from hookgw.instances.connectors.session import ConnectorSession
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, HookgwError, PluginFailed
from hookgw.kernel.sentences import Sentence
from hookgw.records.connectors import ConnectionState
from hookgw.records.messages import MediaMessage, Message

logger = structlog.get_logger("hookgw.connector")

LOOK_EVERY = 1.0
"""Seconds between two looks at whether anybody still wants the message."""
NOT_WANTED = Sentence(
    "message.client_gone", "The client has closed its connection, so the message was not sent."
)


class ChatLines:
    """The sends to each chat in the order in which they came, as long as one of them has a delay."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], ChatLinePlace] = {}

    def join(self, session: ConnectorSession, message: Message) -> ChatLinePlace:
        """Join the line of a message's chat. The caller must call the place's ``leave`` at the end."""
        chat = (session.instance_id, chat_or_text(message.number))
        place = ChatLinePlace(session, message, self._last.get(chat), partial(self._left, chat))
        if place.must_wait:
            self._last[chat] = place
        return place

    def _left(self, chat: tuple[str, str]) -> None:
        last = self._last.pop(chat, None)
        if last is not None and (last := last.in_line()) is not None:
            self._last[chat] = last


class ChatLinePlace(Collaborator):
    """A message in line.

    Attributes:
        must_wait: whether it has a delay, or others are before it.
        left: set when it has left the line.
        before: a place for which it waits.
    """

    _session: ConnectorSession
    _message: Message
    before: ChatLinePlace | None
    _note_left: Callable[[], None]

    def __post_init__(self) -> None:
        self.must_wait = self.before is not None or self._message.delay > 0
        self.left = trio.Event()

    def in_line(self) -> ChatLinePlace | None:
        """Return this place, or the last one before it, that has not left the line; ``None`` if all have."""
        place: ChatLinePlace | None = self
        while place is not None and place.left.is_set():
            place = place.before
        return place

    def leave(self) -> None:
        """Leave the line. The next message still waits for those before this one."""
        self.left.set()
        self._note_left()

    async def wait(self, is_wanted: Callable[[], bool]) -> None:
        """Wait for earlier messages; then show a presence for as long as the message has to wait.

        Args:
            is_wanted: says whether anybody still wants the message.

        Raises:
            Conflict: nobody wants it any more, or the instance is no longer connected.
        """
        while self.before is not None and (before := self.before.in_line()) is not None:
            self.before = before
            with trio.move_on_after(LOOK_EVERY):
                await before.left.wait()
            _check(is_wanted)
        self.before = None
        async with trio.open_nursery() as nursery:
            if self._message.delay and "set_presence" in self._session.connector.methods:
                nursery.start_soon(self._show_presence)
            left = self._message.delay
            while left > 0 and is_wanted():
                await trio.sleep(min(left, LOOK_EVERY))
                left -= LOOK_EVERY
            # The message ends it on the network, too. Some connectors return only when it has ended.
            nursery.cancel_scope.cancel()
        _check(is_wanted)
        session = self._session
        if session.ended.is_set() or session.state is not ConnectionState.OPEN:
            raise Conflict.of(
                "message.not_connected_anymore",
                "The instance {instance!r} is no longer connected; nothing was sent.",
                instance=session.instance,
            )

    async def _show_presence(self) -> None:
        is_voice = isinstance(self._message, MediaMessage) and self._message.is_voice
        presence = "recording" if is_voice else "composing"
        number, delay = self._message.number, self._message.delay
        try:
            await self._session.connector.set_presence(self._session, presence, number=number, delay=delay)
        except (HookgwError, PluginFailed) as error:
            # The message is what counts. If its number is wrong, the send says so.
            logger.debug("no presence before a send", instance=self._session.instance, reason=str(error))


def _check(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise Conflict(NOT_WANTED)
