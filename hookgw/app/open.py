"""The composition root: builds a gateway, runs it, and shuts it down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import trio

from hookgw.app.gateway import Gateway
from hookgw.app.reload import ConfigurationReload
from hookgw.app.start_plugins import start_plugins
from hookgw.auth.authenticator import Authenticator
from hookgw.auth.fleet_secret import FleetSecret
from hookgw.auth.media_links import MediaLinks
from hookgw.concurrency.clock import Clock
from hookgw.concurrency.tasks import run_essential
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.config.master_keys import read_master_keys
from hookgw.config.open_files import divide_open_files
from hookgw.config.settings import Settings
from hookgw.core.audit import Audit, acting_as
from hookgw.core.backlog import Backlog
from hookgw.core.backlog_limits import LimitedOutbox
from hookgw.core.browser_sessions import BrowserSessions
from hookgw.core.disk_space import DiskSpaceWatch
from hookgw.core.ingest_url import IngestUrls
from hookgw.core.jobs import Jobs
from hookgw.core.keyring_loading import open_keyring
from hookgw.core.known_names import KnownNames
from hookgw.core.metrics import Metrics
from hookgw.core.operational.events import OperationalEvents
from hookgw.core.pending import PendingDeliveries
from hookgw.core.plugin_restarts import PluginRestarts
from hookgw.core.registry import Registry
from hookgw.deliveries.cancellation import Cancellations
from hookgw.deliveries.history import DeliveryHistory
from hookgw.deliveries.replay import Replays
from hookgw.deliveries.service import DeliveryService
from hookgw.deliveries.stuck_lanes import StuckLanes
from hookgw.delivery.http.client_tls import default_ssl_context
from hookgw.delivery.http.happy_eyeballs import Connect
from hookgw.delivery.http.resolver import Resolve
from hookgw.delivery.outbound import OutboundHttp
from hookgw.delivery.sender import DeliverySender
from hookgw.events.accept import EventIntake
from hookgw.events.erasure import Erasures
from hookgw.fair import Share
from hookgw.fleet.all_nodes import AllNodes
from hookgw.fleet.backlog_exchange import BacklogExchange
from hookgw.fleet.database_calls import DatabaseCalls
from hookgw.fleet.divided_limits import divide_limits
from hookgw.fleet.fleet import PEER_LIMITS, PEER_TIMEOUT, Fleet
from hookgw.fleet.joining import join_fleet
from hookgw.fleet.lane_pauses import PAUSE, LanePauses
from hookgw.fleet.lease import Lease
from hookgw.fleet.own_backlogs import OwnBacklogs
from hookgw.fleet.ownership import Ownership
from hookgw.fleet.peer_calls import PeerCalls
from hookgw.fleet.record_refresh import RecordRefresh
from hookgw.fleet.shard_work import UNKNOWN, LaneShards, ShardOwner, ShardWork
from hookgw.instances.connectors.inbound_media import InboundMedia, load_media_key
from hookgw.instances.connectors.ingest import IngestService
from hookgw.instances.connectors.runner import Connectors
from hookgw.instances.connectors.session import EventRules
from hookgw.instances.connectors.states import ConnectionStates
from hookgw.instances.service import InstanceService
from hookgw.kernel.errors import PluginFailed, StorageUnavailable
from hookgw.keys.service import KeyService
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.lanes.held_shards import HeldShards
from hookgw.lanes.lane_queue import MEMORY_RATIO, MEMORY_RESERVED, MemoryClaim
from hookgw.lanes.services import LaneServices
from hookgw.messages.chats import ChatSearch
from hookgw.messages.media import MediaDownloads
from hookgw.messages.service import MessageService
from hookgw.operations.activity import Activity
from hookgw.operations.backups import BackupService
from hookgw.operations.delivery_monitor import DeliveryMonitor
from hookgw.operations.history_pruning import prune_history
from hookgw.operations.node_reports import NodeReports
from hookgw.operations.problems import Problems
from hookgw.operations.views import Views
from hookgw.operations.watchdog import LoopWatchdog
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins
from hookgw.plugins.supervise import restart_on_failure
from hookgw.records.audit import Actor, ActorKind
from hookgw.records.deliveries import Delivery
from hookgw.records.events import Event
from hookgw.records.jobs import JobKind
from hookgw.records.lanes import registration_of
from hookgw.records.operational_kinds import OPERATIONS_ID
from hookgw.records.shards import SHARDS, shard_of
from hookgw.store import ConnectorState, PendingChange, open_storage
from hookgw.store.fleet import Membership
from hookgw.webhooks.auto_disable import AutoDisable
from hookgw.webhooks.configured import read_global_webhooks, read_operations
from hookgw.webhooks.fields import AUDITED
from hookgw.webhooks.refused_addresses import by_registration, log_refused_addresses
from hookgw.webhooks.service import RegistrationService

STOP_WITHIN = 1.0
"""Seconds for stopping everything else, if handing over the shards took all of the grace."""

LEAVE_WITHIN = 3.0
"""Seconds that leaving a fleet may take at the end."""


class _CommitListener:
    """Hears of every commit: dispatches appended and requeued deliveries, and counts changes."""

    def __init__(self, dispatcher: Dispatcher, backlog: Backlog) -> None:
        self._dispatcher = dispatcher
        self._backlog = backlog

    def requeued(self, lanes: Mapping[str, int]) -> None:
        self._dispatcher.requeued(lanes)

    def appended(self, deliveries: Sequence[Delivery]) -> None:
        self._dispatcher.dispatch(deliveries)

    def changed(self, change: PendingChange) -> None:
        self._backlog.changed(change)


def _is_wanted(lane_shards: LaneShards, shards: HeldShards, lane: str) -> bool:
    """Whether this node must hear of what others append to a lane. Called in another thread."""
    shard = lane_shards.find(lane)
    return shard == UNKNOWN or shards.is_of_interest(shard)


async def _accept_of_connector(
    lease: Lease,
    members: Membership,
    intake: EventIntake,
    events: Sequence[Event],
    *,
    instance_id: str,
    state: ConnectorState | None = None,
) -> object:
    """Take events of one instance's connector as long as this node may run it; the commit checks it, too."""
    if not lease.is_valid():
        raise StorageUnavailable("This node cannot reach the database. Retry.", retry_after=1.0)
    name = events[0].instance if events else state.instance if state is not None else ""
    epoch = members.epoch_of(shard_of(name))
    return await intake.accept(events, instance_id=instance_id, state=state, epoch=epoch)


