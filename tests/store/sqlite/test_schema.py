"""The schema of a new file, files that are refused, and the migration of files of schema 6."""

import os
import re
import shutil
import signal
import sqlite3
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from hookgw.store.sqlite import schema
from tests.public.config import MasterKeys, parse_master_key
from tests.public.kernel import StartError
from tests.public.records import registration_of
from tests.public.sqlite import APPLICATION_ID, VERSION, migrate
from tests.public.store import Store
from tests.store.sqlite.previous_version import NAMES, Name, PendingDelivery, Truth, load_truth, unpack
from tests.store.sqlite.support import child, opened, peek
from tests.store.support import pending, to


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data.db"


@pytest.fixture
def connection(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        yield connection


def test_a_new_file(connection: sqlite3.Connection, file: Path) -> None:
    migrate(connection, file)
    migrate(connection, file)
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (VERSION + 1, rf"schema {VERSION + 1}, .* up to {VERSION}: a newer hookgw"),
        (5, "schema 5, .* migrates from schema 6 and later.*Start a hookgw of schema 6"),
    ],
)
def test_a_file_that_is_too_new_or_too_old_is_refused(
    connection: sqlite3.Connection, file: Path, version: int, said: str
) -> None:
    migrate(connection, file)
    connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StartError, match=said) as caught:
        migrate(connection, file)
    assert str(file) in str(caught.value)
    assert connection.execute("PRAGMA user_version").fetchone() == (version,)


def test_a_file_that_is_too_new_names_the_copy_of_before(connection: sqlite3.Connection, file: Path) -> None:
    migrate(connection, file)
    copy = file.with_name(f"{file.name}.schema-{VERSION}")
    copy.touch()
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StartError, match=re.escape(f"hookgw restore {copy} --force")):
        migrate(connection, file)


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE theirs (x)", "PRAGMA user_version = 1", "PRAGMA application_id = 5"]
)
def test_the_file_of_another_program_is_refused(
    connection: sqlite3.Connection, file: Path, statement: str
) -> None:
    connection.execute(statement)
    with pytest.raises(StartError, match="database of another program"):
        migrate(connection, file)
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'events'").fetchone() == (0,)


# The migration of a file of the previous version


def keys(truth: Truth) -> MasterKeys:
    key = truth.settings.get("storage", {}).get("master_key")
    return MasterKeys(parse_master_key(key)) if key else MasterKeys()


async def everything_pending(store: Store) -> dict[str, list[tuple[str, object]]]:
    """Return what is pending of each registration in the order of positions, with its lane."""
    found: dict[str, list[tuple[str, int, object]]] = {}
    for lane in await store.pending_lanes():
        deliveries = await pending(store, lane.lane)
        assert len(deliveries) == lane.count
        for delivery in deliveries:
            shown = PendingDelivery(
                seq=delivery.seq,
                position=delivery.position,
                lane=lane.lane,
                instance=delivery.event.instance,
                event=delivery.event.id,
                kind=delivery.event.kind,
                chat="",
                attempts=delivery.attempts,
                failures=delivery.failures,
                queued_at=delivery.queued_at,
                next_at=delivery.next_at,
                body=delivery.body is not None,
            )
            entry = (lane.lane, delivery.position, shown)
            found.setdefault(registration_of(lane.lane), []).append(entry)
    return {
        registration: [(lane, shown) for lane, _, shown in sorted(entries, key=lambda entry: entry[1])]
        for registration, entries in found.items()
    }


async def counts_by_registration(store: Store) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for (registration, _), (count, _) in (await store.pending_counts()).items():
        counts[registration] += count
    return dict(counts)


@pytest.mark.parametrize("name", NAMES)
async def test_every_pending_delivery_is_in_a_lane_of_its_registration(tmp_path: Path, name: Name) -> None:
    path, truth = unpack(name, tmp_path), load_truth(name)
    async with opened(path, keys=keys(truth)) as store:
        found = await everything_pending(store)
        assert found == {
            registration: [(one.lane, msgspec.structs.replace(one, chat="")) for one in deliveries]
            for registration, deliveries in truth.pending.items()
            if deliveries
        }
        counts = await counts_by_registration(store)
        assert counts == {key: len(deliveries) for key, deliveries in truth.pending.items() if deliveries}
        registrations = await store.load_registrations()
        assert registrations.keys() == truth.registrations.keys()
        assert {registration.generation for registration in registrations.values()} == {0}
        assert (await store.load_instances()).keys() == set(truth.instances)
    assert peek(path, "PRAGMA user_version") == [(VERSION,)]
    assert peek(path, "PRAGMA integrity_check") == [("ok",)]
    assert set(peek(path, "SELECT state, count(*) FROM deliveries GROUP BY state")) == set(
        truth.states.items()
    )
    assert set(peek(path, "SELECT name, seq FROM sqlite_sequence")) >= set(truth.last_numbers.items())


@pytest.mark.parametrize("name", NAMES)
async def test_the_file_is_copied_first_and_the_copy_is_kept(tmp_path: Path, name: Name) -> None:
    path, truth = unpack(name, tmp_path), load_truth(name)
    before = dump(path)
    with capture_logs() as logs:
        for _ in range(2):
            async with opened(path, keys=keys(truth)):
                pass
    copy = tmp_path / f"{path.name}.schema-6"
    assert dump(copy) == before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert names_in(tmp_path) == sorted([path.name, f"{path.name}.lock", copy.name])
    [line] = [line for line in logs if line["event"].startswith("data file migrated")]
    assert (line["file"], line["copy"], line["log_level"]) == (str(path), str(copy), "info")


