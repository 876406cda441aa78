"""One attempt that a plugin makes: what the plugin gets, and the connections that it opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import unquote

import trio

from hookgw.delivery.http import response
from hookgw.delivery.http.errors import Blocked, DeliveryError, NoAttempt
from hookgw.delivery.http.stream import Stream, StreamBroken
from hookgw.delivery.http.transport import MAX_ANSWER, LaneTransport
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import PluginFailed
from hookgw.kernel.masking import repr_without, user_of
from hookgw.kernel.schemes import no_plugin
from hookgw.kernel.target_url import Target
from hookgw.plugins.hooks import Hooks
from hookgw.records.deliveries import Outcome
from hookgw.records.destinations import OutgoingStream
from hookgw.records.events import Event
from hookgw.records.registrations import Registration

NEEDS_LONGER = " If it needs longer, set a longer timeout for this webhook."


class Unanswered(NamedTuple):
    """How an attempt ended to which the plugin has no response. The error is not masked yet."""

    outcome: Outcome
    error: str
    timed_out: bool = False


class DestinationStream:
    """A connection of a plugin; :class:`~hookgw.records.destinations.OutgoingStream` has the contract."""

    def __init__(self, stream: Stream, use_until: float, on_close: Callable[[], None]) -> None:
        self._stream = stream
        self._on_close = on_close
        self._is_closed = False
        self.use_until = use_until

    async def send_all(self, data: bytes) -> None:
        with self._in_use():
            taken = self._stream.send_nowait(data)
            await self._stream.send_all(data[taken:])

    async def receive(self) -> bytes:
        with self._in_use():
            return await self._stream.receive()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        try:
            # The number of the closed socket may be that of another one by now.
            if self._is_closed:
                raise trio.ClosedResourceError
            yield
        except StreamBroken as error:
            raise ConnectionResetError(f"The connection broke: {error}.") from error
        except trio.ClosedResourceError as error:
            raise ConnectionAbortedError("The connection was closed.") from error

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._stream.close_nowait()
            self._on_close()


class PluginAttempt(Collaborator):
    """One attempt; :class:`~hookgw.records.destinations.OutgoingDelivery` has the contract.

    Args:
        transport: lent to the lane. It opens connections, and counts them.
        deadline: by ``trio.current_time()``.
    """

    _target: Target
    registration: Registration
    event: Event
    body: bytes
    headers: dict[str, str]
    attempt: int
    _transport: LaneTransport
    _deadline: float

    def __post_init__(self) -> None:
        self.url = self._target.url
        self.host = self._target.host
        self.port = self._target.port
        # Why the last connection could not be opened, and whether one is being opened.
        self._failure: DeliveryError | None = None
        self._is_connecting = False
        self._streams: list[DestinationStream] = []

    __struct_fields__ = ("url", "attempt")
    __repr__ = repr_without()

    def secret_texts(self) -> set[str]:
        """The texts to mask in what the plugin raises."""
        user = user_of(self._target.url).split(":", 1)
        return {*user, *map(unquote, user), *self.registration.headers.values()} - {""}

    async def make(self, hooks: Hooks) -> response.Response | Unanswered:
        """Let the plugin make the attempt.

        Raises:
            NoAttempt: no connection could be opened, for a reason of this process.
        """
        scheme, started_at = self._target.scheme, trio.current_time()
        if scheme not in hooks.schemes:
            return Unanswered(Outcome.BLOCKED, no_plugin(scheme))
        try:
            with trio.CancelScope(deadline=self._deadline):
                answer = await hooks.send(scheme, self)
                # The host is well, although this connection may be older than its last failure.
                self._transport.note_reached()
                return response.Response(answer.status, [], answer.body[:MAX_ANSWER], complete=True)
        except PluginFailed as failure:
            return Unanswered(Outcome.FAILED, str(failure))
        except OSError as error:
            if self._failure is None:
                return Unanswered(Outcome.UNREACHABLE, str(error))
            if isinstance(self._failure, NoAttempt):
                raise self._failure from error
            is_blocked = isinstance(self._failure, Blocked)
            return Unanswered(Outcome.BLOCKED if is_blocked else Outcome.UNREACHABLE, self._failure.message)
        finally:
            while self._streams:
                self._streams.pop().close()
        elapsed = trio.current_time() - started_at
        if self._is_connecting:
            return Unanswered(Outcome.UNREACHABLE, f"No connection was established within {elapsed:.3g} s.")
        # The plugin may have sent the event, and the destination may have taken it.
        text = f"The receiver did not respond within {elapsed:.3g} s.{NEEDS_LONGER}"
        return Unanswered(Outcome.UNANSWERED, text, timed_out=True)

    async def connect(self, *, tls: bool = False, keep: bool = False) -> OutgoingStream:
        # Not cleared at the end: after a cancellation it says where the attempt was.
        self._failure, self._is_connecting = None, True
        try:
            stream, use_until, on_close = await self._transport.open_stream(
                self._target, self._deadline, tls=tls
            )
        except DeliveryError as failure:
            self._failure = failure
            self._is_connecting = False
            raise ConnectionError(failure.message) from failure
        self._is_connecting = False
        opened = DestinationStream(stream, use_until, on_close)
        if not keep:
            self._streams.append(opened)
        return opened
