"""Cancelling: selected pending deliveries become dead letters, step by step."""

from typing import Any

import pytest
import trio

from hookgw import DeliveryState
from tests.public.records import Actor, ActorKind, AuditEntry, Job, JobKind
from tests.public.store import Append, AuditQuery, CancelQuery, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    RULE,
    Listener,
    dead,
    delivered,
    event,
    ids_of,
    listed,
    pending_of,
    report,
    seqs_of,
    settle,
    to,
)

REASON = "Cancelled with a global key."


async def cancel(store: Store, spared: tuple[int, ...] = (), **query: Any) -> dict[str, int]:
    """Cancel in steps; return how many there were, by registration."""
    asked = CancelQuery(**{"instance": "shop", "registrations": ("reg_1",)} | query)
    total: dict[str, int] = {}
    cursor: str | None = await store.cancel_cursor()
    while cursor is not None:
        step = await store.cancel_step(asked, REASON, cursor, spared=spared)
        cursor = step.cursor
        for name, count in step.counts.items():
            total[name] = total.get(name, 0) + count
    return total


@pytest.mark.parametrize("size", [1, 2, 2500])
@pytest.mark.parametrize(
    ("query", "left"),
    [
        ({}, "other"),
        ({"kinds": ("CALL",)}, "e1 e2 e4 other"),
        ({"kinds": ("CALL", "MESSAGES_UPSERT", "NONE")}, "other"),
        ({"kinds": ("NONE",)}, "e1 e2 e3 e4 other"),
        ({"registrations": ("reg_2",)}, "e1 e2 e3 e4"),
        ({"registrations": ("reg_1", "reg_2")}, ""),
        ({"registrations": ()}, "e1 e2 e3 e4 other"),
        ({"instance": "nobody"}, "e1 e2 e3 e4 other"),
        ({"since": 0.0, "until": 1.0}, "e1 e2 e3 e4 other"),
    ],
)
async def test_what_is_cancelled(
    engine: Engine, store: Store, query: dict[str, Any], left: str, size: int
) -> None:
    engine.set_step(size)
    await store.append(to("e1", "e2"))
    await store.append(to("e3", kind="CALL"))
    await store.append(to("e4", lane="reg_1:0:5"))
    await store.append(to("other", registration="reg_2"))
    await store.append(to("foreign", instance="other"))
    before = [f"e{number}" for number in range(1, 5)] + ["other"]
    expected = left.split()
    counts = await cancel(store, **query)
    assert sum(counts.values()) == len(before) - len(expected)
    assert sorted(await listed(store, state=DeliveryState.PENDING)) == expected
    assert "foreign" in await ids_of(store)
    assert await pending_of(store) == len(expected) + 1


async def test_a_cancelled_one_says_why_and_can_be_resent(store: Store) -> None:
    await store.append(to("e1"))
    assert await cancel(store) == {"reg_1": 1}
    found = await report(store)
    assert (found.summary.state, found.summary.reason) == (DeliveryState.DEAD, REASON)
    await store.resend("shop", found.summary.seq, RULE)
    assert await ids_of(store) == ["e1"]


async def test_the_time_of_acceptance_selects(store: Store) -> None:
    for name in ("e1", "e2", "e3"):
        await store.append(to(name))
    second, third = [(await report(store, name)).summary.accepted_at for name in ("e2", "e3")]
    assert await cancel(store, since=second, until=third) == {"reg_1": 1}
    assert await ids_of(store) == ["e1", "e3"]


async def test_spared_ones_and_later_ones_stay(engine: Engine, store: Store) -> None:
    engine.set_step(1)
    await store.append(to("e1", "e2", "e3"))
    one, two, _ = await seqs_of(store)
    cursor = await store.cancel_cursor()
    await store.append(to("later"))
    await settle(store, dead(one))
    await store.resend("shop", one, RULE)  # behind the newest one of the call
    query = CancelQuery(instance="shop", registrations=("reg_1",))
    step = await store.cancel_step(query, REASON, cursor, spared=[two])
    while step.cursor is not None:
        step = await store.cancel_step(query, REASON, step.cursor, spared=[two])
    assert sorted(await ids_of(store)) == ["e1", "e2", "later"]
    while (step := await store.cancel_step(query, REASON, step.cursor or cursor)).cursor is not None:
        pass
    assert sorted(await ids_of(store)) == ["e1", "later"]


async def test_the_listener_hears_of_deliveries_and_bytes(store: Store) -> None:
    await store.append([Append(event("e1", data='"xyz"'), (("reg_1", "reg_1:0"), ("reg_2", "reg_2:0")))])
    listener = Listener()
    store.subscribe(listener)
    await cancel(store, registrations=("reg_1", "reg_2"))
    assert listener.calls == [("changed", {("reg_1", "shop"): (-1, -5), ("reg_2", "shop"): (-1, -5)})]


