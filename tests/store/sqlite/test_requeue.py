"""Finished deliveries that become pending again: resent, replayed."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from hookgw.models.deliveries import DeliveryState, Settlement
from hookgw.models.events import Event
from hookgw.models.registrations import Ordering, Registration, lane_of
from hookgw.store import Append, DeliveryQuery, ReplayQuery, Store
from hookgw.store.sqlite import store_requeue as requeue_access
from tests.store.sqlite.support import (
    AT,
    LANE,
    child,
    dead,
    delivered,
    event,
    failed,
    hold_commits,
    ids_of,
    opened,
    pending,
    seqs_of,
    to,
)

OTHER = "http://other.test"
HERE = Registration(id="reg_1", instance="shop", url=LANE)
THERE = Registration(id="reg_2", instance="shop", url=OTHER)
BOTH = {"reg_1": HERE, "reg_2": THERE}


def here() -> dict[str, Registration]:
    return {"reg_1": HERE}


async def finish(store: Store, *names: str, **more: str) -> list[int]:
    """Append events and make their deliveries dead letters."""
    before = set(await seqs_of(store, more.get("lane", LANE)))
    await store.append(to(*names, **more))
    seqs = [seq for seq in await seqs_of(store, more.get("lane", LANE)) if seq not in before]
    for seq in seqs:
        await store.settle(dead(seq, reason="off"))
    return seqs


# One


async def test_a_resent_delivery_is_at_the_end_and_begins_anew(store: Store) -> None:
    await store.append(to("e1", "e2"))
    first, _ = await seqs_of(store)
    await store.settle(failed(first, body=b"fixed"))
    await store.settle(dead(first, number=2, reason="off"))
    assert await store.resend("shop", first, LANE) == LANE
    await store.append(to("e3"))
    second, again, third = await pending(store)
    assert [d.event.id for d in (second, again, third)] == ["e2", "e1", "e3"]
    assert second.position < again.position < third.position == third.seq
    assert (again.seq, again.attempts, again.failures, again.next_at) == (first, 2, 0, 0.0)
    assert again.body == b"body"
    assert again.accepted_at < again.queued_at
    found = await store.find_delivery("shop", f"dlv_{first}")
    assert found is not None
    assert (found.summary.state, found.summary.reason) == (DeliveryState.PENDING, None)
    assert found.summary.finished_at is None
    assert [attempt.number for attempt in found.attempts] == [1, 2]
    assert store.statistics().pending == 3


@pytest.mark.parametrize("lane_of", [OTHER, lambda resent: f"http://{resent.id}.test"])
async def test_a_resent_delivery_goes_to_the_lane_of_now(store: Store, lane_of) -> None:  # type: ignore[no-untyped-def]
    [seq] = await finish(store, "other")
    assert await store.resend("shop", seq, lane_of) == OTHER
    assert (await ids_of(store), await ids_of(store, OTHER)) == ([], ["other"])


async def test_what_cannot_be_resent(store: Store) -> None:
    [seq] = await finish(store, "e1")
    await store.append(to("e2"))
    [waiting] = await seqs_of(store)
    assert await store.resend("other", seq, LANE) is None
    assert await store.resend("shop", seq + 1_000, LANE) is None
    assert await store.resend("shop", waiting, LANE) is None
    assert await store.resend("shop", seq, LANE) == LANE
    assert await store.resend("shop", seq, LANE) is None
    assert await seqs_of(store) == [waiting, seq]


async def test_positions_outlast_a_restart(path: Path) -> None:
    async with opened(path) as store:
        [seq] = await finish(store, "e1")
        for _ in range(3):
            await store.resend("shop", seq, LANE)
            await store.settle(dead(seq))
        await store.resend("shop", seq, LANE)
    async with opened(path) as store:
        await store.append(to("e2"))
        assert await ids_of(store) == ["e1", "e2"]


async def test_lanes_hear_of_it_before_what_was_appended_by_the_same_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a lane would go on with the appended one, and pass over the one that came back before it."""
    first, second = await finish(store, "e1", "e2")
    heard: list[object] = []
    store.on_appended = lambda deliveries: heard.extend(delivery.event.id for delivery in deliveries)
    store.on_requeued = lambda lanes: heard.append(dict(lanes))

    async def resend(seq: int, lane: str) -> None:
        await store.resend("shop", seq, lane)
        heard.append("resent")

    began, disk = hold_commits(monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.append, to("e3"))
        await trio.to_thread.run_sync(began.wait)
        # The others gather for the next commit, in this order.
        nursery.start_soon(store.append, to("before"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(resend, first, LANE)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(store.append, to("after"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(resend, second, OTHER)
        await trio.testing.wait_all_tasks_blocked()
        disk.set()
    assert heard == ["e3", {LANE: 1, OTHER: 1}, "before", "after", "resent", "resent"]
    assert await ids_of(store) == ["e3", "before", "e1", "after"]


async def test_a_resend_that_fails_tells_nobody(store: Store) -> None:
    [seq] = await finish(store, "e1")
    heard: list[object] = []
    store.on_requeued = heard.append

    def broken(_: Event) -> str:
        raise LookupError("no lane")

    with pytest.raises(LookupError):
        await store.resend("shop", seq, broken)

    def half(transaction) -> None:  # type: ignore[no-untyped-def]
        assert transaction.requeue({seq: LANE}, 100, AT) == 1
        raise LookupError("after it")

    with pytest.raises(LookupError):
        await store.write(half)
    assert heard == []
    assert store.statistics().pending == 0
    assert await ids_of(store) == []


# Many


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "e2 e4"),
        ({"state": "all"}, "e1 e2 e3 e4"),
        ({"kinds": ("CONNECTION_UPDATE",)}, "e4"),
        ({"kinds": ("CONNECTION_UPDATE", "MESSAGES_UPSERT", "NONE")}, "e2 e4"),
        ({"kinds": ("NONE",)}, ""),
        ({"instance": "nobody"}, ""),
        ({"instance": "other"}, "foreign"),
    ],
)
async def test_what_is_replayed(store: Store, query: dict[str, object], expected: str) -> None:
    await store.append(to("e1", "e2", "e3"))
    await store.append([Append(event("e4", kind="CONNECTION_UPDATE"), (("reg_1", LANE),))])
    await store.append(to("foreign", instance="other"))
    await store.append(to("later"))
    one, two, three, four, foreign, _ = await seqs_of(store)
    await store.settle(delivered(one))
    await store.settle(dead(two))
    await store.settle(Settlement(seq=three, state=DeliveryState.DROPPED, at=AT))
    await store.settle(dead(four))
    await store.settle(dead(foreign))
    asked = ReplayQuery(**{"instance": "shop"} | query)  # type: ignore[arg-type]
    assert await store.replay(asked, here) == len(expected.split())
    assert await ids_of(store) == ["later", *expected.split()]


async def test_since_and_until_bound_the_time_of_acceptance(store: Store) -> None:
    for name in ("e1", "e2", "e3"):
        await finish(store, name)
    listed = await store.list_deliveries(DeliveryQuery(instance="shop"))
    third, second, first = (delivery.accepted_at for delivery in listed)
    assert first < second < third
    query = ReplayQuery(instance="shop", since=second, until=third)
    assert await store.replay(query, here) == 1
    assert await ids_of(store) == ["e2"]


async def test_a_replay_keeps_the_original_order_through_all_its_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requeue_access, "REPLAY_STEP", 2)
    names = [f"e{number}" for number in range(7)]
    seqs = await finish(store, *names)
    await store.resend("shop", seqs[0], LANE)
    await store.settle(dead(seqs[0]))  # it was last in the lane, and is first in the original order
    told: list[int] = []
    assert await store.replay(ReplayQuery(instance="shop"), here, progress=told.append) == 7
    assert told == [2, 4, 6, 7]
    assert await ids_of(store) == names
    assert await store.replay(ReplayQuery(instance="shop"), here) == 0


