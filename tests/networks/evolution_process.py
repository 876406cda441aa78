"""A real Evolution API as a process of its own, on a PostgreSQL of its own."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_port
from tests.support.postgres import PostgresServer

KEY = "the-global-key-of-evolution"
DATABASE = "evolution"
_START_PATIENCE = 90.0


class EvolutionProcess:
    """An Evolution API that can be killed and started again on the same database and port.

    Args:
        source: a checkout whose dependencies are installed, and whose Prisma client is generated.
        folder: everything it writes is in there.
        postgres: where it gets a database; listens on 127.0.0.1.

    Attributes:
        url: of its API.
    """

    def __init__(self, source: Path, folder: Path, postgres: PostgresServer) -> None:
        self._source = source
        self._output = folder / "output"
        self._postgres = postgres
        self._process: subprocess.Popen[bytes] | None = None
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        postgres.execute(f"CREATE DATABASE {DATABASE}")
        # As `prisma migrate deploy`, without the program that Prisma downloads for it.
        for migration in sorted(source.glob("prisma/postgresql-migrations/*/migration.sql")):
            postgres.execute(migration.read_text(encoding="utf-8"), DATABASE)
        saved = ("INSTANCE", "NEW_MESSAGE", "MESSAGE_UPDATE", "CONTACTS", "CHATS", "HISTORIC")
        self._environment = {
            **os.environ,
            "SERVER_TYPE": "http",
            "SERVER_PORT": str(port),
            "SERVER_URL": self.url,
            "AUTHENTICATION_API_KEY": KEY,
            "DATABASE_PROVIDER": "postgresql",
            "DATABASE_CONNECTION_URI": postgres.url(DATABASE),
            "DATABASE_CONNECTION_CLIENT_NAME": "tests",
            **{f"DATABASE_SAVE_DATA_{name}": "true" for name in saved},
            "CACHE_REDIS_ENABLED": "false",
            "CACHE_LOCAL_ENABLED": "true",
            "TELEMETRY_ENABLED": "false",
            "LOG_LEVEL": "ERROR,WARN",
            "WEBHOOK_RETRY_INITIAL_DELAY_SECONDS": "1",
        }

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            AssertionError: it ended, or took too long.
        """
        built = self._source / "dist" / "main.js"
        tsx = self._source / "node_modules" / ".bin" / "tsx"
        node = shutil.which("node") or "node"
        command = [node, str(built)] if built.exists() else [str(tsx), str(self._source / "src" / "main.ts")]
        with self._output.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._source,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_PATIENCE
        with httpx.Client(trust_env=False) as http:
            while self._process.poll() is None and time.monotonic() < deadline:
                try:
                    http.get(self.url)
                except httpx.HTTPError:
                    time.sleep(0.1)
                else:
                    return
        said = self._output.read_text(encoding="utf-8", errors="replace")
        raise AssertionError(f"Evolution API did not start; its output ends:\n{said[-3000:]}")

    def kill(self) -> None:
        """``kill -9``, with what it has started; returns when the process is gone."""
        if self._process is not None:
            os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = None

    def stored(self) -> list[dict[str, Any]]:
        """Return the keys of the messages in its database."""
        rows = self._postgres.execute('SELECT key FROM "Message" ORDER BY id', DATABASE)
        return [row[0] for row in rows]
