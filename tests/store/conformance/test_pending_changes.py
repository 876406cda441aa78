"""Parking, dropping the oldest, resending."""

from functools import partial

import pytest
import trio

from hookgw import DeliveryState
from tests.public.kernel import StorageUnavailable
from tests.public.lanes import retry_until_readable
from tests.public.records import Job, JobKind, LaneRule, Ordering
from tests.public.store import Append, CancelQuery, DeliveryQuery, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    LANE,
    RULE,
    Watch,
    dead,
    event,
    failed,
    finish,
    ids_of,
    listed,
    park,
    pending,
    pending_of,
    report,
    seqs_of,
    settle,
    to,
)

LANES = [f"reg_1:0:{number}" for number in range(3)]


@pytest.fixture(params=[1, 2, 2500], ids=lambda size: f"steps of {size}")
def step(request: pytest.FixtureRequest, engine: Engine) -> int:
    """Change how many deliveries a step handles."""
    size: int = request.param
    engine.set_step(size)
    return size


async def fill(store: Store) -> None:
    """Append nine events to three lanes in turn, with payloads of 3, 4, 5 … bytes; and two for another."""
    for number in range(9):
        payload = event(f"e{number}", data=f'"{"x" * (number + 1)}"')
        await store.append([Append(payload, (("reg_1", LANES[number % 3]),))])
    await store.append(to("other1", "other2", registration="reg_2"))


async def left(store: Store) -> list[str]:
    """Return what is pending for the registration."""
    return sorted([name for lane in LANES for name in await ids_of(store, lane)])


# Parking


async def test_parking_makes_dead_letters_in_all_lanes(store: Store, step: int) -> None:
    await fill(store)
    [first, *_] = await seqs_of(store, LANES[0])
    await settle(store, dead(first, reason="before"))
    assert await park(store, "reg_1", "The registration was deleted.") == 8
    assert await left(store) == []
    assert await ids_of(store, "reg_2:0") == ["other1", "other2"]
    page = await store.list_deliveries(DeliveryQuery(instance="shop", state=DeliveryState.DEAD))
    assert [(letter.event_id, letter.reason) for letter in page.deliveries] == [
        *((f"e{number}", "The registration was deleted.") for number in range(8, 0, -1)),
        ("e0", "before"),
    ]
    assert all(letter.finished_at for letter in page.deliveries)
    assert await pending_of(store) == 2
    assert await park(store, "reg_1", "again") == 0


async def test_parking_spares_deliveries_in_flight(store: Store, step: int) -> None:
    await fill(store)
    spared = [delivery.seq for lane in LANES[:2] for delivery in (await pending(store, lane))[:1]]
    assert await park(store, "reg_1", "off", spared=spared) == 7
    assert await left(store) == ["e0", "e1"]


async def test_others_write_between_the_steps_of_parking(engine: Engine) -> None:
    engine.set_step(1)
    watch = Watch()
    async with engine.open(watch) as store:
        await store.append(to(*map(str, range(20))))
        before = watch.commits
        async with trio.open_nursery() as nursery:
            nursery.start_soon(park, store, "reg_1", "off")
            await store.append(to("meanwhile", registration="reg_2"))
            at_append = watch.commits - before
        assert at_append < 20 <= watch.commits - before
        assert await ids_of(store) == []


async def test_interrupted_parking_leaves_the_later_ones_pending(engine: Engine, store: Store) -> None:
    engine.set_step(1)
    await store.append(to(*map(str, range(20))))
    with trio.CancelScope() as scope:
        scope.cancel()
        await park(store, "reg_1", "off")
    await store.flush()
    rest = await ids_of(store)
    assert rest == [str(number) for number in range(20 - len(rest), 20)] != []


# Dropping the oldest


@pytest.mark.parametrize(
    ("count", "size", "dropped"),
    [
        (1, 0, 1),
        (4, 0, 4),
        (9, 0, 9),
        (100, 0, 9),
        (0, 1, 1),
        (0, 3, 1),
        (0, 4, 2),
        (0, 7, 2),
        (0, 8, 3),
        (3, 1, 3),
        (0, 0, 0),
    ],
)
async def test_the_oldest_over_all_lanes_are_dropped_until_there_are_enough(
    store: Store, count: int, size: int, dropped: int
) -> None:
    await fill(store)
    assert (await store.drop_oldest(RULE, "shop", "full", count=count, size=size))[0] == dropped
    assert await left(store) == [f"e{number}" for number in range(dropped, 9)]
    assert await store.count_pending("reg_2:0") == 2


async def test_dropping_spares_deliveries_in_flight(store: Store) -> None:
    await fill(store)
    spared = [(await seqs_of(store, lane))[0] for lane in (LANES[0], LANES[2])]  # e0 and e2
    assert (await store.drop_oldest(RULE, "shop", "full", count=2, size=0, spared=spared))[0] == 2
    assert await left(store) == ["e0", "e2", *(f"e{number}" for number in range(4, 9))]


async def test_dropped_deliveries_are_dead_letters_with_the_reason(store: Store) -> None:
    await fill(store)
    await store.drop_oldest(RULE, "shop", "The backlog is full.", count=1, size=0)
    found = await report(store, "e0")
    assert (found.summary.state, found.summary.reason) == (DeliveryState.DEAD, "The backlog is full.")
    assert found.summary.finished_at is not None


async def test_dropping_is_bounded(engine: Engine, store: Store) -> None:
    engine.set_step(4)
    await fill(store)
    assert (await store.drop_oldest(RULE, "shop", "full", count=9, size=0))[0] == 4
    assert await left(store) == ["e4", "e5", "e6", "e7", "e8"]


