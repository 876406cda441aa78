"""Deliveries that their receiver fetches: ``url: "pull:"``.

The lanes (:mod:`hookgw.lanes.pulled_lane`) know leases and order. Here is which lanes a call is about, who
may have them, and how long it waits.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol
from zlib import crc32

import msgspec
import trio

from hookgw.auth.keyring import KeyHolder
from hookgw.concurrency.clock import Clock
from hookgw.core.audit import Audit
from hookgw.core.backlog import Need
from hookgw.core.backlog_limits import LimitedOutbox
from hookgw.core.keyed_locks import KeyedLocks
from hookgw.core.registry import Registry
from hookgw.core.this_node import ThisNode
from hookgw.deliveries import responses
from hookgw.deliveries.pull_requests import Acknowledgement, Pull
from hookgw.fair import Claim, PerHolder, Share
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, Invalid, TooManyRequests
from hookgw.kernel.masking import repr_without
from hookgw.kernel.sentences import Sentence
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.lanes.fetches import Fetches, LastFetch
from hookgw.lanes.lease import Lease, Leased
from hookgw.lanes.pulled_lane import PulledLane
from hookgw.plugins.hooks import Hooks
from hookgw.records.audit import AuditAction
from hookgw.records.deliveries import DeliveryState, Position, parse_delivery_id
from hookgw.records.lanes import lane_rule
from hookgw.records.registrations import Ordering, Registration
from hookgw.store import DeliveryQuery, Store

MOST_WAITING = 100
"""The most fetches of an instance's deliveries that wait at a time."""
MOST_BYTES = 2**20
"""Bytes of bodies in one answer, unless the first delivery alone has more."""
GATHERING = 1.0
"""Seconds for which a fetch that has something waits for what other lanes have: its leases run already."""
MOST_BACK = 100_000
"""The most deliveries by which a receiver can go back."""
REOPENED_AT_ONCE = 500
MOST_LISTED = 1_000
MOST_KNOWN = 10_000
"""The most registrations of which the last cursors are known."""
HEADERS = 1024
"""Bytes that the headers of a delivery take in an answer."""
LOOK_EVERY = 15.0
"""Seconds after which a stream without news sends a comment, so that proxies do not close it."""

_FOREIGN = Sentence(
    "pull.cursor_foreign",
    "This cursor is not of this webhook, or of before a restore or a copy of hookgw's storage. "
    "Leave after out to go on with what is pending, and replay what the receiver lacks.",
)
_CURSOR = re.compile("c([0-9a-f]{1,32})\\.([0-9a-f]{1,15})\\.([0-9a-f]{8})(?:\\.([0-9a-f]{12}))?")


class Fetch(Protocol):
    """The call that fetches: its caller and client, and memory for its response.

    :class:`~hookgw.web.server.exchange.RequestResponse` is one.
    """

    holder: KeyHolder | None

    def is_client_there(self) -> bool: ...

    def reserve_nowait(self, size: int) -> bool: ...

    async def reserve(self, size: int) -> None: ...


class Pulled(msgspec.Struct, frozen=True):
    """A delivery as its consumer gets it. ``lease`` tells hand-overs of the same delivery apart."""

    id: str
    headers: dict[str, str]
    body: bytes
    cursor: str
    position: Position
    lease: int

    __repr__ = repr_without("headers", "body")


Sent = set[tuple[int, str]] | frozenset[tuple[int, str]]
"""What a stream has sent: the numbers of leases, and the ids of deliveries."""


class Cursor(NamedTuple):
    """A delivery's place in its lane, with what tells it from another one at the same place.

    A place says nothing in the lane of another webhook, for which all before it would count as delivered:
    ``webhook`` is :func:`_mark` of its own. After a restore or a copy of hookgw's storage, positions and
    numbers are given again, to other deliveries: ``generation`` is that of the log.
    """

    position: Position
    seq: int
    webhook: int
    generation: str

    def __str__(self) -> str:
        # Hexadecimal: a place in a database has more than 64 bits.
        return f"c{self.position:x}.{self.seq:x}.{self.webhook:08x}.{self.generation}"


