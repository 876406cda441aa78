"""Finished deliveries: lists, single deliveries, retention."""

import threading
from typing import Any

import pytest
import trio

from hookgw import DeliveryState, Invalid
from hookgw.store.postgresql import history as of_postgresql
from hookgw.store.sqlite import history as of_sqlite
from tests.public.records import Actor, ActorKind, AuditEntry, Settlement
from tests.public.store import Append, DeliveryQuery, Store
from tests.public.store import summary_of as read
from tests.store.conformance.engines import Engine
from tests.store.support import (
    AT,
    LANE,
    RULE,
    attempt,
    dead,
    delivered,
    dropped,
    event,
    failed,
    finish,
    ids_of,
    listed,
    park,
    pending,
    pending_of,
    report,
    seqs_of,
    settle,
    to,
)

KEEP = 2**40
"""A limit of bytes that no test reaches."""


@pytest.fixture
async def seqs(store: Store) -> list[int]:
    """Append e1 and up, one of each state: delivered, dead, dropped, pending after a failure, pending."""
    await store.append(to("e1", "e2"))
    await store.append(
        [Append(event(f"e{n}", kind="CONNECTION_UPDATE"), (("reg_1", LANE),)) for n in (3, 4, 5)]
    )
    await store.append(to("foreign", instance="other"))
    seqs = await seqs_of(store)
    await settle(store, delivered(seqs[0]), dead(seqs[1]), dropped(seqs[2]), failed(seqs[3]))
    return seqs


async def test_a_delivery_and_its_attempts_are_of_one_moment(
    store: Store, seqs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, settled = threading.Event(), threading.Event()

    def summary_of(*row: Any) -> Any:
        reading.set()
        assert settled.wait(30)
        return read(*row)

    for module in (of_sqlite, of_postgresql):
        monkeypatch.setattr(module, "summary_of", summary_of)
    reports = []

    async def find() -> None:
        reports.append(await store.find_delivery("shop", "e5"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(find)
        assert await trio.to_thread.run_sync(reading.wait, 30)
        await settle(store, failed(seqs[4]))
        settled.set()
    (found,) = reports
    assert found is not None
    assert (found.summary.attempts, found.attempts) == (0, ())


async def test_the_newest_event_of_each_instance(store: Store, seqs: list[int]) -> None:
    found = await store.newest(["shop", "other", "nobody"])
    assert found.keys() == {"shop", "other"}
    page = await store.list_deliveries(DeliveryQuery(instance="shop"))
    assert found["shop"] == page.deliveries[0].accepted_at
    assert await store.newest([]) == {}


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "e5 e4 e3 e2 e1"),
        ({"state": DeliveryState.PENDING}, "e5 e4"),
        ({"state": DeliveryState.DELIVERED}, "e1"),
        ({"state": DeliveryState.DEAD}, "e2"),
        ({"state": DeliveryState.DROPPED}, "e3"),
        ({"kinds": ("MESSAGES_UPSERT",)}, "e2 e1"),
        ({"kinds": ("CONNECTION_UPDATE",), "state": DeliveryState.DROPPED}, "e3"),
        ({"kinds": ("NO_SUCH",)}, ""),
        ({"instance": "other"}, "foreign"),
        ({"instance": "nobody"}, ""),
    ],
)
async def test_lists(store: Store, seqs: list[int], query: dict[str, Any], expected: str, limit: int) -> None:
    assert await listed(store, limit=limit, **query) == expected.split()


@pytest.mark.parametrize("rows", [1, 2, 5, 6])
async def test_a_search_that_takes_long_ends_early_with_a_cursor(
    engine: Engine, store: Store, seqs: list[int], rows: int
) -> None:
    engine.shorten_searches(rows)
    page = await store.list_deliveries(DeliveryQuery(instance="shop", kinds=("MESSAGES_UPSERT",), limit=1))
    # It looks at two deliveries at least, one more than the page has room for: e5 and e4.
    assert ([one.event_id for one in page.deliveries], page.cursor is None) == (
        ([], False) if rows < 5 else (["e2"], False)
    )
    assert await listed(store, kinds=("MESSAGES_UPSERT",), limit=1) == ["e2", "e1"]
    assert await listed(store, state=DeliveryState.DELIVERED, limit=1) == ["e1"]
    assert await listed(store, kinds=("NO_SUCH",), limit=1) == []


async def test_a_page_has_a_cursor_only_if_there_are_more(store: Store, seqs: list[int]) -> None:
    query = DeliveryQuery(instance="shop", limit=3)
    first = await store.list_deliveries(query)
    second = await store.list_deliveries(DeliveryQuery(instance="shop", limit=2, cursor=first.cursor))
    assert [len(page.deliveries) for page in (first, second)] == [3, 2]
    assert isinstance(first.cursor, str)
    assert second.cursor is None


