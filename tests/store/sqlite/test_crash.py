"""What a ``kill -9`` cannot lose, and a disk that runs full under a real process."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from hookgw.store import Append
from hookgw.store.sqlite.migrations import MIGRATIONS
from tests.store.sqlite.support import AT, LANE, child, dead, event, ids_of, opened, peek, seqs_of, to

APPEND = """
import sys
from pathlib import Path
import trio
from hookgw.models.clock import Clock
from hookgw.models.deliveries import DeliveryState, Settlement
from hookgw.models.events import Event
from hookgw.store import Append, open_store

async def main():
    async with open_store(Path(sys.argv[1]), clock=Clock()) as store:
        async def produce(producer):
            for number in range(10**6):
                name = f"p{producer}_{number}"
                event = Event(id=name, kind="K", instance="shop", data_json=b'{"n": 1}', time=1.0)
                assert await store.append([Append(event, (("reg_1", sys.argv[2]),))]) == [True]
                sys.stdout.write(name + "\\n")
                sys.stdout.flush()
        async with trio.open_nursery() as nursery:
            for producer in range(8):
                nursery.start_soon(produce, producer)

trio.run(main)
"""
MIGRATE = """
import os, signal, sys
from pathlib import Path
from hookgw.store.sqlite import migrations
from hookgw.store.sqlite.database import open_database
apply = migrations._apply
def killed(connection, migration, number):
    connection.create_function("kill", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
    apply(connection, (*migration, "SELECT kill()"), number)
migrations._apply = killed
open_database(Path(sys.argv[1])).__enter__()
"""
FILL = """
import resource, signal, sys
from pathlib import Path
import trio
from hookgw.models.clock import Clock
from hookgw.models.errors import StorageUnavailable
from hookgw.models.events import Event
from hookgw.store import Append, open_store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)

def one(number):
    event = Event(id=f"e{number}", kind="K", instance="shop", data_json=b'"' + b"x" * 5000 + b'"', time=1.0)
    return [Append(event, (("reg_1", sys.argv[2]),))]

async def main():
    async with open_store(Path(sys.argv[1]), clock=Clock()) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, most))
        kept = 0
        try:
            while True:
                await store.append(one(kept))
                kept += 1
        except StorageUnavailable as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        await store.flush()
        await store.append(one(kept))
        print(kept + 1)

trio.run(main)
"""
PRUNE = """
import sys
from pathlib import Path
import trio
from hookgw.models.clock import Clock
from hookgw.store import open_store

async def main():
    async with open_store(Path(sys.argv[1]), clock=Clock()) as store:
        while removed := await store.prune(float(sys.argv[2]), 7):
            sys.stdout.write(f"{removed}\\n")
            sys.stdout.flush()

trio.run(main)
"""


@pytest.mark.parametrize("after", [1, 40, 400])
async def test_what_append_returned_for_outlives_a_kill(path: Path, after: int) -> None:
    producer = child(APPEND, path, LANE)
    assert producer.stdout is not None
    known = [producer.stdout.readline().strip() for _ in range(after)]
    producer.send_signal(signal.SIGKILL)
    rest, _ = producer.communicate(timeout=60)
    known += [line for line in rest.split("\n")[:-1] if line]
    async with opened(path) as store:
        kept = [delivery.event.id for delivery in (await store.page(LANE, 0, 10**6)).deliveries]
        assert set(kept) >= set(known)
        assert len(kept) == len(set(kept))
        for producer_number in range(8):
            own = [name for name in kept if name.startswith(f"p{producer_number}_")]
            assert own == [f"p{producer_number}_{number}" for number in range(len(own))]
        assert store.statistics().pending == len(kept)
        last = (await seqs_of(store, limit=10**6))[-1]
        assert await store.append([*to(known[0]), *to("after")]) == [False, True]
        assert (await seqs_of(store, after=last)) > [last]


@pytest.mark.parametrize("after", [1, 9])
async def test_a_kill_during_pruning_leaves_whole_deliveries(path: Path, after: int) -> None:
    names = [f"e{number}" for number in range(400)]
    async with opened(path) as store:
        await store.append(
            [Append(event(name), (("reg_1", LANE), ("reg_2", "http://b.test"))) for name in names]
        )
        for seq in (kept := await seqs_of(store)):
            store.settle_nowait(dead(seq))
        await store.flush()
    pruning = child(PRUNE, path, AT + 1)
    assert pruning.stdout is not None
    removed = sum(int(pruning.stdout.readline()) for _ in range(after))
    pruning.send_signal(signal.SIGKILL)
    pruning.communicate(timeout=60)
    left = [row[0] for row in peek(path, "SELECT seq FROM deliveries WHERE state = 'dead' ORDER BY seq")]
    assert left == kept[len(kept) - len(left) :]
    assert len(left) <= len(kept) - removed
    for table, column in (("attempts", "delivery"), ("bodies", "seq")):
        assert [row[0] for row in peek(path, f"SELECT {column} FROM {table} ORDER BY 1")] == left
    async with opened(path) as store:
        while await store.prune(AT + 1, 100):
            pass
        assert await ids_of(store, "http://b.test") == names  # their events stay, as they are pending
        for seq in await seqs_of(store, "http://b.test"):
            store.settle_nowait(dead(seq))
        await store.flush()
        while await store.prune(AT + 1, 100):
            pass
    assert peek(path, "SELECT count(*) FROM events") == [(0,)]


def test_a_kill_during_a_migration_leaves_the_file_as_it_was(path: Path) -> None:
    process = child(MIGRATE, path)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert peek(path, "PRAGMA user_version") == [(0,)]
    assert peek(path, "SELECT count(*) FROM sqlite_schema") == [(0,)]


async def test_the_next_start_finishes_a_migration_that_was_killed(path: Path) -> None:
    child(MIGRATE, path).communicate(timeout=60)
    async with opened(path) as store:
        assert await store.append(to("e1")) == [True]
    assert peek(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]


@pytest.mark.skipif(
    sys.platform == "darwin", reason="the limit does not hold for files that are mapped there"
)
async def test_a_disk_that_runs_full_and_has_space_again(path: Path) -> None:
    process = child(FILL, path, LANE)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    refusal, kept = said.splitlines()
    assert f"{path} cannot be used now" in refusal
    async with opened(path) as store:
        assert await ids_of(store) == [f"e{number}" for number in range(int(kept))]
