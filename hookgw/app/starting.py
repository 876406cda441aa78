"""The order in which a gateway starts; :mod:`hookgw.app.stopping` has that of the end.

A lane needs deadlines, jobs and re-partitions need lanes to pause, and connectors and plugins raise events,
which need all of it. The orders are no mirror images: lanes start before re-partitions, and stop before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from hookgw.app.gateway import Gateway
from hookgw.app.parts import Parts
from hookgw.app.plugin_tasks import PluginTasks
from hookgw.app.shard_work import ShardWork
from hookgw.app.start_plugins import refusal_of
from hookgw.concurrency.tasks import run_essential
from hookgw.core.this_node import ThisNode
from hookgw.events.accept import EventIntake
from hookgw.fleet.backlog_exchange import BacklogExchange
from hookgw.fleet.divided_limits import divide_limits
from hookgw.lanes.services import LaneServices
from hookgw.operations.clock_watch import ClockWatch
from hookgw.operations.history_pruning import prune_history
from hookgw.operations.watchdog import LoopWatchdog
from hookgw.records.events import Event
from hookgw.records.jobs import JobKind
from hookgw.records.operational_kinds import OPERATIONS_ID
from hookgw.records.registrations import Registration
from hookgw.store import ConnectorState
from hookgw.webhooks.refused_addresses import log_refused_addresses


async def start(
    nursery: trio.Nursery, parts: Parts, gateway: Gateway, configured: Sequence[Registration]
) -> PluginTasks:
    """Start the tasks of a gateway, in this order.

    Args:
        nursery: runs them.
        configured: the registrations of the configuration, whose addresses are looked up once.

    Returns:
        The tasks of plugins, which :func:`hookgw.app.stopping.stop` ends.
    """
    core, fleet, events = parts.core, parts.fleet, parts.events
    instances, webhooks, deliveries = parts.instances, parts.webhooks, parts.deliveries
    settings, store, pending, outbound = core.settings, core.store, core.pending, core.outbound
    essential = partial(nursery.start, run_essential)
    waiting = dict(core.backlog.registrations())

    if settings.plugins.block_warning:
        watchdog = LoopWatchdog(settings.plugins.block_warning, core.hooks.modules(), core.metrics)
        await essential("The watchdog", None, watchdog.run)
    if settings.storage.min_free:
        await essential("The watch of the disk space", None, core.disk.run)
    await essential("The hub", None, core.hub.run)
    await essential("The outgoing side", None, outbound.run)
    await essential("The dispatcher", core.dispatcher.is_stopping, core.dispatcher.run, _lane_services(parts))
    nodes = parts.operations.views.nodes
    begin = {
        JobKind.BACKFILL: webhooks.backfills.backfilling,
        JobKind.CANCEL: partial(deliveries.bulk.begin, deliveries.cancellations.cancelling, nodes),
        JobKind.DELETE_INSTANCE: instances.service.deletion,
        JobKind.DELETE_REGISTRATION: pending.parking,
        JobKind.DISABLE_REGISTRATION: pending.parking,
        JobKind.ERASE: events.erasures.erasing,
        JobKind.REPLAY: partial(deliveries.bulk.begin, deliveries.replays.replaying, nodes),
    }
    await essential("The task of jobs", None, core.jobs.run, begin)
    await essential("The task of re-partitions", pending.is_stopping, pending.run)
    await essential(
        "The task of operational events",
        None,
        core.operational.run,
        core.outbox.append_always,
        lambda: core.backlog.of(OPERATIONS_ID)[0],
    )
    await essential(
        "The task of connectors",
        instances.connectors.is_stopping,
        instances.connectors.run,
        partial(_accept_of_connector, core.node, events.intake),
        store.load_state,
        instances.service.logged_out,
    )
    plugins = PluginTasks(core, gateway)
    work = ShardWork(core, instances, webhooks.auto_disable, plugins)
    if fleet.peers is not None:
        views, node = parts.operations.views, fleet.peers.node
        await essential("The pauses for other nodes", None, fleet.lane_pauses.run, views.nodes)
        # Otherwise nobody else takes away what is pending for this node's registrations.
        removed = work.read_again if settings.limits.on_full == "drop_oldest" else None
        nursery.start_soon(BacklogExchange(node.shared.backlogs, core.backlog, node, removed).run)
        nursery.start_soon(views.pass_on_reports, instances.states)
        nursery.start_soon(views.pass_on_signs, instances.quiet)
        nursery.start_soon(fleet.peers.calls.run)
        nursery.start_soon(divide_limits, node, core.authenticator, outbound.pools, core.tag_rates)
    # Lanes, and what else works for shards, begin here.
    await essential("The fleet", None, core.node.run, work)
    nursery.start_soon(instances.service.store_disconnections)
    nursery.start_soon(instances.quiet.run)
    nursery.start_soon(instances.coverage.run)
    nursery.start_soon(parts.operations.activity.run)
    nursery.start_soon(parts.operations.figures.run)
    nursery.start_soon(ClockWatch(core.clock).run)
    if core.known_names is not None:
        nursery.start_soon(core.known_names.run)
    nursery.start_soon(
        prune_history, store, core.clock, settings.storage, settings.events, core.node.is_responsible
    )
    registrations = core.registry.registrations()
    nursery.start_soon(
        log_refused_addresses, registrations, partial(refusal_of, outbound, core.hooks), waiting
    )
    # Names, which must be looked up.
    named = [one for one in configured if outbound.known_refusal(one) is None]
    nursery.start_soon(outbound.log_refused_urls, named)
    await nursery.start(plugins.run)
    return plugins


def _lane_services(parts: Parts) -> LaneServices:
    core = parts.core
    return LaneServices(
        outbox=core.store,
        history=core.store,
        registration=core.registry.registration,
        sender=core.sender,
        pools=core.outbound.pools,
        memory=core.memory,
        monitor=parts.operations.monitor,
        clock=core.clock,
        settings=core.settings.delivery,
        may_send=core.node.may_act,
        is_shared=core.node.is_shared,
        steps=core.hub.steps,
        fetches=core.fetches,
        tag_rates=core.tag_rates,
        loop_load=core.loop_load,
    )


async def _accept_of_connector(
    node: ThisNode,
    intake: EventIntake,
    events: Sequence[Event],
    *,
    instance_id: str,
    state: ConnectorState | None = None,
) -> object:
    """Take events of one instance's connector as long as this node may run it; the commit checks it, too."""
    name = events[0].instance if events else state.instance if state is not None else ""
    return await intake.accept(events, instance_id=instance_id, state=state, epoch=node.epoch_of(name))
