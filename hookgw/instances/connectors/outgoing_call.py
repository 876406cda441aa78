"""Makes one call of a connector that changes something on the network, and raises its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import structlog
import trio

from hookgw.delivery.http.answer_memory import keeping_answers
from hookgw.instances.connectors.session import ConnectorSession
from hookgw.kernel.errors import HookgwError, NetworkRefused, PluginFailed, Unavailable
from hookgw.kernel.sentences import Sentence
from hookgw.plugins.contained_connector import ContainedConnector
from hookgw.records.connectors import NewEvent

logger = structlog.get_logger("hookgw.connector")

T = TypeVar("T")

CALL_TIMEOUT = 30.0
"""Seconds that a connector may take for a call."""
CUT_OFF = Sentence.declared(
    "network.call_cut_off", "The call was cut off. It may or may not have taken effect."
)
EVENT_TIMEOUT = 10.0
"""Seconds that the caller waits for the events of a call to be on disk."""


async def call_in_time(
    connector: ContainedConnector, call: Callable[[], Awaitable[T]], seconds: float = CALL_TIMEOUT
) -> T:
    """Make a call of a connector, and return its result.

    Raises:
        NetworkRefused: the call took longer than ``seconds``, or the connector failed.
        HookgwError: from the call.
    """
    with trio.move_on_after(seconds), keeping_answers():
        try:
            return await call()
        except PluginFailed as failure:
            raise NetworkRefused.of(
                "connector.failed",
                "The connector {name!r} failed: {reason}",
                name=connector.name,
                reason=failure.reason,
            ) from failure
    raise NetworkRefused.of(
        "network.timeout", "The network did not answer within {seconds:g} s.", seconds=seconds
    )


class OutgoingCall(Generic[T]):
    """One call. :meth:`run` is a task of the gateway, so that it goes on without the caller.

    Call :meth:`begin` before :meth:`run`.

    Args:
        make: makes the call. Its result is never ``None``.
        events_of: returns the events that the result raises.
        on_ended: called once, when the call has ended and its arguments are no longer needed, with the
            result; ``None`` if it failed.
        timeout: seconds that the call may take.
        wait: waits before the call; called with a function that says whether a caller still wants it. It ends
            if all callers have gone away, and the call is not made then.
    """

    def __init__(
        self,
        session: ConnectorSession,
        make: Callable[[], Awaitable[T]],
        events_of: Callable[[T], Sequence[NewEvent]],
        on_ended: Callable[[T | None], None],
        timeout: float = CALL_TIMEOUT,
        wait: Callable[[Callable[[], bool]], Awaitable[None]] | None = None,
    ) -> None:
        self._session = session
        # Only until the call has ended: it may hold a file, and the events may wait for long.
        self._make: Callable[[], Awaitable[T]] | None = make
        self._events_of = events_of
        self._on_ended = on_ended
        self._timeout = timeout
        self._result: T | None = None
        self._error: HookgwError | None = None
        self._made, self._reported = trio.Event(), trio.Event()
        self._wait = wait
        self._waiting = trio.CancelScope()
        self._callers: list[Callable[[], bool]] = []

    def begin(self) -> None:
        """Count the call as one of its session, until :meth:`run` ends.

        Raises:
            TooManyRequests: as many calls of the session as allowed are in progress.
        """
        self._session.begin_call()

    async def run(self) -> None:
        """Make the call, then raise its events. :meth:`result` returns the outcome, also a failure."""
        try:
            try:
                assert self._make is not None  # noqa: S101 -- run() is called once
                if self._wait is not None:
                    with self._waiting:
                        await self._wait(lambda: any(is_there() for is_there in self._callers))
                    if self._waiting.cancelled_caught:
                        return  # there is nobody to tell
                self._result = await call_in_time(self._session.connector, self._make, self._timeout)
            except HookgwError as error:
                self._error = error
            finally:
                self._make = None
                self._on_ended(self._result)
                self._made.set()
            if self._result is not None and (events := self._events_of(self._result)):
                await self._report(events)
        finally:
            self._made.set()  # after a fault, too: the caller waits
            self._reported.set()
            self._session.end_call()

    async def result(self, is_there: Callable[[], bool] = lambda: True) -> T:
        """Wait until the call is made and its events are on disk (unless the disk refuses for long).

        Args:
            is_there: says whether the caller is still there.

        Raises:
            NetworkRefused: the network refused or did not answer, or the connector failed.
            NotSupported: the network has no such call.
            Invalid: the connector cannot do this.
            Unavailable: hookgw shut down meanwhile, or has a fault, which the log names.
        """
        self._callers.append(is_there)
        try:
            await self._made.wait()
            with trio.move_on_after(EVENT_TIMEOUT):
                await self._reported.wait()
        finally:
            self._callers.remove(is_there)
            if not self._callers:
                self._waiting.cancel()  # without effect if the call has begun
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise Unavailable(CUT_OFF())
        return self._result

    async def _report(self, events: Sequence[NewEvent]) -> None:
        # The call has taken effect. A failure from here on must not make the caller repeat it.
        try:
            await self._session.emit_all(events)
        except HookgwError as error:
            kinds = sorted({event.kind for event in events})
            logger.warning(
                "events of a call not stored",
                instance=self._session.instance,
                kinds=kinds,
                reason=str(error),
            )
