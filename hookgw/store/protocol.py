"""The store as the rest of hookgw sees it: six narrow Protocols. A second engine is written from this file.

One conformance suite (``tests/store/conformance``) runs against every engine.

Rules for every engine
----------------------

*Durability.* When a write returns, it is on disk. A write that raises has changed nothing.

*Order.* Writes take effect in the order in which they are called. Reads see every commit whose waiters have
been woken.

*Cancellation.* A write whose waiter is cancelled is done all the same.

*Errors.* Every method raises :class:`~hookgw.kernel.errors.StorageUnavailable` while the storage refuses; the
error names the file or server and the reason. Writes are refused at once until the engine finds that storage
works again. Settlements are kept meanwhile. No error of a database driver leaves the engine.

*Data, not code.* No argument is a function that would run inside a transaction.

*Opaque places.* A :data:`~hookgw.records.deliveries.Position` and a cursor mean something to their engine
alone. Positions of one lane can be compared; a later position is behind an earlier one. Cursors are strings.

*Several processes.* Where other processes may use the same storage, the listener also hears of what these
append. :mod:`hookgw.store.fleet` has the rest: changed records, shards, and their epochs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hookgw.records.audit import AuditEntry
from hookgw.records.browser_sessions import BrowserSession
from hookgw.records.deliveries import Attempt, Delivery, Page, Position, Settlement
from hookgw.records.fleet import ShardEpoch
from hookgw.records.instances import Instance
from hookgw.records.jobs import Job
from hookgw.records.lanes import LaneRule
from hookgw.records.registrations import Registration
from hookgw.store.fleet import SharedStore
from hookgw.store.records import (
    Append,
    AuditPage,
    AuditQuery,
    CancelQuery,
    CancelStep,
    Concerned,
    ConnectorState,
    DeliveryPage,
    DeliveryQuery,
    DeliveryReport,
    DiskSpace,
    Erased,
    EventPage,
    Held,
    LaneBacklog,
    ParkStep,
    PendingChange,
    ReplayQuery,
    ReplayStep,
    StoreStatistics,
    Tally,
)

NO_LIMIT = 2**62
"""More deliveries and bytes than any engine holds."""


class StoreListener(Protocol):
    """Hears of commits, in the Trio thread, before the waiters of the commit run.

    For one commit the calls come in this order: ``requeued``, ``appended``, ``changed``. No method may block
    or raise: what one raises ends the store.
    """

    def requeued(self, lanes: Mapping[str, int]) -> None:
        """Finished deliveries are pending again, at the end of their lanes: how many, by lane key."""

    def appended(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries were appended, in the order of their positions, each once."""

    def changed(self, change: PendingChange) -> None:
        """What is pending changed by other means than appending.

        Deliveries of a retired instance are reported under the name that it has in the storage by then.
        """


