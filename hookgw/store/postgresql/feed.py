"""The feed: what became pending, in order, each delivery once, whichever node made it so.

Transactions end in any order, and a row of an earlier one may become visible later. So the feed reports only
what lies below the oldest open transaction (:data:`~hookgw.store.postgresql.schema.SETTLED`), and its mark
moves up to there. Nothing can appear below the mark any more.

A node reads the feed right after each of its own commits, in the same thread. Its own deliveries are
reported from memory; of those of others, the feed reads the payloads. It also reads every second, and when
another node says that it has appended (NOTIFY, which is a hint only: it may be lost).

A server that crashed, and a standby that takes over, forgets transactions that left nothing behind, and gives
their numbers to others. So on a new connection, the mark goes back to the last transaction that was reported.

The deliveries of a backfill (backfills.py) have the number of an earlier transaction, which the mark may have
passed or not. So the feed leaves them out: the node of their lanes makes them, and reports them itself.

A transaction that is open for long anywhere in the database server, in any database, holds the feed up: what
is appended meanwhile is stored, and delivered when that transaction ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from psycopg import Connection, Cursor

from hookgw.records.deliveries import Delivery
from hookgw.store.postgresql.identity import FeedStart
from hookgw.store.postgresql.lookups import one_row
from hookgw.store.postgresql.outbox import DELIVERY, delivery_of
from hookgw.store.postgresql.schema import SETTLED
from hookgw.store.searches import LAST

# The most deliveries of others in one turn, and the most bytes of their payloads: commits wait meanwhile.
# What is beyond the bytes, lanes read for themselves.
MOST_ROWS = 1_000
MOST_BYTES = 2**22

_START = f"SELECT {SETTLED}, (SELECT max(xid) FROM deliveries WHERE state = 'pending')"  # noqa: S608
NEXT = f"""SELECT now.settled, found.* FROM (SELECT {SETTLED} AS settled) now LEFT JOIN LATERAL (
    SELECT xid, position, seq, lane, size FROM deliveries
    WHERE state = 'pending' AND (xid, position) > (%b::bigint, %b::bigint) AND xid < now.settled
        AND xid <> ALL(%b::bigint[]) AND position >= 0
    ORDER BY xid, position LIMIT %b::bigint
) found ON true ORDER BY found.xid, found.position"""  # noqa: S608 - a constant
_INSTANCE = "(SELECT name FROM instance_numbers WHERE number = d.instance)"
# The state in a form that no index has; see settle.py. OFFSET keeps the server from a join that reads all
# events, with a plan of a time when there were few.
READ = f"""SELECT {DELIVERY.format(instance=_INSTANCE)}
    FROM deliveries d, LATERAL (SELECT * FROM events WHERE seq = d.event OFFSET 0) e
    WHERE d.seq = ANY(%b::bigint[]) AND d.state || '' = 'pending' ORDER BY d.xid, d.position"""  # noqa: S608 - constants


class News(NamedTuple):
    """What the listener is to hear of.

    Attributes:
        appended: in the order of their positions.
        requeued: how many deliveries lie at the end of lanes, by lane key, that are not among these.
    """

    appended: list[Delivery]
    requeued: Mapping[str, int]


def find_start(connection: Connection) -> FeedStart:
    """Return where a feed starts that reports what becomes pending from now on."""
    settled, newest = one_row(connection, _START)
    return FeedStart(settled, newest or 0)


class _Own(NamedTuple):
    """A transaction of this node that is not reported yet."""

    xid: int
    appended: Sequence[Delivery]
    requeued: Mapping[str, int]


class Feed:
    """Finds what became pending. For the writing thread only.

    Attributes:
        is_wanted: whether deliveries of other nodes to a lane are reported here, by its key. Called in the
            writing thread.
        channel: where to tell other nodes of what was appended; ``None`` while there are no others.
    """

    def __init__(self) -> None:
        self.is_wanted: Callable[[str], bool] = lambda _: True
        self.channel: str | None = None
        self._own: list[_Own] = []
        self._mark = (0, LAST)
        # The last one that was reported. It is on disk, so its number is not given once more.
        self._reported = (0, LAST)
        self._connection: Connection | None = None
        self._is_cut = False

    @property
    def is_behind(self) -> bool:
        """Whether there is more to report: after a long page, or once an older transaction ends."""
        return self._is_cut or bool(self._own)

    def start_at(self, start: FeedStart) -> None:
        """Report what becomes pending from there on, and forget what was noted before."""
        self._own.clear()
        self._is_cut = False
        self._mark = (start.settled - 1, LAST)
        self._reported = min(self._mark, (start.newest, LAST))
        self._connection = None

    def committed(self, xid: int, appended: Sequence[Delivery], requeued: Mapping[str, int]) -> None:
        """Take what this node's own transaction has made pending, once it is on disk."""
        if appended or requeued:
            self._own.append(_Own(xid, appended, requeued))

    def read(self, connection: Connection) -> News:
        """Return what is new, by one statement, and one more if others have appended."""
        return self.take(connection, self.ask(connection))

    def ask(self, connection: Connection) -> Cursor:
        """Ask for what is new. In a pipeline, :meth:`take` it after the end: to wait here is a round trip."""
        if connection is not self._connection:
            self._mark = self._reported
            self._connection = connection
        own = [part.xid for part in self._own]
        return connection.execute(NEXT, (*self._mark, own, MOST_ROWS))

    def take(self, connection: Connection, asked: Cursor) -> News:
        """Return what :meth:`ask` has asked for."""
        rows = asked.fetchall()
        settled: int = rows[0][0]
        found = [row[1:] for row in rows if row[1] is not None]
        self._is_cut = len(found) == MOST_ROWS
        mark = (found[-1][0], found[-1][1]) if self._is_cut else (settled - 1, LAST)
        requeued: Counter[str] = Counter()
        wanted, size = [], 0
        for _, number, seq, lane, bytes_of in found:
            if self.is_wanted(lane):
                size += bytes_of
                # A delivery that is sent again has another number than at first. Lanes read these themselves.
                if number != seq or size > MOST_BYTES:
                    requeued[lane] += 1
                else:
                    wanted.append(seq)
        appended = [delivery_of(row) for row in connection.execute(READ, (wanted,))] if wanted else []
        # Only now: if a statement above failed, the next turn reports all of it.
        self._mark = mark
        if found:
            self._reported = max(self._reported, (found[-1][0], found[-1][1]))
        is_merged = bool(appended)
        while self._own and (self._own[0].xid, 0) <= mark:
            part = self._own.pop(0)
            self._reported = max(self._reported, (part.xid, LAST))
            appended += part.appended
            requeued.update(part.requeued)
        if is_merged:
            appended.sort(key=lambda delivery: delivery.position)
        return News(appended, requeued)
