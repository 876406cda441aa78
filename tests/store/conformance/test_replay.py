"""Replays: many finished deliveries become pending again, step by step."""

from typing import Any, Literal

import pytest

from hookgw import DeliveryState, Invalid
from tests.public.records import Job, JobKind, LaneRule, Ordering
from tests.public.store import Append, ReplayQuery, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    LANE,
    RULE,
    dead,
    delivered,
    dropped,
    event,
    finish,
    ids_of,
    listed,
    replay,
    seqs_of,
    settle,
    to,
)

QUERY = ReplayQuery(instance="shop")
RULES = {"reg_1": RULE}
NAMES = [f"e{number}" for number in range(7)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "e2 e4"),
        ({"state": "all"}, "e1 e2 e3 e4"),
        ({"kinds": ("CONNECTION_UPDATE",)}, "e4"),
        ({"kinds": ("CONNECTION_UPDATE", "MESSAGES_UPSERT", "NONE")}, "e2 e4"),
        ({"kinds": ("NONE",)}, ""),
        ({"instance": "nobody"}, ""),
        ({"instance": "other"}, "foreign"),
    ],
)
async def test_what_is_replayed(store: Store, query: dict[str, Any], expected: str) -> None:
    await store.append(to("e1", "e2", "e3"))
    await store.append(to("e4", kind="CONNECTION_UPDATE"))
    await store.append(to("foreign", instance="other"))
    await store.append(to("later"))
    one, two, three, four, foreign, _ = await seqs_of(store)
    await settle(store, delivered(one), dead(two), dropped(three), dead(four), dead(foreign))
    asked = ReplayQuery(**{"instance": "shop"} | query)
    assert await replay(store, asked) == [len(expected.split())]
    assert await ids_of(store) == ["later", *expected.split()]


async def test_since_and_until_bound_the_time_of_acceptance(store: Store) -> None:
    for name in ("e1", "e2", "e3"):
        await finish(store, name)
    found = [await store.find_delivery("shop", name) for name in ("e2", "e3")]
    second, third = (one.summary.accepted_at for one in found if one)
    assert await replay(store, ReplayQuery(instance="shop", since=second, until=third)) == [1]
    assert await ids_of(store) == ["e2"]


async def test_all_steps_together_keep_the_original_order(engine: Engine, store: Store) -> None:
    engine.set_step(2)
    seqs = await finish(store, *NAMES)
    await store.resend("shop", seqs[0], RULE)
    await settle(store, dead(seqs[0]))  # it was last in the lane, and is first in the original order
    assert await replay(store) == [2, 2, 2, 1]
    assert await ids_of(store) == NAMES
    assert await replay(store) == [0]


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("state", ["dead", "all"])
async def test_a_step_looks_at_few_deliveries_and_the_next_one_goes_on(
    engine: Engine, store: Store, rows: int, state: Literal["dead", "all"]
) -> None:
    engine.shorten_searches(rows)
    await finish(store, *NAMES)
    await store.append(to("late", kind="CONNECTION_UPDATE"))
    await settle(store, dead((await seqs_of(store))[0]))
    query = ReplayQuery(instance="shop", state=state, kinds=("CONNECTION_UPDATE",))
    first = await store.replay_step(query, RULES, None)
    assert (first.count, first.cursor is None) == (0, False)
    count, cursor = 0, first.cursor
    while cursor is not None:
        step = await store.replay_step(query, RULES, cursor)
        count, cursor = count + step.count, step.cursor
    assert count == 1
    assert await ids_of(store) == ["late"]
    assert await store.append(to("other")) == [True]
    everything = ReplayQuery(instance="shop", state=state)
    assert sum(await replay(store, everything)) == len(NAMES)


