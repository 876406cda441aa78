"""``hookgw …`` that kills itself with SIGKILL at a moment that cannot be hit from outside.

Run as ``python -m tests.crash.doomed MOMENT ARGUMENTS``; a moment can have details, ``MOMENT:DETAIL:DETAIL``.
Everything is the real code; only the named moment is deadly. A moment that both engines have is deadly in
both: the configuration says which one runs.
"""

import os
import signal
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from hookgw import Delivery, DeliveryState, Event
from hookgw.operations import history_pruning
from hookgw.store import log, steps
from hookgw.store.postgresql import erase as postgresql_erase
from hookgw.store.postgresql import history as postgresql_history
from hookgw.store.postgresql import log as postgresql_log
from hookgw.store.postgresql import pending_changes as postgresql_pending_changes
from hookgw.store.sqlite import database, erase, history, pending_changes, schema
from hookgw.store.sqlite import log as sqlite_log
from tests.public.command import main
from tests.public.deliveries import Pulled, Pulls
from tests.public.lanes import Dispatcher
from tests.public.postgresql import Writer
from tests.public.records import Job, JobKind, LaneRule, Position, Settlement
from tests.public.store import CommitGroup, GroupCommit, ShelvedRecords


def die(*_: object) -> None:
    """End at once, as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def dispatch() -> None:
    """Events are on disk, and no lane nor producer has heard of it."""

    def doomed(self: Dispatcher, deliveries: Iterable[Delivery]) -> None:
        die()

    Dispatcher.dispatch = doomed  # type: ignore[method-assign]


def settle() -> None:
    """A receiver's 2xx was read, and nothing of it is stored."""
    usual: Any = GroupCommit.settle_nowait

    def doomed(self: GroupCommit[Any], settlement: Settlement) -> int:
        if settlement.state is DeliveryState.DELIVERED:
            die()
        count: int = usual(self, settlement)
        return count

    GroupCommit.settle_nowait = doomed  # type: ignore[method-assign]


def pulled() -> None:
    """A receiver's fetch has its deliveries, and their lease, and no answer."""
    usual: Any = Pulls.pull

    async def doomed(self: Pulls, *arguments: Any) -> list[Pulled]:
        found: list[Pulled] = await usual(self, *arguments)
        if found:
            die()
        return found

    Pulls.pull = doomed  # type: ignore[assignment,method-assign]


def acknowledged() -> None:
    """What a receiver has acknowledged is on disk, and it has not heard of it."""
    usual: Any = Pulls.acknowledge

    async def doomed(self: Pulls, *arguments: Any) -> Any:
        done = await usual(self, *arguments)
        die()
        return done

    Pulls.acknowledge = doomed  # type: ignore[assignment,method-assign]


def replay() -> None:
    """One step of a replay is on disk, the second one is in the middle of its transaction."""
    steps.REPLAY_STEP = 100
    for module in (pending_changes, postgresql_pending_changes):
        _make_deadly(module, "requeue", after=1)


def backfill() -> None:
    """One step of a backfill is on disk, the second one is in the middle of its transaction."""
    steps.REPLAY_STEP = 100
    usual: Any = ShelvedRecords.write_job

    def doomed(self: ShelvedRecords[Any, Any], transaction: Any, job: Job | None) -> None:
        # What a step does comes first, and the job last.
        if job is not None and job.kind is JobKind.BACKFILL and job.done > steps.REPLAY_STEP:
            die()
        usual(self, transaction, job)

    ShelvedRecords.write_job = doomed  # type: ignore[method-assign]


def backfill_call() -> None:
    """The call of a backfill is on disk, and nobody has heard of it."""

    def doomed(self: Dispatcher, registration: str, position: Position) -> None:
        die()

    Dispatcher.set_barrier = doomed  # type: ignore[method-assign]


def erasure() -> None:
    """One step of an erasure is on disk, the second one is in the middle of its transaction."""
    erase.ROWS = postgresql_erase.ROWS = 100  # type: ignore[attr-defined]
    for module in (pending_changes, postgresql_pending_changes):
        _make_deadly(module, "remove_events", after=1)


def prune() -> None:
    """Two steps of pruning are on disk, the third one is in the middle of its transaction."""
    history_pruning.PRUNE_EVERY = 0.1
    for module in (history, postgresql_history):
        _make_deadly(module, "prune", after=2)


def index() -> None:
    """Two runs of the log's index are on disk, the third one is in the middle of its transaction."""
    log.INDEX_EVERY, log.INDEX_ROWS = 0.1, 100
    for module in (sqlite_log, postgresql_log):
        _make_deadly(module, "add_run", after=2)


def limit() -> None:
    """Two steps have made the log smaller on disk, the third one is in the middle of its transaction."""
    history_pruning.PRUNE_EVERY = 0.1
    for module in (sqlite_log, postgresql_log):
        _make_deadly(module, "remove_unwanted", after=2)


def repartition() -> None:
    """Two steps of a re-partition are on disk, the third one is in the middle of its transaction."""
    steps.STEP = 100
    for module in (pending_changes, postgresql_pending_changes):
        _make_deadly(module, "repartition", after=2)


