"""What is told of how the pending deliveries change."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookgw.store import Transaction
from hookgw.store.sqlite.pending_counts import Change, added, counted
from hookgw.store.sqlite.relane import START
from tests.store.sqlite.support import AT, LANE, delivered, failed, opened, seqs_of, to


@pytest.mark.parametrize(
    ("first", "second", "sign", "total"),
    [
        ({}, {}, 1, {}),
        ({"a": (1, 10)}, {}, 1, {"a": (1, 10)}),
        ({}, {"a": (1, 10)}, -1, {"a": (-1, -10)}),
        ({"a": (2, 20)}, {"a": (1, 5), "b": (1, 1)}, 1, {"a": (3, 25), "b": (1, 1)}),
        ({"a": (2, 20)}, {"a": (2, 20)}, -1, {"a": (0, 0)}),
    ],
)
def test_adding_changes(first: Change, second: Change, sign: int, total: Change) -> None:
    before = dict(first)
    assert added(first, second, sign) == total
    assert first == before


def test_counting_a_change() -> None:
    assert counted({"a": (2, 20), "b": (-1, -3)}) == 1


async def test_every_end_of_a_delivery_is_told_of_once(tmp_path: Path) -> None:
    told: list[Change] = []
    async with opened(tmp_path / "hookgw.db") as store:
        store.on_changed = told.append
        await store.append([*to("a", "b", "c"), *to("d", registration="reg_2")])
        assert told == []
        first, second, third, fourth = await seqs_of(store)
        store.settle_nowait(failed(first))
        await store.settle(delivered(second))
        await store.settle(delivered(second))
        assert told == [{"reg_1": (-1, -2)}]
        await store.park("reg_1", [LANE], "off", AT, spared=[third])
        assert await store.drop_oldest("reg_2", [LANE], "full", count=1, size=0) == 1
        assert [change for change in told[1:] if counted(change)] == [
            {"reg_1": (-1, -2)},
            {"reg_2": (-1, -2)},
        ]
        await store.resend("shop", fourth, LANE)
        assert told[-1] == {"reg_2": (1, 2)}
        assert await store.pending_by_registration() == {"reg_1": (1, 2), "reg_2": (1, 2)}


async def test_what_is_undone_is_not_told_of(tmp_path: Path) -> None:
    told: list[Change] = []

    def park_and_fail(transaction: Transaction) -> None:
        transaction.park("reg_1", [LANE], "off", AT, START, 10)
        raise KeyError

    async with opened(tmp_path / "hookgw.db") as store:
        await store.append(to("a"))
        store.on_changed = told.append
        with pytest.raises(KeyError):
            await store.write(park_and_fail)
        assert told == []


async def test_without_a_history_the_end_is_told_of_too(tmp_path: Path) -> None:
    told: list[Change] = []
    async with opened(tmp_path / "hookgw.db", keep_history=False) as store:
        await store.append(to("a"))
        store.on_changed = told.append
        await store.settle(delivered(1))
        assert told == [{"reg_1": (-1, -2)}]
