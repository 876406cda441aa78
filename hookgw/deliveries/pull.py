"""Deliveries that their receiver fetches: ``url: "pull:"``.

The lanes (:mod:`hookgw.lanes.pulled_lane`) know leases and order. Here is which lanes a call is about, who
may have them, and how long it waits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.registry import Registry
from hookgw.core.this_node import ThisNode
from hookgw.deliveries.requests import Acknowledgement, Pull
from hookgw.kernel.errors import Conflict, Invalid, NotFound, TooManyRequests
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.lanes.fetches import Fetches, LastFetch
from hookgw.lanes.pulled_lane import Lease, Leased, PulledLane
from hookgw.records.deliveries import Position, parse_delivery_id
from hookgw.records.registrations import Ordering, Registration
from hookgw.store import Outbox

MOST_WAITING = 100
"""The most fetches of an instance's deliveries that wait at a time."""
MOST_BYTES = 2**20
"""Bytes of bodies in one answer, unless the first delivery alone has more."""
LOOK_EVERY = 15.0
"""Seconds after which a stream without news sends a comment, so that proxies do not close it."""


class Pulled(msgspec.Struct, frozen=True):
    """A delivery as its consumer gets it. ``attempt`` tells hand-overs of the same delivery apart."""

    id: str
    headers: dict[str, str]
    body: bytes
    position: Position
    lease: int

    @property
    def cursor(self) -> str:
        return cursor_of(self.position)


class Acknowledged(msgspec.Struct, frozen=True):
    acknowledged: int
    failed: int


def cursor_of(position: Position) -> str:
    # Hexadecimal: a place in a database has more than 64 bits.
    return f"c{position:x}"


def parse_cursor(text: str) -> Position:
    digits = text.removeprefix("c")
    if digits == text or not digits.isalnum() or not digits.isascii():
        raise Invalid(f"The cursor {text[:64]!r} is not one of a pull.")
    try:
        return int(digits, 16)
    except ValueError:
        raise Invalid(f"The cursor {text[:64]!r} is not one of a pull.") from None


