"""Deliveries that are stored, and that lanes may not read yet, because an older transaction is open.

Feed and lanes read what lies below the oldest open transaction of the whole server; feed.py says why. Until
it ends, nobody hears of what is appended meanwhile. So this is looked for from time to time, with the
transaction that is to blame: that of a session in any database, or a prepared one, which has no session.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import psycopg
import structlog
import trio
from psycopg import Connection

from hookgw.concurrency.clock import Clock
from hookgw.kernel.errors import StorageUnavailable
from hookgw.records.lanes import registration_of
from hookgw.store.postgresql.database import Reader
from hookgw.store.postgresql.schema import SETTLED
from hookgw.store.records import Held, LaneBacklog, micros, seconds

logger = structlog.get_logger("hookgw.store")

# How often it is looked for, in seconds.
EVERY = 2.0
# Each commit holds back what is appended while it runs. So only what has waited for so long, in seconds,
# counts.
LEAST_AGE = 1.0
# The most deliveries that are counted, the oldest ones: about 0.1 s of the server.
MOST = 100_000
# Once deliveries have waited for so many seconds, the log says so; and of another transaction a minute later.
WARNING_AFTER = 10.0
WARNING_AGAIN = 60.0

# In the order of the feed's index, so that the limit bounds the work. Without these, a plan of a time when
# there were few would read and sort all of millions.
IN_ORDER = "SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)"
HELD = f"""SELECT lane, count(*), min(queued_at), min(xid) FROM (
        SELECT lane, queued_at, xid FROM deliveries
        WHERE state = 'pending' AND xid >= {SETTLED} AND queued_at <= %s ORDER BY xid, position LIMIT {{most}}
    ) held GROUP BY lane"""  # noqa: S608 - constants
# Only one that is older than what is held: the others have begun since, or the culprit has ended just now.
_CULPRIT = """SELECT pid, gid, usename, datname, application_name,
        to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    FROM (
        SELECT backend_xid AS xid, pid, NULL AS gid, usename, datname, application_name, xact_start AS since
        FROM pg_stat_activity WHERE pid <> pg_backend_pid()
        UNION ALL
        SELECT transaction, NULL, gid, owner, database, '', prepared FROM pg_prepared_xacts
    ) running
    WHERE xid IS NOT NULL AND age(xid) > age(%s::text::xid8::xid) ORDER BY age(xid) DESC LIMIT 1"""


class Culprit(NamedTuple):
    """The oldest open transaction.

    Attributes:
        pid: of its session; ``None`` for a prepared one, which has a ``gid``.
        user, database: ``None`` for work of the server.
        since: when it began, or was prepared; ``None`` if hookgw's user may not know that.
    """

    pid: int | None
    gid: str | None
    user: str | None
    database: str | None
    application: str
    since: str | None

    def __str__(self) -> str:
        since = f", since {self.since}" if self.since else ""
        whose = f"of the user {self.user} in the database {self.database}"
        if self.gid is not None:
            quoted = self.gid.replace("'", "''")
            return (
                f"It is the prepared transaction '{quoted}' {whose}{since}. End it in that database: COMMIT "
                f"PREPARED '{quoted}', or ROLLBACK PREPARED '{quoted}'."
            )
        application = f" ({self.application})" if self.application else ""
        return (
            f"It is the transaction of process {self.pid}{application} {whose}{since}. End it, or end its "
            f"session: SELECT pg_terminate_backend({self.pid})."
        )


class HeldWatch:
    """Finds what is held back, and says so in the log.

    Attributes:
        is_reported: whether this node is to deliver what is in a lane, by its key. Called in another thread.
        found: what was found last; nothing if the storage refused the last look.
    """

    def __init__(self, background: Reader, clock: Clock) -> None:
        self._background = background
        self._clock = clock
        self._told: tuple[Culprit | None, float] | None = None
        self.is_reported: Callable[[str], bool] = lambda _: True
        self.found = Held()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await trio.sleep(EVERY)
            before = micros(self._clock.steady() - LEAST_AGE)
            try:
                self.found, culprit = await self._background.run(partial(self.find, before=before))
            except (StorageUnavailable, psycopg.Error):
                # Whoever needs the answer meets the same error: what only reports must not end hookgw.
                self.found = Held()
            else:
                self._tell(culprit)

    def find(self, connection: Connection, before: int) -> tuple[Held, Culprit | None]:
        with connection.transaction():
            connection.execute(IN_ORDER)
            rows = connection.execute(HELD.format(most=MOST).encode(), (before,)).fetchall()
        rows = [row for row in rows if self.is_reported(row[0])]
        if not rows:
            return Held(), None
        lanes: dict[str, list[LaneBacklog]] = {}
        for lane, count, *_ in rows:
            lanes.setdefault(registration_of(lane), []).append(LaneBacklog(lane, count))
        row = connection.execute(_CULPRIT, (str(min(row[3] for row in rows)),)).fetchone()
        culprit = None if row is None else Culprit(*row)
        held = Held(
            lanes=lanes,
            count=sum(row[1] for row in rows),
            oldest_queued_at=seconds(min(row[2] for row in rows)),
            culprit="" if culprit is None else str(culprit),
        )
        return held, culprit

    def _tell(self, culprit: Culprit | None) -> None:
        held = self.found
        if held.oldest_queued_at is None:
            if self._told is not None:
                self._told = None
                logger.info("deliveries wait no more for an older transaction")
            return
        now, age = trio.current_time(), self._clock.steady() - held.oldest_queued_at
        if age < WARNING_AFTER:
            return
        if self._told is not None and (self._told[0] == culprit or now - self._told[1] < WARNING_AGAIN):
            return
        self._told = culprit, now
        logger.warning(
            "deliveries wait for an older transaction in the database",
            deliveries=held.count,
            oldest_seconds=round(age),
            transaction=held.culprit or None,
        )
