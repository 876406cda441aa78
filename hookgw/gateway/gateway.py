"""The gateway: the typed parts that the API, the commands and plugins work with."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from hookgw.auth.authenticator import Authenticator
from hookgw.config.settings import Settings
from hookgw.delivery.outbound import OutboundHttp
from hookgw.dispatch.dispatcher import Dispatcher
from hookgw.gateway.accept import EventIntake
from hookgw.gateway.activity import Activity
from hookgw.gateway.audit import Audit
from hookgw.gateway.auto_disable import AutoDisable
from hookgw.gateway.backlog import Backlog
from hookgw.gateway.backups import BackupService
from hookgw.gateway.browser_sessions import BrowserSessions
from hookgw.gateway.chats import ChatSearch
from hookgw.gateway.connectors.ingest import IngestService
from hookgw.gateway.deliveries import DeliveryService
from hookgw.gateway.disk_space import DiskSpaceWatch
from hookgw.gateway.erasure import Erasures
from hookgw.gateway.fleet.fleet import Fleet
from hookgw.gateway.history import DeliveryHistory
from hookgw.gateway.instances import InstanceService
from hookgw.gateway.jobs import Jobs
from hookgw.gateway.keys import KeyService
from hookgw.gateway.media import MediaDownloads
from hookgw.gateway.messages import MessageService
from hookgw.gateway.metrics import Metrics
from hookgw.gateway.operational.events import OperationalEvents
from hookgw.gateway.plugin_restarts import PluginRestarts
from hookgw.gateway.registrations import RegistrationService
from hookgw.gateway.reload import ConfigurationReload
from hookgw.gateway.views import Views
from hookgw.models.clock import Clock
from hookgw.models.deliveries import LaneStatistics
from hookgw.models.errors import Unavailable
from hookgw.models.events import Catalog
from hookgw.plugins.hooks import Hooks
from hookgw.store import Store


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Gateway:
    """A running gateway; :func:`hookgw.gateway.open.open_gateway` makes one.

    Plugins use the part that :class:`~hookgw.plugins.gateway_protocol.PluginGateway` describes. Only that
    part is stable.

    Attributes:
        events: accepts events.
        instances, registrations, keys: create, change and delete them.
        ingest: passes requests of networks to connectors.
        messages: sends, edits and deletes messages through connectors.
        chats: finds chats and contacts in the history.
        deliveries: sends finished deliveries again, and cancels pending ones.
        erasures: erases what concerns a person.
        history: lists and finds deliveries.
        jobs: what takes longer than a request.
        media: opens links to inbound files.
        configuration: changes parts of the configuration at run time.
        authenticator: checks the key of a request.
        sessions: the sessions of browsers that signed in to the dashboard.
        operational: raises operational events.
        activity: how much happened lately.
        auto_disable: knows the registrations that fail.
        restarts: knows the connectors and background tasks that fail.
        outbound: makes every outgoing connection.
        http: the client for plugins' requests; every connection passes the address guard. The gateway
            closes it.
        dispatcher: owns the lanes.
        backlog: counts what is pending.
        disk: watches the free disk space.
        audit: lists who changed what.
        backups: copies the data file.
        views: what lists and pages show of all nodes.
        fleet: this node among others; ``None`` with a storage that only one process uses.
        settings, catalog, hooks, store, clock, metrics: shared by all of these.
    """

    events: EventIntake
    instances: InstanceService
    ingest: IngestService
    registrations: RegistrationService
    keys: KeyService
    messages: MessageService
    chats: ChatSearch
    deliveries: DeliveryService
    erasures: Erasures
    history: DeliveryHistory
    jobs: Jobs
    media: MediaDownloads
    configuration: ConfigurationReload
    authenticator: Authenticator
    sessions: BrowserSessions
    operational: OperationalEvents
    activity: Activity
    auto_disable: AutoDisable
    restarts: PluginRestarts
    outbound: OutboundHttp
    http: httpx.AsyncClient
    dispatcher: Dispatcher
    backlog: Backlog
    disk: DiskSpaceWatch
    settings: Settings
    catalog: Catalog
    hooks: Hooks
    store: Store
    audit: Audit
    backups: BackupService
    clock: Clock
    metrics: Metrics
    views: Views
    fleet: Fleet | None = None

    def lanes(self) -> list[LaneStatistics]:
        """Return a snapshot of the lanes that have work, or had some recently."""
        return self.dispatcher.lanes()

    async def ready(self) -> None:
        """Check that the store accepts writes and the lanes run.

        Raises:
            Unavailable: they do not; the message says why.
        """
        # A store that works over lanes that do not run would accept events that nobody delivers.
        if not self.dispatcher.is_running:
            raise Unavailable("The dispatcher is not running.")
        if self.fleet is not None and not self.fleet.has_lease():
            raise Unavailable("This node cannot reach the database: it delivers nothing.")
        if self.fleet is not None and not self.fleet.has_begun():
            raise Unavailable("This node has not begun with its first shards yet.")
        if recovering := self.dispatcher.recovering:
            raise Unavailable(
                f"Lanes ended by an error in hookgw, and start again: {', '.join(recovering[:3])}."
            )
        if self.disk.shortage is not None:
            raise Unavailable(self.disk.shortage, "Events are refused; deliveries continue.")
        await self.store.check()
