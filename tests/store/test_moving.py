"""Pending deliveries moved to other lanes, or parked."""

from __future__ import annotations

import pytest

from hookgw.deliveries import DeliveryState
from hookgw.events import Event
from hookgw.registrations import Registration
from hookgw.store import Append, DeliveryQuery, Store, moving
from hookgw.store import store as store_module
from tests.store.support import AT, LANE, dead, delivered, event, failed, ids_of, seqs_of, to

OLD, NEW = "http://old.test", "http://new.test"


async def fill(store: Store) -> list[int]:
    """Five for the registration in the old lane, one of another there, one in the new lane."""
    await store.append(to("m1", "m2", "m3", "m4", "m5", lane=OLD))
    await store.append(to("other", lane=OLD, registration="reg_2"))
    await store.append(to("there", lane=NEW, registration="reg_3"))
    return await seqs_of(store, OLD)


async def test_a_move_keeps_numbers_bodies_and_what_is_not_its_own(store: Store) -> None:
    seqs = await fill(store)
    await store.settle(failed(seqs[0], body=b"fixed"))
    await store.settle(delivered(seqs[1]))
    assert await store.relane("reg_1", [OLD], NEW) == [NEW]
    moved = (await store.page(NEW, 0, 10)).deliveries
    assert [d.seq for d in moved] == [seqs[0], *seqs[2:5], seqs[5] + 1]
    assert (moved[0].body, moved[0].attempts) == (b"fixed", 1)
    assert await ids_of(store, OLD) == ["other"]


async def test_a_move_by_a_function_that_sees_the_event(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "RELANE_PAGE", 2)
    seqs = await fill(store)

    def by_number(moved: Event) -> str:
        assert (moved.kind, moved.instance, moved.data) == ("MESSAGES_UPSERT", "shop", {})
        return f"{NEW}#{int(moved.id[1:]) % 2}"

    assert await store.relane("reg_1", [OLD], by_number) == [f"{NEW}#0", f"{NEW}#1"]
    assert await seqs_of(store, f"{NEW}#0") == [seqs[1], seqs[3]]
    assert await seqs_of(store, f"{NEW}#1") == [seqs[0], seqs[2], seqs[4]]


async def test_a_move_within_the_same_lanes_ends(store: Store) -> None:
    seqs = await fill(store)
    assert await store.relane("reg_1", [OLD, NEW], lambda _: OLD) == [OLD]
    assert await seqs_of(store, OLD) == seqs


@pytest.mark.parametrize("lane_of", [NEW, lambda _: NEW], ids=["constant", "function"])
async def test_nothing_to_move(store: Store, lane_of) -> None:  # type: ignore[no-untyped-def]
    assert await store.relane("reg_1", [OLD], lane_of) == []


async def test_a_registration_and_its_move_share_a_commit(store: Store) -> None:
    seqs = await fill(store)
    registration = Registration(id="reg_1", instance="shop", url=NEW)
    await store.put_registration(registration, relane=([OLD], lambda _: NEW))
    assert await store.load_registrations() == {"reg_1": registration}
    assert (await seqs_of(store, NEW))[:5] == seqs[:5]


async def test_parking_makes_dead_letters(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PARK_STEP", 2)
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


async def test_parking_spares_what_is_on_the_wire(store: Store) -> None:
    seqs = await fill(store)
    assert await store.park("reg_1", [OLD], "off", AT, spared=[seqs[0], seqs[3]]) == 3
    assert await seqs_of(store, OLD) == [seqs[0], seqs[3], seqs[5]]


async def test_parking_keeps_to_the_lanes_that_are_named(store: Store) -> None:
    await store.append([Append(event("e1"), (("reg_1", LANE), ("reg_1", NEW)))])
    assert await store.park("reg_1", [LANE], "off", AT) == 1
    assert await ids_of(store, NEW) == ["e1"]
