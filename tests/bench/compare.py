"""Two reports side by side: what changed between two runs. No I/O."""

from typing import NamedTuple

from tests.bench.results import Report


class Change(NamedTuple):
    """One measure in two runs; ``None`` where a run lacks it.

    Attributes:
        name: of the measure.
        unit: of both values.
        before, after: hookgw's numbers.
        ratio_before, ratio_after: the same in units of the reference of their own run, which takes the
            machine and its load out.
        gain: by which factor the ratio got better; under 1 it got worse.
    """

    name: str
    unit: str
    before: float | None
    after: float | None
    ratio_before: float | None
    ratio_after: float | None
    gain: float | None


def compare(before: Report, after: Report) -> list[Change]:
    """Every measure of either report, in the order of the first, then what only the second has."""
    old = {result.name: result for result in before.results}
    new = {result.name: result for result in after.results}
    changes = []
    for name in dict.fromkeys([*old, *new]):
        one, other = old.get(name), new.get(name)
        known = other or old[name]
        gain = None
        if one and other and one.ratio and other.ratio:
            gain = other.ratio / one.ratio if known.better == "more" else one.ratio / other.ratio
        changes.append(
            Change(
                name,
                known.unit,
                one.value if one else None,
                other.value if other else None,
                one.ratio if one else None,
                other.ratio if other else None,
                gain,
            )
        )
    return changes
