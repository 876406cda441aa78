"""The connections of all lanes: a pool for each scheme, host, port and TLS identity, lent for an attempt.

A registration with a TLS identity (:mod:`hookgw.records.tls_identity`) has its own connections: the receiver
identifies the sender by the certificate, so no other tenant may use them. If the receiver refuses a
certificate, that says nothing about the host for others.

What is limited
---------------

*Connections of a host.* A pool lends at most ``host_connections`` at a time. While several holders (the
instances of the events) use a host, one holder gets at most three quarters of its pool, and less if several
want much (:mod:`hookgw.fair.share`). A holder that is alone gets all of it. A host counts as shared for a
minute after another holder has asked for it; otherwise the first attempt of a quiet instance would wait for a
slow attempt of a busy one, each time.

*Connections for late responses.* After a deadline a connection stays open for a late response
(:mod:`hookgw.lanes.late_response`). Like an idle one, it is not lent and counts for no holder. It is the
first to be closed when its host or the descriptors run short.

*Descriptors.* All pools together have at most ``descriptors`` connections, divided among holders in the same
way. The last quarter of them is for holders that have none. Idle connections count for no holder: the
connection that has been idle for longest is closed if its descriptor is needed.

A loan
------

::

    borrow_nowait ──────────────────────────────────────────────────> lent ──> give_back
         │ does not fit                                                ^
         v                                                             │
      line_up ──> in the pool's line ──> in the line for descriptors ──┘
                          │
                          └──> failed: the host was probed and could not be reached

A lane that waits for a descriptor holds its place at the host, and never the other way round. It has reserved
its memory before either (:mod:`hookgw.lanes.lane_queue`). As everything is taken in this order, no two lanes
can wait for each other. Nothing in this module waits, except :meth:`ConnectionPools.run`: a lane waits for
the event of its :class:`PoolPlace`, and calls :meth:`ConnectionPools.leave` however that wait ends (granted,
failed, paused, redirected, stopped or cancelled). So a slot cannot leak: either a lane has it and gives it
back in a ``finally``, or a place has it and is left in a ``finally``.

A host that cannot be reached
-----------------------------

After a connect failure (lookup, TCP or TLS), a pool is *suspect*: beside the connections that are open, it
lends one, the probe. Each connection that opens doubles the number, until the pool is whole again. A lane
that waits meanwhile is not failing. If a probe fails and nothing else is connected to the host, every lane
that waits for the pool shares the result, as if it had tried: its delivery has an attempt that says so, and
the lane waits on its own schedule. So ten thousand lanes of a dead host make one connection at a time, each
lane shows why nothing arrives, and expiry and disabling work as usual. A receiver that accepts connections
but does not answer is no connect failure: one path may be at fault, so only that lane fails. The same goes
for an attempt whose own deadline passes before the connect timeout: it says nothing about the host, and the
next lane in line probes.
"""

from __future__ import annotations

import heapq
import math
import select
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import msgspec
import structlog
import trio

from hookgw.delivery.http.answer_memory import AnswerMemory
from hookgw.delivery.http.connection import PoolKey
from hookgw.delivery.http.errors import (
    Blocked,
    DeadlinePassed,
    DeliveryError,
    MayNotSend,
    OutOfDescriptors,
    ResponseFailed,
    TlsFailed,
)
from hookgw.delivery.http.stream import Stream
from hookgw.delivery.http.transport import LaneTransport
from hookgw.fair import Share
from hookgw.kernel.target_url import Target
from hookgw.records.deliveries import WaitsFor

logger = structlog.get_logger("hookgw.outbound")

RATIO = 3
"""A holder may have this many times the free amount: three quarters, if no other holder wants much."""

RESERVED = 4
"""A quarter of the descriptors is for holders that have none: a receiver that hangs keeps one for 30 s."""

HOST_CONNECTIONS = 64
"""How many connections a pool lends by default."""

POOLS_LOOK_EVERY = 5.0
"""Seconds between two looks for idle connections that are old, or that receivers have closed."""

POOL_SHARED_FOR = 60.0
"""Seconds for which a host counts as shared after another holder has asked for it."""

POOL_SUSPECT_FOR = 900.0
"""Seconds after which an unused suspect pool is forgotten; its lanes wait for 5 m by default."""

