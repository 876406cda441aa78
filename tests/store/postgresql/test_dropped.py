"""A delivery that another node drops to make room, while it is in flight on this one."""

from psycopg import Connection

from hookgw import DeliveryState
from tests.public.concurrency import Clock
from tests.public.postgresql import PostgresqlStore, Server, open_store
from tests.public.records import FIRST, FigureCounts, Holder
from tests.public.store import DROPPED_AS_OLDEST, DeliveryQuery
from tests.store.support import LANE, RULE, dead, delivered, failed, park, to

DAY = 86400


async def states(store: PostgresqlStore) -> dict[str, tuple[DeliveryState, int, str | None]]:
    found = await store.list_deliveries(DeliveryQuery(instance="shop"))
    return {one.event_id: (one.state, one.attempts, one.reason) for one in found.deliveries}


async def test_what_has_arrived_although_it_was_dropped_is_delivered(
    database: Server, connection: Connection
) -> None:
    reason = f"{DROPPED_AS_OLDEST}the backlog had reached a limit."
    async with open_store(database, clock=Clock()) as owner, open_store(database, clock=Clock()) as other:
        await owner.append(to("e1", "e2", "e3", "e4"))
        first, second, third, fourth = (await owner.read_lane(LANE, FIRST, 10)).deliveries
        assert (await other.drop_oldest(RULE, "shop", reason, count=3, size=0, spared=[]))[0] == 3
        before = await owner.pending_counts()
        # Twice, with another that is pending, as a commit may have it.
        for settlement in (delivered(first.seq), delivered(first.seq, 2), delivered(fourth.seq)):
            owner.settle_nowait(settlement)
        owner.settle_nowait(failed(second.seq))
        owner.settle_nowait(dead(third.seq))
        await owner.flush()
        found = await states(owner)
        assert found["e1"] == (DeliveryState.DELIVERED, 2, None)
        assert found["e2"] == found["e3"] == (DeliveryState.DEAD, 0, reason)
        assert found["e4"][0] is DeliveryState.DELIVERED
        kept = connection.execute("SELECT delivery, number FROM attempts ORDER BY delivery, number")
        assert kept.fetchall() == [(first.seq, 2), (fourth.seq, 1)]
        # It was counted as gone when it was dropped.
        assert list(before.values()) == [(1, 2)]
        assert await owner.pending_counts() == {}
        owner.settle_nowait(delivered(second.seq))
        await owner.flush()
        assert (await states(owner))["e2"] == (DeliveryState.DELIVERED, 1, None)
        # Figures over time count them as delivered, and no longer as dead.
        assert await owner.fold_figures({})
        total = FigureCounts()
        for counts in (await owner.read_figures([Holder("webhook", "reg_1")], DAY, 0, 2**33)).values():
            total.add(counts)
        assert (total.accepted, total.delivered, total.dead) == (4, 3, 1)


async def test_what_was_parked_stays_a_dead_letter(database: Server) -> None:
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("e1"))
        [first] = (await store.read_lane(LANE, FIRST, 10)).deliveries
        await park(store, "reg_1", "The registration was deleted.")
        store.settle_nowait(delivered(first.seq))
        await store.flush()
        assert (await states(store))["e1"] == (DeliveryState.DEAD, 0, "The registration was deleted.")