async def test_others_have_their_turn_and_what_finishes_meanwhile_is_left(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requeue_access, "REPLAY_STEP", 2)
    seqs = await finish(store, "e0", "e1", "e2", "e3")
    new: list[int] = []

    async def interfere() -> None:
        new.extend(await finish(store, "new", lane=OTHER))
        await store.settle(delivered(seqs[0]))
        await step_done.wait()

    step_done = trio.Event()
    async with trio.open_nursery() as nursery:

        def progress(count: int) -> None:
            if count == 2:
                nursery.start_soon(interfere)
            step_done.set()

        assert await store.replay(ReplayQuery(instance="shop"), here, progress=progress) == 4
    assert await ids_of(store) == ["e1", "e2", "e3"]


async def test_registrations_are_asked_anew_for_each_step(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requeue_access, "REPLAY_STEP", 1)
    await finish(store, "e1", "e2", "e3")
    now = {"reg_1": HERE}

    def progress(count: int) -> None:
        if count == 1:
            now["reg_1"] = msgspec.structs.replace(HERE, url=OTHER)
        else:
            del now["reg_1"]

    assert await store.replay(ReplayQuery(instance="shop"), lambda: dict(now), progress=progress) == 2
    assert (await ids_of(store), await ids_of(store, OTHER)) == (["e1"], ["e2"])


