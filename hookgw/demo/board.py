"""The rows of the demo's table and its final verdict. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hookgw.demo.ledger import Ledger
from hookgw.demo.receivers import DemoReceiver
from hookgw.records.deliveries import LaneState, LaneStatistics


@dataclass(frozen=True, kw_only=True)
class Row:
    """One lane.

    Attributes:
        name: the receiver's name, or the URL if the user registered it.
        receiver: the receiver's state; empty if it is unknown.
        ledger: ``None`` for a URL that the user registered.
    """

    name: str
    receiver: str = ""
    lane: LaneState = LaneState.IDLE
    pending: int = 0
    ledger: Ledger | None = None


def rows(receivers: Sequence[DemoReceiver], lanes: Iterable[LaneStatistics]) -> list[Row]:
    """Return the rows of the receivers, then those of URLs that the user registered."""
    by_url = {lane.url or lane.lane: lane for lane in lanes}
    result = []
    for receiver in receivers:
        # Without events for a while, a lane ends: no lane means idle.
        lane = by_url.pop(receiver.url, None)
        row = Row(
            name=receiver.name,
            receiver=receiver.trouble.value,
            lane=lane.state if lane else LaneState.IDLE,
            pending=lane.backlog if lane else 0,
            ledger=receiver.ledger,
        )
        result.append(row)
    return result + [Row(name=url, lane=lane.state, pending=lane.backlog) for url, lane in by_url.items()]


def verdict(receivers: Sequence[DemoReceiver]) -> list[str]:
    """Return a line for each receiver: the expected events and the arrived ones."""
    lines = []
    for receiver in receivers:
        ledger = receiver.ledger
        line = f"{receiver.name:>4}: {ledger.arrived} of {ledger.accepted} events arrived"
        failed = ledger.failed_attempts
        attempts = f" ({failed} failed attempt{'s' if failed > 1 else ''})" if failed else ""
        if ledger.flawless:
            lines.append(f"{line} once, in order, verified{attempts}.")
        else:
            # Ctrl-C during an outage leaves events pending on disk: they are late, not missing.
            waiting = {"not delivered yet": ledger.missing, "not settled yet": ledger.unsettled}
            problems = {name: count for name, count in waiting.items() if count} | ledger.faults
            lines.append(f"{line}{attempts}: {named_counts(problems)}.")
    return lines


def named_counts(counts: Mapping[str, int]) -> str:
    """Return counts in words: ``2 repeated, 1 out of order``."""
    return ", ".join(f"{count} {name}" for name, count in counts.items())
