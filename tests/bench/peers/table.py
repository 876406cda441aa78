"""The table of docs/performance.md, in Markdown, from the cells of each system."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from tests.bench.peers.cells import RECOVERY, Cell

Cells = Mapping[str, Sequence[Cell]]
"""The cells of one system by name, one for each round."""

THROUGHPUT = {
    "1-1": ("1 destination, 1 publisher", 1, 1),
    "1-128": ("1 destination, 128 publishers", 1, 128),
    "64-1": ("64 destinations, 1 publisher", 64, 1),
    "64-128": ("64 destinations, 128 publishers", 64, 128),
}
"""The cells of throughput: a title, the destinations and the publishers."""
OFFERED = {"200": 200, "1000": 1000}
"""The cells of latency: events offered per second."""
KILLED = {"killed": 0, "killed-failing": 20}
"""The cells with a kill: how many per cent of the receiver's answers are 503."""


def table(results: Mapping[str, Cells]) -> str:
    """Return the table; hookgw is the first system.

    Args:
        results: the cells of each system, by its title.
    """
    own, *others = results
    lines = [
        "| measure | " + " | ".join(results) + " |",
        "|---" * (len(results) + 1) + "|",
    ]

    def row(title: str, cell: str, show: Callable[[Sequence[Cell]], str]) -> None:
        shown = [show(cells[cell]) if cells.get(cell) else "–" for cells in results.values()]
        if set(shown) != {"–"}:
            lines.append(f"| {title} | " + " | ".join(shown) + " |")

    for name, (title, _, _) in THROUGHPUT.items():
        rates = {system: _median(cells.get(name, ()), _rate) for system, cells in results.items()}
        shown = [_number(rates[own])]
        for other in others:
            ratio = rates[own] / rates[other] if rates[other] else 0.0
            shown.append(f"{_number(rates[other])} ({ratio:.2f} ×)" if rates[other] else "–")
        lines.append(f"| {title}: delivered events/s | " + " | ".join(shown) + " |")
    for name, (title, _, _) in THROUGHPUT.items():
        row(f"{title}: processor seconds per 1,000 events", name, _cpu)
    for name in OFFERED:
        row(f"latency at {int(name):,} events/s offered, p50 / p99", name, _latency)
    row("memory after the last of these: own processes + servers", list(OFFERED)[-1], _memory)
    for name, (title, _, _) in THROUGHPUT.items():
        row(f"{title}: out of order, of 1,000 events", name, _inversions)
    for name, failing in KILLED.items():
        title = "`kill -9` and restart" + (f", while {failing} % of requests fail" if failing else "")
        row(f"{title}: not delivered after {RECOVERY} s / delivered again", name, _lost)
        row(f"{title}: out of order, of 1,000 events", name, _inversions)
        row(f"{title}: p50 / p99", name, _latency)
    return "\n".join(lines) + "\n"


def _median(cells: Sequence[Cell], figure: Callable[[Cell], float]) -> float:
    return median(map(figure, cells)) if cells else 0.0


def _rate(cell: Cell) -> float:
    return cell.account.rate


def _cpu(cells: Sequence[Cell]) -> str:
    if any(cell.cpu is None for cell in cells):
        return "–"
    return _number(_median(cells, lambda cell: 1000 * (cell.cpu or 0.0) / max(1, cell.account.delivered)))


def _latency(cells: Sequence[Cell]) -> str:
    p50, p99 = (_time(_median(cells, lambda cell: cell.account.p50)), _time(_median(cells, _p99)))
    late = sum(cell.account.lost for cell in cells)
    return f"{p50} / {p99}" + (f" ({late} not in time)" if late else "")


def _p99(cell: Cell) -> float:
    return cell.account.p99


def _memory(cells: Sequence[Cell]) -> str:
    if cells[-1].memory is None:
        return "–"
    gateway, servers = cells[-1].memory
    return f"{gateway:.0f} + {servers:.0f} MiB" if servers else f"{gateway:.0f} MiB"


def _inversions(cells: Sequence[Cell]) -> str:
    delivered = sum(cell.account.delivered for cell in cells)
    inversions = sum(cell.account.inversions for cell in cells)
    return _number(1000 * inversions / delivered) if delivered else "–"


def _lost(cells: Sequence[Cell]) -> str:
    lost, repeated = (sum(getattr(cell.account, name) for cell in cells) for name in ("lost", "repeated"))
    return f"{lost} / {repeated} of {sum(cell.account.accepted for cell in cells):,}"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{_number(seconds * 1e3)} ms"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.2g}"
