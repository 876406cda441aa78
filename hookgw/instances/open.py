"""Instances: their connectors, and what networks send to them."""

from __future__ import annotations

import msgspec

from hookgw.auth.media_links import MediaLinks
from hookgw.core.ingest_url import IngestUrls
from hookgw.core.open import Core
from hookgw.instances.connectors.coverage_store import CoverageStore
from hookgw.instances.connectors.inbound_media import InboundMedia
from hookgw.instances.connectors.ingest import IngestService
from hookgw.instances.connectors.runner import Connectors
from hookgw.instances.connectors.server_search import CANDIDATES, ServerSearch
from hookgw.instances.connectors.session import EventRules
from hookgw.instances.connectors.states import ConnectionStates
from hookgw.instances.quiet import QuietWatch
from hookgw.instances.service import InstanceService


class Instances(msgspec.Struct, frozen=True, eq=False):
    service: InstanceService
    states: ConnectionStates
    connectors: Connectors
    ingest: IngestService
    links: MediaLinks
    server_search: ServerSearch
    quiet: QuietWatch
    coverage: CoverageStore


def open_instances(core: Core, media_key: bytes) -> Instances:
    settings, clock, registry = core.settings, core.clock, core.registry
    states = ConnectionStates(core.node.holds, clock.wall)
    coverage = CoverageStore(core.store, states.sessions)
    links = MediaLinks(media_key, settings.media.lifetime, settings.server.address, clock.wall)
    connectors = Connectors(
        core.hooks.connectors(),
        states,
        core.restarts,
        clock,
        core.clients,
        IngestUrls(settings.server),
        InboundMedia(links, registry, settings.events.max_data),
        EventRules(core.catalog, settings.events.max_values, settings.events.max_data),
        core.operational.event_left_out,
        core.store.load_coverage,
        core.operational.instance_gap,
    )
    ingest = IngestService(
        registry, connectors, settings.auth.instance_key_rate, clock.steady, core.metrics.limited
    )
    service = InstanceService(
        registry, core.keyring, connectors, states, core.pending, core.hooks, clock, core.jobs
    )
    by_name = core.hooks.connectors()
    search = ServerSearch(
        core.outbound.connector_clients({"connectors --find": CANDIDATES})["connectors --find"].http,
        by_name,
        lambda connector: core.hooks.servers(by_name[connector].plugin),
        settings,
    )
    quiet_after = settings.instances.quiet_after
    quiet = QuietWatch(registry, states, core.operational, core.store, clock, quiet_after, core.node.holds)
    return Instances(service, states, connectors, ingest, links, search, quiet, coverage)
