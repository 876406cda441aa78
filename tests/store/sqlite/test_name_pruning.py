"""Names that no row refers to are removed, also while appends take them into use again."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from hookgw.store.sqlite import name_pruning
from tests.public.records import LaneRule, Ordering
from tests.public.sqlite import NamePruning, Transaction, of_url
from tests.public.store import Append, Store
from tests.store.sqlite.support import opened, peek
from tests.store.support import RULE, dead, delivered, event, ids_of, seqs_of, settle, to
from tests.support.stores import commits_of

KEEP = 2**40


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_pruning, "ROWS", 2)
    monkeypatch.setattr(name_pruning, "BATCH", 2)
    monkeypatch.setattr(name_pruning, "REST", 0)


def pruning_of(store: Store) -> NamePruning:
    history: Any = store.list_deliveries
    found: NamePruning = history.__self__._names
    return found


def names(path: Path) -> set[object]:
    return {name for (name,) in peek(path, "SELECT name FROM names")}


async def finish(store: Store) -> None:
    """Settle everything, and remove the history."""
    for lane in await store.pending_lanes():
        await settle(store, *map(delivered, await seqs_of(store, lane.lane)))
    await store.enforce_retention(before=9e9, limit=KEEP)
    await forget_figures(store)


async def forget_figures(store: Store) -> None:
    assert await store.fold_figures({"gone": ["tenant=acme"]})
    await store.prune_figures(now=9e9, limit=KEEP)


async def test_ten_thousand_names_once_used_are_forgotten(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(name_pruning, "REST", 0)
    appends = [
        Append(event(f"e{n}", instance=f"tenant-{n}"), ((f"reg_{n}", f"reg_{n}:0"),)) for n in range(3_500)
    ]
    await store.append(appends)
    for number in range(3_500):
        await store.remove_instance(f"tenant-{number}", retired_as=f"tenant-{number} gone")
    assert len(names(path)) == 10_501
    seqs = [seq for (seq,) in peek(path, "SELECT seq FROM deliveries")]
    await settle(store, *map(delivered, seqs))  # type: ignore[arg-type]
    await store.enforce_retention(before=9e9, limit=KEEP)
    assert await pruning_of(store).prune() == 3_500  # what the figures need is there
    await forget_figures(store)
    assert await pruning_of(store).prune() == 7_000
    assert names(path) == {"MESSAGES_UPSERT"}


async def test_names_with_rows_stay(path: Path, store: Store) -> None:
    await store.append(to("gone", registration="reg_9", instance="gone"))
    await finish(store)
    # Pending, finished, without deliveries; an instance called like a kind; lanes of a global webhook.
    await store.append([*to("a", "b", "c"), Append(event("unheard", instance="quiet"), ())])
    await store.append(to("d", registration="global_audit", lane="global_audit:0:shop", instance="CALL"))
    await settle(store, delivered((await seqs_of(store))[0]))
    before = names(path)
    assert await pruning_of(store).prune() == 4
    assert names(path) == before - {"@gone", "reg_9", "reg_9:0", "#tenant=acme"}
    assert await pruning_of(store).prune() == 0


async def test_the_urls_of_attempts_go_with_the_last_of_them(path: Path, store: Store) -> None:
    urls = [of_url(f"https://crm.example/{number}") for number in range(5)]

    def send(transaction: Transaction) -> None:
        numbers = transaction.names.ids(urls)
        # A delivery whose registration got another URL between two attempts, and attempts that were not sent.
        for delivery, attempt, url in ((1, 1, 0), (1, 2, 1), (2, 1, None), (3, 1, 0), (4, 1, 3), (5, 1, 2)):
            transaction.connection.execute(
                "INSERT INTO attempts VALUES (?, ?, 0, 0, 'failed', NULL, NULL, '', ?, NULL)",
                (delivery, attempt, None if url is None else numbers[urls[url]]),
            )

    await commits_of(store).call(send)
    assert names(path) == set(urls)
    assert await pruning_of(store).prune() == 1
    assert names(path) == set(urls[:4])
    await commits_of(store).call(
        lambda transaction: transaction.connection.execute("DELETE FROM attempts WHERE delivery < 4").rowcount
    )
    assert await pruning_of(store).prune() == 2
    assert names(path) == {urls[3], urls[2]}


async def test_the_instances_of_ids_without_a_history_stay(path: Path, store: Store) -> None:
    """A number of a name may be given again: then their ids would be those of another instance."""
    # In one call: they have the same time, and differ in their sizes and numbers.
    appends = [Append(event("e" * (n % 3 + 1), instance=f"i{n}"), (("reg_9", "reg_9:0"),)) for n in range(7)]
    await store.append(appends)
    for seq in await seqs_of(store, "reg_9:0"):
        await settle(store, delivered(seq))
    await store.enforce_retention(before=9e9, limit=KEEP, ids_before=0)
    await forget_figures(store)
    assert await pruning_of(store).prune() == 2
    assert names(path) == {"MESSAGES_UPSERT", *(f"@i{n}" for n in range(7))}
    await store.enforce_retention(before=9e9, limit=KEEP)
    assert await pruning_of(store).prune() == 7


def during_the_walk(monkeypatch: pytest.MonkeyPatch, change: Any, *given: Any) -> None:
    """Make a change after the deliveries were walked, and before the events without any are."""
    usual = name_pruning.walk_unheard

    def walk(connection: Any, after: Any) -> Any:
        trio.from_thread.run(change, *given)
        return usual(connection, after)

    monkeypatch.setattr(name_pruning, "walk_unheard", walk)


async def test_a_name_that_is_used_again_during_the_walk_stays(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of the names knows its number; without a notice the append would write it to its rows."""
    await store.append(to(*(f"e{n}" for n in range(5)), registration="reg_9", instance="old"))
    await finish(store)
    await store.append(to("a", "b", "c"))
    pruning = pruning_of(store)
    during_the_walk(monkeypatch, store.append, to("again", registration="reg_9", instance="old"))
    # What the memory forgets during the walk counts, too.
    remove = name_pruning.remove_names

    def forget_and_remove(transaction: Any, numbers: list[int]) -> int:
        transaction.names.forget()
        return remove(transaction, numbers)

    monkeypatch.setattr(name_pruning, "remove_names", forget_and_remove)
    assert await pruning.prune() == 0
    assert await ids_of(store, "reg_9:0") == ["again"]
    assert names(path) >= {"@old", "reg_9", "reg_9:0"}


