"""Operations: what operators see of all nodes, and what looks after this one."""

from __future__ import annotations

import msgspec

from hookgw.core.open import Core
from hookgw.deliveries.bulk import PARTS
from hookgw.deliveries.open import Deliveries
from hookgw.fleet.all_nodes import AllNodes, Answers
from hookgw.fleet.lane_pauses import PAUSE
from hookgw.fleet.open import Fleet
from hookgw.instances.open import Instances
from hookgw.operations.activity import Activity
from hookgw.operations.backups import BackupService
from hookgw.operations.delivery_monitor import DeliveryMonitor
from hookgw.operations.figures import FigureService
from hookgw.operations.node_reports import NodeReports, SendMessage
from hookgw.operations.problems import Problems
from hookgw.operations.repairs import REPAIR, Mutes, Repairs
from hookgw.operations.views import Views
from hookgw.webhooks.open import Webhooks


class Operations(msgspec.Struct, frozen=True, eq=False):
    monitor: DeliveryMonitor
    activity: Activity
    figures: FigureService
    views: Views
    backups: BackupService


async def open_operations(
    core: Core,
    fleet: Fleet,
    instances: Instances,
    webhooks: Webhooks,
    deliveries: Deliveries,
    send_message: SendMessage,
    more_answers: Answers,
) -> Operations:
    node, registry, clock, dispatcher = core.node, core.registry, core.clock, core.dispatcher
    auto_disable = webhooks.auto_disable
    monitor = DeliveryMonitor(
        registry, core.hooks, core.metrics, core.operational, auto_disable, deliveries.stuck
    )
    activity = Activity(core.metrics)
    problems = Problems(
        instances.service,
        instances.states,
        instances.quiet,
        registry,
        dispatcher,
        auto_disable,
        deliveries.stuck,
        core.restarts,
        core.backlog,
        core.disk,
        core.metrics,
        core.store.held,
        clock,
        node.holds,
    )
    reports = NodeReports(
        instances.service,
        registry,
        deliveries.service,
        dispatcher,
        auto_disable,
        activity,
        problems,
        instances.states,
        instances.quiet,
        send_message,
        clock,
        node.holds,
        lambda: node.shards,
    )
    answers: Answers = {
        **reports.answers(),
        PAUSE: fleet.lane_pauses.answer,
        PARTS: deliveries.bulk.answer,
        REPAIR: Repairs(webhooks.service, instances.service, node.holds).answer,
        **more_answers,
    }
    nodes = AllNodes(node, fleet.peers, core.settings.server.base_path, clock, answers)
    mutes = Mutes(core.store, core.audit, clock, core.refresh.alone)
    views = Views(nodes, deliveries.service, deliveries.history, mutes, clock)
    figures = FigureService(
        core.store, registry, core.backlog, clock, core.settings.storage.figures_limit, node.is_responsible
    )
    backups = BackupService(core.store, core.jobs, core.audit, clock, core.settings.storage, core.threads)
    return Operations(monitor, activity, figures, views, backups)
