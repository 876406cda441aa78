"""Carries a document out: makes what is there as the document says, and stops at nothing.

The node that is asked plans everything, and each instance is changed by the node that has it, which plans
again: what was stored meanwhile is seen. Every change is one of the ordinary calls, complete in itself. So an
apply that is killed leaves some of them done, and the next one does the rest; two at once do the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import structlog
import trio

from hookgw.accounts.access import check_instance
from hookgw.accounts.document import DeclaredInstance, Document, parse_document
from hookgw.accounts.export import Export, NeededSecret
from hookgw.accounts.key_plan import KeyPlan
from hookgw.accounts.plan import Change, InstancePlan, Rules, WebhookPlan, plan_instance, plan_removals
from hookgw.auth.keyring import KeyHolder
from hookgw.concurrency.clock import Clock
from hookgw.core.access import within
from hookgw.core.audit import acting_as, current_actor
from hookgw.core.registry import Registry
from hookgw.fleet.all_nodes import AllNodes, Question
from hookgw.instances.service import InstanceService
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Forbidden, HookgwError, Invalid, NotFound, TooManyKeys, Unauthorized
from hookgw.kernel.json_fields import cut_short
from hookgw.kernel.masking import repr_without
from hookgw.kernel.sentences import Sentence
from hookgw.keys.service import KeyService
from hookgw.records.api_keys import Limits, Principal
from hookgw.records.audit import Actor
from hookgw.records.instances import Instance
from hookgw.records.registrations import Registration
from hookgw.records.sentences import INSTANCE_DELETED
from hookgw.webhooks.service import MOST_REGISTRATIONS, RegistrationService

AT_ONCE = 16
"""Instances that are changed at a time. More gain nothing: their changes already share commits."""
ROUND = 100
"""Instances that the other nodes are asked to change at a time."""
ROUND_WITHIN = 60.0
"""Seconds that they have for these."""
LOOKUPS_WITHIN = 2.0
"""Seconds that the lookups of new URLs' hosts may take together, for warnings."""

logger = structlog.get_logger("hookgw.accounts")


class ApplyAsked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Instances to make as a document says.

    Attributes:
        body: of a document with these instances.
        removed: instances that the document does not have: those that it has made are deleted, and webhooks
            of others that it has made.
        principal: the caller.
        limits: of the keys of new instances.
    """

    body: dict[str, Any]
    removed: list[str]
    prunes: bool
    principal: Principal
    limits: Limits
    actor: Actor

    __repr__ = repr_without("body")


class ApplyPart(msgspec.Struct, frozen=True):
    """What a node has done, or failed to do.

    Attributes:
        names: the instances that it has, whether or not there was something to do.
    """

    changes: list[Change]
    names: list[str]


APPLY = Question("apply", ApplyAsked, ApplyPart)


class WholePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a document changes.

    Attributes:
        instances: those with changes.
        removed: those that the document does not have, with changes.
        same: how many instances and webhooks are as they should be.
    """

    changes: list[Change]
    instances: list[str]
    removed: list[str]
    same: int


