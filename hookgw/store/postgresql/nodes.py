"""The nodes of a fleet, and which shards they hold; see :class:`hookgw.store.fleet.Membership`.

Three tables, because three things must not wait for each other:

- ``nodes`` has the heartbeats, which change twice a second;
- ``members`` has one row for each node that may write, which never changes: commits lock it with
  FOR KEY SHARE (:data:`FENCE`), and only the removal of the node waits for them, and they for it;
- ``shards`` says which member works on each shard.

Everything that changes more than a heartbeat happens under one advisory lock, so that the rows of these
tables are locked in one order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

import structlog
import trio
from psycopg import Connection

from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.kernel.errors import Conflict, StorageUnavailable
from hookgw.records.fleet import DEAD_AFTER, FleetMember, FleetView, ShardEpoch
from hookgw.records.sentences import INSTANCE_ELSEWHERE
from hookgw.records.shards import share_targets
from hookgw.store.encryption import RecordCipher
from hookgw.store.fleet import RecordChanges
from hookgw.store.postgresql.changed_records import read_changes
from hookgw.store.postgresql.database import DatabaseSession, Reader, end_sessions
from hookgw.store.postgresql.locks import lock, try_lock, unlock
from hookgw.store.postgresql.lookups import one_row
from hookgw.store.postgresql.server import TOKEN_LENGTH, Server

T = TypeVar("T")

logger = structlog.get_logger("hookgw.store")

PATIENCE = 2.0
"""The longest time, in seconds, that a call may take. Later, the lease would have ended anyway."""

START_LOCK = 0x686B6673
"""The advisory lock of a node that starts."""

START_POLL = 0.05
"""Seconds between two tries to get it."""

START_SILENT = 30.0
"""Seconds without a statement of its process after which a holder of that lock is cut off. It was frozen, or
lost its power: then the server would keep its sessions for hours, and no node could start."""

LOCK = 0x686B666C
"""The advisory lock of changes of members and shards."""

FENCE = "SELECT FROM members WHERE generation = %s FOR KEY SHARE"
"""In a commit: no row if this node is no member any more. Otherwise it stays one until the commit ends."""

SHARD_FENCE = """SELECT shard, epoch FROM shards WHERE generation = %s AND shard = ANY(%s)
    ORDER BY shard FOR SHARE"""
"""In a commit, after :data:`FENCE`: shards that this node holds, and holds until the commit ends."""

DEAD = f"heartbeat_at < clock_timestamp() - interval '{DEAD_AFTER} s'"
"""SQL: whether a row of ``nodes`` is that of a dead node."""

# The database's clock went back, or this is a standby whose clock is behind. Heartbeats of nodes that live
# are right again at once; with those of dead nodes, the others would wait until that time has come.
_MEND_FUTURE = """UPDATE nodes SET heartbeat_at = clock_timestamp() WHERE generation IN (
    SELECT generation FROM nodes WHERE heartbeat_at > clock_timestamp() FOR UPDATE SKIP LOCKED
)"""

# Of sessions of another user, whether they are idle may be hidden, and nobody else may end them.
_SILENT_HOLDERS = f"""SELECT array_agg(token) FILTER (WHERE is_own), array_agg(address) FILTER (WHERE is_own),
    array_agg(usename) FILTER (WHERE NOT is_own)
