"""The calls that change deliveries, in one place for the API, the dashboard and plugins."""

from __future__ import annotations

from functools import partial

from hookgw.deliveries.bulk import BulkJobs
from hookgw.deliveries.cancellation import Cancellations
from hookgw.deliveries.dry_run import DryRuns
from hookgw.deliveries.edited import EditedDeliveries
from hookgw.deliveries.replay import Replays
from hookgw.records.jobs import JobKind


class DeliveryService:
    """The methods of the parts themselves.

    Attributes:
        resend, replay: see :class:`~hookgw.deliveries.replay.Replays`.
        resend_edited, send_elsewhere, send_event, send_event_elsewhere, origin_of: see
            :class:`~hookgw.deliveries.edited.EditedDeliveries`.
        cancel, cancel_one: see :class:`~hookgw.deliveries.cancellation.Cancellations`.
        replay_in, cancel_in: in several instances; see :meth:`~hookgw.deliveries.bulk.BulkJobs.start_in`.
        count_replayable, count_cancellable: see :class:`~hookgw.deliveries.dry_run.DryRuns`.
    """

    def __init__(
        self,
        replays: Replays,
        cancellations: Cancellations,
        bulk: BulkJobs,
        dry_runs: DryRuns,
        edited: EditedDeliveries,
    ) -> None:
        self.resend = replays.resend
        self.resend_edited = edited.resend_edited
        self.send_elsewhere = edited.send_elsewhere
        self.origin_of = edited.origin_of
        self.send_event = edited.send_event
        self.send_event_elsewhere = edited.send_event_elsewhere
        self.replay = replays.replay
        self.count_replayable = partial(dry_runs.count, count=replays.count)
        self.cancel = cancellations.cancel
        self.cancel_one = cancellations.cancel_one
        self.replay_in = partial(bulk.start_in, JobKind.REPLAY)
        self.cancel_in = partial(bulk.start_in, JobKind.CANCEL)
        self.count_cancellable = partial(dry_runs.count, count=cancellations.count)
