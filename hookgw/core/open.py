"""What all slices share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hookgw.auth.authenticator import Authenticator
from hookgw.auth.keyring import Keyring
from hookgw.concurrency.clock import Clock
from hookgw.concurrency.hub import Hub
from hookgw.concurrency.loop_load import LoopLoad
from hookgw.concurrency.threads import Threads
from hookgw.config.open_files import divide_open_files
from hookgw.config.settings import AuthSettings, Settings
from hookgw.core.audit import Audit
from hookgw.core.audited_changes import AuditedFields
from hookgw.core.backlog import Backlog
from hookgw.core.backlog_limits import LimitedOutbox
from hookgw.core.browser_sessions import BrowserSessions
from hookgw.core.disk_space import DiskSpaceWatch
from hookgw.core.jobs import Jobs
from hookgw.core.keyring_loading import GlobalKeys, open_keyring
from hookgw.core.known_names import KnownNames
from hookgw.core.metrics import Metrics
from hookgw.core.operational.events import OperationalEvents
from hookgw.core.own_backlogs import OwnBacklogs
from hookgw.core.pending import PendingDeliveries
from hookgw.core.plugin_restarts import PluginRestarts
from hookgw.core.registry import Registry
from hookgw.core.this_node import KnownRecords, Refresh, ThisNode
from hookgw.delivery.http.connector_client import ConnectorClients
from hookgw.delivery.http.happy_eyeballs import Connect
from hookgw.delivery.http.resolver import Resolve
from hookgw.delivery.outbound import OutboundHttp
from hookgw.delivery.sender import DeliverySender
from hookgw.fair import Share
from hookgw.kernel.rates import parse_rate
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.lanes.fetches import Fetches
from hookgw.lanes.held_shards import HeldShards
from hookgw.lanes.lane_queue import LANE_MEMORY_RATIO, LANE_MEMORY_RESERVED, MemoryClaim
from hookgw.lanes.tag_rates import TagRates
from hookgw.plugins.hooks import Hooks
from hookgw.records.events import Catalog
from hookgw.records.registrations import Registration
from hookgw.store import Store


class Shared(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the slices share with the API, the commands and plugins.

    Attributes:
        loop_load: what the event loop has to do.
        metrics: counts what happens.
        node: this node, and what it may do.
        audit: lists changes and their actors.
        registry: the instances and registrations of this node.
        sessions: the sessions of browsers that signed in to the dashboard.
        refresh: reads the records that other nodes have changed.
        authenticator: checks the key of a request.
        hub: watches the sockets of clients and receivers.
        outbound: makes every outgoing connection.
        dispatcher: owns the lanes.
        operational: raises operational events.
        jobs: work that takes longer than a request.
        backlog: counts the pending deliveries.
        disk: watches the free disk space.
        restarts: knows the connectors and background tasks that fail.
    """

    settings: Settings
    clock: Clock
    loop_load: LoopLoad
    metrics: Metrics
    hooks: Hooks
    catalog: Catalog
    store: Store
    node: ThisNode
    audit: Audit
    registry: Registry
    sessions: BrowserSessions
    refresh: Refresh
    authenticator: Authenticator
    hub: Hub
    outbound: OutboundHttp
    dispatcher: Dispatcher
    operational: OperationalEvents
    jobs: Jobs
    backlog: Backlog
    disk: DiskSpaceWatch
    restarts: PluginRestarts


class Core(Shared, frozen=True, kw_only=True):
    """What all slices share: what the gateway is made from, records in memory, and what lanes need.

    Attributes:
        clients: the HTTP clients of each plugin that has connectors, or servers of its own.
        known_names: ``None`` if the names are looked up in another way.
        memory: what lanes may hold in memory.
        fetches: what is known of receivers that fetch.
        shards: which lanes run here.
        outbox: stores events, within the limits of the backlog.
    """

    threads: Threads
    keyring: Keyring
    global_keys: GlobalKeys
    clients: Mapping[str, ConnectorClients]
    known_names: KnownNames | None
    sender: DeliverySender
    memory: Share[MemoryClaim]
    fetches: Fetches
    shards: HeldShards
    pending: PendingDeliveries
    tag_rates: TagRates
    outbox: LimitedOutbox


class _CommitListener:
    """Hears of every commit: what it appended or requeued is dispatched, what it changed is counted."""

    def __init__(self, dispatcher: Dispatcher, backlog: Backlog) -> None:
        self.requeued, self.appended = dispatcher.requeued, dispatcher.dispatch
        self.changed = backlog.changed


