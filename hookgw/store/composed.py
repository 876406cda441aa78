"""The parts of an engine behind one interface."""

from __future__ import annotations

from typing import Generic, NamedTuple

from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx
from hookgw.store.protocol.backfills import Backfills
from hookgw.store.protocol.figures import FigureStore
from hookgw.store.protocol.history import History
from hookgw.store.protocol.outbox import Outbox
from hookgw.store.protocol.pending_changes import PendingChanges
from hookgw.store.protocol.records import Records
from hookgw.store.protocol.store import AuditLog, Backups

_FACES = (Outbox, PendingChanges, History, Records, AuditLog, Backups, Backfills, FigureStore)


class Parts(NamedTuple):
    outbox: Outbox
    changes: PendingChanges
    history: History
    records: Records
    audit: AuditLog
    backups: Backups
    backfills: Backfills
    figures: FigureStore


class ComposedStore(
    Outbox, PendingChanges, History, Records, AuditLog, Backups, Backfills, FigureStore, Generic[Tx]
):
    """Eight parts as one :class:`hookgw.store.Store`, but for what engines add.

    The methods are those of the parts themselves, not wrappers: ``settle_nowait`` and ``read_lane`` are on
    the path of every delivery.
    """

    def __init__(self, commits: GroupCommit[Tx], parts: Parts) -> None:
        self._commits = commits
        self.check_open = commits.check_open
        for part, face in zip(parts, _FACES, strict=True):
            for name in vars(face):
                if not name.startswith("_"):
                    setattr(self, name, getattr(part, name))
