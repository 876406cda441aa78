"""Work on a data file from outside of the gateway: check, measure and compact it, and restore a backup.

Only compacting and restoring change something, and both hold the lock of the file: they refuse while a
gateway runs.
"""

from __future__ import annotations

import os
import pwd
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from hookgw.config.file_presence import is_there
from hookgw.config.folders import make_folder, sync_folder
from hookgw.kernel.errors import Conflict, StartError, StorageUnavailable
from hookgw.records.sentences import NO_FILE
from hookgw.store.log import ENTRY_BYTES
from hookgw.store.sqlite.backup import PAGE_BYTES, Target, check_space, open_existing
from hookgw.store.sqlite.database import keep_private, start_errors
from hookgw.store.sqlite.event_ids import remembered_bytes
from hookgw.store.sqlite.file_lock import has_foreign_log, hold_lock, log_of
from hookgw.store.sqlite.history import AUDIT_SIZE, FIGURES_SIZE, OUTBOX_SIZE, RECORDS_SIZE
from hookgw.store.sqlite.leftovers import kept_copies, leftovers, remove_leftovers, spare_of
from hookgw.store.sqlite.log_index import index_of
from hookgw.store.sqlite.new_file import keep_under
from hookgw.store.sqlite.schema import (
    APPLICATION_ID,
    OLDEST_VERSION,
    VERSION,
    begin_generation,
)

# Names that rows refer to, by table.
_NAMED = {"events": ("instance", "kind"), "deliveries": ("instance", "kind", "registration", "lane")}
MOST_PROBLEMS = 20
PROGRESS_STEPS = 1_000_000
"""Steps of SQLite between two looks at how far it is: some hundredths of a second."""


class FileReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of a data file found.

    Attributes:
        bytes: its size, without the write-ahead log.
        problems: what is wrong, in sentences; empty if nothing is.
    """

    file: str
    schema: int
    bytes: int
    events: int
    deliveries: int
    pending: int
    problems: list[str]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a data file, and about how many bytes it takes; ``rows`` is ``None`` if it has none."""

    name: str
    rows: int | None
    bytes: int


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a data file before and after it was compacted."""

    before: int
    after: int


def read_schema(connection: sqlite3.Connection, path: Path) -> int:
    """Return the number of a data file's schema. Raises ``StartError`` if this hookgw does not know it."""
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise StartError(f"The file {path} is not a data file of hookgw.")
    if version > VERSION:
        raise StartError(
            f"The file {path} has schema {version}, and this hookgw knows schemas up to {VERSION}: a newer "
            "hookgw wrote it. Use that version."
        )
    if version < OLDEST_VERSION:
        raise StartError(f"The file {path} has schema {version}, which is too old for this hookgw.")
    return version


def check_file(path: Path, on_opened: Callable[[sqlite3.Connection], object] = lambda _: None) -> FileReport:
    """Check a data file, also while a gateway uses it: its pages and indexes, and what refers to what.

    Args:
        on_opened: called with the connection, whose ``interrupt()`` ends the check with an error.
    """
    with start_errors(path), closing(open_existing(path)) as connection:
        on_opened(connection)
        version = read_schema(connection, path)
        # One transaction, so that all counts are of one moment.
        connection.execute("BEGIN")
        problems = _integrity(connection)
        is_damaged = bool(problems)

        def count(statement: str) -> int:
            # A damaged page makes a count fail, or mean nothing.
            return 0 if is_damaged else int(connection.execute(statement).fetchone()[0])

        pending = count("SELECT count(*) FROM deliveries WHERE state = 'pending'")
        walked = count("SELECT count(*) FROM deliveries NOT INDEXED WHERE state = 'pending'")
        if pending != walked:
            problems.append(f"The index of the outbox has {pending} pending deliveries, the table {walked}.")
        problems += _dangling(count)
        return FileReport(
            file=str(path),
            schema=version,
            bytes=path.stat().st_size,
            events=count("SELECT count(*) FROM events WHERE heard >= 0"),
            deliveries=count("SELECT count(*) FROM deliveries"),
            pending=pending,
            problems=problems,
        )


