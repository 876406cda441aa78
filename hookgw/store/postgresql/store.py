"""The store in one PostgreSQL database: its parts, composed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path

import psycopg
import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.concurrency.tasks import run_essential
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.config.master_keys import MasterKeys
from hookgw.kernel.errors import StartError, StorageUnavailable
from hookgw.store.audit_entries import SteppedAudit
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.read_failures import ReadFailures
from hookgw.store.composed import ComposedStore, Parts
from hookgw.store.encryption import RecordCipher
from hookgw.store.figures import SteppedFigures
from hookgw.store.fleet import Membership, SharedBacklog
from hookgw.store.log import SteppedLog
from hookgw.store.postgresql import audit, backfills, figures, history, log, outbox, pending_changes, shelves
from hookgw.store.postgresql.backfills import PostgresqlBackfills
from hookgw.store.postgresql.backlog_changes import PostgresqlBacklogs
from hookgw.store.postgresql.database import (
    COUNT_PATIENCE,
    DatabaseSession,
    LongReader,
    Reader,
    watch,
)
from hookgw.store.postgresql.environment import check_server
from hookgw.store.postgresql.erase import remove_dead_rows
from hookgw.store.postgresql.feed import Feed, find_start
from hookgw.store.postgresql.guard import Guard
from hookgw.store.postgresql.held import HeldWatch
from hookgw.store.postgresql.history import PostgresqlHistory
from hookgw.store.postgresql.identity import find
from hookgw.store.postgresql.log import begin_log
from hookgw.store.postgresql.nodes import Nodes, forget_member
from hookgw.store.postgresql.outbox import PostgresqlOutbox
from hookgw.store.postgresql.pending_changes import PostgresqlPendingChanges
from hookgw.store.postgresql.reencrypt import reencrypt
from hookgw.store.postgresql.restored import renumber_restored
from hookgw.store.postgresql.schema import migrate, missing_tables, raise_sequences
from hookgw.store.postgresql.server import WRITE_PATIENCE, Server
from hookgw.store.postgresql.server_errors import reason_of
from hookgw.store.postgresql.start_checks import check_pooler, start_errors
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.postgresql.writer import Writer, touch
from hookgw.store.records import SilentObserver, StoreObserver
from hookgw.store.shelves import ShelvedRecords

logger = structlog.get_logger("hookgw.store")

# How often, in seconds, the feed is read although nobody has said that there is something new.
POLL = 1.0
# How soon it is read again, in seconds, while an older transaction holds it up; doubled up to POLL.
FIRST_POLL = 0.002
# How many lists are read at the same moment.
LIST_CONNECTIONS = 2
# The wait, in seconds, before the connection that listens is opened again.
LISTEN_RETRY = 1.0


class PostgresqlStore(ComposedStore[Transaction]):
    def __init__(
        self,
        commits: GroupCommit[Transaction],
        parts: Parts,
        server: Server,
        writer: Writer,
        feed: Feed,
        held: HeldWatch,
        nodes: Nodes,
        backlogs: PostgresqlBacklogs,
        threads: Threads,
        readers: Sequence[Reader],
    ) -> None:
        super().__init__(commits, parts)
        self._feed = feed
        self._held = held
        self._shared = trio.Event()
        self.server = server
        self.writer = writer
        self.members: Membership = nodes
        self.backlogs: SharedBacklog = backlogs
        self._nodes = nodes
        self._threads = threads
        self._readers = (*readers, nodes.reader, backlogs.reader)

    @property
    def shared(self) -> PostgresqlStore:
        return self

    async def connect(self) -> None:
        await self.check()
        await self._connect_readers()

    async def _connect_readers(self) -> None:
        for reader in self._readers:
            await reader.connect()

    def share(
        self,
        is_wanted: Callable[[str], bool],
        is_reported: Callable[[str], bool] = lambda _: True,
        removed: Callable[[], None] = lambda: None,
    ) -> None:
        """See :class:`hookgw.store.fleet.SharedStore`."""
        self._feed.is_wanted = is_wanted
        self._held.is_reported = is_reported
        self._feed.channel = f"hookgw_{self.server.schema}"
        self.writer.guard = Guard(self._nodes, removed)
        self._shared.set()

    async def check(self) -> None:
        await self._commits.call(touch)

    async def disk_space(self) -> None:
        # The server's disk is its own matter: it refuses writes when it is full.
        return None

    async def scrub(self) -> bool:
        # Not one of the sessions: it may take long, and other reads would wait.
        return await self._threads.run(partial(remove_dead_rows, self.server))

    async def run_listener(self, wake: Callable[[], None], threads: Threads) -> None:
        """Wake the feed whenever another node says that it has appended, until cancelled."""
        await self._shared.wait()
        channel = self._feed.channel
        assert channel is not None  # noqa: S101
        while True:
            # Now, and again after they were lost: a node that takes over may find none that is free. The
            # writer is connected, as it reads the feed.
            with suppress(StorageUnavailable, psycopg.Error, OSError):
                await self._connect_readers()
                switches = self.server.identity.switches
                connection = await threads.run(partial(_listen, self.server, channel))
                try:
                    # A former server may live on, and nobody notifies there.
                    while switches == self.server.identity.switches:
                        with trio.move_on_after(LISTEN_RETRY):
                            await trio.lowlevel.wait_readable(connection.fileno())
                        connection.pgconn.consume_input()
                        heard = False
                        while notify := connection.pgconn.notifies():
                            heard = heard or notify.be_pid != self.writer.backend
                        if heard:
                            wake()
                finally:
                    connection.close()
            # The feed is read every second meanwhile.
            await trio.sleep(LISTEN_RETRY)


class _NoBackups:
    """The server has tools of its own for backups, which hookgw's service names."""

    async def back_up(
        self,
        file: Path,
        on_progress: Callable[[int, int], None],
        *,
        min_free: int = 0,
    ) -> int:
        raise NotImplementedError


