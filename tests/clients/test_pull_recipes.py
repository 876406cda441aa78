"""The programs of docs/pull.md work on every event exactly once, through kills of both sides."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from tests.support.gateway_process import KEY, Server, serving
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.processes import started

pytestmark = pytest.mark.e2e

PAGE = (Path(__file__).parents[2] / "docs" / "pull.md").read_text()
EVENTS = 30
PATIENCE = 30.0
READ = "SELECT id FROM messages"
NODE_MODULES = os.environ.get("HOOKGW_NODE_MODULES", "")
"""A folder with the package pg, for the program in JavaScript."""


def recipe(language: str, database: str) -> str:
    (found,) = re.findall(rf"```{language} {database}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def has_node(module: str) -> bool:
    node = shutil.which("node")
    if node is None:
        return False
    env = {**os.environ, "NODE_PATH": NODE_MODULES}
    return not subprocess.run([node, "-e", f"require('{module}')"], env=env, capture_output=True).returncode


def written(folder: Path, database_url: str | None) -> list[str]:
    """Return the ids of the events that a program has worked on, in the order of its work."""
    try:
        if database_url is not None:
            with psycopg.connect(database_url) as connection:
                return [name for (name,) in connection.execute(READ)]
        with closing(sqlite3.connect(folder / "messages.db", timeout=30)) as connection:
            return [name for (name,) in connection.execute(f"{READ} ORDER BY rowid")]
    except (psycopg.errors.UndefinedTable, sqlite3.OperationalError):
        return []  # it has not begun


def wait_until(is_true: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if "postgresql" not in request.node.callspec.id:
        yield None
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.new_schema() as schema:
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        yield f"{postgres.url()}{'&' if '?' in postgres.url() else '?'}options=-csearch_path%3D{schema}"


@pytest.mark.parametrize(
    ("language", "database"),
    [
        ("python", "sqlite"),
        ("python", "postgresql"),
        pytest.param(
            "javascript",
            "sqlite",
            marks=pytest.mark.skipif(
                not has_node("node:sqlite"), reason="there is no Node.js 22.13 or later"
            ),
        ),
        pytest.param(
            "javascript",
            "postgresql",
            marks=pytest.mark.skipif(not has_node("pg"), reason="HOOKGW_NODE_MODULES has no package pg"),
        ),
    ],
)
def test_every_event_is_worked_on_exactly_once(
    language: str, database: str, database_url: str | None, tmp_path: Path
) -> None:
    file = tmp_path / f"receiver.{'py' if language == 'python' else 'js'}"
    file.write_text(recipe(language, database))
    program = sys.executable if language == "python" else str(shutil.which("node"))
    place = {"server": {"bind": [f"127.0.0.1:{free_port()}"]}}
    url = f"http://{place['server']['bind'][0]}"
    env = {"HOOKGW_URL": url, "HOOKGW_KEY": KEY, "NODE_PATH": NODE_MODULES}
    if database_url is not None:
        env["DATABASE_URL"] = database_url
    ids: list[str] = []

    def emit(server: Server) -> None:
        ids.extend(server.emit("loja1", "CALL", {"n": number}) for number in range(EVENTS))

    def worked_on(count: int) -> None:
        wait_until(lambda: len(written(tmp_path, database_url)) >= count)

    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path, **place))
        server.set("loja1", "pull:")
        emit(server)
        # The receiver is killed within its work, and between the work and the next fetch.
        for count in (1, EVENTS // 2, EVENTS):
            with started([file, "loja1"], cwd=tmp_path, env=env, program=program) as receiver:
                worked_on(count)
                receiver.stop(signal.SIGKILL)
        # Two of them at a time, while hookgw is killed.
        with (
            started([file, "loja1"], cwd=tmp_path, env=env, program=program),
            started([file, "loja1"], cwd=tmp_path, env=env, program=program),
        ):
            emit(server)
            worked_on(len(ids) - EVENTS // 2)
            server.process.stop(signal.SIGKILL)
            again = stack.enter_context(serving(tmp_path, **place))
            emit(again)
            worked_on(len(ids))
        assert written(tmp_path, database_url) == ids
        listed = again.get("/delivery/list/loja1?state=dead")
        assert listed["deliveries"] == []
        assert again.process.stop() == 0
