"""Rates of tags: all lanes of a tenant keep one of them, on a clock that jumps as soon as everybody waits."""

from itertools import pairwise

import pytest
import trio

from tests.dispatch.fakes import LANE, OTHER_LANE, World, registration
from tests.public.kernel import PULL_URL, parse_rate
from tests.public.lanes import TagRates
from tests.public.records import Ordering

ACME = {"tenant": "acme"}
INSTANCE = "shop"


def rates(tags: dict[str, dict[str, str]], text: str = "20/s") -> TagRates:
    found = TagRates({"tenant": parse_rate(text)})
    for instance, given in tags.items():
        found.changed(instance, given)
    return found


@pytest.mark.usefixtures("autojump_clock")
async def test_the_attempts_of_all_lanes_of_a_tenant_keep_its_rate() -> None:
    world = World(registration(), schedule=[0.0] * 50)
    world.tag_rates = rates({INSTANCE: ACME})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(42))
        await trio.sleep(60)
    times = world.sender.times
    assert times[:2] == [0, 0]
    assert [round(b - a, 3) for a, b in pairwise(times[1:])] == [0.05] * 40


@pytest.mark.usefixtures("autojump_clock")
async def test_the_slower_one_of_two_rates_decides() -> None:
    for own, of_tenant in (("20/s", "10/s"), ("10/s", "20/s")):
        world = World(registration(rate=parse_rate(own)), schedule=[0.0] * 50)
        world.tag_rates = rates({INSTANCE: ACME}, of_tenant)
        async with world.dispatcher() as dispatcher:
            dispatcher.dispatch(world.outbox.add(22))
            await trio.sleep(60)
        begin = world.sender.times[0]
        assert len(world.sender.times) == 22
        assert world.sender.times[-1] - begin == pytest.approx(2.1, abs=0.11)


@pytest.mark.usefixtures("autojump_clock")
async def test_an_instance_that_loses_its_tag_waits_no_longer() -> None:
    world = World(registration(), schedule=[0.0] * 50)
    world.tag_rates = rates({INSTANCE: ACME}, "1/h")
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(3))
        await trio.sleep(60)
        assert len(world.sender.times) == 1
        assert world.tag_rates.changed(INSTANCE, {})
        dispatcher.rate_changed("reg_1")
        await trio.sleep(1)
    assert world.sender.times[1:] == [60, 60]


@pytest.mark.usefixtures("autojump_clock")
async def test_what_paused_lanes_leave_of_a_rate_is_for_those_behind_them() -> None:
    first = registration(ordering=Ordering.CHAT, concurrency=8)
    world = World(first, registration("reg_2", ordering=Ordering.CHAT, concurrency=3), schedule=[0.0] * 50)
    world.tag_rates = rates({INSTANCE: ACME}, "6/m")
    behind = [f"reg_2:0:{number}" for number in range(3)]
    async with world.dispatcher() as dispatcher:
        for lane in [f"reg_1:0:{number}" for number in range(8)] + behind:
            dispatcher.dispatch(world.outbox.add(1, lane=lane))
            await trio.sleep(0.1)
        began = world.sender.requests[0].at
        waiting = {lane.lane: lane.waiting_until for lane in dispatcher.lanes("reg_2")}
        assert waiting == dict(zip(behind, (began + 80, began + 90, began + 100), strict=True))
        await trio.sleep(14)
        with dispatcher.paused("reg_1"):
            await trio.sleep(1)
            waiting = {lane.lane: lane.waiting_until for lane in dispatcher.lanes("reg_2")}
            assert waiting == dict(zip(behind, (began + 20, began + 30, began + 40), strict=True))
            await trio.sleep(40)
        await trio.sleep(100)
    assert [request.lane for request in world.sender.requests[2:5]] == behind
    assert world.sender.times[:5] == [0, 10, 20, 30, 40]
    assert len(world.sender.times) == 11


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("is_written", [True, False])
async def test_a_lane_whose_head_is_yet_to_be_written_moves_up_too(is_written: bool) -> None:
    world = World(schedule=[0.0] * 50)
    world.tag_rates = rates({INSTANCE: ACME}, "1/m")
    async with world.dispatcher() as dispatcher:
        for number in range(3):
            dispatcher.dispatch(world.outbox.add(1, lane=f"reg_1:0:{number}"))
        await trio.sleep(1)
        world.outbox.may_flush = trio.Event()
        dispatcher.dispatch(world.outbox.add(1, lane=OTHER_LANE))
        await trio.sleep(1)
        with dispatcher.paused("reg_1"):
            await trio.sleep(1)
            if is_written:
                world.outbox.may_flush.set()
            await trio.sleep(100)
        world.outbox.may_flush.set()
    assert [(one.lane, one.at - world.sender.requests[0].at) for one in world.sender.requests[1:2]] == [
        (OTHER_LANE, 60)
    ]


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize(("before", "after", "interval"), [(1, 4, 40), (4, 1, 10)])
async def test_lanes_in_line_use_each_token_of_a_rate_that_is_divided_anew(
    before: int, after: int, interval: float
) -> None:
    world = World(registration(ordering=Ordering.CHAT, concurrency=20))
    world.tag_rates = rates({INSTANCE: ACME}, "6/m")
    world.tag_rates.divide(before)
    async with world.dispatcher() as dispatcher:
        for number in range(20):
            dispatcher.dispatch(world.outbox.add(1, lane=f"reg_1:0:{number}"))
        await trio.sleep(1)
        world.tag_rates.divide(after)
        await trio.sleep(1000)
    # Those that wake up for a token that is gone come before the others, one after the other.
    steps = [round(b - a, 3) for a, b in pairwise(world.sender.times)]
    assert steps[1:] == [interval] * 18


