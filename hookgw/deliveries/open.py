"""Deliveries: what lists, replays and cancels them."""

from __future__ import annotations

import msgspec

from hookgw.config.open_files import divide_open_files
from hookgw.core.open import Core
from hookgw.deliveries.bulk import BulkJobs
from hookgw.deliveries.cancellation import Cancellations
from hookgw.deliveries.dry_run import DryRuns
from hookgw.deliveries.edited import EditedDeliveries, SendOnce
from hookgw.deliveries.history import DeliveryHistory
from hookgw.deliveries.pull import Pulls
from hookgw.deliveries.replay import Replays
from hookgw.deliveries.service import DeliveryService
from hookgw.deliveries.stuck_lanes import StuckLanes
from hookgw.events.accept import EventIntake
from hookgw.fleet.lane_pauses import LanePauses


class Deliveries(msgspec.Struct, frozen=True, eq=False):
    service: DeliveryService
    replays: Replays
    cancellations: Cancellations
    bulk: BulkJobs
    history: DeliveryHistory
    pulls: Pulls
    stuck: StuckLanes


def open_deliveries(
    core: Core, lane_pauses: LanePauses, intake: EventIntake, send_once: SendOnce
) -> Deliveries:
    registry, store, jobs = core.registry, core.store, core.jobs
    history = DeliveryHistory(store, core.metrics.limited)
    replays = Replays(registry, store, history, jobs, core.outbox, core.audit)
    cancellations = Cancellations(
        registry, store, core.dispatcher, core.pending, lane_pauses, history, jobs, core.audit
    )
    bulk = BulkJobs(registry, store, jobs, core.audit, replays, cancellations, core.clock, core.node.holds)
    edited = EditedDeliveries(registry, history, intake, send_once, core.audit, replays)
    service = DeliveryService(replays, cancellations, bulk, DryRuns(registry), edited)
    stuck = StuckLanes(core.dispatcher.find_lane, core.clock)
    pulls = Pulls(
        registry,
        store,
        core.dispatcher,
        core.fetches,
        core.node,
        core.clock,
        core.outbox,
        core.audit,
        core.hooks,
        # Half of the connections.
        divide_open_files(core.settings.server.max_connections).clients // 2,
    )
    return Deliveries(service, replays, cancellations, bulk, history, pulls, stuck)
