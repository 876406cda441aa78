"""Data files that hookgw ae348e0 wrote, and what that version reads from them.

A gateway of that version wrote the files, on a fixed clock, and was killed while moves, attempts and retries
were under way; what it read from them is beside each as JSON.
"""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec

DATA = Path(__file__).parent / "data"
SHARED_URL = "http://crm.example:8080/hook"
"""In both files, two registrations of different instances have this URL."""

Name = Literal["plain", "encrypted"]
NAMES: tuple[Name, ...] = ("plain", "encrypted")


class PendingDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pending delivery as ae348e0 reads it. Times are in seconds since the epoch.

    Attributes:
        lane: the name of its lane in the file: a URL, ``URL#partition`` or ``URL#operations``.
        event: the event's id, which is unique within the instance only.
        chat: the event's ``data.key.remoteJid``; empty if it has none.
        body: whether the file has a body for it.
    """

    seq: int
    position: int
    lane: str
    instance: str
    event: str
    kind: str
    chat: str
    attempts: int
    failures: int
    queued_at: float
    next_at: float
    body: bool


class StoredRegistration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registration of an instance, without secrets, headers and options."""

    instance: str
    label: str
    url: str
    events: tuple[str, ...]
    enabled: bool
    disabled_reason: str | None
    by_events: bool
    concurrency: int
    ordering: Literal["url", "chat", "none"]


class Truth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ae348e0 reads from a data file.

    Attributes:
        version: the commit that wrote the file.
        schema: its ``user_version``.
        at: when the gateway was killed, in seconds since the epoch.
        settings: the configuration it ran with, as in its YAML file, without ``storage.path``.
        instances: their names, sorted.
        registrations: those on the shelf, by id: the configured ones (``global_…``, ``operations``) are not.
        pending: the pending deliveries of each registration, in the order of their positions. It also has
            an id whose registration is deleted.
        lanes: the sequence numbers of the pending deliveries of each lane, in order.
        moves: the lanes that each unfinished move is to look through, by registration.
        lane_values: the values on the shelf that hold the lanes of configured registrations.
        states: how many deliveries are in each state.
        dead: the sequence numbers of the dead letters, by registration, present or former.
        last_numbers: the rows of ``sqlite_sequence``.
        counts: how many rows each table has.
    """

    version: str
    schema: int
    at: float
    settings: dict[str, Any]
    instances: tuple[str, ...]
    registrations: dict[str, StoredRegistration]
    pending: dict[str, tuple[PendingDelivery, ...]]
    lanes: dict[str, tuple[int, ...]]
    moves: dict[str, tuple[str, ...]]
    lane_values: dict[str, Any]
    states: dict[str, int]
    dead: dict[str, tuple[int, ...]]
    last_numbers: dict[str, int]
    counts: dict[str, int]

    def find(self, instance: str, label: str = "default") -> str:
        """Return the id of an instance's registration.

        Raises:
            KeyError: the instance has no registration of that label.
        """
        for key, registration in self.registrations.items():
            if (registration.instance, registration.label) == (instance, label):
                return key
        raise KeyError((instance, label))

    def order(
        self, registration: str, by: Literal["chat", "instance", "lane"] | None = None
    ) -> dict[str, list[int]]:
        """Return the sequence numbers of a registration's pending deliveries in order, by that field.

        Without ``by`` all of them are under the empty string.
        """
        found: dict[str, list[int]] = {}
        for delivery in self.pending[registration]:
            found.setdefault(getattr(delivery, by) if by else "", []).append(delivery.seq)
        return found


def load_truth(name: Name) -> Truth:
    """Return what ae348e0 reads from the data file of that name."""
    return msgspec.json.decode((DATA / f"{name}.json").read_bytes(), type=Truth)


def unpack(name: Name, folder: Path) -> Path:
    """Write the data file of that name into a folder, readable by its owner only; return its path."""
    path = folder / f"{name}.db"
    path.write_bytes(gzip.decompress((DATA / f"{name}.db.gz").read_bytes()))
    path.chmod(0o600)
    return path


_CHATS = 50
_LARGE_EVENTS = f"""
WITH RECURSIVE numbers (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM numbers LIMIT :pending)
INSERT INTO events (seq, instance, id, kind, time, accepted_at, data, sender, server_url, heard)
SELECT seq, t.instance, printf('evt-%09d', seq), :kind, :at + seq, :at + seq,
    CAST(printf('{{"key":{{"remoteJid":"1555%04d@s.whatsapp.net"}},"text":"Are you open tomorrow? %09d"}}',
        seq % {_CHATS}, seq) AS BLOB), NULL, NULL, 1
FROM numbers CROSS JOIN targets t ON t.number = seq % :targets
"""
_LARGE_DELIVERIES = """
INSERT INTO deliveries (seq, event, instance, kind, registration, lane, state, accepted_at, size, position,
    queued_at, attempts, failures, next_at)
SELECT seq, seq, e.instance, kind, t.registration, t.lane, 'pending', accepted_at, length(data), seq,
    accepted_at, 0, 0, 0
FROM events e CROSS JOIN targets t ON t.number = seq % :targets
"""


def make_large(path: Path, pending: int = 1_000_000) -> None:
    """Write a data file with the schema and registrations of ``plain.db`` and that many pending deliveries.

    The deliveries belong in turn to every enabled registration that has the ordering ``url`` and no
    unfinished move; two of them share :data:`SHARED_URL`. There are no moves, attempts or bodies. A million
    deliveries take 11 seconds and 312 MB.
    """
    truth = load_truth("plain")
    targets = [
        (registration.instance, key, registration.url)
        for key, registration in truth.registrations.items()
        if registration.enabled and registration.ordering == "url" and key not in truth.moves
    ]
    unpack("plain", path.parent).replace(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -262144")
        connection.execute("BEGIN")
        indexes = connection.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        for table in ("events", "deliveries", "bodies", "attempts", "shelves WHERE shelf = 'moves'"):
            connection.execute(f"DELETE FROM {table}")
        number_of = dict(connection.execute("SELECT name, number FROM names"))
        connection.execute(
            "CREATE TEMP TABLE targets (number INTEGER PRIMARY KEY, instance, registration, lane)"
        )
        connection.executemany(
            "INSERT INTO targets VALUES (?, ?, ?, ?)",
            [
                (index, number_of["@" + instance], number_of[key], number_of[url])
                for index, (instance, key, url) in enumerate(targets)
            ],
        )
        given = {
            "pending": pending,
            "targets": len(targets),
            "kind": number_of["MESSAGES_UPSERT"],
            "at": round(truth.at * 1_000_000),
        }
        connection.execute(_LARGE_EVENTS, given)
        connection.execute(_LARGE_DELIVERIES, given)
        for _, statement in indexes:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode = WAL")
