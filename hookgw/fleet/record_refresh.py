"""Reads the records that other nodes have changed into memory.

Only the node that holds an instance changes it, and its memory is never behind. So it ignores the records of
its own instances: they could be a moment older than its memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import trio

from hookgw.concurrency.light import in_task
from hookgw.core.this_node import KnownRecords, Refresh
from hookgw.kernel.errors import StorageUnavailable
from hookgw.records.api_keys import Key
from hookgw.records.browser_sessions import BrowserSession
from hookgw.records.instances import Instance
from hookgw.records.registrations import GLOBAL_INSTANCE, Registration
from hookgw.store.fleet import Membership, RecordChanges


class RecordRefresh(Refresh):
    """Reads the changes from the database.

    Args:
        holds: returns whether this node holds an instance, by its name.
    """

    def __init__(self, members: Membership, records: KnownRecords, holds: Callable[[str], bool]) -> None:
        self._members = members
        self._registry, self._keyring, self._global_keys, self._sessions = records
        self._holds = holds
        self._lock = trio.Lock()
        self._reads = 0
        self._ended: tuple[int, StorageUnavailable | None] = (0, None)
        """The number of the last read that ended, and why it failed."""
        self._has_ignored = False

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._members.starting():
            await self.catch_up()
            yield

    async def catch_up(self, version: int | None = None) -> None:
        await in_task()
        reads = self._reads
        async with self._lock:
            if version is not None and self._members.known_version >= version:
                return
            number, failure = self._ended
            if version is None and number > reads:  # a read that began after this call has ended meanwhile
                if failure is not None:
                    raise StorageUnavailable(*failure.messages, retry_after=failure.retry_after)
                return
            self._reads = number = self._reads + 1
            if self._has_ignored:
                self._members.known_version = -1
            try:
                self._apply(await self._members.changes())
            except StorageUnavailable as error:
                self._ended = number, error
                raise
            self._ended = number, None

    def _apply(self, changes: RecordChanges) -> None:
        # All at once: no checkpoint between the first change and the version.
        registry, keyring = self._registry, self._keyring
        if changes.is_whole:
            changes = self._with_missing(changes)
            # These are of another server, where this node is no member: its next heartbeat takes its shards
            # away. As it takes some up again, nothing that it has of them in memory may stay.
            self._has_ignored = any(map(self._holds, changes.instances))
        instances = {name: new for name, new in changes.instances.items() if not self._holds(name)}
        for name, instance in instances.items():
            former = registry.find_instance(name)
            former_keys = former.keys if former else ()
            keys = instance.keys if instance else ()
            keyring.remove(name, (key for key in former_keys if key not in keys))
            keyring.add_instance(name, (key for key in keys if key not in former_keys))
        registrations: dict[str, Registration | None] = {}
        for registration_id, registration in changes.registrations.items():
            known = registration or registry.registration(registration_id)
            if known is not None and not self._holds(known.instance):
                registrations[registration_id] = registration
        registry.apply(instances, registrations)
        registry.apply_disabled(changes.disabled_webhooks)
        self._global_keys.apply(changes.keys, keyring)
        self._sessions.apply(changes.sessions)
        if changes.is_whole:
            self._members.known_version = changes.version
        else:
            self._members.known_version = max(self._members.known_version, changes.version)

    def _with_missing(self, changes: RecordChanges) -> RecordChanges:
        """Add records that are in memory but no longer in the store: they are gone."""
        known = self._registry.registrations()
        instances: dict[str, Instance | None] = dict.fromkeys(one.name for one in self._registry.instances())
        registrations: dict[str, Registration | None] = dict.fromkeys(
            one.id for one in known if one.instance != GLOBAL_INSTANCE
        )
        sessions: dict[str, BrowserSession | None] = dict.fromkeys(self._sessions.ids())
        keys: dict[str, Key | None] = dict.fromkeys(self._global_keys.stored)
        return msgspec.structs.replace(
            changes,
            instances=instances | changes.instances,
            registrations=registrations | changes.registrations,
            sessions=sessions | changes.sessions,
            keys=keys | changes.keys,
        )
