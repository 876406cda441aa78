"""The gateway: the typed parts that the API, the commands and plugins work with."""

from __future__ import annotations

import httpx
from msgspec.structs import replace

from hookgw.accounts.service import NodeAccounts
from hookgw.app.reload import ConfigurationReload
from hookgw.core.open import Shared
from hookgw.core.plugin_records import PluginRecords
from hookgw.deliveries.history import DeliveryHistory
from hookgw.deliveries.pull import Pulls
from hookgw.deliveries.service import DeliveryService
from hookgw.events.accept import EventIntake
from hookgw.events.erasure import Erasures
from hookgw.fleet.fleet_node import FleetNode
from hookgw.fleet.peers import Peers
from hookgw.instances.connectors.ingest import IngestService
from hookgw.instances.connectors.runner import Connectors
from hookgw.instances.connectors.server_search import ServerSearch
from hookgw.instances.quiet import QuietWatch
from hookgw.instances.service import InstanceService
from hookgw.kernel.errors import Unavailable
from hookgw.kernel.sentences import Sentence
from hookgw.keys.portal import PortalLinks
from hookgw.keys.service import KeyService
from hookgw.messages.chats import ChatSearch
from hookgw.messages.media import MediaDownloads
from hookgw.messages.service import MessageService
from hookgw.messages.stored_messages import StoredMessages
from hookgw.operations.backups import BackupService
from hookgw.operations.figures import FigureService
from hookgw.operations.views import Views
from hookgw.records.deliveries import LaneStatistics
from hookgw.records.problems import ProblemReport
from hookgw.webhooks.auto_disable import AutoDisable
from hookgw.webhooks.backfills import Backfills
from hookgw.webhooks.service import RegistrationService


class Gateway(Shared, frozen=True, kw_only=True):
    """A running gateway; :func:`hookgw.app.open.open_gateway` makes one.

    Plugins use the part that :class:`~hookgw.plugins.gateway_protocol.PluginGateway` describes. Only that
    part is stable.

    Attributes:
        events: accepts events.
        instances, registrations, keys: create, change and delete them.
        accounts: makes instances as a document says.
        portal: makes and opens links to the dashboard.
        backfills: sends registrations what they have missed.
        ingest: passes requests of networks to connectors.
        messages: sends, edits and deletes messages through connectors.
        chats: finds chats and contacts in the history.
        stored_messages: finds messages and their files, in the history or at the network.
        deliveries: sends finished deliveries again, and cancels pending ones.
        erasures: erases a person's data.
        history: lists and finds deliveries.
        pulls: hands deliveries to receivers that fetch.
        media: opens links to inbound files.
        configuration: changes parts of the configuration at run time.
        figures: reads what became of events and deliveries over time.
        auto_disable: knows the registrations that fail.
        http: the client for plugins' requests; every connection passes the address guard. The gateway closes
            it.
        backups: copies the data file.
        views: the lists and pages of all nodes.
        quiet: knows the instances of this node that are quieter than usual.
        peers: the other nodes; ``None`` with a storage that only one process uses.
        records: of the plugin that this object was made for; see :meth:`for_plugin`.
        connectors: runs the connector of each instance.
    """

    events: EventIntake
    instances: InstanceService
    ingest: IngestService
    registrations: RegistrationService
    backfills: Backfills
    keys: KeyService
    accounts: NodeAccounts
    portal: PortalLinks
    messages: MessageService
    chats: ChatSearch
    stored_messages: StoredMessages
    deliveries: DeliveryService
    erasures: Erasures
    history: DeliveryHistory
    pulls: Pulls
    media: MediaDownloads
    configuration: ConfigurationReload
    figures: FigureService
    auto_disable: AutoDisable
    http: httpx.AsyncClient
    server_search: ServerSearch
    connectors: Connectors
    backups: BackupService
    views: Views
    quiet: QuietWatch
    peers: Peers | None
    records: PluginRecords

    def for_plugin(self, plugin: str) -> Gateway:
        """Return this gateway with the records of a plugin."""
        return replace(self, records=PluginRecords(self.store, self.node, plugin))

    @property
    def fleet(self) -> FleetNode | None:
        """This node among others; ``None`` with a storage that only one process uses."""
        return None if self.peers is None else self.peers.node

    def lanes(self) -> list[LaneStatistics]:
        """Return a snapshot of the lanes that have work, or had some recently."""
        return self.dispatcher.lanes()

    async def problems(self) -> ProblemReport:
        """Return the present problems of all nodes, and which nodes have answered."""
        return await self.views.problems()

    async def send_text(self, instance: str, number: str, text: str, *, key: str) -> None:
        """Send a text message through an instance; see :meth:`Views.send_text`."""
        await self.views.send_text(instance, number, text, key)

    async def ready(self) -> None:
        """Check that the store accepts writes and the lanes run.

        Raises:
            Unavailable: they do not; the message says why.
        """
        # If the store works but the lanes do not run, events would be accepted and never delivered.
        if not self.dispatcher.is_running:
            raise Unavailable.of("gateway.not_dispatching", "The dispatcher is not running.")
        if not self.node.may_act():
            raise Unavailable(
                Sentence("node.no_database", "This node cannot reach the database: it delivers nothing."),
                *self.node.refusal,
            )
        if not self.node.has_begun():
            raise Unavailable.of("node.no_shards", "This node has not begun with its first shards yet.")
        if recovering := self.dispatcher.recovering:
            raise Unavailable.of(
                "lanes.recovering",
                "Lanes ended by an error in hookgw, and start again: {lanes}.",
                lanes=", ".join(recovering[:3]),
            )
        if self.disk.shortage is not None:
            raise Unavailable(
                self.disk.shortage, Sentence("events.refused", "Events are refused; deliveries continue.")
            )
        await self.store.check()
