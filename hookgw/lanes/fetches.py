"""What is known of the receivers that fetch, and the bell that wakes those who wait. In memory only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import trio

MOST_KNOWN = 100_000
"""The most registrations of which the last fetch is known."""
RECENT = 300.0
"""Seconds after which pages say that nobody has fetched since."""


class Fetched(msgspec.Struct):
    """The fetches of one registration since this process began.

    Attributes:
        at: when the last one was answered; ``None`` before the first. In seconds since the epoch.
        consumer: the name that it gave.
        waiting: how many wait for a delivery now.
    """

    at: float | None = None
    consumer: str | None = None
    waiting: int = 0


class LastFetch(msgspec.Struct, frozen=True):
    """When a receiver fetched last, as people see it.

    Attributes:
        age: in seconds; ``None`` if it has not since the start of this process.
        since: that time, or the start, in seconds since the epoch.
        waits: whether one waits for a delivery now.
    """

    age: float | None
    since: float
    consumer: str | None
    waits: bool

    @property
    def is_recent(self) -> bool:
        return self.waits or (self.age is not None and self.age < RECENT)


class Fetches:
    """The fetches of all registrations, by id.

    Args:
        began: the start of this process, in seconds since the epoch: nothing is known of before.
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self._of: dict[str, Fetched] = {}
        self._bells: dict[str, trio.Event] = {}

    def of(self, registration: str) -> Fetched:
        return self._of.get(registration) or Fetched()

    def last(self, registration: str, now: float) -> float:
        """Return when a registration was fetched last: now if somebody waits, at least since the start."""
        found = self.of(registration)
        return now if found.waiting else max(found.at or 0.0, self.began)

    def last_fetch(self, registration: str, now: float) -> LastFetch:
        found = self.of(registration)
        age = None if found.at is None else float(int(max(0.0, now - found.at)))
        return LastFetch(age, found.at or self.began, found.consumer, found.waiting > 0)

    def note(self, registration: str, consumer: str, at: float) -> None:
        """Note that a consumer fetched, whether or not there was a delivery."""
        if len(self._of) >= MOST_KNOWN and registration not in self._of:
            # Of deleted registrations, too: nobody says which.
            self._of = {name: one for name, one in self._of.items() if one.waiting}
        found = self._of.setdefault(registration, Fetched())
        found.at, found.consumer = at, consumer

    @contextmanager
    def waiting(self, registration: str) -> Iterator[None]:
        """Count a fetch that may wait, for the length of the block."""
        found = self._of.setdefault(registration, Fetched())
        found.waiting += 1
        try:
            yield
        finally:
            found.waiting -= 1
            if not found.waiting:
                self._bells.pop(registration, None)

    def bell(self, registration: str) -> trio.Event:
        """Return the event that is set when a lane of the registration may have something.

        Ask for it within :meth:`waiting`, and before looking at the lanes: a delivery that comes during the
        look sets it, too.
        """
        return self._bells.setdefault(registration, trio.Event())

    def ring(self, registration: str) -> None:
        if (bell := self._bells.pop(registration, None)) is not None:
            bell.set()

    def ring_all(self) -> None:
        for registration in list(self._bells):
            self.ring(registration)
