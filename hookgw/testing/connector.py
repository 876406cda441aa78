"""A scripted connector: what a connector does, without a messaging network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import trio

from hookgw.models.connectors import ConnectionState, Connector, Session
from hookgw.models.errors import NetworkRefused
from hookgw.plugins.hookspecs import hookimpl

Script = Callable[[Session], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SentText:
    """A message that an instance was asked to send."""

    instance: str
    number: str
    text: str


async def connect_at_once(session: Session) -> None:
    """The usual script: the connection opens, and the account's name is known."""
    await session.set_state(ConnectionState.CONNECTING)
    await session.set_state(
        ConnectionState.OPEN, wuid=f"{session.instance}@fake", profileName=session.instance
    )


class FakeConnector:
    """A connector that does what the test says. It is a plugin too: pass it to the gateway as one.

    Each run of an instance plays the script, then waits until it is cancelled or told to end by
    :meth:`log_out`. To raise events, use the session: ``await connector.session("shop").emit(…)``.

    Args:
        name: what ``integration`` says.
        script: played at the start of each run; by default :func:`connect_at_once`. If it raises, the
            run fails, as where a network breaks the connection.

    Attributes:
        sent: the messages that were sent, in order, without those that were refused.
        runs: how many runs have begun, of all instances.
        refusal: while it is a sentence, every send is refused with it.
    """

    def __init__(self, name: str = "fake", *, script: Script = connect_at_once) -> None:
        self.name = name
        self.sent: list[SentText] = []
        self.runs = 0
        self.refusal: str | None = None
        self._script = script
        self._running: dict[str, tuple[Session, trio.Event]] = {}

    def session(self, instance: str) -> Session:
        """The session of an instance that is running.

        Raises:
            KeyError: it is not running.
        """
        return self._running[instance][0]

    def log_out(self, instance: str) -> None:
        """End the instance's run, as where its account was logged out on the phone.

        Raises:
            KeyError: it is not running.
        """
        self._running[instance][1].set()

    async def run(self, session: Session) -> None:
        """Play the script, then wait to be cancelled or logged out."""
        self.runs += 1
        log_out = trio.Event()
        self._running[session.instance] = (session, log_out)
        try:
            await self._script(session)
            await log_out.wait()
        finally:
            del self._running[session.instance]

    async def send_text(self, session: Session, number: str, text: str) -> dict[str, Any]:
        """Keep the message in :attr:`sent`.

        Returns:
            it, in the shape of ``data`` of SEND_MESSAGE.

        Raises:
            NetworkRefused: :attr:`refusal` is set.
        """
        await trio.lowlevel.checkpoint()
        if self.refusal is not None:
            raise NetworkRefused(self.refusal)
        self.sent.append(SentText(session.instance, number, text))
        return {
            "key": {"remoteJid": f"{number}@fake", "fromMe": True, "id": f"FAKE{len(self.sent)}"},
            "message": {"conversation": text},
            "messageType": "conversation",
            "status": "PENDING",
        }

    @hookimpl
    def hookgw_connectors(self) -> list[Connector]:
        """Give itself."""
        return [self]
