"""Pools with connections that are only said to be open, and some over real sockets."""

import errno
import random
import socket
from collections import Counter
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from tests.delivery.http.raw_receiver import BODY, OK, Peer, Server, always_ok, post, serving
from tests.public.delivery import LEAST_POOL_DESCRIPTORS as LEAST_DESCRIPTORS
from tests.public.delivery import POOL_SHARED_FOR as SHARED_FOR
from tests.public.delivery import POOL_SUSPECT_FOR as SUSPECT_FOR
from tests.public.delivery import POOLS_LOOK_EVERY as LOOK_EVERY
from tests.public.delivery import (
    AddressGuard,
    Blocked,
    ConnectFailed,
    ConnectionPools,
    DeadlinePassed,
    DeliveryError,
    Dialer,
    MayNotSend,
    OutgoingConnection,
    OutOfDescriptors,
    PlainStream,
    PooledTransport,
    PoolKey,
    PoolPlace,
    TimedOut,
    render_head,
)
from tests.support.ports import free_port

HOST = ("https", "receiver.example", 443, None)
OTHER = ("https", "other.example", 443, None)
THIRD = ("http", "other.example", 443, None)
REFUSED = ConnectFailed("No connection to port 443 of receiver.example: connection refused.")


class Fake(PooledTransport):
    """A connection that is open once ``opened`` is set."""

    def __init__(self) -> None:
        super().__init__(cast("Dialer", None))
        self.opened = False
        self.rested = 0

    @property
    def connected(self) -> bool:
        return self.opened

    @property
    def fileno(self) -> int | None:
        return None

    def close_nowait(self) -> None:
        self.opened = False

    def rest(self) -> None:
        self.rested += 1


def make_pools(**options: Any) -> ConnectionPools:
    return ConnectionPools(Fake, **options)


def borrow(
    pools: ConnectionPools,
    holder: str = "shop",
    origin: PoolKey = HOST,
    preferred: PooledTransport | None = None,
) -> Fake:
    transport = pools.borrow_nowait(origin, holder, preferred)
    assert isinstance(transport, Fake)
    if not transport.opened:
        transport.opened = True
        pools.connected(transport.pool)
    transport.ended_at = trio.current_time()
    return transport


def try_borrow(pools: ConnectionPools, holder: str, origin: PoolKey = HOST) -> Fake | PoolPlace:
    if (transport := pools.borrow_nowait(origin, holder)) is not None:
        assert isinstance(transport, Fake)
        return transport
    return pools.line_up(origin, holder)


def borrow_all(pools: ConnectionPools, holder: str, origin: PoolKey = HOST) -> list[Fake]:
    found = []
    while (transport := pools.borrow_nowait(origin, holder)) is not None:
        assert isinstance(transport, Fake)
        transport.opened = True
        found.append(transport)
    return found


def collect(pools: ConnectionPools, place: PoolPlace) -> Fake:
    assert place.event.is_set()
    transport, place.transport = place.transport, None
    pools.leave(place)
    assert isinstance(transport, Fake)
    return transport


# Reuse.


def waiting_lanes(pools: ConnectionPools) -> int:
    return sum(host.waiting for host in pools.statistics(99).hosts)


async def test_an_idle_connection_goes_to_the_next_lane() -> None:
    pools = make_pools()
    first = borrow(pools)
    pools.give_back(first)
    assert borrow(pools, "another instance") is first
    assert borrow(pools, origin=OTHER) is not first
    assert pools.statistics().lent == 2


async def test_a_lane_gets_its_own_connection_if_it_is_idle_else_the_newest() -> None:
    pools = make_pools()
    one, two, three = (borrow(pools) for _ in range(3))
    for transport in (one, two, three):
        pools.give_back(transport)
    assert borrow(pools, preferred=one) is one
    assert borrow(pools, preferred=one) is three
    elsewhere = borrow(pools, origin=OTHER)
    pools.give_back(elsewhere)
    assert borrow(pools, preferred=elsewhere) is two
    assert pools.statistics().idle == 1


