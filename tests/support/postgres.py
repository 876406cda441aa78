"""A real PostgreSQL server for tests: started once for a test run, on a Unix socket of its own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

START_SECONDS = 120.0

# Makes the tables of a schema what they are after their creation, at a tenth of its price.
_EMPTY = """
    SET session_replication_role = replica;
    SET search_path = {schema};
    DO $$
    DECLARE name text;
    BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' LOOP
            IF name = 'shards' THEN
                UPDATE shards SET generation = NULL, epoch = 0 WHERE generation IS NOT NULL OR epoch <> 0;
            ELSIF name = 'log_state' THEN
                UPDATE log_state SET generation = '', home = '', xid = -1, seq = -1, is_whole = false;
            ELSIF name <> 'hookgw_schema' THEN
                EXECUTE format('DELETE FROM %I', name);
            END IF;
        END LOOP;
        PERFORM setval(format('%I', sequencename), start_value, sequencename = 'record_versions')
            FROM pg_sequences WHERE schemaname = '{schema}';
    END $$
"""


def find_binaries() -> Path | None:
    """Return the folder of the newest server that is installed; ``None`` if there is none."""
    # Debian keeps the servers of all versions out of the search path.
    folders = [Path(found).parent] if (found := shutil.which("postgres")) else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    whole = [folder for folder in folders if (folder / "initdb").exists()]
    return whole[-1] if whole else None


class PostgresServer:
    """A server that runs.

    Attributes:
        folder: of its data and its socket.
        port: names the socket; if ``listen`` was given, also the port on 127.0.0.1.
    """

    def __init__(self, binaries: Path, folder: Path, port: int, *, fsync: bool, listen: bool) -> None:
        self.folder = folder
        self.port = port
        self._binaries = binaries
        self._fsync = fsync
        self._listen = listen
        self._process: subprocess.Popen[bytes] | None = None
        self._emptied: list[str] = []
        self._cleaner: psycopg.Connection | None = None

    @property
    def is_on_tcp(self) -> bool:
        """Whether it listens on 127.0.0.1."""
        return self._listen

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None
        return self._process.pid

    @property
    def cleaner_pid(self) -> int | None:
        """The process id of the session that stays for :meth:`used_schema`."""
        return self._cleaner.info.backend_pid if self._cleaner is not None else None

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        if self._listen:
            return f"postgresql://hookgw:secret-of-the-database@127.0.0.1:{self.port}/{database}"
        return f"postgresql:///{database}?host={self.folder}&port={self.port}&user=hookgw"

    def initialize(self) -> None:
        """Make the data folder."""
        words: list[Any] = [
            self._binaries / "initdb",
            "-D",
            self.folder / "data",
            "-U",
            "hookgw",
            "--no-sync",
        ]
        words += ["--auth=trust", "--encoding=UTF8", "--no-locale"]
        subprocess.run(words, check=True, capture_output=True, **as_server_user(self.folder))

    def start(self, **more: str) -> None:
        """Start it with more settings, and wait until it accepts connections."""
        settings = {
            "listen_addresses": "127.0.0.1" if self._listen else "",
            "unix_socket_directories": str(self.folder),
            "port": str(self.port),
            "shared_buffers": "64MB",
            "max_connections": "100",
            "fsync": "on" if self._fsync else "off",
            "full_page_writes": "on" if self._fsync else "off",
            **more,
        }
        words: list[Any] = [self._binaries / "postgres", "-D", self.folder / "data"]
        for name, value in settings.items():
            words += ["-c", f"{name}={value}"]
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, **as_server_user(self.folder))
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, signal: int = 3) -> None:
        """End it: at once (SIGQUIT, as a crash), or with another signal, such as 2 for an orderly end."""
        if self._cleaner is not None:
            self._cleaner.close()
            self._cleaner = None
        if self._process is not None:
            self._process.send_signal(signal)
            self._process.wait(30)
            self._process = None

    @contextmanager
    def with_standby(self, port: int) -> Iterator[PostgresServer]:
        """Run a standby that has every commit before it is answered; at the end this server is alone again.

        Args:
            port: of the standby on 127.0.0.1.
        """
        folder = Path(tempfile.mkdtemp(prefix="hookgw-pg-", dir="/tmp"))
        standby = PostgresServer(self._binaries, folder, port, fsync=self._fsync, listen=True)
        try:
            if user := server_user():
                os.chown(folder, user.pw_uid, user.pw_gid)
            words: list[Any] = [self._binaries / "pg_basebackup", "-D", folder / "data", "-R", "--no-sync"]
            words += ["--checkpoint=fast", "-d", self.url()]
            subprocess.run(words, check=True, capture_output=True, **as_server_user(folder))
            standby.start()
            self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.execute("SELECT pg_reload_conf()")
            while self.execute("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
                time.sleep(0.05)
            yield standby
        finally:
            standby.stop()
            shutil.rmtree(folder, ignore_errors=True)

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        """Run a statement as the owner of everything; return its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def new_schema(self) -> Iterator[str]:
        """Give the name of a schema that nobody has used, and remove it with its tables at the end."""
        schema = f"test_{secrets.token_hex(6)}"
        try:
            yield schema
        finally:
            with suppress(psycopg.Error):
                self.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")

    @contextmanager
    def used_schema(self) -> Iterator[str]:
        """Give the name of a schema whose tables, if it has any, are hookgw's, and empty.

        Creating and removing them takes 50 ms of the server; the suite of all engines needs 600.
        """
        schema = self._emptied.pop() if self._emptied else f"test_{secrets.token_hex(6)}"
        yield schema
        # The same connection each time: a new one has to read the server's catalogs first.
        self._cleaner = self._cleaner or psycopg.connect(self.url(), autocommit=True)
        self._cleaner.execute(_EMPTY.format(schema=schema).encode())
        self._emptied.append(schema)


@contextmanager
def run_postgres(*, fsync: bool = False, listen: int | None = None) -> Iterator[PostgresServer]:
    """Run a new, empty server for the length of a block.

    Args:
        fsync: whether commits reach the disk. Only tests that crash the machine would notice.
        listen: a port on 127.0.0.1, for tests of the network; ``None`` for a Unix socket only.
    """
    binaries = find_binaries()
    assert binaries is not None, "There is no PostgreSQL: apt-get install postgresql."
    # Not below pytest's folder, which only root may enter; the server refuses to run as root. Short, because
    # the path of a Unix socket may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="hookgw-pg-", dir="/tmp"))
    server = PostgresServer(binaries, folder, listen or 5432, fsync=fsync, listen=listen is not None)
    try:
        if user := server_user():
            os.chown(folder, user.pw_uid, user.pw_gid)
        server.initialize()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def server_user() -> pwd.struct_passwd | None:
    """Return the user that the server runs as, if this process is root's."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL does not run as root, and there is no user postgres or nobody.")


def as_server_user(folder: Path) -> dict[str, Any]:
    """Return how to start a process in a folder that runs as :func:`server_user`."""
    user = server_user()
    # A session of its own: Ctrl-C in a terminal is for the tests, which then stop the server.
    common: dict[str, Any] = {"cwd": folder, "start_new_session": True}
    return (
        common if user is None else common | {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    )