async def test_the_job_is_stored_with_its_steps(engine: Engine, store: Store) -> None:
    engine.set_step(2)
    await store.append(to(*(f"e{number}" for number in range(5))))
    query = CancelQuery(instance="shop", registrations=("reg_1",))
    cursor = await store.cancel_cursor()
    job = Job(id="job_1", kind=JobKind.CANCEL, instance="shop", started=1.0, cursor=cursor)
    first = await store.cancel_step(query, REASON, cursor, job=job)
    assert (await store.load_jobs())["job_1"] == job.advanced(2, cursor)
    assert first.cursor is not None
    second = await store.cancel_step(query, REASON, first.cursor, job=job.advanced(2, cursor))
    assert second.cursor is not None
    last = await store.cancel_step(query, REASON, second.cursor, job=job.advanced(4, cursor))
    assert last.cursor is None
    assert (await store.load_jobs())["job_1"].done == 5


async def test_one_step_needs_no_record(store: Store) -> None:
    await store.append(to("e1"))
    query = CancelQuery(instance="shop", registrations=("reg_1",))
    cursor = await store.cancel_cursor()
    job = Job(id="job_1", kind=JobKind.CANCEL, instance="shop", started=1.0, cursor=cursor)
    step = await store.cancel_step(query, REASON, cursor, job=job)
    assert (step.counts, step.cursor) == ({"reg_1": 1}, None)
    assert await store.load_jobs() == {}


async def test_a_step_of_a_stored_job_that_finds_nothing_writes_nothing(engine: Engine, store: Store) -> None:
    """A job over all instances has thousands of these."""
    query = CancelQuery(instance="shop", registrations=("reg_1",))
    cursor = await store.cancel_cursor()
    job = Job(id="job_1", kind=JobKind.CANCEL, instance="shop", started=1.0, cursor=cursor)
    async with engine.refuse(store):
        step = await store.cancel_step(query, REASON, cursor, job=job, is_stored=True)
    assert (step.counts, step.cursor) == ({}, None)


@pytest.mark.parametrize(("most", "counted"), [(1, 1), (4, 4), (5, 5), (100, 5)])
async def test_count(engine: Engine, store: Store, most: int, counted: int) -> None:
    engine.set_step(2)
    await store.append(to(*(f"e{number}" for number in range(5))))
    query = CancelQuery(instance="shop", registrations=("reg_1",))
    assert sum((await store.count_cancellable(query, most)).values()) == counted


async def test_one_delivery_is_cancelled_and_no_other(store: Store) -> None:
    await store.append(to("e1", "e2", "e3"))
    second = (await report(store, "e2")).summary.seq
    assert await store.cancel_one(second, REASON)
    found = await report(store, "e2")
    assert (found.summary.state, found.summary.reason) == (DeliveryState.DEAD, REASON)
    assert found.summary.finished_at is not None
    assert await ids_of(store) == ["e1", "e3"]
    assert await pending_of(store) == 2
    await store.resend("shop", second, RULE)
    assert await ids_of(store) == ["e1", "e3", "e2"]


async def test_a_settlement_before_the_cancellation_wins_and_a_later_one_is_ignored(store: Store) -> None:
    await store.append(to("e1", "e2"))
    first, second = [(await report(store, name)).summary.seq for name in ("e1", "e2")]
    store.settle_nowait(delivered(first))
    assert not await store.cancel_one(first, REASON)
    assert (await report(store, "e1")).summary.state is DeliveryState.DELIVERED
    assert await store.cancel_one(second, REASON)
    store.settle_nowait(delivered(second))
    await store.flush()
    found = (await report(store, "e2")).summary
    assert (found.state, found.reason) == (DeliveryState.DEAD, REASON)


async def test_of_two_cancellations_at_once_one_cancels(store: Store) -> None:
    await store.append(to("e1"))
    seq = (await report(store)).summary.seq
    answers = []

    async def cancel_it() -> None:
        answers.append(await store.cancel_one(seq, REASON))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_it)
        nursery.start_soon(cancel_it)
    assert sorted(answers) == [False, True]
    assert not await store.cancel_one(seq, REASON)
    assert not await store.cancel_one(10**9, REASON)


async def test_the_commit_that_cancels_one_writes_the_audit(store: Store) -> None:
    await store.append(to("e1"))
    seq = (await report(store)).summary.seq
    entry = AuditEntry(at=1.0, action="delivery.cancel", actor=Actor(kind=ActorKind.HOOKGW), subject="dlv_1")
    assert await store.cancel_one(seq, REASON, audit=[entry])
    assert not await store.cancel_one(seq, REASON, audit=[entry])
    assert [one.subject for one in (await store.list_audit(AuditQuery())).entries] == ["dlv_1"]


async def test_the_listener_hears_of_the_one_that_is_cancelled(store: Store) -> None:
    await store.append([Append(event("e1", data='"xyz"'), (("reg_1", "reg_1:0"),))])
    listener = Listener()
    store.subscribe(listener)
    await store.cancel_one((await report(store)).summary.seq, REASON)
    assert listener.calls == [("changed", {("reg_1", "shop"): (-1, -5)})]
