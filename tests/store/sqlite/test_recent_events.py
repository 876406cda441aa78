"""The newest events in memory, from which the index of the log is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookgw.store import log
from hookgw.store.sqlite import log as sqlite_log
from tests.public.sqlite import RecentEvents
from tests.public.store import EventQuery
from tests.store.sqlite.support import opened
from tests.store.support import to
from tests.support.stores import index_log


def rows(*seqs: int, data: bytes = b"{}") -> list[tuple[Any, ...]]:
    return [(seq, 1, f"e{seq}", 2, 0, 0, data, None, None, 1) for seq in seqs]


def seqs(found: list[tuple[Any, ...]]) -> list[int]:
    return [row[0] for row in found]


def test_the_next_events_come_in_order_and_those_before_are_forgotten() -> None:
    recent = RecentEvents()
    recent.add(rows(5, 6))
    recent.add(rows(8, 9))
    assert seqs(recent.take(4, 3)) == [5, 6, 8]
    assert seqs(recent.take(8, 3)) == [9]
    assert recent.take(6, 3) == []
    assert recent.take(9, 3) == []
    recent.add(rows(12))
    assert seqs(recent.take(9, 3)) == [12]


def test_events_that_may_be_missing_are_read_from_the_file() -> None:
    recent = RecentEvents()
    assert recent.take(0, 3) == []
    recent.add(rows(5))
    assert recent.take(3, 3) == []
    assert seqs(recent.take(4, 3)) == [5]


@pytest.mark.parametrize("limits", [{"most_rows": 3}, {"most_bytes": 7}])
def test_too_many_events_are_forgotten(limits: dict[str, int]) -> None:
    recent = RecentEvents(**limits)
    recent.add(rows(1, 2))
    recent.add(rows(3, 4))
    assert recent.take(0, 9) == []
    recent.add(rows(5))
    assert recent.take(3, 9) == []
    assert seqs(recent.take(4, 9)) == [5]


async def test_the_index_does_not_read_back_what_was_just_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "INDEX_ROWS", 3)
    path = tmp_path / "hookgw.db"
    async with opened(path) as store:
        await store.append(to("first"))
        await index_log(store)
    async with opened(path) as store:
        await store.append(to(*(f"e{number}" for number in range(8))))
        await store.append(to("e3", "last"))
        # The statement for the end of the log; it would fail on events.
        monkeypatch.setattr(sqlite_log, "_PAYLOADS", "SELECT no_column")
        await index_log(store)
        page = await store.list_events(EventQuery(instance="shop", is_oldest_first=True))
    assert [one.event.id for one in page.events] == ["first", *(f"e{number}" for number in range(8)), "last"]
