"""Figures over time: exact counts, sums over nodes and time, percentiles, and what they may take."""

import time

import pytest
import trio
from msgspec.structs import replace

from hookgw import Outcome, Registration
from tests.public.concurrency import Clock
from tests.public.records import GATEWAY, HOOKGW, AuditEntry, FigureCounts, Holder, Instance, Settlement
from tests.public.store import ReplayQuery, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    Watch,
    attempt,
    dead,
    delivered,
    dropped,
    failed,
    park,
    replay,
    seqs_of,
    to,
)
from tests.store.support import settle as settle_as_given

HOUR, DAY = 3600, 86400
NOW = time.time()
SHOP, HOOK = Holder("instance", "shop"), Holder("webhook", "reg_1")
TAG = Holder("tag", "tenant=acme")
TAGS = {"shop": ["tenant=acme"]}


async def sums(store: Store, *holders: Holder, tags: dict[str, list[str]] | None = None) -> FigureCounts:
    """Fold, and return what holders had in all."""
    assert await store.fold_figures(TAGS if tags is None else tags)
    total = FigureCounts()
    day = int(NOW) - int(NOW) % DAY
    for counts in (await store.read_figures(holders, DAY, day, day + 2 * DAY)).values():
        total.add(counts)
    return total


async def settle(store: Store, *settlements: Settlement) -> None:
    await settle_as_given(store, *(replace(one, at=Clock().steady()) for one in settlements))


def counts_of(counts: FigureCounts) -> tuple[int, int, int, int]:
    return counts.accepted, counts.delivered, counts.dead, counts.dropped


async def test_whatever_happens_is_counted_once(store: Store) -> None:
    await store.append(to("e1", "e2", "e3", "e4"))
    await store.append(to("e1", "e5"))  # the first one is a duplicate
    one, two, three, four, five = await seqs_of(store)
    await settle(store, delivered(one), failed(two), failed(two, 2), dropped(three), dead(four))
    await settle(store, delivered(one), delivered(four))  # they are final
    assert await park(store, "reg_1", "disabled") == 2
    for holder in (GATEWAY, SHOP, HOOK, TAG):
        counts = await sums(store, holder)
        assert (holder, counts_of(counts)) == (holder, (5, 1, 3, 1))
        assert counts.figures().failed == {"422": 1, "500": 2}
        assert sum(counts.receiver.values()) == 4
        assert sum(counts.whole.values()) == 1
    assert five


async def test_a_second_fold_adds_to_the_first_one(engine: Engine) -> None:
    async with engine.open() as store:
        await store.append(to("e1", "e2"))
        first, second = await seqs_of(store)
        await settle(store, delivered(first))
        assert counts_of(await sums(store, HOOK)) == (2, 1, 0, 0)
        await settle(store, delivered(second))
    async with engine.open() as store:
        assert counts_of(await sums(store, HOOK)) == (2, 2, 0, 0)
        assert await replay(store, ReplayQuery(instance="shop", state="all")) == [2]
        await settle(store, *map(delivered, await seqs_of(store)))
        assert counts_of(await sums(store, HOOK)) == (2, 4, 0, 0)


async def test_an_outcome_without_a_response_has_a_word(store: Store) -> None:
    await store.append(to("e1", "e2"))
    seqs = await seqs_of(store)
    made_of = (
        attempt(1, Outcome.UNREACHABLE, status=None, duration=0.01),
        attempt(1, Outcome.UNANSWERED, status=None, duration=30.0),
    )
    settled = [replace(failed(seq), attempt=made) for seq, made in zip(seqs, made_of, strict=True)]
    await settle(store, *settled)
    shown = (await sums(store, HOOK)).figures()
    assert shown.failed == {"unanswered": 1, "unreachable": 1}
    assert shown.receiver is not None
    assert abs(shown.receiver.p50 / 30 - 1) < 0.05


async def test_no_history_is_needed(engine: Engine) -> None:
    async with engine.open(keep_history=False, keep_unwanted=False) as store:
        await store.append(to("e1", "e2"))
        await settle(store, *map(delivered, await seqs_of(store)))
        assert counts_of(await sums(store, GATEWAY)) == (2, 2, 0, 0)


