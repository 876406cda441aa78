"""The gateway: accept → outbox → dispatcher, with all that belongs to it, opened and closed as one.

This is the face that the HTTP interface, the commands and plugins see. What it does is done by the
parts (:mod:`hookgw.gateway.wiring`); what it adds is that a change, once begun, is finished even where the
one who asked for it has gone away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import trio

from hookgw.auth.keyring import KeyHolder
from hookgw.config.master_keys import read_master_keys
from hookgw.config.settings import Settings
from hookgw.delivery.http.resolver import Resolve
from hookgw.gateway.history_pruning import keep_running
from hookgw.gateway.metrics import Metrics
from hookgw.gateway.wiring import Wiring
from hookgw.models.api_keys import Key, Principal
from hookgw.models.clock import Clock
from hookgw.models.connectors import ConnectionState, QRCode
from hookgw.models.deliveries import Attempt, LaneStatistics
from hookgw.models.errors import Forbidden, NotFound, Unavailable
from hookgw.models.events import Event, Receipt
from hookgw.models.instances import Instance
from hookgw.models.registrations import DEFAULT_LABEL, Registration, RegistrationChange, lanes_of
from hookgw.parsing import Replay
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins
from hookgw.store import DeliverySummary, open_store

T = TypeVar("T")

_CHANGE_PATIENCE = 30.0
"""How long a change may take that nobody can interrupt, in seconds."""


class Gateway(Wiring):
    """One running gateway; made by :func:`open_gateway`.

    Attributes:
        settings, catalog, hooks, store, clock, metrics: its parts, for those who build on it.
        http: the client for plugins' requests, whose every connection passes the address guard (see
            :func:`hookgw.delivery.http.plugin_client.guarded_client`). The gateway closes it at its end.
    """

    # Events

    async def accept(self, events: Sequence[Event], *, single: bool = False) -> Receipt:
        """Put events on disk, each addressed to the registrations that want it; all of them or none.

        Returns once they are on disk. A caller that is cancelled while it waits does not undo that.

        Args:
            events: in the order in which they are to be delivered.
            single: the one event is no batch, so what is said of it names no index.

        Raises:
            Invalid: an event breaks a rule; each message begins with its index, unless it is single.
            NotFound: an event's instance does not exist.
            Unavailable: the disk refused, or a limit of the backlog is reached.
            TooLarge: the events alone are over such a limit.
        """
        return await self._intake.accept(events, single=single)

    # Keys

    def authenticate(self, key: str | None) -> Principal | None:
        """Whose key it is; ``None`` for nobody's."""
        holder = self._keyring.find(key)
        return None if holder is None else holder.principal

    def admit(self, key: str | None, address: str | None) -> KeyHolder | None:
        """Whose key a request from an address has; see ``Authenticator.authenticate``."""
        return self._entrance.authenticate(key, address)

    def keys(self, scope: str | None) -> list[Key]:
        """The keys of an instance, or the global ones; see :meth:`hookgw.gateway.keys.KeyService.list`."""
        return self._key_changes.list(scope)

    async def create_key(
        self, scope: str | None, name: str, *, expires_at: float | None, maker: KeyHolder
    ) -> tuple[Key, str]:
        """Make a key; see :meth:`hookgw.gateway.keys.KeyService.create`."""
        return await _finish(
            partial(self._key_changes.create, scope, name, expires_at=expires_at, maker=maker)
        )

    async def revoke_key(self, scope: str | None, name: str, *, by: KeyHolder) -> None:
        """Revoke a key; see :meth:`hookgw.gateway.keys.KeyService.revoke`."""
        await _finish(partial(self._key_changes.revoke, scope, name, by=by))

    # Instances

    def instances(self) -> list[Instance]:
        """All instances, by name."""
        return self._registry.instances()

    def find_instance(self, name: str) -> Instance | None:
        """The instance of that name, if there is one."""
        return self._registry.find_instance(name)

    def instance(self, name: str) -> Instance:
        """The instance of that name; raises ``NotFound`` where there is none."""
        return self._registry.instance(name)

    @property
    def connectors(self) -> list[str]:
        """The names of the connectors that there are."""
        return self._connections.names()

    def connection_state(self, name: str) -> ConnectionState:
        """What the instance's connection is doing; raises ``NotFound`` where there is no instance."""
        return self._connections.state(self._registry.instance(name).name)

    async def create_instance(
        self,
        name: str,
        *,
        integration: str = "",
        token: str | None = None,
        options: dict[str, Any] | None = None,
        webhook: RegistrationChange | None = None,
    ) -> tuple[Instance, str]:
        """Create an instance; see :meth:`hookgw.gateway.instances.InstanceService.create`.

        With a ``webhook`` it has that registration from the beginning; if it is refused, no instance is made.
        """
        first = None if webhook is None else self._webhooks.new(name, DEFAULT_LABEL, webhook)
        create = self._instances.create
        return await _finish(
            partial(create, name, integration=integration, token=token, options=options, first=first)
        )

    async def delete_instance(self, name: str) -> None:
        """Delete an instance with its registrations; raises ``NotFound`` where there is none."""
        await _finish(partial(self._instances.delete, name))

    async def connect(self, name: str) -> QRCode | None:
        """Start the instance's connector; see :meth:`hookgw.gateway.instances.InstanceService.connect`."""
        return await self._instances.connect(name)

    async def logout(self, name: str) -> None:
        """End the instance's connection; see :meth:`hookgw.gateway.instances.InstanceService.logout`."""
        await _finish(partial(self._instances.logout, name))

    async def send_text(self, name: str, number: str, text: str) -> dict[str, Any]:
        """Send a text message; see :meth:`hookgw.gateway.connectors.runner.Connectors.send_text`."""
        return await self._connections.send_text(self._registry.instance(name), number, text)

    # Registrations

    def find_registration(self, instance: str, label: str = DEFAULT_LABEL) -> Registration | None:
        """An instance's registration of that label, if there is one."""
        return self._registry.find(instance, label)

    def registrations_of(self, instance: str) -> list[Registration]:
        """An instance's registrations, by label."""
        return self._registry.of_instance(instance)

    async def set_registration(
        self, instance: str, label: str, change: RegistrationChange, *, create: bool = False
    ) -> tuple[Registration, list[str]]:
        """Store a registration.

        Args:
            instance, label: whose and which.
            change: what is asked for.
            create: make the instance where it does not exist, if the settings allow it.

        Returns:
            The stored registration, and warnings for whoever set it: that the address guard refuses its
            URL now. Looking its host up takes 2 s at most, once it is stored.

        Raises:
            NotFound: there is no such instance.
            Invalid: a plugin refuses its options, or there are too many registrations; no instance is
                made for what is refused.
        """
        if create and self.settings.instances.auto_create and self.find_instance(instance) is None:
            first = self._webhooks.new(instance, label, change)
            with suppress(Forbidden):  # somebody else created it in the same moment
                await _finish(partial(self._instances.create, instance, first=first))
                return first, await self.warnings(first)
        stored = await _finish(partial(self._webhooks.set, instance, label, change))
        return stored, await self.warnings(stored)

    async def warnings(self, registration: Registration) -> list[str]:
        """What whoever set a registration should know; see :meth:`set_registration`."""
        return await self._egress.warnings(registration)

    async def delete_registration(self, instance: str, label: str = DEFAULT_LABEL) -> None:
        """Delete a registration; raises ``NotFound`` where there is none."""
        await _finish(partial(self._webhooks.delete, instance, label))

    async def rotate_secret(self, instance: str, label: str, grace: float) -> Registration:
        """Give a registration a new secret; see ``Webhooks.rotate_secret``."""
        return await _finish(partial(self._webhooks.rotate_secret, instance, label, grace))

    async def test_registration(self, instance: str, label: str = DEFAULT_LABEL) -> Attempt:
        """Send an example event now; see :meth:`hookgw.gateway.registrations.RegistrationService.test`."""
        return await self._webhooks.test(instance, label)

    def resume(self, instance: str, label: str = DEFAULT_LABEL) -> list[LaneStatistics]:
        """Let the registration's lanes try again now; tells how they stood.

        Another instance may have the same URL, and share them. So it is told nothing, and nothing is woken,
        where nothing is pending for this registration; and of a backlog no more than what is.

        Raises:
            NotFound: there is no such registration.
        """
        registration = self._webhooks.find(instance, label)
        pending, _ = self._backlog.of(registration.id)
        if not pending:
            return []
        lanes = lanes_of(registration)
        self._dispatcher.resume(lanes)
        return [
            msgspec.structs.replace(lane, backlog=min(lane.backlog, pending))
            for lane in self._dispatcher.lanes(lanes)
        ]

    # Deliveries

    async def resend(self, instance: str, name: str) -> DeliverySummary:
        """Send a finished delivery again; see :meth:`hookgw.gateway.replay.Replays.resend`."""
        return await self._resending.resend(instance, name)

    async def replay(self, instance: str, replay: Replay) -> int:
        """Send finished deliveries again, in order; see :meth:`hookgw.gateway.replay.Replays.replay`."""
        return await self._resending.replay(instance, replay)

    def lanes(self) -> list[LaneStatistics]:
        """A snapshot of all lanes that have something to do, or had a while ago."""
        return self._dispatcher.lanes()

    # Operation

    async def ready(self) -> None:
        """Return if the store writes and lanes run.

        Raises:
            Unavailable: they do not; the message says why.
        """
        if not self.is_running:
            raise Unavailable("The dispatcher is not running.")
        await self.store.check()

    def listens_on(self, urls: Sequence[str]) -> None:
        """Tell the gateway where its HTTP interface listens, so that no delivery is made to it.

        Args:
            urls: ``http`` or ``https`` with an IP address and a port; others are passed over.
        """
        self._egress.listens_on(urls)

    def operations_registration(self) -> Registration:
        """The registration of ``operations.url``.

        Raises:
            NotFound: the settings name no URL.
        """
        if self._operations.registration is None:
            raise NotFound("There is no operations.url in the configuration; set it first.")
        return self._operations.registration


