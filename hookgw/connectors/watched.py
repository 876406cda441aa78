"""The base of connections to servers that do not report what becomes of an account: hookgw looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any

import structlog
import trio

from hookgw.connectors.errors import Refused, wait_after
from hookgw.connectors.json_values import filled
from hookgw.kernel.errors import NetworkRefused
from hookgw.records.connectors import ConnectionState, Session
from hookgw.records.instances import InstanceSettings

logger = structlog.get_logger("hookgw.connector")

TOLERATED = 2
"""Looks that may fail in a row before an open connection counts as closed: the server may be back soon."""


class StatusReason(IntEnum):
    """Why a connection is closed: ``statusReason`` of CONNECTION_UPDATE, in the numbers of Baileys.

    Attributes:
        LOGGED_OUT: the account was logged out, or nobody scanned its code: receivers want a new login.
        FORBIDDEN: the server refuses hookgw.
        TIMED_OUT: the server does not answer.
        CONNECTION_CLOSED: the account has lost its connection to the network.
        BAD_SESSION: the account fails otherwise.
    """

    LOGGED_OUT = 401
    FORBIDDEN = 403
    TIMED_OUT = 408
    CONNECTION_CLOSED = 428
    BAD_SESSION = 500


class WatchedConnection:
    """The connection of an account, on a server that is looked at again and again.

    Derive a class with :meth:`look`, and with :meth:`show_online` if the network has that.

    Attributes:
        network: the server's name, for the log.
        session, nursery: of the instance, and of its run.
        settings: how the account should behave.
        is_open: whether the connection is open, as far as it was reported.
    """

    network = "The network"

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self.session = session
        self.nursery = nursery
        self.settings = session.settings
        self.is_open = False
        self._wake = trio.Event()

    async def look(self) -> float:
        """Compare the account with what it should be, and change it; return the seconds to the next look.

        Raises:
            NetworkRefused: see :meth:`note_failure`.
        """
        raise NotImplementedError

    async def show_online(self, is_online: bool) -> None:
        """Show the account as online, or not."""
        raise NotImplementedError

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    async def woken_within(self, seconds: float) -> bool:
        """Wait so long, or until somebody wants a look now; return whether that is so."""
        with trio.move_on_after(seconds):
            await self._wake.wait()
        return self._wake.is_set()

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        failures = 0
        while True:
            self._wake = trio.Event()
            try:
                wait, failures = await self.look(), 0
            except NetworkRefused as error:
                failures += 1
                wait = await self.note_failure(error, failures)
            await self.woken_within(wait)

    async def note_failure(self, error: NetworkRefused, failures: int) -> float:
        """Report a failed look, the so many-th in a row; return the seconds to the next one.

        A refusal that stays closes the connection at once. Another failure closes an open connection only
        after :data:`TOLERATED` failures in a row.
        """
        if failures in (1, TOLERATED + 1):  # each look would fill the log
            logger.warning(f"{self.network} not reached", instance=self.session.instance, reason=str(error))
        if isinstance(error, Refused) and not error.is_temporary:
            reason = StatusReason.FORBIDDEN if error.is_unauthorized else StatusReason.BAD_SESSION
            await self.close(reason, str(error))
        elif not self.is_open or failures > TOLERATED:
            await self.close(StatusReason.TIMED_OUT, str(error))
        return wait_after(error, failures)

    async def close(self, reason: int, message: str) -> None:
        """Report the connection as closed, with a :class:`StatusReason` and a sentence."""
        self.is_open = False
        await self.session.set_state(ConnectionState.CLOSE, reason, message=message)

    async def report_open(self, **account: str) -> None:
        """Report the connection as open, and what is known of the account: ``wuid``, ``profileName`` …"""
        known: dict[str, Any] = filled(**account)
        await self.session.set_state(ConnectionState.OPEN, **known)
        if not self.is_open and self.settings.always_online:
            self.in_background(self.show_online, True)
        self.is_open = True

    def follow_settings(self, settings: InstanceSettings) -> None:
        """Use other settings of the account."""
        if settings.always_online != self.settings.always_online and self.is_open:
            self.in_background(self.show_online, settings.always_online)
        self.settings = settings

    def in_background(self, call: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> None:
        """Make a call that nobody waits for; a refusal is only logged."""

        async def run() -> None:
            try:
                await call(*args, **named)
            except NetworkRefused as error:
                reason, instance = str(error), self.session.instance
                logger.warning(f"{self.network} refused", instance=instance, reason=reason)

        self.nursery.start_soon(run)