async def test_a_cursor_outlasts_newer_deliveries(store: Store, seqs: list[int]) -> None:
    first = await store.list_deliveries(DeliveryQuery(instance="shop", limit=2))
    await store.append(to("e6"))
    second = await store.list_deliveries(DeliveryQuery(instance="shop", limit=2, cursor=first.cursor))
    assert [delivery.event_id for delivery in second.deliveries] == ["e3", "e2"]


@pytest.mark.parametrize("cursor", ["", "x", "-1", "dlv_", "dlv_x", "é", "9" * 40])
async def test_an_unreadable_cursor(store: Store, cursor: str) -> None:
    with pytest.raises(Invalid, match="cursor"):
        await store.list_deliveries(DeliveryQuery(instance="shop", cursor=cursor))


async def test_since_and_until_bound_the_time_of_acceptance(store: Store, seqs: list[int]) -> None:
    page = await store.list_deliveries(DeliveryQuery(instance="shop"))
    first, last = page.deliveries[-1].accepted_at, page.deliveries[0].accepted_at
    assert first < last
    assert await listed(store, since=last) == ["e5", "e4", "e3"]
    assert await listed(store, until=last) == ["e2", "e1"]
    assert await listed(store, since=first, until=first) == []
    assert await listed(store, since=last + 1) == []


async def test_lists_of_what_finished_since_a_time(store: Store, seqs: list[int]) -> None:
    page = await store.list_deliveries(DeliveryQuery(instance="shop"))
    finished = {one.event_id: one.finished_at for one in page.deliveries if one.finished_at is not None}
    assert len(finished) > 1
    for moment in (0.0, *finished.values(), max(finished.values()) + 1):
        expected = [name for name, at in finished.items() if at >= moment]
        assert await listed(store, finished_since=moment) == expected
        assert await listed(store, finished_since=moment, limit=1) == expected


async def test_a_list_shows_the_last_attempt(store: Store, seqs: list[int]) -> None:
    page = await store.list_deliveries(DeliveryQuery(instance="shop"))
    by_id = {delivery.event_id: delivery for delivery in page.deliveries}
    assert by_id["e1"].last_attempt == attempt()
    assert by_id["e4"].last_attempt == failed(0).attempt
    assert (by_id["e4"].attempts, by_id["e4"].next_at) == (1, AT + 5)
    assert by_id["e5"].last_attempt is None
    assert by_id["e5"].id == f"dlv_{seqs[4]}"
    assert (by_id["e3"].registration, by_id["e3"].lane) == ("reg_1", LANE)


async def test_a_delivery_is_found_by_its_id_or_that_of_its_event(store: Store, seqs: list[int]) -> None:
    found = await report(store, f"dlv_{seqs[3]}")
    assert found == await report(store, "e4")
    assert found.event == event("e4", kind="CONNECTION_UPDATE")
    assert found.attempts == (failed(0).attempt,)


async def test_a_report_has_the_newest_attempts(store: Store) -> None:
    await store.append(to("e1"))
    (seq,) = await seqs_of(store)
    await settle(store, *(failed(seq, number) for number in range(1, 1_101)))
    found = await report(store)
    assert [one.number for one in found.attempts] == list(range(101, 1_101))
    assert found.summary.attempts == 1_100


async def test_an_event_id_finds_its_newest_delivery(store: Store) -> None:
    await store.append([Append(event("e1"), (("reg_1", LANE), ("reg_2", "reg_2:0")))])
    assert (await report(store, "e1")).summary.registration == "reg_2"


@pytest.mark.parametrize("name", ["nobody", "dlv_999", "dlv_", "dlv_x", "foreign", ""])
async def test_names_that_an_instance_does_not_have(store: Store, seqs: list[int], name: str) -> None:
    assert await store.find_delivery("shop", name) is None


async def test_other_instances_find_nothing(store: Store, seqs: list[int]) -> None:
    assert await store.find_delivery("other", f"dlv_{seqs[0]}") is None
    assert await store.find_delivery("other", "e1") is None


async def test_an_event_may_have_the_id_of_a_delivery(store: Store) -> None:
    await store.append(to("dlv_77"))
    assert (await report(store, "dlv_77")).event.id == "dlv_77"


# Retention


@pytest.mark.parametrize("step", [1, 2, 200])
async def test_what_finished_before_a_time_is_removed(
    engine: Engine, store: Store, seqs: list[int], step: int
) -> None:
    engine.set_step(step)
    assert await store.enforce_retention(before=AT, limit=KEEP) == 0
    assert await store.enforce_retention(before=AT + 0.001, limit=KEEP) == 3
    assert await listed(store) == ["e5", "e4"]
    assert [made.number for made in (await report(store, "e4")).attempts] == [1]
    assert (await pending(store))[0].body == b"body"
    assert await store.find_delivery("shop", "e1") is None
    assert await store.enforce_retention(before=AT + 0.001, limit=KEEP) == 0


