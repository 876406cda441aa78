"""Nodes that accept at full speed at once, on one real PostgreSQL: by how much is a limit missed?

A limit may be exceeded, or refuse too early, by 5 % and by what all nodes accept in a second.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import pytest
import trio

from hookgw import Delivery, Event
from tests.gateway.test_backlog import NO_LIMITS
from tests.public.concurrency import Clock
from tests.public.config import LimitsSettings
from tests.public.core import (
    SHARE,
    Backlog,
    BacklogFull,
    DiskSpaceWatch,
    LimitedOutbox,
    Refresh,
    ShareFull,
    Tally,
)
from tests.public.fleet import BacklogExchange, FleetNode
from tests.public.kernel import Size
from tests.public.postgresql import PostgresqlStore, Server, open_store
from tests.public.records import FIRST, FleetMember, FleetView, LaneRule, Ordering
from tests.public.store import Append, PendingChange
from tests.store.support import delivered
from tests.support.waits import until

NODES = 3
DATA = b'"%s"' % (b"x" * 98)
BATCH = 10
INSTANCES = 8


class Silent:
    def backlog_crossed(self, registration_id: str, tally: Tally) -> None: ...
    def instance_backlog_crossed(self, instance: str, tally: Tally, allowed: tuple[float, float]) -> None: ...


class Place:
    """What a node knows of the fleet."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.view = FleetView()


class Node:
    def __init__(self, store: PostgresqlStore, limits: LimitsSettings, place: Place) -> None:
        self.store = store
        self.place = place
        self.backlog = Backlog(limits, 0, Silent())
        disk = DiskSpaceWatch(store, 0)
        pending: Any = self
        self.outbox = LimitedOutbox(store, self.backlog, limits, pending, disk, Refresh().catch_up)
        self.exchange = BacklogExchange(store.backlogs, self.backlog, cast("FleetNode", place))
        self.events = 0
        store.subscribe(self)

    def requeued(self, lanes: Mapping[str, int]) -> None: ...
    def appended(self, deliveries: Sequence[Delivery]) -> None: ...

    def changed(self, change: PendingChange) -> None:
        self.backlog.changed(change)

    async def drop_oldest(
        self, registration: str, instance: str, reason: str, /, *, count: int, size: int
    ) -> tuple[int, int]:
        rule = LaneRule(registration, 0, Ordering.URL, 1)
        return await self.store.drop_oldest(rule, instance, reason, count=count, size=size, spared=[])

    async def append(self, count: int = BATCH, instance: str = "i0") -> None:
        events = []
        for _ in range(count):
            self.events += 1
            event_id = f"{self.place.generation}-{self.events}"
            events.append(Event(id=event_id, kind="CALL", instance=instance, data_json=DATA, time=1.0))
        registration = f"reg_{instance}"
        appends = [Append(event, ((registration, f"{registration}:0"),)) for event in events]
        await self.outbox.append(lambda: appends)

    async def deliver(self, count: int) -> None:
        """Deliver the oldest of some lanes."""
        for number in range(INSTANCES):
            page = await self.store.read_lane(f"reg_i{number}:0", FIRST, count)
            count -= len(page.deliveries)
            for one in page.deliveries:
                self.store.settle_nowait(delivered(one.seq))
            if not count:
                break
        await self.store.flush()


@asynccontextmanager
async def nodes(
    database: Server, limits: LimitsSettings, count: int = NODES
) -> AsyncIterator[tuple[list[Node], trio.Nursery]]:
    """Run nodes for the length of a block; they know of each other."""
    async with AsyncExitStack() as stack:
        found = []
        for number in range(count):
            store = await stack.enter_async_context(open_store(database, clock=Clock()))
            store.share(lambda _: False)
            store.members.known_version = (await store.members.changes()).version
            found.append(Node(store, limits, Place(await store.members.join(f"n{number}", ""))))
        gather(found)
        async with trio.open_nursery() as nursery:
            for node in found:
                nursery.start_soon(node.exchange.run)
            await until(lambda: all(map(is_current, found)))
            yield found, nursery
            nursery.cancel_scope.cancel()


def is_current(node: Node) -> bool:
    """Return whether a node knows what all others tell."""
    exchange = node.exchange
    known = exchange.known
    is_heard = bool(known) and min(known.values()) > 0
    return is_heard and not (exchange.must_count or exchange.is_counting)


def gather(found: list[Node]) -> None:
    """Let these nodes see each other, and no others."""
    view = FleetView(
        tuple(FleetMember(f"n{one.place.generation}", one.place.generation, "", 0.0) for one in found)
    )
    for node in found:
        node.place.view = view