async def test_a_connection_that_was_closed_is_not_kept() -> None:
    pools = make_pools()
    transport = borrow(pools)
    transport.close_nowait()
    pools.give_back(transport)
    assert borrow(pools) is not transport
    assert (pools.statistics().lent, pools.statistics().idle) == (1, 0)


async def test_the_longest_idle_connection_makes_room_for_another_host() -> None:
    pools = make_pools(descriptors=4)
    old, middle = borrow(pools), borrow(pools)
    new = borrow(pools, origin=OTHER)
    for transport in (old, new, middle):
        pools.give_back(transport)
    for expected in ([True, True, True], [False, True, True], [False, True, False]):
        borrow(pools, f"holder {expected}", THIRD)
        assert [old.opened, middle.opened, new.opened] == expected
    assert borrow(pools, "fourth") is middle  # of the right host, so nothing is closed
    statistics = pools.statistics()
    assert (statistics.lent, statistics.idle) == (4, 0)


# Shares and turns.


async def test_one_holder_may_use_a_whole_pool_while_it_is_alone() -> None:
    pools = make_pools(host_connections=64)
    assert len(borrow_all(pools, "shop")) == 64


async def test_one_holder_gets_three_quarters_of_a_shared_pool(autojump_clock: MockClock) -> None:
    pools = make_pools(host_connections=64)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pools.run)
        pools.give_back(borrow(pools, "bank"))
        mine = borrow_all(pools, "shop")
        assert len(mine) == 48
        assert len(borrow_all(pools, "bank")) == 12
        assert len(borrow_all(pools, "third")) == 3
        [waits] = [pools.line_up(HOST, "shop")]
        pools.leave(waits)
        await trio.sleep(SHARED_FOR + 2 * LOOK_EVERY)
        for transport in mine:
            pools.give_back(transport)
        assert len(borrow_all(pools, "shop")) == 48 - 15 + 4  # the others still have theirs
        nursery.cancel_scope.cancel()


async def test_a_host_is_not_shared_for_ever(autojump_clock: MockClock) -> None:
    pools = make_pools(host_connections=8)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pools.run)
        pools.give_back(borrow(pools, "bank"))
        mine = borrow_all(pools, "shop")
        assert len(mine) == 6
        await trio.sleep(SHARED_FOR + 2 * LOOK_EVERY)
        assert len(borrow_all(pools, "shop")) == 2
        nursery.cancel_scope.cancel()


async def test_instances_take_turns_then_their_lanes() -> None:
    pools = make_pools(host_connections=1)
    lent = borrow(pools, "first")
    places = [try_borrow(pools, holder) for holder in ("busy", "busy", "busy", "quiet")]
    order = []
    for _ in range(4):
        pools.give_back(lent)
        [place] = [place for place in places if isinstance(place, PoolPlace) and place.event.is_set()]
        places.remove(place)
        order.append(place.holder)
        assert collect(pools, place) is lent
    assert order == ["busy", "quiet", "busy", "busy"]


# Descriptors.


async def test_a_lane_waits_for_a_descriptor_and_keeps_its_place_at_the_host() -> None:
    pools = make_pools(host_connections=1, descriptors=1)
    lent = borrow(pools)
    place, behind = try_borrow(pools, "bank", OTHER), try_borrow(pools, "bank", OTHER)
    assert isinstance(place, PoolPlace)
    assert isinstance(behind, PoolPlace)
    assert (place.wants, behind.wants) == ("descriptor", "connection")
    assert (waiting_lanes(pools), pools.statistics().lent) == (1, 1)
    pools.give_back(lent)
    granted = collect(pools, place)
    assert not lent.opened  # it was idle, and made room
    pools.give_back(granted)
    assert behind.event.is_set()
    pools.leave(behind)
    assert (pools.statistics().lent, waiting_lanes(pools)) == (0, 0)


async def test_one_holder_leaves_descriptors_for_others() -> None:
    pools = make_pools(descriptors=64)
    taken = [try_borrow(pools, "shop", ("http", f"host{number}", 80, None)) for number in range(60)]
    assert sum(isinstance(one, Fake) for one in taken) == 48
    assert isinstance(try_borrow(pools, "bank"), Fake)


