"""Deliveries that are removed with all that belongs to them. The caller owns the transaction."""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection

from hookgw.store.postgresql.event_ids import keep_ids
from hookgw.store.postgresql.lookups import one_row

_REMOVE = """
    WITH gone_attempts AS (
        DELETE FROM attempts WHERE delivery = ANY(%(seqs)s)
        RETURNING octet_length(answer) + coalesce(octet_length(error), 0)
            + coalesce(octet_length(heads), 0) + 150 AS size
    ),
    gone_bodies AS (DELETE FROM bodies WHERE seq = ANY(%(seqs)s) RETURNING octet_length(body) + 60 AS size),
    gone AS (DELETE FROM deliveries WHERE seq = ANY(%(seqs)s) RETURNING size)
    SELECT coalesce((SELECT sum(size) FROM gone), 0)::bigint
        + coalesce((SELECT sum(size) FROM gone_attempts), 0)::bigint
        + coalesce((SELECT sum(size) FROM gone_bodies), 0)::bigint"""


def remove(
    connection: Connection, seqs: Collection[int], events: Collection[int], *, is_pruned: bool = True
) -> int:
    """See :func:`hookgw.store.sqlite.settle.remove`.

    Returns:
        The bytes of the payloads, attempts and bodies.
    """
    size: int = one_row(connection, _REMOVE, {"seqs": list(seqs)})[0]
    keep_ids(connection, events, is_pruned=is_pruned)
    return size
