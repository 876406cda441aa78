"""Sends one text message through a connector."""

from __future__ import annotations

from typing import Any

import structlog
import trio

from hookgw.gateway.connectors.session import ConnectorSession
from hookgw.models.connectors import Connector
from hookgw.models.errors import HookgwError, Invalid, NetworkRefused, Unavailable
from hookgw.models.events import Event
from hookgw.plugins.hook_implementation import reason_of
from hookgw.plugins.supervise import run_once

logger = structlog.get_logger("hookgw.connector")

SEND_TIMEOUT = 30.0
"""Seconds that a connector may take to send."""
EVENT_TIMEOUT = 10.0
"""Seconds that the caller waits for SEND_MESSAGE to be on disk."""


class OutgoingMessage:
    """One message. :meth:`run` is a task of the gateway, so that it goes on if the caller goes away."""

    def __init__(self, session: ConnectorSession, number: str, text: str) -> None:
        self._session = session
        self._number = number
        self._text = text
        self._message: dict[str, Any] | None = None
        self._error: HookgwError | None = None
        self._sent, self._reported = trio.Event(), trio.Event()

    async def run(self) -> None:
        """Send, then raise SEND_MESSAGE. The outcome, also a failure, is for :meth:`result`."""
        try:
            self._message = await self._send()
            self._sent.set()
            await self._report(self._message)
        except HookgwError as error:
            self._error = error
        finally:
            self._sent.set()
            self._reported.set()

    async def result(self) -> dict[str, Any]:
        """Wait until the message is sent and its event is on disk (unless the disk refuses for long).

        Raises:
            NetworkRefused: the network refused the message or did not answer, or the connector failed.
            Invalid: the connector cannot send this.
            Unavailable: hookgw shut down meanwhile.
        """
        await self._sent.wait()
        with trio.move_on_after(EVENT_TIMEOUT):
            await self._reported.wait()
        if self._error is not None:
            raise self._error
        if self._message is None:
            raise Unavailable("hookgw shut down during the send. The message may or may not have been sent.")
        return self._message

    async def _send(self) -> dict[str, Any]:
        answers: list[dict[str, Any]] = []

        async def send() -> None:
            answers.append(_checked(await self._connector.send_text(self._session, self._number, self._text)))

        with trio.move_on_after(SEND_TIMEOUT) as patience:
            error = await run_once(send)
        if patience.cancelled_caught:
            raise NetworkRefused(f"The network did not answer within {SEND_TIMEOUT:g} s.")
        if error is not None:
            raise self._refusal(error) from error
        return answers[0]

    def _refusal(self, error: BaseException) -> HookgwError:
        """Return the error that the caller gets for a connector's failure."""
        # A connector's own nursery wraps what it raises.
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, Invalid | NetworkRefused):
            return error
        name = self._connector.name
        logger.error("connector failed to send", instance=self._instance, connector=name, exc_info=error)
        return NetworkRefused(f"The connector {name!r} failed: {reason_of(error)}")

    async def _report(self, message: dict[str, Any]) -> None:
        # The message is sent. A failure from here on must not make the caller send it again.
        try:
            await self._session.emit("SEND_MESSAGE", message)
        except HookgwError as error:
            logger.warning("SEND_MESSAGE not stored", instance=self._instance, reason=str(error))

    @property
    def _connector(self) -> Connector:
        return self._session.connector

    @property
    def _instance(self) -> str:
        return self._session.instance


def _checked(message: object) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise TypeError(f"send_text returned {type(message).__name__}; return the message as a dict")
    Event.encode(message)
    return message
