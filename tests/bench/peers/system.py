"""What every system of the comparison is to the measures: an HTTP interface, and how to start it here."""

import json
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx

from tests.bench.peers.processes import Child, Usage, usage, wait_until
from tests.bench.peers.servers import Server

EVENT = "bench.event"
"""The name of the events, for systems that have names of events."""


class System(ABC):
    """The HTTP interface of a system that runs somewhere.

    Attributes:
        name: of the system.
        version: the one that the interface was written for, and that the figures are of.
        settings: what the comparison sets that is not the default, and why, for the page.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, url: str, key: str) -> None:
        """Take the base URL and the credential that may do all of this."""
        self.url, self.key = url.rstrip("/"), key
        self.http = httpx.Client(base_url=self.url, headers=self.headers(), trust_env=False, timeout=30)

    @property
    def publish_port(self) -> int:
        """The port of 127.0.0.1 where events are published."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @abstractmethod
    def headers(self) -> dict[str, str]:
        """The headers with the credential."""

    @abstractmethod
    def healthy(self) -> bool:
        """Whether it takes requests."""

    @abstractmethod
    def create_destination(self, number: int, url: str) -> None:
        """Have the events of a number delivered to a URL, and nowhere else; return when it takes events."""

    @abstractmethod
    def publish_request(self, number: int, data: bytes) -> bytes:
        """Return a whole HTTP/1.1 request that publishes one event for a destination.

        Args:
            number: of the destination.
            data: a JSON object, the payload.
        """

    def close(self) -> None:
        self.http.close()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send a request, which must succeed; return the decoded answer."""
        answer = self.http.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else None

    def answers(self, path: str) -> bool:
        """Whether a GET succeeds."""
        try:
            return self.http.get(path, timeout=2).is_success
        except httpx.HTTPError:
            return False

    def request(self, path: str, body: bytes) -> bytes:
        """Return a POST of JSON as it is sent."""
        fields = {"host": "127.0.0.1", "content-type": "application/json", **self.headers()}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST {path} HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


def with_data(body: Mapping[str, object], data: bytes, *, field: str = "data") -> bytes:
    """Return a JSON object with the data, as they are, as its last field."""
    return json.dumps(body)[:-1].encode() + f', "{field}": '.encode() + data + b"}"


class LocalSystem(ABC):
    """A system on this machine, with its servers; everything it stores is in its folder.

    Attributes:
        servers: what it needs, in the order of their start.
        gateway: its own processes; a kill is of these.
    """

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder, self.program = folder, program
        self.servers: Sequence[Server] = ()
        self.gateway: list[Child] = []
        self._system: System | None = None

    @property
    def system(self) -> System:
        """Its interface, after the first start."""
        assert self._system is not None
        return self._system

    @abstractmethod
    def set_up(self) -> System:
        """Prepare the databases, once; the servers run. Return the interface, with its credentials."""

    @abstractmethod
    def start_gateway(self) -> list[Child]:
        """Start its own processes."""

    def start(self) -> None:
        """Start everything, and wait until the system takes events."""
        for server in self.servers:
            server.start()
        if self._system is None:
            self._system = self.set_up()
        self.restart()

    def restart(self) -> None:
        """Start the system's own processes, and wait until it takes events."""
        self.gateway = self.start_gateway()
        for child in self.gateway:
            wait_until(self.system.healthy, child)

    def kill(self) -> None:
        """Send SIGKILL to the system's own processes, not to its servers."""
        for child in self.gateway:
            child.kill()

    def stop(self) -> None:
        """Stop everything that runs."""
        for child in self.gateway:
            child.stop(signal.SIGTERM)
        self.gateway = []
        for server in reversed(self.servers):
            server.stop()

    def usage(self) -> tuple[Usage, Usage]:
        """What the system's own processes have used, and its servers."""
        servers = [server.child for server in self.servers if server.child is not None]
        return usage(self.gateway), usage(servers)