async def test_removed_events_are_no_duplicates(store: Store, seqs: list[int]) -> None:
    assert await store.append(to("e1", "e4")) == [False, False]
    await store.enforce_retention(before=AT + 1, limit=KEEP)
    assert await store.append(to("e1", "e4")) == [True, False]


async def test_an_event_stays_while_a_delivery_needs_it(store: Store) -> None:
    await store.append([Append(event("e1"), (("reg_1", LANE), ("reg_2", "reg_2:0")))])
    await settle(store, delivered((await seqs_of(store))[0]))
    assert await store.enforce_retention(before=AT + 1, limit=KEEP) == 1
    [left] = await pending(store, "reg_2:0")
    assert left.event == event("e1")
    await settle(store, delivered(left.seq))
    assert await store.enforce_retention(before=AT + 1, limit=KEEP) == 1
    assert await store.append(to("e1")) == [True]


async def test_events_without_deliveries_are_removed_by_their_age(store: Store) -> None:
    await store.append([Append(event(f"e{number}"), ()) for number in range(3)])
    assert await store.enforce_retention(before=AT, limit=KEEP) == 0
    assert await store.append(to("e1")) == [False]
    assert await store.enforce_retention(before=9e9, limit=KEEP) == 3
    assert await store.append(to("e1")) == [True]


async def test_a_history_over_its_size_loses_its_oldest(engine: Engine, store: Store) -> None:
    engine.set_step(20)
    text = '"' + "x" * 5_000 + '"'
    names = [f"e{number}" for number in range(400)]
    await store.append(to(*names, data=text))
    await store.append(to("waiting", registration="reg_2", data=text))
    await settle(store, *(delivered(seq) for seq in await seqs_of(store)))
    removed = await store.enforce_retention(before=AT, limit=10**6)
    left = await listed(store, limit=100)
    assert left[0] == "waiting"
    assert left[1:] == names[removed:][::-1]
    assert 60 < len(left) < 200, "a million bytes hold some of 400 deliveries with 5,000 bytes each"
    assert await ids_of(store, "reg_2:0") == ["waiting"]
    assert await store.enforce_retention(before=AT, limit=10**6) == 0


async def test_a_history_over_its_size_takes_from_those_that_hold_most(engine: Engine, store: Store) -> None:
    """The oldest deliveries, and the dead letters among them, are of an instance that holds little."""
    engine.set_step(20)
    text = '"' + "x" * 5_000 + '"'
    few, many = [f"f{number}" for number in range(30)], [f"e{number}" for number in range(400)]
    await finish(store, *few, instance="cafe", registration="reg_2", data=text)
    await finish(store, *many[:200], data=text)
    await finish(store, *many[200:], data=text)
    assert await store.enforce_retention(before=AT, limit=10**6) > 200
    assert await listed(store, instance="cafe", limit=100) == few[::-1]
    left = await listed(store, limit=100)
    assert left == many[::-1][: len(left)]
    assert len(left) > 30
    assert await store.enforce_retention(before=AT, limit=10**6) == 0


async def test_the_answers_of_receivers_count_for_the_size(engine: Engine, store: Store) -> None:
    """Small events whose receivers answer much take more than larger ones."""
    engine.set_step(20)
    await finish(store, *(f"f{number}" for number in range(100)), instance="cafe", data='"' + "x" * 500 + '"')
    await store.append(to(*(f"e{number}" for number in range(200))))
    for seq in await seqs_of(store):
        made = attempt(answer="y" * 4_000)
        store.settle_nowait(Settlement(seq=seq, state=DeliveryState.DELIVERED, at=AT, attempt=made))
    await store.flush()
    assert await store.enforce_retention(before=AT, limit=500_000) > 50
    assert len(await listed(store, instance="cafe", limit=100)) == 100


async def test_the_audit_is_no_history(store: Store) -> None:
    await finish(store, "e1")
    actor = Actor(kind=ActorKind.HOOKGW)
    long = [AuditEntry(at=AT, action="key.create", actor=actor, subject="x" * 10_000)] * 200
    await store.record_audit(long)
    assert await store.enforce_retention(before=0, limit=2**20) == 0
    assert await listed(store) == ["e1"]


async def test_what_is_pending_is_no_history(engine: Engine, store: Store) -> None:
    await store.append(to(*(f"e{number}" for number in range(400)), data='"' + "x" * 5_000 + '"'))
    assert await store.enforce_retention(before=AT, limit=10**6) == 0
    assert await store.enforce_retention(before=AT, limit=0) == 0
    assert len(await ids_of(store)) == 400


# Without a history