async def test_a_refused_socket_lowers_the_number_of_connections_for_a_while(
    autojump_clock: MockClock,
) -> None:
    pools = make_pools(descriptors=64)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pools.run)
        lent = [borrow(pools, f"holder {n}", ("http", f"host{n}", 80, None)) for n in range(20)]
        idle = [borrow(pools, "shop") for number in range(2)]
        for transport in idle:
            pools.give_back(transport)
        pools.descriptors_ran_out()
        assert not any(transport.opened for transport in idle)  # theirs are free now
        assert pools.statistics().descriptors == 19
        waits = try_borrow(pools, "late")
        assert isinstance(waits, PoolPlace)
        await trio.sleep(LOOK_EVERY + 1)
        assert pools.statistics().descriptors == 23
        assert waits.event.is_set()
        pools.leave(waits)
        await trio.sleep(100 * LOOK_EVERY)
        assert pools.statistics().descriptors == 64
        for transport in lent:
            pools.give_back(transport)
        pools.descriptors_ran_out()
        assert pools.statistics().descriptors == LEAST_DESCRIPTORS
        nursery.cancel_scope.cancel()


async def test_no_socket_is_not_the_fault_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    dialer = Dialer(AddressGuard(("127.0.0.0/8",)), connect_timeout=5)
    pools = ConnectionPools(lambda: PooledTransport(dialer))

    def refuse(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async with serving(always_ok) as server:
        with monkeypatch.context() as patched:
            patched.setattr(socket, "socket", refuse)
            transport = pools.borrow_nowait(("http", "127.0.0.1", server.port, None), "shop")
            assert transport is not None
            with pytest.raises(OutOfDescriptors):
                await post(transport, server)
            pools.give_back(transport)
        statistics = pools.statistics()
        assert (statistics.suspect, statistics.lent, statistics.descriptors) == (0, 0, LEAST_DESCRIPTORS)
        assert (await post(transport, server)).status == 200
        transport.close_nowait()


async def test_nothing_is_sent_if_the_lease_ended_while_it_connected() -> None:
    """Another node may be at the delivery by now: no request leaves."""
    dialer = Dialer(AddressGuard(("127.0.0.0/8",)), connect_timeout=5)
    pools = ConnectionPools(lambda: PooledTransport(dialer))
    requests: list[int] = []

    async def behaviour(peer: Peer) -> None:
        while await peer.request():
            requests.append(peer.number)
            await peer.send(OK)

    async with serving(behaviour) as server:
        transport = pools.borrow_nowait(("http", "127.0.0.1", server.port, None), "shop")
        assert transport is not None
        transport.may_send = lambda: False
        with pytest.raises(MayNotSend):
            await post(transport, server)
        assert not transport.connected
        assert pools.statistics().suspect == 0
        transport.may_send = lambda: True
        assert (await post(transport, server)).status == 200
        # On an open connection, the lane itself has asked a moment ago.
        transport.may_send = lambda: False
        assert (await post(transport, server)).status == 200
        assert requests == [2, 2]
        transport.close_nowait()


# A host that cannot be reached.


def fail(pools: ConnectionPools, transport: Fake, failure: DeliveryError = REFUSED) -> None:
    pools.connect_failed(transport, failure)
    pools.give_back(transport)


async def test_after_a_connect_failure_one_connection_probes_and_each_success_doubles_the_number() -> None:
    pools = make_pools(host_connections=8)
    transport = pools.borrow_nowait(HOST, "shop")
    assert isinstance(transport, Fake)
    fail(pools, transport)
    assert pools.statistics().suspect == 1
    probe = pools.borrow_nowait(HOST, "shop")
    assert isinstance(probe, Fake)
    places = [try_borrow(pools, f"instance {number}") for number in range(10)]

    def open_connections(opening: list[Fake]) -> list[Fake]:
        for transport in opening:
            transport.opened = True
            pools.connected(transport.pool)
        granted = [place for place in places if isinstance(place, PoolPlace) and place.event.is_set()]
        for place in granted:
            places.remove(place)
        return [collect(pools, place) for place in granted]

    assert all(isinstance(place, PoolPlace) for place in places)
    second = open_connections([probe])
    assert len(second) == 1
    assert len(open_connections(second)) == 2
    assert pools.statistics().suspect == 1
    pools.connected(probe.pool)
    assert pools.statistics().suspect == 0
    assert pools.statistics().lent == 8


async def test_lanes_that_wait_share_the_failure_of_a_probe_and_of_nothing_else() -> None:
    pools = make_pools(host_connections=2)
    first, second = (cast("Fake", pools.borrow_nowait(HOST, "shop")) for _ in range(2))
    places = [try_borrow(pools, f"instance {number}") for number in range(3)]
    fail(pools, first)
    assert not any(isinstance(place, PoolPlace) and place.event.is_set() for place in places)
    fail(pools, second)
    probing, *waiting = places
    assert isinstance(probing, PoolPlace)
    probe = collect(pools, probing)
    assert not any(isinstance(place, PoolPlace) and place.event.is_set() for place in waiting)
    fail(pools, probe, REFUSED)
    for place in waiting:
        assert isinstance(place, PoolPlace)
        assert place.event.is_set()
        assert (place.failure, place.transport) == (REFUSED, None)
        pools.leave(place)
    assert (pools.statistics().lent, waiting_lanes(pools)) == (0, 0)
    assert pools.borrow_nowait(HOST, "shop") is not None


async def test_open_connections_vouch_for_the_host() -> None:
    pools = make_pools(host_connections=8)
    working = [borrow(pools) for _ in range(3)]
    for _ in range(2):
        unlucky = pools.borrow_nowait(HOST, "shop")
        assert isinstance(unlucky, Fake)
        waits = pools.line_up(HOST, "bank") if pools.statistics().suspect else None
        fail(pools, unlucky)
    assert waits is not None
    assert waits.failure is None  # the host works: only that one connection failed
    assert waits.transport is not None  # beside the three that are open, one may be lent
    pools.leave(waits)
    pools.give_back(working[0])
    assert pools.statistics().suspect == 0


async def test_what_our_own_rules_refuse_says_nothing_about_a_host() -> None:
    dialer = Dialer(AddressGuard(()), connect_timeout=5)
    pools = ConnectionPools(lambda: PooledTransport(dialer))
    async with serving(always_ok) as server:
        transport = pools.borrow_nowait(("http", "127.0.0.1", server.port, None), "shop")
        assert transport is not None
        with pytest.raises(Blocked):
            await post(transport, server)
        pools.give_back(transport)
    assert pools.statistics().suspect == 0


async def never_connect(address: object) -> socket.socket:
    await trio.sleep_forever()
    raise AssertionError


def silent_pools() -> ConnectionPools:
    """Pools of hosts that neither accept nor refuse a connection."""
    dialer = Dialer(AddressGuard(("127.0.0.0/8",)), connect_timeout=5, connect=never_connect)
    return ConnectionPools(lambda: PooledTransport(dialer), host_connections=2)


async def test_a_deadline_shorter_than_the_connect_timeout_says_nothing_about_a_host(
    autojump_clock: MockClock,
) -> None:
    pools, server = silent_pools(), Server(80, "http")
    transport = pools.borrow_nowait(("http", "127.0.0.1", 80, None), "shop")
    assert transport is not None
    # In the words of the connect timeout: by them, problems are shown by their cause.
    with pytest.raises(
        DeadlinePassed, match=r"^Connecting to port 80 of 127\.0\.0\.1 took longer than 0\.1 s"
    ):
        await post(transport, server, seconds=0.1)
    assert pools.statistics().suspect == 0
    with pytest.raises(TimedOut, match="took longer than 5 s"):
        await post(transport, server, seconds=15)
    pools.give_back(transport)
    assert pools.statistics().suspect == 1


async def test_after_a_probe_that_its_own_deadline_ended_the_next_lane_probes(
    autojump_clock: MockClock,
) -> None:
    pools, server, origin = silent_pools(), Server(80, "http"), ("http", "127.0.0.1", 80, None)

    async def attempt(transport: PooledTransport, seconds: float) -> None:
        with pytest.raises(TimedOut):
            await post(transport, server, seconds=seconds)
        pools.give_back(transport)

    first = pools.borrow_nowait(origin, "shop")
    assert first is not None
    await attempt(first, 15)
    hasty = pools.borrow_nowait(origin, "shop")
    assert hasty is not None
    assert hasty.is_probe
    places = [pools.line_up(origin, f"instance {number}") for number in range(3)]
    await attempt(hasty, 0.1)
    probing, *waiting = places
    assert [place.event.is_set() for place in places] == [True, False, False]
    probe, probing.transport = probing.transport, None
    assert probe is not None
    await attempt(probe, 15)
    assert all(place.event.is_set() and place.failure is not None for place in waiting)
    for place in places:
        pools.leave(place)
    assert (pools.statistics().lent, waiting_lanes(pools)) == (0, 0)


async def test_a_connect_failure_is_noticed() -> None:
    unused_port = free_port()
    dialer = Dialer(AddressGuard(("127.0.0.0/8",)), connect_timeout=5)
    pools = ConnectionPools(lambda: PooledTransport(dialer))
    transport = pools.borrow_nowait(("http", "127.0.0.1", unused_port, None), "shop")
    assert transport is not None
    with pytest.raises(ConnectFailed):
        await post(transport, Server(unused_port, "http"))
    pools.give_back(transport)
    assert pools.statistics().suspect == 1


# Idle connections, over real sockets.


def real(pools: ConnectionPools) -> tuple[PooledTransport, socket.socket]:
    """Borrow a connection over a real socket, and give the receiver's end of it too."""
    transport = pools.borrow_nowait(HOST, "shop")
    assert transport is not None
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    transport._connection = OutgoingConnection(PlainStream(ours), HOST[:3], 100)
    return transport, theirs


def real_pools(**options: Any) -> ConnectionPools:
    return ConnectionPools(lambda: PooledTransport(cast("Dialer", None)), **options)


async def test_idle_connections_are_closed_after_a_while(autojump_clock: MockClock) -> None:
    pools = make_pools(idle=60.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pools.run)
        await trio.sleep(1000)
        transport, used = borrow(pools), borrow(pools)
        pools.give_back(transport)
        await trio.sleep(59)
        assert transport.opened
        assert transport.rested
        await trio.sleep(2 * LOOK_EVERY)
        assert not transport.opened
        assert used.opened
        pools.give_back(used)
        nursery.cancel_scope.cancel()
    assert not used.opened  # the end of run() closes the rest,
    late = borrow(pools)
    pools.give_back(late)
    assert not late.opened  # and what is given back later


async def test_connections_that_receivers_close_are_closed_soon(autojump_clock: MockClock) -> None:
    pools = real_pools()
    pairs = [real(pools) for _ in range(4)]
    for transport, _ in pairs:
        pools.give_back(transport)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pools.run)
        await trio.sleep(1)
        pairs[0][1].close()
        pairs[1][1].shutdown(socket.SHUT_WR)
        pairs[2][1].close()
        # Whoever uses this one finds out:
        assert pools.borrow_nowait(HOST, "shop", pairs[2][0]) is pairs[2][0]
        await trio.sleep(LOOK_EVERY)
        assert [transport.connected for transport, _ in pairs] == [False, False, True, True]
        assert pools.statistics().idle == 1
        nursery.cancel_scope.cancel()
    pairs[2][0].close_nowait()
    for _, theirs in pairs:
        theirs.close()


