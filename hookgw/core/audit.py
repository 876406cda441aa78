"""The audit: the actor of a change, and its entries.

The actor is a context variable. The code that authenticates a request sets it, with :func:`act_as` or
:func:`acting_as` and :func:`holder_as_actor`. The services need not pass it on. Without an actor, hookgw
itself acts.

A task inherits the actor of the task that starts it. A task that outlives a request, and changes something
for hookgw's own reasons, must say so with :func:`acting_as`.

Entries of instances, registrations and keys are written in the commit of the change, and follow from the
records before and after it; see :mod:`hookgw.core.audited_changes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from hookgw.auth.keyring import KeyHolder
from hookgw.concurrency.clock import Clock
from hookgw.kernel.audited import FieldChange
from hookgw.records.audit import HOOKGW, Actor, ActorKind, AuditAction, AuditEntry
from hookgw.records.instances import Instance
from hookgw.store import AuditPage, AuditQuery, Store

MOST_OF_INSTANCE = 10_000
"""The entries of one instance that are kept, the newest ones: a tenant must not fill the disk with them."""

_actor: ContextVar[Actor] = ContextVar("hookgw.actor", default=HOOKGW)


def current_actor() -> Actor:
    return _actor.get()


def act_as(actor: Actor) -> None:
    """Set the actor of the current task, until its end."""
    _actor.set(actor)


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Set the actor of the current task, within the block."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def holder_as_actor(holder: KeyHolder, address: str | None, via: str = "", person: str = "") -> Actor:
    """Return the holder of an API key as an actor.

    Args:
        address: the client's IP address; ``None`` over a Unix socket.
        via: what the client uses, for example ``dashboard``; empty for the HTTP API.
        person: whom a trusted proxy names as the client; empty for nobody.
    """
    return Actor(
        kind=ActorKind.KEY,
        name=holder.key.name,
        instance=holder.principal.instance,
        address=address,
        via=via,
        person=person,
        is_limited=not holder.principal.reach.is_everything,
    )


class Audit:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def entry(
        self,
        action: AuditAction,
        instance: Instance | None = None,
        subject: str | None = None,
        *,
        changes: Sequence[FieldChange] = (),
        details: Mapping[str, object] | None = None,
        actor: Actor | None = None,
    ) -> AuditEntry:
        """Return an entry of this moment, for a method of the store that writes it in its commit.

        Args:
            subject: see :class:`~hookgw.records.audit.AuditEntry`.
            details: further facts, without secrets; ``None`` leaves one out.
            actor: by default the actor of the current task.
        """
        return AuditEntry(
            at=self._clock.steady(),
            action=action,
            actor=actor or current_actor(),
            instance=None if instance is None else instance.name,
            instance_id=None if instance is None else instance.id,
            subject=subject,
            changes=tuple(changes),
            details={name: str(value) for name, value in (details or {}).items() if value is not None},
        )

    async def record(self, *entries: AuditEntry) -> None:
        """Write entries in their own commit, if no other method of the store writes them.

        Raises:
            StorageUnavailable: the disk refuses.
        """
        await self._store.record_audit(entries)

    async def list(self, query: AuditQuery) -> AuditPage:
        """Return entries, the newest first; see :meth:`hookgw.store.Audit.list_audit`."""
        return await self._store.list_audit(query)