@pytest.mark.parametrize("end", [delivered(1), dead(1), dropped(1)], ids=lambda end: end.state)
async def test_without_a_history_a_settled_delivery_is_gone(engine: Engine, end: Settlement) -> None:
    async with engine.open(keep_history=False) as store:
        await store.append(to("e1", "e2"))
        assert await store.append(to("e1")) == [False]
        first, second = await seqs_of(store)
        await settle(store, failed(first, body=b"fixed"))
        [head, _] = await pending(store)
        assert (head.attempts, head.failures, head.body) == (1, 1, b"fixed")
        assert (await report(store, "e1")).attempts == ()
        await settle(store, Settlement(seq=first, state=end.state, at=AT, attempt=end.attempt))
        assert await store.find_delivery("shop", "e1") is None
        assert await seqs_of(store) == [second]
        assert await pending_of(store) == 1
        assert await store.append(to("e1", "e2")) == [False, False]
        assert await store.enforce_retention(before=9e9, limit=KEEP) == 0
        assert await store.append(to("e1", "e2")) == [True, False]


async def test_without_a_history_an_event_goes_with_its_last_delivery(engine: Engine) -> None:
    async with engine.open(keep_history=False) as store:
        await store.append([Append(event("e1"), (("reg_1", LANE), ("reg_2", "reg_2:0")))])
        await settle(store, failed((await seqs_of(store))[0]), delivered((await seqs_of(store))[0], number=2))
        assert await store.append(to("e1")) == [False]
        [left] = await pending(store, "reg_2:0")
        assert left.event == event("e1")
        await settle(store, delivered(left.seq))
        await store.enforce_retention(before=9e9, limit=KEEP)
        assert await store.append(to("e1")) == [True]


async def test_without_a_history_parked_deliveries_go_with_the_next_retention(engine: Engine) -> None:
    async with engine.open(keep_history=False) as store:
        await store.append([*to("e1"), Append(event("e2"), ())])
        assert await park(store, "reg_1", "off") == 1
        assert await store.resend("shop", (await report(store)).summary.seq, RULE) == LANE
        assert await park(store, "reg_1", "off") == 1
        assert await store.enforce_retention(before=9e9, limit=KEEP) == 2
        assert await store.append(to("e1", "e2")) == [True, True]


async def test_deliveries_to_registrations_of_the_configuration_can_be_left_out(store: Store) -> None:
    own, operators = ("reg_1", LANE), ("global_audit", "global_audit:0:shop")
    await store.append([Append(event("both"), (own, operators)), Append(event("theirs"), (operators,))])
    query = DeliveryQuery(instance="shop", without_global=True)
    (found,) = (await store.list_deliveries(query)).deliveries
    assert (found.event_id, found.registration) == ("both", "reg_1")
    for name in ("both", found.id):
        seen = await store.find_delivery("shop", name, without_global=True)
        assert seen is not None
        assert seen.summary.id == found.id
    newest = await store.find_delivery("shop", "both")
    assert newest is not None
    assert newest.summary.registration == "global_audit"
    for name in ("theirs", newest.summary.id):
        assert await store.find_delivery("shop", name, without_global=True) is None


async def test_an_id_alone_finds_the_instances_that_have_an_event_of_it(store: Store) -> None:
    for instance, name in (("shop", "e1"), ("other", "e1"), ("shop", "e2")):
        await store.append(to(name, instance=instance))
    found = {name: sorted(await store.instances_of_event(name, 10)) for name in ("e1", "e2", "e3", "\0")}
    assert found == {"e1": ["other", "shop"], "e2": ["shop"], "e3": [], "\0": []}
    assert len(await store.instances_of_event("e1", 1)) == 1


@pytest.mark.parametrize("keep_unwanted", [True, False])
async def test_the_content_of_an_event(engine: Engine, keep_unwanted: bool) -> None:
    async with engine.open(keep_unwanted=keep_unwanted) as store:
        await check_content(store, keep_unwanted=keep_unwanted)


async def check_content(store: Store, *, keep_unwanted: bool) -> None:
    for instance, name in (("shop", "dlv_1"), ("shop", "e1"), ("other", "e1")):
        await store.append(to(name, instance=instance, data=f'{{"of": "{instance} {name}"}}'))
    await store.append([Append(event("unwanted", data='{"of": "nobody"}'), ())])
    kind = event("e1").kind
    kept = (kind, b'{"of": "nobody"}') if keep_unwanted else None
    assert await store.find_content("shop", "unwanted") == kept
    assert await store.find_content("shop", "dlv_1") == (kind, b'{"of": "shop dlv_1"}')
    assert await store.find_content("shop", "e1") == (kind, b'{"of": "shop e1"}')
    assert await store.find_content("other", "e1") == (kind, b'{"of": "other e1"}')
    for instance, name in (("shop", "dlv_2"), ("nobody", "e1"), ("other", "dlv_1")):
        assert await store.find_content(instance, name) is None
