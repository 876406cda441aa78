"""A pooler in front of a PostgreSQL server of the tests: pgbouncer, if it is installed."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.ports import free_port
from tests.support.postgres import START_SECONDS, PostgresServer, as_server_user, server_user

# Debian keeps it where only root looks.
_FOUND = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")

needs_pgbouncer = pytest.mark.skipif(
    _FOUND is None, reason="There is no pgbouncer here: apt-get install pgbouncer."
)


@contextmanager
def run_pgbouncer(
    postgres: PostgresServer, mode: str, port: int | None = None, *, size: int = 60
) -> Iterator[int]:
    """Run a pooler for the length of a block, and give its port on 127.0.0.1.

    Args:
        postgres: the server behind it.
        mode: ``session``, ``transaction`` or ``statement``.
        port: where it listens; any by default.
        size: the most connections to the server.
    """
    assert _FOUND is not None
    port = port or free_port()
    host = "127.0.0.1" if postgres.is_on_tcp else postgres.folder
    folder = Path(tempfile.mkdtemp(prefix="hookgw-pool-", dir="/tmp"))
    config = folder / "pgbouncer.ini"
    lines = ["[databases]", f"postgres = host={host} port={postgres.port} user=hookgw", "[pgbouncer]"]
    lines += ["listen_addr = 127.0.0.1", f"listen_port = {port}", "unix_socket_dir ="]
    lines += [
        "auth_type = any",
        f"pool_mode = {mode}",
        f"default_pool_size = {size}",
        "max_client_conn = 200",
    ]
    config.write_text("\n".join(lines), encoding="ascii")
    if user := server_user():
        for path in (folder, config):
            os.chown(path, user.pw_uid, user.pw_gid)
    log = (folder / "log").open("ab")
    with log:
        process = subprocess.Popen([_FOUND, config], stdout=log, stderr=log, **as_server_user(folder))
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(pooled_url(port), connect_timeout=2).close()
                break
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((folder / "log").read_text()[-2000:]) from None
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def pooled_url(port: int) -> str:
    """Return the URL of the tests' database behind a pooler."""
    return f"postgresql://hookgw@127.0.0.1:{port}/postgres"
