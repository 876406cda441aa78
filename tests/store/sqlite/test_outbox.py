"""Appending, pages of a lane, the backlog."""

from __future__ import annotations

import pytest
import trio

from hookgw.models.deliveries import Delivery
from hookgw.models.events import Event
from hookgw.store import Append, LaneBacklog, Store
from hookgw.store.sqlite.bulk import MAX_ROWS
from hookgw.store.sqlite.outbox import PAGE_BYTES
from tests.store.sqlite.support import LANE, delivered, event, failed, ids_of, seqs_of, to


async def test_what_was_appended_is_in_the_page(store: Store) -> None:
    handed: list[Delivery] = []
    store.on_appended = handed.extend
    data = '{"b": 9007199254740993, "a": "\\u00e9 \\ud83d\\ude00 \\\\ \\"", "é": 1.10}'
    whole = Event(
        id="e1",
        kind="MESSAGES_UPSERT",
        instance="shop",
        data_json=data.encode(),
        time=1_795_176_000.123,
        sender="551199@s.whatsapp.net",
        server_url="https://gateway.test/ü",
    )
    assert await store.append([Append(whole, (("reg_1", LANE),))]) == [True]
    page = (await store.page(LANE, 0, 10)).deliveries
    assert [delivery.event for delivery in page] == [whole]
    assert page[0].event.date_time == whole.date_time
    assert (page[0].registration, page[0].lane) == ("reg_1", LANE)
    assert (page[0].attempts, page[0].failures, page[0].next_at, page[0].body) == (0, 0, 0.0, None)
    assert page[0].accepted_at == pytest.approx(handed[0].accepted_at, abs=1e-6)
    assert [delivery.seq for delivery in handed] == [page[0].seq]


async def test_an_event_to_several_registrations(store: Store) -> None:
    targets = (("reg_1", "http://a.test"), ("reg_2", "http://b.test"), ("reg_3", "http://a.test"))
    assert await store.append([Append(event("e1"), targets)]) == [True]
    assert [d.registration for d in (await store.page("http://a.test", 0, 10)).deliveries] == [
        "reg_1",
        "reg_3",
    ]
    assert [d.registration for d in (await store.page("http://b.test", 0, 10)).deliveries] == ["reg_2"]


@pytest.mark.parametrize("targets", [(), (("reg_1", LANE),)], ids=["unheard", "heard"])
async def test_a_known_id_is_a_duplicate(store: Store, targets: tuple[tuple[str, str], ...]) -> None:
    assert await store.append([Append(event("e1"), targets)]) == [True]
    assert await store.append([*to("e1"), *to("e2")]) == [False, True]
    assert await store.append(to("e1", instance="other")) == [True]


async def test_a_duplicate_within_one_call(store: Store) -> None:
    assert await store.append(to("e1", "e2", "e1", "e1")) == [True, True, False, False]
    assert await ids_of(store) == ["e1", "e2"]


async def test_a_duplicate_of_another_call_in_the_same_commit(store: Store) -> None:
    answers: dict[int, list[bool]] = {}

    async def produce(number: int) -> None:
        answers[number] = await store.append(to("same", f"own_{number}"))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(produce, number)
    assert sorted(answer[0] for answer in answers.values()) == [False] * 19 + [True]
    assert all(answer[1] for answer in answers.values())
    assert len(await ids_of(store)) == 21


async def test_an_empty_append(store: Store) -> None:
    assert await store.append([]) == []


@pytest.mark.parametrize("count", [1, 2, 3, MAX_ROWS - 1, MAX_ROWS, MAX_ROWS + 1, 3 * MAX_ROWS + 5])
async def test_every_size_of_batch_is_whole(store: Store, count: int) -> None:
    names = [f"e{number}" for number in range(count)]
    assert await store.append(to(*names)) == [True] * count
    assert [d.event.id for d in (await store.page(LANE, 0, count + 1)).deliveries] == names
    for seq in await seqs_of(store, limit=count + 1):
        store.settle_nowait(delivered(seq))
    await store.flush()
    assert await seqs_of(store) == []


async def test_pages_go_on_where_the_last_ended(store: Store) -> None:
    await store.append(to(*(f"e{number}" for number in range(10))))
    first = await seqs_of(store, limit=4)
    second = await seqs_of(store, after=first[-1], limit=4)
    third = await seqs_of(store, after=second[-1], limit=4)
    assert [len(first), len(second), len(third)] == [4, 4, 2]
    assert first + second + third == sorted(await seqs_of(store))


