"""One text message on its way through a connector."""

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

SEND_PATIENCE = 30.0
"""How long a connector may take to send, in seconds."""
TELL_PATIENCE = 10.0
"""How long the sender of a message waits for its SEND_MESSAGE to be on disk, in seconds."""


class OutgoingMessage:
    """One message. :meth:`run` is a task of the gateway's: it goes on where the one who asked goes away."""

    def __init__(self, session: ConnectorSession, number: str, text: str) -> None:
        self._session = session
        self._number = number
        self._text = text
        self._message: dict[str, Any] | None = None
        self._error: HookgwError | None = None
        self._sent, self._told = trio.Event(), trio.Event()

    async def run(self) -> None:
        """Send, then raise SEND_MESSAGE. It raises nothing: the outcome is for :meth:`result`."""
        try:
            self._message = await self._send()
            self._sent.set()
            await self._tell(self._message)
        except HookgwError as error:
            self._error = error
        finally:
            self._sent.set()
            self._told.set()

    async def result(self) -> dict[str, Any]:
        """Wait for the message: it is sent, and its event on disk unless the disk refuses for long.

        Raises:
            NetworkRefused: the network said no, or did not answer, or the connector failed.
            Invalid: the connector cannot send this.
            Unavailable: the gateway stopped meanwhile.
        """
        await self._sent.wait()
        with trio.move_on_after(TELL_PATIENCE):
            await self._told.wait()
        if self._error is not None:
            raise self._error
        if self._message is None:
            raise Unavailable("hookgw stopped while it sent; nobody knows whether the message went out.")
        return self._message

    async def _send(self) -> dict[str, Any]:
        answers: list[dict[str, Any]] = []

        async def send() -> None:
            answers.append(_checked(await self._connector.send_text(self._session, self._number, self._text)))

        with trio.move_on_after(SEND_PATIENCE) as patience:
            error = await run_once(send)
        if patience.cancelled_caught:
            raise NetworkRefused(f"The network did not answer within {SEND_PATIENCE:g} s.")
        if error is not None:
            raise self._refusal(error) from error
        return answers[0]

    def _refusal(self, error: BaseException) -> HookgwError:
        """What the caller hears of an error of the connector's."""
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, Invalid | NetworkRefused):
            return error
        name = self._connector.name
        logger.error("connector failed to send", instance=self._instance, connector=name, exc_info=error)
        return NetworkRefused(f"The connector {name!r} failed: {reason_of(error)}")

    async def _tell(self, message: dict[str, Any]) -> None:
        """Raise SEND_MESSAGE. The message has gone out, so what goes wrong here is not the sender's."""
        try:
            await self._session.emit("SEND_MESSAGE", message)
        except HookgwError as error:
            logger.warning("a sent message raised no event", instance=self._instance, reason=str(error))

    @property
    def _connector(self) -> Connector:
        return self._session.connector

    @property
    def _instance(self) -> str:
        return self._session.instance


def _checked(message: object) -> dict[str, Any]:
    """What a connector returned, if it is what it should be."""
    if not isinstance(message, dict):
        raise TypeError(f"send_text returned {type(message).__name__}; return the message as a dict")
    Event.encode(message)
    return message
