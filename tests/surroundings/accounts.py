"""A gateway with an account of every event that it has accepted."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import httpx

from tests.store.sqlite.support import peek
from tests.support.gateway_process import Server, serving
from tests.support.processes import PATIENCE, run

DEAD_RECEIVER = "http://127.0.0.1:1/"
LOOK_AGAIN = 0.05


@dataclass
class Account:
    """What was emitted, and what the gateway said.

    Attributes:
        folder: with the configuration and the data file.
        server: the running gateway; the last one after its end.
        accepted: the ids of events that got their 202.
    """

    folder: Path
    server: Server
    accepted: list[str] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / "hookgw.db"

    def emit(self) -> httpx.Response:
        """Emit one event, and enter it if it is accepted; any other answer must be 503."""
        event_id = f"e{len(self.accepted)}"
        body = {"event": "CALL", "id": event_id, "data": {"filling": "x" * 500}}
        answer = self.server.http.post("/event/emit/shop", json=body)
        assert answer.status_code in (202, 503), answer.text
        if answer.status_code == 202:
            self.accepted.append(event_id)
        return answer

    def emit_many(self, count: int) -> None:
        for _ in range(count):
            assert self.emit().status_code == 202

    def unready(self) -> str:
        """Wait until ``/readyz`` answers 503; return what it says."""
        return wait_for(lambda: (answer := self.readyz()).status_code == 503 and answer.text)

    def readyz(self) -> httpx.Response:
        return self.server.http.get("/readyz")

    def logged(self, text: str) -> str:
        """Wait for a line in the log; return it."""
        return wait_for(lambda: next((line for line in self.server.process.errors if text in line), ""))

    def command(self, *arguments: str | Path) -> CompletedProcess[str]:
        """Run a command with the same configuration."""
        return run(["-m", "hookgw", *arguments, "--config", self.folder / "config.yaml"], cwd=self.folder)

    def stored(self, file: Path | None = None) -> list[str]:
        """Return the ids of the events in a data file, by default in the gateway's."""
        return [str(row[0]) for row in peek(file or self.data, "SELECT id FROM events ORDER BY seq")]

    def check_nothing_lost(self, file: Path | None = None) -> None:
        assert self.stored(file) == self.accepted
        assert peek(file or self.data, "PRAGMA integrity_check") == [("ok",)]


def wait_for(look: Callable[[], str | bool]) -> str:
    ends = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < ends, "it never came"
        time.sleep(LOOK_AGAIN)
    return str(found)


@contextmanager
def keeping_account(folder: Path, events: int = 30, **blocks: Mapping[str, Any]) -> Iterator[Account]:
    """Run a gateway, with its blocks of settings and so many events that wait for a receiver."""
    with serving(folder, **blocks) as server:
        account = Account(folder, server)
        server.set("shop", DEAD_RECEIVER)
        account.emit_many(events)
        yield account
