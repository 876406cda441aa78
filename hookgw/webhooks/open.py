"""Webhooks: what creates, changes and disables registrations."""

from __future__ import annotations

import msgspec

from hookgw.core.open import Core
from hookgw.webhooks.auto_disable import AutoDisable
from hookgw.webhooks.backfills import Backfills
from hookgw.webhooks.service import CreateInstance, RegistrationService


class Webhooks(msgspec.Struct, frozen=True, eq=False):
    service: RegistrationService
    auto_disable: AutoDisable
    backfills: Backfills


def open_webhooks(core: Core, create_instance: CreateInstance) -> Webhooks:
    settings, registry, pending = core.settings, core.registry, core.pending
    auto_disable = AutoDisable(registry, pending, core.operational, core.clock, settings.delivery)
    core.metrics.watch_registrations(registry.registration, core.backlog.registrations, auto_disable.failing)
    backfills = Backfills(
        core.node, registry, core.store, core.jobs, core.outbox, pending, core.dispatcher, core.audit
    )
    service = RegistrationService(
        registry,
        create_instance,
        pending,
        core.dispatcher,
        core.hooks,
        core.catalog,
        core.sender,
        core.outbound,
        core.clock,
        settings,
        core.jobs,
        backfills,
    )
    return Webhooks(service, auto_disable, backfills)
