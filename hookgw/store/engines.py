"""The engine that the configuration names."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING

from hookgw.concurrency.clock import Clock
from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.concurrency.loop_load import LoopLoad
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.config.master_keys import MasterKeys
from hookgw.config.settings import StorageSettings
from hookgw.kernel.errors import StartError
from hookgw.store.protocol.store import Store
from hookgw.store.records import StoreObserver
from hookgw.store.sqlite.store import open_store

if TYPE_CHECKING:
    from hookgw.store.postgresql.server import Server


def open_storage(
    settings: StorageSettings,
    *,
    clock: Clock,
    observer: StoreObserver | None = None,
    keep_unwanted: bool = True,
    keys: MasterKeys = MasterKeys(),  # noqa: B008 - it is immutable
    loop_load: LoopLoad | None = None,
    threads: Threads = SYSTEM_THREADS,
    hub: Hub = NO_HUB,
) -> AbstractAsyncContextManager[Store]:
    """Open the storage that the settings name, and create it if it is missing.

    Args:
        settings: the engine and the place; a retention of 0 keeps no history.
        keep_unwanted: whether events without a delivery are kept with their payloads, as finished deliveries.
        keys: encrypt the records.
        loop_load: what the event loop has to do, for ``storage.inline_commits``; ``None`` if nobody knows it.
        hub: makes the steps of commits.

    Returns:
        An async context manager that gives the store; see :func:`hookgw.store.sqlite.store.open_store`.

    Raises:
        StartError: the driver of the engine is missing; when it is entered, whatever keeps it from opening.
    """
    keep_history = settings.retention > 0
    keep_unwanted = keep_unwanted and keep_history
    if settings.engine == "sqlite":
        return open_store(
            Path(settings.path),
            clock=clock,
            observer=observer,
            keep_history=keep_history,
            keep_unwanted=keep_unwanted,
            keys=keys,
            loop_load=loop_load if settings.inline_commits else None,
            threads=threads,
            hub=hub,
        )
    server = database_of(settings.url, settings.schema)
    from hookgw.store.postgresql.store import open_store as open_database

    return open_database(
        server,
        clock=clock,
        observer=observer,
        keep_history=keep_history,
        keep_unwanted=keep_unwanted,
        keys=keys,
        threads=threads,
        hub=hub,
    )


def set_remains_aside(settings: StorageSettings) -> str | None:
    """Make room for a new gateway where tables of a former one are missing.

    Returns:
        Where the remains are now; ``None`` if there were none.

    Raises:
        StartError: the engine has nothing of the kind, its driver is missing, or the server refuses.
    """
    if settings.engine == "sqlite":
        raise StartError(
            "--new is for storage.engine: postgresql.",
            f"To begin with an empty data file, move {settings.path} away, with the files beside it.",
        )
    server = database_of(settings.url, settings.schema)
    from hookgw.store.postgresql.schema import set_aside
    from hookgw.store.postgresql.start_checks import start_errors

    with start_errors(server), closing(server.connect()) as connection:
        return set_aside(connection, server.schema)


def database_of(url: str | None, schema: str) -> Server:
    """Return the database that a URL names. It is not asked. Its modules can be imported from then on.

    Raises:
        StartError: its driver is missing, or the URL cannot be that of a database.
    """
    try:
        from hookgw.store.postgresql.server import Server
    except ImportError as error:
        raise StartError(
            "storage.engine: postgresql needs the driver psycopg, which is not installed.",
            'Run: pip install "hookgw[postgresql]"',
        ) from error
    return Server(url or "", schema)