def after(delay: float, call: Callable[..., Awaitable[Any]]) -> Any:
    """Return a call that returns so many seconds later."""

    async def later(*given: Any) -> Any:
        result = await call(*given)
        await trio.sleep(delay)
        return result

    return later


async def pending(node: Node) -> tuple[int, int]:
    """Count what is pending, in the database."""
    counts = (await node.store.pending_counts()).values()
    return sum(count for count, _ in counts), sum(size for _, size in counts)


class Log:
    """When how much was accepted, and how much was pending when something was refused first."""

    def __init__(self) -> None:
        self.accepted: list[float] = []
        self.at_refusal: list[tuple[int, int]] = []

    @property
    def second(self) -> int:
        """The most that was accepted in a second."""
        times, begin, most = self.accepted, 0, 0
        for end, time in enumerate(times):
            while times[begin] < time - 1:
                begin += 1
            most = max(most, (end - begin + 1) * BATCH)
        return most


async def fill(node: Node, log: Log, instances: int) -> None:
    """Accept until it is refused."""
    number = 0
    while True:
        number += 1
        try:
            await node.append(instance=f"i{number % instances}")
        except (BacklogFull, ShareFull):
            log.at_refusal.append(await pending(node))
            return
        log.accepted.append(trio.current_time())


@pytest.mark.process
@pytest.mark.parametrize(
    ("limits", "instances", "edge"),
    [
        ({"registration_deliveries": 2000}, 1, 2000),
        ({"registration_bytes": Size(200_000)}, 1, 2000),
        ({"deliveries": 2000 * (SHARE + 1) // SHARE}, 1, 2000),  # what an instance may have
        ({"deliveries": 2000, "instance_reserved_deliveries": 2000}, INSTANCES, 2000),
        ({"bytes": Size(200_000), "instance_reserved_bytes": Size(200_000)}, INSTANCES, 2000),
    ],
)
async def test_a_limit_holds_for_all_nodes_together(
    database: Server, limits: dict[str, Any], instances: int, edge: int
) -> None:
    settings = LimitsSettings(**{**NO_LIMITS, **limits})
    log = Log()
    async with nodes(database, settings) as (found, _):
        async with trio.open_nursery() as nursery:
            for node in found:
                for _ in range(2):
                    nursery.start_soon(fill, node, log, instances)
        stored, size = await pending(found[0])
        assert size == stored * len(DATA)
        room = edge // 20 + log.second
        assert stored <= edge + room
        assert min(log.at_refusal)[0] >= edge - room
        # All of them know it a moment later.
        await until(lambda: all(node.backlog.count == stored for node in found))
        for node in found:
            with pytest.raises((BacklogFull, ShareFull)):
                await node.append(1)
        # What one of them delivers, another one has room for.
        await found[0].deliver(stored - edge + 100)
        await until(lambda: all(node.backlog.count == edge - 100 for node in found))
        await found[1].append()


@pytest.mark.parametrize("delay", [0, 1.5])
async def test_each_node_makes_room_for_what_it_appends_and_no_more(database: Server, delay: float) -> None:
    """What is too much is there once: if all nodes dropped it, little would be left.

    The nodes may hear late of each other, as on a slow server. Then their counts are wrong for seconds.
    """
    edge, batches = 1000, 120
    settings = LimitsSettings(**{**NO_LIMITS, "registration_deliveries": edge, "on_full": "drop_oldest"})
    log, counts = Log(), [0]

    async def flood(node: Node) -> None:
        for _ in range(batches):
            await node.append()
            log.accepted.append(trio.current_time())

    async with nodes(database, settings) as (found, nursery):

        async def watch() -> None:
            while True:
                counts.append((await pending(found[0]))[0])
                # Each node may have dropped for one append that is not stored yet.
                assert counts[-1] >= max(counts) - NODES * BATCH

        nursery.start_soon(watch)
        for node in found:
            node.store.backlogs.exchange = after(delay, node.store.backlogs.exchange)  # type: ignore[method-assign]
        async with trio.open_nursery() as floods:
            for node in found:
                floods.start_soon(flood, node)
        stored, _ = await pending(found[0])
        room = edge // 20 + log.second
        assert stored >= edge - room
        if delay:
            return
        assert stored <= edge + room
        await until(lambda: all(node.backlog.count == stored for node in found))
        for _ in range(1 + max(0, edge - stored) // BATCH):
            await found[2].append()
        await until(lambda: all(node.backlog.count == found[2].backlog.count for node in found))
        assert (await pending(found[0]))[0] == max(stored, edge)