async def test_pools_that_nobody_uses_are_forgotten(autojump_clock: MockClock) -> None:
    pools = make_pools()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pools.run)
        pools.give_back(borrow(pools))
        transport = pools.borrow_nowait(OTHER, "shop")
        assert isinstance(transport, Fake)
        fail(pools, transport)
        await trio.sleep(SHARED_FOR + 70)
        assert list(pools.pools) == [OTHER]  # what is known about it still counts
        await trio.sleep(SUSPECT_FOR)
        assert list(pools.pools) == []
        nursery.cancel_scope.cancel()


async def test_two_lanes_share_a_connection_over_the_wire() -> None:
    dialer = Dialer(AddressGuard(("127.0.0.0/8",)), connect_timeout=5)
    pools = ConnectionPools(lambda: PooledTransport(dialer))

    async with serving(always_ok) as server:
        for holder in ("shop", "bank"):
            transport = pools.borrow_nowait(("http", "127.0.0.1", server.port, None), holder)
            assert transport is not None
            assert (await post(transport, server)).status == 200
            pools.give_back(transport)
            if holder == "bank":
                transport.close_nowait()
        assert server.connections == 1


# Everything at random.


@pytest.mark.parametrize("seed", range(20))
async def test_at_random_no_slot_leaks(seed: int) -> None:  # noqa: C901 -- all that can happen
    chance = random.Random(seed)
    descriptors, limit = chance.choice((3, 10, 100)), chance.choice((1, 2, 8))
    made: list[Fake] = []

    def make() -> PooledTransport:
        made.append(Fake())
        return made[-1]

    pools = ConnectionPools(make, host_connections=limit, descriptors=descriptors)
    origins = [HOST, OTHER, THIRD]
    lent: list[Fake] = []
    places: list[PoolPlace] = []
    for _ in range(3000):
        match chance.randrange(8):
            case 0 | 1 | 2:
                preferred = chance.choice(made) if made and chance.random() < 0.5 else None
                holder, origin = f"holder {chance.randrange(4)}", chance.choice(origins)
                if (found := pools.borrow_nowait(origin, holder, preferred)) is None:
                    places.append(pools.line_up(origin, holder, preferred))
                else:
                    lent.append(cast("Fake", found))
            case 3 | 4 if lent:
                transport = lent.pop(chance.randrange(len(lent)))
                if chance.random() < 0.2:
                    transport.close_nowait()
                    if chance.random() < 0.5:
                        pools.connect_failed(transport, REFUSED)
                elif not transport.opened:
                    transport.opened = True
                    pools.connected(transport.pool)
                pools.give_back(transport)
            case 5 if places:
                pools.leave(places.pop(chance.randrange(len(places))))
            case 6:
                for place in [place for place in places if place.event.is_set()]:
                    places.remove(place)
                    if place.failure is None:
                        lent.append(collect(pools, place))
                    else:
                        pools.leave(place)
            case 7 if chance.random() < 0.1:
                pools.descriptors_ran_out()
        granted = [cast("Fake", place.transport) for place in places if place.transport is not None]
        out = lent + granted
        statistics = pools.statistics(99)
        assert len(set(out)) == len(out) == statistics.lent
        by_host = Counter(transport.pool.origin for transport in out)
        assert max(by_host.values(), default=0) <= limit
        assert sum(transport.opened for transport in made) <= descriptors
        assert statistics.idle == sum(transport.opened for transport in made if transport not in out)
    while lent or places:
        for place in list(places):
            if place.event.is_set():
                places.remove(place)
                pools.leave(place)
        for transport in lent:
            pools.give_back(transport)
        lent.clear()
    assert (pools.statistics().lent, waiting_lanes(pools)) == (0, 0)
    assert all(pool.used == 0 and not pool.lent and pool.waiting == 0 for pool in pools.pools.values())


