"""What a ``kill -9`` cannot lose, and a disk that runs full under a real process."""

import resource
import signal
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.public.kernel import StorageUnavailable
from tests.public.sqlite import VERSION
from tests.public.store import Append
from tests.store.sqlite.support import child, opened, peek
from tests.store.support import (
    AT,
    LANE,
    RULE,
    dead,
    event,
    ids_of,
    pending,
    pending_of,
    replay,
    seqs_of,
    settle,
    to,
)

pytestmark = pytest.mark.process

APPEND = """
import sys
from pathlib import Path
import trio
from hookgw.concurrency.clock import Clock
from hookgw import DeliveryState
from hookgw.records.deliveries import Settlement
from hookgw import Event
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
CREATE = """
import os, signal, sys
from pathlib import Path
from hookgw.store.sqlite import database, schema
def killed(connection, path):
    connection.create_function("kill", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
    schema.migrate(connection, path)
schema.SCHEMA += ("SELECT kill()",)
database.migrate = killed
database.open_database(Path(sys.argv[1])).__enter__()
"""
FILL = """
import resource, signal, sys
from pathlib import Path
import trio
from hookgw.concurrency.clock import Clock
from hookgw.kernel.errors import StorageUnavailable
from hookgw import Event
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
from hookgw.concurrency.clock import Clock
from hookgw.store import history as pruning, open_store
from hookgw.store.sqlite import history

pruning.PRUNE_STEP = 7
prune = history.prune

def report(transaction, **given):
    removed = prune(transaction, **given)
    sys.stdout.write(f"{removed.amount}\\n")
    sys.stdout.flush()
    return removed

history.prune = report

async def main():
    async with open_store(Path(sys.argv[1]), clock=Clock()) as store:
        await store.enforce_retention(before=float(sys.argv[2]), limit=2**40)

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
        kept = await ids_of(store)
        assert set(kept) >= set(known)
        assert len(kept) == len(set(kept))
        for producer_number in range(8):
            own = [name for name in kept if name.startswith(f"p{producer_number}_")]
            assert own == [f"p{producer_number}_{number}" for number in range(len(own))]
        assert await pending_of(store) == len(kept)
        last = (await seqs_of(store))[-1]
        assert await store.append([*to(known[0]), *to("after")]) == [False, True]
        [after_all] = await pending(store, after=last)
        assert (after_all.event.id, after_all.seq > last) == ("after", True)


@pytest.mark.parametrize("after", [1, 9])
async def test_a_kill_during_pruning_leaves_whole_deliveries(path: Path, after: int) -> None:
    names = [f"e{number}" for number in range(400)]
    async with opened(path) as store:
        await store.append([Append(event(name), (("reg_1", LANE), ("reg_2", "reg_2:0"))) for name in names])
        await settle(store, *map(dead, kept := await seqs_of(store)))
    pruning = child(PRUNE, path, AT + 1)
    assert pruning.stdout is not None
    # Each step reports before its commit, so the last one may be undone.
    removed = sum([int(pruning.stdout.readline()) for _ in range(after)][:-1])
    pruning.send_signal(signal.SIGKILL)
    pruning.communicate(timeout=60)
    left = [row[0] for row in peek(path, "SELECT seq FROM deliveries WHERE state = 'dead' ORDER BY seq")]
    assert left == kept[len(kept) - len(left) :]
    assert len(left) <= len(kept) - removed
    for table, column in (("attempts", "delivery"), ("bodies", "seq")):
        assert [row[0] for row in peek(path, f"SELECT {column} FROM {table} ORDER BY 1")] == left
    async with opened(path) as store:
        await store.enforce_retention(before=AT + 1, limit=2**40)
        assert await ids_of(store, "reg_2:0") == names  # their events stay, as they are pending
        await settle(store, *map(dead, await seqs_of(store, "reg_2:0")))
        await store.enforce_retention(before=AT + 1, limit=2**40)
    assert peek(path, "SELECT count(*) FROM events") == [(0,)]


def test_a_kill_while_the_file_is_created_leaves_it_empty(path: Path) -> None:
    process = child(CREATE, path)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert peek(path, "PRAGMA user_version") == [(0,)]
    assert peek(path, "SELECT count(*) FROM sqlite_schema") == [(0,)]


async def test_the_next_start_creates_it_again(path: Path) -> None:
    child(CREATE, path).communicate(timeout=60)
    async with opened(path) as store:
        assert await store.append(to("e1")) == [True]
    assert peek(path, "PRAGMA user_version") == [(VERSION,)]


@pytest.mark.skipif(
    sys.platform == "darwin", reason="the limit does not hold for files that are mapped there"
)
async def test_a_disk_that_runs_full_and_has_space_again(path: Path) -> None:
    process = child(FILL, path, LANE)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    # Without a configuration, the lines of the log are there, too.
    refusal, kept = (line for line in said.splitlines() if " [" not in line)
    assert f"{path} cannot be used now" in refusal
    async with opened(path) as store:
        assert await ids_of(store) == [f"e{number}" for number in range(int(kept))]


REPLAY = """
import sys
from pathlib import Path
import trio
from hookgw.concurrency.clock import Clock
from hookgw.records.lanes import LaneRule
from hookgw.records.registrations import Ordering
from hookgw.store import ReplayQuery, open_store
from hookgw.store import steps

steps.REPLAY_STEP = 10

async def main():
    async with open_store(Path(sys.argv[1]), clock=Clock()) as store:
        rules = {"reg_1": LaneRule("reg_1", 0, Ordering.URL, 1)}
        cursor = None
        while True:
            step = await store.replay_step(ReplayQuery(instance="shop"), rules, cursor)
            cursor = step.cursor
            sys.stdout.write(f"{step.count}\\n")
            sys.stdout.flush()

trio.run(main)
"""


@pytest.mark.parametrize("after", [1, 7])
async def test_a_kill_during_a_replay_leaves_each_delivery_in_one_state(path: Path, after: int) -> None:
    names = [f"e{number}" for number in range(400)]
    async with opened(path) as store:
        await store.append(to(*names))
        await settle(store, *map(dead, await seqs_of(store)))
    replaying = child(REPLAY, path)
    assert replaying.stdout is not None
    done = sum(int(replaying.stdout.readline()) for _ in range(after))
    replaying.send_signal(signal.SIGKILL)
    replaying.communicate(timeout=60)
    async with opened(path) as store:
        again = await ids_of(store)
        assert len(again) >= done == 10 * after
        assert again == names[: len(again)]
        assert await pending_of(store) == len(again)
        assert sum(await replay(store, reg_1=RULE)) == len(names) - len(again)
        await store.append(to("new"))
        assert await ids_of(store) == [*names, "new"]


async def test_names_of_a_commit_that_the_disk_refused_at_its_end_are_not_used(path: Path) -> None:
    """SQLite rolls back by itself then. Rows with a name that is not on disk would be found by nobody."""
    async with opened(path) as store:
        assert await store.append(to("e1")) == [True]
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
        try:
            # The log would go to a file, too.
            with capture_logs(), pytest.raises(StorageUnavailable):
                await store.append(to("e2", registration="reg_2"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        await store.flush()
        assert await store.append(to("e2", registration="reg_2")) == [True]
        assert {found.lane for found in await store.pending_lanes()} == {LANE, "reg_2:0"}