async def test_webhooks_of_all_instances_are_not_the_instances(store: Store) -> None:
    await store.append(to("e1", registration="global_1", lane="global_1:0"))
    await settle(store, *map(delivered, await seqs_of(store, "global_1:0")))
    assert counts_of(await sums(store, GATEWAY)) == (1, 1, 0, 0)
    assert counts_of(await sums(store, Holder("webhook", "global_1"))) == (1, 1, 0, 0)
    assert counts_of(await sums(store, SHOP)) == (1, 0, 0, 0)


async def test_the_deleted_have_no_figures(store: Store) -> None:
    first = Registration(id="reg_1", instance="shop", url="https://receiver.test/")
    await store.put_instance(Instance(name="shop", id="0b0c"), first)
    await store.append(to("e1"))
    await settle(store, *map(delivered, await seqs_of(store)))
    assert counts_of(await sums(store, SHOP, HOOK)) == (2, 2, 0, 0)
    await store.remove_registration("reg_1")
    assert counts_of(await sums(store, SHOP, HOOK)) == (1, 1, 0, 0)
    await store.remove_instance("shop", retired_as="shop 0b0c")
    assert counts_of(await sums(store, SHOP, HOOK)) == (0, 0, 0, 0)
    await store.append(to("e2"))  # another instance of that name
    assert counts_of(await sums(store, SHOP)) == (1, 0, 0, 0)
    assert counts_of(await sums(store, GATEWAY)) == (2, 1, 0, 0)


async def test_what_was_not_yet_folded_when_an_instance_went_is_nobodys(store: Store) -> None:
    await store.put_instance(Instance(name="shop", id="0b0c"))
    await store.append(to("e1", "e2"))
    first, second = await seqs_of(store)
    await settle(store, delivered(first))
    assert counts_of(await sums(store, SHOP)) == (2, 1, 0, 0)  # the engine has its name in memory
    await settle(store, delivered(second))
    await store.remove_instance("shop", retired_as="shop 0b0c", registrations=["reg_1"])
    retired = Holder("instance", "shop 0b0c")
    assert counts_of(await sums(store, SHOP, HOOK, retired)) == (0, 0, 0, 0)
    assert counts_of(await sums(store, GATEWAY)) == (2, 2, 0, 0)


async def test_a_call_that_failed_is_not_counted(store: Store) -> None:
    await store.append(to("e1", "e2"))
    first, second = await seqs_of(store)
    unstorable = AuditEntry(at=NOW, action="delivery.cancel", actor=HOOKGW, instance="\udcff")

    async def expect_failure() -> None:
        with pytest.raises(ValueError, match="surrogates"):
            await store.cancel_one(first, "unwanted", audit=[unstorable])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_failure)
        nursery.start_soon(store.cancel_one, second, "unwanted")
    assert await seqs_of(store) == [first]
    assert counts_of(await sums(store, HOOK)) == (2, 0, 1, 0)


async def test_minutes_become_hours_and_hours_go(store: Store) -> None:
    began = int(time.time())
    await store.append(to("e1", "e2"))
    seqs = await seqs_of(store)
    await settle(store, *map(delivered, seqs))
    before = await sums(store, GATEWAY, HOOK)
    await store.prune_figures(now=NOW + 2 * DAY, limit=2**30)
    assert await sums(store, GATEWAY, HOOK) == before
    ended = int(time.time())
    hours = {began - began % HOUR, ended - ended % HOUR}
    fine = await store.read_figures([HOOK], 300, min(hours) - DAY, min(hours) + 2 * DAY)
    assert fine
    assert fine.keys() <= hours
    await store.prune_figures(now=NOW + 40 * DAY, limit=2**30)
    assert await sums(store, GATEWAY, HOOK) == FigureCounts()


async def test_they_stay_within_their_limit(engine: Engine) -> None:
    async with engine.open() as store:
        await store.append(to("e1"))
        await settle(store, *map(failed, await seqs_of(store)))
        assert await store.fold_figures({})
        for _ in range(2):  # the second time nothing was written since
            await store.prune_figures(now=NOW + 60, limit=100)
        assert counts_of(await sums(store, GATEWAY)) == (1, 0, 0, 0)  # too young to go
        await store.prune_figures(now=NOW + 5 * HOUR, limit=100)
    async with engine.open() as store:
        await store.prune_figures(now=NOW + 5 * HOUR, limit=100)
        assert counts_of(await sums(store, GATEWAY)) == (0, 0, 0, 0)


