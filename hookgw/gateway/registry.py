"""Instances and registrations: in memory for every look-up, on the shelves for good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager

import trio

from hookgw.models.errors import NotFound
from hookgw.models.instances import Instance
from hookgw.models.registrations import GLOBAL_INSTANCE, Registration
from hookgw.store import Store


class Registry:
    """All instances and registrations.

    Every change is on disk before it takes effect in memory, so nobody sees what a crash would undo.
    A caller that is cancelled meanwhile changes nothing about that: both happen, or neither.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._instances: dict[str, Instance] = {}
        self._registrations: dict[str, Registration] = {}
        self._of_instance: dict[str, dict[str, Registration]] = {}
        self._everywhere: tuple[Registration, ...] = ()
        self._locks: dict[str, trio.Lock] = {}

    async def load(self, everywhere: tuple[Registration, ...]) -> None:
        """Read the shelves.

        Args:
            everywhere: the registrations of the configuration, which hear every instance.
        """
        self._instances = await self._store.load_instances()
        self._registrations = await self._store.load_registrations()
        for registration in self._registrations.values():
            self._of_instance.setdefault(registration.instance, {})[registration.label] = registration
        self._everywhere = everywhere
        self._registrations.update((registration.id, registration) for registration in everywhere)

    # Instances

    def instances(self) -> list[Instance]:
        """All of them, by name."""
        return [self._instances[name] for name in sorted(self._instances)]

    def find_instance(self, name: str) -> Instance | None:
        return self._instances.get(name)

    def instance(self, name: str) -> Instance:
        """The instance of that name.

        Raises:
            NotFound: there is none.
        """
        instance = self._instances.get(name)
        if instance is None:
            raise NotFound(f"The instance {name!r} does not exist.")
        return instance

    async def put_instance(self, instance: Instance, first: Registration | None = None) -> None:
        """Store an instance under its name, and with it the first registration that it has, if any."""
        await _through(self._store.put_instance(instance, first))
        self._instances[instance.name] = instance
        if first is not None:
            self._remember(first)

    async def remove_instance(self, instance: Instance) -> None:
        """Remove an instance; what it leaves behind in the store is no longer found under its name.

        Nobody finds it from the first moment, so that no event comes in for it behind that.
        """
        del self._instances[instance.name]
        try:
            retired_as = f"{instance.name} {instance.id}"
            await _through(self._store.remove_instance(instance.name, retired_as=retired_as))
        except BaseException:
            self._instances[instance.name] = instance
            raise

    # Registrations

    def registration(self, registration_id: str) -> Registration | None:
        """The registration of that id, as it is now."""
        return self._registrations.get(registration_id)

    def find(self, instance: str, label: str) -> Registration | None:
        """An instance's registration of that label."""
        return self._of_instance.get(instance, {}).get(label)

    def of_instance(self, instance: str) -> list[Registration]:
        """An instance's own registrations, by label."""
        own = self._of_instance.get(instance, {})
        return [own[label] for label in sorted(own)]

    def hearing(self, instance: str) -> list[Registration]:
        """All registrations to which an instance's events can go, also disabled ones."""
        return [*self._of_instance.get(instance, {}).values(), *self._everywhere]

    def wanting(self, instance: str, kind: str) -> list[Registration]:
        """The registrations to which an event of that kind goes."""
        own = self._of_instance.get(instance)
        found = [r for r in own.values() if r.wants(kind)] if own else []
        if self._everywhere:
            found += [r for r in self._everywhere if r.wants(kind)]
        return found

    @asynccontextmanager
    async def changing(self, instance: str) -> AsyncIterator[None]:
        """Hold this round reading and changing what belongs to an instance: one change at a time."""
        lock = self._locks.setdefault(instance, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and self._locks.get(instance) is lock:
                del self._locks[instance]

    async def put(self, registration: Registration, *, moving: Sequence[str] = ()) -> None:
        """Store a registration; one of the configuration changes in memory alone.

        Args:
            registration: the new or changed one.
            moving: lanes in which it may have pending deliveries that are to be moved; see
                :meth:`hookgw.store.Store.put_registration`.
        """
        if registration.instance == GLOBAL_INSTANCE:
            others = (r for r in self._everywhere if r.id != registration.id)
            self._everywhere = (*others, registration)
        else:
            await _through(self._store.put_registration(registration, moving=moving))
            self._remember(registration)
        self._registrations[registration.id] = registration

    def _remember(self, registration: Registration) -> None:
        self._of_instance.setdefault(registration.instance, {})[registration.label] = registration
        self._registrations[registration.id] = registration

    def add_internal(self, registration: Registration) -> None:
        """Let a registration be found by its id alone: no event of an instance goes to it."""
        self._registrations[registration.id] = registration

    async def remove(self, registration: Registration) -> None:
        """Remove an instance's registration."""
        await _through(self._store.remove_registration(registration.id))
        self._registrations.pop(registration.id, None)
        labels = self._of_instance.get(registration.instance, {})
        labels.pop(registration.label, None)
        if not labels:
            self._of_instance.pop(registration.instance, None)


async def _through(write: Awaitable[None]) -> None:
    """Wait for a write even where the caller is cancelled: it is done all the same, and memory must follow.

    It has no deadline here because the store sets one: it writes, refuses, or gives up when it closes.
    """
    with trio.CancelScope(shield=True):
        await write
