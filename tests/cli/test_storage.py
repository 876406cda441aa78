"""``hookgw backup``, ``restore`` and ``storage``, on files in a folder of the test."""

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hookgw.command import group
from hookgw.store.sqlite import maintenance
from tests.public.sqlite import migrate
from tests.support.postgres import PostgresServer

Run = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data file with an event."""
    (tmp_path / "data").mkdir(mode=0o700)
    path = tmp_path / "data" / "hookgw.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, path)
        connection.execute("INSERT INTO names VALUES (1, '@shop'), (2, 'CALL')")
        connection.execute("INSERT INTO events VALUES (1, 1, 'e', 2, 0, 0, x'7B7D', NULL, NULL, 0)")
    path.chmod(0o600)
    return path


@pytest.fixture
def run(tmp_path: Path, data: Path) -> Run:
    """Run a command with a configuration that names the data file."""
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"storage": {"path": str(data), "min_free": 0}}))

    def invoke(*arguments: object) -> Result:
        environment = {"HOOKGW_CONFIG": str(config)}
        return CliRunner().invoke(group.main, [*map(str, arguments)], env=environment)

    return invoke


def test_the_drill(run: Run, data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    made = run("backup", copy, "--check")
    assert made.exit_code == 0, made.output
    assert made.stdout.splitlines()[1] == "It is whole: 1 event, 0 pending deliveries."
    assert copy.stat().st_mode & 0o777 == 0o600
    data.unlink()
    restored = run("restore", copy)
    assert (restored.exit_code, restored.stdout) == (0, f"Restored {data} from {copy}.\n")
    checked = run("storage", "check")
    assert checked.exit_code == 0
    assert "none" in checked.stdout
    assert json.loads(run("storage", "check", copy, "--json").stdout)["events"] == 1


def test_nothing_is_replaced(run: Run, data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    refused = run("backup", copy)
    assert (refused.exit_code, copy.read_text()) == (1, "precious")
    assert "nothing is replaced" in refused.stderr
    copy.unlink()
    run("backup", copy)
    refused = run("restore", copy)
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert "hookgw.db.before-restore. Delete it" in run("restore", copy, "--force").stdout


def test_links_in_a_circle_are_named(run: Run, data: Path) -> None:
    backup = data.rename(data.with_name("backup.db"))
    data.symlink_to(data)
    for command in (
        ("storage", "compact"),
        ("restore", backup, "--force"),
        ("storage", "copy", backup, data),
    ):
        assert "Too many levels of symbolic links" in run(*command).stderr


def test_stats_and_compact(run: Run, data: Path) -> None:
    rows = run("storage", "stats").stdout.splitlines()
    assert rows[0].split() == ["part", "rows", "size"]
    assert any(row.startswith("file ") and int(row.split()[1]) >= 64 for row in rows), rows
    parts = json.loads(run("storage", "stats", "--json").stdout)
    assert {"name": "outbox", "rows": 0, "bytes": 0} in parts
    compacted = run("storage", "compact")
    assert compacted.stdout.startswith(f"Compacted {data}: ")


def test_problems_are_told_with_exit_code_1(run: Run, data: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(data)) as connection:
        connection.execute("DELETE FROM names")
        connection.commit()
    for arguments in (("storage", "check"), ("backup", tmp_path / "copy.db", "--check")):
        found = run(*arguments)
        assert found.exit_code == 1
        assert "1 rows of events have a kind without a name." in found.stderr


def test_ctrl_c_leaves_nothing(run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(maintenance, "restore_file", interrupt)
    assert "Stopped" in run("restore", data).stderr
    monkeypatch.setattr("hookgw.store.sqlite.backup.Target.between", interrupt)
    stopped = run("backup", tmp_path / "copy.db")
    assert (stopped.exit_code, "Nothing of" in stopped.stderr) == (1, True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.yaml", "data"]


def test_a_terminal_shows_what_may_take_minutes(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.db"
    works = (
        (("backup", copy, "--check"), ["Copying", "Checking"]),
        (("storage", "check"), ["Checking"]),
        (("storage", "stats"), ["Measuring"]),
        (("storage", "compact"), ["Compacting"]),
        (("restore", copy, "--force"), ["Copying", "Checking"]),
        (("storage", "copy", data, data.with_name("other.db")), ["Copying", "Comparing"]),
    )
    for arguments, shown in works:
        monkeypatch.setenv("FORCE_COLOR", "1")
        done = run(*arguments)
        assert done.exit_code == 0, done.output
        places = [done.stderr.find(text) for text in shown]
        assert -1 not in places
        assert places == sorted(places), arguments
        monkeypatch.delenv("FORCE_COLOR")
    assert run("storage", "check").stderr == ""


def test_a_data_file_is_copied_to_a_database_and_back(run: Run, data: Path, postgres: PostgresServer) -> None:
    back = data.with_name("back.db")
    with postgres.new_schema() as schema:
        there = run("storage", "copy", data, postgres.url(), "--schema", schema)
        assert there.exit_code == 0, there.output
        again = run("storage", "copy", postgres.url(), back, "--schema", schema, "--json")
        refused = run("storage", "copy", data, postgres.url(), "--schema", schema)
    assert there.stdout.splitlines()[-1].endswith("; both have the same content.")
    parts = {part["name"]: part for part in json.loads(again.stdout)}
    assert parts["events"]["rows"] == 1
    assert parts["events"]["checksum"][:32] in there.stdout
    assert (refused.exit_code, "There is something in" in refused.stderr) == (1, True)
    with closing(sqlite3.connect(back)) as connection:
        assert connection.execute("SELECT id FROM events").fetchall() == [("e",)]


def test_what_restore_logs_is_not_in_its_output(run: Run, data: Path) -> None:
    backup = data.rename(data.with_name("backup.db"))
    data.with_name(f".{data.name}.compact").touch()
    restored = run("restore", backup)
    assert restored.stdout == f"Restored {data} from {backup}.\n"
    assert "killed work" in restored.stderr


def test_what_copy_logs_is_not_in_its_output(run: Run, data: Path, postgres: PostgresServer) -> None:
    with postgres.new_schema() as schema:
        copied = run("storage", "copy", data, postgres.url(), "--schema", schema, "--json")
    assert {part["name"] for part in json.loads(copied.stdout)} >= {"events", "records"}
    assert "tables created" in copied.stderr


def test_a_copy_without_the_driver_names_the_extra(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hookgw.store.postgresql.server", None)
    for places in ((data, "postgresql:///x"), ("postgresql:///x", data.with_name("back.db"))):
        result = run("storage", "copy", *places)
        assert result.exit_code == 1
        assert 'pip install "hookgw[postgresql]"' in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:hidden@a/b",
        "postgresql:/u:hidden@h/x",
        "sqlite:///hidden.db",
        "jdbc:postgresql://u:hidden@h/x",
        " POSTGRESQL://u:hidden@h/x",
    ],
)
def test_a_url_of_another_kind_is_not_taken_for_a_path(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for places in ((data, url), (url, data.with_name("back.db"))):
        refused = run("storage", "copy", *places)
        assert refused.exit_code == 2
        assert "this looks like a URL" in refused.stderr
        assert "hidden" not in refused.output
    assert sorted(tmp_path.rglob("*")) == before


def test_the_scheme_of_a_database_may_be_in_upper_case(
    run: Run, data: Path, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scheme, mark, rest = postgres.url().partition("://")
    with postgres.new_schema() as schema:
        copied = run("storage", "copy", data, f"{scheme.upper()}{mark}{rest}", "--schema", schema)
    assert copied.exit_code == 0, copied.output
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.yaml", "data"]


def test_a_file_may_have_the_name_of_a_url(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("storage", "copy", data, "./a:/x.db").exit_code == 0
    assert (tmp_path / "a:" / "x.db").is_file()
