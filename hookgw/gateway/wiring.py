"""What a gateway is made of, wired together: who hears of what, what starts first and what ends first."""

from __future__ import annotations

from collections.abc import Callable

import trio

from hookgw.auth.authenticator import Authenticator
from hookgw.config.settings import Settings
from hookgw.delivery.http.resolver import Resolve
from hookgw.delivery.outbound import OutboundHttp
from hookgw.delivery.sender import DeliverySender
from hookgw.dispatch.dispatcher import Dispatcher
from hookgw.dispatch.services import LaneServices
from hookgw.gateway.accept import EventIntake
from hookgw.gateway.backlog import Backlog
from hookgw.gateway.backlog_limits import LimitedOutbox
from hookgw.gateway.connectors.runner import Connectors
from hookgw.gateway.global_webhooks import read_global_webhooks
from hookgw.gateway.history_pruning import keep_pruning
from hookgw.gateway.instances import InstanceService
from hookgw.gateway.keeper import Keeper
from hookgw.gateway.keyring_loading import open_keyring
from hookgw.gateway.keys import KeyService
from hookgw.gateway.metrics import Metrics
from hookgw.gateway.operational.events import OperationalEvents
from hookgw.gateway.operational.registration import read_operations
from hookgw.gateway.registrations import RegistrationService
from hookgw.gateway.registry import Registry
from hookgw.gateway.replay import Replays
from hookgw.models.clock import Clock
from hookgw.models.event_kinds import BUILT_IN_KINDS
from hookgw.models.events import Catalog
from hookgw.models.operational_kinds import OPERATIONAL_KINDS, OPERATIONS_ID
from hookgw.plugins.hooks import Hooks
from hookgw.store import Store


class Wiring:
    """The parts of a gateway, their connections, and the order of starting and stopping.

    Attributes:
        settings, catalog, hooks, store, clock, metrics, http: those that everybody may use.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        hooks: Hooks,
        metrics: Metrics,
        clock: Clock,
        resolve: Resolve | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.hooks = hooks
        self.metrics = metrics
        self.clock = clock
        self.catalog = Catalog([*BUILT_IN_KINDS, *OPERATIONAL_KINDS, *hooks.kinds()])
        self._registry = Registry(store)
        self._egress = OutboundHttp(settings.delivery, resolve)
        self.http = self._egress.http
        self._courier = DeliverySender(
            hooks,
            clock,
            server_url=settings.server.public_url,
            kept_answer=settings.delivery.kept_answer,
        )
        self._operations = OperationalEvents(settings.operations, self._registry, hooks, metrics, clock)
        self._keeper = Keeper(
            self._registry,
            store,
            hooks,
            metrics,
            clock,
            settings.delivery,
            self._operations,
            self._make_dispatcher,
        )
        self._dispatcher = self._keeper.dispatcher
        self._backlog = Backlog(
            settings.limits, settings.operations.backlog_threshold, self._operations.backlog_crossed
        )
        admission = LimitedOutbox(store, self._backlog, settings.limits, self._keeper.drop_oldest)
        self._operations.append = admission.append_always
        self._operations.pending = lambda: self._backlog.of(OPERATIONS_ID)[0]
        self._intake = EventIntake(
            settings.events,
            self.catalog,
            self._registry,
            admission,
            hooks,
            metrics,
            server_url=settings.server.public_url,
        )
        self._connections = Connectors(hooks.connectors(), self._intake.accept, clock, self.http)
        self._intake.connections = self._connections
        self._webhooks = RegistrationService(
            self._registry,
            self._keeper,
            hooks,
            self.catalog,
            self._courier,
            self._egress.transport,
            clock,
            settings.delivery,
        )
        self._resending = Replays(self._registry, store)
        store.on_appended = self._dispatcher.dispatch
        store.on_requeued = self._dispatcher.requeued
        store.on_changed = self._backlog.changed
        metrics.watch_backlog(lambda: self._backlog.size)
        metrics.watch_lanes(self._dispatcher.lanes, clock.steady)

    def _make_dispatcher(self, keeper: Keeper) -> Dispatcher:
        services = LaneServices(
            store=self.store,
            keeper=keeper,
            courier=self._courier,
            clock=self.clock,
            settings=self.settings.delivery,
        )
        return Dispatcher(services, self._egress.transport)

    @property
    def is_running(self) -> bool:
        """Whether lanes are worked off; false from the moment that the gateway begins to close."""
        return self._dispatcher.is_running

    @property
    def is_telling(self) -> bool:
        """Whether operational events are on their way to plugins, or into the outbox."""
        return not self._operations.is_quiet

    async def open(self, nursery: trio.Nursery, show_key: Callable[[str], None]) -> None:
        """Read what is stored and start what runs; only ``open_gateway`` calls it."""
        everywhere = await read_global_webhooks(
            self.settings.global_webhooks, self.catalog, self.store, self.hooks.check_registration
        )
        await self._registry.load(everywhere)
        self._keyring, global_keys = await open_keyring(
            self.store, self.settings.auth, self._registry.instances(), show_key, self.clock
        )
        self._entrance = Authenticator(
            self._keyring, self.settings.auth, self.clock.steady, self.metrics.limited
        )
        self._key_changes = KeyService(self._keyring, self._registry, global_keys, self.clock)
        self._instances = InstanceService(
            self._registry, self._keyring, self._connections, self._keeper, self.clock
        )
        await self._open_operations()
        await self._keeper.moves.load()
        held = self._keeper.moves.held()
        waiting = await self.store.backlog()
        backlog = [(found.lane, found.count) for found in waiting if found.lane not in held]
        await nursery.start(self._egress.run)
        await nursery.start(self._dispatcher.run, backlog)
        await nursery.start(self._keeper.moves.run)
        await nursery.start(self._operations.run)
        await nursery.start(self._connections.run)
        await nursery.start(self._resending.run)
        self._instances.start_connected()
        nursery.start_soon(keep_pruning, self.store, self.clock, self.settings.storage)
        operations = self._operations.registration
        configured = everywhere if operations is None else (*everywhere, operations)
        nursery.start_soon(self._egress.log_refused_urls, configured)

    async def _open_operations(self) -> None:
        registration = await read_operations(self.settings.operations, self.store)
        if registration is not None:
            self._registry.add_internal(registration)
        self._operations.registration = registration
        self._backlog.changed(await self.store.pending_by_registration())

    async def close(self) -> None:
        """Stop connectors, then let attempts that are under way end; what is left stays on disk."""
        self._connections.stop_all()
        self._dispatcher.stop()
        self._keeper.moves.stop()
        await self._dispatcher.wait_stopped()
        await self._operations.drain()
