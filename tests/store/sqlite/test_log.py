"""The runs of the log's index: where events come one by one, there are very many small ones."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hookgw.store import log
from hookgw.store.sqlite import log as sqlite_log
from tests.public.sqlite import migrate
from tests.public.store import Append
from tests.store.sqlite.support import opened, peek
from tests.store.support import Watch, event
from tests.support.stores import index_log

RUNS = "SELECT count(*) FROM log_runs"


def test_small_runs_are_counted_many_at_a_time(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, path)
        connection.execute("BEGIN")
        last = [3 * run for run in range(1, 2_001)]
        connection.executemany("INSERT INTO log_runs VALUES (?, 0, 0)", [(seq,) for seq in last])
        entries = [(seq, seq % 2 + 1, seq - more, seq % 5) for seq in last for more in range(3)]
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, 9, 0, 0, 0, 0, ?)", entries)
        at: int | None = 0
        turns, count, sizes = 0, 0, {1: 0, 2: 0}
        while at is not None:
            at, more, found = sqlite_log.count_unwanted(connection, at, 1_500)
            turns, count = turns + 1, count + more
            for instance, size in found.items():
                sizes[instance] += size
    assert turns == 5  # with the one that finds no more
    assert count == len(entries)
    assert sizes == {one: sum(size for _, who, _, size in entries if who == one) for one in (1, 2)}


async def test_runs_without_entries_go_and_cost_no_commit_where_there_are_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "FORGOTTEN_RUNS", 2)
    watch = Watch()
    async with opened(path, watch) as store:
        for number in range(5):
            await store.append([Append(event(f"e{number}"), ())])
            await index_log(store)
        assert peek(path, RUNS) == [(5,)]
        before = watch.commits
        await store.enforce_retention(before=0, limit=2**40)
        assert watch.commits - before == 2
        await store.enforce_retention(before=0, limit=2**40, log_limit=0)
        assert peek(path, RUNS) == [(0,)]
