"""A history by event and registration, for the checks."""

import bisect
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from tests.simulation.history import (
    Accepted,
    Answered,
    Arrived,
    Backfilled,
    Backfilling,
    Cancelled,
    Changed,
    Committed,
    Ended,
    Erased,
    Faulted,
    Final,
    History,
    Known,
    Refused,
    Removed,
    Requeued,
    Rules,
    Started,
    Unanswered,
)

GLOBAL = "global"
"""What the names of registrations of the configuration begin with."""
LONGEST = 20.0
"""Seconds that an attempt may take."""
REPEAT_WITHIN = 1.001
"""Seconds from sending within which the end of a used connection may be answered by a second request."""
BEHIND = 5
"""Commits that it may take to write what was requested while the disk refused."""


def earliest(arrived: Arrived) -> float:
    """Return when the attempt of a request began at the earliest.

    Before its connection was opened, it may have looked the host up, or waited for the end of a used one.
    """
    if arrived.dialled is not None:
        return arrived.dialled - LONGEST
    return arrived.at if arrived.unread_since is None else arrived.unread_since


class Exchange(NamedTuple):
    """A request, and what the receiver made of it; ``None`` if the run or the process ended before."""

    arrived: Arrived
    answered: Answered | None

    @property
    def earliest(self) -> float:
        return earliest(self.arrived)

    @property
    def may_go_on(self) -> bool:
        """Whether the same attempt may send the request again, on a new connection.

        That follows when a receiver closes a used connection at once, without a byte.
        """
        return (
            self.answered is not None
            and self.answered.outcome == "unanswered"
            and not self.answered.status
            and self.arrived.dialled is None
            and self.answered.at - self.arrived.at <= REPEAT_WITHIN
        )