FROM (
    SELECT right(application_name, {TOKEN_LENGTH}) AS token, coalesce(host(client_addr), 'local') AS address,
        usename::text, usename = session_user AS is_own
    FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND datname = current_database()
        AND classid = %s AND objid = (hashtext(current_schema())::bigint & 4294967295)::oid
) holders WHERE NOT is_own OR NOT EXISTS (
    SELECT FROM pg_stat_activity WHERE right(application_name, {TOKEN_LENGTH}) = token
        AND (state <> 'idle' OR state_change > clock_timestamp() - make_interval(secs => %s))
)"""  # noqa: S608 - a constant

_ADD_MEMBER = "INSERT INTO members VALUES (nextval('node_generations')) RETURNING generation"
_VIEW = """SELECT
    (SELECT coalesce(jsonb_agg(jsonb_build_array(
        name, generation, url, extract(epoch FROM clock_timestamp() - heartbeat_at), is_leaving
     ) ORDER BY name), '[]') FROM nodes),
    (SELECT array_agg(generation ORDER BY shard) FROM shards),
    (SELECT last_value FROM record_versions),
    extract(epoch FROM clock_timestamp())"""


class Nodes:
    """The fleet in one database.

    Attributes:
        known_version: see :class:`hookgw.store.fleet.Membership`.
        generation: of this process, stamped on what it writes for its shards; 0 before :meth:`join`.
        session: for heartbeats, which wait for nothing long. The caller closes it, and watches that its calls
            end.
        reader: makes calls with it.
    """

    def __init__(
        self, server: Server, cipher: RecordCipher | None = None, threads: Threads = SYSTEM_THREADS
    ) -> None:
        self.generation = 0
        self._known_version = 0
        self._server = server
        self._switches = server.identity.switches
        self._epochs: dict[int, int] = {}
        self._cipher = cipher
        self.session = DatabaseSession(server, PATIENCE)
        self.reader = Reader(self.session, threads=threads)

    @property
    def known_version(self) -> int:
        # Versions of another server say nothing: whatever was addressed by them is addressed anew.
        return self._known_version if self._switches == self._server.identity.switches else -1

    @known_version.setter
    def known_version(self, version: int) -> None:
        self._known_version = version

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        # Tried again and again: a call that waits for the lock would take the connection from heartbeats.
        looked_at = trio.current_time()
        while not await self.reader.run(partial(try_lock, number=START_LOCK)):
            await trio.sleep(START_POLL)
            if trio.current_time() - looked_at >= START_SILENT:
                looked_at = trio.current_time()
                ended, others = await self.reader.run(_end_silent_holders)
                logger.warning(
                    "another node holds the lock of nodes that start", cut_off=ended, other_users=others
                )
        try:
            yield
        finally:
            with trio.move_on_after(PATIENCE, shield=True), suppress(StorageUnavailable):
                await self.reader.run(partial(unlock, number=START_LOCK))

    def epoch_of(self, shard: int) -> ShardEpoch:
        epoch = self._epochs.get(shard)
        if epoch is None:
            raise StorageUnavailable(INSTANCE_ELSEWHERE, retry_after=1.0)
        return ShardEpoch(shard, epoch)

    async def join(self, node: str, url: str, *, is_leaving: bool = False) -> int:
        self._epochs = {}
        self.generation = await self.reader.run(partial(self._join, node, url, is_leaving))
        return self.generation

    async def heartbeat(self) -> FleetView | None:
        return await self.reader.run(self._heartbeat)

    async def claim(self) -> frozenset[int]:
        self._epochs = await self._change(self._claim)
        return frozenset(self._epochs)

    async def give(self, shards: Collection[int]) -> None:
        def give(connection: Connection) -> None:
            connection.execute(
                "UPDATE shards SET generation = NULL WHERE shard = ANY(%s) AND generation = %s",
                (list(shards), self.generation),
            )

        for shard in shards:
            self._epochs.pop(shard, None)
        await self._change(give)

    async def announce(self, *, is_leaving: bool) -> None:
        def announce(connection: Connection) -> None:
            connection.execute(
                "UPDATE nodes SET is_leaving = %s WHERE generation = %s", (is_leaving, self.generation)
            )

        await self._change(announce)

    async def leave(self) -> None:
        await self._change(partial(_remove, generations=[self.generation]))

    async def changes(self) -> RecordChanges:
        switches = self._server.identity.switches
        since = known if (known := self.known_version) >= 0 else None
        changes = await self.reader.run(partial(read_changes, since=since, cipher=self._cipher))
        self._switches = switches
        return changes

    async def _change(self, change: Callable[[Connection], T]) -> T:
        return await self.reader.run(partial(_locked, change))

    def _join(self, node: str, url: str, is_leaving: bool, connection: Connection) -> int:
        def join(connection: Connection) -> int:
            found = connection.execute(
                f"SELECT generation, token, {DEAD} FROM nodes WHERE name = %s",  # noqa: S608
                (node,),
            ).fetchone()
            if found is not None:
                generation, token, is_dead = found
                # With our own token, the answer to an earlier call was lost on its way.
                if not is_dead and token != self._server.token:
                    raise Conflict.of(
                        "fleet.node_name_taken",
                        "A node {node!r} is in the fleet already: fleet.node must be unique.",
                        node=node,
                    )
                if is_dead and token != self._server.token:
                    _end_connections(connection, [generation])
                _remove(connection, [generation])
            new: int = one_row(connection, _ADD_MEMBER)[0]
            connection.execute(
                "INSERT INTO nodes VALUES (%s, %s, %s, clock_timestamp(), %s, %s)",
                (new, node, url, is_leaving, self._server.token),
            )
            return new

        connection.execute(_MEND_FUTURE)  # for itself: a join that is refused is undone
        return _locked(join, connection)

    def _heartbeat(self, connection: Connection) -> FleetView | None:
        beat = connection.execute(
            "UPDATE nodes SET heartbeat_at = clock_timestamp() WHERE generation = %s", (self.generation,)
        )
        if not beat.rowcount:
            return None
        nodes, owners, version, time = one_row(connection, _VIEW)
        if any(age < 0 for _, _, _, age, _ in nodes):
            connection.execute(_MEND_FUTURE)
        return FleetView(
            tuple(FleetMember(name, gen, url, float(age), leaving) for name, gen, url, age, leaving in nodes),
            tuple(owners),
            version,
            float(time),
        )

    def _claim(self, connection: Connection) -> dict[int, int]:
        dead = connection.execute(f"SELECT generation FROM nodes WHERE {DEAD}").fetchall()  # noqa: S608
        if dead:
            generations = [generation for (generation,) in dead]
            _end_connections(connection, generations)
            _remove(connection, generations)
        counts = connection.execute(
            """SELECT name, count(shard), bool_or(generation = %s) FROM nodes
            LEFT JOIN shards USING (generation) WHERE NOT is_leaving GROUP BY name""",
            (self.generation,),
        ).fetchall()
        held = {name: count for name, count, _ in counts}
        if mine_name := next((name for name, _, is_mine in counts if is_mine), None):
            room = share_targets(held)[mine_name] - held[mine_name]
            connection.execute(
                """UPDATE shards SET generation = %s, epoch = epoch + 1 WHERE shard IN (
                    SELECT shard FROM shards WHERE generation IS NULL ORDER BY shard LIMIT %s
                )""",
                (self.generation, max(0, room)),
            )
        mine = connection.execute("SELECT shard, epoch FROM shards WHERE generation = %s", (self.generation,))
        return dict(mine.fetchall())


def forget_member(connection: Connection, generation: int) -> None:
    """Remove a member from a database that it has not joined, but that may be a copy of one that it had."""
    _locked(partial(_remove, generations=[generation]), connection)


def _end_silent_holders(connection: Connection) -> tuple[list[str], list[str]]:
    """Cut off who holds :data:`START_LOCK` and does nothing.

    Returns:
        Their addresses, and the users of holders that this user cannot cut off.
    """
    tokens, addresses, users = one_row(connection, _SILENT_HOLDERS, (START_LOCK, START_SILENT))
    if tokens:
        end_sessions(connection, tokens)
    return addresses or [], users or []


def _locked(change: Callable[[Connection], T], connection: Connection) -> T:
    with connection.transaction():
        lock(connection, LOCK)
        return change(connection)


def _end_connections(connection: Connection, generations: Collection[int]) -> None:
    """End what dead nodes have begun: their transactions would hold up what all others deliver."""
    found = connection.execute("SELECT token FROM nodes WHERE generation = ANY(%s)", (list(generations),))
    end_sessions(connection, [token for (token,) in found])


def _remove(connection: Connection, generations: Collection[int]) -> None:
    """Remove members. This waits for commits that they have begun."""
    gone = (list(generations),)
    connection.execute("DELETE FROM members WHERE generation = ANY(%s)", gone)
    connection.execute("DELETE FROM nodes WHERE generation = ANY(%s)", gone)
    connection.execute("UPDATE shards SET generation = NULL WHERE generation = ANY(%s)", gone)