@asynccontextmanager
async def _alone(members: Membership, refresh: RecordRefresh) -> AsyncIterator[None]:
    """Hold the lock of the fleet, with the newest records, while changing what all nodes share."""
    async with members.starting():
        await refresh.catch_up()
        yield


@asynccontextmanager
async def open_gateway(  # noqa: C901 -- one step a time
    settings: Settings,
    *,
    base: Path | None = None,
    clock: Clock | None = None,
    hooks: Hooks | None = None,
    resolve: Resolve | None = None,
    connect: Connect | None = None,
    threads: Threads = SYSTEM_THREADS,
    prepare: Callable[[Gateway], None] = lambda _: None,
) -> AsyncIterator[Gateway]:
    """Run a gateway within the block.

    Args:
        settings: the configuration.
        base: the folder that relative plugin folders are below; the working directory by default.
        clock: the time, for tests.
        resolve: looks up names instead of the system's resolver, for tests.
        connect: opens the connections to receivers instead of the system, for tests.
        prepare: called with the gateway before anything runs. It may call hooks that switch a plugin off.

    Yields:
        The gateway, with its lanes running. At the end of the block, attempts in flight have
        ``server.shutdown_grace`` to end. Everything else waits on disk for the next start.

    Raises:
        StartError: the data file, a plugin or the configuration prevents the start. Once the data file is
            open, it is raised in an exception group, as is a failure of the gateway's own tasks, which
            cancels the block.
    """
    clock = clock or Clock()
    metrics = Metrics()
    if hooks is None:
        hooks = Hooks(
            load_plugins(settings.plugins, base=base or Path.cwd()),
            hook_timeout=settings.plugins.hook_timeout,
            on_failure=metrics.plugin_failed,
        )
    # First: nothing is stored if a plugin stops the start.
    catalog, webhooks = start_plugins(hooks, settings)
    server_url = settings.server.public_url

    async with (
        AsyncExitStack() as resources,
        # Before lanes look up their first names, which may take all threads that are left.
        threads.reserve(),
        open_storage(
            settings.storage,
            clock=clock,
            observer=metrics,
            keys=await threads.run(partial(read_master_keys, settings.storage)),
            threads=threads,
        ) as store,
    ):
        # This node among others, if the storage allows them.
        shared, owner, lease = store.shared, ShardOwner(), Lease()
        ownership: Ownership | None = None
        # Of nodes that start together, one makes the secrets that all need.
        async with shared.members.starting() if shared else nullcontext():
            if shared is not None:
                ownership = await join_fleet(settings.fleet, shared.members, lease)
            # Records: what exists.
            audit = Audit(store, clock)
            global_webhooks = await read_global_webhooks(webhooks, store, audit)
            operations = await read_operations(settings.operations, store, audit)
            registry = (
                Registry(store, audit, AUDITED, owner.check, is_shared=True)
                if shared
                else Registry(store, audit, AUDITED)
            )
            await registry.load(global_webhooks, operations)
            media_key = await load_media_key(store)
            keyring, global_keys = await open_keyring(
                store, settings.auth, registry.instances(), clock, audit
            )
        lane_shards = LaneShards(registry)
        shards = HeldShards(lane_shards.shard_of_lane)
        if shared is not None:
            shared.share(partial(_is_wanted, lane_shards, shards), lease.end)

        # The outgoing side: lanes and what they send with.
        files = divide_open_files(settings.server.max_connections)
        # Half of the reserve for long polls, and a quarter for other requests of connectors: listeners, the
        # data file and lookups need little of it.
        outbound = OutboundHttp(
            settings.delivery,
            resolve,
            descriptors=files.lanes,
            connector_requests=files.others // 2,
            connect=connect,
            threads=threads,
        )
        known_names = KnownNames(outbound.names, store, registry) if outbound.names else None
        if known_names is not None:
            await known_names.load()
        sender = DeliverySender(
            hooks, clock, server_url=server_url, kept_answer=settings.delivery.kept_answer
        )
        memory: Share[MemoryClaim] = Share(settings.delivery.memory, MEMORY_RATIO, MEMORY_RESERVED)
        dispatcher = Dispatcher(settings.delivery, shards if shared else None)

        # Monitoring: what lanes report, and what follows from it.
        operational = OperationalEvents(settings.operations, operations, registry, hooks, metrics, clock)
        jobs = Jobs(store, clock)
        await jobs.load()
        pending = PendingDeliveries(registry, store, dispatcher, metrics, operational, jobs)
        auto_disable = AutoDisable(registry, pending, operational, clock, settings.delivery)
        if not shared:  # in a fleet, with their shards
            auto_disable.take_up(registry.registrations())
        activity = Activity(metrics, store, clock, ownership.node if ownership else "")
        await activity.load()
        stuck = StuckLanes(dispatcher.find_lane, clock)
        monitor = DeliveryMonitor(registry, hooks, metrics, operational, auto_disable, stuck)
        lane_services = LaneServices(
            outbox=store,
            history=store,
            registration=registry.registration,
            sender=sender,
            pools=outbound.pools,
            memory=memory,
            monitor=monitor,
            clock=clock,
            settings=settings.delivery,
            may_send=lease.is_valid if shared else None,
        )

        # The incoming side: keys, limits, and what callers can do.
        authenticator = Authenticator(keyring, settings.auth, clock.steady, metrics.limited)
        sessions = BrowserSessions(store, keyring, clock)
        await sessions.load()
        refresh: RecordRefresh | None = None
        if shared is not None:
            refresh = RecordRefresh(shared.members, registry, keyring, global_keys, sessions, owner.holds)
        catch_up = refresh.catch_up if refresh else None
        backlog = Backlog(
            settings.limits,
            settings.operations.backlog_threshold,
            OwnBacklogs(operational, registry, owner) if shared else operational,
        )
        disk = DiskSpaceWatch(store, settings.storage.min_free)
        outbox = LimitedOutbox(store, backlog, settings.limits, pending.drop_oldest, disk, catch_up)
        states = ConnectionStates(owner.holds) if shared else ConnectionStates()
        events = EventIntake(
            settings.events,
            catalog,
            registry,
            outbox,
            states,
            hooks,
            metrics,
            is_dispatching=lambda: dispatcher.is_running,
            server_url=server_url,
            catch_up=catch_up,
        )
        restarts = PluginRestarts(operational)
        connectors_by_name = hooks.connectors()
        plugins = {connector.plugin for connector in connectors_by_name.values()}
        plugins |= {plugin for plugin, _ in hooks.background() if hooks.servers(plugin)}
        clients = outbound.connector_clients({plugin: hooks.servers(plugin) for plugin in plugins})
        links = MediaLinks(media_key, settings.media.lifetime, settings.server.address, clock.wall)
        connectors = Connectors(
            connectors_by_name,
            states,
            restarts,
            clock,
            clients,
            IngestUrls(settings.server),
            InboundMedia(links, registry, settings.events.max_data),
            EventRules(catalog, settings.events.max_values, settings.events.max_data),
            operational.event_left_out,
        )
        media = MediaDownloads(
            registry, connectors, links, settings.media.limit, clock.steady, metrics.limited
        )
        ingest = IngestService(
            registry, connectors, settings.auth.instance_key_rate, clock.steady, metrics.limited
        )
        instances = InstanceService(registry, keyring, connectors, states, pending, hooks, clock, jobs)
        registrations = RegistrationService(
            registry,
            instances.create,
            pending,
            dispatcher,
            hooks,
            catalog,
            sender,
            outbound,
            clock,
            settings,
            jobs,
        )
        keys = KeyService(
            keyring,
            registry,
            global_keys,
            clock,
            partial(_alone, shared.members, refresh) if shared and refresh else nullcontext,
        )
        history = DeliveryHistory(store, metrics.limited)
        replays = Replays(registry, store, history, jobs, outbox, audit)
        lane_pauses = LanePauses(registry, dispatcher, pending, store.flush)
        cancellations = Cancellations(registry, store, dispatcher, pending, lane_pauses, history, jobs, audit)
        erasures = Erasures(registry, store, dispatcher, pending, lane_pauses, jobs, audit)

        fleet: Fleet | None = None
        work: ShardWork | None = None
        if shared is not None and ownership is not None and refresh is not None:
            secret = (
                FleetSecret(settings.fleet.secret) if settings.fleet.url and settings.fleet.secret else None
            )
            # No proxy and no address guard: nodes reach each other directly.
            peers = await resources.enter_async_context(
                httpx.AsyncClient(
                    timeout=PEER_TIMEOUT,
                    trust_env=False,
                    limits=PEER_LIMITS,
                    verify=await threads.run(default_ssl_context),
                )
            )
            peer_calls = PeerCalls(ownership, peers, settings.server.base_path)
            database_calls = DatabaseCalls(ownership)
            fleet = Fleet(ownership, secret, owner, refresh, lease, peers, peer_calls, database_calls)
            metrics.watch_node(ownership.node, lambda: len(owner.shards))
            work = ShardWork(
                owner,
                lane_shards,
                refresh,
                registry,
                store,
                dispatcher,
                jobs,
                pending,
                auto_disable,
                instances,
                connectors,
                states,
            )

        # What every node reports of itself, and what is made of it.
        deliveries = DeliveryService(replays, cancellations)
        holds = owner.holds if shared else lambda _: True
        problems = Problems(
            instances,
            registry,
            dispatcher,
            auto_disable,
            stuck,
            restarts,
            disk,
            metrics,
            store.held,
            clock,
            holds,
        )
        reports = NodeReports(
            instances,
            registry,
            deliveries,
            dispatcher,
            auto_disable,
            activity,
            problems,
            states,
            clock,
            holds,
            (lambda: owner.shards) if shared else lambda: range(SHARDS),
        )
        nodes = AllNodes(
            fleet, settings.server.base_path, clock, {**reports.answers(), PAUSE: lane_pauses.answer}
        )
        views = Views(nodes, deliveries, history, clock)

        # What is on disk: counted before the first append, and the lanes that it starts.
        counts = await store.pending_counts()
        backlog.changed(counts)
        # In a fleet, lanes start with their shards.
        waiting = await store.pending_lanes() if fleet is None else []
        # A registration with a lane of a former generation starts none of its lanes: what is in the newest
        # lanes comes after what is yet to be moved there. The re-partition starts them at its end.
        stale = {registration_of(found.lane) for found in waiting if pending.is_stale(found.lane)}
        startable = pending.startable(waiting, stale)
        # Before anything appends. Until the dispatcher runs, it ignores commits: pending_lanes was read.
        store.subscribe(_CommitListener(dispatcher, backlog))
        metrics.watch_backlog(lambda: backlog.size, backlog.instances)
        metrics.watch_disk(lambda: disk.found)
        metrics.watch_held(store.held)
        metrics.watch_pools(outbound.pools.statistics, lambda: memory.used)
        metrics.watch_lanes(dispatcher.each_lane, clock.steady)
        metrics.watch_registrations(registry.registration, backlog.registrations, auto_disable.failing)
        metrics.watch_failing_tasks(restarts.failing)

        gateway = Gateway(
            registry=registry,
            connectors=connectors,
            events=events,
            instances=instances,
            ingest=ingest,
            registrations=registrations,
            keys=keys,
            messages=MessageService(registry, connectors, catalog, clock),
            chats=ChatSearch(history),
            deliveries=deliveries,
            erasures=erasures,
            history=history,
            jobs=jobs,
            media=media,
            configuration=ConfigurationReload(
                settings, registry, pending, store, hooks, catalog, jobs, audit
            ),
            authenticator=authenticator,
            sessions=sessions,
            operational=operational,
            activity=activity,
            auto_disable=auto_disable,
            restarts=restarts,
            outbound=outbound,
            http=outbound.http,
            dispatcher=dispatcher,
            backlog=backlog,
            disk=disk,
            settings=settings,
            catalog=catalog,
            hooks=hooks,
            store=store,
            audit=audit,
            backups=BackupService(store, jobs, audit, clock, settings.storage, threads),
            clock=clock,
            metrics=metrics,
            views=views,
            fleet=fleet,
        )
        prepare(gateway)
        # A plugin that was switched off only now has done nothing yet: what it provides can still be removed.
        kept = hooks.kinds()
        for kind in [kind for kind in catalog if kind.plugin and kind not in kept]:
            catalog.remove(kind)
        for name in connectors_by_name.keys() - hooks.connectors().keys():
            del connectors_by_name[name]
        async with trio.open_nursery() as nursery:
            # In this order: a lane needs deadlines, jobs and re-partitions need lanes to pause, and
            # connectors and plugins raise events, which need all of it.
            essential = partial(nursery.start, run_essential)
            if settings.plugins.block_warning:
                watchdog = LoopWatchdog(settings.plugins.block_warning, hooks.modules(), metrics)
                await essential("The watchdog", None, watchdog.run)
            if settings.storage.min_free:
                await essential("The watch of the disk space", None, disk.run)
            await essential("The outgoing side", None, outbound.run)
            await essential(
                "The dispatcher", dispatcher.is_stopping, dispatcher.run, lane_services, startable
            )
            begin = {
                JobKind.CANCEL: cancellations.cancelling,
                JobKind.DELETE_INSTANCE: instances.deletion,
                JobKind.DELETE_REGISTRATION: pending.parking,
                JobKind.DISABLE_REGISTRATION: pending.parking,
                JobKind.ERASE: erasures.erasing,
                JobKind.REPLAY: replays.replaying,
            }
            await essential("The task of jobs", None, jobs.run, begin)
            await essential("The task of re-partitions", pending.is_stopping, pending.run, stale)
            await essential(
                "The task of operational events",
                None,
                operational.run,
                outbox.append_always,
                lambda: backlog.of(OPERATIONS_ID)[0],
            )
            await essential(
                "The task of connectors",
                connectors.is_stopping,
                connectors.run,
                events.accept
                if shared is None
                else partial(_accept_of_connector, lease, shared.members, events),
                store.load_state,
                instances.logged_out,
            )
            if shared is None or ownership is None or work is None:
                await instances.start_connected()
            else:
                await essential("The pauses for other nodes", None, lane_pauses.run, nodes)
                await essential("The fleet", None, ownership.run, work)
                # Otherwise nobody else takes away what is pending for this node's registrations.
                removed = work.read_again if settings.limits.on_full == "drop_oldest" else None
                nursery.start_soon(BacklogExchange(shared.backlogs, backlog, ownership, removed).run)
                nursery.start_soon(views.pass_on_reports, states)
                nursery.start_soon(peer_calls.run)
                nursery.start_soon(database_calls.run)
                nursery.start_soon(divide_limits, ownership, authenticator, outbound.pools)
            nursery.start_soon(instances.store_disconnections)
            nursery.start_soon(activity.run)
            if known_names is not None:
                nursery.start_soon(known_names.run)
            nursery.start_soon(
                prune_history,
                store,
                clock,
                settings.storage,
                settings.events,
                fleet.is_responsible if fleet else None,
            )
            configured = global_webhooks if operations is None else (*global_webhooks, operations)
            nursery.start_soon(
                log_refused_addresses,
                registry.registrations(),
                outbound.known_refusal,
                by_registration(counts),
            )
            # Names, which must be looked up.
            named = [one for one in configured if outbound.known_refusal(one) is None]
            nursery.start_soon(outbound.log_refused_urls, named)

            async def note_failure(failure: PluginFailed, wait: float) -> None:
                restarts.failed(failure, wait)

            background_ended = trio.Event()

            async def run_background(
                *, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
            ) -> None:
                try:
                    async with trio.open_nursery() as plugins_nursery:
                        for plugin, run in hooks.background():
                            # With servers of its own, it needs a client that nobody else has.
                            http = clients[plugin].http if hooks.servers(plugin) else gateway.http
                            with acting_as(Actor(kind=ActorKind.PLUGIN, name=plugin)):
                                plugins_nursery.start_soon(
                                    restart_on_failure,
                                    partial(run, replace(gateway, http=http)),
                                    note_failure,
                                    name=f"hookgw_run of {plugin}",
                                )
                        task_status.started(plugins_nursery.cancel_scope)
                finally:
                    background_ended.set()

            background = await nursery.start(run_background)
            try:
                yield gateway
            finally:
                ends = trio.current_time() + settings.server.shutdown_grace
                events.limit_observers(ends)  # of what connectors receive
                if ownership is not None and lease.is_valid():
                    # While lanes and connectors run: each shard is handed over when its attempts have ended.
                    with trio.CancelScope(deadline=ends, shield=True), suppress(StorageUnavailable):
                        await ownership.hand_over()
                # Attempts that outlast the grace are cut off. Everything else here takes a moment.
                with trio.CancelScope(deadline=max(ends, trio.current_time() + STOP_WITHIN), shield=True):
                    # Connectors first, so that they raise no more events; then no lane starts an attempt;
                    # then re-partitions, which keep lanes paused; then what these have reported.
                    connectors.stop_all()
                    dispatcher.stop()
                    pending.stop()
                    await dispatcher.wait_stopped()
                    await operational.drain()
                    # Last, but before the HTTP clients are closed: a plugin may send what it has collected.
                    background.cancel()
                    await background_ended.wait()
                nursery.cancel_scope.cancel()
        if ownership is not None:
            # Last: what is written after this is refused. Without it, others would wait for heartbeats.
            with trio.move_on_after(LEAVE_WITHIN, shield=True), suppress(StorageUnavailable):
                await store.flush()
                await ownership.leave()
