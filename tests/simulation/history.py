"""What happened in a run, as records: the checks read them, and the trace shows them."""

from collections.abc import Iterator
from typing import Literal, TypeVar

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened.

    Attributes:
        at: the simulated time, in seconds.
        life: which start of the gateway it belongs to, from 1.
    """

    at: float
    life: int

    @property
    def line(self) -> str:
        """The record as a line of the trace."""
        shown = (
            f"{name}={_text(getattr(self, name))}"
            for name in self.__struct_fields__
            if name not in ("at", "life") and getattr(self, name) not in (None, "", (), False)
        )
        return f"{self.at:14.6f} {self.life} {type(self).__name__.lower():10} {' '.join(shown)}".rstrip()

    @property
    def names(self) -> set[str]:
        """The events and registrations that it is about; empty for what concerns all."""
        found: set[str] = set()
        for field in ("event", "registration"):
            if value := getattr(self, field, ""):
                found.add(value)
        for field in ("events", "wanted"):
            found.update(getattr(self, field, ()))
        return found


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


class Rules(Record, frozen=True, kw_only=True):
    """The settings of a run that the checks need; the first record.

    Attributes:
        first_wait: for an unreachable receiver, in seconds.
        retry_after_max: the longest ``Retry-After`` that counts, in seconds.
        alters: whether a plugin alters bodies.
        drops: whether a full backlog drops its oldest deliveries.
        reports: whether operational events go to a URL.
    """

    first_wait: float = 0.05
    retry_after_max: float = 3600.0
    alters: bool = False
    drops: bool = False
    reports: bool = False


class Started(Record, frozen=True, kw_only=True):
    """The gateway runs."""

    offset: float


class Known(Record, frozen=True, kw_only=True):
    """The registrations that the gateway knows after a start.

    Attributes:
        registrations: the name of each, and the version of its URL.
        orderings: of those that clients store, by name: a change that was not answered may count.
    """

    registrations: tuple[tuple[str, int], ...]
    orderings: tuple[tuple[str, str], ...] = ()


class Ended(Record, frozen=True, kw_only=True):
    """The gateway has ended, or the process was killed.

    Attributes:
        how: ``stop`` for an end as by SIGTERM, ``kill`` for one at any moment.
        moment: of a kill: when, relative to a call that writes.
    """

    how: Literal["stop", "kill"]
    moment: str = ""


class Stopped(Record, frozen=True, kw_only=True):
    """Everything of the gateway has ended after a stop.

    Attributes:
        took: seconds from the stop.
        allowed: seconds that it may take.
        open_connections: how many connections receivers still saw then.
    """

    took: float
    allowed: float
    open_connections: int


class Accepted(Record, frozen=True, kw_only=True):
    """Events were answered with 202.

    Attributes:
        began: when the call began; ``at`` is when it was answered.
        events: in order, without duplicates.
        instance: of all of them.
        chats: the chat of each; of a list about several, all of them with spaces between.
        wanted: the registrations that certainly wanted all of them: before, during and after the call.
        maybe: those that wanted them before or after it.
    """

    began: float
    events: tuple[str, ...]
    instance: str
    chats: tuple[str, ...]
    wanted: tuple[str, ...]
    maybe: tuple[str, ...] = ()


class Unanswered(Record, frozen=True, kw_only=True):
    """A request was not answered, or its client did not wait: its events may be accepted.

    Attributes:
        events: of the request.
        is_owed: whether the client waited for an answer, and must have got one.
    """

    events: tuple[str, ...]
    is_owed: bool = False


class Metered(Record, frozen=True, kw_only=True):
    """What ``/metrics`` says.

    Attributes:
        accepted: events since the start.
        delivered, dropped: deliveries since the start.
        taken: attempts that were answered with a 2xx, since the start.
        registrations: pending deliveries by registration.
        backlog: pending deliveries of all lanes.
        pending: deliveries by registration in the data file, at the same moment.
    """

    accepted: int
    delivered: int
    dropped: int
    taken: int
    registrations: tuple[tuple[str, int], ...] = ()
    backlog: int = 0
    pending: tuple[tuple[str, int], ...] = ()


class Fetched(Record, frozen=True, kw_only=True):
    """A consumer got deliveries of a registration whose receiver fetches.

    Attributes:
        registration: its name.
        lease: the number of the lease: the same one is had again.
        until: the lease lasts until then, unless the consumer ends it before.
    """

    registration: str
    consumer: str
    lease: int
    until: float


class LeaseLeft(Record, frozen=True, kw_only=True):
    """A consumer began a call that may end its lease."""

    registration: str
    lease: int


class Refused(Record, frozen=True, kw_only=True):
    """A call was refused.

    Attributes:
        what: the call.
        why: the kind of the error, and the beginning of its message.
    """

    what: str
    why: str
    registration: str = ""


class Changed(Record, frozen=True, kw_only=True):
    """A change of a registration was answered.

    Attributes:
        began: when the call began.
        registration: its name: instance, label and a number for each creation.
        call: ``set``, ``delete``, ``pause``, ``resume``, ``rotate``; ``maybe`` if the call was not answered.
        version: of the URL, as in its path.
        ordering: of the registration.
        enabled: whether it is enabled after the call.
        paused: whether it is paused after the call.
        schedule: waits of failing deliveries, in seconds.
        host: of the URL, for a registration of the configuration: it stays.
    """

    began: float
    registration: str
    call: str
    version: int = 0
    ordering: str = "url"
    enabled: bool = True
    paused: bool = False
    schedule: tuple[float, ...] = ()
    host: str = ""


class Requeued(Record, frozen=True, kw_only=True):
    """Deliveries were made pending again on purpose, or that was tried.

    Attributes:
        began: when the call began; it may have effects until the end of the run, if it failed.
        what: ``resend`` or ``replay``.
        instance: of the events.
        events: the events of a resend; empty for all of the instance.
    """

    began: float
    what: str
    instance: str
    events: tuple[str, ...] = ()


class Backfilling(Record, frozen=True, kw_only=True):
    """A registration is about to get what it has missed. The call may have effects until the end of the run.

    Attributes:
        number: of the call in the run.
        began: when the call begins.
    """

    number: int
    began: float
    registration: str


class Backfilled(Record, frozen=True, kw_only=True):
    """A backfill was answered: it is stored, and may still go on.

    Attributes:
        number, began, registration: as before the call.
        events: those that it owes the registration: accepted before the call, and of its kinds.
    """

    number: int
    began: float
    registration: str
    events: tuple[str, ...]


class Removed(Record, frozen=True, kw_only=True):
    """An instance was deleted, or that was tried.

    Attributes:
        began: when the call began; ``at`` is when it was answered, or failed.
        instance: its name, which a later one may have, too.
    """

    began: float
    instance: str


class Erased(Record, frozen=True, kw_only=True):
    """What concerns a person was erased, or that was tried.

    Attributes:
        began: when the call began; ``at`` is when it was answered, or failed.
        instance: of the events.
        person: the chat.
        answered: whether the call was answered: then it is done by the end of the run at the latest.
        done: whether it was done when it was answered.
    """

    began: float
    instance: str
    person: str
    answered: bool = True
    done: bool = True


class Listed(Record, frozen=True, kw_only=True):
    """The gateway listed the deliveries of an instance's newest events.

    Attributes:
        began: when the call began.
        instance: its name.
        events: of the deliveries.
    """

    began: float
    instance: str
    events: tuple[str, ...]


class Logged(Record, frozen=True, kw_only=True):
    """The log of an instance, read from its begin to its end when everything was over.

    Attributes:
        instance: its name.
        events: in the order of the log.
    """

    instance: str
    events: tuple[str, ...]


class BackedUp(Record, frozen=True, kw_only=True):
    """A backup was found, by its name.

    Attributes:
        name: of the file.
        began: when the call began that made it, if it was answered; ``at`` is when it was looked at.
        events: those in the file.
        troubles: what is wrong with the file.
    """

    name: str
    began: float | None
    events: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()


class Raised(Record, frozen=True, kw_only=True):
    """A plugin heard of an operational event.

    Attributes:
        event, kind: of the operational event.
        about: the registration that it is about, if there is one.
    """

    event: str
    kind: str
    about: str = ""


class Cancelled(Record, frozen=True, kw_only=True):
    """Somebody asked to cancel what is pending for an instance's events."""

    instance: str