class NodeAccounts(Collaborator):
    """Plans instances, and changes those of this node."""

    _registry: Registry
    _instances: InstanceService
    _registrations: RegistrationService
    _rules: Rules
    _clock: Clock
    _holds: Callable[[str], bool]

    def plan_all(
        self, document: Document, mistakes: Sequence[Sentence], principal: Principal, *, prunes: bool
    ) -> Generator[None, None, WholePlan]:
        """Plan everything, in steps that yield: thousands of instances take a second.

        Args:
            mistakes: those that were found before.
            principal: the caller, who prunes within its reach.

        Raises:
            Forbidden: see :func:`check_instance`.
            Invalid: with all mistakes in the document, which ``mistakes`` begins.
        """
        found = [*mistakes]
        changes, changed, same = [], [], 0
        for declared in document.instances.values():
            plan = self.plan_one(declared, document.name, principal, prunes=prunes)
            found += plan.mistakes
            same += plan.same
            if plan.changes:
                changes += plan.changes
                changed.append(declared.name)
            yield
        if found:
            raise Invalid(*cut_short(list(dict.fromkeys(found))))
        removed = []
        if prunes:
            for instance in within(self._registry, principal):
                if instance.name not in document.instances:
                    gone = self._plan_removal(instance, document.name)
                    changes += gone
                    removed += [instance.name] if gone else []
            yield
        return WholePlan(changes=changes, instances=changed, removed=removed, same=same)

    def plan_one(
        self, declared: DeclaredInstance, owner: str, principal: Principal, *, prunes: bool
    ) -> InstancePlan:
        # With each plan: a name that was free, or the caller's, may be another tenant's by now.
        check_instance(self._registry, principal, declared)
        return plan_instance(
            declared,
            self._registry.find_instance(declared.name),
            self._webhooks(declared.name),
            self._rules,
            owner=owner,
            tags=dict(principal.reach.tags),
            prunes=prunes,
            now=self._clock.wall(),
        )

    def _plan_removal(self, instance: Instance, owner: str) -> list[Change]:
        if owner and instance.declared_by == owner:
            return [Change(action="delete", kind="instance", name=instance.name)]
        return [one.planned for one in plan_removals(instance.name, self._webhooks(instance.name), owner)]

    def _webhooks(self, instance: str) -> dict[str, Registration]:
        return {one.label: one for one in self._registry.of_instance(instance)}

    def export(
        self, chosen: Sequence[Instance], *, with_signing_secrets: bool
    ) -> Generator[None, None, tuple[dict[str, Any], list[NeededSecret]]]:
        """Write instances as a document, in steps that yield. Return it with the secrets that it needs."""
        export = Export(self._rules.secret_options, with_signing_secrets=with_signing_secrets)
        instances, names = {}, set()
        for instance in chosen:
            registrations = self._registry.of_instance(instance.name)
            rules = self._rules.option_rules(instance.integration)
            instances[instance.name] = export.instance(instance, registrations, rules)
            names |= {instance.declared_by, *(one.declared_by for one in registrations)}
            yield
        names.discard("")
        # What two documents have made is nobody's as a whole.
        named = {"name": names.pop()} if len(names) == 1 else {}
        return {**named, "instances": instances}, export.needed

    async def answer(self, asked: ApplyAsked) -> ApplyPart:
        """Change the instances of this node."""
        document, _ = parse_document(asked.body)
        changes: list[Change] = []
        stored: list[tuple[int, Registration]] = []
        limit = trio.CapacityLimiter(AT_ONCE)

        async def change(declared: DeclaredInstance) -> None:
            async with limit:
                for one, registration in await self._change(declared, document.name, asked):
                    if registration is not None:
                        stored.append((len(changes), registration))
                    changes.append(one)

        async def remove(name: str) -> None:
            async with limit:
                changes.extend(await self._remove(name, document.name, asked.principal))

        with acting_as(asked.actor):
            async with trio.open_nursery() as nursery:
                for declared in document.instances.values():
                    if self._holds(declared.name):
                        nursery.start_soon(change, declared)
                for name in asked.removed:
                    if self._holds(name):
                        nursery.start_soon(remove, name)
        await self._look_up(changes, stored)
        names = [name for name in (*document.instances, *asked.removed) if self._holds(name)]
        return ApplyPart(changes, names)

    async def _change(
        self, declared: DeclaredInstance, owner: str, asked: ApplyAsked
    ) -> list[tuple[Change, Registration | None]]:
        """Change an instance, part by part. Return each, with the registration that was stored."""
        try:
            plan = self.plan_one(declared, owner, asked.principal, prunes=asked.prunes)
            if plan.mistakes:
                # The document was right when it was planned: a plugin, a connector or a record is another
                # now.
                raise Invalid(*cut_short(plan.mistakes))
        except (Forbidden, Invalid) as error:
            changed = partial(Change, action="change", name=declared.name)
            hooks = [changed(kind="webhook", label=label) for label in declared.webhooks]
            return [
                (changed(kind="instance").failed(*error.messages), None),
                *((hook.failed("Its instance was refused."), None) for hook in hooks),
            ]
        found = self._registry.find_instance(declared.name)
        results: list[tuple[Change, Registration | None]] = []
        if plan.conflict is not None:
            results.append((plan.conflict, None))
        if plan.planned is not None:
            work = partial(self._change_instance, declared, plan, owner, asked)
            done = await self._try(plan.planned, work)
            results.append((done, None))
            if done.is_failed and done.action == "create":
                why = "Its instance was not created."
                return [*results, *((webhook.planned.failed(why), None) for webhook in plan.webhooks)]
            found = found or self._registry.find_instance(declared.name)
        # New ones first: an event in between goes to both, rather than to neither. If there is no room for
        # both, the removed ones go first.
        webhooks = plan.webhooks
        created = sum(one.planned.action == "create" for one in webhooks)
        if len(self._registry.of_instance(declared.name)) + created > MOST_REGISTRATIONS:
            webhooks = sorted(webhooks, key=lambda one: one.planned.action != "delete")
        for webhook in webhooks:
            stored: list[Registration] = []
            work = partial(self._change_webhook, webhook, owner, stored)
            done = await self._try(webhook.planned, work, found)
            results.append((done, stored[0] if stored else None))
        return results

    async def _change_webhook(self, plan: WebhookPlan, owner: str, stored: list[Registration]) -> list[str]:
        instance, label, change = plan.planned.name, plan.planned.label, plan.change
        if change is None:
            await self._registrations.delete(instance, label)
        elif plan.planned.action == "create":
            made = await self._registrations.set(instance, label, change, declared_by=owner, looks_up=False)
            stored.append(made.registration)
        else:
            made = await self._registrations.update(instance, label, change, looks_up=False)
            stored.append(made.registration)
        return []

    async def _change_instance(
        self, declared: DeclaredInstance, plan: InstancePlan, owner: str, asked: ApplyAsked
    ) -> list[str]:
        name = declared.name
        assert plan.planned is not None  # noqa: S101 -- the caller's promise
        if plan.planned.action == "create":
            try:
                created = await self._instances.create(
                    name,
                    integration=declared.connector or "",
                    options=plan.options,
                    own_options={**plan.fields, "declared_by": owner},
                    tags={**(plan.tags or {}), **dict(asked.principal.reach.tags)},
                    limits=asked.limits,
                    is_operator=asked.principal.is_operator,
                    settings=msgspec.structs.replace(Instance(name=name, id="").settings, **plan.settings),
                )
                return self._instances.option_warnings(created.instance)
            except Forbidden:
                # Another apply, or a client, has created it at this moment. The rest is a change of it.
                plan = self.plan_one(declared, owner, asked.principal, prunes=False)
                if self._registry.find_instance(name) is None or plan.conflict is not None:
                    raise
        warnings: list[str] = []
        if plan.options or plan.fields:
            await self._instances.change_options(
                name, plan.options, plan.fields, is_operator=asked.principal.is_operator
            )
        if plan.tags is not None:
            await self._instances.change_tags(name, plan.tags)
        if plan.settings:
            warnings += await self._instances.change_settings(name, plan.settings)
        return warnings

    async def _remove(self, name: str, owner: str, principal: Principal) -> list[Change]:
        instance = self._registry.find_instance(name)
        if instance is None or not principal.reaches(name, instance):
            return []
        done = []
        for planned in self._plan_removal(instance, owner):
            done.append(await self._try(planned, partial(self._delete, planned), instance))
        return done

    async def _delete(self, planned: Change) -> list[str]:
        if planned.kind == "instance":
            await self._instances.delete(planned.name)
        else:
            await self._registrations.delete(planned.name, planned.label)
        return []

    async def _try(
        self, planned: Change, carry_out: Callable[[], Awaitable[list[str]]], of: Instance | None = None
    ) -> Change:
        """Carry a change out. ``of`` is the instance that it was planned for, if that exists."""
        try:
            if of is not None and self._registry.instance(planned.name).id != of.id:
                raise NotFound(INSTANCE_DELETED(name=planned.name))  # this one may be another tenant's
            return planned.done(await carry_out())
        except HookgwError as error:
            return planned.failed(*error.messages)
        except Exception as error:  # of a plugin's or hookgw's own bug: the other parts are carried out
            logger.exception("a part of a document was not carried out", instance=planned.name)
            return planned.failed(f"hookgw failed: {type(error).__name__}. Its log has the reason.")

    async def _look_up(self, changes: list[Change], stored: Iterable[tuple[int, Registration]]) -> None:
        """Add to changes what is wrong with the hosts of stored registrations."""
        limit = trio.CapacityLimiter(4 * AT_ONCE)

        async def look_up(index: int, registration: Registration) -> None:
            async with limit:
                changes[index] = changes[index].done(await self._registrations.warnings(registration))

        with trio.move_on_after(LOOKUPS_WITHIN):
            async with trio.open_nursery() as nursery:
                for index, registration in stored:
                    if changes[index].state == "done":
                        nursery.start_soon(look_up, index, registration)


