"""What a store of several nodes offers beside :class:`~hookgw.store.Store`: who does what.

A node is in the fleet, with all its shards, or it is not. Others that find it dead remove it as a whole, and
from then on the storage refuses its settlements, its connectors' events and its changes. So two nodes never
count for one shard, however late one of them notices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

import msgspec

from hookgw.kernel.errors import StorageUnavailable
from hookgw.kernel.sentences import Sentence
from hookgw.records.api_keys import Key
from hookgw.records.browser_sessions import BrowserSession
from hookgw.records.fleet import FleetView, ShardEpoch
from hookgw.records.instances import Instance
from hookgw.records.registrations import Registration
from hookgw.store.records import PendingChange

DISABLED_WEBHOOK = "disabled_webhooks."
"""What the keys of such values begin with; the label of the webhook follows."""


class RecordsChanged(StorageUnavailable):
    """Events were addressed by records that have changed since. Nothing was stored: address them again."""

    def __init__(self, version: int) -> None:
        super().__init__(
            Sentence("fleet.registrations_changed", "The registrations have changed meanwhile. Retry."),
            retry_after=1.0,
        )
        self.version = version


class RecordChanges(msgspec.Struct, frozen=True):
    """What has changed of the records that every node keeps in memory.

    Attributes:
        version: of the records with these changes.
        instances, registrations, sessions, keys: by name or id; ``None`` if it is gone.
        disabled_webhooks: why a webhook of the configuration was disabled, by its label; ``None`` if it is no
            longer.
        is_whole: whether these are all records: what else is in memory is gone.
    """

    version: int
    instances: dict[str, Instance | None] = {}
    registrations: dict[str, Registration | None] = {}
    sessions: dict[str, BrowserSession | None] = {}
    disabled_webhooks: dict[str, str | None] = {}
    is_whole: bool = False
    keys: dict[str, Key | None] = {}


class Membership(Protocol):
    """The nodes and shards of a fleet.

    Every method raises ``StorageUnavailable`` while the storage refuses.

    Attributes:
        known_version: of the records that this node has in memory. ``Store.append`` raises
            :class:`RecordsChanged` if they have changed since. -1 if it is not known.
    """

    known_version: int

    def starting(self) -> AbstractAsyncContextManager[None]:
        """Hold a lock of the whole fleet: what every node makes if it is missing is made once.

        It is for short work, and does not outlast a lost connection.
        """

    async def join(self, node: str, url: str, *, is_leaving: bool = False) -> int:
        """Enter the fleet, and return this process's generation.

        Everything that the store writes for lanes and connectors from now on is of this generation.

        Args:
            is_leaving: as in :meth:`announce`.

        Raises:
            Conflict: a node of that name lives.
        """

    async def heartbeat(self) -> FleetView | None:
        """Say that this node lives.

        Returns:
            The fleet as it is now; ``None`` if others have found this node dead. It holds nothing then.
        """

    def epoch_of(self, shard: int) -> ShardEpoch:
        """Return in which epoch this node holds a shard, for :meth:`hookgw.store.Outbox.append`.

        Raises:
            StorageUnavailable: another node holds it, as far as this one knows.
        """

    async def claim(self) -> frozenset[int]:
        """Remove nodes without a heartbeat, and take as many of the free shards as are this node's share.

        Returns:
            All shards that this node holds now; none if others have found it dead.
        """

    async def give(self, shards: Collection[int]) -> None:
        """Give shards back that this node has stopped working on. Others take them at once."""

    async def announce(self, *, is_leaving: bool) -> None:
        """Tell the others whether this node takes no shards, so that they share what it has not."""

    async def leave(self) -> None: ...

    async def changes(self) -> RecordChanges:
        """Return what has changed since :attr:`known_version`; all records if that version means nothing."""


class BacklogNews(NamedTuple):
    """What a node has changed of what is pending since it told so last.

    Attributes:
        number: of this news, one higher than that of the former one.
        changes: by registration and instance; ``None`` if the node begins to tell.
    """

    generation: int
    number: int
    changes: PendingChange | None


class SharedBacklog(Protocol):
    """Where nodes tell each other what they change of what is pending.

    Every method raises ``StorageUnavailable`` while the storage refuses.
    """

    async def exchange(self, told: BacklogNews | None, known: Mapping[int, int]) -> list[BacklogNews]:
        """Tell other nodes something, and hear what they tell.

        Args:
            told: by this node; ``None`` for nothing new. To tell the same again does nothing.
            known: the number of the last news that was heard of each other node, by generation; 0 for none.

        Returns:
            What is new of these nodes, in the order in which each of them told it. News is kept for a minute.
        """

    async def count(self) -> tuple[PendingChange, Mapping[int, int]]:
        """Count all that is pending. This may take seconds.

        Returns:
            The counts, and the number of the last news of each node, by generation, both of one moment.
        """


class SharedStore(Protocol):
    """The part of a store that several nodes may use at the same time."""

    members: Membership
    backlogs: SharedBacklog

    async def connect(self) -> None:
        """Open all connections: shards may have to be taken over when the server accepts no more.

        Raises:
            StorageUnavailable: the server refuses one. The others stay open.
        """

    def share(
        self,
        is_wanted: Callable[[str], bool],
        is_reported: Callable[[str], bool],
        removed: Callable[[], None],
    ) -> None:
        """Tell other nodes of what this one appends, and report what they append. Write as a member only.

        Args:
            is_wanted: whether this node hears of deliveries to a lane, by its key. Called in another thread.
            is_reported: whether this node, and no other, reports what is held back in a lane; as above.
            removed: called in any thread when a commit shows that others have removed this node, and before
                they may take over because the connections lead to another server.
        """