class Skipped(Record, frozen=True, kw_only=True):
    """One delivery was cancelled, and the call was answered.

    Attributes:
        began: when the call began.
        instance, event, registration: of the delivery.
        attempts: how many it had until then.
        is_replayed: whether a replay of the instance, or a resend of the event, was under way still.
    """

    began: float
    instance: str
    event: str
    registration: str
    attempts: int
    is_replayed: bool = False


class Resumed(Record, frozen=True, kw_only=True):
    """The connector runs, with the state that it stored last.

    Attributes:
        following: the number of its next event: those before it are stored.
    """

    following: int


class Arrived(Record, frozen=True, kw_only=True):
    """A receiver got a complete request.

    Attributes:
        number: of the request in the run.
        registration, version: as in the path.
        event: its ``webhook-id``.
        attempt: its ``x-attempt``.
        body: a checksum.
        dialled: when its connection was opened, if this is the first request on it.
        unread_since: since when the receiver read nothing, if it may have been sent before it arrived.
        signed: whether a secret of the registration made the signature.
        limit: the time after which the attempt may have ended already.
    """

    number: int
    registration: str
    version: int
    event: str
    attempt: int
    body: int
    dialled: float | None = None
    unread_since: float | None = None
    signed: bool = True
    limit: float = 0.0


