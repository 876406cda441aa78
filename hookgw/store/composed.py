"""The parts of an engine behind one interface."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx
from hookgw.store.figures import SteppedFigures
from hookgw.store.history import SteppedHistory
from hookgw.store.log import SteppedLog
from hookgw.store.protocol.backfills import Backfills
from hookgw.store.protocol.outbox import Outbox
from hookgw.store.protocol.pending_changes import PendingChanges
from hookgw.store.protocol.records import Records
from hookgw.store.protocol.store import AuditLog, Backups


class Parts(NamedTuple):
    outbox: Outbox
    changes: PendingChanges
    history: SteppedHistory[Any, Any]
    log: SteppedLog[Any, Any]
    records: Records
    audit: AuditLog
    backups: Backups
    backfills: Backfills
    figures: SteppedFigures[Any, Any]


class ComposedStore(Generic[Tx]):
    """Eight parts as one :class:`hookgw.store.Store`, but for what engines add.

    The methods are those of the parts themselves, not wrappers: ``settle_nowait`` and ``read_lane`` are on
    the path of every delivery.
    """

    def __init__(self, commits: GroupCommit[Tx], parts: Parts) -> None:
        outbox, changes, history, log, records, audit, backups, backfills, figures = parts
        self._commits = commits
        self.check_open = commits.check_open
        self.statistics = commits.statistics

        self.append = outbox.append
        self.read_lane = outbox.read_lane
        self.settle_nowait = outbox.settle_nowait
        self.wait_settled = outbox.wait_settled
        self.wait_settle_capacity = outbox.wait_settle_capacity
        self.flush = outbox.flush
        self.pending_lanes = outbox.pending_lanes
        self.pending_counts = outbox.pending_counts
        self.count_pending = outbox.count_pending
        self.held = outbox.held
        self.last_attempt = outbox.last_attempt
        self.generation = outbox.generation
        self.has_place = outbox.has_place
        self.subscribe = outbox.subscribe

        self.park_cursor = changes.park_cursor
        self.park_step = changes.park_step
        self.drop_oldest = changes.drop_oldest
        self.cancel_cursor = changes.cancel_cursor
        self.cancel_step = changes.cancel_step
        self.cancel_one = changes.cancel_one
        self.count_cancellable = changes.count_cancellable
        self.count_replayable = changes.count_replayable
        self.find_concerned = changes.find_concerned
        self.erase = changes.erase
        self.resend = changes.resend
        self.reopen = changes.reopen
        self.replay_step = changes.replay_step
        self.repartition_step = changes.repartition_step

        self.list_deliveries = history.list_deliveries
        self.find_delivery = history.find_delivery
        self.find_content = history.find_content
        self.instances_of_event = history.instances_of_event
        self.list_events = log.list_events
        self.find_event = log.find_event
        self.index_log = log.index
        self.wait_log_growth = log.wait_growth
        self.tally = history.tally
        self.newest = history.newest
        self.enforce_retention = history.enforce_retention

        self.load_instances = records.load_instances
        self.put_instance = records.put_instance
        self.remove_instance = records.remove_instance
        self.load_state = records.load_state
        self.load_rhythm = records.load_rhythm
        self.put_rhythms = records.put_rhythms
        self.load_coverage = records.load_coverage
        self.put_coverage = records.put_coverage
        self.load_plugin_records = records.load_plugin_records
        self.put_plugin_records = records.put_plugin_records
        self.load_registrations = records.load_registrations
        self.put_registration = records.put_registration
        self.remove_registration = records.remove_registration
        self.load_jobs = records.load_jobs
        self.put_job = records.put_job
        self.remove_jobs = records.remove_jobs
        self.load_sessions = records.load_sessions
        self.put_session = records.put_session
        self.remove_sessions = records.remove_sessions
        self.load_keys = records.load_keys
        self.put_key = records.put_key
        self.remove_keys = records.remove_keys
        self.get_value = records.get_value
        self.put_value = records.put_value
        self.make_due = records.make_due

        self.record_audit = audit.record_audit
        self.list_audit = audit.list_audit
        self.prune_audit = audit.prune_audit

        self.back_up = backups.back_up

        self.begin_backfill = backfills.begin_backfill
        self.backfill_barrier = backfills.backfill_barrier
        self.backfill_step = backfills.backfill_step
        self.find_missed = backfills.find_missed

        self.fold_figures = figures.fold_figures
        self.read_figures = figures.read_figures
        self.sum_figures = figures.sum_figures
        self.oldest_pending = figures.oldest_pending
        self.prune_figures = figures.prune_figures