async def test_a_lane_that_a_delivery_moves_to_during_the_walk_stays(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were walked already may get another lane: by a replay, a resend or a re-partition."""
    await store.append(to("once", lane="reg_1:1"))
    await finish(store)
    await store.append(to("a"))
    (seq,) = await seqs_of(store)
    await settle(store, dead(seq))
    during_the_walk(monkeypatch, store.resend, "shop", seq, LaneRule("reg_1", 1, Ordering.URL, 1))
    assert await pruning_of(store).prune() == 0
    assert await ids_of(store, "reg_1:1") == ["a"]


async def test_names_work_after_they_were_removed(path: Path, store: Store) -> None:
    await store.append(to("a"))
    await finish(store)
    assert await pruning_of(store).prune() == 3
    await store.append(to("b"))
    assert await ids_of(store) == ["b"]
    (seq,) = await seqs_of(store)
    await settle(store, dead(seq))
    assert await store.resend("shop", seq, RULE) == "reg_1:0"


async def test_a_walk_is_due_with_many_names(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_pruning, "FIRST_AFTER", 0)
    await store.append(to("a"))
    await finish(store)
    await store.enforce_retention(before=9e9, limit=KEEP)
    assert len(names(path)) == 4
    monkeypatch.setattr(name_pruning, "FEW_NAMES", 3)
    await store.enforce_retention(before=9e9, limit=KEEP)
    assert names(path) == {"MESSAGES_UPSERT"}
    async with opened(path.with_name("other.db")) as other:
        assert await pruning_of(other).prune() == 0
    assert commits_of(store).failing is None


async def test_walks_are_an_hour_apart_and_the_first_one_is_soon_after_a_start(
    store: Store, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where hookgw starts again each half hour, names stayed forever."""
    walks: list[float] = []

    async def prune(self: NamePruning) -> int:
        walks.append(trio.current_time())
        return 0

    monkeypatch.setattr(NamePruning, "prune", prune)
    monkeypatch.setattr(name_pruning, "FEW_NAMES", 0)
    await store.append(to("e1"))
    pruning, start = pruning_of(store), trio.current_time()
    for _ in range(100):
        await pruning.prune_if_due()
        mock_clock.jump(60)
    assert [at - start for at in walks] == [600, 4_200]
