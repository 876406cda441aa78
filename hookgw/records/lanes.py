"""Chooses the lane of a delivery. No I/O.

A lane belongs to one registration. Its key is ``<registration id>:<generation>`` for a registration with one
lane, and ``<registration id>:<generation>:<partition>`` if it trades order for parallelism. Neither ids nor
partitions contain a colon.

The generation counts the changes of a registration's ordering and concurrency. Deliveries whose lane has
another generation than their registration were appended before such a change. They are re-partitioned before
anything of the registration is sent, so that the order per key holds across the change.

For partitions by chat, the generation ends with the version of the rule that says which chat an event is
about (``reg_1:3.c2:5``). An upgrade to another rule makes all former lanes outdated, whichever process and
whichever engine wrote them, and at whatever step of their re-partition it was killed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import msgspec

from hookgw.records.events import Event
from hookgw.records.registrations import Ordering, Registration

# The result of :attr:`hookgw.records.events.Event.chat_hash` is on disk. If it changes, raise this number.
_BY_CHAT = ".c2"
# The partition of events about several chats; see hookgw/lanes/chat_order.py.
_SEVERAL = "all"


class LaneRule(msgspec.Struct, frozen=True):
    """How the deliveries of one registration are divided among its lanes: plain data for the store.

    Attributes:
        concurrency: the number of partitions of ``chat`` and ``none``. The lanes of ``instance`` are not
            numbered: there is one for each instance.
    """

    registration: str
    generation: int
    ordering: Ordering
    concurrency: int

    @property
    def generation_prefix(self) -> str:
        """The key of the registration's only lane, or the beginning of the keys of its partitions."""
        rule = _BY_CHAT if self.ordering is Ordering.CHAT and self.concurrency > 1 else ""
        return f"{self.registration}:{self.generation}{rule}"

    @property
    def divides_events(self) -> bool:
        """Whether events of one instance and kind go to different lanes."""
        return self.concurrency > 1 and self.ordering in (Ordering.CHAT, Ordering.NONE)

    def lane(self, event: Event) -> str:
        lane = self.generation_prefix
        if self.ordering is Ordering.INSTANCE:
            return f"{lane}:{event.instance}"
        if not self.divides_events:
            return lane
        # By the chat alone: a chat has one partition on all instances, so its order on each of them holds.
        hashed = zlib.crc32(event.id.encode()) if self.ordering is Ordering.NONE else event.chat_hash
        return f"{lane}:{_SEVERAL if hashed is None else hashed % self.concurrency}"

    def lane_of_instance(self, instance: str) -> str | None:
        """Return the key of an instance's lane; ``None`` if instances have no separate lanes."""
        return f"{self.generation_prefix}:{instance}" if self.ordering is Ordering.INSTANCE else None

    def is_current(self, lane: str) -> bool:
        """Return whether a lane is of this generation. Deliveries in any other lane must be moved."""
        prefix = self.generation_prefix
        return lane == prefix or lane.startswith(f"{prefix}:")


def lane_rule(registration: Registration) -> LaneRule:
    return LaneRule(registration.id, registration.generation, registration.ordering, registration.concurrency)


class EventLanes:
    """The lanes of one instance's events of one kind: one for each registration that gets them.

    Attributes:
        of_all: what :meth:`targets` has found, if it is the same for all of the events.
    """

    __slots__ = ("_rules", "of_all")

    def __init__(self, registrations: Iterable[Registration]) -> None:
        self._rules = [lane_rule(one) for one in registrations]
        self.of_all: tuple[tuple[str, str], ...] | None = None

    def targets(self, event: Event) -> tuple[tuple[str, str], ...]:
        """Return the registration's id and the lane's key of each delivery of an event."""
        targets = tuple([(rule.registration, rule.lane(event)) for rule in self._rules])
        if not any(rule.divides_events for rule in self._rules):
            self.of_all = targets
        return targets


def order_of(lane: str) -> str | None:
    """Return what the partitions by chat of one generation share; ``None`` for other lanes."""
    parts = lane.split(":", 2)
    return ":".join(parts[:2]) if len(parts) == 3 and parts[1].endswith(_BY_CHAT) else None


def is_wide(lane: str) -> bool:
    """Return whether a lane, one of those by chat, is for events about several chats."""
    return partition_of(lane) == _SEVERAL


def registration_of(lane: str) -> str:
    return lane.partition(":")[0]


def partition_of(lane: str) -> str | None:
    """Return a lane's partition: a number, ``all``, or an instance's name; ``None`` for an only lane."""
    parts = lane.split(":", 2)
    return parts[2] if len(parts) == 3 else None
