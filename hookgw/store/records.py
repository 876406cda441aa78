"""What goes into the store and comes out of it. No I/O. Times are in seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from hookgw.kernel.errors import StorageUnavailable
from hookgw.kernel.masking import repr_without
from hookgw.records.audit import AuditEntry
from hookgw.records.deliveries import Attempt, DeliveryState
from hookgw.records.event_filters import Condition
from hookgw.records.events import Event
from hookgw.records.selection import DeliverySelection

NO_LIMIT = 2**62
"""More deliveries and bytes than any engine holds."""
DROPPED_AS_OLDEST = "Dropped as the oldest: "
"""The beginning of the reason of a dead letter that made room for newer events."""


# gc=False: a batch makes thousands, which the garbage collector would walk; they form no cycles.
class Append(msgspec.Struct, frozen=True, gc=False):
    """One event to keep, with a registration's id and a lane's key for each delivery.

    Without a target, only the event's id is kept, so that a duplicate of it is noticed.
    """

    event: Event
    targets: tuple[tuple[str, str], ...]


class ConnectorState(msgspec.Struct, frozen=True, kw_only=True):
    """What a connector keeps for one instance: any JSON value.

    It belongs to the instance's id: a later instance of the same name has none.
    """

    instance: str
    instance_id: str
    state_json: bytes

    # Connectors keep logins and tokens in it.
    __repr__ = repr_without("state_json")


class LaneBacklog(msgspec.Struct, frozen=True, array_like=True):
    """How many pending deliveries a lane has, at least one."""

    lane: str
    count: int


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that are stored, and that no lane may read yet.

    Attributes:
        lanes: by registration id.
        culprit: what holds them back, and how to end that, in sentences; empty if that is not known.
    """

    lanes: Mapping[str, Sequence[LaneBacklog]] = {}
    count: int = 0
    oldest_queued_at: float | None = None
    culprit: str = ""


class DeliveryQuery(DeliverySelection, frozen=True, kw_only=True):
    """Which deliveries to list.

    Attributes:
        instance: ``None`` for all instances, or those of ``among``.
        registrations: the ids that ``label`` and ``host`` mean, which have no effect themselves.
        among: the instances that ``instances`` means; the store looks at no other's deliveries.
        cursor: from the page before; ``None`` for the first page.
    """

    instance: str | None
    registrations: tuple[str, ...] | None = None
    among: tuple[str, ...] | None = None
    cursor: str | None = None
    limit: int = 100


class ReplayQuery(DeliverySelection, frozen=True, kw_only=True):
    """Which finished deliveries of an instance to replay. Its registrations are those that have rules.

    Attributes:
        state: ``all`` for everything that is finished; otherwise dead letters alone.
    """

    instance: str


class BackfillQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of the log a registration has missed. Empty ``kinds`` and ``filters`` do not filter.

    Attributes:
        registration: the id of the registration. An event counts as missed if it has no delivery to it.
        filters: an event must meet the conditions of all of them.
        with_files: whether the registration gets files inside of events; see :class:`EventFilter`.
        dead: the registration's dead letters count as missed, too.
    """

    instance: str
    registration: str
    since: float | None = None
    until: float | None = None
    kinds: tuple[str, ...] = ()
    filters: tuple[tuple[Condition, ...], ...] = ()
    with_files: bool = False
    dead: bool = False


class CancelQuery(DeliverySelection, frozen=True, kw_only=True):
    """Which pending deliveries of an instance to cancel. ``registrations`` always filter."""

    instance: str
    registrations: tuple[str, ...]


class DeliverySummary(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as a list shows it: everything but the payload and the earlier attempts.

    Attributes:
        registration: the id of the registration it goes to, which may be deleted by now.
        reason: why it is dead or dropped; ``None`` for the other states.
        next_at: not tried before this time; 0 for at once. Of use while it is pending.
    """

    seq: int
    event_id: str
    kind: str
    instance: str
    registration: str
    lane: str
    state: DeliveryState
    reason: str | None
    accepted_at: float
    attempts: int
    next_at: float
    finished_at: float | None
    last_attempt: Attempt | None

    @property
    def id(self) -> str:
        return f"dlv_{self.seq}"

    @property
    def cursor(self) -> str:
        return self.id


class DeliveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery with its event, and with its attempts, the first one first.

    Attributes:
        body: what its attempts send, fixed by the first one that did not deliver; ``None`` before.
    """

    summary: DeliverySummary
    event: Event
    attempts: tuple[Attempt, ...]
    body: bytes | None = None


class DeliveryPage(msgspec.Struct, frozen=True):
    """Deliveries, the newest first, and what the next page begins with; ``None`` after the last one."""

    deliveries: list[DeliverySummary]
    cursor: str | None = None


class EventQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of the log to list. What is ``None``, or empty, does not filter.

    Attributes:
        instance: ``None`` for all instances, or those of ``among``.
        chat, sender: by any spelling of the name; of a number without an ``@``, both that name and the person
            on WhatsApp.
        chat_names: further names of that chat, or of others.
        message: the network's id of a message.
        text: events with this text in their payload, in the spelling of JSON.
        person: payloads that name this person, by the rule of erasures.
        delivery: events with a delivery that has all of this; see :meth:`DeliverySelection.apart`.
        registrations: and that goes to one of these.
        since, until: of events accepted at or after ``since``, and before ``until``.
        is_oldest_first: in the order of the log; otherwise the newest come first.
        cursor: from the page before; ``None`` for the first page.
        back_to: a cursor of another list of the same log, both with the newest first: this one ends with
            the event with which that page ended. ``None`` for the beginning of the log.
    """

    instance: str | None
    among: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = ()
    chat: str | None = None
    chat_names: tuple[str, ...] = ()
    sender: str | None = None
    message: str | None = None
    text: str | None = None
    person: str | None = None
    delivery: DeliverySelection | None = None
    registrations: tuple[str, ...] | None = None
    since: float | None = None
    until: float | None = None
    is_oldest_first: bool = False
    cursor: str | None = None
    back_to: str | None = None
    limit: int = 100

    # What a person is called, and what they wrote, is nothing for a log.
    __repr__ = repr_without("chat", "chat_names", "sender", "text", "person")

    @property
    def takes_all(self) -> bool:
        """Whether it lists all events of one instance."""
        return self.instance is not None and self == EventQuery(
            instance=self.instance, is_oldest_first=self.is_oldest_first, cursor=self.cursor, limit=self.limit
        )

    @property
    def seeks_delivery(self) -> bool:
        return self.delivery is not None or self.registrations is not None


