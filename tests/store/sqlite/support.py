"""Short ways to say what the tests of the store say often."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hookgw.models.clock import Clock
from hookgw.models.deliveries import Attempt, Delivery, DeliveryState, Outcome, Settlement
from hookgw.models.events import Event
from hookgw.store import Append, SilentObserver, Store, open_store
from hookgw.store.sqlite.jobs import Group
from hookgw.store.sqlite.writer import Committed, Writer

LANE = "http://receiver.test/hook"
AT = 1_700_000_000.25


def event(event_id: str, *, instance: str = "shop", kind: str = "MESSAGES_UPSERT", data: str = "{}") -> Event:
    return Event(id=event_id, kind=kind, instance=instance, data_json=data.encode(), time=AT)


def to(*ids: str, lane: str = LANE, registration: str = "reg_1", instance: str = "shop") -> list[Append]:
    """Events of these ids, each to one registration."""
    return [Append(event(event_id, instance=instance), ((registration, lane),)) for event_id in ids]


def attempt(number: int = 1, outcome: Outcome = Outcome.DELIVERED, **more: object) -> Attempt:
    given: dict[str, object] = {"at": AT, "duration": 0.5, "status": 200, "answer": "ok"} | more
    return Attempt(number=number, outcome=outcome, **given)  # type: ignore[arg-type]


def delivered(seq: int, number: int = 1) -> Settlement:
    return Settlement(seq=seq, state=DeliveryState.DELIVERED, at=AT, attempt=attempt(number))


def failed(seq: int, number: int = 1, body: bytes | None = b"body", next_at: float = AT + 5) -> Settlement:
    made = attempt(number, Outcome.FAILED, status=500, error="The receiver answered 500.")
    return Settlement(
        seq=seq,
        state=DeliveryState.PENDING,
        at=AT,
        attempt=made,
        failures=number,
        next_at=next_at,
        body=body,
    )


def dead(seq: int, number: int = 1, reason: str | None = None, at: float = AT) -> Settlement:
    made = attempt(number, Outcome.REJECTED, status=422, error="The receiver answered 422.")
    return Settlement(seq=seq, state=DeliveryState.DEAD, at=at, attempt=made, body=b"body", reason=reason)


class Watch(SilentObserver):
    """An observer that remembers."""

    def __init__(self) -> None:
        self.commits = 0
        self.heard: list[str] = []

    def committed(self, seconds: float, rows: int) -> None:
        assert seconds > 0
        self.commits += 1

    def disk_failed(self, error: Exception) -> None:
        self.heard.append(f"failed: {error}")

    def disk_recovered(self) -> None:
        self.heard.append("recovered")


@asynccontextmanager
async def opened(
    path: Path, observer: Watch | None = None, *, keep_history: bool = True
) -> AsyncIterator[Store]:
    async with open_store(path, clock=Clock(), observer=observer, keep_history=keep_history) as store:
        yield store


async def pending(store: Store, lane: str = LANE, after: int = 0, limit: int = 100_000) -> list[Delivery]:
    """What is pending in a lane, however many pages it takes."""
    found: list[Delivery] = []
    while limit > len(found):
        page = await store.page(lane, found[-1].position if found else after, limit - len(found))
        found += page.deliveries
        if not page.more:
            break
    return found


async def ids_of(store: Store, lane: str = LANE, after: int = 0) -> list[str]:
    return [delivery.event.id for delivery in await pending(store, lane, after)]


async def seqs_of(store: Store, lane: str = LANE, after: int = 0, limit: int = 100_000) -> list[int]:
    return [delivery.seq for delivery in await pending(store, lane, after, limit)]


def peek(path: Path, statement: str, given: Sequence[object] = ()) -> list[tuple[object, ...]]:
    """What another connection sees in the data file."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement, given).fetchall()
    finally:
        connection.close()


def limit_pages(store: Store, pages: int) -> None:
    """Make the disk full at so many pages of the data file; 2**30 takes the limit away."""
    connection = store._committer._writer._connection  # type: ignore[attr-defined]
    connection.execute(f"PRAGMA max_page_count = {pages}")


def hold_commits(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Make the disk slow: a commit says that it began, and waits until the second event is set."""
    commit, began, disk = Writer.commit, threading.Event(), threading.Event()

    def slow(self: Writer, groups: Sequence[Group], *, probe: bool = False) -> Committed:
        began.set()
        assert disk.wait(30)
        return commit(self, groups, probe=probe)

    monkeypatch.setattr(Writer, "commit", slow)
    return began, disk


def child(program: str, *arguments: object, stdin: bool = False) -> subprocess.Popen[str]:
    """A Python process that runs a program; the test ends and waits for it."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
