"""Runs connectors: one task and one session for each connected instance.

A connector's failure concerns its instance alone: it is logged, the state becomes ``close``, and the
connector is restarted after a growing wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.concurrency.tasks import TaskFailed, run_contained
from hookgw.core.audit import act_as
from hookgw.core.ingest_url import IngestUrls
from hookgw.core.plugin_restarts import PluginRestarts
from hookgw.delivery.http.connector_client import ConnectorClients
from hookgw.instances.connectors.inbound_media import InboundMedia
from hookgw.instances.connectors.outgoing_call import OutgoingCall, call_in_time
from hookgw.instances.connectors.session import (
    LOGGED_OUT,
    Accept,
    ConnectorSession,
    EventRules,
    LoadCoverage,
    LoadState,
    no_coverage,
)
from hookgw.instances.connectors.states import LOGGED_OUT_HERE, ConnectionStates
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import (
    Conflict,
    HookgwError,
    Invalid,
    NetworkRefused,
    NotSupported,
    PluginFailed,
    Unavailable,
    WrongFields,
)
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.target_url import Origin
from hookgw.plugins.connector_options import ConnectorOptions
from hookgw.plugins.contained_connector import ContainedConnector
from hookgw.plugins.supervise import restart_on_failure
from hookgw.records.audit import Actor, ActorKind
from hookgw.records.connectors import ConnectionState, QRCode
from hookgw.records.instances import Instance, InstanceSettings
from hookgw.records.sentences import SHUTTING_DOWN

logger = structlog.get_logger("hookgw.connector")

_CODE_TIMEOUT = 10.0
"""Seconds that ``connect`` waits for a QR code or an open connection."""
_STOP_TIMEOUT = 5.0
"""Seconds that a cancelled connector may take to clean up. After that, it is left behind."""
REPORT_TIMEOUT = 1.0
"""Seconds that the CONNECTION_UPDATE of a connector that hookgw ends may wait to be stored."""


_RESTART = 515
"""The reason of CONNECTION_UPDATE that receivers know from Baileys."""
_REFUSALS = (NetworkRefused, NotSupported, Invalid)


class _Running(NamedTuple):
    """The services that connectors need only while they run."""

    nursery: trio.Nursery
    accept: Accept
    load_state: LoadState
    logged_out: Callable[[str, str], Awaitable[None]]


class Connectors(Collaborator):
    """Runs the connectors of instances.

    Args:
        connectors: by name, from the plugins.
        clients: the HTTP clients of each plugin with a connector; the caller closes them.
    """

    _connectors: Mapping[str, ContainedConnector]
    _states: ConnectionStates
    _restarts: PluginRestarts
    _clock: Clock
    _clients: Mapping[str, ConnectorClients]
    _ingest_urls: IngestUrls
    _media: InboundMedia
    _event_rules: EventRules
    _event_left_out: Callable[[str, str, str], None] = lambda *_: None
    _load_coverage: LoadCoverage = no_coverage
    _report_gap: Callable[[str, float, float], None] = lambda *_: None

    def __post_init__(self) -> None:
        self._sessions = self._states.sessions
        # Connectors that ended by themselves, until their last event is stored.
        self._closing: dict[str, ConnectorSession] = {}
        self._running: _Running | None = None
        self._is_stopping = False

    def keep(self, names: Collection[str]) -> None:
        """Remove all connectors but these, before :meth:`run`: their plugins were switched off."""
        self._connectors = {name: one for name, one in self._connectors.items() if name in names}

    async def run(
        self,
        accept: Accept,
        load_state: LoadState,
        logged_out: Callable[[str, str], Awaitable[None]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Own the tasks of connectors until cancelled, or :meth:`stop_all`.

        Args:
            accept: stores the events of sessions, and the states that they save.
            load_state: finds saved states.
            logged_out: called with the name and the id of an instance whose connector ended by itself.
        """
        async with trio.open_nursery() as nursery:
            self._running = _Running(nursery, accept, load_state, logged_out)
            try:
                task_status.started()
                await trio.sleep_forever()
            finally:
                # Before the nursery closes: a request may start an instance just then.
                self._running = None

    def names(self) -> list[str]:
        return sorted(self._connectors)

    def all(self) -> list[ContainedConnector]:
        return [self._connectors[name] for name in self.names()]

    def check_integration(self, name: str) -> None:
        """Raise :class:`WrongFields` unless the name is empty or a connector's."""
        if name and name not in self._connectors:
            known = ", ".join(self.names()) or "none is installed"
            raise WrongFields.of(
                "connector.unknown",
                "integration: there is no connector {name!r}. Known connectors: {known}.",
                name=name,
                known=known,
            )

    def missing(self, instance: Instance) -> Sentence | None:
        """Return why an instance cannot be connected, in a sentence; ``None`` if its connector is there."""
        if instance.integration in self._connectors:
            return None
        if instance.integration:
            return Sentence(
                "instance.connector_gone",
                "The connector {connector!r} is not available: its plugin is disabled or not installed. "
                "Known connectors: {known}.",
                connector=instance.integration,
                known=", ".join(self.names()) or "none",
            )
        if instance.requested_integration:
            return Sentence(
                "instance.integration_without_connector",
                "No connector is set up for {integration}: events come only over HTTP. Name one in "
                "instances.integrations, and create the instance again.",
                integration=instance.requested_integration,
            )
        return Sentence(
            "instance.no_connector",
            "The instance {instance!r} has no connector: its events come only over HTTP.",
            instance=instance.name,
        )

    def start(
        self,
        instance: Instance,
        *,
        former_servers: frozenset[Origin] = frozenset(),
        pairing_number: str | None = None,
    ) -> ConnectorSession:
        """Start an instance's connector unless it runs; the caller has checked that there is one.

        ``former_servers`` were the instance's before its options changed: it may have to undo something
        there.

        Raises:
            Unavailable: hookgw is shutting down.
        """
        session = self._sessions.get(instance.name)
        if session is None:
            connector = self._connectors[instance.integration]
            running = self._require_running()
            session = ConnectorSession(
                instance,
                connector,
                running.accept,
                running.load_state,
                self._clock,
                self._clients[connector.plugin],
                self._ingest_urls,
                self._media,
                self._event_rules,
                self._states.changed,
                self._event_left_out,
                former_servers,
                self._load_coverage,
                self._report_gap,
                pairing_number,
            )
            self._leave_closing(instance.name)
            running.nursery.start_soon(
                self._keep_running, session, running.logged_out, name=f"connector {instance.name}"
            )
            self._sessions[instance.name] = session
        return session

    def option_rules(self, integration: str) -> ConnectorOptions:
        connector = self._connectors.get(integration)
        # After a connector is gone, its secret options are unknown: all of them are masked.
        return connector.option_rules if connector else ConnectorOptions(integration, None)

    def is_running(self, name: str) -> bool:
        return name in self._sessions

    def is_closed(self, name: str) -> bool:
        """Return whether an instance's connector goes on after it has reported a closed connection.

        After a failure it does not: it waits for its next start, and clients that ask to connect every few
        seconds must not shorten that wait.
        """
        session = self._sessions.get(name)
        return (
            session is not None
            and session.is_running
            and session.has_reported
            and session.state is ConnectionState.CLOSE
        )

    def find(self, instance: Instance) -> ContainedConnector | None:
        """Return the connector of an instance; ``None`` if it has none, or its plugin is gone."""
        return self._connectors.get(instance.integration)

    def passes_on_messages(self, instance: Instance) -> bool:
        """Return whether an instance's connector passes on messages that the network keeps."""
        connector = self.find(instance)
        return connector is not None and "find_messages" in connector.methods

    def ready_session(self, name: str) -> ConnectorSession | None:
        """Return the session of an instance if its connector runs and has begun to connect."""
        session = self._sessions.get(name)
        is_ready = session is not None and session.is_running and session.has_begun
        return session if is_ready and self._running is not None else None

    def ingest_url(self, instance: Instance) -> str | None:
        """Return the URL at which the network may call hookgw for an instance, if it has one."""
        return self._ingest_urls.url(instance, self.find(instance))

    def changed(self, instance: Instance) -> None:
        """Pass the changed record of an instance to its session, if there is one."""
        session = self._sessions.get(instance.name)
        if session is not None:
            session.use(instance)

    def connected(self, instance: Instance) -> ConnectorSession:
        """Return the session of an instance whose connection is open.

        Raises:
            Conflict: the instance has no connector, or is not connected.
        """
        if missing := self.missing(instance):
            raise Conflict(missing)
        session = self._sessions.get(instance.name)
        if session is None or session.state is not ConnectionState.OPEN:
            said = session.close_message if session else ""
            if said:
                raise Conflict.of(
                    "instance.not_connected_because",
                    "The instance {name!r} is not connected: {reason}",
                    name=instance.name,
                    reason=said,
                )
            raise Conflict.of(
                "instance.not_connected",
                "The instance {name!r} is not connected; call /instance/connect first.",
                name=instance.name,
            )
        return session

    def qr_code(self, name: str) -> QRCode | None:
        """Return the code that an instance's connector shows now, if any."""
        session = self._sessions.get(name)
        return None if session is None else session.qr_code

    async def wait_for_code(self, session: ConnectorSession) -> QRCode | None:
        """Wait a moment for a connector's QR code.

        Return ``None`` if the connection is open, needs no code, or has ended, or if the connector has said
        why it is closed, or has failed.
        """
        with trio.move_on_after(_CODE_TIMEOUT):
            while (
                session.qr_code is None
                and session.state is not ConnectionState.OPEN
                and not session.close_message
                and not session.ended.is_set()
            ):
                await session.changed.wait()
        return session.qr_code

    async def stop(self, name: str) -> None:
        """End an instance's connector, if it runs, and raise CONNECTION_UPDATE for the closed connection.

        If that event cannot be stored within :data:`REPORT_TIMEOUT`, it is only logged: the connector ends
        anyway, and the instance's state says so.
        """
        ended = await self._end(name, LOGGED_OUT)
        if ended is not None:
            self._states.closed(ended, LOGGED_OUT_HERE)

    async def restart(self, instance: Instance, *, pairing_number: str | None = None) -> ConnectorSession:
        """End an instance's connector, as :meth:`stop` does, and start it with this record of the instance.

        Raises:
            Unavailable: hookgw is shutting down.
        """
        ended = await self._end(instance.name, _RESTART)
        if ended is None:
            return self.start(instance, pairing_number=pairing_number)
        self._states.closed(ended, "The connector restarts.")
        return self.start(instance, former_servers=ended.servers(), pairing_number=pairing_number)

    async def _end(self, name: str, reason: int) -> ConnectorSession | None:
        self._leave_closing(name)
        session = self._sessions.pop(name, None)
        if session is None:
            return None
        session.scope.cancel()
        # A connector that ignores cancellation must not block the instance for ever.
        with trio.move_on_after(_STOP_TIMEOUT):
            await session.ended.wait()
        self._restarts.ended(name)
        # While the backlog is full or the disk refuses, the event would wait for room, and the caller's
        # deadline would pass before it has started or removed anything.
        with trio.move_on_after(REPORT_TIMEOUT) as report:
            await self._close(session, reason)
        if report.cancelled_caught:
            logger.warning(
                "connection state not reported",
                instance=name,
                reason=f"CONNECTION_UPDATE could not be stored within {REPORT_TIMEOUT:g} s.",
            )
        return session

    def _leave_closing(self, name: str) -> None:
        """Drop the last events of an ended connector: they would come after those of the next run."""
        former = self._closing.pop(name, None)
        if former is not None:
            former.refuse_events()

    async def leave(self, names: Collection[str]) -> None:
        """End the connectors of instances without raising events: another node continues them."""
        for name in names:
            self._leave_closing(name)
        left = [session for name in names if (session := self._sessions.pop(name, None)) is not None]
        for session in left:
            session.abandon()
            self._restarts.ended(session.instance)
        with trio.move_on_after(_STOP_TIMEOUT):
            for session in left:
                await session.ended.wait()

    async def check_options(self, integration: str, options: dict[str, Any]) -> None:
        """Let a connector check the options of an instance, which are valid by its schema.

        Raises:
            Invalid: the connector refuses them.
            NetworkRefused: the connector failed, or took too long.
        """
        connector = self._connectors.get(integration)
        if connector is not None and "check_options" in connector.methods:
            call = partial(connector.check_options, options, public_url=self._ingest_urls.public_url)
            await call_in_time(connector, call)

    async def prepare(self, instance: Instance, method: Literal["restart", "logout", "remove"]) -> None:
        """Let an instance's connector prepare its end, if it runs and can; a failure is only logged.

        Args:
            method: of the connector: it prepares a restart, logs the account out, or cleans up.
        """
        session = self._sessions.get(instance.name)
        if session is None or method not in session.connector.methods:
            return
        try:
            await call_in_time(session.connector, partial(getattr(session.connector, method), session))
        except _REFUSALS as error:
            logger.warning(
                "the network was not told", instance=instance.name, method=method, reason=str(error)
            )

    async def apply_settings(self, name: str, settings: InstanceSettings) -> list[str]:
        """Pass its settings to an instance's connector, if it runs and takes any. Return the failures."""
        session = self._sessions.get(name)
        if session is None or "settings" not in session.connector.methods:
            return []
        try:
            await call_in_time(session.connector, partial(session.connector.settings, session, settings))
        except _REFUSALS as error:
            return [f"The settings are stored, but the connector has not applied them: {error}"]
        return []

    async def set_presence(self, instance: Instance, presence: str) -> None:
        session = self.connected(instance)
        call = partial(session.connector.set_presence, session, presence, number=None, delay=0.0)
        await call_in_time(session.connector, call)

    def stop_all(self) -> None:
        """End every connector without raising events: they start again with the gateway."""
        self._is_stopping = True
        running, self._running = self._running, None
        if running is not None:
            running.nursery.cancel_scope.cancel()

    def is_stopping(self) -> bool:
        return self._is_stopping

    def start_call(self, call: OutgoingCall[Any], name: str) -> None:
        """Start a call of a connector in a task of the gateway, so that it goes on without the caller.

        Raises:
            Unavailable: hookgw is shutting down.
            TooManyRequests: as many calls of the instance as allowed are in progress.
        """
        nursery = self._require_running().nursery
        call.begin()
        task = f"call for {name}"
        nursery.start_soon(_run_contained, call.run, task, name=task)

    def start_task(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        """Start a task that calls a connector. It is cancelled when connectors stop.

        Raises:
            Unavailable: hookgw is shutting down.
        """
        self._require_running().nursery.start_soon(_run_contained, run, name, name=name)

    def _require_running(self) -> _Running:
        if self._running is None:
            raise Unavailable(SHUTTING_DOWN)
        return self._running

    async def _keep_running(
        self, session: ConnectorSession, logged_out: Callable[[str, str], Awaitable[None]]
    ) -> None:
        # The plugin acts, not the user who connected the instance: the network decides when this task ends.
        act_as(Actor(kind=ActorKind.PLUGIN, name=session.connector.plugin))
        try:
            with session.scope:
                await restart_on_failure(partial(_run, session), partial(self._failed, session))
        finally:
            session.ended.set()
            session.announce()
        # Not after `stop`, which has removed the session and reports the closed connection itself.
        if self._sessions.get(session.instance) is session:
            del self._sessions[session.instance]
            self._restarts.ended(session.instance)
            reason = session.close_message or "The network logged the account out."
            self._closing[session.instance] = session
            await self._close(session)
            if self._closing.get(session.instance) is session:  # not deleted, nor started again
                del self._closing[session.instance]
                self._states.closed(session, reason)
                await logged_out(session.instance, session.instance_id)

    async def _failed(self, session: ConnectorSession, failure: PluginFailed, wait: float) -> None:
        logger.error(
            "connector failed",
            instance=session.instance,
            connector=session.connector.name,
            reason=failure.reason,
            restart_after=wait,
        )
        self._restarts.failed(failure, wait, session.instance)
        with _logging_refusals(session):
            await session.report_end()
        session.close_message = f"{str(failure).removesuffix('.')}. It starts again after {wait:g} s."
        session.close_reason = session.close_message
        session.announce()

    async def _close(self, session: ConnectorSession, reason: int = LOGGED_OUT) -> None:
        with _logging_refusals(session):
            await session.close(reason)


async def _run(session: ConnectorSession) -> None:
    session.has_reported = session.has_begun = False
    session.is_running = True
    try:
        await session.connector.run(session, may_return=lambda: session.has_reported)
    finally:
        session.is_running = False


async def _run_contained(run: Callable[[], Awaitable[None]], name: str) -> None:
    """Run a task of a client's request: a fault in it must not end the gateway for all others."""
    try:
        await run_contained(run)
    except TaskFailed as failure:
        logger.exception("task failed", task=name, reason=str(failure))


@contextmanager
def _logging_refusals(session: ConnectorSession) -> Iterator[None]:
    """Log an event of the gateway itself that cannot be stored, because its instance was deleted."""
    try:
        yield
    except HookgwError as error:
        logger.warning("connection state not reported", instance=session.instance, reason=str(error))
