"""A scripted connector without a messaging network."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, get_args

import trio

from hookgw.models.connectors import ConnectionState, Connector, Session
from hookgw.models.errors import NetworkRefused
from hookgw.models.messages import Message, TextMessage
from hookgw.plugins.hookspecs import hookimpl

Script = Callable[[Session], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that a :class:`FakeConnector` sent."""

    instance: str
    message: Message
    key: str


async def connect_at_once(session: Session) -> None:
    """Open the connection with an account named after the instance. This is the default script."""
    await session.set_state(ConnectionState.CONNECTING)
    await session.set_state(
        ConnectionState.OPEN, wuid=f"{session.instance}@fake", profileName=session.instance
    )


class FakeConnector:
    """A connector that the test controls. It is also a plugin: pass it to the gateway as one.

    Each run of an instance calls the script, then waits until it is cancelled or ended by :meth:`log_out`.
    To emit events, use the session: ``await connector.session("shop").emit(…)``.

    Args:
        name: the instances' ``integration``.
        script: called at the start of each run; by default :func:`connect_at_once`. If it raises, the run
            fails, and the gateway restarts it as it restarts any connector.

    Attributes:
        sent: the messages that were sent, in order, without refused ones.
        runs: the number of runs so far, over all instances.
        refusal: while this is a sentence, every message is refused with it.
    """

    def __init__(self, name: str = "fake", *, script: Script = connect_at_once) -> None:
        self.name = name
        self.message_types = get_args(Message)
        self.sent: list[SentMessage] = []
        self.runs = 0
        self.refusal: str | None = None
        self._script = script
        self._running: dict[str, tuple[Session, trio.Event]] = {}

    def session(self, instance: str) -> Session:
        """Return the session of a running instance.

        Raises:
            KeyError: the instance is not running.
        """
        return self._running[instance][0]

    def log_out(self, instance: str) -> None:
        """End the instance's run, as if the account was logged out on the phone.

        The script must have reported ``open`` or ``close``: without either, the return is a failure.

        Raises:
            KeyError: the instance is not running.
        """
        self._running[instance][1].set()

    async def run(self, session: Session) -> None:
        """Call the script, then wait until cancelled or logged out."""
        self.runs += 1
        log_out = trio.Event()
        self._running[session.instance] = (session, log_out)
        try:
            await self._script(session)
            await log_out.wait()
        finally:
            # Also after cancellation: session() must never return a session that is over.
            del self._running[session.instance]

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        """Add the message to :attr:`sent`.

        Returns:
            The ``data`` of SEND_MESSAGE.

        Raises:
            NetworkRefused: :attr:`refusal` is set.
        """
        # A real network has a checkpoint here, where the caller can be cancelled.
        await trio.lowlevel.checkpoint()
        if self.refusal is not None:
            raise NetworkRefused(self.refusal)
        self.sent.append(SentMessage(session.instance, message, key))
        text = message.text if isinstance(message, TextMessage) else type(message).__name__
        return {
            "key": {"remoteJid": f"{message.number}@fake", "fromMe": True, "id": f"FAKE{len(self.sent)}"},
            "message": {"conversation": text},
            "messageType": "conversation",
            "messageTimestamp": int(time.time()),
            "status": "PENDING",
        }

    @hookimpl
    def hookgw_connectors(self) -> list[Connector]:
        """Provide this connector."""
        return [self]
