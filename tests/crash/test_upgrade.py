"""``kill -9`` while a newer version brings a data file with rows to its schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookgw.store.sqlite.migrations import MIGRATIONS
from hookgw.testing import answer
from tests.crash.doomed import UPGRADE
from tests.crash.test_moments import DEADLINE, batch, event, ids, staged
from tests.store.sqlite.support import peek

pytestmark = [pytest.mark.crash, pytest.mark.timeout(DEADLINE + 10)]

Rows = dict[str, list[tuple[object, ...]]]


def everything(data: Path) -> Rows:
    """All rows of all tables, and the schema."""
    tables = [str(name) for (name,) in peek(data, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = {table: peek(data, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}
    schema = peek(data, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name")
    return {**rows, "the schema": schema, "its number": peek(data, "PRAGMA user_version")}


@pytest.mark.parametrize("moment", [*map(str, range(len(UPGRADE) + 1)), "rows"])
async def test_a_kill_during_a_migration_leaves_every_row_as_it_was(tmp_path: Path, moment: str) -> None:
    """Whatever it had done by then; the next start does it anew, and what was pending is delivered."""
    done, late = batch(600), [event(f"late{number}") for number in range(600)]
    async with staged(tmp_path) as stage:
        await stage.start()
        await stage.register()
        await stage.call("POST", "/event/emit/shop", done)
        await stage.drained()
        stage.receiver.default = answer(503)
        await stage.call("POST", "/event/emit/shop", late)
        await stage.target.kill()
        before = everything(stage.data)
        assert len(before["deliveries"]) == 1200
        await stage.target.spawn(doomed_at=f"upgrade:{moment}")
        await stage.target.died()
        assert everything(stage.data) == before
        assert peek(stage.data, "PRAGMA integrity_check") == [("ok",)]
        stage.receiver.default = answer()
        seen = len(stage.receiver.requests)
        await stage.start("upgrade:never")
        await stage.drained()
        arrived = [request.event_id for request in stage.receiver.requests[seen:]]
        assert arrived == ids(late)
        assert await stage.deliveries("delivered") == ids(done + late)
    assert peek(stage.data, "PRAGMA user_version") == [(len(MIGRATIONS) + 1,)]
    assert peek(stage.data, "SELECT count(*) FROM deliveries WHERE weight = size") == [(1200,)]
    assert peek(stage.data, "SELECT count(*) FROM more") == [(1200,)]