# Nodes of a fleet.


async def test_nodes_divide_the_connections_of_a_host() -> None:
    pools = make_pools(host_connections=9)
    pools.divide(3)
    lent = borrow_all(pools, "shop")
    assert len(lent) == 3
    place = pools.line_up(HOST, "shop")
    pools.divide(2)  # four each
    lent.append(collect(pools, place))
    lent[3].opened = True
    waiting = [pools.line_up(HOST, "shop") for _ in range(2)]
    pools.divide(100)  # never none
    for transport in lent[:3]:
        pools.give_back(transport)
        assert not transport.opened  # more than this node's part
        assert not any(place.event.is_set() for place in waiting)
    pools.give_back(lent[3])
    assert lent[3].opened
    assert collect(pools, waiting[0]) is lent[3]
    pools.divide(1)
    collect(pools, waiting[1])
    assert len(borrow_all(pools, "shop")) == 7


async def test_idle_connections_that_are_too_many_are_closed() -> None:
    pools = make_pools(host_connections=6)
    lent = borrow_all(pools, "shop")
    for transport in lent[:5]:
        pools.give_back(transport)
    pools.divide(3)
    assert [transport.opened for transport in lent].count(True) == 2
    assert lent[5].opened
    assert pools.statistics().idle == 1


async def test_a_suspect_host_stays_suspect_when_nodes_come_and_go() -> None:
    pools = make_pools(host_connections=8)
    probe = pools.borrow_nowait(HOST, "shop")
    assert probe is not None
    pools.connect_failed(probe, REFUSED)
    pools.give_back(probe)
    pools.divide(2)
    pools.divide(1)
    [again] = borrow_all(pools, "shop")
    assert again.is_probe
    for _ in range(3):
        pools.connected(again.pool)
    assert again.pool.total == 8
    assert not again.pool.suspect