async def test_a_page_of_an_unknown_lane_is_empty(store: Store) -> None:
    assert (await store.page("http://nobody.test", 0, 10)).deliveries == []


async def test_bodies_of_a_page_belong_to_their_deliveries(store: Store) -> None:
    await store.append(to("e1", "e2", "e3", "e4"))
    first, second, _, fourth = await seqs_of(store)
    await store.settle(failed(first, body=b"one \x00\xff"))
    await store.settle(failed(second, body=b""))
    await store.settle(failed(fourth, body="vier ü".encode()))
    bodies = [delivery.body for delivery in (await store.page(LANE, 0, 10)).deliveries]
    assert bodies == [b"one \x00\xff", b"", None, "vier ü".encode()]


async def test_the_backlog_counts_what_is_pending(store: Store) -> None:
    assert await store.backlog() == []
    await store.append([*to("e1", "e2", lane="http://a.test"), *to("e3", lane="http://b.test")])
    page = (await store.page("http://a.test", 0, 10)).deliveries
    await store.settle(delivered(page[0].seq))
    await store.settle(delivered((await store.page("http://b.test", 0, 1)).deliveries[0].seq))
    assert await store.backlog() == [LaneBacklog("http://a.test", 1, page[1].accepted_at)]
    assert await store.count_pending("http://a.test") == 1
    assert await store.count_pending("http://b.test") == 0
    assert await store.count_pending("http://nobody.test") == 0


async def test_numbers_are_never_given_twice(store: Store) -> None:
    await store.append(to("e1"))
    [seq] = await seqs_of(store)
    await store.settle(delivered(seq))
    while await store.prune(2e9, 10):
        pass
    await store.append(to("e1"))
    assert await seqs_of(store) > [seq]


@pytest.mark.parametrize(("limit", "expected"), [(2, 2), (3, 3), (4, 3)])
async def test_a_page_tells_whether_more_follow(store: Store, limit: int, expected: int) -> None:
    await store.append(to("e1", "e2", "e3"))
    page = await store.page(LANE, 0, limit)
    assert (len(page.deliveries), page.more) == (expected, expected < 3)
    last = page.deliveries[-1].position
    assert (await store.page(LANE, last, limit)).more is False


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([PAGE_BYTES // 2, PAGE_BYTES // 2, 10], [2, 1]),
        ([PAGE_BYTES // 2, PAGE_BYTES // 2 + 1, 10], [1, 2]),
        ([PAGE_BYTES * 2, PAGE_BYTES + 1, 10], [1, 1, 1]),
        ([10, PAGE_BYTES, 10], [1, 1, 1]),
    ],
)
async def test_a_page_is_bounded_in_bytes(store: Store, sizes: list[int], expected: list[int]) -> None:
    for number, size in enumerate(sizes):
        data = '"' + "x" * (size - 2) + '"'
        await store.append([Append(event(f"e{number}", data=data), (("reg_1", LANE),))])
    pages, after = [], 0
    while True:
        page = await store.page(LANE, after, 100)
        pages.append(page)
        if not page.more:
            break
        after = page.deliveries[-1].position
    assert [len(page.deliveries) for page in pages] == expected
    assert [d.event.id for page in pages for d in page.deliveries] == ["e0", "e1", "e2"]
    assert [len(d.event.data_json) for page in pages for d in page.deliveries] == sizes


async def test_stored_bodies_count_towards_a_page(store: Store) -> None:
    await store.append(to("e1", "e2"))
    first, second = await seqs_of(store)
    for seq in (first, second):
        await store.settle(failed(seq, body=b"x" * (PAGE_BYTES // 2)))
    page = await store.page(LANE, 0, 10)
    assert ([d.seq for d in page.deliveries], page.more) == ([first], True)


async def test_what_is_pending_is_counted_by_registration(store: Store) -> None:
    assert await store.pending_by_registration() == {}
    await store.append([Append(event("e1", data='"four"'), (("reg_1", LANE), ("reg_2", "http://b.test")))])
    await store.append(to("e2", "e3", lane="http://c.test"))
    await store.settle(delivered((await seqs_of(store, "http://c.test"))[0]))
    assert await store.pending_by_registration() == {"reg_1": (2, 8), "reg_2": (1, 6)}