async def test_the_first_step_fixes_the_newest_delivery(engine: Engine, store: Store) -> None:
    engine.set_step(2)
    await finish(store, *NAMES[:4])
    first = await store.replay_step(QUERY, RULES, None)
    await finish(store, "new", registration="reg_1", lane="reg_1:0:9")
    await settle(store, dead((await seqs_of(store))[0]))  # finished again: not replayed twice
    assert first.cursor is not None
    second = await store.replay_step(QUERY, RULES, first.cursor)
    assert (first.count, second.count) == (2, 2)
    if second.cursor is not None:  # an engine may find only with the next step that it was the last one
        assert (await store.replay_step(QUERY, RULES, second.cursor)).count == 0
    assert await ids_of(store) == ["e1", "e2", "e3"]


async def test_a_replay_continues_after_a_restart(engine: Engine) -> None:
    engine.set_step(3)
    async with engine.open() as store:
        await finish(store, *NAMES)
        step = await store.replay_step(QUERY, RULES, None)
        assert (await ids_of(store), step.count) == (NAMES[:3], 3)
    async with engine.open() as store:
        while step.cursor is not None:
            step = await store.replay_step(QUERY, RULES, step.cursor)
        assert await ids_of(store) == NAMES
        await store.append(to("new"))
        assert await ids_of(store) == [*NAMES, "new"]


async def test_the_rules_of_each_step_decide(engine: Engine, store: Store) -> None:
    engine.set_step(1)
    await finish(store, "e1", "e2", "e3")
    moved = LaneRule("reg_1", 1, Ordering.URL, 1)
    first = await store.replay_step(QUERY, RULES, None)
    second = await store.replay_step(QUERY, {"reg_1": moved}, first.cursor)
    third = await store.replay_step(QUERY, {}, second.cursor)
    assert [step.count for step in (first, second, third)] == [1, 1, 0]
    assert third.cursor is None
    assert (await ids_of(store), await ids_of(store, "reg_1:1")) == (["e1"], ["e2"])


async def test_a_former_rule_does_not_bring_back_lanes_that_were_re_partitioned(store: Store) -> None:
    """A step that began with the rule of before ends behind the last step of the re-partition."""
    await finish(store, "e1")
    assert await store.repartition_step(LaneRule("reg_1", 1, Ordering.URL, 1)) is False
    assert await replay(store, reg_1=RULE) == [1]
    assert await ids_of(store, "reg_1:1") == ["e1"]


@pytest.mark.parametrize("ordering", [Ordering.NONE, Ordering.CHAT, Ordering.INSTANCE])
async def test_deliveries_go_to_their_partitions(store: Store, ordering: Ordering) -> None:
    spread = LaneRule("reg_1", 0, ordering, 3)
    events = [event(f"e{number}", data=f'{{"remoteJid": "{number % 5}"}}') for number in range(9)]
    await store.append([Append(one, (("reg_1", LANE),)) for one in events])
    await settle(store, *map(dead, await seqs_of(store)))
    await finish(store, "other", registration="reg_2")
    await finish(store, "deleted", registration="reg_3")
    assert await replay(store, reg_1=spread, reg_2=LaneRule("reg_2", 4, Ordering.URL, 1)) == [10]
    lanes = [spread.lane(one) for one in events]
    for lane in set(lanes):
        assert await ids_of(store, lane) == [
            one.id for one, its in zip(events, lanes, strict=True) if its == lane
        ]
    assert await ids_of(store, "reg_2:4") == ["other"]
    assert await listed(store, state=DeliveryState.DEAD) == ["deleted"]


async def test_what_was_settled_just_before_is_replayed(store: Store) -> None:
    await store.append(to("e1"))
    store.settle_nowait(dead((await seqs_of(store))[0]))
    assert await replay(store) == [1]


async def test_a_replay_of_nothing(store: Store) -> None:
    step = await store.replay_step(QUERY, RULES, None)
    assert (step.count, step.cursor) == (0, None)


