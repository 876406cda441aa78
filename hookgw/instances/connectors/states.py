"""The connection states of instances, a table that intake, connectors and the API share."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import trio

from hookgw.instances.connectors.session import ConnectorSession, kept_reason
from hookgw.records.connectors import ConnectionState
from hookgw.records.events import Event
from hookgw.records.instances import Disconnection

# Other gateways report "refused" for a connection that the network rejected.
STATES = {**{state.value: state for state in ConnectionState}, "refused": ConnectionState.CLOSE}


_LONGEST = 2048
"""Characters of a text about an account; longer ones are not kept."""


class Account(NamedTuple):
    """The account that an instance is connected as; ``None`` for values that were not reported."""

    jid: str | None = None
    profile_name: str | None = None
    profile_picture_url: str | None = None


LOGGED_OUT_HERE = "The instance was logged out of its connector."
"""The reason of a connection that a user of hookgw has ended on purpose."""


class Closing(NamedTuple):
    """The end of a connection: ``at`` in seconds since the epoch, ``reason`` the ``statusReason``."""

    at: float
    reason: int | None


class ConnectionReport(NamedTuple):
    """An event's report of a connection.

    Attributes:
        at: in seconds since the epoch.
        status_reason: of a closed connection; ``None`` if it is unknown.
        account: of an open connection.
    """

    instance: str
    state: ConnectionState
    at: float
    status_reason: int | None
    account: Account


class ConnectionStates:
    """The connections of instances, as far as this node knows.

    Args:
        holds: returns whether this node has an instance.
        now: returns the time, in seconds since the epoch.

    Attributes:
        sessions: of the connectors that run, by instance.
    """

    def __init__(
        self, holds: Callable[[str], bool] = lambda _: True, now: Callable[[], float] = time.time
    ) -> None:
        self._holds = holds
        self._now = now
        self._for_others: dict[str, ConnectionReport] = {}
        self._has_for_others = trio.Event()
        # Connectors adds and removes them; all others only look.
        self.sessions: dict[str, ConnectorSession] = {}
        self._reported: dict[str, ConnectionState] = {}
        self._close_reasons: dict[str, str] = {}
        self._accounts: dict[str, Account] = {}
        self._closings: dict[str, Closing] = {}
        self._open_since: set[str] = set()  # those of the closings that an open connection has followed
        self._unstored: set[str] = set()
        self._has_unstored = trio.Event()

    def state(self, instance: str) -> ConnectionState:
        """Return the state of an instance's connection: its connector's, or the last one of its events."""
        session = self.sessions.get(instance)
        if session is None:
            return self._reported.get(instance, ConnectionState.CLOSE)
        # Whatever its connector says, an instance that shows a code is connecting until the code is scanned:
        # clients ask for the state again and again meanwhile, and stop when it is closed.
        return ConnectionState.CONNECTING if session.qr_code is not None else session.state

    def not_closed(self) -> dict[str, ConnectionState]:
        """Return the state of every connection that is not closed, by instance: also of former ones."""
        found: dict[str, ConnectionState] = {**self._reported}
        found.update((name, self.state(name)) for name in self.sessions)
        return {name: one for name, one in found.items() if one != ConnectionState.CLOSE}

    def ended(self) -> set[str]:
        """Return the instances whose connection has ended at least once."""
        return {*self._closings, *(name for name, one in self.sessions.items() if one.closed is not None)}

    def with_number(self, digits: str) -> list[str]:
        """Return the instances whose account has these digits in its number."""
        found = [
            name
            for name, one in self._accounts.items()
            if digits in (one.jid or "") and name not in self.sessions
        ]
        return found + [name for name, one in self.sessions.items() if digits in (one.sender or "")]

    def is_reported(self, instance: str) -> bool:
        """Return whether an event has reported a state since this process has the instance."""
        return instance in self._reported

    def close_reason(self, instance: str) -> str | None:
        """Return why an instance's connection is closed, in a sentence, or ``None`` if no report said so."""
        if self.state(instance) is not ConnectionState.CLOSE:
            return None
        session = self.sessions.get(instance)
        if session is not None:
            return session.close_reason
        return self._close_reasons.get(instance)

    def closed(self, session: ConnectorSession, reason: str) -> None:
        """Keep the end of an instance's connector, with its reason and the time."""
        # Its CONNECTION_UPDATE may not have been stored: an older report must not count again.
        self._reported[session.instance] = ConnectionState.CLOSE
        self._close_reasons[session.instance] = reason
        if session.closed is not None:
            self._closings[session.instance] = Closing(*session.closed)
        if session.state is not ConnectionState.OPEN:
            self._open_since.discard(session.instance)
        self.changed(session.instance)

    def logged_out_here(self, instance: str) -> None:
        """Keep that a connection was ended on purpose; it may have been closed before."""
        if instance in self._closings:
            self._close_reasons[instance] = LOGGED_OUT_HERE
            self.changed(instance)

    def account(self, instance: str) -> Account:
        session = self.sessions.get(instance)
        if session is None:
            return self._accounts.get(instance, Account())
        return Account(session.sender, session.profile_name, session.profile_picture_url)

    def closing(self, instance: str) -> Closing | None:
        session = self.sessions.get(instance)
        if session is not None and session.closed is not None:
            return Closing(*session.closed)
        return self._closings.get(instance)

    def disconnection(self, instance: str) -> Disconnection | None:
        """Return the last end of an instance's connection, to be stored with the instance."""
        closing = self.closing(instance)
        if closing is None:
            return None
        session = self.sessions.get(instance)
        if session is not None and session.closed is not None:
            reason, is_over = session.close_reason, session.state is ConnectionState.OPEN
        else:
            reason = self._close_reasons.get(instance, "")
            is_over = instance in self._open_since or (
                session is not None and session.state is ConnectionState.OPEN
            )
        return Disconnection(at=closing.at, code=closing.reason, reason=reason, is_over=is_over)

    def restore(self, instance: str, stored: Disconnection) -> None:
        """Take over the stored end of an instance's connection, unless a newer one is known."""
        if instance not in self._closings:
            self._closings[instance] = Closing(stored.at, stored.code)
            self._close_reasons[instance] = stored.reason
            if stored.is_over or self._reported.get(instance) is ConnectionState.OPEN:
                self._open_since.add(instance)

    def changed(self, instance: str) -> None:
        """Let :meth:`take_unstored` return an instance: its connection has ended or is open again."""
        self._unstored.add(instance)
        self._has_unstored.set()

    async def take_unstored(self) -> Collection[str]:
        """Wait until connections have ended, or are open again, and return the names of their instances."""
        await self._has_unstored.wait()
        self._has_unstored = trio.Event()
        taken, self._unstored = self._unstored, set()
        return taken

    def sender(self, instance: str) -> str | None:
        session = self.sessions.get(instance)
        return session.sender if session else None

    def note(self, event: Event) -> None:
        """Take the state from a CONNECTION_UPDATE, which any node may have accepted."""
        data = event.data if isinstance(event.data, dict) else {}
        value = data.get("state")
        state = STATES.get(value) if isinstance(value, str) else None
        if state is None:
            return
        reason = data.get("statusReason")
        account = Account(*(_text(data, name) for name in ("wuid", "profileName", "profilePictureUrl")))
        # Not the time of the event, which is its producer's: Evolution API writes the local one.
        self.apply(ConnectionReport(event.instance, state, self._now(), kept_reason(reason), account))

    def apply(self, report: ConnectionReport) -> None:
        """Take the state from a report, unless a connector runs, which knows better.

        A report of another node's instance waits in :meth:`take_for_others`.
        """
        instance, state = report.instance, report.state
        if not self._holds(instance):
            self._for_others[instance] = report
            self._has_for_others.set()
        elif instance not in self.sessions:
            known = self._closings.get(instance)
            self._reported[instance] = state
            if state is ConnectionState.OPEN:
                self._accounts[instance] = report.account
                if known is not None and instance not in self._open_since:
                    self._open_since.add(instance)
                    self.changed(instance)
            elif state is ConnectionState.CLOSE:
                # While it is closed, a report without a code says nothing new; neither does that of the node
                # which had the instance before.
                is_closed = known is not None and instance not in self._open_since
                if not (is_closed and report.status_reason in (None, known and known.reason)):
                    self._close_reasons[instance] = "An event reported that it is closed."
                    self._closings[instance] = Closing(report.at, report.status_reason)
                    self._open_since.discard(instance)
                    self.changed(instance)

    async def take_for_others(self) -> list[ConnectionReport]:
        """Wait for reports of other nodes' instances, and return the newest of each."""
        await self._has_for_others.wait()
        self._has_for_others = trio.Event()
        taken, self._for_others = self._for_others, {}
        return list(taken.values())

    def put_back(self, reports: Iterable[ConnectionReport]) -> None:
        """Keep reports that could not be passed on, unless there are newer ones."""
        for report in reports:
            if report.instance not in self._for_others:
                self.apply(report)

    def leave(self, instance: str) -> None:
        """Forget an instance that moves to another node, and pass on what its events reported."""
        state = self._reported.get(instance)
        closing = self._closings.get(instance)
        account = self._accounts.get(instance, Account())
        self.forget(instance)
        if state is not None and (closing is not None or state is not ConnectionState.CLOSE):
            at, reason = closing or Closing(0.0, None)
            self.apply(ConnectionReport(instance, state, at, reason, account))

    def forget(self, instance: str) -> None:
        self._reported.pop(instance, None)
        self._close_reasons.pop(instance, None)
        self._accounts.pop(instance, None)
        self._closings.pop(instance, None)
        self._open_since.discard(instance)
        self._unstored.discard(instance)


def _text(data: dict[str, Any], name: str) -> str | None:
    value = data.get(name)
    # A producer may send a megabyte.
    return value if isinstance(value, str) and len(value) <= _LONGEST else None