# Connections that wait for a late response.


async def give_back_late(pools: ConnectionPools, holder: str = "shop", origin: PoolKey = HOST) -> Fake:
    """Borrow a connection, and give it back as after a deadline."""
    await trio.lowlevel.checkpoint()
    transport = borrow(pools, holder, origin)
    transport.awaits_response = True
    pools.give_back(transport)
    return transport


async def test_a_connection_that_awaits_a_response_stays_open_and_is_not_lent() -> None:
    pools = make_pools(host_connections=3)
    late = await give_back_late(pools)
    assert late.opened
    others = [borrow(pools) for _ in range(2)]
    assert late not in others
    assert late.opened
    pools.close_late(late)
    pools.close_late(late)
    assert not late.opened


async def test_connections_that_await_a_response_count_for_their_host_and_the_oldest_is_given_up() -> None:
    pools = make_pools(host_connections=3)
    late = [await give_back_late(pools) for _ in range(3)]
    elsewhere = await give_back_late(pools, origin=OTHER)
    borrow(pools)
    assert [one.opened for one in late] == [False, True, True]
    for _ in range(2):
        borrow(pools)
    assert [one.opened for one in late] == [False, False, False]
    assert elsewhere.opened


async def test_connections_that_await_a_response_are_given_up_before_idle_ones() -> None:
    pools = make_pools(descriptors=4)
    idle, late = borrow(pools, origin=OTHER), await give_back_late(pools)
    pools.give_back(idle)
    for origin in (THIRD, ("https", "a.example", 443, None), ("https", "b.example", 443, None)):
        borrow(pools, origin[1], origin)
    assert (late.opened, idle.opened) == (False, True)


