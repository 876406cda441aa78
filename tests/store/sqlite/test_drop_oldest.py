"""Giving up the oldest of a registration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookgw.models.deliveries import DeliveryState
from hookgw.store import Append, DeliveryQuery, Store
from hookgw.store.sqlite.store_pending import MOVING_STEP
from tests.store.sqlite.support import event, ids_of, opened, to

LANES = [f"http://receiver.test/hook#{number}" for number in range(3)]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Nine events in three lanes in turn, with payloads of 3, 4, 5 … bytes; and two of another one."""
    async with opened(tmp_path / "hookgw.db") as store:
        for number in range(9):
            payload = event(f"e{number}", data=f'"{"x" * (number + 1)}"')
            await store.append([Append(payload, (("reg_1", LANES[number % 3]),))])
        await store.append(to("other1", "other2", lane=LANES[0], registration="reg_2"))
        yield store


async def left(store: Store) -> list[str]:
    found = [name for lane in LANES for name in await ids_of(store, lane)]
    return sorted(name for name in found if name.startswith("e"))


@pytest.mark.parametrize(
    ("count", "size", "dropped"),
    [
        (1, 0, 1),
        (4, 0, 4),
        (9, 0, 9),
        (100, 0, 9),
        (0, 1, 1),
        (0, 3, 1),
        (0, 4, 2),
        (0, 7, 2),
        (0, 8, 3),
        (3, 1, 3),
        (0, 0, 0),
    ],
)
async def test_the_oldest_over_all_lanes_go_until_there_are_enough(
    store: Store, count: int, size: int, dropped: int
) -> None:
    assert await store.drop_oldest("reg_1", LANES, "full", count=count, size=size) == dropped
    assert await left(store) == [f"e{number}" for number in range(dropped, 9)]
    assert (await store.pending_by_registration())["reg_2"] == (2, 4)


async def test_what_is_on_the_wire_is_spared(store: Store) -> None:
    assert await store.drop_oldest("reg_1", LANES, "full", count=2, size=0, spared=[1, 3]) == 2
    assert await left(store) == ["e0", "e2", *(f"e{number}" for number in range(4, 9))]


async def test_they_are_dead_letters_that_say_why(store: Store) -> None:
    await store.drop_oldest("reg_1", LANES, "The backlog is full.", count=1, size=0)
    [dead] = await store.list_deliveries(DeliveryQuery(instance="shop", state=DeliveryState.DEAD))
    assert (dead.event_id, dead.reason) == ("e0", "The backlog is full.")
    assert dead.finished_at is not None


async def test_one_step_is_bounded(tmp_path: Path) -> None:
    async with opened(tmp_path / "many.db") as store:
        await store.append(to(*map(str, range(MOVING_STEP + 1)), lane=LANES[0]))
        assert await store.drop_oldest("reg_1", LANES, "full", count=MOVING_STEP + 1, size=0) == MOVING_STEP
        assert await ids_of(store, LANES[0]) == [str(MOVING_STEP)]
