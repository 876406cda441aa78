"""Instances and registrations: in memory for every look-up, on disk for good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import msgspec
import trio

from hookgw.concurrency.light import in_task
from hookgw.core.audit import Audit
from hookgw.core.audited_changes import AuditedFields, instance_changed, registration_changed
from hookgw.core.keyed_locks import KeyedLocks
from hookgw.core.tag_index import TagIndex
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import NotFound, StorageUnavailable
from hookgw.records.audit import AuditAction, AuditEntry
from hookgw.records.instances import Instance, retired_name
from hookgw.records.jobs import Job
from hookgw.records.lanes import EventLanes
from hookgw.records.registrations import DEFAULT_LABEL, GLOBAL_INSTANCE, Registration
from hookgw.records.sentences import INSTANCE_DELETED, NO_INSTANCE, NO_WEBHOOK
from hookgw.store import Store
from hookgw.store.fleet import DISABLED_WEBHOOK

MOST_LANES = 4096
"""For how many instances and kinds the lanes are kept. Each takes about 600 bytes with one registration."""


def accept_any(_stored: object) -> None:
    """Accept every change: the check of a caller that has none.

    Other checks take the record that is stored, inside a change, and raise to refuse that change.
    """


class Registry(Collaborator):
    """All instances and registrations.

    A change takes effect in memory once it is on disk, so that no reader sees a change that a crash would
    undo. If the caller is cancelled meanwhile, both happen or neither. Every change goes to the audit, in the
    same commit.

    Args:
        audited: the fields whose changes the audit shows.
        check_owner: called with the name of an instance before it, or a registration of it, is changed. In a
            fleet it raises ``Unavailable`` if another node holds the instance.
        is_shared: whether other nodes must hear of a disabled registration of the configuration.
    """

    _store: Store
    _audit: Audit
    _audited: AuditedFields
    check_owner: Callable[[str], None] = lambda _: None
    is_shared: bool = False

    def __post_init__(self) -> None:
        self._instances: dict[str, Instance] = {}
        self._registrations: dict[str, Registration] = {}
        # The look-ups by name and by id, without a wrapper: they run several times for every event.
        self.find_instance = self._instances.get
        self.registration = self._registrations.get
        self.tags = TagIndex()
        self._tag_watchers: list[Callable[[str, Mapping[str, str]], None]] = []
        self._retired: Callable[[str, str], None] = lambda *_: None
        # Sorted; ``None`` after an instance was added or removed. Lists are asked for again and again.
        self._names: list[str] | None = None
        self._of_instance: dict[str, dict[str, Registration]] = {}
        self._everywhere: tuple[Registration, ...] = ()
        # By instance and kind, until a registration changes.
        self._lanes: dict[tuple[str, str], EventLanes] = {}
        # A lock exists only while it is held or awaited: ten thousand instances must not mean as many locks.
        self._locks = KeyedLocks()

    async def load(self, everywhere: Sequence[Registration], operations: Registration | None) -> None:
        """Read all records, and add the registrations of the configuration.

        Args:
            everywhere: the registrations of ``global_webhooks``, which hear every instance.
            operations: the registration of ``operations.url``. No event of an instance goes to it: it is
                found only by its id.
        """
        for instance in (await self._store.load_instances()).values():
            self._hold(instance)
        self._registrations.update(await self._store.load_registrations())
        for registration in self._registrations.values():
            self._of_instance.setdefault(registration.instance, {})[registration.label] = registration
        if operations is not None:
            self._registrations[operations.id] = operations
        self._everywhere = tuple(everywhere)
        self._registrations.update((registration.id, registration) for registration in everywhere)

    # Instances

    def instances(self) -> list[Instance]:
        if self._names is None:
            self._names = sorted(self._instances)
        return [self._instances[name] for name in self._names]

    def count_instances(self) -> int:
        return len(self._instances)

    def instance(self, name: str) -> Instance:
        instance = self._instances.get(name)
        if instance is None:
            raise NotFound(NO_INSTANCE(name=name))
        return instance

    def tagged(self, wanted: Iterable[tuple[str, str]]) -> list[Instance]:
        """Return the instances that carry all of some tags, sorted by name; without tags, all."""
        wanted = [*wanted]
        if not wanted:
            return self.instances()
        return [self._instances[name] for name in sorted(self.tags.with_all(wanted))]

    def watch_tags(self, changed: Callable[[str, Mapping[str, str]], None]) -> None:
        """Call with the name and the tags of each instance that has some, now and after every change."""
        self._tag_watchers.append(changed)
        for instance in self._instances.values():
            if instance.tags:
                changed(instance.name, instance.tags)

    def watch_retired(self, retired: Callable[[str, str], None]) -> None:
        """Call with the name of each instance that is deleted, and the name of its events from then on."""
        self._retired = retired

    def _hold(self, instance: Instance) -> None:
        old = self._instances.get(instance.name)
        if old is None:
            self._names = None
        self._instances[instance.name] = instance
        self._retag(instance.name, {} if old is None else old.tags, instance.tags)

    def _let_go(self, name: str) -> None:
        instance = self._instances.pop(name, None)
        if instance is not None:
            self._names = None
            self._retag(name, instance.tags, {})

    def _retag(self, name: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        if old != new:
            self.tags.change(name, old, new)
            for changed in self._tag_watchers:
                changed(name, new)

    async def put_instance(self, instance: Instance, first: Registration | None = None) -> None:
        self.check_owner(instance.name)
        audit = instance_changed(self._audit, self._audited, self._instances.get(instance.name), instance)
        if first is not None:
            audit += self._changes(None, first, instance)
        await _complete(self._store.put_instance(instance, first, audit=audit))
        self._hold(instance)
        if first is not None:
            self._remember(first)

    async def remove_instance(self, instance: Instance, job: Job | None = None) -> None:
        """Remove an instance with its registrations, in one commit with the job that parks its deliveries.

        Its events and deliveries are no longer found under its name.
        """
        self.check_owner(instance.name)
        registrations = self.of_instance(instance.name)
        # Removed from memory first, so that no event is accepted for it during the write.
        self._let_go(instance.name)
        try:
            ids = [registration.id for registration in registrations]
            await _complete(
                self._store.remove_instance(
                    instance.name,
                    retired_as=retired_name(instance),
                    registrations=ids,
                    job=job,
                    audit=[self._audit.entry(AuditAction.INSTANCE_DELETE, instance)],
                )
            )
        except BaseException:  # the disk refused: the instance still exists
            self._hold(instance)
            raise
        # Who appended to it in the same commit counts its duplicates first, under its name.
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
        self._retired(instance.name, retired_name(instance))
        # Not before: a lane without its registration makes its head a dead letter.
        for registration in registrations:
            self._forget(registration)

    # Registrations

    def registrations(self) -> list[Registration]:
        """Return all, with those of the configuration."""
        return list(self._registrations.values())

    def find(self, instance: str, label: str = DEFAULT_LABEL) -> Registration | None:
        return self._of_instance.get(instance, {}).get(label)

    def get(self, instance: str, label: str = DEFAULT_LABEL) -> Registration:
        """Return an instance's registration.

        Raises:
            NotFound: there is no such instance, or it has none of the label.
        """
        self.instance(instance)
        registration = self.find(instance, label)
        if registration is None:
            raise NotFound(NO_WEBHOOK(instance=instance, label=label[:128]))
        return registration

    def of_instance(self, instance: str) -> list[Registration]:
        """Return an instance's registrations, sorted by label, without those of the configuration."""
        by_label = self._of_instance.get(instance, {})
        return [by_label[label] for label in sorted(by_label)]

    def count(self, instance: str) -> int:
        """Return how many registrations an instance has, without those of the configuration."""
        return len(self._of_instance.get(instance, ()))

    def page(
        self, after: tuple[str, str], limit: int, among: Collection[str] | None = None
    ) -> list[Registration]:
        """Return at most ``limit`` registrations, sorted by instance and label, beginning after a place.

        Those of the configuration come first: no name of an instance sorts before ``*``.

        Args:
            after: the instance and the label before the first one.
            among: only registrations of these instances; ``None`` for all.
        """
        found = [r for r in self._everywhere if (r.instance, r.label) > after and among is None]
        found.sort(key=lambda r: r.label)
        names = self._of_instance if among is None else among
        for instance in sorted(name for name in names if name >= after[0]):
            if len(found) >= limit:
                break
            found += [r for r in self.of_instance(instance) if (r.instance, r.label) > after]
        return found[:limit]

    def hearing(self, instance: str) -> list[Registration]:
        """Return all registrations that an instance's events can go to, including disabled ones."""
        return [*self._of_instance.get(instance, {}).values(), *self._everywhere]

    def count_hearing(self, instance: str) -> int:
        return len(self._of_instance.get(instance, ())) + len(self._everywhere)

    def wanting(self, instance: str, kind: str) -> list[Registration]:
        """Return the registrations that an event of a kind goes to."""
        by_label = self._of_instance.get(instance)
        found = [r for r in by_label.values() if r.wants(kind)] if by_label else []
        if self._everywhere:
            found += [r for r in self._everywhere if r.wants(kind)]
        return found

    def lanes(self, instance: str, kind: str) -> EventLanes:
        lanes = self._lanes.get((instance, kind))
        if lanes is None:
            if len(self._lanes) >= MOST_LANES:
                self._lanes.clear()
            lanes = self._lanes[instance, kind] = EventLanes(self.wanting(instance, kind))
        return lanes

    def changing(self, instance: str) -> AbstractAsyncContextManager[None]:
        """Hold a lock while reading and changing an instance's records: one change at a time."""
        return self._locks.hold(instance)

    @asynccontextmanager
    async def changing_existing(
        self, instance: str, *, instance_id: str | None = None
    ) -> AsyncIterator[Instance]:
        """Hold the lock of :meth:`changing` for a caller who may change the instance that exists now.

        Args:
            instance_id: of the instance that the caller may change, if the caller has waited since it knew.

        Raises:
            NotFound: there is no such instance, or it was deleted while this waited. A later instance of the
                name is another tenant's.
            Unavailable: in a fleet, another node owns the instance now.
        """
        instance_id = instance_id or self.instance(instance).id
        async with self.changing(instance):
            found = self.instance(instance)
            if found.id != instance_id:
                raise NotFound(INSTANCE_DELETED(name=instance))
            self.check_owner(instance)
            yield found

    def is_changing(self, instance: str) -> bool:
        return self._locks.is_held(instance)

    async def change_ended(self, instance: str) -> None:
        """Wait until nobody changes an instance. Who waits here does not count as changing it."""
        await self._locks.free(instance)

    async def put(self, registration: Registration, *, due: bool = False, job: Job | None = None) -> None:
        """Store a registration. A registration of the configuration changes only in memory.

        Args:
            due, job: see :meth:`hookgw.store.Records.put_registration`. A job of a registration of
                the configuration is not stored: the next start begins with the configuration.
        """
        instance = self._instances.get(registration.instance)
        old = self._registrations.get(registration.id)
        audit = self._changes(old, registration, instance)
        if registration.instance == GLOBAL_INSTANCE:
            # The configuration is its record: hookgw's changes to it (a 410) last until the next start.
            if self.is_shared and (old is None or registration.enabled != old.enabled):
                key = f"{DISABLED_WEBHOOK}{registration.label}"
                await _complete(self._store.put_value(key, registration.disabled_reason, audit=audit))
            elif audit:
                await _complete(self._audit.record(*audit))
            self._put_everywhere(registration)
            self._registrations[registration.id] = registration
        else:
            self.check_owner(registration.instance)
            await _complete(self._store.put_registration(registration, due=due, job=job, audit=audit))
            self._remember(registration)

    async def cut_future(self, registrations: Iterable[Registration], steady: float) -> None:
        """Store times of registrations that lie in the future as this moment, before anybody changes them.

        If the disk refuses, only the memory has them so; the next change stores them.
        """
        for registration in registrations:
            cut = registration.without_future(steady)
            if cut is not registration:
                with suppress(StorageUnavailable):
                    await _complete(self._store.put_registration(cut))
                self._remember(cut)

    async def put_and_begin(
        self,
        registration: Registration,
        backfill: Job,
        *,
        due: bool = False,
        parking: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> Job:
        """Store an instance's registration, which was disabled, as :meth:`put` does, and begin a backfill, in
        one commit.

        Return the backfill's job as it is stored.
        """
        self.check_owner(registration.instance)
        instance = self._instances.get(registration.instance)
        old = self._registrations[registration.id]
        audit = [*self._changes(old, registration, instance), *audit]
        await in_task()
        # Events are addressed to it from the call on, not from the end of its commit: the backfill looks no
        # further than the call. They are stored behind the commit, and not if the storage refuses it.
        self._remember(registration)
        try:
            with trio.CancelScope(shield=True):  # as in _complete
                begun = await self._store.begin_backfill(
                    backfill, registration=registration, due=due, parking=parking, audit=audit
                )
        except BaseException:
            self._remember(old)
            raise
        return begun

    def _changes(
        self, old: Registration | None, new: Registration | None, instance: Instance | None
    ) -> list[AuditEntry]:
        return registration_changed(self._audit, self._audited.registrations, old, new, instance)

    def _put_everywhere(self, registration: Registration) -> None:
        others = (r for r in self._everywhere if r.id != registration.id)
        self._everywhere = (*others, registration)
        self._lanes.clear()

    def _remember(self, registration: Registration) -> None:
        self._of_instance.setdefault(registration.instance, {})[registration.label] = registration
        self._registrations[registration.id] = registration
        self._lanes.clear()

    async def remove(self, registration: Registration, job: Job | None = None) -> None:
        """Remove an instance's registration, in one commit with the job that parks its deliveries."""
        self.check_owner(registration.instance)
        audit = self._changes(registration, None, self._instances.get(registration.instance))
        await _complete(self._store.remove_registration(registration.id, job=job, audit=audit))
        self._forget(registration)

    def apply(
        self, instances: Mapping[str, Instance | None], registrations: Mapping[str, Registration | None]
    ) -> None:
        """Take over records that another node has stored; ``None`` for a removed record."""
        for name, instance in instances.items():
            known = self._instances.get(name)
            if known is not None and (instance is None or instance.id != known.id):
                self._let_go(name)
                self._retired(name, retired_name(known))
            if instance is not None:
                self._hold(instance)
        for registration_id, registration in registrations.items():
            former = self._registrations.get(registration_id)
            if former is not None and (registration is None or registration.label != former.label):
                self._forget(former)
            # The same object as long as nothing has changed: lanes compare it by identity.
            if registration is not None and registration != former:
                self._remember(registration)

    def apply_disabled(self, reasons: Mapping[str, str | None]) -> None:
        """Disable or enable registrations of the configuration, by label, as another node has done.

        The reason is ``None`` if the registration is enabled again.
        """
        for registration in self._everywhere:
            reason = reasons.get(registration.label, registration.disabled_reason)
            # One that the configuration itself disables has no reason, and stays as it is.
            if reason != registration.disabled_reason:
                changed = msgspec.structs.replace(registration, enabled=not reason, disabled_reason=reason)
                self._put_everywhere(changed)
                self._registrations[changed.id] = changed

    def configured(self, label: str) -> Registration | None:
        return next((found for found in self._everywhere if found.label == label), None)

    async def remove_configured(self, registration: Registration) -> None:
        """Remove a registration of ``global_webhooks``, which is in memory only."""
        await _complete(self._audit.record(*self._changes(registration, None, None)))
        self._everywhere = tuple(found for found in self._everywhere if found.id != registration.id)
        self._registrations.pop(registration.id, None)
        self._lanes.clear()

    def _forget(self, registration: Registration) -> None:
        self._registrations.pop(registration.id, None)
        self._lanes.clear()
        labels = self._of_instance.get(registration.instance, {})
        labels.pop(registration.label, None)
        if not labels:  # most events are for instances with registrations: `wanting` looks here first
            self._of_instance.pop(registration.instance, None)


async def _complete(write: Awaitable[None]) -> None:
    # The write is done all the same, and the memory must follow. The store bounds the wait: it writes,
    # refuses, or closes.
    await in_task()
    with trio.CancelScope(shield=True):
        await write
