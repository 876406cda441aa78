"""The contract of a whole store: its parts, the audit, backups, and what an operator asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from hookgw.records.audit import AuditEntry
from hookgw.store.fleet import SharedStore
from hookgw.store.protocol.backfills import Backfills
from hookgw.store.protocol.figures import FigureStore
from hookgw.store.protocol.history import History
from hookgw.store.protocol.outbox import Outbox
from hookgw.store.protocol.pending_changes import PendingChanges
from hookgw.store.protocol.records import Records
from hookgw.store.records import AuditPage, AuditQuery, DiskSpace


class AuditLog(Protocol):
    """Who changed what: entries that are written with the changes, and kept for a while."""

    async def record_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Store entries in a commit of their own: those of what no other method notes."""

    async def list_audit(self, query: AuditQuery) -> AuditPage:
        """Return entries, the newest first, and the cursor for the older ones.

        A search that takes long ends early, as in :meth:`History.list_deliveries`.
        """

    async def prune_audit(self, *, before: float, most: int) -> int:
        """Remove old entries, and the oldest ones of an instance with too many, in small commits.

        Args:
            before: entries of before this time go; in seconds since the epoch.
            most: how many entries of one instance stay, the newest. What concerns no instance has no limit.

        Returns:
            How many were removed.
        """


class Backups(Protocol):
    """Copies of everything, made while the store is used."""

    async def back_up(self, file: Path, on_progress: Callable[[int, int], None], *, min_free: int = 0) -> int:
        """Write a consistent copy of everything to a new file.

        The file gets its name once it is whole and on disk, with mode 0600. Whatever is encrypted in the
        storage is encrypted in it, with the same key. Writes go on meanwhile, and wait for some milliseconds
        at a time.

        Args:
            file: in an existing folder.
            on_progress: called in the Trio thread with the units that are copied, and all of them as far as
                known. Both may grow. It must not block or raise.
            min_free: the bytes that must stay free if the file is on the disk of the storage.

        Returns:
            The bytes of the file.

        Raises:
            Conflict: there is a file, or a link, of that name. It was not changed.
            StorageUnavailable: the disk of the file refuses, or has no room. Nothing of it remains.
        """


class Store(Outbox, PendingChanges, Backfills, History, FigureStore, Records, AuditLog, Backups, Protocol):
    """Everything that lasts."""

    @property
    def shared(self) -> SharedStore | None:
        """What nodes that share the storage need beside the rest; ``None`` if only one process may use it."""

    async def check(self) -> None:
        """Write something small. Raises ``StorageUnavailable`` if the storage refuses."""

    async def disk_space(self) -> DiskSpace | None:
        """Measure how much can still be written; ``None`` if the storage is on no disk of this machine."""

    async def scrub(self) -> bool:
        """Remove what the engine still keeps of erased bytes beside its tables, such as a log of changes.

        Returns:
            Whether it succeeded. It gives up after some seconds in which reads do not allow it.
        """

    def check_open(self) -> None:
        """Raise ``StorageUnavailable`` if a write would not be accepted now."""
