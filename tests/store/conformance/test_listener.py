"""The listener hears of each commit once, in a fixed order, before tasks run that waited for it."""

import pytest
import trio
import trio.testing

from tests.public.records import LaneRule, Ordering
from tests.public.store import Append, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    LANE,
    RULE,
    Listener,
    delivered,
    event,
    failed,
    finish,
    ids_of,
    park,
    replay,
    seqs_of,
    settle,
    to,
)

OTHER = LaneRule("reg_1", 0, Ordering.NONE, 2)
SECOND = LaneRule("reg_2", 0, Ordering.URL, 1)


async def test_the_calls_for_one_commit(engine: Engine, store: Store) -> None:
    """In another order a lane would take an appended delivery for the next one, and skip a requeued one."""
    first, second = await finish(store, "e1", "e2")
    listener = Listener()
    store.subscribe(listener)

    async def resend(seq: int, rule: LaneRule) -> None:
        await store.resend("shop", seq, rule)
        listener.calls.append(("woken", seq))

    async with trio.open_nursery() as nursery, engine.hold(store):
        nursery.start_soon(store.append, to("e3"))
        await trio.testing.wait_all_tasks_blocked()
        # The others gather for the next commit, in this order.
        nursery.start_soon(store.append, to("before"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(resend, first, RULE)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(store.append, to("after"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(resend, second, OTHER)
        await trio.testing.wait_all_tasks_blocked()
    assert listener.calls[0] == ("appended", ["e3"])
    assert listener.calls[1:4] == [
        ("requeued", {LANE: 1, OTHER.lane(event("e2")): 1}),
        ("changed", {("reg_1", "shop"): (2, 4)}),
        ("appended", ["before", "after"]),
    ]
    assert sorted(listener.calls[4:]) == [("woken", first), ("woken", second)]
    assert await ids_of(store) == ["e3", "before", "e1", "after"]


async def test_every_change_is_reported_once(store: Store) -> None:
    listener = Listener()
    store.subscribe(listener)
    await store.append([*to("a", "b", "c"), *to("d", registration="reg_2"), Append(event("unheard"), ())])
    assert listener.take() == [("appended", ["a", "b", "c", "d"])]
    first, second, third = await seqs_of(store)
    [fourth] = await seqs_of(store, "reg_2:0")
    await settle(store, failed(first), delivered(second))
    await settle(store, delivered(second))
    assert listener.take() == [("changed", {("reg_1", "shop"): (-1, -2)})]
    assert await park(store, "reg_1", "off", spared=[third]) == 1
    assert (await store.drop_oldest(SECOND, "shop", "full", count=1, size=0))[0] == 1
    assert listener.take() == [
        ("changed", {("reg_1", "shop"): (-1, -2)}),
        ("changed", {("reg_2", "shop"): (-1, -2)}),
    ]
    assert await store.resend("shop", fourth, SECOND) == "reg_2:0"
    assert listener.take() == [("requeued", {"reg_2:0": 1}), ("changed", {("reg_2", "shop"): (1, 2)})]
    assert await replay(store) == [1]
    assert listener.take() == [("requeued", {LANE: 1}), ("changed", {("reg_1", "shop"): (1, 2)})]
    await store.repartition_step(LaneRule("reg_1", 1, Ordering.URL, 1))
    await store.make_due("reg_1")
    await store.put_value("key", 1)
    assert await store.append(to("a")) == [False]
    assert await park(store, "nobody", "off") == 0
    assert await store.resend("shop", 999, RULE) is None
    assert listener.take() == []
    assert await store.pending_counts() == {("reg_1", "shop"): (2, 4), ("reg_2", "shop"): (1, 2)}


async def test_changes_are_reported_by_the_instance_of_the_event(store: Store) -> None:
    listener = Listener()
    store.subscribe(listener)
    await store.append([*to("a", "b", "c", "d"), *to("a", "b", "c", "d", instance="mall")])
    shop, mall = (await seqs_of(store))[:4], (await seqs_of(store))[4:]
    listener.take()
    await settle(store, delivered(shop[0]), delivered(mall[0]), delivered(mall[1]))
    assert listener.take() == [("changed", {("reg_1", "shop"): (-1, -2), ("reg_1", "mall"): (-2, -4)})]
    assert (await store.drop_oldest(RULE, "mall", "full", count=1, size=0))[0] == 1
    assert listener.take() == [("changed", {("reg_1", "mall"): (-1, -2)})]
    await store.remove_instance("mall", retired_as="mall 1")
    assert await park(store, "reg_1", "off") == 4
    assert listener.take() == [("changed", {("reg_1", "shop"): (-3, -6), ("reg_1", "mall 1"): (-1, -2)})]


async def test_without_a_history_the_end_of_a_delivery_is_reported_too(engine: Engine) -> None:
    async with engine.open(keep_history=False) as store:
        await store.append(to("a"))
        listener = Listener()
        store.subscribe(listener)
        await settle(store, delivered((await seqs_of(store))[0]))
        assert listener.calls == [("changed", {("reg_1", "shop"): (-1, -2)})]


async def test_there_is_one_listener(store: Store) -> None:
    store.subscribe(Listener())
    with pytest.raises(RuntimeError, match="listener already"):
        store.subscribe(Listener())


@pytest.mark.parametrize("method", ["appended", "changed", "requeued"])
async def test_a_listener_that_raises_ends_the_store(
    engine: Engine, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a bug")

    listener = Listener()
    monkeypatch.setattr(listener, method, broken)

    async def run() -> None:
        async with engine.open() as store:
            [seq] = await finish(store, "e0")
            store.subscribe(listener)
            await store.append(to("e1"))
            await store.resend("shop", seq, RULE)
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await run()
    assert caught.group_contains(RuntimeError, match="a bug")