@pytest.mark.parametrize("cursor", ["", "x", "1", "1-", "-1", "a-b"])
async def test_an_unreadable_cursor(store: Store, cursor: str) -> None:
    with pytest.raises(Invalid, match="cursor"):
        await store.replay_step(QUERY, RULES, cursor)


@pytest.mark.parametrize(
    ("count", "size", "counts"),
    [
        (2, 2**40, [2, 2, 1]),
        (5, 2**40, [5, 0]),
        (9, 4, [2, 2, 1]),
        (9, 5, [2, 2, 1]),
        # One delivery at least.
        (9, 1, [1, 1, 1, 1, 1]),
    ],
)
async def test_a_step_has_no_more_than_there_is_room_for(
    store: Store, count: int, size: int, counts: list[int]
) -> None:
    names = [f"e{number}" for number in range(5)]
    await finish(store, *names)
    found, cursor = [], None
    while True:
        step = await store.replay_step(
            ReplayQuery(instance="shop"), {"reg_1": RULE}, cursor, count=count, size=size
        )
        found.append(step.count)
        cursor = step.cursor
        if cursor is None:
            break
    assert found == counts
    assert await ids_of(store) == names


async def test_a_first_step_without_room_fixes_what_takes_part(store: Store) -> None:
    await finish(store, "e1", "e2")
    query, rules = ReplayQuery(instance="shop"), {"reg_1": RULE}
    step = await store.replay_step(query, rules, None, count=0)
    assert step.count == 0
    assert step.cursor is not None
    await finish(store, "later")
    step = await store.replay_step(query, rules, step.cursor)
    assert (step.count, step.cursor) == (2, None)
    assert await ids_of(store) == ["e1", "e2"]


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_single_step_ends_the_record_of_a_stored_job(store: Store, is_stored: bool) -> None:
    """Otherwise the next start would send everything again."""
    await finish(store, "e1")
    job = Job(id="job_1", kind=JobKind.REPLAY, instance="shop", started=1.0)
    if is_stored:
        await store.put_job(job)
    step = await store.replay_step(QUERY, RULES, None, job=job, is_stored=is_stored)
    assert (step.count, step.cursor) == (1, None)
    stored = (await store.load_jobs()).get("job_1")
    assert (stored is not None) is is_stored
    assert stored is None or (stored.is_running, stored.done) == (False, 1)


async def test_a_single_step_that_finds_nothing_writes_nothing(store: Store) -> None:
    """A job over all instances has thousands of these. Its worker stores its end."""
    job = Job(id="job_1", kind=JobKind.REPLAY, instance="shop", started=1.0)
    await store.put_job(job)
    step = await store.replay_step(QUERY, RULES, None, job=job, is_stored=True)
    assert (step.count, step.cursor) == (0, None)
    assert (await store.load_jobs())["job_1"] == job


async def test_what_was_delivered_is_pending_again_where_it_was(store: Store) -> None:
    """A receiver that goes back has it in the original order, before what has been pending all the time."""
    await store.append(to("e1", "e2", "e3", "e4", "e5"))
    one, two, three, four, _ = await seqs_of(store)
    places = {d.seq: d.position for d in (await store.read_lane(LANE, 0, 10)).deliveries}
    await settle(store, delivered(one), delivered(two), dead(three), delivered(four))
    assert await store.reopen([one, two, three, four], places[one], RULE) == 2
    assert await ids_of(store) == ["e2", "e4", "e5"]
    found = (await store.read_lane(LANE, 0, 10)).deliveries
    assert [(d.seq, d.position, d.attempts) for d in found[:2]] == [
        (two, places[two], 1),
        (four, places[four], 1),
    ]
    assert await store.reopen([one, two, three, four], places[one], RULE) == 0
    other = LaneRule("reg_2", 0, Ordering.URL, 1)
    assert await store.reopen([one], 0, other) == 0
    moved = LaneRule("reg_1", 1, Ordering.URL, 1)
    assert await store.reopen([one], 0, moved) == 1
    assert await store.count_pending("reg_1:1") == 1
