"""Storage that refuses, waiters that are cancelled, and the end of the store."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from hookgw import Registration
from tests.public.kernel import StorageUnavailable
from tests.public.records import Instance, LaneRule, Ordering
from tests.public.store import ConnectorState, ReplayQuery, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    RULE,
    Listener,
    Watch,
    dead,
    delivered,
    finish,
    ids_of,
    park,
    pending_of,
    refusal_of,
    seqs_of,
    to,
)

HOOK = Registration(id="reg_1", instance="shop", url="http://a.test")
OTHER = Registration(id="reg_2", instance="shop", url="http://b.test")

STATE = ConnectorState(instance="shop", instance_id="x", state_json=b"1")

WRITES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "append": lambda store: store.append(to("e9")),
    "append a state": lambda store: store.append([], state=STATE),
    "park": lambda store: park(store, "reg_1", "off"),
    "drop_oldest": lambda store: store.drop_oldest(RULE, "shop", "full", count=1, size=0),
    "resend": lambda store: store.resend("shop", 1, RULE),
    "reopen": lambda store: store.reopen([1], 0, RULE),
    "replay_step": lambda store: store.replay_step(ReplayQuery(instance="shop"), {"reg_1": RULE}, None),
    "repartition_step": lambda store: store.repartition_step(LaneRule("reg_1", 1, Ordering.URL, 1)),
    "enforce_retention": lambda store: store.enforce_retention(before=9e9, limit=2**40),
    "put_instance": lambda store: store.put_instance(Instance(name="shop", id="x"), HOOK),
    "remove_instance": lambda store: store.remove_instance("shop", retired_as="old"),
    "put_registration": lambda store: store.put_registration(HOOK, due=True),
    "remove_registration": lambda store: store.remove_registration("reg_2"),
    "put_value": lambda store: store.put_value("key", 2),
    "make_due": lambda store: store.make_due("reg_1"),
    "check": lambda store: store.check(),
}


async def fill(store: Store) -> None:
    await finish(store, "e1")
    await store.append(to("e2", "e3"))
    await store.put_value("key", 1)
    await store.put_registration(OTHER)


async def state(store: Store) -> object:
    return (
        await store.pending_lanes(),
        await store.pending_counts(),
        await ids_of(store),
        await store.load_instances(),
        await store.load_registrations(),
        await store.get_value("key"),
        await store.load_state("x"),
        await store.find_delivery("shop", "e1"),
        await pending_of(store),
    )


@pytest.mark.parametrize("write", WRITES)
async def test_a_refused_write_changes_nothing(engine: Engine, write: str) -> None:
    watch, listener = Watch(), Listener()
    async with engine.open(watch) as store:
        await fill(store)
        store.subscribe(listener)
        before = await state(store)
        async with engine.refuse(store):
            for _ in range(2):  # the second one is refused at once
                with pytest.raises(StorageUnavailable, match=engine.place):
                    await WRITES[write](store)
            with pytest.raises(StorageUnavailable):
                store.check_open()
            assert refusal_of(store) is not None
            assert await state(store) == before
        await store.flush()
        store.check_open()
        assert refusal_of(store) is None
        assert listener.calls == []
        assert [text.partition(":")[0] for text in watch.heard] == ["failed", "recovered"]
        await WRITES[write](store)


async def test_settlements_are_kept_while_the_storage_refuses(
    engine: Engine, mock_clock: trio.testing.MockClock
) -> None:
    async with engine.open() as store:
        await fill(store)
        second, third = await seqs_of(store)
        async with trio.open_nursery() as nursery:
            async with engine.refuse(store):
                with pytest.raises(StorageUnavailable):
                    await store.check()
                store.settle_nowait(delivered(second))
                store.settle_nowait(dead(third))
                nursery.start_soon(store.flush)
                await trio.testing.wait_all_tasks_blocked()
                assert nursery.child_tasks, "flush waits however long the storage refuses"
                assert len(await seqs_of(store)) == 2
            mock_clock.jump(60)
        assert await seqs_of(store) == []


@pytest.mark.parametrize(
    "write",
    [
        "append",
        "park",
        "drop_oldest",
        "resend",
        "repartition_step",
        "put_instance",
        "put_registration",
        "put_value",
    ],
)
async def test_a_cancelled_write_is_done_all_the_same(store: Store, write: str) -> None:
    await fill(store)
    before = await state(store)
    with trio.CancelScope() as scope:
        scope.cancel()
        await WRITES[write](store)
    # An append is waited for all the same: its caller must count what is stored.
    assert scope.cancelled_caught is (write != "append")
    await store.flush()
    assert await state(store) != before


async def test_a_cancelled_append_reaches_the_listener(store: Store) -> None:
    listener = Listener()
    store.subscribe(listener)
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.append(to("e1"))
    await store.flush()
    assert listener.calls == [("appended", ["e1"])]


async def test_writes_take_effect_in_the_order_of_the_calls(engine: Engine, store: Store) -> None:
    async with trio.open_nursery() as nursery, engine.hold(store):
        for number in range(5):
            nursery.start_soon(store.put_value, "key", number)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(store.append, to(f"e{number}"))
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(park, store, "reg_1", "off")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(store.append, to("later"))
        await trio.testing.wait_all_tasks_blocked()
    assert await store.get_value("key") == 4
    assert await ids_of(store) == ["later"]


async def test_what_was_queued_is_written_at_the_end(engine: Engine) -> None:
    with trio.CancelScope() as scope:
        async with engine.open() as store:
            await store.append(to("e1", "e2"))
            store.settle_nowait(delivered((await seqs_of(store))[0]))
            scope.cancel()
    async with engine.open() as store:
        assert await ids_of(store) == ["e2"]


async def test_an_error_of_the_block_comes_out_and_nothing_is_lost(engine: Engine) -> None:
    async def fail() -> None:
        async with engine.open() as store:
            await store.append(to("e1"))
            store.settle_nowait(delivered((await seqs_of(store))[0]))
            raise LookupError("of the block")

    with pytest.raises(ExceptionGroup) as caught:
        await fail()
    assert caught.group_contains(LookupError)
    async with engine.open() as store:
        assert await ids_of(store) == []
        assert await store.append(to("e1")) == [False]


async def test_a_closed_store_refuses(engine: Engine) -> None:
    async with engine.open() as store:
        pass
    for refused in (lambda: store.append(to("e1")), store.check, store.flush):
        with pytest.raises(StorageUnavailable, match="stopping"):
            await refused()
    with pytest.raises(StorageUnavailable, match="stopping"):
        store.check_open()
    store.settle_nowait(delivered(1))
