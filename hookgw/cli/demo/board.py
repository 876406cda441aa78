"""What the demo shows of each lane, gathered from the receivers and the gateway. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hookgw.cli.demo.ledger import Ledger
from hookgw.cli.demo.receivers import DemoReceiver
from hookgw.models.deliveries import LaneState, LaneStatistics


@dataclass(frozen=True, kw_only=True)
class Row:
    """One lane.

    Attributes:
        name: of the receiver; the URL of one that a visitor added.
        receiver: how the receiver is, where we know it.
        lane: what the lane is doing.
        on_its_way: how many deliveries are pending.
        ledger: the receiver's account; ``None`` for one that a visitor added.
        last: the text that arrived last.
    """

    name: str
    receiver: str = ""
    lane: LaneState = LaneState.IDLE
    on_its_way: int = 0
    ledger: Ledger | None = None
    last: str = ""


def rows(receivers: Sequence[DemoReceiver], lanes: Iterable[LaneStatistics]) -> list[Row]:
    """The receivers' lanes, then those that visitors added."""
    others = {lane.lane: lane for lane in lanes}
    ours = [_row(receiver, others.pop(receiver.url, None)) for receiver in receivers]
    return ours + [Row(name=lane.lane, lane=lane.state, on_its_way=lane.backlog) for lane in others.values()]


def _row(receiver: DemoReceiver, lane: LaneStatistics | None) -> Row:
    return Row(
        name=receiver.name,
        receiver=receiver.trouble.value,
        lane=lane.state if lane else LaneState.IDLE,
        on_its_way=lane.backlog if lane else 0,
        ledger=receiver.ledger,
        last=receiver.last.text if receiver.last else "",
    )


def verdict(receivers: Sequence[DemoReceiver]) -> list[str]:
    """A line for each receiver: what it was promised, and what became of it."""
    return [f"{receiver.name:>4}: {_judged(receiver.ledger)}" for receiver in receivers]


def _judged(ledger: Ledger) -> str:
    retried = f" after {ledger.in_vain} attempts in vain" if ledger.in_vain else ""
    if ledger.flawless:
        return f"{ledger.arrived} of {ledger.accepted} events arrived once, in order, verified{retried}."
    lacking = {"not arrived yet": ledger.missing, "not settled": ledger.unsettled}
    named = named_counts({fault: count for fault, count in lacking.items() if count} | ledger.faults)
    return f"{ledger.arrived} of {ledger.accepted} events arrived{retried}: {named}."


def named_counts(counts: Mapping[str, int]) -> str:
    """Counts in words: ``2 repeated, 1 out of order``."""
    return ", ".join(f"{count} {name}" for name, count in counts.items())