RESTS_AFTER = 5.0
"""Seconds after which an idle connection keeps no more memory than it must."""

LEAST_POOL_DESCRIPTORS = 8
"""Descriptors that lanes try to use, however many the system refuses."""

CLOSED_AT_ONCE = 500
"""Idle connections that are looked at without a checkpoint, so that other tasks run in between."""

# Other systems than Linux lack POLLRDHUP: they report only a reset or a close in both directions.
_CLOSED = getattr(select, "POLLRDHUP", 0)


class PooledTransport(LaneTransport):
    """A connection of a pool, open or not. Its pool lends it, and owns it while it is idle.

    Attributes:
        is_probe: whether the pool was suspect when this was lent.
        admitted: bytes that its loan has taken from the memory for answers.
        may_send: asked once a connection is open; the lane that borrows it sets it.
    """

    keeps_late = True
    pools: ConnectionPools
    pool: HostPool
    holder: str = ""
    is_probe: bool = False
    admitted = 0
    may_send: Callable[[], bool] = staticmethod(lambda: True)

    async def admit(self, amount: int) -> None:
        """Take answer memory for a response longer than one read, or end the response: its status decides."""
        answers = self.pools.answers
        if not answers.fits(self.holder, amount):
            raise ResponseFailed("The memory for answers (delivery.answer_memory) is full.")
        answers.take(self.holder, amount)
        self.admitted += amount

    def count_stream(self) -> Callable[[], None]:
        return self.pools.take_descriptor(self.holder)

    def note_reached(self) -> None:
        self.pools.connected(self.pool)

    def note_refused(self, failure: TlsFailed) -> None:
        self.close_nowait()
        self.pools.connect_failed(self, failure)

    async def _open(self, target: Target, deadline: float, *, tls: bool) -> Stream:
        try:
            stream = await super()._open(target, deadline, tls=tls)
        except OutOfDescriptors:
            self.pools.descriptors_ran_out()
            raise
        except (Blocked, DeadlinePassed):
            # Our own rules say nothing about a host. And a registration's timeout can be as short as 0.1 s:
            # it must not make the host suspect for others. If this was the probe, the next lane in line
            # probes once the connection is given back.
            raise
        except DeliveryError as failure:
            self.pools.connect_failed(self, failure)
            raise
        self.pools.connected(self.pool)
        if not self.may_send():
            stream.close_nowait()
            raise MayNotSend("This node's lease ended while it connected.")
        return stream


class HostPool(Share["PoolPlace"]):
    """The connections of one host. ``total`` is how many may be lent now.

    Attributes:
        idle: the newest last; a dictionary, because any of them may be lent next.
        late: the connections that are open for a late response, the newest last.
        suspect: whether the host could not be reached, and has not recovered completely.
        newest: the last holder that asked for a connection.
        shared_until: the number of the look at which the host counts as shared no longer.
        used_at: the number of the look after which the pool was last used.
    """

    __slots__ = ("idle", "late", "lent", "limit", "newest", "origin", "shared_until", "suspect", "used_at")

    def __init__(self, origin: PoolKey, limit: int) -> None:
        super().__init__(limit, RATIO)
        self.origin = origin
        self.limit = limit
        self.idle: dict[PooledTransport, None] = {}
        self.late: dict[PooledTransport, None] = {}
        self.lent: set[PooledTransport] = set()
        self.suspect = False
        self.newest = ""
        self.is_shared = False
        self.shared_until = 0
        self.used_at = 0


class PoolPlace:
    """A place in line for a connection.

    Attributes:
        event: set when a result can be collected, or by the lane, to end its wait.
        transport: the connection, once it is granted. Set it to ``None`` to collect it.
        failure: why the host cannot be reached, if that became known meanwhile.
        wants: ``connection`` (of the host) or ``descriptor``.
    """

    __slots__ = ("event", "failure", "holder", "pool", "pools", "preferred", "transport", "wants")

    amount = 1

    def __init__(
        self, pools: ConnectionPools, pool: HostPool, holder: str, preferred: PooledTransport | None
    ) -> None:
        self.pools = pools
        self.pool = pool
        self.holder = holder
        self.preferred = preferred
        self.event = trio.Event()
        self.transport: PooledTransport | None = None
        self.failure: DeliveryError | None = None
        self.wants: WaitsFor = "connection"

    def granted(self) -> None:
        self.pools.advance(self)