class Pulls(Collaborator):
    """Hands deliveries to receivers that fetch, and takes their acknowledgements.

    Args:
        most_waiting: the most fetches that wait at a time, but for those of operators.
    """

    _registry: Registry
    _store: Store
    _dispatcher: Dispatcher
    _fetches: Fetches
    _node: ThisNode
    _clock: Clock
    _outbox: LimitedOutbox
    _audit: Audit
    _hooks: Hooks
    _most_waiting: int

    def __post_init__(self) -> None:
        self._waiting: PerHolder[str] = PerHolder()
        self._fetching: Share[Claim] = Share(self._most_waiting, 1)
        # The cursors of the last answer, by registration: of any other one more must be found out.
        self._issued: dict[str, frozenset[str]] = {}
        self._places = KeyedLocks(1)
        self._is_closed = False

    async def hold_open(self) -> None:
        """Wait for the end of the server, and let fetches that wait return at once then."""
        self._is_closed = False
        try:
            await trio.sleep_forever()
        finally:
            self._is_closed = True
            self._fetches.ring_all()

    def fetched(self, registration: Registration) -> LastFetch | None:
        """Return when a registration was fetched last; ``None`` if its deliveries are posted."""
        if not registration.is_pulled:
            return None
        return self._fetches.last_fetch(registration.id, self._clock.wall())

    def waiting(self, instance: str) -> int:
        """Return how many fetches of an instance's deliveries are in progress."""
        return self._waiting.held(instance)

    def find(self, instance: str, label: str) -> Registration:
        """Return a registration whose receiver fetches.

        Raises:
            NotFound: there is no such instance, or it has no such registration.
            Conflict: it is disabled, or its deliveries are posted to a URL.
        """
        registration = self._registry.get(instance, label)
        if not registration.enabled:
            raise Conflict.of(
                "webhook.disabled", "The webhook is disabled: enable it first (set enabled to true)."
            )
        if not registration.is_pulled:
            raise Conflict.of(
                "pull.webhook_posts",
                "The deliveries of this webhook are posted to its URL. To fetch them, set its url to pull:.",
            )
        return registration

    async def pull(self, instance: str, label: str, asked: Pull, fetch: Fetch) -> list[Pulled]:
        """Return the next deliveries in order, leased to the consumer; none if there are none in time.

        Args:
            fetch: the call, whose response has them.

        Raises:
            NotFound, Conflict: see :meth:`find`; or another consumer has the deliveries.
            Invalid: the cursor is not one.
            TooManyRequests: too many fetches of the instance wait.
            StorageUnavailable: another node has the instance by now.
            Unavailable: there was no memory for them in time.
        """
        return await self._pull_for(fetch, instance, label, asked, frozenset())

    async def stream(
        self, instance: str, label: str, asked: Pull, fetch: Fetch, check: Callable[[], None]
    ) -> AsyncIterator[list[Pulled]]:
        """Yield deliveries as they come, each once for a lease; an empty list now and then.

        It ends with the server. Raise as :meth:`pull` does, and what ``check`` raises, which is called before
        each look, and after it.
        """
        sent: set[tuple[int, str]] = set()
        after = asked.after
        while not self._is_closed:
            check()
            once = msgspec.structs.replace(asked, wait=LOOK_EVERY, after=after)
            found = await self._pull_for(fetch, instance, label, once, sent)
            check()  # the look may have waited
            lanes = self._dispatcher.pulled(self.find(instance, label).id)
            leases = {lane.lease.number for lane in lanes if lane.lease is not None}
            sent = {one for one in sent if one[0] in leases} | {(one.lease, one.id) for one in found}
            yield found
            after = None

    async def acknowledge(self, instance: str, label: str, asked: Acknowledgement) -> responses.Acknowledged:
        """Settle deliveries of a consumer's lease. What this returns for is on disk.

        Raises:
            NotFound: as :meth:`pull`.
            Conflict: the consumer has no lease, or not of these deliveries; or those before them are not
                acknowledged, and the order matters; or the cursor is of another registration, or of before a
                restore or a copy.
            Invalid: the cursor, or an id, is not one.
        """
        registration = self.find(instance, label)
        ids = {_seq_of(name) for name in asked.ids}
        failed = {_seq_of(one.id): one.reason for one in asked.failed}
        cursor = None if asked.cursor is None else await self._read_cursor(registration, asked.cursor)
        await self._store.wait_settle_capacity()
        for lane, _ in self._leases(registration, asked.consumer):
            await lane.catch_up()  # what was cancelled a moment ago cannot be acknowledged
        # From here on without a checkpoint, until all is settled: a lease may end at any.
        lanes = self._leases(registration, asked.consumer)
        leased = {one.delivery.seq for _, lease in lanes for one in lease.leased}
        if not lanes or (missing := (ids | failed.keys()) - leased):
            what = "no lease here" if not lanes else f"no lease of dlv_{min(missing)}"
            raise Conflict.of(
                "pull.lease_over",
                "The consumer {consumer!r} has {lease}: it ended, or all of it is acknowledged. Fetch again.",
                consumer=asked.consumer,
                lease=what,
            )
        self._issued.pop(registration.id, None)  # a place may lie before what this acknowledges
        taken: list[tuple[PulledLane, list[Leased], list[Leased]]] = []
        for lane, lease in lanes:
            done = [
                one
                for one in lease.leased
                if one.delivery.seq in ids
                or (cursor is not None and one.delivery.position <= cursor.position)
            ]
            if registration.partitioning[0] is not Ordering.NONE and done != lease.leased[: len(done)]:
                raise Conflict.of(
                    "pull.not_first",
                    "dlv_{seq} comes first and is not acknowledged. Acknowledge deliveries in their "
                    "order, or report it as failed.",
                    seq=lease.leased[0].delivery.seq,
                )
            taken.append((lane, done, [one for one in lease.leased if one.delivery.seq in failed]))
        settling = acknowledged = refused = 0
        for lane, done, wrong in taken:
            settling = max(settling, lane.settle(done))
            acknowledged += len(done)
            # The others are behind it, and return without an attempt.
            if wrong and wrong[0] not in done:
                reason = failed[wrong[0].delivery.seq]
                settling = max(settling, lane.fail(wrong[0], f"The consumer reported a failure: {reason}"))
                refused += 1
            if asked.release:
                lane.release()
        self._fetches.note(registration.id, asked.consumer, self._clock.wall())
        await self._store.wait_settled(settling)
        return responses.Acknowledged(acknowledged, refused)

    def _leases(self, registration: Registration, consumer: str) -> list[tuple[PulledLane, Lease]]:
        lanes = self._dispatcher.pulled(registration.id)
        found = ((lane, lane.lease) for lane in lanes)
        return [(lane, lease) for lane, lease in found if lease is not None and lease.consumer == consumer]

    async def _pull_for(
        self, fetch: Fetch, instance: str, label: str, asked: Pull, sent: Sent
    ) -> list[Pulled]:
        """Return deliveries as :meth:`pull` does, without what was ``sent`` already."""
        with self._place_for(fetch.holder, instance):
            while True:
                found = await self._pull(fetch, instance, label, asked, sent)
                size = sum(2 * len(one.body) + HEADERS for one in found)
                if fetch.reserve_nowait(size):
                    return found
                # Until there is memory, the lanes alone have them, and count them while the lease lasts.
                found.clear()
                await fetch.reserve(size)
                asked = msgspec.structs.replace(asked, wait=0.0)

    @contextmanager
    def _place_for(self, holder: KeyHolder | None, instance: str) -> Iterator[None]:
        """Count a fetch that may wait, for its instance, and for the holder of its key."""
        if self._waiting.held(instance) >= MOST_WAITING:
            raise TooManyRequests.of(
                "pull.too_many_waiting",
                "{most} fetches of this instance's deliveries wait, the maximum. Retry later.",
                most=MOST_WAITING,
                retry_after=1,
            )
        # A key with a reach has many instances, and each fetch has a connection, which cannot be closed to
        # make room. No key may have more than it leaves free. Operators' keys have no such limit.
        counted_as = None if holder is None else holder.counted_as
        if counted_as is not None and not self._fetching.fits(counted_as):
            raise TooManyRequests.of(
                "pull.too_many_of_key",
                "{held} fetches with this key wait, its share of server.max_connections. Retry later.",
                held=self._fetching.held(counted_as),
                retry_after=1,
            )
        self._waiting.take(instance)
        if counted_as is not None:
            self._fetching.take(counted_as)
        try:
            yield
        finally:
            self._waiting.give(instance)
            if counted_as is not None:
                self._fetching.give(counted_as)

    async def _pull(  # noqa: C901 -- reads once from top to bottom
        self, fetch: Fetch, instance: str, label: str, asked: Pull, sent: Sent
    ) -> list[Pulled]:
        registration = self.find(instance, label)
        if asked.after is not None and registration.partitioning[0] in (Ordering.CHAT, Ordering.NONE):
            raise Conflict.of(
                "pull.after_needs_order", "after needs all deliveries in one order: set ordering to url."
            )
        cursor = None if asked.after is None else await self._read_cursor(registration, asked.after)
        after = None if cursor is None else await self._place(registration, cursor, asked.consumer)
        deadline = self._clock.steady() + asked.wait
        settling = 0
        found: list[Pulled] = []
        generation = await self._store.generation()
        with self._fetches.waiting(registration.id):
            while True:
                bell = self._fetches.bell(registration.id)
                lanes = self._dispatcher.pulled(registration.id)
                gathered = math.inf
                for lane in self._lanes_for(registration, lanes, asked.consumer):
                    room, size = asked.most - len(found), MOST_BYTES - sum(len(o.body) for o in found)
                    if room <= 0 or (found and size <= 0):
                        break
                    lease = None
                    # Without the time of the wait: a disk that refuses holds this up.
                    until = min(gathered, max(deadline, self._clock.steady() + 10))
                    with trio.move_on_at(self._clock.deadline(until)):
                        lease = await lane.take(asked.consumer, room, size, asked.lease, after)
                    settling = max(settling, lane.settling)
                    if lease is not None:
                        found += _shown(lane, lease, room, sent, registration, generation)
                        gathered = min(gathered, self._clock.steady() + GATHERING)
                if not found and (missing := self._hooks.absent_plugin(registration)) is not None:
                    raise Conflict(*missing.messages)
                now = self._clock.steady()
                if found or now >= deadline or self._is_closed:
                    break
                # Now and then, also without a bell: the instance may have moved to another node.
                until = min(deadline, now + LOOK_EVERY, *(lane.available_at for lane in lanes))
                with trio.move_on_at(self._clock.deadline(until)):
                    await bell.wait()
                if not fetch.is_client_there():
                    break  # a lease of what comes now would keep it from the consumers that are there
                self._node.check(instance)
                registration = self.find(instance, label)
        self._fetches.note(registration.id, asked.consumer, self._clock.wall())
        if cursor is not None:
            await self._store.wait_settled(settling)
        known = {str(cursor)} if cursor is not None else set()
        if len(self._issued) >= MOST_KNOWN:
            self._issued.clear()  # the next fetch of each finds out again
        self._issued[registration.id] = frozenset({*known, *(one.cursor for one in found)})
        return sorted(found, key=lambda one: one.position)

    async def _read_cursor(self, registration: Registration, text: str) -> Cursor:
        """Return the cursor in a text.

        Raises:
            Invalid: it is not one.
            Conflict: it is of another registration, of before a restore or a copy, or of what a promotion
                lost.
        """
        match = _CURSOR.fullmatch(text)
        if match is None:
            raise Invalid.of(
                "pull.cursor_malformed", "The cursor {cursor!r} is not one of a pull.", cursor=text[:64]
            )
        cursor = Cursor(int(match[1], 16), int(match[2], 16), int(match[3], 16), match[4] or "")
        is_foreign = cursor.webhook != _mark(registration)
        if is_foreign or not await self._store.has_place(cursor.generation, cursor.position):
            raise Conflict(_FOREIGN)
        return cursor

    async def _place(self, registration: Registration, cursor: Cursor, consumer: str) -> Position:
        """Return the place of a receiver. If it lies before what is delivered, go back to it.

        Raises:
            Conflict: the cursor is of no delivery; or another consumer has the deliveries, or too many are
                delivered behind it.
            TooManyRequests: there is no room for as many pending deliveries.
        """
        if str(cursor) in self._issued.get(registration.id, ()):
            return cursor.position
        instance, store = registration.instance, self._store
        async with self._places.hold(registration.id):
            await store.flush()  # what was acknowledged a moment ago
            report = await store.find_delivery(instance, f"dlv_{cursor.seq}")
            if report is None:  # too old to be kept, or never there
                page = await store.list_deliveries(DeliveryQuery(instance=instance, limit=1))
                if any(one.seq < cursor.seq for one in page.deliveries):
                    raise Conflict(_FOREIGN)
            query = DeliveryQuery(
                instance=instance,
                registrations=(registration.id,),
                state=DeliveryState.DELIVERED,
                since=None if report is None else report.summary.accepted_at,
                limit=MOST_LISTED,
            )
            behind: list[int] = []
            while True:
                page = await store.list_deliveries(query)
                behind += [one.seq for one in page.deliveries if one.seq > cursor.seq]
                if page.cursor is None or len(behind) > MOST_BACK:
                    break
                query = msgspec.structs.replace(query, cursor=page.cursor)
            if behind:
                await self._go_back(registration, cursor, consumer, behind[::-1])
        return cursor.position

    async def _go_back(
        self, registration: Registration, cursor: Cursor, consumer: str, seqs: Sequence[int]
    ) -> None:
        """Make delivered deliveries behind a place pending again, where they were. It ends the lease."""
        if len(seqs) > MOST_BACK:
            raise Conflict.of(
                "pull.cursor_too_old",
                "More than {most:,} deliveries are delivered behind this cursor. Replay them instead.",
                most=MOST_BACK,
            )
        lanes = self._dispatcher.pulled(registration.id)
        if any(lane.lease is not None and lane.lease.consumer != consumer for lane in lanes):
            raise Conflict.of(
                "pull.leased_elsewhere", "Another consumer has leased deliveries of this webhook."
            )
        for lane in lanes:
            lane.release()
        await self._store.flush()
        instance = self._registry.instance(registration.instance)
        details = {"label": registration.label, "after": str(cursor)}
        audit = [self._audit.entry(AuditAction.DELIVERY_REPLAY, instance, details=details)]
        with self._dispatcher.paused(registration.id):
            # The last ones first: if this is cut off, the receiver asks for the same place again.
            for start in reversed(range(0, len(seqs), REOPENED_AT_ONCE)):
                some = seqs[start : start + REOPENED_AT_ONCE]
                need: Need = {(registration.id, registration.instance): (len(some), 0)}
                current = self.find(registration.instance, registration.label)
                with self._outbox.holding(need):
                    await self._store.reopen(some, cursor.position, lane_rule(current), audit=audit)
                audit = []

    def _lanes_for(
        self, registration: Registration, lanes: Sequence[PulledLane], consumer: str
    ) -> Sequence[PulledLane]:
        """Return the lanes that a consumer may have something of.

        Raises:
            Conflict: another consumer has the only one.
        """
        leases = [(lane, lane.lease) for lane in lanes if lane.lease is not None]
        own = [lane for lane, lease in leases if lease.consumer == consumer]
        if leases and not own and registration.partitioning[0] in (Ordering.URL, Ordering.INSTANCE):
            lease = leases[0][1]
            seconds = max(0.0, lease.ends_at - self._clock.steady())
            raise Conflict.of(
                "pull.leased",
                "The consumer {consumer!r} has leased the next deliveries for {seconds:.0f} s more. "
                "They keep their order, so only one consumer has some at a time.",
                consumer=lease.consumer,
                seconds=seconds,
            )
        return own + [lane for lane in lanes if lane.lease is None]


def _shown(
    lane: PulledLane,
    lease: Lease,
    most: int,
    sent: Sent,
    registration: Registration,
    generation: str,
) -> list[Pulled]:
    mark = _mark(registration)
    return [
        Pulled(
            one.delivery.id,
            lane.signed_headers(one),
            one.body,
            str(Cursor(one.delivery.position, one.delivery.seq, mark, generation)),
            one.delivery.position,
            lease.number,
        )
        for one in lease.leased[:most]
        if (lease.number, one.delivery.id) not in sent
    ]


def _mark(registration: Registration) -> int:
    """Return what tells the cursors of a registration from those of others."""
    return crc32(registration.id.encode())


def _seq_of(name: str) -> int:
    seq = parse_delivery_id(name)
    if seq is None:
        raise Invalid.of("pull.not_a_delivery", "{id!r} is not the id of a delivery.", id=name[:64])
    return seq