class Outbox(Protocol):
    """The pending deliveries: appended once, read in order by lane, settled."""

    async def append(
        self,
        appends: Sequence[Append],
        *,
        state: ConnectorState | None = None,
        epoch: ShardEpoch | None = None,
    ) -> list[bool]:
        """Store events and one pending delivery for each of their targets: all of them or none.

        Cancellation does not end the wait: events cannot be taken back.

        Args:
            appends: in the order of delivery; may be empty.
            state: replaces the state of a connector, in the same commit, even if all events are duplicates.
                The caller makes sure that the instance exists.
            epoch: the events are those of a connector, and are stored only if this node of a fleet holds the
                connector's shard in that epoch; ``None`` for whatever comes from elsewhere.

        Returns:
            For each event whether it was stored. ``False`` is a duplicate: the instance has an event of that
            id, stored before or earlier in the list.

        Raises:
            Invalid: an event holds a value that the engine cannot store.
            StorageUnavailable: the storage refuses, or the shard is another node's by now.
        """

    async def read_lane(self, lane: str, after: Position, limit: int, size: int | None = None) -> Page:
        """Read the next pending deliveries of a lane, with events and stored bodies, in order.

        Args:
            after: only deliveries behind this position; ``FIRST`` for all.
            size: the most bytes of payloads and bodies, even if that is no delivery at all; ``None`` for
                4 MiB, or one delivery that is larger.

        Returns:
            The deliveries, whether the lane has more, and the bytes of the first one, read or not. Events of
            a retired instance have the name with which they were accepted.
        """

    def settle_nowait(self, settlement: Settlement) -> int:
        """Write the outcome of a delivery with a later commit, retried for as long as the storage refuses.

        It applies to a delivery that is pending at that moment, and is ignored otherwise.

        Returns:
            A number for :meth:`wait_settled`.
        """

    async def wait_settled(self, number: int) -> None:
        """Wait until a settlement is on disk, however long the storage refuses, or the store is closed.

        It hurries the commit. No checkpoint if the settlement is on disk already.

        Args:
            number: from :meth:`settle_nowait`; 0 for none.
        """

    async def wait_settle_capacity(self) -> None:
        """Wait while more than 10,000 settlements are queued. No checkpoint while there is room."""

    async def flush(self) -> None:
        """Wait until everything requested before is on disk, however long the storage refuses."""

    async def pending_lanes(self, registration: str | None = None) -> list[LaneBacklog]:
        """Return the lanes with pending deliveries, and how many each has: of one registration, or all."""

    async def pending_counts(self) -> PendingChange:
        """Return the count and payload bytes of pending deliveries, by registration id and instance."""

    async def count_pending(self, lane: str) -> int:
        """Return how many deliveries are pending in a lane."""

    def held(self) -> Held:
        """Return the deliveries that no lane may read yet, because of something outside of hookgw.

        It is what was found last, some seconds ago. What waits for no more than about a second, as for a
        commit of another process, is not part of it; in a fleet, neither are lanes of other nodes.
        """

    async def last_attempt(self, seq: int) -> Attempt | None:
        """Return the newest attempt of a delivery, by its sequence number; ``None`` if there was none."""

    def subscribe(self, listener: StoreListener) -> None:
        """Report commits to a listener from now on. There is one; it is set once, before the first append."""