async def test_a_registration_that_moves_while_its_deliveries_are_sought(store: Store) -> None:
    await finish(store, "e1")
    answers = [HERE, THERE, THERE, THERE, THERE, THERE]

    def registrations() -> dict[str, Registration]:
        return {"reg_1": answers.pop(0)}

    assert await store.replay(ReplayQuery(instance="shop"), registrations) == 1
    assert (await ids_of(store), await ids_of(store, OTHER)) == ([], ["e1"])


async def test_partitions_get_what_is_theirs(store: Store) -> None:
    spread = msgspec.structs.replace(HERE, ordering=Ordering.NONE, concurrency=3)
    names = [f"e{number}" for number in range(9)]
    await finish(store, *names)
    await finish(store, "other", registration="reg_2", lane=OTHER)
    await finish(store, "deleted", registration="reg_3")
    heard: list[dict[str, int]] = []
    store.on_requeued = lambda lanes: heard.append(dict(lanes))
    taking_part = {"reg_1": spread, "reg_2": THERE}
    assert await store.replay(ReplayQuery(instance="shop"), lambda: taking_part) == 10
    places = {name: lane_of(spread, event(name)) for name in names} | {"other": OTHER}
    assert len(set(places.values())) == 4
    for lane in set(places.values()):
        assert await ids_of(store, lane) == [name for name in places if places[name] == lane]
    assert heard == [{lane: list(places.values()).count(lane) for lane in places.values()}]


async def test_what_was_settled_just_before_is_replayed(store: Store) -> None:
    await store.append(to("e1"))
    [seq] = await seqs_of(store)
    store.settle_nowait(dead(seq))
    assert await store.replay(ReplayQuery(instance="shop"), here) == 1


async def test_a_replay_of_nothing(store: Store) -> None:
    assert await store.replay(ReplayQuery(instance="shop"), here) == 0


REPLAY = """
import sys
from pathlib import Path
import trio
import trio.testing
from hookgw.models.clock import Clock
from hookgw.models.registrations import Registration
from hookgw.store import ReplayQuery, open_store
from hookgw.store.sqlite import store_requeue as requeue_access

requeue_access.REPLAY_STEP = 10

async def main():
    async with open_store(Path(sys.argv[1]), clock=Clock()) as store:
        registrations = {"reg_1": Registration(id="reg_1", instance="shop", url=sys.argv[2])}
        def progress(count):
            sys.stdout.write(f"{count}\\n")
            sys.stdout.flush()
        await store.replay(ReplayQuery(instance="shop"), lambda: registrations, progress=progress)

trio.run(main)
"""


@pytest.mark.parametrize("after", [1, 7])
async def test_a_kill_during_a_replay_leaves_each_delivery_in_one_state(path: Path, after: int) -> None:
    names = [f"e{number}" for number in range(400)]
    async with opened(path) as store:
        await store.append(to(*names))
        for seq in await seqs_of(store):
            store.settle_nowait(dead(seq))
        await store.flush()
    replaying = child(REPLAY, path, LANE)
    assert replaying.stdout is not None
    told = [int(replaying.stdout.readline()) for _ in range(after)]
    replaying.send_signal(signal.SIGKILL)
    replaying.communicate(timeout=60)
    async with opened(path) as store:
        came_back = await ids_of(store)
        assert len(came_back) >= told[-1] == 10 * after
        assert came_back == names[: len(came_back)]
        assert store.statistics().pending == len(came_back)
        rest = await store.replay(ReplayQuery(instance="shop"), here)
        assert rest == len(names) - len(came_back)
        await store.append(to("new"))
        assert await ids_of(store) == [*names, "new"]
