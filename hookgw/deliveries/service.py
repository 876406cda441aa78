"""The calls that change deliveries, in one place for the API, the dashboard and plugins."""

from __future__ import annotations

from hookgw.deliveries.cancellation import Cancellations
from hookgw.deliveries.replay import Replays


class DeliveryService:
    """The methods of the parts themselves.

    Attributes:
        resend, replay: see :class:`~hookgw.deliveries.replay.Replays`.
        cancel, cancel_one: see :class:`~hookgw.deliveries.cancellation.Cancellations`.
        count_cancellable: see :meth:`~hookgw.deliveries.cancellation.Cancellations.count`.
    """

    def __init__(self, replays: Replays, cancellations: Cancellations) -> None:
        self.resend = replays.resend
        self.replay = replays.replay
        self.cancel = cancellations.cancel
        self.cancel_one = cancellations.cancel_one
        self.count_cancellable = cancellations.count
