"""Re-partitioning: pending deliveries move to the lanes of another rule, in order."""

import itertools

import pytest

from hookgw import Event
from tests.public.records import LaneRule, Ordering, registration_of
from tests.public.store import Append, Store
from tests.store.conformance.engines import Engine
from tests.store.support import RULE, event, failed, ids_of, pending, seqs_of, settle, to

RULES = [
    LaneRule("reg_1", 0, Ordering.URL, 1),
    LaneRule("reg_1", 0, Ordering.INSTANCE, 4),
    LaneRule("reg_1", 0, Ordering.CHAT, 3),
    LaneRule("reg_1", 0, Ordering.CHAT, 1),
    LaneRule("reg_1", 0, Ordering.NONE, 4),
]


def events(count: int = 24) -> list[Event]:
    """Return events of three instances with five chats."""
    return [
        event(
            f"e{number}",
            instance=f"shop{number % 3}",
            data=f'{{"key": {{"remoteJid": "{number % 5}"}}, "text": "{"x" * (number % 7)}"}}',
        )
        for number in range(count)
    ]


def next_generation(rule: LaneRule, generation: int = 1) -> LaneRule:
    return LaneRule(rule.registration, generation, rule.ordering, rule.concurrency)


async def fill(store: Store, rule: LaneRule, batch: list[Event]) -> None:
    await store.append([Append(one, (("reg_1", rule.lane(one)),)) for one in batch])
    await store.append(to("other", registration="reg_2"))


async def check_lanes(store: Store, rule: LaneRule, batch: list[Event]) -> None:
    """Check that each lane has its events, in the order in which they were appended."""
    found = {
        lane.lane: await ids_of(store, lane.lane)
        for lane in await store.pending_lanes()
        if registration_of(lane.lane) == "reg_1"
    }
    expected: dict[str, list[str]] = {}
    for one in batch:
        expected.setdefault(rule.lane(one), []).append(one.id)
    assert found == expected
    assert await ids_of(store, "reg_2:0") == ["other"]


@pytest.mark.parametrize("step", [5, 2500])
@pytest.mark.parametrize(("old", "new"), list(itertools.product(RULES, RULES)))
async def test_from_each_ordering_to_each(
    engine: Engine, store: Store, old: LaneRule, new: LaneRule, step: int
) -> None:
    engine.set_step(step)
    batch = events()
    await fill(store, old, batch)
    before = {d.seq: d for lane in await store.pending_lanes() for d in await pending(store, lane.lane)}
    steps = 1
    while await store.repartition_step(next_generation(new)):
        steps += 1
    assert steps == (1 if step > 24 else 5)
    await check_lanes(store, next_generation(new), batch)
    for lane in await store.pending_lanes():
        for delivery in await pending(store, lane.lane):
            was = before[delivery.seq]
            assert (delivery.position, delivery.event) == (was.position, was.event)
    assert await store.pending_counts() == {
        **{
            ("reg_1", name): (8, sum(len(one.data_json) for one in batch if one.instance == name))
            for name in ("shop0", "shop1", "shop2")
        },
        ("reg_2", "shop"): (1, 2),
    }


@pytest.mark.parametrize("change_after", [1, 2, 3])
async def test_a_further_change_in_the_middle(engine: Engine, store: Store, change_after: int) -> None:
    engine.set_step(6)
    batch = events()
    await fill(store, RULES[2], batch)
    for _ in range(change_after):
        await store.repartition_step(next_generation(RULES[4], 1))
    while await store.repartition_step(next_generation(RULES[2], 2)):
        pass
    await check_lanes(store, next_generation(RULES[2], 2), batch)
    for chat in map(str, range(5)):
        [lane] = {next_generation(RULES[2], 2).lane(one) for one in batch if one.chats == (chat,)}
        order = [name for name in await ids_of(store, lane) if event_of(batch, name).chats == (chat,)]
        assert order == [one.id for one in batch if one.chats == (chat,)]


def event_of(batch: list[Event], name: str) -> Event:
    return next(one for one in batch if one.id == name)


async def test_a_restart_after_each_step(engine: Engine) -> None:
    engine.set_step(5)
    batch, rule = events(), next_generation(RULES[2])
    async with engine.open() as store:
        await fill(store, RULES[0], batch)
    more = True
    while more:
        async with engine.open() as store:
            more = await store.repartition_step(rule)
    async with engine.open() as store:
        await check_lanes(store, rule, batch)


async def test_lanes_of_the_present_generation_are_left_alone(store: Store) -> None:
    batch = events()
    await store.append([Append(one, (("reg_1", RULES[2].lane(one)),)) for one in batch])
    lanes = await store.pending_lanes()
    assert await store.repartition_step(RULES[2]) is False
    assert await store.pending_lanes() == lanes


@pytest.mark.parametrize("step", [5, 2500])
async def test_lanes_of_the_former_rule_about_chats(engine: Engine, store: Store, step: int) -> None:
    """As an earlier version left them: of the same generation."""
    engine.set_step(step)
    batch = events()
    for number, one in enumerate(batch):
        await store.append([Append(one, (("reg_1", f"reg_1:0:{number % 3}"),))])
    await store.append(to("other", registration="reg_2"))
    while await store.repartition_step(RULES[2]):
        pass
    await check_lanes(store, RULES[2], batch)


async def test_lanes_of_earlier_and_later_generations(store: Store) -> None:
    batch = events(6)
    for number, one in enumerate(batch):
        await store.append([Append(one, (("reg_1", f"reg_1:{number - 2}:{number}"),))])
    rule = LaneRule("reg_1", 1, Ordering.URL, 1)
    while await store.repartition_step(rule):
        pass
    assert await ids_of(store, "reg_1:1") == ["e0", "e1", "e2", "e4", "e5"]
    assert await ids_of(store, "reg_1:1:3") == ["e3"]


async def test_a_step_of_chats_reads_a_bounded_size_of_payload(engine: Engine, store: Store) -> None:
    batch = [event(f"e{number}", data='"' + "x" * size + '"') for number, size in enumerate([2, 2, 2, 90, 2])]
    await fill(store, RULE, batch)
    engine.set_step(2500, payload=8)
    rule = next_generation(RULES[2])
    rest = []
    while await store.repartition_step(rule):
        rest.append(await ids_of(store))
    assert rest == [["e2", "e3", "e4"], ["e3", "e4"], ["e4"]]
    await check_lanes(store, rule, batch)


async def test_moved_deliveries_keep_body_attempts_and_wait(store: Store) -> None:
    await store.append(to("e1"))
    [seq] = await seqs_of(store)
    await settle(store, failed(seq))
    [before] = await pending(store)
    assert await store.repartition_step(next_generation(RULE)) is False
    [after] = await pending(store, "reg_1:1")
    before.lane = "reg_1:1"
    assert after == before


async def test_nothing_to_move(store: Store) -> None:
    assert await store.repartition_step(RULE) is False