def former_chats() -> None:
    """Nothing is deadly: lanes by chat are those of the version that knew one name for each chat."""

    def chat_hash(self: Event) -> int:
        data = self.data if isinstance(self.data, dict) else {}
        return zlib.crc32(str(data.get("key", {}).get("remoteJid", "")).encode())

    prefix = property(lambda self: f"{self.registration}:{self.generation}")
    LaneRule.generation_prefix = prefix  # type: ignore[assignment,method-assign]
    Event.chat_hash = property(chat_hash)  # type: ignore[assignment]


def parking() -> None:
    """Two steps of parking are on disk, the third one is in the middle of its transaction."""
    steps.STEP = 100
    for module in (pending_changes, postgresql_pending_changes):
        _make_deadly(module, "bury", after=2)


def state(when: str) -> None:
    """A connector's events are in the tenth transaction with its state, which is written or not yet."""
    _make_tenth_state_deadly(ShelvedRecords, when)


def commit(when: str, what: str) -> None:
    """The commit of a transaction is not on its way to PostgreSQL yet, or has no answer yet, or has one.

    Args:
        when: ``before`` the commit is sent, once it is ``sent``, or once it is ``answered``.
        what: the first transaction that has it is meant: ``appends``, or ``settlements`` of a 2xx.
    """
    transact = Writer.transact
    execute: Any = psycopg.Connection.execute
    is_meant = False

    def doomed_transact(
        self: Writer,
        connection: psycopg.Connection,
        groups: Sequence[CommitGroup[Any]],
        *more: Any,
        **named: Any,
    ) -> Any:
        nonlocal is_meant
        if what == "appends":
            is_meant = any(group.appends for group in groups)
        else:
            settled = [settlement for group in groups for settlement in group.settlements]
            is_meant = any(settlement.state is DeliveryState.DELIVERED for settlement in settled)
        result = transact(self, connection, groups, *more, **named)
        # Right after a registration, events are refused once, because the node has not read it: not those.
        if is_meant and when == "answered" and (result.appended or what == "settlements"):
            die()
        return result

    def doomed_execute(self: psycopg.Connection, statement: Any, *more: Any, **named: Any) -> Any:
        is_commit = is_meant and statement == "COMMIT"
        if is_commit and when == "before":
            die()
        result = execute(self, statement, *more, **named)
        if is_commit and when == "sent":
            while self.pgconn.flush():
                pass
            die()
        return result

    Writer.transact = doomed_transact  # type: ignore[method-assign]
    psycopg.Connection.execute = doomed_execute  # type: ignore[assignment,method-assign]


def creation() -> None:
    """A new data file has its schema, but for the commit."""
    schema.SCHEMA = (*schema.SCHEMA, "SELECT die()")
    usual = schema.migrate

    def doomed(connection: sqlite3.Connection, path: Path) -> None:
        connection.create_function("die", 0, die)
        usual(connection, path)

    database.migrate = doomed  # type: ignore[attr-defined]


def upgrade(statement: str) -> None:
    """The migration of a file of the previous version dies before the statement with that number."""

    class Dying:
        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection = connection
            self._count = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            self._count += 1
            if self._count == int(statement):
                die()
            return self._connection.execute(*arguments)

    usual = schema.upgrade
    schema.upgrade = lambda connection: usual(Dying(connection))  # type: ignore[arg-type]


def _make_tenth_state_deadly(records: Any, when: str) -> None:
    usual = records.write_state
    calls = 0

    def doomed(self: Any, *arguments: Any, **more: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 10 and when == "before":
            die()
        usual(self, *arguments, **more)
        if calls == 10:
            die()

    records.write_state = doomed


def _make_deadly(module: Any, name: str, *, after: int) -> None:
    """Wrap a step: once it has done something so many times, it dies before the commit of the next one."""
    usual: Callable[..., Any] = getattr(module, name)
    done = 0

    def doomed(*arguments: Any, **more: Any) -> Any:
        nonlocal done
        result = usual(*arguments, **more)
        count = _rows_of(result)
        if count and done == after:
            die()
        done += count > 0
        return result

    setattr(module, name, doomed)


def _rows_of(result: Any) -> int:
    """Return how many rows a step has changed."""
    if result is None:  # it has removed what it was given
        return 1
    if isinstance(result, tuple):  # what was done comes first, then where the step ended
        return _rows_of(result[0])
    if isinstance(result, Mapping):
        # A change of what is pending (deliveries and bytes by registration), or lanes by delivery.
        return sum(change[0] if isinstance(change, tuple) else 1 for change in result.values())
    return int(result)


MOMENTS: dict[str, Callable[..., None]] = {
    moment.__name__: moment
    for moment in (
        *(
            dispatch,
            settle,
            pulled,
            acknowledged,
            replay,
            backfill,
            backfill_call,
            erasure,
            prune,
            index,
            limit,
        ),
        *(repartition, parking, state, commit),
        *(creation, upgrade, former_chats),
    )
}

if __name__ == "__main__":
    moment, *details = sys.argv.pop(1).split(":")
    MOMENTS[moment](*details)
    main()
