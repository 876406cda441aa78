"""Changes parts of the configuration while the gateway runs.

These are ``global_webhooks``, the options of plugins that implement ``hookgw_reconfigure``, and the log's
level, which belongs to the process and not to the gateway. Other changes need a restart, and are only
reported.

A reload is all or nothing. First everything new is parsed and checked, by hookgw and by the plugins. Then the
store is written, which may fail and changes nothing that runs. Only then do registrations and plugins change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from hookgw.config.settings import Settings
from hookgw.core.audit import Audit, acting_as
from hookgw.core.jobs import Jobs
from hookgw.core.pending import PendingDeliveries
from hookgw.core.registry import Registry
from hookgw.kernel.audited import FieldChange
from hookgw.kernel.collaborator import Collaborator
from hookgw.plugins.hooks import Hooks
from hookgw.records.audit import CONFIGURATION, AuditAction
from hookgw.records.events import Catalog
from hookgw.records.jobs import JobKind
from hookgw.records.registrations import GLOBAL_INSTANCE, Registration
from hookgw.store import Store
from hookgw.webhooks.configured import ParsedWebhook, parse_global_webhooks, read_global_webhooks

LEVEL = "log.level"
_WEBHOOKS = "global_webhooks"
_OPTIONS = "plugins.options"


class Reloaded(NamedTuple):
    """The result of a reload.

    Attributes:
        changed: the paths of the keys with new values in use; never the values.
        needs_restart: the paths of keys that differ and are not in use.
        webhooks: the registrations that are new or changed.
    """

    changed: list[str]
    needs_restart: list[str]
    webhooks: list[Registration]


class ConfigurationReload(Collaborator):
    """Puts another configuration into use. ``settings`` are those of the start."""

    _settings: Settings
    _registry: Registry
    _pending: PendingDeliveries
    _store: Store
    _hooks: Hooks
    _catalog: Catalog
    _jobs: Jobs
    _audit: Audit

    async def apply(self, new: Settings) -> Reloaded:
        """Apply the parts of a new configuration that can change at run time. One call at a time.

        Raises:
            ConfigError: a value is wrong; nothing has changed.
            StorageUnavailable: the disk refuses. A further call does all of it again.
            Unavailable: the gateway is shutting down.
        """
        options = self._hooks.check_options_again(new.plugins.options)
        former = dict(self._blocks(self._settings))
        wanted, webhooks = dict(self._blocks(new)), {}
        for parsed in parse_global_webhooks(new.global_webhooks, self._catalog, self._hooks.check_reloaded):
            label = parsed.registration.label
            if former.get(label) != wanted[label]:
                webhooks[label] = parsed
        # Writes only the facts for the next start, as a start does.
        registrations = await read_global_webhooks(webhooks.values(), self._store)

        removed = former.keys() - wanted.keys()
        async with self._registry.changing(GLOBAL_INSTANCE):
            with acting_as(CONFIGURATION):
                for label in removed:
                    await self._remove(label)
                for registration in registrations:
                    current = self._registry.registration(registration.id)
                    # A former one of this label may have left deliveries in other lanes: enabling finds them.
                    old = current or msgspec.structs.replace(registration, enabled=False)
                    await self._pending.replace(old, registration)
        changed = [f"{_WEBHOOKS}.{label}" for label in sorted(removed | webhooks.keys())]
        changed += options.changed
        if new.log.level != self._settings.log.level:
            changed.append(LEVEL)
        if changed:
            changes = [FieldChange(path) for path in changed]
            entry = self._audit.entry(AuditAction.CONFIGURATION_RELOAD, changes=changes, actor=CONFIGURATION)
            await self._audit.record(entry)
        options.apply()

        needs_restart = [
            path for path in _differences("", self._settings, new) if path not in (LEVEL, _WEBHOOKS, _OPTIONS)
        ]
        # Parts that need a restart stay as they were, and the next reload names them again.
        self._settings = msgspec.structs.replace(
            self._settings,
            global_webhooks=new.global_webhooks,
            plugins=msgspec.structs.replace(self._settings.plugins, options=options.in_use),
            log=msgspec.structs.replace(self._settings.log, level=new.log.level),
        )
        return Reloaded(changed, needs_restart + options.needs_restart, list(registrations))

    def _blocks(self, settings: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the blocks of ``global_webhooks`` by label, which a block need not name itself."""
        # Blocks, not registrations: one without a secret gets another one each time it is parsed.
        parsed: Iterable[ParsedWebhook] = parse_global_webhooks(settings.global_webhooks, self._catalog)
        for webhook, block in zip(parsed, settings.global_webhooks, strict=True):
            yield webhook.registration.label, block

    async def _remove(self, label: str) -> None:
        registration = self._registry.configured(label)
        if registration is None:
            return
        job = self._jobs.new(
            JobKind.DELETE_REGISTRATION,
            GLOBAL_INSTANCE,
            instance_id=None,
            registrations=(registration.id,),
            reason="The registration was removed from global_webhooks.",
        )
        # Removed first: nothing is appended to it after the park.
        await self._registry.remove_configured(registration)
        self._pending.park(job, [registration])


def _differences(path: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, msgspec.Struct):
        for name in old.__struct_fields__:
            inner = f"{path}.{name}" if path else name
            yield from _differences(inner, getattr(old, name), getattr(new, name))
    elif old != new:
        yield path
