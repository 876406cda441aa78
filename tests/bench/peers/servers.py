"""The servers that other systems need: PostgreSQL, Redis and RabbitMQ, each with data of its own."""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Protocol

from tests.bench.peers.processes import Child, exchange, run, wait_until
from tests.support.ports import free_port


class Server(Protocol):
    """A server beside a system.

    Attributes:
        child: its process, while it runs.
    """

    child: Child | None

    def start(self) -> None:
        """Start it with its data, and wait until it listens."""

    def stop(self) -> None:
        """Stop it in order; its data remain."""


class PostgreSQL:
    """PostgreSQL with its defaults, thus with fsync; connections are trusted.

    Attributes:
        url: of a database named after the user ``peers``.
    """

    def __init__(self, folder: Path, *, connections: int = 100) -> None:
        self.child: Child | None = None
        self._folder, self._data = folder, folder / "postgresql"
        self._connections = connections
        self.port = free_port()
        self.url = f"postgres://peers@127.0.0.1:{self.port}/peers?sslmode=disable"
        found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
        on_path = shutil.which("postgres")
        self._programs = max(found) if found else Path(on_path or "postgres").parent
        # It refuses to run as root.
        self._user = "postgres" if os.getuid() == 0 else None

    def start(self) -> None:
        new = not self._data.exists()
        if new:
            self._data.mkdir(mode=0o700)
            if self._user is not None:
                shutil.chown(self._data, self._user)
            initdb: list[str | Path] = [
                self._programs / "initdb",
                "--auth=trust",
                "--username=peers",
                "-D",
                self._data,
            ]
            run(initdb, user=self._user)
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": self._connections,
        }
        command: list[str | Path] = [self._programs / "postgres", "-D", self._data]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        self.child = Child("postgresql-server", command, self._folder, user=self._user)
        # It listens before it takes clients.
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, self.child)
        if new:
            run(
                [
                    self._programs / "psql",
                    self.url.replace("/peers?", "/postgres?"),
                    "-c",
                    "CREATE DATABASE peers",
                ]
            )

    def stop(self) -> None:
        if self.child is not None:
            self.child.stop(signal.SIGINT)  # a fast shutdown: it does not wait for clients
            self.child = None


class Redis:
    """Redis with an append-only file that is synced every second, as most systems recommend."""

    def __init__(self, folder: Path) -> None:
        self.child: Child | None = None
        self._folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        data = self._folder / "redis"
        data.mkdir(exist_ok=True)
        command: list[str | Path] = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port)]
        command += ["--dir", data, "--appendonly", "yes", "--appendfsync", "everysec"]
        self.child = Child("redis-server", command, self._folder)
        # It listens before it has read its file.
        wait_until(lambda: exchange(self.port, b"PING\r\n") == b"+PONG\r\n", self.child)

    def stop(self) -> None:
        if self.child is not None:
            self.child.stop()
            self.child = None


class RabbitMQ:
    """RabbitMQ with its defaults; the user is ``guest``."""

    def __init__(self, folder: Path) -> None:
        self.child: Child | None = None
        self._names: Child | None = None
        self._folder = folder
        self.port, self._names_port, self._node_port = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}"

    def start(self) -> None:
        data = self._folder / "rabbitmq"
        data.mkdir(exist_ok=True)
        env = {
            "HOME": str(data),  # of its cookie
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "peers@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_MNESIA_BASE": str(data / "mnesia"),
            "RABBITMQ_LOG_BASE": str(data / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(data / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(data / "plugins"),
        }
        # Otherwise Erlang starts it in the background, and nobody would stop it.
        self._names = Child("epmd", ["epmd"], self._folder, env=env)
        wait_until(lambda: exchange(self._names_port) is not None, self._names)
        # Debian's program on the path changes to another user first.
        program = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        command = program if program.exists() else "rabbitmq-server"
        self.child = Child("rabbitmq-server", [command], self._folder, env=env)
        wait_until(lambda: exchange(self.port) is not None, self.child)

    def stop(self) -> None:
        for child in filter(None, (self.child, self._names)):
            child.stop()
        self.child = self._names = None