async def test_a_page_of_webhooks_is_one_query(store: Store) -> None:
    for number in range(3):
        lane = f"reg_{number}:0"
        await store.append(to(*(f"e{number}-{n}" for n in range(number)), registration=f"reg_{number}"))
        for place, seq in enumerate(await seqs_of(store, lane)):
            await settle(store, dead(seq) if place else delivered(seq))
    assert await store.fold_figures({})
    since = int(NOW) - int(NOW) % HOUR
    found = await store.sum_figures(["reg_0", "reg_1", "reg_2", "reg_3"], since, since + 2 * HOUR, 1800)
    added = {name: tuple(map(sum, zip(*parts.values(), strict=True))) for name, parts in found.items()}
    assert added == {"reg_0": (), "reg_1": (1, 0), "reg_2": (1, 1), "reg_3": ()}
    assert {part for parts in found.values() for part in parts} <= {0, 1, 2}


async def test_the_oldest_pending_deliveries(store: Store) -> None:
    assert await store.oldest_pending(["reg_1"]) == {}
    await store.append(to("e1"))
    await store.append(to("e2", registration="reg_2"))
    await store.append(to("e3", lane="reg_1:1"))
    found = await store.oldest_pending(["reg_2", "reg_1", "reg_3"])
    assert list(found) in (["reg_1", "reg_2"], ["reg_2", "reg_1"])
    assert found["reg_1"] < found["reg_2"]
    assert await store.oldest_pending(["reg_2"]) == {"reg_2": found["reg_2"]}


async def test_a_step_keeps_the_greatest_age_of_the_oldest_pending(store: Store, engine: Engine) -> None:
    engine.set_step(2)  # these are more than one commit
    hour = int(NOW) - int(NOW) % HOUR
    await store.append(to("e1"))
    holders = (GATEWAY, TAG, SHOP, HOOK)
    for second, age in ((10, 5.0), (20, 90.25), (310, 7.0), (320, 0.0)):
        assert await store.fold_figures({}, dict.fromkeys(holders, age), hour + second)
    before = {hour: 90_250, hour + 300: 7_000}
    for holder in holders:
        found = await store.read_figures([holder], 300, hour, hour + 600)
        assert {at: counts.oldest for at, counts in found.items() if counts.oldest} == before, holder
    # Nothing else is in these rows, and where nothing was pending there is none.
    assert counts_of(await sums(store, SHOP)) == (1, 0, 0, 0)
    await store.prune_figures(now=NOW + 2 * DAY, limit=2**30)
    for holder in holders:
        found = await store.read_figures([holder], 300, hour - HOUR, hour + HOUR)
        assert found[hour].oldest == 90_250
    assert (await sums(store, *holders)).figures().oldest_pending == 90.25
    assert await store.fold_figures({}, {HOOK: 0.0}, hour + 2 * DAY)
    found = await store.read_figures([HOOK], 300, hour + 2 * DAY, hour + 2 * DAY + 300)
    assert [counts.oldest for counts in found.values()] == [1]  # it is young, but pending


async def test_the_age_of_an_instance_that_is_gone_stops_no_fold(store: Store) -> None:
    nobody = Holder("instance", "gone")
    assert await store.fold_figures({}, {nobody: 5.0}, NOW)
    assert await store.fold_figures({}, {nobody: 5.0, GATEWAY: 5.0}, NOW)
    assert (await sums(store, GATEWAY)).oldest == 5_000


@pytest.mark.parametrize("bound", ["rows", "bytes"])
async def test_a_fold_of_many_commits(engine: Engine, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bound == "rows":
        engine.set_step(2)
    else:
        monkeypatch.setattr("hookgw.store.figures.FOLD_BYTES", 60)
    watch = Watch()
    async with engine.open(watch) as store:
        for number in range(7):
            await store.append(to(f"e{number}"))
        before = watch.commits
        assert counts_of(await sums(store, HOOK)) == (7, 0, 0, 0)
        # Others write in between.
        assert 4 <= watch.commits - before <= 8
