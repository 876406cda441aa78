"""The history in the data file: what its rows take, and in which order they are removed."""

import threading
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from hookgw.store import searches
from hookgw.store.sqlite import event_ids, history
from tests.public.records import FIRST
from tests.public.sqlite import LIST_CONNECTIONS, Transaction
from tests.public.store import PRUNE_STEP, Append, DeliveryQuery, Oldest, Store
from tests.store.sqlite.support import opened, peek
from tests.store.support import AT, LANE, RULE, dead, delivered, event, ids_of, seqs_of, settle, to
from tests.support.stores import background_of, commits_of


async def prune(store: Store, before: float, limit: int = PRUNE_STEP) -> int:
    def step(transaction: Transaction) -> int:
        return history.prune(transaction, before, 0, limit).amount

    return await commits_of(store).call(step)


async def history_bytes(store: Store) -> int:
    reader = background_of(store)
    used, needed = await reader.run(history.used_bytes), await reader.run(history.needed_bytes)
    return int(used - needed)


@pytest.mark.parametrize(("keep_unwanted", "size"), [(True, 15), (False, 0)])
async def test_the_payload_of_an_event_that_nobody_wants(path: Path, keep_unwanted: bool, size: int) -> None:
    async with opened(path, keep_unwanted=keep_unwanted) as store:
        await store.append([Append(event("e1", data='{"large": true}'), ())])
    assert peek(path, "SELECT length(data) FROM events") == [(size,)]


async def test_nothing_of_a_removed_delivery_stays(path: Path, store: Store) -> None:
    await store.append([*to("e1", "e2"), Append(event("e3"), ())])
    await settle(store, *map(dead, await seqs_of(store)))
    await store.enforce_retention(before=9e9, limit=2**40)
    for table in ("events", "deliveries", "attempts", "bodies"):
        assert peek(path, f"SELECT count(*) FROM {table}") == [(0,)]


async def test_what_is_oldest_goes_first_with_or_without_deliveries(path: Path, store: Store) -> None:
    await store.append(to("e1", "e2", "e3"))
    await settle(store, *map(delivered, await seqs_of(store)))
    await store.append([Append(event("unheard"), ())])
    assert [await prune(store, 9e9, 1) for _ in range(3)] == [1, 1, 1]
    heard = "SELECT heard < 0 FROM events WHERE id = 'unheard'"
    assert peek(path, heard) == [(0,)]
    assert await prune(store, 9e9, 1) == 1
    assert peek(path, heard) == [(1,)]


@pytest.mark.parametrize("size", [20, 500, 2_100, 3_000, 10_000])
async def test_the_estimated_size_of_the_history_is_what_removal_returns(path: Path, size: int) -> None:
    async with opened(path) as store:
        text = '"' + "x" * size + '"'
        batch = [Append(event(f"e{n}", data=text), (("reg_1", LANE),)) for n in range(1_000)]
        empty = await history_bytes(store)
        await store.append(batch)
        waiting = await history_bytes(store)
        assert abs(waiting - empty) < 100_000 + 100 * size, "the outbox is no history"
        await settle(store, *map(delivered, await seqs_of(store)))
        finished = await history_bytes(store)
        assert finished > 1_000 * (size + 200)
        await store.enforce_retention(before=AT + 1, limit=2**40)
        assert await history_bytes(store) - empty < 0.1 * finished


@pytest.mark.parametrize("length", [10, 36, 60, 200])
async def test_the_estimated_size_of_ids_is_what_they_take(path: Path, length: int) -> None:
    random = Random(length)
    async with opened(path) as store:
        empty = await history_bytes(store)
        names = ["".join(random.choices("abcdefgh", k=length)) for _ in range(4_000)]
        for start in range(0, len(names), 500):
            await store.append(to(*names[start : start + 500], data='"' + "x" * 500 + '"'))
            await settle(store, *map(delivered, await seqs_of(store)))
        await store.enforce_retention(before=9e9, limit=2**40, ids_before=0)
        taken = await history_bytes(store) - empty
        estimated = await background_of(store).run(event_ids.remembered_bytes)
        assert 0.8 * taken < estimated < 1.25 * taken
    assert peek(path, "SELECT count(*), sum(length(data)) FROM events") == [(4_000, 0)]


async def test_a_long_search_lets_others_take_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "FIRST_ROWS", 2)
    monkeypatch.setattr(searches, "PART_SECONDS", 0.0)
    monkeypatch.setattr(searches, "LEAST_ROWS", 2)
    monkeypatch.setattr(searches, "LIST_SECONDS", 60)
    await store.append(to(*(f"e{number}" for number in range(1_000))))
    await store.append(to("theirs", instance="other"))
    ended: list[str] = []

    async def search(instance: str, **query: Any) -> None:
        await store.list_deliveries(DeliveryQuery(instance=instance, limit=1, **query))
        ended.append(instance)

    async with trio.open_nursery() as nursery:
        for _ in range(4):  # more than there are connections
            nursery.start_soon(partial(search, "shop", kinds=("NO_SUCH",)))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(search, "other")
    assert ended == ["other", *["shop"] * 4]


async def test_lanes_read_while_every_other_connection_is_busy(store: Store) -> None:
    await store.append(to("e1"))
    free = threading.Event()
    listing: Any = store.list_deliveries
    readers = [listing.__self__._lists] * LIST_CONNECTIONS + [background_of(store)]
    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(reader.run, lambda _: free.wait(30))
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(10):
            page = await store.read_lane(LANE, FIRST, 10)
        free.set()
    assert [delivery.event.id for delivery in page.deliveries] == ["e1"]


async def test_a_step_removes_few_bytes_of_large_payloads(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append(
        [*to(*(f"e{n}" for n in range(5)), data=f'"{98 * "x"}"'), Append(event("unheard"), ())]
    )
    await settle(store, *map(delivered, await seqs_of(store)))
    monkeypatch.setattr(history, "PRUNE_BYTES", 150)
    assert [await prune(store, 9e9) for _ in range(4)] == [2, 2, 2, 0]
    await store.append(to("large", data=f'"{998 * "x"}"'))
    await settle(store, *map(delivered, await seqs_of(store)))
    assert await prune(store, 9e9) == 1


async def test_a_delivery_that_was_sent_again_meanwhile_stays(store: Store) -> None:
    await store.append(to("e1", "e2"))
    first, second = await seqs_of(store)
    await settle(store, delivered(first), delivered(second))
    found = [Oldest(at=0, seq=seq, instance=0, size=2) for seq in (first, second)]
    await store.resend("shop", second, RULE)
    count, _ = await commits_of(store).call(partial(history.remove_oldest, found=found, before=9e9))
    assert count == 1
    assert await ids_of(store) == ["e2"]