class Pulls:
    """Hands deliveries to receivers that fetch, and takes their acknowledgements."""

    def __init__(
        self,
        registry: Registry,
        store: Outbox,
        dispatcher: Dispatcher,
        fetches: Fetches,
        node: ThisNode,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._store = store
        self._dispatcher = dispatcher
        self._fetches = fetches
        self._node = node
        self._clock = clock
        self._waiting: Counter[str] = Counter()
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
        return self._waiting[instance]

    def find(self, instance: str, label: str) -> Registration:
        """Return a registration whose receiver fetches.

        Raises:
            NotFound: there is no such instance, or it has no such registration.
            Conflict: it is disabled, or its deliveries are posted to a URL.
        """
        self._registry.instance(instance)
        registration = self._registry.find(instance, label)
        if registration is None:
            raise NotFound(f"The instance {instance!r} has no webhook {label!r}.")
        if not registration.enabled:
            raise Conflict("The webhook is disabled: enable it first (set enabled to true).")
        if not registration.is_pulled:
            raise Conflict(
                "The deliveries of this webhook are posted to its URL. To fetch them, set its url to pull:."
            )
        return registration

    async def pull(self, instance: str, label: str, asked: Pull) -> list[Pulled]:
        """Return the next deliveries in order, leased to the consumer; none if there are none in time.

        Raises:
            NotFound, Conflict: see :meth:`find`; or another consumer has the deliveries.
            Invalid: the cursor is not one.
            TooManyRequests: too many fetches of the instance wait.
            StorageUnavailable: another node has the instance by now.
        """
        return await self._pull(instance, label, asked, frozenset())

    async def stream(
        self, instance: str, label: str, asked: Pull, check: Callable[[], None]
    ) -> AsyncIterator[list[Pulled]]:
        """Yield deliveries as they come, each once for a lease; an empty list now and then.

        It ends with the server. Raise as :meth:`pull` does, and what ``check`` raises, which is called before
        each look.
        """
        sent: set[tuple[int, str]] = set()
        after = asked.after
        while not self._is_closed:
            check()
            once = msgspec.structs.replace(asked, wait=LOOK_EVERY, after=after)
            found = await self._pull(instance, label, once, sent)
            lanes = self._dispatcher.pulled(self.find(instance, label).id)
            leases = {lane.lease.number for lane in lanes if lane.lease is not None}
            sent = {one for one in sent if one[0] in leases} | {(one.lease, one.id) for one in found}
            yield found
            after = None

    async def acknowledge(self, instance: str, label: str, asked: Acknowledgement) -> Acknowledged:
        """Settle deliveries of a consumer's lease. What this returns for is on disk.

        Raises:
            NotFound: as :meth:`pull`.
            Conflict: the consumer has no lease, or not of these deliveries; or those before them are not
                acknowledged, and the order matters.
            Invalid: the cursor, or an id, is not one.
        """
        registration = self.find(instance, label)
        ids = {_seq_of(name) for name in asked.ids}
        failed = {_seq_of(one.id): one.reason for one in asked.failed}
        position = None if asked.cursor is None else parse_cursor(asked.cursor)
        lanes = [
            (lane, lane.lease)
            for lane in self._dispatcher.pulled(registration.id)
            if lane.lease is not None and lane.lease.consumer == asked.consumer
        ]
        leased = {one.delivery.seq for _, lease in lanes for one in lease.leased}
        if not lanes or (missing := (ids | failed.keys()) - leased):
            what = "no lease here" if not lanes else f"no lease of dlv_{min(missing)}"
            raise Conflict(
                f"The consumer {asked.consumer!r} has {what}: it ended, or all of it is acknowledged. "
                "Fetch again."
            )
        await self._store.wait_settle_capacity()
        taken: list[tuple[PulledLane, list[Leased], list[Leased]]] = []
        for lane, lease in lanes:
            done = [
                one
                for one in lease.leased
                if one.delivery.seq in ids or (position is not None and one.delivery.position <= position)
            ]
            if registration.partitioning[0] is not Ordering.NONE and done != lease.leased[: len(done)]:
                raise Conflict(
                    f"dlv_{lease.leased[0].delivery.seq} comes first and is not acknowledged. Acknowledge "
                    "deliveries in their order, or report it as failed."
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
        return Acknowledged(acknowledged, refused)

    async def _pull(
        self, instance: str, label: str, asked: Pull, sent: set[tuple[int, str]] | frozenset[tuple[int, str]]
    ) -> list[Pulled]:
        registration = self.find(instance, label)
        after = None if asked.after is None else parse_cursor(asked.after)
        if after is not None and registration.partitioning[0] in (Ordering.CHAT, Ordering.NONE):
            raise Conflict("after needs all deliveries in one order: set ordering to url.")
        if self._waiting[instance] >= MOST_WAITING:
            raise TooManyRequests(
                f"{MOST_WAITING} fetches of this instance's deliveries wait, the maximum. Retry later.",
                retry_after=1,
            )
        deadline = self._clock.steady() + asked.wait
        self._waiting[instance] += 1
        settling = 0
        found: list[Pulled] = []
        try:
            with self._fetches.waiting(registration.id):
                while True:
                    bell = self._fetches.bell(registration.id)
                    lanes = self._dispatcher.pulled(registration.id)
                    for lane in self._lanes_for(registration, lanes, asked.consumer):
                        room, size = asked.most - len(found), MOST_BYTES - sum(len(o.body) for o in found)
                        if room <= 0 or (found and size <= 0):
                            break
                        lease = None
                        # Without the time of the wait: a disk that refuses holds this up.
                        with trio.move_on_at(self._clock.deadline(max(deadline, self._clock.steady() + 10))):
                            lease = await lane.take(asked.consumer, room, size, asked.lease, after)
                        settling = max(settling, lane.settling)
                        if lease is not None:
                            found += _shown(lane, lease, room, sent)
                    now = self._clock.steady()
                    if found or now >= deadline or self._is_closed:
                        break
                    until = min(deadline, *(lane.available_at for lane in lanes), math.inf)
                    with trio.move_on_at(self._clock.deadline(until)):
                        await bell.wait()
                    self._node.check(instance)
                    registration = self.find(instance, label)
        finally:
            self._waiting[instance] -= 1
            if not self._waiting[instance]:
                del self._waiting[instance]
        self._fetches.note(registration.id, asked.consumer, self._clock.wall())
        if after is not None:
            await self._store.wait_settled(settling)
        return sorted(found, key=lambda one: one.position)

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
            raise Conflict(
                f"The consumer {lease.consumer!r} has leased the next deliveries for {seconds:.0f} s more. "
                "They keep their order, so only one consumer has some at a time."
            )
        return own + [lane for lane in lanes if lane.lease is None]


def _shown(
    lane: PulledLane, lease: Lease, most: int, sent: set[tuple[int, str]] | frozenset[tuple[int, str]]
) -> list[Pulled]:
    return [
        Pulled(one.delivery.id, lane.signed_headers(one), one.body, one.delivery.position, lease.number)
        for one in lease.leased[:most]
        if (lease.number, one.delivery.id) not in sent
    ]


def _seq_of(name: str) -> int:
    seq = parse_delivery_id(name)
    if seq is None:
        raise Invalid(f"{name[:64]!r} is not the id of a delivery.")
    return seq
