"""Deliveries listed, found and pruned."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookgw.models.clock import Clock
from hookgw.models.deliveries import DeliveryState, Settlement
from hookgw.store import Append, DeliveryQuery, Store, open_store
from tests.store.sqlite.support import AT, LANE, attempt, dead, delivered, event, failed, opened, seqs_of, to


@pytest.fixture
async def seqs(store: Store) -> list[int]:
    """One of each state, e1 and up: delivered, dead, dropped, pending after a failure, pending."""
    await store.append(to("e1", "e2"))
    await store.append(
        [Append(event(f"e{n}", kind="CONNECTION_UPDATE"), (("reg_2", LANE),)) for n in (3, 4, 5)]
    )
    await store.append(to("foreign", instance="other"))
    seqs = await seqs_of(store)
    await store.settle(delivered(seqs[0]))
    await store.settle(dead(seqs[1]))
    await store.settle(Settlement(seq=seqs[2], state=DeliveryState.DROPPED, at=AT, reason="filtered"))
    await store.settle(failed(seqs[3]))
    return seqs


async def listed(store: Store, **query: object) -> list[str]:
    found = await store.list_deliveries(DeliveryQuery(**{"instance": "shop"} | query))  # type: ignore[arg-type]
    return [delivery.event_id for delivery in found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "e5 e4 e3 e2 e1"),
        ({"limit": 2}, "e5 e4"),
        ({"state": DeliveryState.PENDING}, "e5 e4"),
        ({"state": DeliveryState.DELIVERED}, "e1"),
        ({"state": DeliveryState.DEAD}, "e2"),
        ({"state": DeliveryState.DROPPED}, "e3"),
        ({"kind": "MESSAGES_UPSERT"}, "e2 e1"),
        ({"kind": "CONNECTION_UPDATE", "state": DeliveryState.DROPPED}, "e3"),
        ({"kind": "NO_SUCH"}, ""),
        ({"instance": "other"}, "foreign"),
        ({"instance": "nobody"}, ""),
    ],
)
async def test_listing(store: Store, seqs: list[int], query: dict[str, object], expected: str) -> None:
    assert await listed(store, **query) == expected.split()


async def test_pages_by_cursor(store: Store, seqs: list[int]) -> None:
    seen: list[str] = []
    cursor = None
    while page := await store.list_deliveries(DeliveryQuery(instance="shop", cursor=cursor, limit=2)):
        seen += [delivery.event_id for delivery in page]
        cursor = page[-1].seq
    assert seen == ["e5", "e4", "e3", "e2", "e1"]


async def test_since_and_until_bound_the_time_of_acceptance(store: Store, seqs: list[int]) -> None:
    all_of_them = await store.list_deliveries(DeliveryQuery(instance="shop"))
    first, last = all_of_them[-1].accepted_at, all_of_them[0].accepted_at
    assert first < last
    assert await listed(store, since=last) == ["e5", "e4", "e3"]
    assert await listed(store, until=last) == ["e2", "e1"]
    assert await listed(store, since=first, until=first) == []
    assert await listed(store, since=last + 1) == []


async def test_a_list_shows_the_last_attempt(store: Store, seqs: list[int]) -> None:
    by_id = {d.event_id: d for d in await store.list_deliveries(DeliveryQuery(instance="shop"))}
    assert by_id["e1"].last_attempt == attempt()
    assert by_id["e4"].last_attempt == failed(0).attempt
    assert (by_id["e4"].attempts, by_id["e4"].failures, by_id["e4"].next_at) == (1, 1, AT + 5)
    assert by_id["e5"].last_attempt is None
    assert by_id["e5"].id == f"dlv_{seqs[4]}"
    assert (by_id["e3"].registration, by_id["e3"].lane, by_id["e3"].time) == ("reg_2", LANE, AT)


async def test_finding_by_either_id(store: Store, seqs: list[int]) -> None:
    by_delivery = await store.find_delivery("shop", f"dlv_{seqs[3]}")
    assert by_delivery == await store.find_delivery("shop", "e4")
    assert by_delivery is not None
    assert by_delivery.event == event("e4", kind="CONNECTION_UPDATE")
    assert by_delivery.attempts == (failed(0).attempt,)


async def test_an_event_id_gives_its_newest_delivery(store: Store) -> None:
    await store.append([Append(event("e1"), (("reg_1", LANE), ("reg_2", "http://other.test")))])
    found = await store.find_delivery("shop", "e1")
    assert found is not None
    assert found.summary.registration == "reg_2"


@pytest.mark.parametrize("name", ["nobody", "dlv_999", "dlv_", "dlv_x", "foreign", ""])
async def test_what_an_instance_does_not_have(store: Store, seqs: list[int], name: str) -> None:
    assert await store.find_delivery("shop", name) is None


async def test_another_instance_finds_nothing(store: Store, seqs: list[int]) -> None:
    assert await store.find_delivery("other", f"dlv_{seqs[0]}") is None
    assert await store.find_delivery("other", "e1") is None


async def test_an_event_may_be_called_like_a_delivery(store: Store) -> None:
    await store.append(to("dlv_77"))
    found = await store.find_delivery("shop", "dlv_77")
    assert found is not None
    assert found.event.id == "dlv_77"


async def test_pruning_takes_what_finished_before(store: Store, seqs: list[int]) -> None:
    assert await store.prune(AT, 100) == 0
    assert await store.prune(AT + 0.001, 2) == 2
    assert await store.prune(AT + 0.001, 2) == 1
    assert await store.prune(AT + 0.001, 2) == 0
    assert await listed(store) == ["e5", "e4"]
    for table, left in {"events": 3, "deliveries": 3, "attempts": 1, "bodies": 1}.items():
        assert await store.read(lambda s, t=table: _count(s, t)) == left, table  # type: ignore[misc]


async def test_what_was_pruned_is_no_duplicate_any_more(store: Store, seqs: list[int]) -> None:
    assert await store.append(to("e1", "e4")) == [False, False]
    await store.prune(AT + 1, 100)
    assert await store.append(to("e1", "e4")) == [True, False]


async def test_an_event_stays_while_a_delivery_refers_to_it(store: Store) -> None:
    await store.append([Append(event("e1"), (("reg_1", LANE), ("reg_2", "http://other.test")))])
    await store.settle(delivered((await seqs_of(store))[0]))
    assert await store.prune(AT + 1, 100) == 1
    [left] = (await store.page("http://other.test", 0, 10)).deliveries
    assert left.event == event("e1")
    await store.settle(delivered(left.seq))
    assert await store.prune(AT + 1, 100) == 1
    assert await store.append(to("e1")) == [True]


async def test_events_that_nobody_heard_are_pruned_by_their_age(store: Store) -> None:
    await store.append([Append(event(f"e{number}"), ()) for number in range(3)])
    assert await store.prune(AT, 2) == 0
    assert [await store.prune(9e9, 2) for _ in range(3)] == [2, 1, 0]
    assert await store.append(to("e1")) == [True]


async def test_an_unheard_event_keeps_no_payload(store: Store) -> None:
    await store.append([Append(event("e1", data='{"large": true}'), ())])
    statement = "SELECT length(data) FROM events"
    assert await store.read(lambda s: s.values._table._connection.execute(statement).fetchone()) == (0,)


def _count(shelves, table: str) -> int:  # type: ignore[no-untyped-def]
    found: int = shelves.values._table._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return found


async def test_unheard_events_that_are_younger_than_what_is_left_stay(store: Store, seqs: list[int]) -> None:
    """So that a history that is cut to size loses what is oldest, of either."""
    await store.append([Append(event("unheard"), ())])
    assert [await store.prune(9e9, 1) for _ in range(3)] == [1, 1, 1]
    assert await store.append(to("unheard")) == [False]
    assert await store.prune(9e9, 1) == 1
    assert await store.append(to("unheard")) == [True]


@pytest.mark.parametrize("size", [20, 500, 2_100, 3_000, 10_000])
async def test_what_the_history_takes_is_what_pruning_gives_back(path: Path, size: int) -> None:
    async with opened(path) as store:
        text = '"' + "x" * size + '"'
        batch = [Append(event(f"e{n}", data=text), (("reg_1", LANE),)) for n in range(1_000)]
        empty = await store.used_bytes() - await store.needed_bytes()
        await store.append(batch)
        waiting = await store.used_bytes() - await store.needed_bytes()
        assert abs(waiting - empty) < 100_000 + 0.1 * await store.used_bytes(), "the outbox is no history"
        for seq in await seqs_of(store):
            store.settle_nowait(delivered(seq))
        await store.flush()
        finished = await store.used_bytes() - await store.needed_bytes()
        assert finished > 1_000 * (size + 200)
        while await store.prune(AT + 1, 500):
            pass
        assert await store.used_bytes() - await store.needed_bytes() - empty < 0.1 * finished


# Without a history


@pytest.fixture
async def forgetful(path: Path) -> AsyncIterator[Store]:
    async with open_store(path, clock=Clock(), keep_history=False) as store:
        yield store


async def counts(store: Store) -> dict[str, int]:
    tables = ("events", "deliveries", "attempts", "bodies")
    return {table: await store.read(lambda shelves, t=table: _count(shelves, t)) for table in tables}  # type: ignore[misc]


@pytest.mark.parametrize(
    "end",
    [delivered(1, number=2), dead(1, number=2), Settlement(seq=1, state=DeliveryState.DROPPED, at=AT)],
    ids=["delivered", "dead", "dropped"],
)
async def test_what_is_settled_is_gone(forgetful: Store, end: Settlement) -> None:
    await forgetful.append(to("e1", "e2"))
    assert await forgetful.append(to("e1")) == [False]
    await forgetful.settle(failed(1, body=b"fixed"))
    assert await counts(forgetful) == {"events": 2, "deliveries": 2, "attempts": 0, "bodies": 1}
    [first, _] = (await forgetful.page(LANE, 0, 10)).deliveries
    assert (first.attempts, first.failures, first.body) == (1, 1, b"fixed")
    await forgetful.settle(end)
    assert await counts(forgetful) == {"events": 1, "deliveries": 1, "attempts": 0, "bodies": 0}
    assert forgetful.statistics().pending == 1
    assert await forgetful.append(to("e1", "e2")) == [True, False]


async def test_a_failure_and_an_end_in_one_commit(forgetful: Store) -> None:
    await forgetful.append(to("e1", "e2"))
    forgetful.settle_nowait(failed(1))
    forgetful.settle_nowait(failed(2))
    forgetful.settle_nowait(delivered(1, number=2))
    await forgetful.flush()
    assert await counts(forgetful) == {"events": 1, "deliveries": 1, "attempts": 0, "bodies": 1}


async def test_an_event_goes_with_its_last_delivery(forgetful: Store) -> None:
    await forgetful.append([Append(event("e1"), (("reg_1", LANE), ("reg_2", "http://other.test")))])
    await forgetful.settle(delivered(1))
    assert await counts(forgetful) == {"events": 1, "deliveries": 1, "attempts": 0, "bodies": 0}
    await forgetful.settle(delivered(2))
    assert await counts(forgetful) == {"events": 0, "deliveries": 0, "attempts": 0, "bodies": 0}


async def test_what_is_parked_and_unheard_goes_with_the_next_pruning(forgetful: Store) -> None:
    await forgetful.append([*to("e1"), Append(event("e2"), ())])
    assert await forgetful.park("reg_1", [LANE], "off", AT) == 1
    assert await forgetful.prune(9e9, 10) == 2
    assert await counts(forgetful) == {"events": 0, "deliveries": 0, "attempts": 0, "bodies": 0}