class Index:
    """The records that several checks need, found once."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def rules(self) -> Rules:
        return next(self.history.of(Rules), Rules(at=0.0, life=0))

    @cached_property
    def final(self) -> Final | None:
        return next(self.history.of(Final), None)

    @cached_property
    def exchanges(self) -> dict[tuple[str, str], list[Exchange]]:
        """The requests of each event to each registration, in order."""
        answers = {record.number: record for record in self.history.of(Answered)}
        found: dict[tuple[str, str], list[Exchange]] = defaultdict(list)
        for record in self.history.of(Arrived):
            found[record.event, record.registration].append(Exchange(record, answers.get(record.number)))
        return found

    @cached_property
    def accepted(self) -> dict[str, Accepted]:
        """The call that stored each event."""
        return {event: record for record in self.history.of(Accepted) for event in record.events}

    @cached_property
    def changes(self) -> dict[str, list[Changed]]:
        """The changes of each registration, in order."""
        found: dict[str, list[Changed]] = defaultdict(list)
        for record in self.history.of(Changed):
            found[record.registration].append(record)
        return found

    @cached_property
    def orderings(self) -> dict[str, set[str]]:
        """The orderings that each registration has had, also by a change that was not answered."""
        found: dict[str, set[str]] = defaultdict(set)
        for change in self.history.of(Changed):
            if change.ordering:
                found[change.registration].add(change.ordering)
        for known in self.history.of(Known):
            for registration, ordering in known.orderings:
                found[registration].add(ordering)
        return found

    @cached_property
    def erasures(self) -> dict[tuple[str, str], list[Erased]]:
        """The erasures by instance and person, in order."""
        found: dict[tuple[str, str], list[Erased]] = defaultdict(list)
        for record in self.history.of(Erased):
            found[record.instance, record.person].append(record)
        return found

    def may_be_erased(self, event: str) -> bool:
        """Return whether an erasure may have found an event: it was accepted before the end of the call."""
        accepted = self.accepted.get(event)
        if accepted is None or not self.erasures:
            return False
        chats = accepted.chats[accepted.events.index(event)].split()
        return any(
            accepted.began <= one.at
            for chat in chats
            for one in self.erasures.get((accepted.instance, chat), ())
        )

    @cached_property
    def _commits(self) -> list[float]:
        return sorted(record.began for record in self.history.of(Committed))

    @cached_property
    def _ends(self) -> list[Ended]:
        return list(self.history.of(Ended))

    @cached_property
    def _requeues(self) -> list[Requeued]:
        return list(self.history.of(Requeued))

    @cached_property
    def offsets(self) -> dict[int, float]:
        """How far the machine's clock was off at each start."""
        return {record.life: record.offset for record in self.history.of(Started)}

    def was_lost(self, since: float, until: float) -> bool:
        """Return whether what was to be stored at a time may not be stored: the process ended before."""
        for end in self._ends:
            if since <= end.at <= until:
                # The first commit that began after that moment has it, if it was done before the end. While
                # the disk refuses, more is requested than one commit writes.
                has_it = bisect.bisect_right(self._commits, since) + (
                    BEHIND if self._was_refused(since) else 0
                )
                return has_it >= len(self._commits) or self._commits[has_it] >= end.at
        return False

    def was_forgotten(self, answered: Answered, until: float) -> bool:
        """Return whether the end of an attempt may not be stored: the process ended before.

        Before it stores that there was no answer, the gateway reads what came of the attempts before.
        """
        is_slow = answered.outcome == "unanswered" and self.has_ended(
            answered.at, min(until, answered.at + LONGEST)
        )
        return is_slow or self.was_lost(answered.at, until)

    def _was_refused(self, at: float) -> bool:
        """Return whether the disk may have refused what was to be stored at a time."""
        number = bisect.bisect_right(self._room, at, key=lambda change: change[0])
        return number > 0 and not self._room[number - 1][1]

    @cached_property
    def _room(self) -> list[tuple[float, bool]]:
        """When it changed whether the disk has room for everything; each life begins with another disk."""
        return [
            (one.at, not isinstance(one, Faulted) or "all room" in one.what)
            for one in self.history.records
            if isinstance(one, Started) or (isinstance(one, Faulted) and one.what.startswith("the disk has"))
        ]

    def has_ended(self, since: float, until: float) -> bool:
        """Return whether the process ended in a time."""
        return any(since <= end.at <= until for end in self._ends)

    def was_killed(self, since: float, until: float) -> bool:
        """Return whether the process was killed in a time."""
        return any(since <= end.at <= until and end.how == "kill" for end in self._ends)

    def was_requeued(self, event: str, instance: str, until: float, since: float = 0.0) -> bool:
        """Return whether somebody may have made a delivery of an event pending again.

        Args:
            event, instance: of the delivery; an empty instance may be any.
            until: the request came then.
            since: calls before this had no effect on it: it was pending.
        """
        return any(
            since <= one.began <= until
            and instance in ("", one.instance)
            and (not one.events or event in one.events)
            for one in self._requeues
        )

    @cached_property
    def backfills(self) -> dict[str, list[tuple[Backfilling, float]]]:
        """The backfills of each registration, and when each was answered; infinity if it was not."""
        answers = {one.number: one.at for one in self.history.of(Backfilled)}
        found: dict[str, list[tuple[Backfilling, float]]] = defaultdict(list)
        for one in self.history.of(Backfilling):
            found[one.registration].append((one, answers.get(one.number, float("inf"))))
        return found

    def was_accepted_anew(self, event: str, instance: str, since: float, until: float) -> bool:
        """Return whether an id may be that of another event since a time.

        Its client sent it again when its instance had been deleted, and made again.
        """
        for removed in self.history.of(Removed):
            if removed.at >= since and removed.began <= until and instance in ("", removed.instance):
                answered, open_ = self.history.of(Accepted), self.history.of(Unanswered)
                tried: Iterator[Accepted | Unanswered] = chain(answered, open_)
                return any(one.at >= removed.began and event in one.events for one in tried)
        return False

    def was_cut_off_in_vain(self, instance: str, answered: float, until: float) -> bool:
        """Return whether a skip may have cut an attempt off as it was answered; the disk then refused it."""
        calls = (one.at for one in self.history.of(Cancelled) if one.instance == instance)
        ends = (one.at for one in self.history.of(Refused) if one.what == "skip")
        return any(at <= answered for at in calls) and any(answered <= end <= until for end in ends)

    def instance_of(self, registration: str, event: str) -> str:
        """Return the instance of a delivery; empty if it is not known.

        A registration of the configuration hears all instances.
        """
        instance = registration.split("-")[0]
        if instance != GLOBAL:
            return instance
        accepted = self.accepted.get(event)
        return accepted.instance if accepted else ""