async def test_lanes_of_very_different_age_and_length(store: Store) -> None:
    names = [f"{number:03}" for number in range(150)]
    for number in range(0, 150, 3):
        await store.append(to(*names[number : number + 2], lane=LANES[0]))
        await store.append(to(names[number + 2], lane=LANES[1 + (number > 75)]))
    assert (await store.drop_oldest(RULE, "shop", "full", count=101, size=0))[0] == 101
    assert await left(store) == names[101:]


@pytest.mark.parametrize("ordering", [Ordering.URL, Ordering.INSTANCE, Ordering.CHAT])
async def test_only_deliveries_of_the_instance_are_dropped(store: Store, ordering: Ordering) -> None:
    rule = LaneRule("reg_1", 0, ordering, 3)
    # Instances may have the names of partitions.
    for number in range(12):
        one = event(f"e{number:02}", instance=f"{number % 3}", data=f'{{"remoteJid": "{number % 4}"}}')
        await store.append([Append(one, (("reg_1", rule.lane(one)),))])
    assert (await store.drop_oldest(rule, "1", "full", count=2, size=0))[0] == 2
    assert (await store.drop_oldest(rule, "9", "full", count=2, size=0))[0] == 0
    found = [one.event.id for lane in await store.pending_lanes() for one in await pending(store, lane.lane)]
    assert sorted(found) == [f"e{number:02}" for number in range(12) if number not in (1, 4)]
    assert (await store.drop_oldest(rule, "1", "full", count=9, size=0))[0] == 2


# Resending


async def test_a_resent_delivery_is_last_in_its_lane_and_starts_anew(store: Store) -> None:
    await store.append(to("e1", "e2"))
    first, _ = await seqs_of(store)
    await settle(store, failed(first, body=b"fixed"))
    await settle(store, dead(first, number=2, reason="off"))
    assert await store.resend("shop", first, RULE) == LANE
    await store.append(to("e3"))
    second, again, third = await pending(store)
    assert [d.event.id for d in (second, again, third)] == ["e2", "e1", "e3"]
    assert second.position < again.position < third.position
    assert (again.seq, again.attempts, again.failures, again.next_at) == (first, 2, 0, 0.0)
    assert again.body == b"body"
    assert again.accepted_at < again.queued_at
    found = await report(store)
    assert (found.summary.state, found.summary.reason) == (DeliveryState.PENDING, None)
    assert found.summary.finished_at is None
    assert [attempt.number for attempt in found.attempts] == [1, 2]
    assert await pending_of(store) == 3


@pytest.mark.parametrize(
    "rule",
    [
        LaneRule("reg_1", 3, Ordering.URL, 1),
        LaneRule("reg_1", 0, Ordering.INSTANCE, 4),
        LaneRule("reg_1", 0, Ordering.CHAT, 1),
        LaneRule("reg_1", 0, Ordering.CHAT, 1000),
        LaneRule("reg_1", 0, Ordering.NONE, 1000),
    ],
)
async def test_a_resent_delivery_goes_to_its_lane_of_today(store: Store, rule: LaneRule) -> None:
    data = '{"key": {"remoteJid": "ann"}}'
    lane = rule.lane(event("e1", data=data))
    [seq] = await finish(store, "e1", data=data, lane="reg_1:0:7")
    assert await store.resend("shop", seq, rule) == lane
    assert await ids_of(store, lane) == ["e1"]


async def test_what_cannot_be_resent(store: Store) -> None:
    [seq] = await finish(store, "e1")
    await store.append(to("e2"))
    [waiting] = await seqs_of(store)
    assert await store.resend("other", seq, RULE) is None
    assert await store.resend("shop", seq + 1_000, RULE) is None
    assert await store.resend("shop", waiting, RULE) is None
    assert await store.resend("shop", seq, RULE) == LANE
    assert await store.resend("shop", seq, RULE) is None
    assert await seqs_of(store) == [waiting, seq]
    assert await listed(store, state=DeliveryState.PENDING) == ["e2", "e1"]


async def test_positions_of_resent_deliveries_outlast_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        [seq] = await finish(store, "e1")
        for _ in range(3):
            await store.resend("shop", seq, RULE)
            await settle(store, dead(seq))
        await store.resend("shop", seq, RULE)
    async with engine.open() as store:
        await store.append(to("e2"))
        assert await ids_of(store) == ["e1", "e2"]


# The cursors of jobs


@pytest.mark.parametrize("is_used", [False, True], ids=["the first ever", "later"])
async def test_the_cursor_of_a_stored_job_outlasts_a_restart(engine: Engine, is_used: bool) -> None:
    """Found by seeds 30579 and 32817 of the simulator.

    Numbers of duplicates and of refused appends are in no row. After a restart they were given again, and a
    job that was resumed parked, cancelled or erased what had been accepted after it was requested.
    """
    async with engine.open() as store:
        if is_used:
            await store.append(to("e1"))
            assert await store.append(to("e1", "e1", "e1")) == [False] * 3
        else:
            async with engine.refuse(store):
                with pytest.raises(StorageUnavailable):
                    await store.append(to("e1", "e2", "e3"))
        # Until the storage works again.
        parking, cancelling = [
            await retry_until_readable(make, lambda _: None)
            for make in (store.park_cursor, store.cancel_cursor)
        ]
        job = Job(id="job_1", kind=JobKind.CANCEL, instance="shop", started=1.0, cursor=cancelling)
        await retry_until_readable(partial(store.put_job, job), lambda _: None)
    async with engine.open() as store:
        await store.append(to("later", data='"ana"'))
        assert (await store.find_concerned("shop", "ana", cancelling)).events == []
        await store.cancel_step(
            CancelQuery(instance="shop", registrations=("reg_1",)), "a reason", cancelling
        )
        assert "later" in await ids_of(store)
        await store.park_step("reg_1", "a reason", parking)
        assert await ids_of(store) == ["later"]
