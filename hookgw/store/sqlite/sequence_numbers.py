"""The numbers of events, deliveries and positions: given in memory, and never given twice."""

from __future__ import annotations

import sqlite3

_KEEP = "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'deliveries'"
_FIRST = "INSERT INTO sqlite_sequence VALUES ('deliveries', ?)"


class SequenceNumbers:
    """The numbers of events, deliveries and positions.

    They are given in the Trio thread, so that the order of the calls is the order of delivery. Deliveries
    and positions share one count: a delivery that is sent again comes after all that was appended before,
    and before all that is appended later. No number is given twice.
    """

    def __init__(self, event: int, delivery: int) -> None:
        self.newest_event = event
        self.newest = delivery

    def next_positions(self, count: int) -> int:
        """Return the first of so many positions for deliveries that are sent again."""
        first = self.newest + 1
        self.newest += count
        return first


def last_numbers(connection: sqlite3.Connection) -> SequenceNumbers:
    """Return the numbers behind the highest ones that the file knows."""
    rows: dict[str, int] = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    return SequenceNumbers(rows.get("events", 0), rows.get("deliveries", 0))


def keep_number(connection: sqlite3.Connection, newest: int) -> None:
    """Let no start give the numbers of deliveries and positions up to this one again.

    SQLite knows the highest number of a row. It does not know positions, nor the numbers that were given to
    duplicates and to appends that the disk refused.
    """
    if not connection.execute(_KEEP, (newest,)).rowcount:
        connection.execute(_FIRST, (newest,))  # there has been no delivery yet