def _integrity(connection: sqlite3.Connection) -> list[str]:
    try:
        found = connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})").fetchall()
    except sqlite3.DatabaseError as error:  # some damage ends the check itself
        return [f"{error}."]
    return [f"{line}." for (line,) in found if line != "ok"]


def _dangling(count: Callable[[str], int]) -> list[str]:
    problems = []
    lost = count(
        "SELECT count(*) FROM deliveries d LEFT JOIN events e ON e.seq = d.event WHERE e.seq IS NULL"
    )
    if lost:
        problems.append(f"{lost} deliveries have no event.")
    lost = count("SELECT count(*) FROM log l LEFT JOIN events e ON e.seq = l.seq WHERE e.seq IS NULL")
    if lost:
        problems.append(f"{lost} entries of the log have no event.")
    for table in ("attempts", "bodies"):
        key = "delivery" if table == "attempts" else "seq"
        lost = count(
            f"SELECT count(*) FROM {table} t LEFT JOIN deliveries d ON d.seq = t.{key} WHERE d.seq IS NULL"  # noqa: S608 - constants
        )
        if lost:
            problems.append(f"{lost} rows of {table} have no delivery.")
    for table, columns in _NAMED.items():
        for column in columns:
            lost = count(
                f"""SELECT count(*) FROM {table} t LEFT JOIN names n ON n.number = t.{column}
                WHERE n.number IS NULL"""  # noqa: S608 - constants
            )
            if lost:
                problems.append(f"{lost} rows of {table} have a {column} without a name.")
    return problems


def measure_file(path: Path) -> list[Usage]:
    """Return what takes space in a data file, also while a gateway uses it.

    The bytes of the parts are estimates from the sizes of their rows. The history is what remains.
    """
    with start_errors(path), closing(open_existing(path)) as connection:
        version = read_schema(connection, path)
        connection.execute("BEGIN")

        def row(statement: str) -> tuple[int, int]:
            first, second = connection.execute(statement).fetchone()
            return first, second

        pages, free = row("SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count")
        ids = row("SELECT count(*), 0 FROM events WHERE heard < 0")[0], remembered_bytes(connection)
        entries, unwanted = row("SELECT count(*), coalesce(sum(unwanted), 0) FROM log")
        parts = {
            "outbox": row(OUTBOX_SIZE),
            "stored bodies": row("SELECT count(*), coalesce(sum(length(body) + 40), 0) FROM bodies"),
            "ids": ids,
            "records": row(RECORDS_SIZE),
            "names": row("SELECT count(*), coalesce(sum(2 * length(name) + 40), 0) FROM names"),
            "audit": row(AUDIT_SIZE),
            "figures": row(FIGURES_SIZE) if version >= 7 else (0, 0),
            "log": (entries, unwanted + entries * ENTRY_BYTES),
        }
        finished = row("SELECT count(*), 0 FROM deliveries WHERE state <> 'pending'")[0]
        used = (pages - free) * PAGE_BYTES
        history = max(0, used - sum(size for _, size in parts.values()))
        log = log_of(path.resolve())
        return [
            *(Usage(name=name, rows=count, bytes=size) for name, (count, size) in parts.items()),
            Usage(name="history", rows=finished, bytes=history),
            Usage(name="free pages", rows=None, bytes=free * PAGE_BYTES),
            Usage(name="file", rows=None, bytes=pages * PAGE_BYTES),
            Usage(name="write-ahead log", rows=None, bytes=log.stat().st_size if log.exists() else 0),
            Usage(name="copies kept", rows=None, bytes=_bytes_of(kept_copies(path.resolve()))),
            Usage(name="left by killed work", rows=None, bytes=_bytes_of(leftovers(path.resolve()))),
        ]


