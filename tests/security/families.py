"""Families of hostile input: what is tried, and what counts as expected."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.support.live import Live


class Trial(NamedTuple):
    """One input: what it was, what happened, and whether that is what should happen."""

    what: str
    happened: str
    expected: bool


Try = Callable[[Live], Iterator[Trial]]


class Family(NamedTuple):
    """Inputs of one kind.

    ``name`` and ``right`` (what should happen to each of them) are columns of the table.
    """

    name: str
    right: str
    tries: Try


FAMILIES: dict[str, Family] = {}
"""All of them, by name; importing a module adds those in it."""


def family(name: str, right: str) -> Callable[[Try], Try]:
    """Make a generator of trials a family."""

    def add(tries: Try) -> Try:
        FAMILIES[name] = Family(name, right, tries)
        return tries

    return add


class Result(NamedTuple):
    """What came of a family."""

    family: Family
    happened: Counter[str]
    surprises: list[Trial]

    @property
    def row(self) -> str:
        """The family in the table."""
        happened = ", ".join(f"{what} {count:,}" for what, count in self.happened.most_common())
        tried = f"{self.happened.total():,}"
        return f"| {self.family.name} | {self.family.right} | {tried} | {happened} | {len(self.surprises)} |"


HEADER = "| family | expected | tried | result | surprises |\n|---|---|---|---|---|"


def run(one: Family, live: Live) -> Result:
    """Try a whole family."""
    trials = list(one.tries(live))
    return Result(
        one, Counter(trial.happened for trial in trials), [trial for trial in trials if not trial.expected]
    )