class LoggedEvent(msgspec.Struct, frozen=True):
    """An event of the log, and when it was accepted."""

    event: Event
    accepted_at: float


class EventPage(msgspec.Struct, frozen=True):
    """Events of the log, and what the next page begins with; ``None`` after the last one.

    Attributes:
        begins_at: the log has all events that were accepted since then; of earlier ones, some may be missing.
        reached: of events that were accepted later, the list has none: the index is behind. Usually ``None``.
        searched: when the last event that a search looked at was accepted, if it ended early.
    """

    events: list[LoggedEvent]
    cursor: str | None = None
    begins_at: float = 0.0
    reached: float | None = None
    searched: float | None = None


class EventReport(msgspec.Struct, frozen=True):
    """An event of the log with its deliveries, the newest first; at most 1,000 of them."""

    event: Event
    accepted_at: float
    deliveries: list[DeliverySummary]


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of the audit to list. What is ``None`` does not filter.

    Attributes:
        instance: the name of the instance that they concern, present or former.
        among: the ids of the instances that they concern; what concerns no instance is left out then.
        action: entries of that action, or of a whole resource: ``key`` finds ``key.create``.
        cursor: from the page before; ``None`` for the first page.
    """

    instance: str | None = None
    instance_id: str | None = None
    among: frozenset[str] | None = None
    action: str | None = None
    since: float | None = None
    until: float | None = None
    cursor: str | None = None
    limit: int = 100


class AuditPage(msgspec.Struct, frozen=True):
    """Entries, the newest first, and what the next page begins with; ``None`` after the last one.

    Attributes:
        cursors: for each entry, the cursor of a page that ends with it.
    """

    entries: list[AuditEntry]
    cursor: str | None = None
    cursors: list[str] = []


class ParkStep(msgspec.Struct, frozen=True):
    """How many deliveries became dead letters, and whether there may be more."""

    count: int
    more: bool


class CancelStep(msgspec.Struct, frozen=True):
    """How many deliveries became dead letters, by registration id, and where the next step goes on.

    After the last step the cursor is ``None``.
    """

    counts: Mapping[str, int]
    cursor: str | None


class Concerned(msgspec.Struct, frozen=True):
    """Numbers of events that concern a person, and where the search goes on; ``None`` at the end."""

    events: list[int]
    cursor: str | None


class Erased(msgspec.Struct, frozen=True):
    """What one commit of an erasure removed.

    ``left`` counts the events that stayed, because an attempt is in flight.
    """

    events: int
    deliveries: int
    left: int


class Missed(NamedTuple):
    """An event that a registration has missed."""

    id: str
    time: float


class MissedPart(msgspec.Struct, frozen=True):
    """How many missed events a part of the search has found, with the first and the last one.

    Attributes:
        cursor: where the search goes on; ``None`` at the end.
    """

    count: int
    first: Missed | None
    last: Missed | None
    cursor: str | None


class JobStep(msgspec.Struct, frozen=True):
    """How many deliveries a step has made pending, and where the next step goes on; ``None`` at the end."""

    count: int
    cursor: str | None


PendingChange = Mapping[tuple[str, str], tuple[int, int]]
"""How many more (or fewer) deliveries, and bytes of payload, are pending.

The key is a registration's id and the instance of the event.
"""


class DiskSpace(msgspec.Struct, frozen=True):
    """How much can still be written, in bytes.

    Attributes:
        free: of the file system, for this process.
        reusable: inside the data file, in pages that are not used any more.
        used: by the data file, with these pages, once its write-ahead log is folded into it.
        unfolded: how much of ``free`` the data file takes when the log is folded into it.
    """

    free: int
    reusable: int
    used: int = 0
    unfolded: int = 0


class StoreObserver(Protocol):
    """Hears what the store does, in the Trio thread; its methods must return at once."""

    def committed(self, seconds: float, rows: int) -> None:
        """A group commit reached the disk."""

    def disk_failed(self, error: StorageUnavailable) -> None:
        """The disk has begun to refuse; called once until it has recovered."""

    def disk_recovered(self) -> None:
        """A write reached the disk again."""

    def log_measured(self, size: int) -> None:
        """The write-ahead log of a data file has so many bytes; called once a second."""


class SilentObserver:
    def committed(self, seconds: float, rows: int) -> None: ...

    def disk_failed(self, error: StorageUnavailable) -> None: ...

    def disk_recovered(self) -> None: ...

    def log_measured(self, size: int) -> None: ...


def micros(seconds: float) -> int:
    """A time as the data file holds it: whole microseconds, which JSON carries without rounding.

    Raises:
        ValueError, OverflowError: the time is not finite.
    """
    return round(seconds * 1_000_000)


def seconds(micros: int) -> float:
    return micros / 1_000_000


def storable(text: str | None) -> str | None:
    """The text without lone surrogates, which system messages can bring and UTF-8 cannot hold."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()
