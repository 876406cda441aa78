"""Repairs all problems of a group on this node, and stores which groups are muted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec
import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.audit import Audit, acting_as, current_actor
from hookgw.fleet.all_nodes import Question
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import HookgwError, Invalid, NotFound
from hookgw.records.audit import Actor, AuditAction
from hookgw.records.instances import Instance
from hookgw.records.problems import Mute, ProblemGroup, Repair
from hookgw.records.sentences import INSTANCE_DELETED
from hookgw.store import Store
from hookgw.webhooks.change import RegistrationChange, enabling

LONGEST_REASON = 500
"""Characters."""
_MUTES = "muted_problems"
"""The key of the stored value."""
MOST_MUTES = 1_000


class RepairAsked(msgspec.Struct, frozen=True):
    """What to repair; the asking node has checked that the actor may do that.

    Attributes:
        places: pairs of an instance and a label, which is empty for the instance itself.
    """

    repair: Repair
    places: list[tuple[str, str]]
    actor: Actor


class RepairPart(msgspec.Struct, frozen=True):
    """What a node did. It passes over instances that it does not hold.

    Attributes:
        done: how many it repaired.
        refused: pairs of a place and sentences.
    """

    done: int = 0
    refused: list[tuple[str, list[str]]] = []


REPAIR = Question("repair", RepairAsked, RepairPart)


class ChangesWebhooks(Protocol):
    def pause(self, instance: str, label: str, /) -> Awaitable[object]: ...
    def resume(self, instance: str, label: str, /) -> Awaitable[object]: ...
    def update(
        self, instance: str, label: str, change: RegistrationChange, /, *, backfill: bool
    ) -> Awaitable[object]: ...


class ConnectsInstances(Protocol):
    def connect(self, name: str, /) -> Awaitable[object]: ...
    def find(self, name: str, /) -> Instance | None: ...


class Repairs:
    def __init__(
        self, webhooks: ChangesWebhooks, instances: ConnectsInstances, holds: Callable[[str], bool]
    ) -> None:
        self._webhooks = webhooks
        self._instances = instances
        self._holds = holds

    async def answer(self, asked: RepairAsked) -> RepairPart:
        """Repair what this node holds, one after the other."""
        done, refused = 0, list[tuple[str, list[str]]]()
        ids = {instance: self._id_of(instance) for instance, _ in asked.places}
        with acting_as(asked.actor):
            for instance, label in asked.places:
                if not self._holds(instance):
                    continue
                try:
                    if self._id_of(instance) != ids[instance]:  # this one may be another tenant's
                        raise NotFound(INSTANCE_DELETED(name=instance))
                    await self._repair(asked.repair, instance, label)
                except HookgwError as error:
                    refused.append(
                        (f"{instance}/{label}" if label else instance, [*map(str, error.messages)])
                    )
                else:
                    done += 1
        return RepairPart(done, refused)

    def _id_of(self, name: str) -> str | None:
        instance = self._instances.find(name)
        return None if instance is None else instance.id

    async def _repair(self, repair: Repair, instance: str, label: str) -> None:
        if repair is Repair.TRY:
            await self._webhooks.resume(instance, label)
        elif repair is Repair.PAUSE:
            await self._webhooks.pause(instance, label)
        elif repair in (Repair.ENABLE, Repair.DISABLE):
            is_enabled = repair is Repair.ENABLE
            await self._webhooks.update(instance, label, enabling(is_enabled), backfill=is_enabled)
        else:
            await self._instances.connect(instance)


class Mutes(Collaborator):
    """The groups of problems that are muted, by their ids, for all nodes.

    Args:
        alone: holds a lock in a fleet: a change reads all of them, and writes all of them.
    """

    _store: Store
    _audit: Audit
    _clock: Clock
    _alone: Callable[[], AbstractAsyncContextManager[None]]

    def __post_init__(self) -> None:
        self._lock = trio.Lock()

    async def all(self) -> dict[str, Mute]:
        stored = await self._store.get_value(_MUTES)
        return msgspec.convert(stored or {}, dict[str, Mute])

    async def mute(self, group: ProblemGroup, reason: str, until: float | None) -> None:
        """Mute a group until a time, in seconds since the epoch.

        Raises:
            Invalid: there is no reason, or the time is not ahead.
        """
        now = self._clock.wall()
        if not reason or len(reason) > LONGEST_REASON:
            raise Invalid.of(
                "problem.reason_length",
                "Reason must have 1 to {longest} characters.",
                longest=LONGEST_REASON,
            )
        if until is None or until <= now:
            raise Invalid.of("problem.until_past", "Until must be a time ahead, such as tomorrow 9:00.")
        details = {"problem": group.title or group.problems[0].why, "reason": reason}
        entry = self._audit.entry(AuditAction.PROBLEM_MUTE, None, group.id, details=details)
        async with self._lock, self._alone():
            kept = {name: one for name, one in (await self.all()).items() if one.until > now}
            if len(kept.keys() - {group.id}) >= MOST_MUTES:
                raise Invalid.of(
                    "problem.too_many_mutes",
                    "{most} groups of problems are muted, the maximum.",
                    most=MOST_MUTES,
                )
            kept[group.id] = Mute(reason, until, current_actor().name)
            await self._store.put_value(_MUTES, msgspec.to_builtins(kept), audit=[entry])

    async def unmute(self, name: str) -> None:
        """Show a group again; nothing happens if it is not muted."""
        async with self._lock, self._alone():
            kept = await self.all()
            if kept.pop(name, None) is not None:
                entry = self._audit.entry(AuditAction.PROBLEM_UNMUTE, None, name)
                await self._store.put_value(_MUTES, msgspec.to_builtins(kept), audit=[entry])
