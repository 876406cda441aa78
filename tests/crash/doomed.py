"""``hookgw …`` that kills itself with SIGKILL at a moment that cannot be hit from outside.

Run as ``python -m tests.crash.doomed MOMENT ARGUMENTS``; a moment can have a detail, ``MOMENT:DETAIL``.
Everything is the real code; only the named moment is deadly.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hookgw.cli.group import main
from hookgw.dispatch.dispatcher import Dispatcher
from hookgw.gateway import history_pruning
from hookgw.models.deliveries import Delivery, DeliveryState, Settlement
from hookgw.store import Erased
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.sqlite import database, dead_letters, erase, history, pending_changes, requeue, schema
from hookgw.store.sqlite import repartition as repartitioning
from hookgw.store.sqlite.shelves import SqliteRecords
from hookgw.store.sqlite.transaction import Transaction


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
    usual = GroupCommit.settle_nowait

    def doomed(self: GroupCommit[Transaction], settlement: Settlement) -> None:
        if settlement.state is DeliveryState.DELIVERED:
            die()
        usual(self, settlement)

    GroupCommit.settle_nowait = doomed  # type: ignore[assignment,method-assign]


def replay() -> None:
    """One step of a replay is on disk, the second one is in the middle of its transaction."""
    pending_changes.REPLAY_STEP = 100
    pending_changes.requeue = _deadly_after(1, requeue.requeue)  # type: ignore[attr-defined]


def erasure() -> None:
    """One step of an erasure is on disk, the second one is in the middle of its transaction."""
    erase.ROWS = 100
    usual = erase.erase
    pending_changes.erase = _deadly_after(1, usual)  # type: ignore[attr-defined]


def prune() -> None:
    """Two steps of pruning are on disk, the third one is in the middle of its transaction."""
    history_pruning.PRUNE_EVERY = 0.1
    history._prune = _deadly_after(2, history._prune)


def repartition() -> None:
    """Two steps of a re-partition are on disk, the third one is in the middle of its transaction."""
    pending_changes.STEP = 100
    pending_changes.repartition = _deadly_after(2, repartitioning.repartition)  # type: ignore[attr-defined]


def parking() -> None:
    """Two steps of parking are on disk, the third one is in the middle of its transaction."""
    pending_changes.STEP = 100
    dead_letters.park = _deadly_after(2, dead_letters.park)


def state(when: str) -> None:
    """A connector's events are in the tenth transaction with its state, which is written or not yet."""
    usual = SqliteRecords.write_state
    calls = 0

    def doomed(self: SqliteRecords, *arguments: Any, **more: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 10 and when == "before":
            die()
        usual(self, *arguments, **more)
        if calls == 10:
            die()

    SqliteRecords.write_state = doomed  # type: ignore[assignment,method-assign]


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

    usual = schema.migrate_lanes
    schema.migrate_lanes = lambda connection: usual(Dying(connection))  # type: ignore[arg-type]


def _deadly_after(times: int, usual: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a step: once it has done something so many times, it dies before the commit of the next one."""
    done = 0

    def doomed(*arguments: Any, **more: Any) -> Any:
        nonlocal done
        result = usual(*arguments, **more)
        if isinstance(result, Erased):
            count = result.deliveries
        elif isinstance(result, Mapping):  # a change of what is pending: deliveries and bytes by registration
            count = sum(deliveries for deliveries, _ in result.values())
        else:
            count = result[0] if isinstance(result, tuple) else result
        if count and done == times:
            die()
        done += count > 0
        return result

    return doomed


MOMENTS: dict[str, Callable[..., None]] = {
    moment.__name__: moment
    for moment in (dispatch, settle, replay, erasure, prune, repartition, parking, state, creation, upgrade)
}

if __name__ == "__main__":
    moment, *detail = sys.argv.pop(1).split(":")
    MOMENTS[moment](*detail)
    main()
