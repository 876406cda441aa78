"""The connections of instances to their networks: one task and one session each.

A connector's failure is its instance's own: it is logged, the state becomes ``close``, and the
connector is started again after a wait that grows.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog
import trio

from hookgw.clock import Clock
from hookgw.connectors import ConnectionState, Connector, QRCode
from hookgw.errors import Conflict, Invalid, NetworkRefused, Unavailable
from hookgw.events import Event, new_event_id
from hookgw.registrations import Instance

logger = structlog.get_logger("hookgw.connector")

_CODE_PATIENCE = 10.0
"""How long ``connect`` waits for a code or an open connection, in seconds."""
_RESTART_WAITS = (1.0, 2.0, 5.0, 15.0, 60.0)
_SEND_PATIENCE = 30.0
_TOLD_STATES = {**{state.value: state for state in ConnectionState}, "refused": ConnectionState.CLOSE}

Accept = Callable[[Sequence[Event]], Awaitable[object]]


class LiveSession:
    """The gateway's side of one connected instance; see :class:`hookgw.connectors.Session`."""

    def __init__(self, instance: Instance, accept: Accept, clock: Clock) -> None:
        self._instance = instance
        self._accept = accept
        self._clock = clock
        self.state = ConnectionState.CLOSE
        self.qr_code: QRCode | None = None
        self.sender: str | None = None
        self.scope = trio.CancelScope()
        self.changed = trio.Event()

    @property
    def instance(self) -> str:
        return self._instance.name

    @property
    def options(self) -> dict[str, Any]:
        return self._instance.options

    async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
        """Raise an event; waits while the gateway cannot take it, so a connector is held back."""
        event = Event(
            id=event_id or new_event_id(),
            kind=kind,
            instance=self.instance,
            data_json=Event.encode(data),
            time=self._clock.wall(),
            sender=self.sender,
        )
        while True:
            try:
                await self._accept([event])
            except Unavailable as error:
                logger.warning("connector held back", instance=self.instance, reason=str(error))
                await trio.sleep(error.retry_after)
            else:
                return

    async def show_qr_code(self, qr_code: QRCode) -> None:
        self.qr_code = qr_code
        self._announce()
        shown = {"instance": self.instance, "code": qr_code.code, "base64": qr_code.base64}
        if qr_code.pairing_code is not None:
            shown["pairingCode"] = qr_code.pairing_code
        await self.emit("QRCODE_UPDATED", {"qrcode": shown})

    async def set_state(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        wuid = more.get("wuid")
        if isinstance(wuid, str):
            self.sender = wuid
        if state is self.state:
            return
        self.state = state
        if state is not ConnectionState.CONNECTING:
            self.qr_code = None
        self._announce()
        data = {"instance": self.instance, "state": state.value, "statusReason": reason, **more}
        await self.emit("CONNECTION_UPDATE", data)

    def _announce(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


class Connections:
    """Runs the connectors of instances.

    Args:
        connectors: by name, from the plugins.
        accept: takes the events that sessions raise.
        clock: for the events' time.
    """

    def __init__(self, connectors: Mapping[str, Connector], accept: Accept, clock: Clock) -> None:
        self._connectors = connectors
        self._accept = accept
        self._clock = clock
        self._sessions: dict[str, LiveSession] = {}
        self._states: dict[str, ConnectionState] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the connectors' tasks until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def names(self) -> list[str]:
        """The names of the connectors that there are."""
        return sorted(self._connectors)

    def check_integration(self, name: str) -> None:
        """Raise :class:`Invalid` unless the name is empty or a connector's."""
        if name and name not in self._connectors:
            known = ", ".join(self.names()) or "none is installed"
            raise Invalid(f"integration: there is no connector {name!r}; known ones: {known}.")

    def start(self, instance: Instance) -> LiveSession:
        """Start the instance's connector, unless it runs; the caller checked that it has one."""
        session = self._sessions.get(instance.name)
        if session is None:
            if self._nursery is None:
                raise RuntimeError("connectors run only while the gateway is open")
            session = self._sessions[instance.name] = LiveSession(instance, self._accept, self._clock)
            connector = self._connectors[instance.integration]
            self._nursery.start_soon(
                self._keep_running, connector, session, name=f"connector {instance.name}"
            )
        return session

    async def connect(self, instance: Instance) -> QRCode | None:
        """Start the connector and wait a moment for its code.

        Returns:
            The code to scan; ``None`` where the connection is open or needs none.
        """
        session = self.start(instance)
        with trio.move_on_after(_CODE_PATIENCE):
            while session.qr_code is None and session.state is not ConnectionState.OPEN:
                await session.changed.wait()
        return session.qr_code

    async def stop(self, name: str) -> None:
        """End the instance's connector, if it runs, and tell of the closed connection."""
        session = self._sessions.pop(name, None)
        if session is not None:
            session.scope.cancel()
            await session.set_state(ConnectionState.CLOSE, 401)
        self._states.pop(name, None)

    def stop_all(self) -> None:
        """End every connector, without telling of it: they are started again with the gateway."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def state(self, name: str) -> ConnectionState:
        """The state of the instance's connection; for one without a connector, what events told of it."""
        session = self._sessions.get(name)
        return session.state if session else self._states.get(name, ConnectionState.CLOSE)

    def sender(self, name: str) -> str | None:
        """The account that the instance is connected as, where it is known."""
        session = self._sessions.get(name)
        return session.sender if session else None

    def note(self, event: Event) -> None:
        """Learn the state of an instance whose events come by HTTP from its CONNECTION_UPDATE."""
        told = event.data.get("state") if isinstance(event.data, dict) else None
        state = _TOLD_STATES.get(told) if isinstance(told, str) else None
        if state is not None:
            self._states[event.instance] = state

    async def send_text(self, instance: Instance, number: str, text: str) -> dict[str, Any]:
        """Send a text through the instance's connector and raise SEND_MESSAGE.

        Raises:
            Conflict: the instance has no connector, or is not connected.
            NetworkRefused: the network said no, or did not answer.
            Invalid: the connector cannot send this.
        """
        session = self._sessions.get(instance.name)
        if not instance.integration:
            raise Conflict(f"The instance {instance.name!r} has no connector: its events come by HTTP alone.")
        if session is None or session.state is not ConnectionState.OPEN:
            raise Conflict(f"The instance {instance.name!r} is not connected; call /instance/connect first.")
        message = await self._send(self._connectors[instance.integration], session, number, text)
        await session.emit("SEND_MESSAGE", message)
        return message

    async def _send(
        self, connector: Connector, session: LiveSession, number: str, text: str
    ) -> dict[str, Any]:
        try:
            with trio.fail_after(_SEND_PATIENCE):
                return await connector.send_text(session, number, text)
        except trio.TooSlowError as error:
            raise NetworkRefused(f"The network did not answer within {_SEND_PATIENCE:g} s.") from error
        except (Invalid, NetworkRefused):
            raise
        except Exception as error:  # the connector is a plugin's code: its fault is its own
            logger.exception("connector failed to send", instance=session.instance, connector=connector.name)
            reason = f"The connector {connector.name!r} failed: {error or type(error).__name__}"
            raise NetworkRefused(reason) from error

    async def _keep_running(self, connector: Connector, session: LiveSession) -> None:
        with session.scope:
            for attempt in itertools.count():
                if await self._run_once(connector, session):
                    break
                await session.set_state(ConnectionState.CLOSE, 500)
                await trio.sleep(_RESTART_WAITS[min(attempt, len(_RESTART_WAITS) - 1)])
        if self._sessions.get(session.instance) is session:
            del self._sessions[session.instance]
            await session.set_state(ConnectionState.CLOSE, 401)

    async def _run_once(self, connector: Connector, session: LiveSession) -> bool:
        """Run a connector; True where it logged out by itself, False where it failed."""
        try:
            await connector.run(session)
        except Exception:
            logger.exception("connector failed", instance=session.instance, connector=connector.name)
            return False
        return True
