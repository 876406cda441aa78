"""Backfills: deliveries are made from the log, in a place that the call has kept free."""

from typing import Any

import msgspec
import pytest

from hookgw import Conflict, Invalid
from tests.public.records import FIRST, BackfillScope, Condition, FilterOp, Job, JobKind, LaneRule, Ordering
from tests.public.store import Append, BackfillQuery, JobStep, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    AT,
    LANE,
    RULE,
    Listener,
    dead,
    delivered,
    event,
    finish,
    ids_of,
    pending,
    pending_of,
    report,
    seqs_of,
    settle,
    to,
)
from tests.support.stores import index_log

NAMES = [f"e{number}" for number in range(7)]
MANY = 10_000


def job(**more: Any) -> Job:
    scope = BackfillScope(registration="reg_1", label="default", **more)
    return Job(id="job_1", kind=JobKind.BACKFILL, instance="shop", started=AT, backfill=scope)


def asked(**more: Any) -> BackfillQuery:
    return BackfillQuery(**{"instance": "shop", "registration": "reg_1"} | more)


async def elsewhere(store: Store, *names: str, **more: Any) -> None:
    """Append events that another registration gets, and the log therefore has."""
    await store.append(to(*names, registration="reg_2", **more))


async def step(
    store: Store,
    running: Job,
    query: BackfillQuery | None = None,
    *,
    rule: LaneRule = RULE,
    count: int = MANY,
    size: int = 2**40,
) -> tuple[JobStep, Job]:
    made = await store.backfill_step(query or asked(), rule, running, count=count, size=size)
    return made, running.advanced(made.count, made.cursor)


async def backfill(store: Store, running: Job, query: BackfillQuery | None = None, **more: Any) -> list[int]:
    """Carry a backfill out to its end; return the count of each step."""
    counts = []
    while True:
        made, running = await step(store, running, query, **more)
        counts.append(made.count)
        if made.cursor is None:
            return counts


async def test_missed_events_lie_between_what_was_pending_and_what_comes_later(store: Store) -> None:
    await elsewhere(store, "e1", "e2")
    await store.append(to("before"))
    running = await store.begin_backfill(job())
    await store.append(to("after"))
    assert sum(await backfill(store, running)) == 2
    assert await ids_of(store) == ["before", "e1", "e2", "after"]
    barrier = store.backfill_barrier(running)
    page = await store.read_lane(LANE, FIRST, 10, before=barrier)
    assert [one.event.id for one in page.deliveries] == ["before", "e1", "e2"]
    assert not page.more


async def test_a_lane_reads_no_further_than_the_barrier(store: Store) -> None:
    await elsewhere(store, "e1")
    await store.append(to("before"))
    running = await store.begin_backfill(job())
    await store.append(to("after"))
    barrier = store.backfill_barrier(running)
    [first], more, _ = await store.read_lane(LANE, FIRST, 1, before=barrier)
    assert (first.event.id, more) == ("before", False)
    assert await store.read_lane(LANE, first.position, 10, before=barrier) == ([], False, 0)
    assert await store.read_lane(LANE, first.position, 10, 0, before=barrier) == ([], False, 0)
    await backfill(store, running)
    [second] = (await store.read_lane(LANE, first.position, 10, before=barrier)).deliveries
    assert second.event.id == "e1"
    assert first.position < second.position < barrier


async def test_each_step_is_read_behind_the_one_before(engine: Engine, store: Store) -> None:
    engine.set_step(2)
    await elsewhere(store, *NAMES)
    running = await store.begin_backfill(job())
    await store.append(to("after"))
    barrier, last, found = store.backfill_barrier(running), FIRST, []
    cursor: str | None = ""
    while cursor is not None:
        made, running = await step(store, running)
        cursor = made.cursor
        page = await store.read_lane(LANE, last, 10, before=barrier)
        found += [one.event.id for one in page.deliveries]
        if page.deliveries:
            last = page.deliveries[-1].position
    assert found == NAMES


async def test_listeners_hear_of_it_as_of_what_is_sent_again(store: Store) -> None:
    listener = Listener()
    store.subscribe(listener)
    await elsewhere(store, "e1", "e2", data='{"a":1}')
    running = await store.begin_backfill(job())
    listener.take()
    await backfill(store, running)
    await store.flush()
    assert listener.take() == [("requeued", {LANE: 2}), ("changed", {("reg_1", "shop"): (2, 14)})]
    assert await store.count_pending(LANE) == 2
    assert await pending_of(store) == 4


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "e1 e2 e3"),
        ({"kinds": ("CONNECTION_UPDATE",)}, "e3"),
        ({"kinds": ("NONE",)}, ""),
        ({"instance": "other"}, "foreign"),
        ({"instance": "nobody"}, ""),
        ({"filters": ((Condition("/data/a", FilterOp.EQUALS, 1),),)}, "e1"),
        ({"filters": ((), (Condition("/event", FilterOp.PREFIX, "MESSAGES"),))}, "e1 e2"),
        (
            {
                "filters": (
                    (Condition("/data/a", FilterOp.EXISTS),),
                    (Condition("/data/a", FilterOp.EQUALS, 2),),
                )
            },
            "e2",
        ),
        ({"since": 2e9}, ""),
        ({"until": 1e9}, ""),
        ({"since": 1e9, "until": 2e10}, "e1 e2 e3"),
    ],
)
async def test_what_was_missed(store: Store, query: dict[str, Any], expected: str) -> None:
    await elsewhere(store, "e1", data='{"a":1}')
    await elsewhere(store, "e2", data='{"a":2}')
    await elsewhere(store, "e3", kind="CONNECTION_UPDATE")
    await elsewhere(store, "foreign", instance="other")
    await store.append(to("own"))
    names = expected.split()
    found = await store.find_missed(asked(**query), None)
    assert (found.count, found.cursor) == (len(names), None)
    assert [found.first and found.first.id, found.last and found.last.id] == (
        [names[0], names[-1]] if names else [None, None]
    )
    assert found.first is None or found.first.time == AT
    running = await store.begin_backfill(job())
    assert sum(await backfill(store, running, asked(**query))) == len(names)
    assert await ids_of(store) == ["own", *names]


