"""The gateway's side of a connected instance."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
import msgspec
import structlog
import trio

from hookgw.models.clock import Clock
from hookgw.models.connectors import ConnectionState, NewEvent, QRCode
from hookgw.models.errors import Conflict, TooManyRequests, Unavailable
from hookgw.models.events import Event, new_event_id
from hookgw.models.instances import Instance, InstanceSettings
from hookgw.plugins.contained_connector import ContainedConnector

logger = structlog.get_logger("hookgw.connector")

Accept = Callable[[Sequence[Event]], Awaitable[object]]


class ConnectorSession:
    """One connected instance. Connectors see it as :class:`hookgw.models.connectors.Session`.

    Attributes:
        connector: runs the session.
        state, qr_code, sender: what the connector reported last.
        close_reason: why the state is ``close``: a sentence.
        has_reported: whether this run of the connector has reported an open or a closed connection.
        scope: the connector runs in it; cancel it to end the connector.
        changed: set, and replaced by a new event, when the state or the code changes, or the run ends.
        ended: set when the connector's run has ended for good.
    """

    def __init__(
        self,
        instance: Instance,
        connector: ContainedConnector,
        accept: Accept,
        clock: Clock,
        http: httpx.AsyncClient,
    ) -> None:
        self.connector = connector
        self.state = ConnectionState.CLOSE
        self.close_reason = "The connector has not reported a connection yet."
        self.has_reported = False
        self.qr_code: QRCode | None = None
        self.sender: str | None = None
        self.scope = trio.CancelScope()
        self.changed = trio.Event()
        self.ended = trio.Event()
        self._instance = instance
        self._accept = accept
        self._clock = clock
        self._http = http
        self._is_closed = False

    @property
    def instance(self) -> str:
        """The instance's name."""
        return self._instance.name

    @property
    def options(self) -> dict[str, Any]:
        """What the instance was created with."""
        return self._instance.options

    @property
    def settings(self) -> InstanceSettings:
        """How the account should behave."""
        return self._instance.settings

    @property
    def ingest_url(self) -> str | None:
        """Where the network may call hookgw."""
        raise NotImplementedError

    def media_url(self, reference: str, *, mimetype: str = "", file_name: str = "") -> str:
        """Return a signed link to an inbound file."""
        raise NotImplementedError

    def wants_base64(self) -> bool:
        """Return whether a registration of the instance wants media inside its events."""
        raise NotImplementedError

    async def emit_all(self, events: Sequence[NewEvent], *, state: Any = msgspec.UNSET) -> None:
        """Store events and the connector's state in one commit."""
        raise NotImplementedError

    async def load_state(self) -> Any:
        """Return the state that was saved last."""
        raise NotImplementedError

    async def save_state(self, state: Any) -> None:
        """Keep a JSON value."""
        raise NotImplementedError

    @property
    def http(self) -> httpx.AsyncClient:
        """The gateway's client for plugins."""
        return self._http

    async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
        """Raise an event. Waits while the gateway cannot store it, which holds the connector back."""
        if self._is_closed:
            raise Conflict(f"This session of the instance {self.instance!r} is over.")
        event = Event(
            id=event_id or new_event_id(),
            kind=kind,
            instance=self.instance,
            data_json=Event.encode(data),
            time=self._clock.wall(),
            sender=self.sender,
        )
        while True:
            # The same event with the same id: if it was stored after all, the repeat is a duplicate.
            try:
                await self._accept([event])
            except (Unavailable, TooManyRequests) as error:
                logger.warning("connector held back", instance=self.instance, reason=str(error))
                await trio.sleep(error.retry_after)
            else:
                return

    async def show_qr_code(self, qr_code: QRCode) -> None:
        """Keep the code for ``connect``, and raise QRCODE_UPDATED."""
        # The API shows what is kept here. A wrong type must fail in the connector that brought it.
        qr_code = msgspec.convert(msgspec.to_builtins(qr_code), QRCode)
        self.qr_code = qr_code
        self.announce()
        shown = {"instance": self.instance, "code": qr_code.code, "base64": qr_code.base64}
        if qr_code.pairing_code is not None:
            shown["pairingCode"] = qr_code.pairing_code
        await self.emit("QRCODE_UPDATED", {"qrcode": shown})

    async def set_state(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        """Keep the state and, if it has changed, raise CONNECTION_UPDATE."""
        state, reason = ConnectionState(state), int(reason)
        self.has_reported = self.has_reported or state is not ConnectionState.CONNECTING
        if state is ConnectionState.CLOSE:
            self.close_reason = f"The connector reported that it is closed (statusReason {reason})."
        wuid = more.get("wuid")
        if isinstance(wuid, str):
            self.sender = str.__str__(wuid)
        if state is not ConnectionState.CONNECTING:  # a code is of no use once the connection is open
            self.qr_code = None
        if state is self.state:
            return
        self.state = state
        self.announce()
        data = {"instance": self.instance, "state": state.value, "statusReason": reason, **more}
        await self.emit("CONNECTION_UPDATE", data)

    async def close(self) -> None:
        """Report the closed connection, and refuse further events of this session."""
        # A plugin may keep the session after its instance is deleted, when another instance has the name.
        try:
            await self.set_state(ConnectionState.CLOSE, 401)
        finally:
            self._is_closed = True

    def announce(self) -> None:
        """Wake the tasks that wait for a change."""
        # A new event each time: a waiter of the next change must not wake for this one.
        self.changed.set()
        self.changed = trio.Event()