def _bytes_of(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.exists())


def compact_file(path: Path, on_progress: Callable[[int, int], None] = lambda *_: None) -> Compacted:
    """Rewrite a data file without its free pages. A process that is killed meanwhile leaves it as it was.

    Args:
        on_progress: called with the bytes that are written, and about how many there will be.

    Raises:
        StartError: a program uses the file; or the disk has no room for a second copy of its content.
    """
    path = Path(os.path.realpath(path))
    with start_errors(path):
        with closing(open_existing(path)) as connection:
            read_schema(connection, path)
        require_owner(path)
        with hold_lock(path) as lock:
            remove_leftovers(path)
            before = _fold(path)
            _require_alone(path)
            spare = spare_of(path, "compact")
            try:
                with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                    pages, free = connection.execute(
                        "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count"
                    ).fetchone()
                    content = (pages - free) * PAGE_BYTES
                    check_space(path.parent, content)
                    os.close(os.open(spare, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                    connection.set_progress_handler(
                        lambda: on_progress(min(spare.stat().st_size, content), content), PROGRESS_STEPS
                    )
                    connection.execute("VACUUM INTO ?", (str(spare),))
                with spare.open("rb") as file:
                    os.fsync(file.fileno())
                _require_alone(path)  # a program that opened it meanwhile
                # The log is empty and gone, also after a power cut, so nothing of it can end up in the new
                # file.
                sync_folder(path.parent)
                spare.replace(path)
            except BaseException:
                spare.unlink(missing_ok=True)
                raise
            sync_folder(path.parent)
            lock.forget()
            return Compacted(before=before, after=path.stat().st_size)


def restore_file(
    backup: Path,
    path: Path,
    *,
    force: bool,
    on_progress: Callable[[int, int], None] = lambda *_: None,
    on_copied: Callable[[], None] = lambda: None,
) -> Path | None:
    """Replace a data file by a backup, which is copied and checked before anything else changes.

    Args:
        backup: a backup, or the data file of a gateway that does not run. It stays where it is.
        force: move an existing data file aside, instead of refusing.
        on_progress: called with the pages that are copied, and all pages.
        on_copied: called once all are copied, before the copy is checked.

    Returns:
        Where the former data file is now; ``None`` if there was none.

    Raises:
        Conflict: there is a data file, and ``force`` is false.
        StartError: a program uses the data file, or the backup cannot be used: nothing was changed. Or the
            disk refuses. If there is no data file then, the next start is refused.
    """
    path = Path(os.path.realpath(path))
    if Path(os.path.realpath(backup)) == path:
        raise Conflict.of(
            "backup.is_data_file", "The backup {backup} is the data file itself.", backup=backup
        )
    with start_errors(backup, is_backup=True), closing(_open_backup(backup)) as source:
        read_schema(source, backup)
    with start_errors(path):
        make_folder(path.parent)
        require_owner(path)
        keep_private(path)
        with hold_lock(path) as lock:
            if not force and any(map(os.path.lexists, (path, log_of(path)))):
                raise Conflict.of(
                    "backup.data_file_there",
                    "There is a data file {path}. With --force, it is moved aside, and the backup "
                    "takes its place.",
                    path=path,
                )
            remove_leftovers(path)
            spare = spare_of(path, "restore")
            os.close(os.open(spare, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            try:
                _copy_checked(backup, spare, on_progress, on_copied)
            except BaseException:
                spare.unlink()
                raise
            try:
                aside = _move_aside(path)
                # Or a power cut could leave the former log beside the backup, or nothing of the former file.
                sync_folder(path.parent)
                spare.rename(path)
            finally:
                # While there is no data file, it keeps the next start from beginning with an empty one.
                if path.exists():
                    spare.unlink(missing_ok=True)
            sync_folder(path.parent)
            lock.note_closed(path.stat())  # it was checked
            return aside


def require_owner(path: Path) -> None:
    """Refuse to replace the file of another user, and as root to make one in another user's folder.

    hookgw could not open it. Another user's folder may be a volume that belongs to root and hookgw's group.
    """
    found = path if path.exists() else path.parent
    owner = found.stat().st_uid
    if owner == os.geteuid() or (found != path and os.geteuid() != 0):
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"#{owner}"
    raise StartError(f"{found} belongs to {name}. Run this as that user, for example with sudo -u '{name}'.")


def _copy_checked(
    backup: Path, copy: Path, on_progress: Callable[[int, int], None], on_copied: Callable[[], None]
) -> None:
    with (
        start_errors(backup, is_backup=True),
        closing(_open_backup(backup)) as source,
        closing(Target(copy, backup, min_free=0)) as target,
    ):
        target.check_space(source.execute("PRAGMA page_count").fetchone()[0])
        target.copy(source, on_progress)
        target.size()
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        # No file beside it, which a kill would leave; the copy is worth nothing then.
        connection.execute("PRAGMA journal_mode = MEMORY").fetchall()
        begin_generation(connection)
    with copy.open("rb") as file:
        os.fsync(file.fileno())
    on_copied()
    with start_errors(backup, is_backup=True), closing(_open_backup(copy)) as connection:
        problems = _integrity(connection)
    if problems:
        raise StartError(f"The backup {backup} is damaged: {' '.join(problems)}", "Use another backup.")


def _open_backup(path: Path) -> sqlite3.Connection:
    """Open a file for reading, without a trace beside it; it may be in a folder that is read-only."""
    if not is_there(path) or not path.is_file():
        raise StorageUnavailable(NO_FILE(path=path))
    # The data file of a gateway that was killed has its newest commits in the log. A backup has no log.
    log = log_of(path)
    if log.exists() and log.stat().st_size:
        return open_existing(path)
    return sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None)


def _fold(path: Path) -> int:
    """Fold the write-ahead log of a data file into it, and remove the log; return the bytes of the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise StartError(f"Another program reads the data file {path}.", "Stop it, and try again.")
    return path.stat().st_size


def _require_alone(path: Path) -> None:
    """Refuse to replace a file that another program has open: it would write its log into the new one.

    The last program that closes a file removes the log and its index, so one that is left is in use.
    """
    left = [file for file in (log_of(path), index_of(path)) if file.exists()]
    if left:
        raise StartError(
            f"Another program has the data file {path} open: {left[0]} is in use.",
            "Close it, such as a shell of sqlite3 or a tool for backups, and try again.",
        )


def _move_aside(path: Path) -> Path | None:
    """Give a data file and its log another name; return it, or ``None`` if there is no file."""
    log = log_of(path)
    if not path.exists() and not log.exists():
        return None
    aside, number = path.with_name(f"{path.name}.before-restore"), 1
    while os.path.lexists(aside) or os.path.lexists(log_of(aside)):
        aside, number = path.with_name(f"{path.name}.before-restore.{number}"), number + 1
    # Into one file, which moves at once. A damaged one, which may be the reason for the restore, keeps its
    # log: SQLite may delete the log of a file that it cannot read, so it gets its second name before.
    kept = log_of(aside)
    if has_foreign_log(path):
        # Beside no file: it would damage this one.
        log.replace(path.with_name(f"{path.name}.former-wal"))
    with suppress(FileNotFoundError):
        keep_under(log, kept)
    is_whole = False
    with suppress(sqlite3.Error, StorageUnavailable, StartError):
        # With its log: a file in the middle of a checkpoint cannot be read without.
        with closing(open_existing(path)) as connection:
            read_schema(connection, path)
        _fold(path)
        is_whole = True
        kept.unlink(missing_ok=True)
    if is_whole:
        _require_alone(path)
    # The log first: a process that is killed in between must not leave it beside the backup, whose pages it
    # would overwrite.
    log.unlink(missing_ok=True)
    index_of(path).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        path.rename(aside)
    return aside
