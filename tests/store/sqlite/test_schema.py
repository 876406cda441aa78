"""The schema of a new file, files that are refused, and the migration of files that ae348e0 wrote."""

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
from tests.public.records import LaneRule, Ordering, partition_of, registration_of
from tests.public.sqlite import APPLICATION_ID, VERSION, migrate
from tests.public.store import Append, EventQuery, Store
from tests.store.sqlite.previous_version import NAMES, Name, PendingDelivery, Truth, load_truth, unpack
from tests.store.sqlite.support import child, opened, peek
from tests.store.support import dead, event, pending, seqs_of, settle, to
from tests.support.stores import index_log


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
        (1, "schema 1, .* migrates from schema 2 and later.*Start a hookgw of schema 2"),
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
                lane="",
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


def lane_after(truth: Truth, registration: str, delivery: PendingDelivery) -> str:
    moving = registration in truth.moves or registration.startswith("global_")
    partition = delivery.lane.rpartition("#")[2] if "#" in delivery.lane else ""
    suffix = f":{partition}" if partition not in ("", "operations") else ""
    return f"{registration}:{-1 if moving else 0}{suffix}"


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
            registration: [
                (lane_after(truth, registration, one), msgspec.structs.replace(one, lane="", chat=""))
                for one in deliveries
            ]
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
    assert peek(path, "SELECT count(*) FROM shelves WHERE shelf = 'moves'") == [(0,)]
    assert set(peek(path, "SELECT state, count(*) FROM deliveries GROUP BY state")) == set(
        truth.states.items()
    )
    assert set(peek(path, "SELECT name, seq FROM sqlite_sequence")) >= {
        (table, number) for table, number in truth.last_numbers.items() if table != "names"
    }


@pytest.mark.parametrize("name", NAMES)
async def test_no_lane_has_a_url_afterwards(tmp_path: Path, name: Name) -> None:
    path, truth = unpack(name, tmp_path), load_truth(name)
    async with opened(path, keys=keys(truth)):
        pass
    rows = peek(
        path,
        """SELECT DISTINCT r.name, l.name FROM deliveries d
        JOIN names r ON r.number = d.registration JOIN names l ON l.number = d.lane""",
    )
    assert rows
    assert all(registration_of(str(lane)) == registration for registration, lane in rows)


@pytest.mark.parametrize("name", NAMES)
async def test_an_unfinished_move_is_re_partitioned_in_order(tmp_path: Path, name: Name) -> None:
    path, truth = unpack(name, tmp_path), load_truth(name)
    moving = [key for key in truth.moves if truth.pending.get(key)]
    assert moving
    async with opened(path, keys=keys(truth)) as store:
        for registration in moving:
            rule = LaneRule(registration, 0, Ordering.CHAT, 4)
            while await store.repartition_step(rule):
                pass
            found = (await everything_pending(store))[registration]
            assert all(rule.is_current(lane) for lane, _ in found)
            by_chat: dict[str, list[int]] = {}
            lanes: dict[str, set[str | None]] = {}
            chats = {one.seq: one.chat for one in truth.pending[registration]}
            for lane, one in found:
                assert isinstance(one, PendingDelivery)
                by_chat.setdefault(chats[one.seq], []).append(one.seq)
                lanes.setdefault(chats[one.seq], set()).add(partition_of(lane))
            assert by_chat == truth.order(registration, "chat")
            assert all(len(partitions) == 1 for partitions in lanes.values())


@pytest.mark.parametrize("name", NAMES)
async def test_the_file_is_copied_first_and_the_copy_is_kept(tmp_path: Path, name: Name) -> None:
    path, truth = unpack(name, tmp_path), load_truth(name)
    before = dump(path)
    with capture_logs() as logs:
        for _ in range(2):
            async with opened(path, keys=keys(truth)):
                pass
    copy = tmp_path / f"{path.name}.schema-2"
    assert dump(copy) == before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert names_in(tmp_path) == sorted([path.name, f"{path.name}.lock", copy.name])
    [line] = [line for line in logs if line["event"].startswith("data file migrated")]
    assert (line["file"], line["copy"], line["log_level"]) == (str(path), str(copy), "info")