@pytest.mark.usefixtures("links")
async def test_a_copy_never_overwrites_another_file(tmp_path: Path) -> None:
    path = unpack("plain", tmp_path)
    before = dump(path)
    names = ["schema-6", "schema-6.1"]
    for name in names:
        path.with_name(f"{path.name}.{name}").write_text(name)
    path.with_name(f"{path.name}.schema-6.partial").write_text("of a process that was killed")
    async with opened(path):
        pass
    for name in names:
        assert path.with_name(f"{path.name}.{name}").read_text() == name
    assert dump(path.with_name(f"{path.name}.schema-6.2")) == before
    assert not path.with_name(f"{path.name}.schema-6.partial").exists()


async def test_the_copy_lies_beside_the_file_and_not_beside_a_link_to_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    path = unpack("plain", tmp_path / "data")
    link = tmp_path / "link.db"
    link.symlink_to(path)
    async with opened(link):
        pass
    assert (tmp_path / "data" / f"{path.name}.schema-6").exists()


async def test_a_migration_that_fails_leaves_the_file_and_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpack("plain", tmp_path)
    before = dump(path)
    monkeypatch.setattr(schema, "FIGURES", (*schema.FIGURES, "INSERT INTO nowhere VALUES (1)"))
    with pytest.raises(StartError, match="nowhere"):
        async with opened(path):
            pass
    assert dump(path) == before
    assert not path.with_name(f"{path.name}.schema-6").exists()
    monkeypatch.undo()
    async with opened(path) as store:
        assert await store.append(to("e1")) == [True]


async def test_a_migrated_file_has_the_schema_of_a_new_one(tmp_path: Path) -> None:
    path, new = unpack("plain", tmp_path), tmp_path / "new.db"
    for file in (path, new):
        async with opened(file):
            pass

    def statements(file: Path) -> list[list[str]]:
        rows = peek(file, "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name")
        return [" ".join(map(str, row)).split() for row in rows]

    assert statements(path) == statements(new)


async def test_a_disk_without_space_for_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpack("plain", tmp_path)
    before = dump(path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StartError, match="No space left on device"):
        async with opened(path):
            pass
    assert dump(path) == before
    assert names_in(tmp_path) == sorted([path.name, f"{path.name}.lock"])


MIGRATE = """
import os, signal, sqlite3, sys
from pathlib import Path
from hookgw.store.sqlite import database, schema

moment = int(sys.argv[2])
upgrade = schema.upgrade

class Dying:
    def __init__(self, connection):
        self.connection, self.count = connection, 0

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, statement, given=()):
        self.count += 1
        if self.count == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.connection.execute(statement, given)

schema.upgrade = lambda connection: upgrade(Dying(connection))
database.open_database(Path(sys.argv[1])).__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
@pytest.mark.parametrize("moment", [1, 2, 3, 4])
async def test_a_kill_in_the_middle_leaves_the_file_as_it_was(tmp_path: Path, moment: int) -> None:
    path, truth = unpack("plain", tmp_path), load_truth("plain")
    before = dump(path)
    killed = child(MIGRATE, path, moment)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert dump(path) == before
    async with opened(path) as store:
        counts = await counts_by_registration(store)
        assert counts == {key: len(deliveries) for key, deliveries in truth.pending.items() if deliveries}
    assert dump(path.with_name(f"{path.name}.schema-6")) == before
    assert not path.with_name(f"{path.name}.schema-6.1").exists()


@pytest.mark.process
async def test_starts_that_are_killed_again_and_again_leave_one_copy(tmp_path: Path) -> None:
    path = unpack("plain", tmp_path)
    for _ in range(3):
        child(MIGRATE, path, 3).communicate(timeout=60)
    assert [name for name in names_in(tmp_path) if "schema" in name] == [f"{path.name}.schema-6.partial"]
    async with opened(path):
        pass
    assert [name for name in names_in(tmp_path) if "schema" in name] == [f"{path.name}.schema-6"]


async def test_a_kill_right_after_the_migration_keeps_the_copy(tmp_path: Path) -> None:
    path = unpack("plain", tmp_path)
    before = dump(path)
    async with opened(path):
        pass
    copy = path.with_name(f"{path.name}.schema-6")
    copy.rename(f"{copy}.partial")  # as it was before that moment
    async with opened(path):
        pass
    assert dump(copy) == before
    assert not copy.with_name(f"{copy.name}.partial").exists()


async def test_a_migration_asks_the_service_manager_for_time_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    upgrade = schema.upgrade

    @contextmanager
    def extended() -> Iterator[None]:
        steps.append("asked")
        yield
        steps.append("done")

    def migrating(connection: sqlite3.Connection) -> None:
        steps.append("migrating")
        upgrade(connection)

    monkeypatch.setattr(schema, "extended_start", extended)
    monkeypatch.setattr(schema, "upgrade", migrating)
    async with opened(unpack("plain", tmp_path)):
        pass
    assert steps == ["asked", "migrating", "done"]


def names_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def dump(path: Path) -> list[str]:
    """Return all that a data file holds, without changing the file."""
    copy = path.with_name("dump.db")
    for suffix in ("", "-wal"):
        if (source := path.with_name(path.name + suffix)).exists():
            shutil.copy(source, f"{copy}{suffix}")
    try:
        with closing(sqlite3.connect(copy)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            return [f"schema {version}", *connection.iterdump()]
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
