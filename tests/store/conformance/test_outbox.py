"""Appending, reading lanes, counting what is pending."""

import msgspec
import pytest
import trio

from hookgw import Event, Invalid, Outcome
from tests.public.records import FIRST, Position
from tests.public.store import OUTBOX_PAGE_BYTES as PAGE_BYTES
from tests.public.store import Append, Held, LaneBacklog, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    LANE,
    Listener,
    delivered,
    event,
    failed,
    ids_of,
    pending,
    pending_of,
    report,
    seqs_of,
    settle,
    to,
)


async def test_an_appended_delivery_is_read_as_it_was(store: Store) -> None:
    listener = Listener()
    store.subscribe(listener)
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
    [read] = (await store.read_lane(LANE, FIRST, 10)).deliveries
    assert read.event == whole
    assert (read.registration, read.lane) == ("reg_1", LANE)
    assert read.position > FIRST
    assert (read.attempts, read.failures, read.next_at, read.body) == (0, 0, 0.0, None)
    [heard] = listener.deliveries
    assert (heard.seq, heard.event, heard.lane) == (read.seq, whole, LANE)
    assert read.accepted_at == read.queued_at == pytest.approx(heard.accepted_at, abs=1e-6)


async def test_each_target_of_an_event_is_a_delivery(store: Store) -> None:
    targets = (("reg_1", "reg_1:0:1"), ("reg_2", "reg_2:0"), ("reg_1", "reg_1:0:2"))
    assert await store.append([Append(event("e1"), targets)]) == [True]
    for registration, lane in targets:
        assert [(d.registration, d.lane) for d in await pending(store, lane)] == [(registration, lane)]


@pytest.mark.parametrize("targets", [(), (("reg_1", LANE),)], ids=["no target", "a target"])
async def test_a_known_id_of_the_instance_is_a_duplicate(
    store: Store, targets: tuple[tuple[str, str], ...]
) -> None:
    assert await store.append([Append(event("e1"), targets)]) == [True]
    assert await store.append([*to("e1"), *to("e2")]) == [False, True]
    assert await store.append(to("e1", instance="other")) == [True]


async def test_duplicates_within_one_call(store: Store) -> None:
    assert await store.append(to("e1", "e2", "e1", "e1")) == [True, True, False, False]
    assert await ids_of(store) == ["e1", "e2"]


async def test_duplicates_among_concurrent_calls(store: Store) -> None:
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


@pytest.mark.parametrize("count", [1, 2, 3, 511, 512, 513, 1541])
async def test_batches_of_every_size_are_whole(store: Store, count: int) -> None:
    names = [f"e{number}" for number in range(count)]
    assert await store.append(to(*names)) == [True] * count
    assert await ids_of(store) == names
    await settle(store, *map(delivered, await seqs_of(store)))
    assert await seqs_of(store) == []


@pytest.mark.parametrize(
    "bad",
    [
        msgspec.structs.replace(event("bad"), sender="\udc80"),
        msgspec.structs.replace(event("bad"), time=float("nan")),
        msgspec.structs.replace(event("bad"), time=1e30),
        event("bad \ud800"),
    ],
    ids=["text", "no time", "a time too far", "id"],
)
async def test_a_value_that_cannot_be_stored_fails_its_call_only(store: Store, bad: Event) -> None:
    async def expect_failure() -> None:
        with pytest.raises(Invalid, match="cannot be stored"):
            await store.append([*to("before"), Append(bad, (("reg_1", LANE),))])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.append, to("e1"))
        nursery.start_soon(expect_failure)
        nursery.start_soon(store.append, to("e2"))
        nursery.start_soon(store.put_value, "key", 1)
    assert sorted(await ids_of(store)) == ["e1", "e2"]
    assert await store.get_value("key") == 1
    assert await store.append(to("before", registration="reg_2")) == [True]
    assert await pending_of(store) == 3


async def test_pages_continue_behind_a_position(store: Store) -> None:
    await store.append(to(*(f"e{number}" for number in range(10))))
    found, after, sizes = [], FIRST, []
    while True:
        page = await store.read_lane(LANE, after, 4)
        found += page.deliveries
        sizes.append(len(page.deliveries))
        if not page.more:
            break
        after = Position(page.deliveries[-1].position)
    assert sizes == [4, 4, 2]
    assert [delivery.event.id for delivery in found] == [f"e{number}" for number in range(10)]
    positions = [delivery.position for delivery in found]
    assert positions == sorted(positions)


