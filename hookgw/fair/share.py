"""Divides something limited among holders, so that no holder can use it up. No I/O.

The dynamic threshold
---------------------

A holder may have at most ``ratio`` times the amount that is free then (Choudhury and Hahne, "Dynamic queue
length thresholds for shared-memory packet switches", 1998). In other words, it may have ``ratio / (ratio +
1)`` of what the others leave: :func:`share_of`. With a ratio of 3, a lone holder gets three quarters; if ten
want everything, each gets 3/31, and 1/31 stays free. The more is used, the less each user may have, so a
holder that comes late always finds some. This needs neither a list of holders nor a clock: the threshold
follows from what the holder has and what is free. A falling threshold takes nothing away.

However many holders there are, the last unit is for a holder that has nothing. If units are held for long,
one unit is not enough: the first new holder takes it, and the next one finds none. Then a larger part can be
reserved for holders that have little.

The line
--------

Claims that do not fit wait in line: in turn among holders, then among the claims of a holder
(:class:`~hookgw.fair.turns.Turns`). They are served as soon as they fit. So a claim that fits when it is made
has overtaken none of the same size.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from hookgw.fair.per_holder import PerHolder
from hookgw.fair.turns import Turns

LITTLE = 256
"""A holder has little if it has at most this fraction of the total, or one."""

LOOKED_AT = 16
"""How many holders are passed over, at most, when something becomes free. They wait for the next time."""


def share_of(left: int, ratio: int, spare: int = 0, little: int = 0) -> int:
    """Return how much a holder may have.

    Args:
        left: the holder's amount, and the free amount.
        spare: how much must stay free.
        little: what each holder may have, whatever the ratio and the spare part say.
    """
    most = left * ratio // (ratio + 1)
    # Not min() and max(), which take three times as long: this is on the path of every delivery.
    if most > left - spare:
        most = left - spare
    return most if most > little else little  # noqa: FURB136


class Claim(Protocol):
    """A place in line. It is compared by identity, and in one line at a time."""

    @property
    def holder(self) -> str: ...

    @property
    def amount(self) -> int: ...

    def granted(self) -> None:
        """The amount was taken for the holder. This may take and line up elsewhere, but not here."""


C = TypeVar("C", bound=Claim)


class Share(PerHolder[str], Generic[C]):
    """Something limited, with its holders and the claims that wait for it.

    Every :meth:`take` and every grant is followed by one :meth:`give` of the same amount, which serves the
    line. A claim that is larger than a holder may have waits until no holder has anything: cut it, or let it
    count as a quarter of the total at most.

    Args:
        ratio: how many times the free amount a holder may have.
        reserved: this part of the total (4 is a quarter) is for holders that have little even after their
            claim; by default, the last unit is for a holder that has nothing.
        little: how much that is; by default, a 256th of the total.

    Attributes:
        total: how much there is. After a change, call :meth:`serve`.
        is_shared: whether others may want some soon; if not, a holder that is alone may take all of it.
        calm: while no more than this is used, no holder can have more than it may.
    """

    __slots__ = (
        "_given_little",
        "_lines",
        "_little",
        "_spare",
        "_total",
        "calm",
        "is_shared",
        "ratio",
        "reserved",
    )

    def __init__(
        self, total: int, ratio: int, reserved: int | None = None, little: int | None = None
    ) -> None:
        super().__init__()
        self.ratio = ratio
        self._given_little = little
        self.reserved = reserved
        self.is_shared = True
        # Made on first use: there is one of these objects for each host.
        self._lines: Turns[str, C] | None = None
        self.total = total

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, total: int) -> None:
        self._total = total
        if self.reserved is None:
            spare, self._little = int(total > self.ratio), 1
        else:
            spare, self._little = total // self.reserved, self._given_little or max(total // LITTLE, 1)
        # Units are whole: a holder may take one while it has less than its share, so that one may have both
        # of two. This is as if one more were left, which is always spare.
        self._spare = spare + 1
        self.calm = share_of(total + 1, self.ratio, self._spare)

    @property
    def waiting(self) -> int:
        return len(self._lines) if self._lines else 0

    def claims(self) -> list[C]:
        return list(self._lines or ())

    def fits(self, holder: str, amount: int = 1) -> bool:
        used = self.used + amount
        return used <= self.calm or amount <= self.room(holder) or amount == used <= self._total

    def room(self, holder: str) -> int:
        """Return how much a holder may take now, or less than 1."""
        free = self._total - self.used
        held = self._held.get(holder, 0)
        if held == self.used and not self.is_shared:
            return free
        room = share_of(free + held + 1, self.ratio, self._spare, self._little) - held
        return room if room < free else free  # noqa: FURB136

    def line_up(self, claim: C) -> None:
        """Put a claim that does not fit now in line."""
        if self._lines is None:
            self._lines = Turns()
        self._lines.add(claim.holder, claim)
        self.on_given = self.serve

    def leave(self, claim: C) -> bool:
        """Leave the line; return whether the claim was in it."""
        # The holder keeps its turn: a lane that only looks at its outbox again comes back.
        if self._lines is None or not self._lines.remove(claim.holder, claim):
            return False
        if self._lines.first_of(claim.holder) is not None:
            self.serve()  # the next one may want less
        return True

    def serve(self) -> None:
        lines, passed_over = self._lines, 0
        if lines is None:
            return
        while self.used < self._total and passed_over < min(lines.holders, LOOKED_AT):
            holder, claim = lines.first()
            if not self.fits(holder, claim.amount):
                lines.skip(holder)
                passed_over += 1
                continue
            passed_over = 0
            lines.pop(holder)
            self.take(holder, claim.amount)
            claim.granted()
        if not lines:
            self.on_given = None