async def change_keys(
    keys: KeyService, plans: Iterable[KeyPlan], holder: KeyHolder, owner: str
) -> tuple[list[Change], list[tuple[str, str]]]:
    """Create and revoke keys. Return the changes, and the new keys whose values were made here."""
    changes, made = [], []
    pending = deque(plans)  # the new ones first
    while pending:
        plan = pending.popleft()
        planned = plan.planned
        try:
            if planned.action == "create":
                _, key = await keys.create(
                    None, planned.name, maker=holder, value=plan.value, declared_by=owner, **plan.given
                )
                made += [(planned.name, key)] if plan.value is None else []
            elif planned.action == "delete":
                await keys.revoke(None, planned.name, by=holder)
            changes.append(planned if planned.action == "conflict" else planned.done())
        except Unauthorized:
            raise  # the caller's own key is gone
        except HookgwError as error:
            former = None
            if isinstance(error, TooManyKeys):
                former = pending[-1] if pending and pending[-1].revoked is not None else None
            elif plan.value is not None:
                former = next(
                    (one for one in pending if one.revoked and keys.has_value(one.revoked, plan.value)), None
                )
            if former is not None:
                # There is no room for both, or a key with the same value gets another name: it goes first.
                pending.remove(former)
                pending.extendleft((plan, former))
                continue
            known = next((one for one in keys.list(None, seen_by=holder) if one.name == planned.name), None)
            is_made = plan.value is not None and known is not None and keys.has_value(known, plan.value)
            # Another apply, which found the same value in the same file, was faster.
            changes.append(planned.done() if is_made else planned.failed(*error.messages))
    return changes, made


