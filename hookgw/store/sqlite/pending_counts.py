"""How what is pending changes, by registration. SQL alone; the caller owns the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

import msgspec

Change = Mapping[str, tuple[int, int]]
"""By how many deliveries and bytes of payload more is pending than before, by the registration's id."""

_WEIGHT = """
SELECT json_group_array(json_array(n.name, theirs.count, theirs.bytes))
FROM (
    SELECT registration, count(*) AS count, sum(size) AS bytes FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) GROUP BY registration
) theirs
CROSS JOIN names n ON n.number = theirs.registration
"""

_weights_of = msgspec.json.Decoder(list[tuple[str, int, int]]).decode


def weight(connection: sqlite3.Connection, seqs: Collection[int]) -> Change:
    """How many deliveries of these numbers there are, and their bytes, by the registration's id."""
    if not seqs:
        return {}
    asked = msgspec.json.encode(list(seqs)).decode()
    found = _weights_of(connection.execute(_WEIGHT, (asked,)).fetchone()[0])
    return {registration: (count, size) for registration, count, size in found}


def added(first: Change, second: Change, sign: int = 1) -> Change:
    """A change, and another one after it, or the reverse of that (``sign`` -1). Neither is altered."""
    total = dict(first)
    for registration, (count, size) in second.items():
        has, has_bytes = total.get(registration, (0, 0))
        total[registration] = (has + sign * count, has_bytes + sign * size)
    return total


def counted(change: Change) -> int:
    """How many deliveries that is, over all registrations."""
    return sum(count for count, _ in change.values())
