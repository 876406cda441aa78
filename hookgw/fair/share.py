"""Divides something limited among holders, so that none of them can use it up. No I/O.

A holder may have at most :attr:`Share.ratio` times what is free. A lone holder gets most of it, two get
less each, and something always stays free for a holder that has nothing yet: with a ratio of 3, one holder
gets at most three quarters, and with ten that want everything, each gets 3/31, and 1/31 stays free. (The
same rule divides the buffers of network switches; there it is called a dynamic threshold.) However many
holders there are, the last unit is for a holder that has nothing. Where units are held for long, that is not
enough: holders that come one after the other find one unit, and the next ones none. Then a larger part can be
reserved for holders that have little.

Claims that do not fit wait in line: in turn among holders, then among the claims of a holder. They are served
as soon as they fit. So a claim that fits when it is made has overtaken none of the same size.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

LITTLE = 256
"""A holder has little if it has at most this fraction of the total, or one."""

LOOKED_AT = 16
"""How many holders are passed over, at most, when something becomes free. They wait for the next time."""


class Claim(Protocol):
    """A place in line. It is compared by identity, and in one line at a time."""

    @property
    def holder(self) -> str:
        """The holder that the claim is for."""

    @property
    def amount(self) -> int:
        """How much it claims."""

    def granted(self) -> None:
        """The amount was taken for the holder. This may take and line up elsewhere, but not here."""


C = TypeVar("C", bound=Claim)


class Share(Generic[C]):
    """Something limited, and who has how much of it.

    Every :meth:`take` and every grant is followed by one :meth:`give` of the same amount.

    Args:
        total: how much there is.
        ratio: how many times what is free a holder may have.
        reserved: this part of the total (4 is a quarter) is for holders that have little even with what they
            want; by default, the last unit is for a holder that has nothing.

    Attributes:
        total, ratio, reserved: as given. After a change of ``total``, call :meth:`serve`.
        used: how much is taken.
    """

    __slots__ = ("_held", "_lines", "ratio", "reserved", "total", "used")

    def __init__(self, total: int, ratio: int, reserved: int | None = None) -> None:
        self.total = total
        self.ratio = ratio
        self.reserved = reserved
        self.used = 0
        self._held: dict[str, int] = {}
        # Made on first use: there is one of these objects for each host.
        self._lines: OrderedDict[str, dict[C, None]] | None = None

    def held(self, holder: str) -> int:
        """Return how much a holder has."""
        return self._held.get(holder, 0)

    @property
    def waiting(self) -> int:
        """How many claims wait."""
        return sum(map(len, self._lines.values())) if self._lines else 0

    def claims(self) -> list[C]:
        """Return the claims that wait."""
        return [claim for line in self._lines.values() for claim in line] if self._lines else []

    def fits(self, holder: str, amount: int = 1) -> bool:
        """Return whether a holder may take so much now."""
        free = self.total - self.used
        if amount > free:
            return False
        # The first comparison is enough while little is used, and no holder has more than that.
        return self.used + amount <= self.ratio * free or amount <= self.room(holder)

    def room(self, holder: str) -> int:
        """Return how much a holder may take now."""
        free = self.total - self.used
        held = self._held.get(holder, 0)
        limit = min(free, self.ratio * free - held)
        # The last of it is for a holder that has nothing, or little. Otherwise many holders, none of which
        # has much, together leave nothing to another one, however little that one wants.
        if self.reserved is None:
            return limit if held == 0 else min(limit, free - 1)
        little = max(self.total // LITTLE, 1) - held
        return min(limit, max(free - self.total // self.reserved, little))

    def take(self, holder: str, amount: int = 1) -> None:
        """Take some, whether or not it :meth:`fits`."""
        self.used += amount
        held = self._held
        held[holder] = held.get(holder, 0) + amount

    def give(self, holder: str, amount: int = 1) -> None:
        """Give back what was taken, and serve the line."""
        self.used -= amount
        held = self._held
        if left := held[holder] - amount:
            held[holder] = left
        else:
            del held[holder]
        if self._lines:
            self.serve()

    def line_up(self, claim: C) -> None:
        """Wait in line: the claim does not fit now."""
        lines = self._lines = self._lines or OrderedDict()
        lines.setdefault(claim.holder, {})[claim] = None

    def leave(self, claim: C) -> bool:
        """Leave the line; return whether the claim was in it."""
        line = self._lines.get(claim.holder) if self._lines else None
        if line is None or claim not in line:
            return False
        # An empty line keeps the holder's turn: a lane that only looks at its outbox again comes back.
        del line[claim]
        if line:
            self.serve()  # the next one may want less
        return True

    def serve(self) -> None:
        """Grant claims while they fit."""
        lines, passed_over = self._lines, 0
        while lines and self.used < self.total and passed_over < min(len(lines), LOOKED_AT):
            holder, line = next(iter(lines.items()))
            if not line:
                del lines[holder]
                continue
            claim = next(iter(line))
            lines.move_to_end(holder)
            if not self.fits(holder, claim.amount):
                passed_over += 1
                continue
            passed_over = 0
            del line[claim]
            self.take(holder, claim.amount)
            claim.granted()