class PendingChanges(Protocol):
    """Bulk changes of what is pending, in commits of bounded size, so that others write between them."""

    async def park_cursor(self) -> str:
        """Return the cursor for parking what is appended, or made pending again, until now.

        Now is the moment of the call: what this process asks for later does not count, even if it is on disk
        before this returns. Writes of other processes count if they were acknowledged before the call.
        """

    async def park_step(
        self,
        registration: str,
        reason: str,
        cursor: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
    ) -> ParkStep:
        """Turn pending deliveries of a registration, in any of its lanes, into dead letters: some of them.

        Args:
            reason: a sentence.
            cursor: from :meth:`park_cursor`, the same for every step: later deliveries stay pending.
            spared: sequence numbers of deliveries that stay pending, because an attempt is in flight.
            job: the job that this is a step of. It is stored in the same commit, advanced by the step.

        Returns:
            How many there were, and whether there may be more.
        """

    async def drop_oldest(
        self,
        rule: LaneRule,
        instance: str,
        reason: str,
        *,
        count: int,
        size: int,
        spared: Collection[int] = (),
    ) -> int:
        """Turn the oldest pending deliveries of one instance to one registration into dead letters.

        It is one bounded commit.

        Args:
            rule: of the registration. Its deliveries of other instances stay.
            reason: a sentence.
            count, size: how many deliveries to drop, and how many payload bytes: at least both, but no more
                than fits in one commit.
            spared: as for :meth:`park_step`.

        Returns:
            How many there were. In a lane that instances share, the search is bounded, too.
        """

    async def cancel_cursor(self) -> str:
        """Return the cursor of the first step that cancels what is pending now; see :meth:`park_cursor`."""

    async def cancel_step(
        self,
        query: CancelQuery,
        reason: str,
        cursor: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> CancelStep:
        """Turn the next selected pending deliveries into dead letters.

        Args:
            reason: a sentence.
            cursor: from :meth:`cancel_cursor`, then what the step before returned. What is appended, or made
                pending again, after the first one was made stays pending. The first cursor may be used
                again: what is left is found then.
            spared: as for :meth:`park_step`.
            job: the job that this is a step of. It is stored in the same commit, advanced by the step, with
                the cursor that it has; but not by the last step of a job that has done nothing before.
            audit: entries that the same commit writes.

        Returns:
            How many there were, and the cursor of the next step; no cursor after the last.
        """

    async def cancel_one(self, seq: int, reason: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Turn one pending delivery into a dead letter.

        The call takes its place among the writes before its first checkpoint: a settlement that was
        requested before it comes first, and one that is requested after it is ignored.

        Args:
            seq: the delivery's sequence number.
            reason: a sentence.
            audit: stored in the same commit, unless nothing changes.

        Returns:
            Whether it was pending.
        """

    async def count_cancellable(self, query: CancelQuery, most: int) -> int:
        """Return how many pending deliveries a query selects, at most ``most``."""

    async def find_concerned(
        self, instance: str, value: str, cursor: str, *, pending: bool = False
    ) -> Concerned:
        """Find the next events of an instance whose payload concerns a person; a bounded search.

        Args:
            value: what names the person. The payload has it as a string, or as the name of a member, at any
                depth. Of an identifier of WhatsApp (``5511…@s.whatsapp.net``), the devices
                (``5511…:7@s.whatsapp.net``) count, too.
            cursor: from :meth:`cancel_cursor`, then what the step before returned: later events are not
                found. The first cursor may be used again.
            pending: only events with pending deliveries.
        """

    async def erase(
        self,
        events: Collection[int],
        value: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
    ) -> Erased:
        """Remove events with all of their deliveries, attempts and bodies, whatever their state.

        The bytes are overwritten, not only marked as free, if the engine can do that. Ids stay for as long as
        others do, so that a second copy of an event is noticed; but ids that contain the person's address or
        number go. Nothing may be read from the lanes of these deliveries meanwhile.

        Args:
            events: from :meth:`find_concerned`. Those that are gone by now are skipped.
            value: as for :meth:`find_concerned`.
            spared: deliveries in flight: their events stay.
            job: the job that this is a step of. It is stored in the same commit, advanced by the step.

        Returns:
            How many there were, and how many stayed.
        """

    async def resend(
        self, instance: str, seq: int, rule: LaneRule, *, audit: Sequence[AuditEntry] = ()
    ) -> str | None:
        """Make a finished delivery pending again, at the end of its lane.

        The delivery keeps its number, attempts and stored body; its failures and age start anew.

        Args:
            seq: the delivery's sequence number.
            rule: of the delivery's registration.
            audit: stored in the same commit, unless nothing changes.

        Returns:
            The lane's key; ``None`` if the instance has no such delivery, or it is pending.
        """

    async def replay_step(
        self,
        query: ReplayQuery,
        rules: Mapping[str, LaneRule],
        cursor: str | None,
        *,
        count: int = NO_LIMIT,
        size: int = NO_LIMIT,
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> ReplayStep:
        """Make the next finished deliveries of a replay pending again, in their original order.

        Args:
            rules: of the registrations that take part, by id. Deliveries to others are left alone.
            cursor: ``None`` for the first step, then what the step before returned. The first step fixes
                the newest delivery that takes part, so that a replay ends.
            count, size: the most deliveries, and the most payload bytes unless the first delivery alone has
                more. The engine bounds a step, too. With a count of 0, a first step only fixes its newest
                delivery.
            job: the job that this is a step of. It is stored in the same commit, advanced by the step, or
                ended by the last one; but not by a first step that is also the last.
            audit: stored in the same commit, unless the step writes nothing.

        Returns:
            How many deliveries are pending again, and the cursor of the next step; no cursor after the last.
        """

    async def repartition_step(self, rule: LaneRule) -> bool:
        """Move pending deliveries of a registration from lanes of other generations to those of its rule.

        Deliveries keep their positions, so the order per key holds. Nothing may be read from, or in flight
        in, any lane of the registration until the last step is done.

        Returns:
            Whether there may be more to move.
        """


class History(Protocol):
    """The finished deliveries, for as long as they are kept."""

    async def list_deliveries(self, query: DeliveryQuery) -> DeliveryPage:
        """Return deliveries of an instance, the newest first, and the cursor for the older ones.

        A search that takes long ends early: the page is then shorter than its limit, perhaps empty, and has a
        cursor. It holds up neither other lists for long nor :meth:`Outbox.read_lane`.
        """

    async def find_delivery(
        self, instance: str, name: str, *, without_global: bool = False
    ) -> DeliveryReport | None:
        """Return one delivery of an instance with its event and attempts.

        Args:
            name: a delivery's id; or an event's id, for its newest delivery.
            without_global: as in :class:`~hookgw.store.records.DeliveryQuery`.

        Returns:
            The delivery with at least its newest 1,000 attempts; ``None`` if there is none.
        """

    async def find_content(self, instance: str, event_id: str) -> tuple[str, bytes] | None:
        """Return the kind and the payload of an instance's event.

        Args:
            event_id: the event's id; of several events with it, the newest counts.

        Returns:
            ``None`` if no delivery of such an event is stored.
        """

    async def list_events(
        self, instance: str, kinds: Collection[str], *, cursor: str | None = None
    ) -> EventPage:
        """Return events of an instance with their payloads, the newest first.

        Only events with deliveries are kept with their payloads. A page is what can be read quickly: it may
        be empty and have a cursor. An event may occur again on the next page.

        Args:
            kinds: events of these kinds.
            cursor: from the page before; ``None`` for the first page.
        """

    async def tally(self, instance: str, *, since: float, without_global: bool = False) -> Tally:
        """Count an instance's deliveries by minute; a bounded search.

        Args:
            since: of events accepted at that time or later, in seconds since the epoch.
            without_global: as in :class:`~hookgw.store.records.DeliveryQuery`.
        """

    async def newest(self, instances: Collection[str]) -> dict[str, float]:
        """Return when the newest event with a delivery of each instance was accepted, by the instance's name.

        Instances without such an event are left out. Times are in seconds since the epoch.
        """

    async def enforce_retention(
        self, *, before: float, limit: int, ids_before: float = math.inf, ids_limit: int = NO_LIMIT
    ) -> int:
        """Remove what is too old, and then the oldest until the history fits its size.

        The ids of events stay when the rest goes, so that :meth:`Outbox.append` still notices duplicates. Ids
        of the form that hookgw itself makes go with the events: their producers never knew them.

        Whatever else the engine keeps of instances, registrations and lanes that have nothing left is removed
        from time to time, too. It works in small commits with rests between them, so that others are not held
        up.

        Args:
            before: deliveries that finished before this time go with their attempts, and events without
                any delivery; in seconds since the epoch.
            limit: the most bytes that the history may use beside the outbox, the records, the audit and the
                ids.
            ids_before: ids of events that were accepted before this time go, unless the event is still in the
                history or pending; by default all.
            ids_limit: the most bytes that ids may use, about; the oldest go first.

        Returns:
            How many deliveries and events were removed.
        """


class Records(Protocol):
    """Instances, registrations, jobs, values and states of connectors, encrypted if a master key is set.

    The argument ``audit`` of a method has entries that are stored in the same commit.
    """

    async def load_instances(self) -> dict[str, Instance]:
        """Return all instances, by name. A damaged record raises ``StorageUnavailable``."""

    async def put_instance(
        self, instance: Instance, first: Registration | None = None, *, audit: Sequence[AuditEntry] = ()
    ) -> None:
        """Store an instance, and with it its first registration, if any, in one commit."""

    async def remove_instance(
        self,
        name: str,
        *,
        retired_as: str | None = None,
        registrations: Collection[str] = (),
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        """Remove an instance with the state of its connector, and registrations, in one commit.

        Args:
            retired_as: keep its events and deliveries under this name, which no instance can have, so that a
                later instance of the same name does not inherit them.
            registrations: the ids of its registrations. Their deliveries stay; park them.
            job: is to park them; stored in the same commit.
        """

    async def load_state(self, instance_id: str) -> Any:
        """Return the JSON value that was stored last as an instance's :class:`ConnectorState`.

        Returns:
            The value; ``None`` if there is none. A damaged record raises ``StorageUnavailable``.
        """

    async def load_registrations(self) -> dict[str, Registration]:
        """Return all registrations, by id. A damaged record raises ``StorageUnavailable``."""

    async def put_registration(
        self,
        registration: Registration,
        *,
        due: bool = False,
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        """Store a registration.

        Args:
            due: in the same commit, make its waiting deliveries due at once: the registration has another
                URL, header, secret or timeout, and the wait was for the former one.
            job: is to park its pending deliveries; stored in the same commit.
        """

    async def remove_registration(
        self, registration_id: str, *, job: Job | None = None, audit: Sequence[AuditEntry] = ()
    ) -> None:
        """Remove a registration. Its deliveries stay; park them.

        Args:
            job: is to park them; stored in the same commit.
        """

    async def load_jobs(self) -> dict[str, Job]:
        """Return all jobs, by id. A damaged record raises ``StorageUnavailable``."""

    async def put_job(self, job: Job, *, audit: Sequence[AuditEntry] = ()) -> None:
        """Store a job, new or changed."""

    async def remove_jobs(self, job_ids: Collection[str]) -> None:
        """Remove jobs, in one commit."""

    async def load_sessions(self) -> dict[str, BrowserSession]:
        """Return all sessions of browsers, by id. A damaged record raises ``StorageUnavailable``."""

    async def put_session(self, session: BrowserSession) -> None:
        """Store a session, new or changed."""

    async def remove_sessions(self, session_ids: Collection[str]) -> None:
        """Remove sessions, in one commit."""

    async def get_value(self, key: str) -> Any:
        """Return the JSON value of a key; ``None`` if there is none."""

    async def put_value(self, key: str, value: Any, *, audit: Sequence[AuditEntry] = ()) -> None:
        """Store a JSON value.

        Raises:
            TypeError: the value cannot be written as JSON.
        """

    async def make_due(self, registration_id: str) -> None:
        """Make the waiting deliveries of a registration due at once, like ``put_registration(due=True)``."""


class Audit(Protocol):
    """Who changed what: entries that are written with the changes, and kept for a while."""

    async def record_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Store entries in a commit of their own: those of what no other method notes."""

    async def list_audit(self, query: AuditQuery) -> AuditPage:
        """Return entries, the newest first, and the cursor for the older ones.

        A search that takes long ends early, as in :meth:`History.list_deliveries`.
        """

    async def prune_audit(self, *, before: float, most: int) -> int:
        """Remove old entries, and the oldest ones of an instance with too many, in small commits.

        Args:
            before: entries of before this time go; in seconds since the epoch.
            most: how many entries of one instance stay, the newest. What concerns no instance has no limit.

        Returns:
            How many were removed.
        """


class Backups(Protocol):
    """Copies of everything, made while the store is used."""

    async def back_up(self, file: Path, on_progress: Callable[[int, int], None], *, min_free: int = 0) -> int:
        """Write a consistent copy of everything to a new file.

        The file gets its name once it is whole and on disk, with mode 0600. Whatever is encrypted in the
        storage is encrypted in it, with the same key. Writes go on meanwhile, and wait for some milliseconds
        at a time.

        Args:
            file: in an existing folder.
            on_progress: called in the Trio thread with the units that are copied, and all of them as far as
                known. Both may grow. It must not block or raise.
            min_free: the bytes that must stay free if the file is on the disk of the storage.

        Returns:
            The bytes of the file.

        Raises:
            Conflict: there is a file, or a link, of that name. It was not changed.
            StorageUnavailable: the disk of the file refuses, or has no room. Nothing of it remains.
        """


class Store(Outbox, PendingChanges, History, Records, Audit, Backups, Protocol):
    """Everything that lasts."""

    @property
    def shared(self) -> SharedStore | None:
        """What nodes that share the storage need beside the rest; ``None`` if only one process may use it."""

    async def check(self) -> None:
        """Write something small. Raises ``StorageUnavailable`` if the storage refuses."""

    async def disk_space(self) -> DiskSpace | None:
        """Measure how much can still be written; ``None`` if the storage is on no disk of this machine."""

    async def scrub(self) -> bool:
        """Remove what the engine still keeps of erased bytes beside its tables, such as a log of changes.

        Returns:
            Whether it succeeded. It gives up after some seconds in which reads do not allow it.
        """

    async def is_overwritten(self) -> bool:
        """Return whether the engine overwrote all that was ever removed, if it is one that does so.

        If not, an earlier version left bytes in unused parts, until ``hookgw storage compact`` has run.
        """

    def check_open(self) -> None:
        """Check that a write would be accepted now. Raises ``StorageUnavailable`` otherwise."""

    def statistics(self) -> StoreStatistics:
        """Return what the store has done since it was opened."""
