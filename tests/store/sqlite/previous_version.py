"""Data files of the previous schema, and what is in them.

A gateway wrote the files, on a fixed clock, and was killed while re-partitions, attempts and retries were
under way; what is in them is beside each as JSON.
"""

import gzip
from pathlib import Path
from typing import Any, Literal

import msgspec

DATA = Path(__file__).parent / "data"
SHARED_URL = "http://crm.example:8080/hook"
"""In both files, two registrations of different instances have this URL."""

Name = Literal["plain", "encrypted"]
NAMES: tuple[Name, ...] = ("plain", "encrypted")


class PendingDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pending delivery. Times are in seconds since the epoch.

    Attributes:
        lane: the name of its lane in the file. Lanes of the generation -1 are to be re-partitioned.
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
    """What is in a data file.

    Attributes:
        version: the commit that wrote the file; a later one has migrated it to this schema.
        schema: its ``user_version``.
        at: when the gateway was killed, in seconds since the epoch.
        settings: the configuration it ran with, as in its YAML file, without ``storage.path``.
        instances: their names, sorted.
        registrations: those on the shelf, by id: the configured ones (``global_…``, ``operations``) are not.
        pending: the pending deliveries of each registration, in the order of their positions. It also has
            an id whose registration is deleted.
        states: how many deliveries are in each state.
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
    states: dict[str, int]
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
    """Return what is in the data file of that name."""
    return msgspec.json.decode((DATA / f"{name}.json").read_bytes(), type=Truth)


def unpack(name: Name, folder: Path) -> Path:
    """Write the data file of that name into a folder, readable by its owner only; return its path."""
    path = folder / f"{name}.db"
    path.write_bytes(gzip.decompress((DATA / f"{name}.db.gz").read_bytes()))
    path.chmod(0o600)
    return path