@pytest.mark.parametrize("lane", ["reg_9:0", "reg_1:0:7", "reg_1:1"])
async def test_a_lane_without_deliveries(store: Store, lane: str) -> None:
    await store.append(to("e1"))
    assert await store.read_lane(lane, FIRST, 10) == ([], False, 0)
    assert await store.count_pending(lane) == 0


@pytest.mark.parametrize(("limit", "expected"), [(2, 2), (3, 3), (4, 3)])
async def test_a_page_says_whether_the_lane_has_more(store: Store, limit: int, expected: int) -> None:
    await store.append(to("e1", "e2", "e3"))
    page = await store.read_lane(LANE, FIRST, limit)
    assert (len(page.deliveries), page.more) == (expected, expected < 3)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([0.5, 0.5, 0], [2, 1]),
        ([0.5, 0.5001, 0], [1, 2]),
        ([2, 1.1, 0], [1, 1, 1]),
        ([0, 1, 0], [1, 1, 1]),
    ],
)
async def test_a_page_is_bounded_in_bytes(store: Store, sizes: list[float], expected: list[int]) -> None:
    for number, size in enumerate(sizes):
        data = '"' + "x" * (max(10, int(size * PAGE_BYTES)) - 2) + '"'
        await store.append([Append(event(f"e{number}", data=data), (("reg_1", LANE),))])
    counts, found, after = [], [], FIRST
    while True:
        page = await store.read_lane(LANE, after, 100)
        counts.append(len(page.deliveries))
        found += [delivery.event.id for delivery in page.deliveries]
        if not page.more:
            break
        after = Position(page.deliveries[-1].position)
    assert counts == expected
    assert found == ["e0", "e1", "e2"]


