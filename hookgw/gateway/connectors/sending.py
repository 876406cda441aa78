"""Sends one message through a connector."""

from __future__ import annotations

from typing import Any

import structlog
import trio

from hookgw.gateway.connectors.session import ConnectorSession
from hookgw.models.errors import HookgwError, NetworkRefused, PluginFailed, Unavailable
from hookgw.models.messages import Message

logger = structlog.get_logger("hookgw.connector")

SEND_TIMEOUT = 30.0
"""Seconds that a connector may take to send."""
EVENT_TIMEOUT = 10.0
"""Seconds that the caller waits for SEND_MESSAGE to be on disk."""


class OutgoingMessage:
    """One message. :meth:`run` is a task of the gateway, so that it goes on if the caller goes away.

    Args:
        session: of the instance.
        message: what to send.
        key: see ``Connector.send``.
    """

    def __init__(self, session: ConnectorSession, message: Message, key: str) -> None:
        self._session = session
        self._outgoing = message
        self._key = key
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
            NotSupported: the network has no such message.
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
        connector = self._session.connector
        with trio.move_on_after(SEND_TIMEOUT):
            try:
                return await connector.send(self._session, self._outgoing, key=self._key)
            except PluginFailed as failure:
                raise NetworkRefused(
                    f"The connector {connector.name!r} failed: {failure.reason}"
                ) from failure
        raise NetworkRefused(f"The network did not answer within {SEND_TIMEOUT:g} s.")

    async def _report(self, message: dict[str, Any]) -> None:
        # The message is sent. A failure from here on must not make the caller send it again.
        try:
            await self._session.emit("SEND_MESSAGE", message)
        except HookgwError as error:
            logger.warning("SEND_MESSAGE not stored", instance=self._instance, reason=str(error))

    @property
    def _instance(self) -> str:
        return self._session.instance