@asynccontextmanager
async def open_store(
    server: Server,
    *,
    clock: Clock,
    observer: StoreObserver | None = None,
    keep_history: bool = True,
    keep_unwanted: bool = True,
    keys: MasterKeys = MasterKeys(),  # noqa: B008 - it is immutable
    threads: Threads = SYSTEM_THREADS,
    hub: Hub = NO_HUB,
) -> AsyncIterator[PostgresqlStore]:
    """Open the database, and create the tables if they are missing.

    Args:
        keep_history, keep_unwanted: what is kept beside what is pending; see
            :func:`hookgw.store.sqlite.store.open_store`.
        keys: encrypt the records, at once and from now on; without a key they are in the clear.

    Returns:
        An async context manager that gives the store. It owns the tasks that write and the connections. At
        its end it writes what is queued, for at most 5 s, also when cancelled.

    Raises:
        StartError: the server does not answer, is too old or not safe, or the tables are those of another
            version or encrypted with another master key. Errors of the block come out in an exception group,
            as from any nursery.
    """
    writing, refilling = DatabaseSession(server, WRITE_PATIENCE), DatabaseSession(server)
    # Several, so that no client waits for another.
    listing = [DatabaseSession(server) for _ in range(LIST_CONNECTIONS)]
    counting = DatabaseSession(server, COUNT_PATIENCE)  # all other reads, too
    sessions = [writing, refilling, *listing, counting]
    try:
        begin = partial(_open, server, counting, keys, keep_unwanted, clock.steady())
        cipher, feed = await threads.run(begin)
        failures = ReadFailures()
        writer = Writer(writing, feed, keep_history=keep_history, keep_unwanted=keep_unwanted)
        commits: GroupCommit[Transaction] = GroupCommit(
            writer,
            observer or SilentObserver(),
            on_committed=lambda: committed(),
            unusable=failures.current,
            threads=threads,
            hub=hub,
        )
        reader = partial(Reader, failures=failures, threads=threads)
        lanes, lists = reader(refilling), reader(*listing)
        background = LongReader(counting, failures=failures, threads=threads)
        feed_task = _FeedTask(commits, feed)
        held = HeldWatch(background, clock)
        nodes = Nodes(server, cipher, threads)
        backlogs = PostgresqlBacklogs(server, background, threads)
        sessions += [nodes.session, backlogs.session]
        records = ShelvedRecords(commits, background, cipher, shelves)
        events = SteppedLog(commits, lists, background, log)
        parts = Parts(
            PostgresqlOutbox(
                commits,
                lanes,
                background,
                clock,
                records,
                outbox,
                lambda: nodes.known_version,
                lambda: held.found,
            ),
            PostgresqlPendingChanges(commits, background, clock, records, pending_changes),
            PostgresqlHistory(commits, lists, background, clock, history, events),
            records,
            SteppedAudit(commits, lists, background, audit),
            _NoBackups(),
            PostgresqlBackfills(commits, background, clock, records, backfills),
            SteppedFigures(commits, lists, background, figures),
        )

        def committed() -> None:
            feed_task.committed()
            events.committed()

        readers = (lanes, lists, background)
        # Its methods are those of the parts.
        store = PostgresqlStore(  # type: ignore[abstract]
            commits, parts, server, writer, feed, held, nodes, backlogs, threads, readers
        )
        # To the end: a call that never returns would keep the store from closing.
        watching = trio.CancelScope(shield=True)
        async with trio.open_nursery() as watchers:
            watchers.start_soon(_watch, sessions, watching)
            try:
                async with trio.open_nursery() as nursery:
                    is_closing = False
                    nursery.start_soon(run_essential, "The writer", lambda: is_closing, commits.run)
                    nursery.start_soon(feed_task.run)
                    nursery.start_soon(held.run)
                    nursery.start_soon(events.run)
                    nursery.start_soon(store.run_listener, feed_task.wake, threads)
                    nursery.start_soon(_follow_switches, server, writer, nodes, threads)
                    try:
                        yield store
                    finally:
                        is_closing = True
                        await commits.close()  # noqa: ASYNC102 -- it shields and bounds itself
                        nursery.cancel_scope.cancel()
            finally:
                watching.cancel()
    finally:
        for session in sessions:
            session.close()


