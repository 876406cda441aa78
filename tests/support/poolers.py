"""A pooler in front of a PostgreSQL server of the tests: pgbouncer, if it is installed."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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


@contextmanager
def without_flush(port: int) -> Iterator[int]:
    """Run a proxy that keeps each client's requests to flush to itself, as PgCat does, and give its port.

    Its clients must use ``sslmode=disable``.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def requests(client: socket.socket, server: socket.socket) -> None:
            with client.makefile("rb") as words:
                kind = b""  # the first message has none
                while len(length := words.read(4)) == 4:
                    message = kind + length + words.read(int.from_bytes(length) - 4)
                    if kind != b"H":
                        server.sendall(message)
                    kind = words.read(1)
            server.shutdown(socket.SHUT_WR)

        def answers(client: socket.socket, server: socket.socket) -> None:
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

        def serve() -> None:
            with suppress(OSError):  # the end of the block
                while True:
                    client = stack.enter_context(listener.accept()[0])
                    server = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                    for pump in (requests, answers):
                        threading.Thread(target=quietly, args=(pump, client, server), daemon=True).start()

        def quietly(pump: Callable[..., None], *ends: socket.socket) -> None:
            with suppress(OSError):
                pump(*ends)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        with suppress(OSError):  # macOS knows it for connections alone
            listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def silent_after(*answers: tuple[bytes, bytes]) -> Iterator[int]:
    """Run what accepts a client, answers its first query with some messages, and says nothing more.

    Its client must use ``sslmode=disable``.

    Args:
        answers: the kind and the content of each message.
    """

    def message(kind: bytes, content: bytes) -> bytes:
        return kind + (len(content) + 4).to_bytes(4) + content

    enough = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as client:
                client.recv(65536)
                # Authenticated, and ready for a query.
                client.sendall(message(b"R", bytes(4)) + message(b"Z", b"I"))
                client.recv(65536)
                client.sendall(b"".join(message(*answer) for answer in answers))
                enough.wait()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        enough.set()


def pooled_url(port: int) -> str:
    """Return the URL of the tests' database behind a pooler."""
    return f"postgresql://hookgw@127.0.0.1:{port}/postgres"
