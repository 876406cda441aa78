"""Names of the log's histories: a cursor counts only in the history that it is of."""

from __future__ import annotations

from typing import Any, NamedTuple

# A promotion adds one. A reader that missed more of them begins anew.
_MOST_FORMER = 20


class Generations(NamedTuple):
    """The generation of the log, and what it has of former ones.

    Attributes:
        current: a name of 12 hexadecimal digits; another one begins when a backup is restored.
        former: generations that this one goes on with, each with the last transaction that it has of them.
            Beyond, other events have the same places now.
    """

    current: str
    former: dict[str, int]

    @classmethod
    def parse(cls, text: str) -> Generations:
        """Read them as they are stored: ``current former<transaction …``."""
        current, *former = text.split(" ")
        pairs = (one.split("<") for one in former)
        return cls(current, {name: int(transaction) for name, transaction in pairs})

    def __str__(self) -> str:
        return " ".join([self.current, *(f"{name}<{last}" for name, last in self.former.items())])

    def has(self, generation: str, transaction: int) -> bool:
        """Return whether a transaction of a generation is what it was."""
        if generation == self.current:
            return True
        return generation in self.former and transaction <= self.former[generation]

    def followed_by(self, name: str, last: int) -> Generations:
        """Return those of a new generation that has everything up to a transaction."""
        former = {one: min(known, last) for one, known in self.former.items()} | {self.current: last}
        return Generations(name, dict(list(former.items())[-_MOST_FORMER:]))


def read_generations(connection: Any) -> Generations:
    """Read the generations of the log. The table is the same in every engine; see log.py."""
    return Generations.parse(connection.execute("SELECT generation FROM log_state").fetchone()[0])