class Answered(Record, frozen=True, kw_only=True):
    """What the receiver did with a request.

    Attributes:
        number: of the request.
        registration, event: of the request.
        outcome: what hookgw must make of it (``delivered``, ``failed``, …); ``unknown`` if the attempt may
            have ended before, or the receiver does not know whether the answer got through.
        status: of the answer; 0 if not a byte came.
        wait: seconds that its ``Retry-After`` asks for.
        is_late: whether the deadline of the attempt may have passed before.
    """

    number: int
    registration: str
    event: str
    outcome: str
    status: int = 0
    wait: float = 0.0
    is_late: bool = False


FINAL = ("delivered", "rejected", "gone")
"""The outcomes after which a delivery is not sent again."""


class Committed(Record, frozen=True, kw_only=True):
    """A commit is on disk.

    Attributes:
        began: when the gateway handed it over: what was requested before is in it.
    """

    began: float


class Faulted(Record, frozen=True, kw_only=True):
    """Something around the gateway changed: a disk, a name, a receiver, the clock."""

    what: str


class Dead(Record, frozen=True, kw_only=True):
    """Observers heard of a dead letter."""

    event: str
    registration: str
    reason: str


class Row(msgspec.Struct, frozen=True):
    """A delivery in the data file."""

    seq: int
    event: str
    registration: str
    state: str
    position: int
    attempts: int
    reason: str = ""


class Final(Record, frozen=True, kw_only=True):
    """The state at the end of a run, after all faults were over for long.

    Attributes:
        rows: the deliveries in the data file.
        complete: whether finished deliveries are kept for longer than the run.
        registrations: the enabled registrations, as the gateway knows them.
        backlog: pending deliveries by registration, as the gateway counts them.
        memory: bytes that lanes hold.
        lent: connections that are lent.
    """

    rows: tuple[Row, ...]
    complete: bool = True
    registrations: tuple[str, ...] = ()
    backlog: tuple[tuple[str, int], ...] = ()
    memory: int = 0
    lent: int = 0

    @property
    def line(self) -> str:
        """The record as lines of the trace."""
        head = f"{self.at:14.6f} {self.life} final      backlog={dict(self.backlog)} memory={self.memory}"
        rows = (
            f"    {row.seq} {row.event} -> {row.registration}: {row.state} {row.attempts} {row.reason}"
            for row in self.rows
        )
        return "\n".join([head, *rows])


class Measured(Record, frozen=True, kw_only=True):
    """Figures of a running gateway.

    Attributes:
        pending: deliveries by registration in the data file.
        limit: of each registration; 0 for none.
        counted: what the gateway counts as pending, while nobody emits; ``None`` at other times.
        total, total_limit: the same for all.
        memory, memory_limit: bytes that lanes hold, and may hold.
        lent, lent_limit: connections of the busiest host.
    """

    pending: tuple[tuple[str, int], ...] = ()
    limit: int = 0
    counted: tuple[tuple[str, int], ...] | None = None
    total: int = 0
    total_limit: int = 0
    memory: int = 0
    memory_limit: int = 0
    lent: int = 0
    lent_limit: int = 0


class Printed(Record, frozen=True, kw_only=True):
    """Something that people may read: a line of the log, a body, a list.

    Attributes:
        where: what it is.
        secret: the name of a secret in it; empty if there is none.
    """

    where: str
    secret: str = ""


R = TypeVar("R", bound=Record)


class History:
    """The records of a run, in order.

    Attributes:
        inline_commits: how many commits ran in the event loop's thread.
        short_emits: how many emits had a head that their connection remembered.
    """

    def __init__(self, records: list[Record] | None = None) -> None:
        self.records = records if records is not None else []
        self.inline_commits = 0
        self.short_emits = 0

    def of(self, kind: type[R]) -> Iterator[R]:
        """Yield the records of a kind."""
        return (record for record in self.records if type(record) is kind)

    def trace(self, names: set[str] | None = None) -> str:
        """Return the trace, one line for each record; with names, only of what concerns them or all."""
        chosen = (
            record
            for record in self.records
            if names is None
            or record.names & names
            or (not record.names and not isinstance(record, Committed | Printed | Measured))
        )
        return "".join(record.line + "\n" for record in chosen)


class Violation(msgspec.Struct, frozen=True):
    """A broken promise.

    Attributes:
        rule: the check that found it.
        message: what is wrong.
        names: the events and registrations that it is about.
    """

    rule: str
    message: str
    names: frozenset[str] = frozenset()