async def test_what_the_registration_has_in_any_state_is_not_missed(store: Store) -> None:
    await store.append(to("delivered", "dead", "pending"))
    first, second, _ = await seqs_of(store)
    await settle(store, delivered(first), dead(second))
    assert (await store.find_missed(asked(), None)).count == 0
    assert await backfill(store, await store.begin_backfill(job())) == [0]
    assert await ids_of(store) == ["pending"]


async def test_dead_letters_are_merged_in_the_original_order(store: Store) -> None:
    [letter] = await finish(store, "e1")
    await elsewhere(store, "e2")
    await finish(store, "e3")
    query = asked(dead=True)
    assert (await store.find_missed(query, None)).count == 3
    running = await store.begin_backfill(job())
    # What dies since the call is not of it.
    await finish(store, "later")
    assert sum(await backfill(store, running, query)) == 3
    assert await ids_of(store) == ["e1", "e2", "e3"]
    again = (await pending(store))[0]
    assert (again.seq, again.attempts, again.failures, again.body) == (letter, 1, 0, b"body")


async def test_a_step_that_is_repeated_makes_nothing_twice(engine: Engine) -> None:
    engine.set_step(2)
    async with engine.open() as store:
        await elsewhere(store, *NAMES)
        running = await store.begin_backfill(job())
        made, after_it = await step(store, running)
        assert made.count == 2
        # A kill came between the commit and the answer.
        assert (await store.load_jobs())["job_1"] == after_it
        again, _ = await step(store, running)
        assert (again, await ids_of(store)) == (made, NAMES[:2])
    async with engine.open() as store:
        running = (await store.load_jobs())["job_1"]
        await store.append(to("after"))
        assert sum(await backfill(store, running)) == 5
        assert await ids_of(store) == [*NAMES, "after"]
        assert (await store.load_jobs())["job_1"].state == "done"


async def test_places_are_not_given_twice_across_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await elsewhere(store, *NAMES)
        running = await store.begin_backfill(job())
    async with engine.open() as store:
        await store.append(to("after"))
        await backfill(store, running)
        assert await ids_of(store) == [*NAMES, "after"]


async def test_the_log_ends_at_the_call(store: Store) -> None:
    await elsewhere(store, "e1")
    running = await store.begin_backfill(job())
    await elsewhere(store, "later")
    assert sum(await backfill(store, running)) == 1
    assert await ids_of(store) == ["e1"]


@pytest.mark.parametrize(
    ("count", "size", "counts"), [(3, 2**40, [3, 3, 1]), (9, 4, [2, 2, 2, 1]), (9, 1, [1] * 7)]
)
async def test_a_step_has_no_more_than_there_is_room_for(
    store: Store, count: int, size: int, counts: list[int]
) -> None:
    await elsewhere(store, *NAMES)
    running = await store.begin_backfill(job())
    found = await backfill(store, running, count=count, size=size)
    assert [one for one in found if one] == counts
    assert await ids_of(store) == NAMES


@pytest.mark.parametrize("rows", [1, 2, 3])
async def test_a_step_looks_at_few_events_and_the_next_one_goes_on(
    engine: Engine, store: Store, rows: int
) -> None:
    engine.shorten_searches(rows)
    await store.append(to(*NAMES))
    await elsewhere(store, "late")
    total, cursor = 0, None
    while True:
        part = await store.find_missed(asked(), cursor)
        total, cursor = total + part.count, part.cursor
        if cursor is None:
            break
    assert total == 1
    running = await store.begin_backfill(job())
    assert sum(await backfill(store, running)) == 1


@pytest.mark.parametrize("ordering", [Ordering.NONE, Ordering.CHAT, Ordering.INSTANCE])
async def test_deliveries_go_to_their_partitions(store: Store, ordering: Ordering) -> None:
    spread = LaneRule("reg_1", 0, ordering, 3)
    events = [event(f"e{number}", data=f'{{"remoteJid": "{number % 5}"}}') for number in range(9)]
    await store.append([Append(one, (("reg_2", "reg_2:0"),)) for one in events])
    await backfill(store, await store.begin_backfill(job()), rule=spread)
    lanes = [spread.lane(one) for one in events]
    for lane in set(lanes):
        expected = [one.id for one, its in zip(events, lanes, strict=True) if its == lane]
        assert await ids_of(store, lane) == expected