@pytest.mark.usefixtures("links")
async def test_a_copy_never_overwrites_another_file(tmp_path: Path) -> None:
    path = unpack("plain", tmp_path)
    before = dump(path)
    names = ["schema-2", "schema-2.1"]
    for name in names:
        path.with_name(f"{path.name}.{name}").write_text(name)
    path.with_name(f"{path.name}.schema-2.partial").write_text("of a process that was killed")
    async with opened(path):
        pass
    for name in names:
        assert path.with_name(f"{path.name}.{name}").read_text() == name
    assert dump(path.with_name(f"{path.name}.schema-2.2")) == before
    assert not path.with_name(f"{path.name}.schema-2.partial").exists()


async def test_the_copy_lies_beside_the_file_and_not_beside_a_link_to_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    path = unpack("plain", tmp_path / "data")
    link = tmp_path / "link.db"
    link.symlink_to(path)
    async with opened(link):
        pass
    assert (tmp_path / "data" / f"{path.name}.schema-2").exists()


async def test_a_migration_that_fails_leaves_the_file_and_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpack("plain", tmp_path)
    before = dump(path)
    monkeypatch.setattr(schema, "WAITING", "INSERT INTO nowhere VALUES (1)")
    with pytest.raises(StartError, match="nowhere"):
        async with opened(path):
            pass
    assert dump(path) == before
    assert not path.with_name(f"{path.name}.schema-2").exists()
    monkeypatch.undo()
    async with opened(path) as store:
        assert await store.append(to("e1")) == [True]


@pytest.mark.parametrize("later", ["REMEMBERED", "AUDIT"])
async def test_the_steps_of_a_migration_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    path = unpack("plain", tmp_path)
    before = dump(path)
    fails = "INSERT INTO nowhere VALUES (1)"
    monkeypatch.setattr(schema, later, fails if later == "REMEMBERED" else (fails,))
    with pytest.raises(StartError, match="nowhere"):
        async with opened(path):
            pass
    assert dump(path) == before