@pytest.mark.usefixtures("autojump_clock")
async def test_two_rates_that_many_lanes_wait_for_are_both_used() -> None:
    own = registration(ordering=Ordering.CHAT, concurrency=16, rate=parse_rate("3/s"))
    world = World(own, registration("reg_2", ordering=Ordering.CHAT, concurrency=4))
    world.tag_rates = rates({INSTANCE: ACME}, "4/s")
    world.sender.takes = 0.2
    async with world.dispatcher() as dispatcher:
        for lane in [f"reg_1:0:{number}" for number in range(16)] + [f"reg_2:0:{n}" for n in range(4)]:
            dispatcher.dispatch(world.outbox.add(100, lane=lane))
        await trio.sleep(200)
    # A token of one rate is lost where the other one is not open; a lane that has waited for both goes next.
    assert len(world.sender.times) > 0.7 * 800


@pytest.mark.usefixtures("autojump_clock")
async def test_a_fetch_gets_no_more_than_the_rate_allows() -> None:
    world = World(registration(url=PULL_URL))
    world.tag_rates = rates({INSTANCE: ACME}, "20/m")
    world.outbox.add(5)
    async with world.dispatcher([(LANE, 5)]) as dispatcher:
        await trio.testing.wait_all_tasks_blocked()
        [lane] = dispatcher.pulled("reg_1")
        lease = await lane.take("a", most=100, size=10**6, length=60.0)
        assert lease is not None
        assert len(lease.leased) == 2  # a tenth at once
        lane.settle(lease.leased)
        assert await lane.take("a", most=100, size=10**6, length=60.0) is None
        await trio.sleep(3)
        lease = await lane.take("a", most=100, size=10**6, length=60.0)
        assert lease is not None
        assert len(lease.leased) == 1


def test_instances_of_a_value_have_one_limit_and_others_another() -> None:
    found = rates({"a1": ACME, "a2": ACME, "b1": {"tenant": "bolt"}, "none": {"plan": "gold"}})
    assert found.of("a1") == found.of("a2") != found.of("b1")
    assert found.of("none") == found.of("unknown") == ()
    assert not found.changed("a1", ACME | {"plan": "x"})
    assert found.changed("a1", {"tenant": "bolt"})
    assert found.of("a1") == found.of("b1")


def test_a_value_that_nobody_has_any_more_is_forgotten() -> None:
    found = rates({"a1": ACME})
    former = found.of("a1")
    found.changed("a1", ACME)  # no change
    assert found.of("a1") == former
    found.changed("a1", {})
    found.changed("a1", ACME)
    assert found.of("a1") != former


def test_each_node_of_a_fleet_holds_its_part() -> None:
    found = rates({"a1": ACME})
    (limit,) = found.of("a1")
    found.divide(4)
    taken = sum(limit.take(step / 1000) for step in range(10_000))
    assert 50 <= taken <= 51  # 5/s within 10 s
    found.changed("b1", {"tenant": "bolt"})  # also one that comes later
    (later,) = found.of("b1")
    assert sum(later.take(step / 1000) for step in range(10_000)) == taken
    found.divide(1)
    assert 200 <= sum(limit.take(10 + step / 1000) for step in range(10_000)) <= 202