async def test_a_smaller_part_of_a_fleet_gives_up_connections_that_await_a_response() -> None:
    pools = make_pools(host_connections=4)
    late = [await give_back_late(pools) for _ in range(4)]
    pools.divide(2)
    assert [one.opened for one in late] == [False, False, True, True]


async def test_the_end_closes_connections_that_await_a_response(mock_clock: MockClock) -> None:
    pools = make_pools()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pools.run)
        late = await give_back_late(pools)
        nursery.cancel_scope.cancel()
    assert not late.opened


async def test_a_busy_connection_follows_a_host_that_moved(mock_clock: MockClock) -> None:
    """The former address goes on answering, and no attempt fails."""
    address = "127.0.0.2"

    async def resolve(_host: str, port: int, **_: Any) -> Any:
        return [(0, 0, 0, "", (address, port))]

    dialer = Dialer(AddressGuard(("127.0.0.0/8",)), connect_timeout=5, resolve=resolve)
    pools = ConnectionPools(lambda: PooledTransport(dialer, connection_age=300))

    async with (
        serving(always_ok, host="127.0.0.2") as former,
        serving(always_ok, host="127.0.0.3", port=former.port) as present,
    ):
        target = former.target(host="moves.example")
        head = render_head(target, {}, len(BODY))
        origin, last = ("http", "moves.example", former.port, None), None
        for second in range(400):
            if second == 100:
                address = "127.0.0.3"
            last = pools.borrow_nowait(origin, "shop", last)
            assert last is not None
            answer = await last.exchange(target, head, BODY, deadline=trio.current_time() + 15)
            assert answer.status == 200
            pools.give_back(last)
            assert (former.connections, present.connections) == (1, 0 if second < 300 else 1)
            mock_clock.jump(1)
        assert last is not None
        last.close_nowait()
