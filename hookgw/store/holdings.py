"""How much of the history each instance holds, and what of it must go. No I/O.

The sizes of payloads are in the rows of deliveries. Attempts and bodies would have to be read to be summed,
which is most of the history: those of a sample of the deliveries tell what is usual for the instance.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeAlias

from hookgw.fair.excess import Excess
from hookgw.store.reader import C

SAMPLED = 32
"""Attempts and bodies are read for one in so many deliveries."""
ROW_BYTES = 600
"""What a finished delivery takes beside them: its row, that of its event, and both in the indexes."""


class Part(NamedTuple):
    """What finished deliveries of one instance take.

    Attributes:
        size: bytes of their payloads.
        sampled: how many of them belong to the sample.
        more: bytes of the attempts and bodies of these.
    """

    instance: int
    deliveries: int
    size: int
    sampled: int
    more: int


Counted: TypeAlias = tuple[int | None, list[Part]]
"""The last number that was looked at, ``None`` at the end, and what was found."""


class Oldest(NamedTuple):
    """An old delivery of an instance that holds too much; or an event of which only the id is left.

    Attributes:
        at: when it finished, or was accepted.
        size: bytes of its payload, or of the id.
    """

    at: int
    seq: int
    instance: int
    size: int


BEFORE_ALL = Oldest(at=-1, seq=-1, instance=0, size=0)


async def measure(
    read: Callable[[Callable[[C], Counted]], Awaitable[Counted]],
    count: Callable[..., Counted],
    rows: int,
) -> list[Part]:
    """Return what instances hold, counted in parts of so many rows."""
    parts: list[Part] = []
    # At random: nobody can know in advance whose attempts count.
    sample, last = random.randrange(SAMPLED), -1  # noqa: S311 -- no secret
    while True:
        given = {"sample": sample, "after": last, "rows": rows}
        end, found = await read(partial(count, given=given))
        if end is None:
            return parts
        parts, last = parts + found, end


class HistoryExcess:
    """What must go of each instance's deliveries so that the fraction ``kept`` of the history stays."""

    def __init__(self, parts: Iterable[Part], kept: float) -> None:
        totals: dict[int, Part] = {}
        for part in parts:
            _, *former = totals.get(part.instance, Part(part.instance, 0, 0, 0, 0))
            totals[part.instance] = Part(part.instance, *map(sum, zip(former, part[1:], strict=True)))
        self._row = {name: ROW_BYTES + one.more / max(one.sampled, 1) for name, one in totals.items()}
        held = {name: one.size + one.deliveries * self._row[name] for name, one in totals.items()}
        self._excess = Excess(held, kept * sum(held.values()))

    @property
    def holders(self) -> list[int]:
        return list(self._excess.left)

    def take(self, removed: Iterable[Oldest]) -> None:
        for one in removed:
            self._excess.take(one.instance, one.size + self._row[one.instance])
