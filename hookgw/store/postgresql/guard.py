"""What a node of a fleet may still write: asked at the beginning of each commit, and true until its end.

A node that others have removed writes nothing for its lanes and connectors, and changes nothing. What a
connector raises is stored only if the node still holds the connector's shard, as it did then. Events are
stored for the registrations that are there at that moment; if a node knows older ones, its commit goes
without these events, and it addresses them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from psycopg import Connection, Cursor

from hookgw.kernel.errors import StorageUnavailable
from hookgw.records.fleet import ShardEpoch
from hookgw.records.sentences import INSTANCE_ELSEWHERE
from hookgw.store.commits.jobs import CommitGroup
from hookgw.store.fleet import RecordsChanged
from hookgw.store.postgresql.nodes import FENCE, SHARD_FENCE, Nodes
from hookgw.store.postgresql.record_changes import VERSION, lock_records
from hookgw.store.postgresql.transaction import Transaction


class Asked(NamedTuple):
    """What was asked of the server in one commit: the answers are there once its pipeline has ended."""

    generation: int
    member: Cursor[Any] | None
    shards: Cursor[Any] | None
    version: Cursor[Any] | None


class Guard:
    """Decides what of a commit is written.

    Attributes:
        removed: called in any thread when this node is no member any more, or is about to be none.
    """

    def __init__(self, nodes: Nodes, removed: Callable[[], None]) -> None:
        self.removed = removed
        self._nodes = nodes

    def ask(self, connection: Connection, groups: Sequence[CommitGroup[Transaction]]) -> Asked:
        """Ask what :meth:`admit` needs to know.

        Args:
            connection: in a transaction that has locked nothing yet, and in a pipeline.
        """
        appends = [job for group in groups for job in group.appends]
        has_functions = any(group.functions for group in groups)
        epochs = {job.epoch.shard for job in appends if job.epoch is not None}
        is_fenced = has_functions or epochs or any(job.also for job in appends)
        member = shards = version = None
        generation = self._nodes.generation
        if is_fenced or any(group.settlements for group in groups):
            member = connection.execute(FENCE, (generation,))
        if epochs:
            shards = connection.execute(SHARD_FENCE, (generation, list(epochs)))
        if appends or has_functions:
            # Any function may change records. A transaction cannot ask for the lock alone later.
            lock_records(connection, changes=has_functions)
            version = connection.execute(VERSION)
        return Asked(generation, member, shards, version)

    def admit(
        self, asked: Asked, groups: Sequence[CommitGroup[Transaction]]
    ) -> list[CommitGroup[Transaction]]:
        """Return what is to be written; the other jobs get their errors."""
        is_member = asked.member is None or asked.member.fetchone() is not None
        if not is_member and asked.generation == self._nodes.generation:
            # Sooner than the next heartbeat: each lane waits for a commit, and would send one more by then.
            self.removed()
        epochs = set() if asked.shards is None else {ShardEpoch(*row) for row in asked.shards}
        row = None if asked.version is None else asked.version.fetchone()
        version: int = row[0] if row else 0
        admitted = []
        for group in groups:
            kept: CommitGroup[Transaction] = CommitGroup()
            for job in group.appends:
                if job.also is not None and not is_member:
                    job.error = _no_member()
                elif job.epoch is not None and job.epoch not in epochs:
                    job.error = StorageUnavailable(INSTANCE_ELSEWHERE, retry_after=1.0)
                elif job.version is not None and job.version < version:
                    job.error = RecordsChanged(version)
                else:
                    kept.appends.append(job)
            if is_member:
                kept.settlements, kept.functions = group.settlements, group.functions
            else:
                for function in group.functions:
                    function.error = _no_member()
            admitted.append(kept)
        return admitted


def _no_member() -> StorageUnavailable:
    return StorageUnavailable.of(
        "fleet.taken_over",
        "Other nodes have taken over from this one, which did not reach the database in time. Retry.",
        retry_after=1.0,
    )
