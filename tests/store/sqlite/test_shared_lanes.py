"""Lanes in which many instances have deliveries: reads of them are bounded."""

import pytest

from tests.public.store import Store
from tests.store.support import RULE, to


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8])
async def test_a_lane_is_counted_part_by_part(
    store: Store, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr("hookgw.store.sqlite.outbox.COUNTED_ROWS", rows)
    for number in range(7):
        await store.append(to(f"{number}", instance=["shop", "mall"][number % 2], data=f'"{number}"'))
    assert await store.pending_counts() == {("reg_1", "shop"): (4, 12), ("reg_1", "mall"): (3, 9)}


async def test_the_search_in_a_lane_of_many_instances_is_bounded(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.store.sqlite.dead_letters.MOST_SEARCHED", 40)
    await store.append(to(*(f"loud{number}" for number in range(50))))
    await store.append(to("quiet", instance="mall"))
    assert (await store.drop_oldest(RULE, "mall", "full", count=1, size=0))[0] == 0
    assert (await store.drop_oldest(RULE, "shop", "full", count=10, size=0))[0] == 10
    assert (await store.drop_oldest(RULE, "mall", "full", count=1, size=0))[0] == 1
