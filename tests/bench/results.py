"""What a measure gives: a number of hookgw's beside the same number of its reference. No I/O."""

from collections.abc import Sequence
from typing import Literal

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    Attributes:
        name: what was measured.
        value: hookgw's number.
        unit: of both numbers.
        reference: what it is measured against, in the same run on the same machine.
        reference_value: the number of that.
        better: whether more or less is better.
        details: further numbers that explain the value.
    """

    name: str
    value: float
    unit: str
    reference: str
    reference_value: float
    better: Literal["more", "less"] = "more"
    details: dict[str, float] = {}

    @property
    def ratio(self) -> float:
        """The value in units of the reference."""
        return self.value / self.reference_value if self.reference_value else 0.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that one run gives; two of them can be compared.

    Attributes:
        machine: what it ran on.
        size: ``quick`` or ``full``.
        results: in the order of the run.
        failures: why a measure gave nothing, by its name.
    """

    machine: dict[str, str | float]
    size: str
    results: list[Result]
    failures: dict[str, str]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
