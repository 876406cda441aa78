"""An open connection to a broker: channels, publisher confirms, heartbeats.

Attempts do not use the socket, because an attempt may be cancelled in the middle of a frame, and others share
the connection. They queue a message and wait. Two tasks of :meth:`Connection.run` do the rest::

    publish ──> queue ──> _write ──> broker ──> _read ──> ack, nack, return, close ──> publish returns

Each registration has a channel of its own for each exchange, opened with its first message there. So an error
that closes a channel (an exchange that does not exist) concerns no other registration, and nothing that goes
elsewhere. And a message that the broker returns is known by its id, because a registration has no two
attempts with the same event at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio
from pamqp import commands, header

from hookgw import Response

from .frames import FrameReader, heartbeat_bytes, message_bytes, method_bytes
from .handshake import Tuned, refusal_of

IDLE = 60.0
"""Seconds without a message after which a connection is closed."""

_OK = Response(200)
_SUCCESS = 200  # the reply code of a connection that is closed for no fault
# What an AMQP reply code means as a status of HTTP; any other from 400 to 599 is the same.
_STATUS = {311: 413, 312: 404, 313: 503, 320: 503}


class NoChannelLeft(Exception):
    """The connection has no channel for another target. Nothing of the message was sent."""


@dataclass(eq=False)
class Message:
    """A message of one attempt, until the broker has confirmed or refused it."""

    registration: str
    exchange: str
    routing_key: str
    properties: commands.Basic.Properties
    content: bytes
    is_abandoned: bool = False
    response: Response | None = None
    failure: Exception | None = None
    settled: trio.Event = field(default_factory=trio.Event)

    def settle(self, response: Response) -> None:
        # A message that was returned is confirmed, too: the first word counts.
        self.response = self.response or response
        self.settled.set()

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self.settled.set()


class _Channel:
    """A channel in confirm mode, with what was published on it and is not confirmed yet, by number."""

    __slots__ = ("number", "published", "return_text", "unconfirmed")

    def __init__(self, number: int) -> None:
        self.number = number
        self.published = 0
        self.unconfirmed: dict[int, Message] = {}
        self.return_text: tuple[int, str] | None = None

    def confirmed(self, tag: int, *, multiple: bool, response: Response) -> None:
        # In the order of publishing, as a dict keeps it. 0 means all of them.
        tags = [one for one in self.unconfirmed if not tag or one <= tag] if multiple else [tag]
        for one in tags:
            if (message := self.unconfirmed.pop(one, None)) is not None:
                message.settle(response)

    def returned(self, message_id: str | None) -> None:
        """Note that the broker returned a message; its confirm follows."""
        code, text = self.return_text or (312, "NO_ROUTE")
        self.return_text = None
        for message in self.unconfirmed.values():
            if message.properties.message_id == message_id:
                message.response = _response(code, f"The broker returned the message: {code} {text}")


class Connection:
    """An open connection. :meth:`run` must run while :meth:`publish` is used; it owns the stream."""

    def __init__(self, frames: FrameReader, tuned: Tuned) -> None:
        self._frames = frames
        self._stream = frames.stream
        self._tuned = tuned
        self._channels: dict[int, _Channel] = {}
        self._by_target: dict[tuple[str, str], _Channel] = {}
        self._last_channel = 0
        self._queue: deque[Message | bytes] = deque()
        self._has_work = trio.Event()
        self._outstanding = 0
        self._used_at = trio.current_time()
        self._is_retired = False
        self._blocked: str | None = None
        self._ended: str | None = None
        self._scope = trio.CancelScope()

    @property
    def is_usable(self) -> bool:
        """Whether further messages may use this connection, or need another one."""
        if self._blocked is not None:
            # The broker still takes what another connection was sent, when its alarm is over: repetitions.
            return self._ended is None
        return self._ended is None and not self._is_retired and trio.current_time() < self._stream.use_until

    async def publish(self, message: Message) -> Response:
        """Publish a message, and return what the broker says of it.

        Raises:
            NoChannelLeft: publish the message on another connection.
            OSError: the connection ended before the broker said anything, or the broker takes no messages.
            ValueError: a name or a header is longer than AMQP allows.
        """
        if self._ended is not None:
            raise ConnectionError(self._ended)
        if self._blocked is not None:
            raise ConnectionError(self._refusal())
        self._outstanding += 1
        self._put(message)
        try:
            await message.settled.wait()
        finally:
            message.is_abandoned = True
            self._outstanding -= 1
            self._used_at = trio.current_time()
            self._has_work.set()
        if message.failure is not None:
            raise message.failure
        assert message.response is not None  # noqa: S101 -- one of both is set
        return message.response

    async def run(self) -> None:
        """Write and read until the connection ends, then close it."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._until_broken, self._write)
                    nursery.start_soon(self._until_broken, self._read)
        finally:
            self._end("hookgw closed the connection.")

    async def _until_broken(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except OSError as error:
            self._end(str(error))
        self._scope.cancel()

    def _end(self, reason: str) -> None:
        if self._ended is not None:
            return
        self._ended = reason
        self._fail_waiting(reason)
        self._queue.clear()
        self._channels.clear()
        self._by_target.clear()
        self._stream.close()

    def _fail_waiting(self, reason: str) -> None:
        waiting = [one for one in self._queue if isinstance(one, Message)]
        for channel in self._channels.values():
            waiting += channel.unconfirmed.values()
        for message in waiting:
            message.fail(ConnectionError(reason))

    def _refusal(self) -> str:
        return f"The broker takes no messages now: {self._blocked}."

    def _put(self, item: Message | bytes) -> None:
        self._queue.append(item)
        self._has_work.set()

    # Writing.

    async def _write(self) -> None:
        while True:
            while self._queue:
                item = self._queue.popleft()
                data = item if isinstance(item, bytes) else self._frames_of(item)
                if data:
                    await self._stream.send_all(data)
            if not self._outstanding and not (self.is_usable and self._is_used()):
                # The rest of the handshake of closing would tell nothing more.
                await self._stream.send_all(method_bytes(0, commands.Connection.Close(_SUCCESS, "", 0, 0)))
                self._end("The connection was idle.")
                return
            self._has_work = trio.Event()
            with trio.move_on_after(min(self._tuned.heartbeat / 2, IDLE)):
                await self._has_work.wait()
                continue
            await self._stream.send_all(heartbeat_bytes())

    def _is_used(self) -> bool:
        return self._blocked is not None or trio.current_time() < self._used_at + IDLE

    def _frames_of(self, message: Message) -> bytes:
        """Return the bytes of a message, which from then on waits for its confirm."""
        if message.is_abandoned or message.settled.is_set():
            return b""
        target = message.registration, message.exchange
        channel, opening = self._by_target.get(target), b""
        if channel is None:
            if self._last_channel >= self._tuned.channel_max:
                self._is_retired = True
                message.fail(NoChannelLeft())
                return b""
            self._last_channel += 1
            channel = _Channel(self._last_channel)
            opening = method_bytes(channel.number, commands.Channel.Open(), commands.Confirm.Select())
        try:
            data = message_bytes(
                channel.number,
                message.exchange,
                message.routing_key,
                message.properties,
                message.content,
                self._tuned.frame_max,
            )
        except (ValueError, TypeError) as error:
            message.fail(ValueError(f"The message cannot be written: {error}"))
            return b""
        self._channels[channel.number] = self._by_target[target] = channel
        channel.published += 1
        channel.unconfirmed[channel.published] = message
        message.content = (
            b""  # an attempt that has ended must not keep it until a confirm that may never come
        )
        return opening + data

    # Reading.

    async def _read(self) -> None:
        while True:
            # RabbitMQ sends a heartbeat after half of the interval without other frames.
            with trio.move_on_after(2 * self._tuned.heartbeat) as patience:
                number, found = await self._frames.read()
            if patience.cancelled_caught:
                raise TimeoutError(f"The broker sent nothing for {2 * self._tuned.heartbeat:g} s.")
            if number == 0:
                self._of_connection(found)
            elif (channel := self._channels.get(number)) is not None:
                self._of_channel(channel, found)

    def _of_connection(self, found: object) -> None:
        if isinstance(found, commands.Connection.Close):
            raise ConnectionAbortedError(refusal_of(found))
        if isinstance(found, commands.Connection.Blocked):
            self._blocked = found.reason or "it is short of memory or disk"
            # Waiting on would end at the deadline, as if the broker hung; and the alarm may last for hours.
            self._fail_waiting(self._refusal())
        elif isinstance(found, commands.Connection.Unblocked):
            self._blocked = None

    def _of_channel(self, channel: _Channel, found: object) -> None:
        if isinstance(found, commands.Basic.Ack):
            channel.confirmed(found.delivery_tag, multiple=found.multiple, response=_OK)
        elif isinstance(found, commands.Basic.Nack):
            # Such as a queue that is full: the broker may take it later.
            response = Response(503, b"The broker did not take the message (basic.nack).")
            channel.confirmed(found.delivery_tag, multiple=found.multiple, response=response)
        elif isinstance(found, commands.Basic.Return):
            channel.return_text = found.reply_code or 312, found.reply_text
        elif isinstance(found, header.ContentHeader):
            channel.returned(found.properties.message_id)
        elif isinstance(found, commands.Channel.Close):
            self._close_channel(channel, found)

    def _close_channel(self, channel: _Channel, close: commands.Channel.Close) -> None:
        # Its number is not used again: frames for the former channel may be on the way.
        del self._channels[channel.number]
        self._by_target = {target: one for target, one in self._by_target.items() if one is not channel}
        self._put(method_bytes(channel.number, commands.Channel.CloseOk()))
        response = _response(close.reply_code or 500, refusal_of(close))
        for message in channel.unconfirmed.values():
            message.settle(response)


def _response(code: int, text: str) -> Response:
    status = _STATUS.get(code, code)
    return Response(status if 400 <= status <= 599 else 500, text.encode())
