"""Backups of the data file while the gateway runs, into one configured folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.concurrency.threads import Threads
from hookgw.config.file_permissions import first_trouble
from hookgw.config.folders import make_folder
from hookgw.config.settings import StorageSettings
from hookgw.core.audit import Audit
from hookgw.core.jobs import Jobs, RunningJob
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, Invalid, StorageUnavailable
from hookgw.kernel.times import rfc3339
from hookgw.records.audit import AuditAction
from hookgw.records.instances import check_name
from hookgw.records.jobs import Job, JobKind
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.store import Store

logger = structlog.get_logger("hookgw.storage")


class Backup(NamedTuple):
    """The name of a backup's file, and its job."""

    name: str
    job: Job


class BackupService(Collaborator):
    """Makes backups, one at a time."""

    _store: Store
    _jobs: Jobs
    _audit: Audit
    _clock: Clock
    _settings: StorageSettings
    _threads: Threads

    def __post_init__(self) -> None:
        self._thread = trio.CapacityLimiter(1)

    async def create(self, name: str | None = None) -> Backup:
        """Copy the data file into ``storage.backup_folder``; without a name, the file's name has the time.

        A cancelled caller does not stop it; the end of the process does, and leaves nothing behind.

        Returns:
            The backup. Its job may still run; see :meth:`Jobs.wait`. ``done`` and ``total`` of the job count
            pages.

        Raises:
            Invalid: a bad name.
            Conflict: the data is in a database, no folder is set, the file exists, or another backup runs.
            StorageUnavailable: the disk of the folder refuses or has no room, or others can write to it.
        """
        if not self._settings.backup_folder:
            if self._settings.engine == "postgresql":  # whose configuration has no folder
                raise Conflict.of(
                    "backup.of_database",
                    "The data is in a database: back it up with pg_dump, or with other tools of the server.",
                )
            raise Conflict.of(
                "backup.no_folder",
                "There is no folder for backups: set storage.backup_folder, and restart hookgw.",
            )
        if name is None:
            moment = rfc3339(self._clock.wall()).partition(".")[0]
            name = f"hookgw-{moment.replace('-', '').replace(':', '')}Z.db"
        check_name(name, "name")
        if name.startswith("."):
            raise Invalid.of("backup.name_hidden", "name must not begin with a dot.")
        running = self._jobs.running(JobKind.BACKUP, GLOBAL_INSTANCE)
        if running is not None:
            raise Conflict.of(
                "backup.under_way",
                "A backup is under way ({id}); try again when it has ended.",
                id=running.id,
            )
        job = self._jobs.new(JobKind.BACKUP, GLOBAL_INSTANCE)
        file = Path(self._settings.backup_folder) / name
        # Not stored until it has ended: the next start cannot go on with half a file.
        started = self._jobs.start(
            job, lambda running: partial(self._carry_out, running, file), is_stored=False
        )
        return Backup(name, await self._jobs.wait(started))

    async def _carry_out(self, running: RunningJob, file: Path) -> None:
        def on_progress(done: int, total: int) -> None:
            running.job = msgspec.structs.replace(running.job, done=done, total=total)

        await self._threads.run(partial(_prepare, file.parent), limiter=self._thread)
        size = await self._store.back_up(file, on_progress, min_free=self._settings.min_free)
        try:
            await self._audit.record(
                self._audit.entry(AuditAction.STORAGE_BACKUP, subject=file.name, details={"bytes": size})
            )
        except StorageUnavailable as error:
            # The backup is whole: if the disk refuses now, the backup is needed even more.
            logger.warning("backup not in the audit", file=str(file), reason=str(error))
        logger.info("backup made", file=str(file), bytes=size)


def _prepare(folder: Path) -> None:
    """Create the folder, and refuse one that others can write to: they could replace backups.

    Raises:
        StorageUnavailable: it cannot be used; the message says why.
    """
    try:
        make_folder(folder)
        trouble = first_trouble([folder])
    except OSError as error:
        raise StorageUnavailable.of(
            "backup.folder_unusable",
            "storage.backup_folder: {folder} cannot be used: {reason}.",
            folder=folder,
            reason=error.strerror,
        ) from error
    if trouble is not None:
        raise StorageUnavailable.of(
            "backup.folder_trouble", "storage.backup_folder: {trouble}", trouble=trouble
        )