async def change_instances(
    nodes: AllNodes,
    document: Document,
    plan: WholePlan,
    *,
    prunes: bool,
    holder: KeyHolder,
    check_key: Callable[[], None],
) -> list[Change]:
    """Carry out a plan's changes of instances, each on the node that has it.

    Raises:
        Unauthorized: of ``check_key``, which is called before each round of instances.
    """
    names = [*plan.instances, *plan.removed]
    changes: list[Change] = []
    pending = iter(names)
    while batch := list(islice(pending, ROUND)):
        check_key()
        chosen = set(batch)
        asked = ApplyAsked(
            document.part(chosen),
            [name for name in plan.removed if name in chosen],
            prunes,
            holder.principal,
            holder.limits,
            current_actor(),
        )
        gathered = await nodes.ask(APPLY, asked, instances=batch, within=ROUND_WITHIN)
        found = [change for part in gathered.parts.values() for change in part.changes]
        changes += found
        answered = {name for part in gathered.parts.values() for name in part.names}
        reported = {change.place for change in found}
        why = "Its node did not answer, or it moves to another node. Apply the document again."
        for one in plan.changes:
            if one.name in chosen and one.place not in reported:
                # What another apply has done meanwhile is no difference any more. Of a silent node, nobody
                # knows what it has done.
                changes.append(one.done() if one.name in answered else one.failed(why))
    order = {one.place: index for index, one in enumerate(plan.changes)}
    return sorted(changes, key=lambda one: order.get(one.place, len(order)))
