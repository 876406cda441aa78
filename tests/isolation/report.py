"""The figures of an attack, whether they are good enough, and their row in the table. No I/O."""

from collections.abc import Mapping, Sequence

import msgspec

FACTOR = 3.0
"""A latency under attack may be this many times the quiet one, …"""
ALWAYS_FINE = 0.1
"""… and a latency up to this is fine in any case. Seconds."""
MAX_HEALTHZ = 0.2
"""The longest response of ``/healthz``, in seconds."""
BUDGETS = 128 + 128 + 64 + 256
"""The defaults of ``delivery.memory``, ``server.body_memory``, ``server.response_memory`` and
``delivery.answer_memory``, in MiB. An attack may use so much more memory than there was at rest."""

HEADER = (
    "| attack | what the attacker does | emit answered, quiet → attacked | delivered, quiet → attacked "
    "| refused | lost | healthz | memory at rest → peak | verdict |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


UNMEASURED = "not measured yet"


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one attack did. Times in seconds, memory in MiB.

    Attributes:
        answered: the victim's p95 from an emit to its 202, quiet and under attack.
        delivered: the victim's p95 from an emit to its delivery, quiet and under attack.
        healthz: the longest response of ``/healthz`` under attack.
        refused: requests of the victim that were refused, by what came instead.
        lost: the victim's accepted events that never arrived.
        memory: the resident memory of the gateway: at rest, and the most.
        blocks: whether the attack blocks the event loop from inside; see :class:`Attack`.
        failure: why the run itself failed, for example because the gateway ended.
        counts: what the attacker's requests were answered with.
        processor: the share of one processor that the gateway used under attack. On a machine that does
            other work, it tells whether a latency is the gateway's.
        steps: the longest steps of its event loop, if they were measured.
    """

    answered: tuple[float, float] = (0.0, 0.0)
    delivered: tuple[float, float] = (0.0, 0.0)
    healthz: float = 0.0
    refused: Mapping[str, int] = {}
    lost: int = 0
    memory: tuple[float, float] = (0.0, 0.0)
    blocks: bool = False
    failure: str | None = None
    counts: Mapping[str, int] = {}
    processor: float = 0.0
    steps: Sequence[str] = ()


def shortcomings(figures: Figures) -> list[str]:
    """Return what is not good enough, each in a few words; nothing if the attack hurt only the attacker."""
    if figures.failure is not None:
        return [figures.failure]
    found = []
    for name, (quiet, attacked) in (("answers", figures.answered), ("deliveries", figures.delivered)):
        if attacked > max(FACTOR * quiet, ALWAYS_FINE) and not figures.blocks:
            found.append(f"{name} are late")
    if figures.healthz > MAX_HEALTHZ and not figures.blocks:
        found.append("healthz is slow")
    if figures.refused:
        found.append("refused " + ", ".join(f"{count}x {what}" for what, count in figures.refused.items()))
    if figures.lost:
        found.append(f"{figures.lost} lost")
    rest, peak = figures.memory
    if peak > rest + BUDGETS:
        found.append("too much memory")
    return found


def row(name: str, what: str, figures: Figures) -> str:
    """Return the attack's row of the table in Markdown."""
    verdict = "; ".join(shortcomings(figures)) or ("held, and reported" if figures.blocks else "held")
    if figures.failure is not None:
        return f"| {name} | {what} | | | | | | | {verdict} |"
    times = [
        f"{quiet * 1e3:.0f} → {attacked * 1e3:.0f} ms"
        for quiet, attacked in (figures.answered, figures.delivered)
    ]
    rest, peak = figures.memory
    cells = [
        *(name, what, *times, f"{sum(figures.refused.values())}", f"{figures.lost}"),
        *(f"{figures.healthz * 1e3:.0f} ms", f"{rest:.0f} → {peak:.0f} MiB", verdict),
    ]
    return "| " + " | ".join(cells) + " |"
