"""``hookgw serve`` as a process of its own, and a receiver in another one."""

import base64
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support import receiver_process
from tests.support.processes import Process, run, started

KEY = "the-global-key-of-the-tests"


@dataclass(frozen=True)
class Server:
    """A running gateway.

    Attributes:
        url: where it listens.
        process: itself.
        http: a client with the global key.
        folder: where it runs.
    """

    url: str
    process: Process
    http: httpx.Client
    folder: Path

    def post(self, path: str, body: Any = None, *, status: int = 200, **options: Any) -> Any:
        """POST and give the decoded answer; the status must be the one expected."""
        return self._read(self.http.post(path, json=body, **options), status)

    def get(self, path: str, *, status: int = 200) -> Any:
        """GET and give the decoded answer; the status must be the one expected."""
        return self._read(self.http.get(path), status)

    def set(self, instance: str, url: str, **fields: Any) -> str:
        """Register a URL and give the registration's secret."""
        self.post(f"/webhook/set/{instance}", {"url": url, **fields}, status=201)
        secret = self.get(f"/webhook/secret/{instance}")["secret"]
        assert isinstance(secret, str)
        return secret

    def emit(self, instance: str, event: str, data: Any = None, **fields: Any) -> str:
        """Emit one event and give its id."""
        body = {"event": event, "data": data or {}, **fields}
        answer = self.post(f"/event/emit/{instance}", body, status=202)
        assert answer["accepted"] == 1
        event_id = answer["ids"][0]
        assert isinstance(event_id, str)
        return event_id

    def command(self, *arguments: str, stdin: str = "") -> Any:
        """Run ``hookgw … --json`` against it and give what it printed; it must succeed."""
        env = {"HOOKGW_URL": self.url, "HOOKGW_KEY": KEY}
        done = run(["-m", "hookgw", *arguments, "--json"], cwd=self.folder, env=env, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @staticmethod
    def _read(answer: httpx.Response, status: int) -> Any:
        assert answer.status_code == status, answer.text
        return answer.json()


def write_config(folder: Path, **blocks: Mapping[str, Any]) -> Path:
    """Write a configuration for tests: a free port, a known key, loopback receivers allowed."""
    config: dict[str, dict[str, Any]] = {
        "server": {"bind": ["127.0.0.1:0"]},
        "auth": {"global_key": KEY},
        # Tests run on small disks, too.
        "storage": {"path": str(folder / "hookgw.db"), "min_free": 0},
        "delivery": {"allow_networks": ["127.0.0.0/8"]},
    }
    for name, block in blocks.items():
        config[name] = {**config.get(name, {}), **block}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


@contextmanager
def serving(folder: Path, **blocks: Mapping[str, Any]) -> Iterator[Server]:
    """Run ``hookgw serve`` in the folder until the end of the block, with its blocks of settings."""
    config = write_config(folder, **blocks)
    with started(["-m", "hookgw", "serve", "--config", config], cwd=folder) as process:
        url = process.line_with(" listening on ").rsplit(" ", 1)[1]
        # The URL is plain http; without verify=False each client of a test reads all authorities (30 ms).
        client = httpx.Client(
            base_url=url, headers={"apikey": KEY}, trust_env=False, verify=False, timeout=30
        )
        with client as http:
            yield Server(url, process, http, folder)


@dataclass(frozen=True)
class Arrival:
    """A request as the receiver's process printed it."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class ReceiverProcess:
    """A receiver in a process of its own.

    Attributes:
        root: its URL without a path.
    """

    root: str
    process: Process
    _others: defaultdict[str, deque[Arrival]] = field(default_factory=lambda: defaultdict(deque))

    def url(self, path: str) -> str:
        """The URL of a path; ``/status/503`` and ``/wait/0.5`` have a meaning."""
        return self.root + path

    def next(self, path: str) -> Arrival:
        """The next request to that path, of those not yet taken; others are kept for their turn."""
        while not self._others[path]:
            line = json.loads(self.process.line())
            arrival = Arrival(line["path"], dict(line["headers"]), base64.b64decode(line["body"]))
            self._others[arrival.path].append(arrival)
        return self._others[path].popleft()


@contextmanager
def receiving(folder: Path, *port: int) -> Iterator[ReceiverProcess]:
    """Run a receiver's process until the end of the block, perhaps on a port of its own."""
    with started([Path(receiver_process.__file__), *map(str, port)], cwd=folder) as process:
        yield ReceiverProcess(process.line(), process)
