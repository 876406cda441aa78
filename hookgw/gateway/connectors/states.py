"""The connection states of instances: a table that intake, connectors and the API share."""

from __future__ import annotations

from hookgw.gateway.connectors.session import ConnectorSession
from hookgw.models.connectors import ConnectionState
from hookgw.models.events import Event

# Other gateways report "refused" for a connection that the network rejected.
_STATES = {**{state.value: state for state in ConnectionState}, "refused": ConnectionState.CLOSE}


class ConnectionStates:
    """What is known of each instance's connection.

    Attributes:
        sessions: of the connectors that run, by instance.
    """

    def __init__(self) -> None:
        # Connectors adds and removes them; everybody else only looks.
        self.sessions: dict[str, ConnectorSession] = {}
        self._reported: dict[str, ConnectionState] = {}
        self._close_reasons: dict[str, str] = {}

    def state(self, instance: str) -> ConnectionState:
        """Return the state of an instance's connection: its connector's, or what its events reported."""
        session = self.sessions.get(instance)
        return session.state if session else self._reported.get(instance, ConnectionState.CLOSE)

    def close_reason(self, instance: str) -> str | None:
        """Return why an instance's connection is closed: a sentence, or ``None`` if nothing said so."""
        if self.state(instance) is not ConnectionState.CLOSE:
            return None
        session = self.sessions.get(instance)
        if session is not None:
            return session.close_reason
        return self._close_reasons.get(instance)

    def closed(self, instance: str, reason: str) -> None:
        """Keep why an instance's connector ended."""
        self._close_reasons[instance] = reason

    def sender(self, instance: str) -> str | None:
        """Return the account that an instance is connected as, if it is known."""
        session = self.sessions.get(instance)
        return session.sender if session else None

    def note(self, event: Event) -> None:
        """Take the state from a CONNECTION_UPDATE, unless a connector runs, which knows better."""
        value = event.data.get("state") if isinstance(event.data, dict) else None
        state = _STATES.get(value) if isinstance(value, str) else None
        if state is not None and event.instance not in self.sessions:
            self._reported[event.instance] = state
            self._close_reasons[event.instance] = "An event reported that it is closed."

    def forget(self, instance: str) -> None:
        """Forget an instance that was deleted."""
        self._reported.pop(instance, None)
        self._close_reasons.pop(instance, None)
