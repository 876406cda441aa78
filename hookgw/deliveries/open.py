"""Deliveries: what lists, replays and cancels them."""

from __future__ import annotations

from dataclasses import dataclass

from hookgw.core.open import Core
from hookgw.deliveries.cancellation import Cancellations
from hookgw.deliveries.history import DeliveryHistory
from hookgw.deliveries.pull import Pulls
from hookgw.deliveries.replay import Replays
from hookgw.deliveries.service import DeliveryService
from hookgw.deliveries.stuck_lanes import StuckLanes
from hookgw.fleet.lane_pauses import LanePauses


@dataclass(frozen=True, eq=False)
class Deliveries:
    service: DeliveryService
    replays: Replays
    cancellations: Cancellations
    history: DeliveryHistory
    pulls: Pulls
    stuck: StuckLanes


def open_deliveries(core: Core, lane_pauses: LanePauses) -> Deliveries:
    registry, store, jobs = core.registry, core.store, core.jobs
    history = DeliveryHistory(store, core.metrics.limited)
    replays = Replays(registry, store, history, jobs, core.outbox, core.audit)
    cancellations = Cancellations(
        registry, store, core.dispatcher, core.pending, lane_pauses, history, jobs, core.audit
    )
    stuck = StuckLanes(core.dispatcher.find_lane, core.clock)
    pulls = Pulls(
        registry, store, core.dispatcher, core.fetches, core.node, core.clock, core.outbox, core.audit
    )
    return Deliveries(DeliveryService(replays, cancellations), replays, cancellations, history, pulls, stuck)