async def test_stored_bodies_count_towards_the_size_of_a_page(store: Store) -> None:
    await store.append(to("e1", "e2"))
    first, second = await seqs_of(store)
    body = b"x" * (PAGE_BYTES // 2)
    await settle(store, failed(first, body=body), failed(second, body=body))
    page = await store.read_lane(LANE, FIRST, 10)
    assert ([delivery.seq for delivery in page.deliveries], page.more) == ([first], True)


async def test_a_page_may_be_empty_if_its_first_delivery_is_too_large(store: Store) -> None:
    for number in range(2):
        await store.append([Append(event(f"e{number}", data='"' + "x" * 98 + '"'), (("reg_1", LANE),))])
    first, _ = await seqs_of(store)
    assert await store.read_lane(LANE, FIRST, 10, 99) == ([], True, 100)
    page = await store.read_lane(LANE, FIRST, 10, 100)
    assert ([delivery.seq for delivery in page.deliveries], page.more, page.needed) == ([first], True, 100)
    await settle(store, failed(first, body=b"y" * 50))
    assert await store.read_lane(LANE, FIRST, 10, 149) == ([], True, 150)
    page = await store.read_lane(LANE, FIRST, 10, 250)
    assert (len(page.deliveries), page.more) == (2, False)


async def test_bodies_belong_to_their_deliveries(store: Store) -> None:
    await store.append(to("e1", "e2", "e3", "e4"))
    first, second, _, fourth = await seqs_of(store)
    bodies = {first: b"one \x00\xff", second: b"", fourth: "vier ü".encode()}
    await settle(store, *(failed(seq, body=body) for seq, body in bodies.items()))
    assert [d.body for d in await pending(store)] == [b"one \x00\xff", b"", None, "vier ü".encode()]


async def test_counts_of_what_is_pending(store: Store) -> None:
    assert await store.pending_lanes() == []
    assert await store.pending_counts() == {}
    await store.append(to("e1", "e2", "e3", lane="reg_1:0:1", data='"four"'))
    await store.append([*to("e4", lane="reg_1:0:2"), *to("e5", "e6", registration="reg_2")])
    await store.append(to("e7", registration="reg_3"))
    first, second, third = await seqs_of(store, "reg_1:0:1")
    [gone] = await seqs_of(store, "reg_3:0")
    await settle(store, delivered(first), delivered(third), delivered(gone), failed(second))
    assert sorted(await store.pending_lanes(), key=lambda lane: lane.lane) == [
        LaneBacklog("reg_1:0:1", 1),
        LaneBacklog("reg_1:0:2", 1),
        LaneBacklog("reg_2:0", 2),
    ]
    assert await store.pending_lanes("reg_2") == [LaneBacklog("reg_2:0", 2)]
    assert len(await store.pending_lanes("reg_1")) == 2
    assert await store.pending_lanes("reg_3") == []
    assert await store.pending_counts() == {
        ("reg_1", "shop"): (2, 8),
        ("reg_2", "shop"): (2, 4),
    }
    assert [await store.count_pending(f"reg_{n}:0") for n in (1, 2, 3)] == [0, 2, 0]
    assert await pending_of(store) == 4


async def test_nothing_is_held_back_without_a_reason_outside_of_hookgw(store: Store) -> None:
    await store.append(to("e1"))
    assert store.held() == Held()


async def test_counts_are_by_the_instance_of_the_event(store: Store) -> None:
    shared = [f"{number}" for number in range(7)]
    for number, name in enumerate(shared):
        await store.append(to(name, instance=["shop", "mall"][number % 2], data=f'"{number}"'))
    await store.append(to("alone", instance="mall", lane="reg_1:0:1"))
    await store.append(to("other", instance="shop", registration="reg_2"))
    counts = {("reg_1", "shop"): (4, 12), ("reg_1", "mall"): (4, 11), ("reg_2", "shop"): (1, 2)}
    assert await store.pending_counts() == counts
    # Events of a deleted instance keep an instance of their own.
    await store.remove_instance("mall", retired_as="mall 1")
    counts["reg_1", "mall 1"] = counts.pop(("reg_1", "mall"))
    assert await store.pending_counts() == counts


async def test_receivers_know_a_retired_instance_by_its_name(store: Store) -> None:
    """Found by the simulator: a webhook of the configuration got the name under which the events are kept."""
    await store.append(to("e1"))
    await store.remove_instance("shop", retired_as="shop 1")
    page = await store.read_lane(LANE, FIRST, 10)
    assert [delivery.event.instance for delivery in page.deliveries] == ["shop"]


async def test_numbers_and_positions_are_not_given_twice(engine: Engine) -> None:
    async with engine.open() as store:
        await store.append(to("e1"))
        [first] = await seqs_of(store)
        await settle(store, delivered(first))
        await store.enforce_retention(before=9e9, limit=2**40)
    async with engine.open() as store:
        assert await store.append(to("e1")) == [True]
        assert await seqs_of(store) > [first]


async def test_the_order_of_the_calls_is_the_order_of_delivery(store: Store) -> None:
    listener = Listener()
    store.subscribe(listener)
    asked: list[str] = []

    async def produce(producer: int) -> None:
        for number in range(20):
            names = [f"p{producer}_{number}_{index}" for index in range(3)]
            asked.extend(names)
            assert await store.append(to(*names)) == [True] * 3
            assert {delivery.event.id for delivery in listener.deliveries} >= set(names)

    async with trio.open_nursery() as nursery:
        for producer in range(30):
            nursery.start_soon(produce, producer)
    assert [delivery.event.id for delivery in listener.deliveries] == asked
    assert await ids_of(store) == asked


async def test_what_was_appended_outlasts_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await store.append(to("e1", "e2"))
        await settle(store, failed((await seqs_of(store))[0]))
        before = await pending(store)
    async with engine.open() as store:
        assert await pending(store) == before
        assert await pending_of(store) == 2
        assert await store.append(to("e1")) == [False]


async def test_space_that_deliveries_leave_can_be_used_again(engine: Engine) -> None:
    async with engine.open(keep_history=False) as store:
        await store.append(to("large", data='"' + "x" * 1_000_000 + '"'))
        before = await store.disk_space()
        await settle(store, delivered((await seqs_of(store))[0]))
        after = await store.disk_space()
        if before is None or after is None:
            return  # the server of a database manages its own space
        assert after.reusable >= before.reusable + 900_000
        assert after.free > 0


async def test_the_last_attempt_of_a_delivery_is_found(store: Store) -> None:
    await store.append(to("e1", "e2"))
    first, second = await seqs_of(store)
    await settle(store, failed(first), failed(first, number=2))
    [one] = [one for one in [await store.last_attempt(first)] if one is not None]
    assert (one.number, one.outcome) == (2, Outcome.FAILED)
    assert one.error == (await report(store)).summary.last_attempt.error  # type: ignore[union-attr]
    assert await store.last_attempt(second) is None
    assert await store.last_attempt(2**40) is None
