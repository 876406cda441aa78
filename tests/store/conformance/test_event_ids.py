"""Ids of events outlast the history, within bounds of their own."""

import pytest

from tests.public.records import Instance, new_event_id
from tests.public.store import Append, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    AT,
    LANE,
    Listener,
    delivered,
    event,
    finish,
    ids_of,
    listed,
    pending,
    seqs_of,
    settle,
    to,
)

KEEP = 2**40
LATE = 9e9


async def prune(store: Store) -> int:
    """Remove the whole history, and keep the ids."""
    return await store.enforce_retention(before=LATE, limit=KEEP, ids_before=0)


@pytest.mark.parametrize("step", [1, 2, 200])
async def test_an_id_outlasts_its_history(engine: Engine, store: Store, step: int) -> None:
    engine.set_step(step)
    await finish(store, "e1", "e2", "e3")
    await store.append([Append(event("unheard"), ())])
    assert await prune(store) == 4
    assert await prune(store) == 0
    assert await listed(store) == []
    assert await store.find_delivery("shop", "e1") is None
    assert await store.find_content("shop", "e1") is None
    listener = Listener()
    store.subscribe(listener)
    assert await store.append(to("e1", "unheard", "new", "e3")) == [False, False, True, False]
    assert listener.calls == [("appended", ["new"])]
    assert await ids_of(store) == ["new"]


async def test_ids_outlast_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await finish(store, "e1")
        await prune(store)
    async with engine.open() as store:
        assert await store.append(to("e1", "e2")) == [False, True]


async def test_an_id_that_is_too_old_is_forgotten(store: Store) -> None:
    await finish(store, "e1")
    await prune(store)
    assert await store.append(to("e1")) == [False]
    await store.enforce_retention(before=AT, limit=KEEP, ids_before=LATE)
    assert await store.append(to("e1")) == [True]
    assert await ids_of(store) == ["e1"]


async def test_by_default_ids_go_with_their_history(store: Store) -> None:
    await finish(store, "e1")
    await store.enforce_retention(before=LATE, limit=KEEP)
    assert await store.append(to("e1")) == [True]


async def test_ids_of_the_history_and_the_outbox_are_not_forgotten(store: Store) -> None:
    await finish(store, "finished")
    await store.append(to("waiting"))
    await store.enforce_retention(before=AT, limit=KEEP, ids_before=LATE, ids_limit=0)
    assert await store.append(to("finished", "waiting")) == [False, False]


async def test_ids_over_their_size_lose_their_oldest(engine: Engine, store: Store) -> None:
    engine.set_step(5)
    names = [f"e{number:03}" for number in range(100)]
    await finish(store, *names)
    await prune(store)
    limit = {"before": LATE, "limit": KEEP, "ids_before": 0.0}
    await store.enforce_retention(**limit, ids_limit=5_000)  # type: ignore[arg-type]
    fresh = await store.append(to(*names))
    kept = fresh.count(False)
    assert fresh == [True] * (100 - kept) + [False] * kept
    assert 20 < kept < 90, "5,000 bytes hold some of a hundred ids"


async def test_ids_over_their_size_go_from_those_that_hold_most(engine: Engine, store: Store) -> None:
    engine.set_step(5)
    few, many = [f"f{number:03}" for number in range(10)], [f"e{number:03}" for number in range(100)]
    await finish(store, *few, instance="cafe")
    await finish(store, *many[:50])
    await finish(store, *many[50:])
    await prune(store)
    await store.enforce_retention(before=LATE, limit=KEEP, ids_before=0, ids_limit=5_000)
    assert await store.append(to(*few, instance="cafe")) == [False] * 10
    fresh = await store.append(to(*many))
    kept = fresh.count(False)
    assert fresh == [True] * (100 - kept) + [False] * kept
    assert 10 < kept < 90


async def test_generated_ids_are_not_kept(store: Store) -> None:
    generated = new_event_id(1.0)
    given = ["msg_1", generated[:-1], generated + "0", generated.upper(), generated[:-1] + "-"]
    await finish(store, generated, *given)
    await store.append([Append(event(new_event_id(1.0)), ())])
    assert await prune(store) == 7
    assert await store.append(to(generated, *given)) == [True, *[False] * 5]


async def test_an_id_stays_with_its_event_while_a_delivery_needs_it(store: Store) -> None:
    targets = (("reg_1", LANE), ("reg_2", "reg_2:0"))
    await store.append([Append(event("e1", data='{"n": 1}'), targets)])
    await settle(store, delivered((await seqs_of(store))[0]))
    assert await prune(store) == 1
    [left] = await pending(store, "reg_2:0")
    assert left.event.data == {"n": 1}
    await settle(store, delivered(left.seq))
    assert await prune(store) == 1
    assert await store.append(to("e1")) == [False]


async def test_without_a_history_ids_are_kept_all_the_same(engine: Engine) -> None:
    async with engine.open(keep_history=False) as store:
        generated = new_event_id(1.0)
        await store.append(to("e1", generated))
        await settle(store, *map(delivered, await seqs_of(store)))
        assert await prune(store) == 0
        assert await store.append(to("e1", generated)) == [False, True]


async def test_ids_belong_to_their_instance(store: Store) -> None:
    await store.put_instance(Instance(name="shop", id="0b0c"))
    await finish(store, "e1")
    await prune(store)
    assert await store.append(to("e1", instance="cafe")) == [True]
    await store.remove_instance("shop", retired_as="shop 0b0c")
    assert await store.append(to("e1")) == [True]


async def test_ids_take_nothing_from_the_history(engine: Engine, store: Store) -> None:
    """A thousand long ids use more than the history may; the history stays."""
    engine.set_step(200)
    names = [f"{number:03}" + "x" * 250 for number in range(1000)]
    await finish(store, *names)
    await prune(store)
    await finish(store, "e1", "e2")
    assert await store.enforce_retention(before=AT, limit=300_000, ids_before=0) == 0
    assert await listed(store) == ["e2", "e1"]
    assert (await store.append(to(names[0], "e2"))) == [False, False]