async def test_a_former_rule_does_not_bring_back_lanes_that_were_re_partitioned(store: Store) -> None:
    await elsewhere(store, "e1", "e2")
    moved = LaneRule("reg_1", 1, Ordering.URL, 1)
    running = await store.begin_backfill(job())
    _, running = await step(store, running, count=1)
    while await store.repartition_step(moved):
        pass
    assert sum(await backfill(store, running, rule=moved)) == 1
    assert await ids_of(store, "reg_1:1") == ["e1", "e2"]


async def test_what_is_parked_before_the_call_is_not_what_it_makes(store: Store) -> None:
    await elsewhere(store, "e1")
    await store.append(to("own"))
    cursor = await store.park_cursor()
    running = await store.begin_backfill(job())
    await backfill(store, running)
    await store.park_step("reg_1", "off", cursor)
    assert await ids_of(store) == ["e1"]


async def test_erased_events_are_left_out(store: Store) -> None:
    await elsewhere(store, "e1", data='{"who":"5511"}')
    await elsewhere(store, "e2")
    running = await store.begin_backfill(job())
    concerned = await store.find_concerned("shop", "5511", await store.cancel_cursor())
    await store.erase(concerned.events, "5511")
    assert sum(await backfill(store, running)) == 1
    assert await ids_of(store) == ["e2"]


async def test_an_event_stays_for_as_long_as_the_delivery_is_pending(store: Store) -> None:
    await elsewhere(store, "e1", data='{"a":1}')
    await backfill(store, await store.begin_backfill(job()))
    await settle(store, dead((await seqs_of(store, "reg_2:0"))[0]))
    await store.enforce_retention(before=AT + 1, limit=2**40)
    [left] = await pending(store)
    assert left.event.data_json == b'{"a":1}'
    found = await report(store)
    assert found.summary.registration == "reg_1"


async def test_events_with_and_without_entries_in_the_log(store: Store) -> None:
    await elsewhere(store, *NAMES[:3])
    await store.append(to("own"))
    await index_log(store)
    await elsewhere(store, *NAMES[3:5], instance="other")
    await elsewhere(store, *NAMES[5:])
    found = await store.find_missed(asked(), None)
    assert (found.count, found.first and found.first.id, found.last and found.last.id) == (5, "e0", "e6")
    assert (await store.find_missed(asked(until=1e9), None)).count == 0
    assert (await store.find_missed(asked(since=2e10), None)).count == 0
    running = await store.begin_backfill(job())
    assert await backfill(store, running, count=2) == [2, 2, 1]
    assert await ids_of(store) == ["own", *NAMES[:3], *NAMES[5:]]


async def test_what_was_pruned_is_not_missed(store: Store) -> None:
    both = (("reg_1", LANE), ("reg_2", "reg_2:0"))
    await store.append([Append(event("e1"), both)])
    await settle(store, delivered((await seqs_of(store))[0]))
    assert await store.enforce_retention(before=AT + 1, limit=2**40) == 1
    assert (await store.find_missed(asked(), None)).count == 0
    assert await backfill(store, await store.begin_backfill(job())) == [0]
    assert (await store.find_missed(asked(registration="reg_3"), None)).count == 0
    assert await ids_of(store, "reg_2:0") == ["e1"]


async def test_events_that_nobody_wanted_are_in_the_log(store: Store) -> None:
    await store.append([Append(event("e1"), ())])
    await backfill(store, await store.begin_backfill(job()))
    assert await ids_of(store) == ["e1"]
    await store.enforce_retention(before=AT * 2, limit=2**40)
    assert await ids_of(store) == ["e1"]


async def test_the_times_of_a_delivery(store: Store) -> None:
    await elsewhere(store, "e1")
    [source] = await pending(store, "reg_2:0")
    await backfill(store, await store.begin_backfill(job()))
    [made] = await pending(store)
    assert made.accepted_at == source.accepted_at
    assert made.queued_at > made.accepted_at  # max_age counts from the backfill
    assert (made.attempts, made.body, made.event) == (0, None, source.event)


async def test_a_barrier_of_another_storage(store: Store) -> None:
    await elsewhere(store, "e1")
    running = job(barrier="elsewhere.1.2.0")
    with pytest.raises(Conflict, match="copied or restored"):
        store.backfill_barrier(running)
    with pytest.raises(Conflict, match="copied or restored"):
        await step(store, running)
    assert await ids_of(store) == []


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1-2", "1.2"])
async def test_an_unreadable_cursor(store: Store, cursor: str) -> None:
    with pytest.raises(Invalid, match="cursor"):
        await store.find_missed(asked(), cursor)
    running = msgspec.structs.replace(await store.begin_backfill(job()), cursor=cursor)
    with pytest.raises(Invalid, match="cursor"):
        await step(store, running)