async def _watch(sessions: Sequence[DatabaseSession], scope: trio.CancelScope) -> None:
    with scope:
        await watch(sessions)


class _FeedTask:
    """Reads the feed among the commits: every second, when told to, and soon again while it is behind."""

    def __init__(self, commits: GroupCommit[Transaction], feed: Feed) -> None:
        self._commits = commits
        self._feed = feed
        self._woken = trio.Event()
        self._is_waiting = False

    def wake(self) -> None:
        """Read at once: another node has appended, or ended a transaction."""
        self._woken.set()

    def committed(self) -> None:
        """Note a commit, after which the feed was read."""
        # Not while it waits already: a commit would cut each wait short.
        if self._feed.is_behind and not self._is_waiting:
            self._woken.set()

    async def run(self) -> None:
        """Read until the store is closed."""
        wait = POLL
        with suppress(StorageUnavailable):  # the store is closed
            while True:
                with trio.move_on_after(wait):
                    await self._woken.wait()
                self._woken = trio.Event()
                await self._commits.flush()
                if not self._feed.is_behind:
                    self._is_waiting, wait = False, POLL
                    continue
                if not self._is_waiting:
                    self._is_waiting, wait = True, FIRST_POLL
                wait = min(2 * wait, POLL)


async def _follow_switches(server: Server, writer: Writer, nodes: Nodes, threads: Threads) -> None:
    """Adopt another server that the connections lead to, until cancelled."""
    while True:
        await trio.sleep(POLL)
        if not server.identity.is_switched:
            continue
        logger.error(
            "the database is another one, an earlier state, or was promoted: it is checked",
            database=server.place,
        )
        if writer.guard is not None:
            # Others may take its shards there as soon as it is adopted. The next heartbeat comes later.
            writer.guard.removed()
        try:
            await threads.run(partial(_adopt, server, nodes.generation))
        except (StartError, psycopg.Error) as error:
            reason = reason_of(error) if isinstance(error, psycopg.Error) else str(error).strip()
            server.identity.refusal = reason
            logger.warning("the database is not used yet", database=server.place, reason=reason)
        else:
            logger.warning("the database is used, and everything is read again", database=server.place)


def _adopt(server: Server, generation: int) -> None:
    """Prepare another server as a start would, and use it from now on.

    Raises:
        StartError, psycopg.Error: it cannot be used, or a newer primary has taken its place.
    """
    with closing(server.connect(COUNT_PATIENCE, to_adopt=True)) as connection:
        found = find(connection)
        if server.identity.is_former(found):
            # It lacks what was stored since, and would send again what has arrived.
            raise StartError(
                "It is the former primary, from before a failover, and still accepts writes.",
                "Stop it, or make it a standby. To go back to it for good, restart hookgw.",
            )
        check_server(connection, server.place)
        if missing := missing_tables(connection):
            raise StartError(f"Tables of hookgw are missing there: {', '.join(missing)}.")
        migrate(connection, server.schema, server.place)
        raise_sequences(connection)
        renumber_restored(connection, server.place)
        # Its heartbeats find that it is no member, so it stops its lanes, joins, and reads everything again.
        # Until then the storage refuses the outcomes that it has for deliveries of the former server.
        forget_member(connection, generation)
        start = find_start(connection)
    server.identity.adopt(found, start)


def _open(
    server: Server, session: DatabaseSession, keys: MasterKeys, keep_unwanted: bool, now: float
) -> tuple[RecordCipher | None, Feed]:
    def prepare(connection: psycopg.Connection) -> tuple[RecordCipher | None, Feed]:
        check_server(connection, server.place)
        migrate(connection, server.schema, server.place)
        if behind := raise_sequences(connection):
            logger.warning("sequences were behind their tables and were raised", sequences=behind)
        renumber_restored(connection, server.place)
        begin_log(connection, now, is_whole=keep_unwanted)
        cipher = reencrypt(connection, keys, server.place)
        feed = Feed()
        feed.start_at(find_start(connection))
        return cipher, feed

    with start_errors(server):
        session.call(partial(check_pooler, server=server))
        # Not the writing connection: all of this may take longer than a commit may.
        return session.call(prepare)


def _listen(server: Server, channel: str) -> psycopg.Connection:
    connection = server.connect()
    connection.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))
    return connection