def bring_to(path: Path, version: int) -> None:
    """Bring a file of schema 2 to a later one, as the hookgw of that schema did."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if version >= 3:
            schema.migrate_lanes(connection)
        if version >= 4:
            connection.execute(schema.REMEMBERED)
        if version >= 5:
            for statement in (*schema.AUDIT, "ALTER TABLE attempts ADD COLUMN url INTEGER"):
                connection.execute(statement)
        if version >= 6:
            for statement in schema.LOG:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("version", [3, 4, 5, 6])
@pytest.mark.parametrize("name", NAMES)
async def test_a_file_of_a_schema_in_between(tmp_path: Path, name: Name, version: int) -> None:
    """All have lanes of registrations. Then came the index of ids, the audit, the log, figures and heads."""
    path, truth = unpack(name, tmp_path), load_truth(name)
    bring_to(path, version)
    before = dump(path)
    async with opened(path, keys=keys(truth)) as store:
        counts = await counts_by_registration(store)
        assert counts == {key: len(deliveries) for key, deliveries in truth.pending.items() if deliveries}
        await store.append(to("e1"))
        await settle(store, *map(dead, await seqs_of(store)))
        await store.enforce_retention(before=9e9, limit=2**40, ids_before=0)
        assert await store.append(to("e1")) == [False]
    assert peek(path, "PRAGMA user_version") == [(VERSION,)]
    assert dump(path.with_name(f"{path.name}.schema-{version}")) == before


@pytest.mark.parametrize("name", NAMES)
async def test_former_attempts_have_no_url(tmp_path: Path, name: Name) -> None:
    path, truth = unpack(name, tmp_path), load_truth(name)
    count = truth.counts["attempts"]
    assert count
    async with opened(path, keys=keys(truth)):
        pass
    assert peek(path, "SELECT count(*), count(url) FROM attempts") == [(count, 0)]
    assert peek(path, "SELECT count(*) FROM audit") == [(0,)]


@pytest.mark.parametrize("version", [2, 5])
async def test_the_log_begins_at_the_upgrade(tmp_path: Path, version: int) -> None:
    """What was wanted before is in it, too, but not all that was accepted."""
    path, truth = unpack("plain", tmp_path), load_truth("plain")
    bring_to(path, version)
    instance = truth.instances[0]
    query = EventQuery(instance=instance, is_oldest_first=True, limit=1000)
    async with opened(path) as store:
        await index_log(store)
        before = await store.list_events(query)
        assert before.events
        assert max(one.accepted_at for one in before.events) < before.begins_at
        await store.append([Append(event("new", instance=instance), ())])
        after = await store.list_events(query)
        assert after.events[:-1] == before.events
        assert (after.events[-1].event.id, after.begins_at) == ("new", before.begins_at)
        assert after.events[-1].accepted_at >= after.begins_at


@pytest.mark.parametrize("version", [2, 3, 4, 5])
async def test_a_migrated_file_has_the_schema_of_a_new_one(tmp_path: Path, version: int) -> None:
    path, new = unpack("plain", tmp_path), tmp_path / "new.db"
    bring_to(path, version)
    for file in (path, new):
        async with opened(file):
            pass

    def statements(file: Path) -> list[list[str]]:
        rows = peek(
            file, "SELECT type, name, sql FROM sqlite_schema WHERE name <> 'overwritten' ORDER BY type, name"
        )
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
migrate_lanes = schema.migrate_lanes

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

schema.migrate_lanes = lambda connection: migrate_lanes(Dying(connection))
database.open_database(Path(sys.argv[1])).__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
@pytest.mark.parametrize("moment", [1, 2, 5, 12, 20, 28])
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
    assert dump(path.with_name(f"{path.name}.schema-2")) == before
    assert not path.with_name(f"{path.name}.schema-2.1").exists()


@pytest.mark.process
async def test_starts_that_are_killed_again_and_again_leave_one_copy(tmp_path: Path) -> None:
    path = unpack("plain", tmp_path)
    for _ in range(3):
        child(MIGRATE, path, 5).communicate(timeout=60)
    assert [name for name in names_in(tmp_path) if "schema" in name] == [f"{path.name}.schema-2.partial"]
    async with opened(path):
        pass
    assert [name for name in names_in(tmp_path) if "schema" in name] == [f"{path.name}.schema-2"]


async def test_a_kill_right_after_the_migration_keeps_the_copy(tmp_path: Path) -> None:
    path = unpack("plain", tmp_path)
    before = dump(path)
    async with opened(path):
        pass
    copy = path.with_name(f"{path.name}.schema-2")
    copy.rename(f"{copy}.partial")  # as it was before that moment
    async with opened(path):
        pass
    assert dump(copy) == before
    assert not copy.with_name(f"{copy.name}.partial").exists()


async def test_a_migration_asks_the_service_manager_for_time_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    migrate_lanes = schema.migrate_lanes

    @contextmanager
    def extended() -> Iterator[None]:
        steps.append("asked")
        yield
        steps.append("done")

    def migrating(connection: sqlite3.Connection) -> None:
        steps.append("migrating")
        migrate_lanes(connection)

    monkeypatch.setattr(schema, "extended_start", extended)
    monkeypatch.setattr(schema, "migrate_lanes", migrating)
    async with opened(unpack("plain", tmp_path)):
        pass
    assert steps == ["asked", "migrating", "done"]


async def test_lanes_of_several_registrations_and_urls_with_odd_endings(tmp_path: Path) -> None:
    """Lanes that share a number, names that only look like partitions, two lanes that become one."""
    path = unpack("plain", tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM deliveries")
        connection.execute("DELETE FROM shelves WHERE shelf = 'moves'")
        connection.execute("DELETE FROM names")
        names = [
            "@shop", "K", "reg_a", "reg_b", "global_x", "operations",
            "http://a.test/", "http://a.test/#2", "http://b.test/?q=#٣", "http://b.test/9",
            "http://b.test/#operations",
        ]  # fmt: skip
        connection.executemany("INSERT INTO names VALUES (?, ?)", list(enumerate(names, 1)))
        rows = [(3, 7), (3, 8), (4, 7), (4, 9), (4, 10), (5, 7), (6, 11), (3, 10), (4, 8), (3, 7)]
        connection.executemany(
            """INSERT INTO deliveries (event, instance, kind, registration, lane, state, accepted_at, size,
                position, queued_at, attempts, failures, next_at)
                VALUES (1, 1, 2, ?, ?, 'pending', 1, 1, ?, 1, 0, 0, 0)""",
            [(registration, lane, position) for position, (registration, lane) in enumerate(rows)],
        )
    connection.close()
    async with opened(path):
        pass
    lanes = peek(path, "SELECT name FROM deliveries JOIN names ON number = lane ORDER BY position")
    assert [lane for (lane,) in lanes] == [
        "reg_a:0", "reg_a:0:2", "reg_b:0", "reg_b:0", "reg_b:0", "global_x:-1", "operations:0",
        "reg_a:0", "reg_b:0:2", "reg_a:0",
    ]  # fmt: skip


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
