"""``kill -9`` while hookgw brings a data file of the previous version to its schema."""

from pathlib import Path

import pytest
import trio

from tests.crash.engines import in_file, sqlite_only
from tests.crash.stage import DEADLINE, staged
from tests.public.sqlite import OLDEST_VERSION, VERSION
from tests.store.sqlite.previous_version import load_truth, unpack
from tests.store.sqlite.support import peek

pytestmark = [sqlite_only, pytest.mark.crash, pytest.mark.timeout(DEADLINE + 10)]

Rows = dict[str, list[tuple[object, ...]]]

ORDER = """SELECT r.name, l.name, d.seq FROM deliveries d
    JOIN names r ON r.number = d.registration JOIN names l ON l.number = d.lane ORDER BY d.position"""


def everything(data: Path) -> Rows:
    """Return all rows of all tables, and the schema."""
    tables = [str(name) for (name,) in peek(data, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = {table: peek(data, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}
    schema = peek(data, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name")
    return {**rows, "the schema": schema, "its number": peek(data, "PRAGMA user_version")}


@pytest.mark.parametrize("statement", [1, 2, 3, 4])
async def test_a_kill_during_the_migration_leaves_every_row_as_it_was(tmp_path: Path, statement: int) -> None:
    """The next start migrates again; deliveries keep their order."""
    truth = load_truth("plain")
    data = tmp_path / "hookgw.db"
    async with staged(tmp_path, in_file(tmp_path)) as stage:
        unpack("plain", tmp_path).replace(data)
        before, order = everything(data), peek(data, ORDER)
        assert before["its number"] == [(OLDEST_VERSION,)]
        await stage.target.spawn(doomed_at=f"upgrade:{statement}")
        await stage.target.died()
        assert everything(data) == before
        assert peek(data, "PRAGMA integrity_check") == [("ok",)]
        await stage.start()
        migrated = peek(data, ORDER)
        assert [(registration, seq) for registration, _, seq in migrated] == [
            (registration, seq) for registration, _, seq in order
        ]
        found = await stage.call("GET", "/delivery/list/desk", limit=1000)
        assert found["deliveries"]
    assert peek(data, "PRAGMA user_version") == [(VERSION,)]
    assert peek(data, "PRAGMA integrity_check") == [("ok",)]
    # The start that was killed has left no copy of its own.
    copies = [file for file in await trio.Path(tmp_path).iterdir() if ".schema-" in file.name]
    assert [file.name for file in copies] == [f"{data.name}.schema-{OLDEST_VERSION}"]
    assert everything(Path(copies[0])) == before
    assert {delivery.seq for pending in truth.pending.values() for delivery in pending} <= {
        seq for _, _, seq in migrated
    }