async def _finish(change: Callable[[], Awaitable[T]]) -> T:
    """Carry a change through, also where the caller is cancelled meanwhile.

    Raises:
        Unavailable: it took too long.
    """
    try:
        with trio.fail_after(_CHANGE_PATIENCE, shield=True):
            return await change()
    except trio.TooSlowError:
        raise Unavailable(f"The change was not done within {_CHANGE_PATIENCE:g} s; try again.") from None


@asynccontextmanager
async def open_gateway(
    settings: Settings,
    *,
    base: Path | None = None,
    clock: Clock | None = None,
    hooks: Hooks | None = None,
    show_key: Callable[[str], None] = lambda _: None,
    resolve: Resolve | None = None,
) -> AsyncIterator[Gateway]:
    """Open a gateway for the length of a block.

    Args:
        settings: everything that can be set.
        base: the folder that relative plugin folders are below; the working directory by default.
        clock: the time, for tests.
        hooks: plugins that are loaded already; by default the settings say which.
        show_key: called with the global key where it is made just now: it is kept hashed, and nobody can
            show it again.
        resolve: looks names up in the place of the system, for tests.

    Yields:
        The gateway, its lanes running. At the end of the block the attempts that are under way have
        ``server.shutdown_grace`` to end; everything else waits on disk for the next start.

    Raises:
        StartError: the data file, a plugin or the configuration does not allow a start. Where the data
            file was open by then it comes in an exception group, as does a failure of the gateway's own
            tasks, which cancels the block.
    """
    clock = clock or Clock()
    metrics = Metrics()
    if hooks is None:
        hooks = Hooks(
            load_plugins(settings.plugins, base=base or Path.cwd()),
            hook_timeout=settings.plugins.hook_timeout,
            on_failure=metrics.plugin_failed,
        )
    hooks.configure(settings.plugins.options)
    async with open_store(
        Path(settings.storage.path),
        clock=clock,
        observer=metrics,
        keep_history=settings.storage.retention > 0,
        keys=await trio.to_thread.run_sync(read_master_keys, settings.storage),
    ) as store:
        gateway = Gateway(settings, store, hooks, metrics, clock, resolve)
        async with trio.open_nursery() as nursery:
            await gateway.open(nursery, show_key)
            for plugin, run in hooks.background():
                nursery.start_soon(keep_running, plugin, partial(run, gateway), metrics)
            try:
                yield gateway
            finally:
                with trio.move_on_after(settings.server.shutdown_grace, shield=True):
                    await gateway.close()
                nursery.cancel_scope.cancel()