class HostStatistics(msgspec.Struct, frozen=True):
    """A snapshot of one pool. ``host`` is like ``https://example.com:443``."""

    host: str
    lent: int
    waiting: int
    suspect: bool


class PoolStatistics(msgspec.Struct, frozen=True):
    """A snapshot of all pools.

    Attributes:
        descriptors: how many connections lanes may have now.
        suspect: how many hosts could not be reached, and have not recovered completely.
        hosts: the most waiting lanes first, at most as many as asked for.
    """

    lent: int
    idle: int
    descriptors: int
    suspect: int
    hosts: list[HostStatistics]


class ConnectionPools:
    """Lends connections to lanes.

    Args:
        make_transport: makes a connection that opens with its first exchange.
        host_connections: how many each pool lends at a time, divided by :meth:`divide`.
        descriptors: how many connections there may be in all.
        idle: seconds after which an idle connection is closed.
        answers: the memory for responses that are longer than one read.
    """

    def __init__(
        self,
        make_transport: Callable[[], PooledTransport],
        *,
        host_connections: int = HOST_CONNECTIONS,
        descriptors: int = 2**20,
        idle: float = 60.0,
        answers: AnswerMemory | None = None,
    ) -> None:
        self._make_transport = make_transport
        self.answers = (answers or AnswerMemory(2**40)).share
        self.host_connections = self._whole_host = host_connections
        self.pools: dict[PoolKey, HostPool] = {}
        # Of all pools, the longest idle first.
        self._idle: OrderedDict[PooledTransport, None] = OrderedDict()
        # Of all pools, the oldest first.
        self._late: dict[PooledTransport, None] = {}
        self._most_descriptors = descriptors
        self._descriptors: Share[PoolPlace] = Share(descriptors, RATIO, RESERVED)
        # Looks at idle connections are counted, so that not every loan must read the clock.
        self._looks = 0
        self._look_every = min(POOLS_LOOK_EVERY, idle)
        self._looks_shared = math.ceil(POOL_SHARED_FOR / self._look_every)
        self._longest_idle = idle
        self._has_work: trio.Event | None = None
        self._warn_at = -math.inf
        self._is_closed = False

    # Lending. Nothing here waits.

    def borrow_nowait(
        self, origin: PoolKey, holder: str, preferred: PooledTransport | None = None
    ) -> PooledTransport | None:
        """Lend a connection, open or not, for one exchange; then :meth:`give_back`.

        Return ``None`` if none is free: the lane must :meth:`line_up`.

        Args:
            holder: the instance of the event.
            preferred: the connection that the lane used last; lent again if it is idle.
        """
        pool, descriptors = self.pools.get(origin) or self._new_pool(origin, holder), self._descriptors
        pool.used_at = self._looks
        if pool.newest != holder:
            pool.newest, pool.is_shared = holder, True
            pool.shared_until = self._looks + self._looks_shared
        # The usual case without a call: so little is used that any holder may have one.
        if pool.used >= pool.calm and pool.room(holder) < 1:
            return None
        if descriptors.used >= descriptors.calm and descriptors.room(holder) < 1:
            return None
        pool.take(holder)
        descriptors.take(holder)
        return self._lend(pool, holder, preferred)

    def line_up(self, origin: PoolKey, holder: str, preferred: PooledTransport | None = None) -> PoolPlace:
        """Wait in line for a connection, after :meth:`borrow_nowait` found none. See :class:`PoolPlace`.

        Always call :meth:`leave` in the end.
        """
        pool = self.pools.get(origin) or self._new_pool(origin, holder)
        place = PoolPlace(self, pool, holder, preferred)
        if pool.fits(holder):  # it is a descriptor that is missing
            pool.take(holder)
            self.advance(place)
        else:
            pool.line_up(place)
        return place

    def leave(self, place: PoolPlace) -> None:
        """Leave the line, or give back a connection that was granted and not collected."""
        if place.transport is not None:
            self.give_back(place.transport)
            place.transport = None
        elif place.failure is None and not place.pool.leave(place) and self._descriptors.leave(place):
            place.pool.give(place.holder)

    def give_back(self, transport: PooledTransport) -> None:
        """Take a connection back after its exchange. If it is open, it may be used again."""
        pool, holder = transport.pool, transport.holder
        pool.lent.remove(transport)
        if transport.admitted:
            self.answers.give(holder, transport.admitted)
            transport.admitted = 0
        if self._is_closed or pool.used > pool.limit:  # more than the node's part: see divide()
            transport.close_nowait()
        elif transport.awaits_response:
            pool.late[transport] = self._late[transport] = None
        elif transport.connected:
            pool.idle[transport] = self._idle[transport] = None
            if pool.suspect:
                self.connected(pool)
        # First the host, whose next lane then waits for the descriptor behind those that wait already.
        pool.give(holder)
        self._descriptors.give(holder)

    def close_late(self, transport: PooledTransport) -> None:
        """Close a connection that is open for a late response. Idempotent."""
        if transport in self._late:
            del self._late[transport], transport.pool.late[transport]
            transport.close_nowait()

    def advance(self, place: PoolPlace) -> None:
        """Lend the granted connection to a place, or let it wait for a descriptor."""
        if place.wants == "connection":
            place.wants = "descriptor"
            if not self._descriptors.fits(place.holder):
                self._descriptors.line_up(place)
                return
            self._descriptors.take(place.holder)
        place.transport = self._lend(place.pool, place.holder, place.preferred)
        place.event.set()

    def _new_pool(self, origin: PoolKey, holder: str) -> HostPool:
        pool = self.pools[origin] = HostPool(origin, self.host_connections)
        pool.newest, pool.used_at = holder, self._looks
        self._wake()
        return pool

    def _lend(self, pool: HostPool, holder: str, preferred: PooledTransport | None) -> PooledTransport:
        """Return a connection of a pool. The caller has taken its place and its descriptor."""
        if preferred is not None and preferred in pool.idle:
            transport = preferred
            del pool.idle[transport], self._idle[transport]
        elif pool.idle:
            transport, _ = pool.idle.popitem()
            del self._idle[transport]
        else:
            while pool.late and pool.used + len(pool.late) > pool.limit:
                self.close_late(next(iter(pool.late)))
            self._make_room(self._descriptors.total - self._descriptors.used)
            transport = self._make_transport()
            transport.pools, transport.pool, transport.tls = self, pool, pool.origin[3]
        transport.holder, transport.is_probe = holder, pool.suspect
        pool.lent.add(transport)
        return transport

    def _make_room(self, most: int) -> None:
        """Close connections that no lane has, until at most ``most`` are left."""
        while self._late and len(self._idle) + len(self._late) > most:
            self.close_late(next(iter(self._late)))
        while self._idle and len(self._idle) > most:
            self._close(next(iter(self._idle)))

    def _close(self, transport: PooledTransport) -> None:
        del self._idle[transport], transport.pool.idle[transport]
        transport.close_nowait()

    def divide(self, nodes: int) -> None:
        """Divide the connections to each host among the nodes of a fleet.

        A pool that has lent more than its part lends none until enough of them came back. It closes these and
        surplus idle ones; an exchange is never cut off.
        """
        self.host_connections = limit = max(1, self._whole_host // nodes)
        for pool in list(self.pools.values()):
            pool.limit = limit
            if pool.suspect:
                pool.total = min(pool.total, limit)
            else:
                pool.total = limit
            while pool.late and pool.used + len(pool.idle) + len(pool.late) > limit:
                self.close_late(next(iter(pool.late)))
            while pool.idle and pool.used + len(pool.idle) > limit:
                self._close(next(iter(pool.idle)))
            pool.serve()

    def take_descriptor(self, holder: str) -> Callable[[], None]:
        """Count a connection that a plugin owns, beside the attempt that opens it. Return what ends that.

        Raises:
            OutOfDescriptors: the holder may have no more.
        """
        if not self._descriptors.fits(holder):
            raise OutOfDescriptors("No file descriptor is free for another connection.")
        self._descriptors.take(holder)
        self._make_room(self._descriptors.total - self._descriptors.used)
        return partial(self._descriptors.give, holder)

    # What connecting says about a host.

    def connected(self, pool: HostPool) -> None:
        """Note that a connection to the host was opened, or used while the host is suspect."""
        if pool.suspect:
            pool.total = min(2 * pool.total, pool.limit)
            pool.suspect = pool.total < pool.limit
            pool.serve()

    def connect_failed(self, transport: PooledTransport, failure: DeliveryError) -> None:
        """Note that a lent connection could not be opened, and that the receiver is at fault."""
        pool = transport.pool
        connected = sum(lent.connected for lent in pool.lent)
        pool.suspect, pool.total = True, min(connected + 1, pool.limit)
        if transport.is_probe and not connected:
            for place in pool.claims():
                pool.leave(place)
                place.failure = failure
                place.event.set()

    def descriptors_ran_out(self) -> None:
        """Lower the number of connections, which grows again with time: the system refused a socket."""
        least = min(LEAST_POOL_DESCRIPTORS, self._most_descriptors)
        self._descriptors.total = max(least, self._descriptors.used - 1)
        self._make_room(max(0, len(self._idle) + len(self._late) - LEAST_POOL_DESCRIPTORS))
        self._wake()
        now = trio.current_time()
        if now >= self._warn_at:
            self._warn_at = now + 60.0
            logger.warning(
                "no file descriptor is free",
                connections=self._descriptors.used,
                fix="Deliveries wait. Raise the limit with ulimit -Hn, or LimitNOFILE= in systemd.",
            )

    # Idle connections.

    async def run(self) -> None:
        """Close idle connections that are old or that receivers have closed, until cancelled."""
        try:
            while True:
                if not (self.pools or self._descriptors.total < self._most_descriptors):
                    self._has_work = trio.Event()
                    await self._has_work.wait()
                await trio.sleep(self._look_every)
                self._looks += 1
                await self._look_at_idle()
                self._forget_pools()
                if self._descriptors.total < self._most_descriptors:
                    more = max(1, self._most_descriptors // 16)
                    self._descriptors.total = min(self._descriptors.total + more, self._most_descriptors)
                    self._descriptors.serve()
        finally:
            self._is_closed = True
            self._make_room(0)

    async def _look_at_idle(self) -> None:
        # Without this, sockets in CLOSE_WAIT add up if many receivers close idle connections early.
        transports, now = list(self._idle), trio.current_time()
        for start in range(0, len(transports), CLOSED_AT_ONCE):
            poll, by_file = select.poll(), {}
            for transport in transports[start : start + CLOSED_AT_ONCE]:
                if transport not in self._idle:
                    continue  # it was lent meanwhile
                idle_for = now - transport.ended_at
                if idle_for >= RESTS_AFTER:
                    transport.rest()
                if idle_for >= self._longest_idle:
                    self._close(transport)
                elif (fileno := transport.fileno) is not None:
                    poll.register(fileno, _CLOSED)
                    by_file[fileno] = transport
            for fileno, _ in poll.poll(0):
                self._close(by_file[fileno])
            await trio.lowlevel.checkpoint()

    def _forget_pools(self) -> None:
        for origin, pool in list(self.pools.items()):
            pool.is_shared = self._looks < pool.shared_until
            if pool.used or pool.idle or pool.late or pool.waiting:
                continue
            unused = (self._looks - pool.used_at) * self._look_every
            if unused > (POOL_SUSPECT_FOR if pool.suspect else POOL_SHARED_FOR):
                del self.pools[origin]

    def _wake(self) -> None:
        if self._has_work is not None:
            self._has_work.set()
            self._has_work = None

    def statistics(self, most: int = 0) -> PoolStatistics:
        """Return a snapshot with at most ``most`` hosts."""
        hosts = [
            HostStatistics("{}://{}:{}".format(*pool.origin), pool.used, waiting, pool.suspect)
            for pool in self.pools.values()
            if (waiting := pool.waiting) or pool.used or pool.suspect
        ]
        return PoolStatistics(
            lent=self._descriptors.used,
            idle=len(self._idle),
            descriptors=self._descriptors.total,
            suspect=sum(host.suspect for host in hosts),
            hosts=heapq.nlargest(most, hosts, key=lambda host: (host.waiting, host.suspect, host.lent)),
        )
