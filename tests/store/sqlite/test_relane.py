"""Pending deliveries moved to other lanes, or parked."""

from __future__ import annotations

import pytest
import trio
from hookgw.store.sqlite.relane import START, Cursor

from hookgw.models.deliveries import DeliveryState
from hookgw.models.events import Event
from hookgw.models.registrations import Registration
from hookgw.store import Append, DeliveryQuery, Store
from hookgw.store.sqlite import relane as moving
from hookgw.store.sqlite import store_pending as moving_access
from tests.store.sqlite.support import (
    AT,
    LANE,
    Watch,
    dead,
    delivered,
    event,
    failed,
    ids_of,
    opened,
    seqs_of,
    to,
)

OLD, NEW = "http://old.test", "http://new.test"


@pytest.fixture(params=[1, 2, 2500], ids=lambda step: f"steps of {step}")
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many deliveries a step looks at."""
    monkeypatch.setattr(moving_access, "MOVING_STEP", request.param)
    size: int = request.param
    return size


async def fill(store: Store) -> list[int]:
    """Five for the registration in the old lane, one of another among them, one in the new lane."""
    await store.append(to("m1", "m2", lane=OLD))
    await store.append(to("other", lane=OLD, registration="reg_2"))
    await store.append(to("m3", "m4", "m5", lane=OLD))
    await store.append(to("there", lane=NEW, registration="reg_3"))
    return [seq for seq in await seqs_of(store, OLD) if seq != 3]


async def test_a_move_keeps_numbers_bodies_and_what_is_not_its_own(store: Store, step: int) -> None:
    seqs = await fill(store)
    await store.settle(failed(seqs[0], body=b"fixed"))
    await store.settle(delivered(seqs[1]))
    await store.relane("reg_1", [OLD], NEW)
    moved = (await store.page(NEW, 0, 10)).deliveries
    assert [d.seq for d in moved] == [seqs[0], *seqs[2:5], seqs[4] + 1]
    assert (moved[0].body, moved[0].attempts) == (b"fixed", 1)
    assert await ids_of(store, OLD) == ["other"]


async def test_a_move_by_a_function_that_sees_the_event(store: Store, step: int) -> None:
    seqs = await fill(store)

    def by_number(moved: Event) -> str:
        assert (moved.kind, moved.instance, moved.data) == ("MESSAGES_UPSERT", "shop", {})
        return f"{NEW}#{int(moved.id[1:]) % 2}"

    await store.relane("reg_1", [OLD, f"{NEW}#0", f"{NEW}#1"], by_number)
    assert await seqs_of(store, f"{NEW}#0") == [seqs[1], seqs[3]]
    assert await seqs_of(store, f"{NEW}#1") == [seqs[0], seqs[2], seqs[4]]


async def test_a_move_by_a_function_reads_no_more_than_some_bytes_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MOST_READ", 4)  # a payload has two bytes
    seqs = await fill(store)
    places: list[Cursor | None] = [START]
    while (place := places[-1]) is not None:
        places.append(await store.relane_some("reg_1", [OLD, NEW], lambda _: NEW, place))
        assert len(await ids_of(store, OLD)) >= 6 - 2 * (len(places) - 1)
    assert len(places) > 3
    assert (await seqs_of(store, NEW))[:5] == seqs


@pytest.mark.parametrize("size", [2, 3])
async def test_one_payload_that_is_larger_than_those_bytes_is_moved_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(moving, "MOST_READ", size - 1)
    await fill(store)
    place = await store.relane_some("reg_1", [OLD], lambda _: NEW)
    assert await ids_of(store, OLD) == ["m2", "other", "m3", "m4", "m5"]
    assert place is not None


async def test_a_move_within_the_same_lanes_ends(store: Store, step: int) -> None:
    seqs = await fill(store)
    await store.relane("reg_1", [OLD, NEW], lambda _: OLD)
    await store.relane("reg_1", [NEW, OLD], OLD)
    assert [seq for seq in await seqs_of(store, OLD) if seq != 3] == seqs


@pytest.mark.parametrize("lane_of", [NEW, lambda _: NEW], ids=["constant", "function"])
async def test_nothing_to_move(store: Store, lane_of) -> None:  # type: ignore[no-untyped-def]
    assert await store.relane_some("reg_1", [OLD], lane_of) is None


async def test_others_write_between_the_steps(path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(moving_access, "MOVING_STEP", 1)
    watch = Watch()
    async with opened(path, watch) as store:
        await fill(store)
        commits = watch.commits
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.relane, "reg_1", [OLD], NEW)
            # Wait on the Trio thread alone: a read runs in a worker thread, and on a busy machine the move
            # is over before that thread has answered.
            while watch.commits == commits:
                await trio.lowlevel.checkpoint()
            await store.append(to("meanwhile", lane=NEW))
            assert watch.commits - commits < 6
        assert watch.commits - commits >= 6
        assert await ids_of(store, NEW) == ["m1", "m2", "m3", "m4", "m5", "there", "meanwhile"]


async def test_the_last_step_takes_the_note_of_the_move_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving_access, "MOVING_STEP", 4)
    await fill(store)
    registration = Registration(id="reg_1", instance="shop", url=NEW)
    await store.put_registration(registration, moving=[OLD])
    assert await store.load_registrations() == {"reg_1": registration}
    place = await store.relane_some("reg_1", [OLD], NEW)
    assert await store.load_moves() == {"reg_1": [OLD]}
    assert place is not None
    assert await store.relane_some("reg_1", [OLD], NEW, place) is None
    assert await store.load_moves() == {}


async def test_the_lanes_of_a_registration_of_the_configuration(store: Store) -> None:
    await store.put_lanes("lanes", ["a"], "global_1", [])
    assert await store.load_moves() == {}
    await store.put_lanes("lanes", ["b"], "global_1", ["a"])
    await store.put_lanes("lanes", "c", "global_1", ["b", "a"])
    assert await store.load_moves() == {"global_1": ["a", "b"]}
    assert await store.get_value("lanes") == "c"
    await store.forget_move("global_1")
    await store.forget_move("global_1")
    assert await store.load_moves() == {}


async def test_parking_makes_dead_letters(store: Store, step: int) -> None:
    seqs = await fill(store)
    await store.settle(dead(seqs[0], reason="before"))
    assert await store.park("reg_1", [OLD, NEW], "The registration was deleted.", AT) == 4
    assert await ids_of(store, OLD) == ["other"]
    letters = await store.list_deliveries(DeliveryQuery(instance="shop", state=DeliveryState.DEAD))
    assert [(letter.seq, letter.reason, letter.finished_at) for letter in letters] == [
        *((seq, "The registration was deleted.", AT) for seq in reversed(seqs[1:5])),
        (seqs[0], "before", AT),
    ]
    assert store.statistics().pending == 2
    assert await store.park("reg_1", [OLD, NEW], "again", AT) == 0


async def test_parking_spares_what_is_on_the_wire(store: Store, step: int) -> None:
    seqs = await fill(store)
    assert await store.park("reg_1", [OLD], "off", AT, spared=[seqs[0], seqs[3]]) == 3
    assert await ids_of(store, OLD) == ["m1", "other", "m4"]


async def test_parking_keeps_to_the_lanes_that_are_named(store: Store) -> None:
    await store.append([Append(event("e1"), (("reg_1", LANE), ("reg_1", NEW)))])
    assert await store.park("reg_1", [LANE], "off", AT) == 1
    assert await ids_of(store, NEW) == ["e1"]
