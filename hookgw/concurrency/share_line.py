"""Waits for a part of something shared, in the line of its :class:`~hookgw.fair.Share`."""

from __future__ import annotations

import trio

from hookgw.fair import Share


class WaitingClaim:
    __slots__ = ("amount", "event", "holder")

    def __init__(self, holder: str, amount: int) -> None:
        self.holder = holder
        self.amount = amount
        self.event = trio.Event()

    def granted(self) -> None:
        self.event.set()


async def take_in_line(share: Share[WaitingClaim], holder: str, amount: int = 1) -> None:
    """Take some of a share, as soon as it fits. This is a checkpoint only if it waits.

    If this is cancelled, nothing was taken. Otherwise, :meth:`~hookgw.fair.Share.give` must follow.
    """
    if share.fits(holder, amount):
        share.take(holder, amount)
        return
    claim = WaitingClaim(holder, amount)
    share.line_up(claim)
    try:
        await claim.event.wait()
    except BaseException:
        if not share.leave(claim):  # granted in the moment of the cancellation
            share.give(holder, amount)
        raise