async def open_records(
    store: Store,
    audit: Audit,
    audited: AuditedFields,
    node: ThisNode,
    everywhere: Sequence[Registration],
    operations: Registration | None,
    auth: AuthSettings,
    clock: Clock,
) -> KnownRecords:
    """Read the records. Call it in the block of :meth:`ThisNode.starting`.

    Args:
        audited: the fields whose changes the audit shows.
        everywhere: the registrations of the configuration that hear every instance.
        operations: the one for operational events.

    Raises:
        StorageUnavailable: the disk refuses.
    """
    registry = Registry(store, audit, audited, node.check, is_shared=node.is_shared)
    await registry.load(everywhere, operations)
    keyring, global_keys = await open_keyring(store, auth, registry.instances(), clock, audit, audited.keys)
    sessions = BrowserSessions(store, keyring, clock)
    await sessions.load()
    return KnownRecords(registry, keyring, global_keys, sessions)


async def open_core(
    *,
    settings: Settings,
    clock: Clock,
    threads: Threads,
    loop_load: LoopLoad,
    metrics: Metrics,
    hooks: Hooks,
    catalog: Catalog,
    store: Store,
    node: ThisNode,
    audit: Audit,
    records: KnownRecords,
    operations: Registration | None,
    resolve: Resolve | None,
    connect: Connect | None,
    hub: Hub,
) -> Core:
    """Return what all slices share. Nothing runs yet, and nothing is dispatched before lanes run.

    Raises:
        StorageUnavailable: the disk refuses.
    """
    registry = records.registry
    refresh = node.refresh_of(records)

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
        hub=hub,
    )
    known_names = KnownNames(outbound.names, store, registry) if outbound.names else None
    if known_names is not None:
        await known_names.load()
    sender = DeliverySender(
        hooks,
        clock,
        server_url=settings.server.public_url,
        kept_answer=settings.delivery.kept_answer,
        kept_heads=settings.delivery.kept_heads,
    )
    memory: Share[MemoryClaim] = Share(settings.delivery.memory, LANE_MEMORY_RATIO, LANE_MEMORY_RESERVED)
    shards = node.held_shards(registry.registration)
    dispatcher = Dispatcher(settings.delivery, shards)
    plugins = {connector.plugin for connector in hooks.connectors().values()}
    tasks = (*hooks.background("hookgw_run"), *hooks.background("hookgw_run_on_one_node"))
    plugins |= {plugin for plugin, _ in tasks if hooks.servers(plugin)}
    clients = outbound.connector_clients({plugin: hooks.servers(plugin) for plugin in plugins})

    # What is pending, and what follows from it.
    operational = OperationalEvents(settings.operations, operations, registry, hooks, metrics, clock)
    restarts = PluginRestarts(operational)
    jobs = Jobs(store, clock)
    await jobs.load()
    pending = PendingDeliveries(registry, store, dispatcher, metrics, operational, jobs)
    observer = OwnBacklogs(operational, registry, node)
    backlog = Backlog(settings.limits, settings.operations.backlog_threshold, observer)
    disk = DiskSpaceWatch(store, settings.storage.min_free)
    outbox = LimitedOutbox(store, backlog, settings.limits, pending, disk, refresh.catch_up)

    tag_rates = TagRates(
        {name: parse_rate(one.rate) for name, one in settings.limits.tags.items() if one.rate is not None}
    )

    def tags_changed(instance: str, tags: Mapping[str, str]) -> None:
        backlog.tags_changed(instance, tags)
        if tag_rates.changed(instance, tags):
            for registration in registry.hearing(instance):
                dispatcher.rate_changed(registration.id)

    registry.watch_tags(tags_changed)
    registry.watch_retired(backlog.retired)
    # Before the first append, which changes these counts. Lanes start with their shards.
    backlog.changed(await store.pending_counts())
    store.subscribe(_CommitListener(dispatcher, backlog))
    metrics.watch_backlog(lambda: backlog.size, backlog.instances)
    metrics.watch_disk(lambda: disk.found)
    metrics.watch_held(store.held)
    metrics.watch_pools(outbound.pools.statistics, lambda: memory.used)
    metrics.watch_lanes(dispatcher.each_lane, clock.steady)
    metrics.watch_failing_tasks(restarts.failing)
    return Core(
        settings=settings,
        clock=clock,
        threads=threads,
        loop_load=loop_load,
        metrics=metrics,
        hooks=hooks,
        catalog=catalog,
        store=store,
        node=node,
        audit=audit,
        registry=registry,
        keyring=records.keyring,
        global_keys=records.global_keys,
        sessions=records.sessions,
        refresh=refresh,
        authenticator=Authenticator(records.keyring, settings.auth, clock.steady, metrics.limited),
        hub=hub,
        outbound=outbound,
        clients=clients,
        known_names=known_names,
        sender=sender,
        memory=memory,
        fetches=Fetches(clock.steady()),
        shards=shards,
        dispatcher=dispatcher,
        operational=operational,
        jobs=jobs,
        pending=pending,
        backlog=backlog,
        tag_rates=tag_rates,
        disk=disk,
        outbox=outbox,
        restarts=restarts,
    )
