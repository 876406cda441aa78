"""The composition root: opens the parts of a gateway, one slice after the other, and runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from hookgw.accounts.open import open_accounts
from hookgw.accounts.service import APPLY
from hookgw.app.gateway import Gateway
from hookgw.app.parts import Parts, gateway_of
from hookgw.app.start_plugins import remove_switched_off, start_plugins
from hookgw.app.starting import start
from hookgw.app.stopping import stop
from hookgw.concurrency.clock import Clock
from hookgw.concurrency.hub import Hub
from hookgw.concurrency.loop_load import LoopLoad
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.config.master_key_file import read_master_keys
from hookgw.config.settings import Settings
from hookgw.core.audit import Audit
from hookgw.core.audited_changes import AuditedFields
from hookgw.core.former_kinds import load_former_kinds
from hookgw.core.metrics import Metrics
from hookgw.core.open import open_core, open_records
from hookgw.deliveries.open import open_deliveries
from hookgw.delivery.http.happy_eyeballs import Connect
from hookgw.delivery.http.resolver import Resolve
from hookgw.events.open import open_events
from hookgw.fleet.open import open_fleet, open_node
from hookgw.instances import fields as instances_fields
from hookgw.instances.connectors.inbound_media import load_media_key
from hookgw.instances.open import open_instances
from hookgw.keys import fields as keys_fields
from hookgw.keys.open import open_keys
from hookgw.messages.open import open_messages
from hookgw.operations.open import open_operations
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins
from hookgw.store import open_storage
from hookgw.webhooks import fields as webhooks_fields
from hookgw.webhooks.configured import read_global_webhooks, read_operations
from hookgw.webhooks.open import open_webhooks

AUDITED = AuditedFields(webhooks_fields.AUDITED, instances_fields.AUDITED, keys_fields.FIELDS)
"""The fields of every slice whose changes the audit shows."""


@asynccontextmanager
async def open_gateway(
    settings: Settings,
    *,
    base: Path | None = None,
    clock: Clock | None = None,
    hooks: Hooks | None = None,
    resolve: Resolve | None = None,
    connect: Connect | None = None,
    hub: bool = True,
    threads: Threads = SYSTEM_THREADS,
    prepare: Callable[[Gateway], None] = lambda _: None,
) -> AsyncIterator[Gateway]:
    """Run a gateway within the block.

    Args:
        settings: the configuration.
        base: the folder that relative plugin folders are below; the working directory by default.
        clock: the time, for tests.
        resolve: looks up names instead of the system's resolver, for tests.
        connect: opens the connections to receivers instead of the system, for tests.
        hub: whether one epoll watches all sockets (:mod:`hookgw.concurrency.hub`); off for comparisons.
        prepare: called with the gateway before anything runs. It may call hooks that switch a plugin off.

    Yields:
        The gateway, with its lanes running. At the end of the block, attempts in flight have
        ``server.shutdown_grace`` to end. Everything else waits on disk for the next start.

    Raises:
        StartError: the data file, a plugin or the configuration prevents the start. Once the data file is
            open, it is raised in an exception group, as is a failure of the gateway's own tasks, which
            cancels the block.
    """
    clock, metrics, loop_load = clock or Clock(), Metrics(), LoopLoad()
    if hooks is None:
        hooks = Hooks(
            load_plugins(settings.plugins, base=base or Path.cwd()),
            hook_timeout=settings.plugins.hook_timeout,
            on_failure=metrics.plugin_failed,
        )
    # First: nothing is stored if a plugin stops the start.
    catalog, parsed = start_plugins(hooks, settings)
    watched = Hub(is_on=hub)
    async with (
        # Before lanes look up their first names, which may take all threads that are left.
        threads.reserve(),
        open_storage(
            settings.storage,
            clock=clock,
            observer=metrics,
            keep_unwanted=settings.events.keep == "all",
            keys=await threads.run(partial(read_master_keys, settings.storage)),
            loop_load=loop_load,
            threads=threads,
            hub=watched,
        ) as store,
        open_node(settings.fleet, store) as node,
    ):
        audit = Audit(store, clock)
        # Of nodes that start together, one makes the secrets that all need.
        async with node.starting():
            everywhere = await read_global_webhooks(parsed, store, audit)
            operational = await read_operations(settings.operations, store, audit)
            records = await open_records(
                store, audit, AUDITED, node, everywhere, operational, settings.auth, clock
            )
            media_key = await load_media_key(store)
            await load_former_kinds(store, catalog)
        core = await open_core(
            settings=settings,
            clock=clock,
            threads=threads,
            loop_load=loop_load,
            metrics=metrics,
            hooks=hooks,
            catalog=catalog,
            store=store,
            node=node,
            audit=audit,
            records=records,
            operations=operational,
            resolve=resolve,
            connect=connect,
            hub=watched,
        )
        async with open_fleet(core) as fleet:
            instances = open_instances(core, media_key)
            webhooks = open_webhooks(core, instances.service.create)
            events = open_events(
                core,
                instances.states,
                instances.quiet.accepted,
                fleet.lane_pauses,
                instances.connectors.passes_on_messages,
            )
            deliveries = open_deliveries(core, fleet.lane_pauses, events.intake, webhooks.service.send_once)
            messages = open_messages(core, instances, deliveries.history)
            accounts = open_accounts(core, instances, webhooks)
            operations = await open_operations(
                core, fleet, instances, webhooks, deliveries, messages.service.send, {APPLY: accounts.answer}
            )
            keys = open_keys(core)
            parts = Parts(
                core, fleet, instances, webhooks, events, deliveries, messages, accounts, keys, operations
            )
            gateway = gateway_of(parts)
            prepare(gateway)
            remove_switched_off(hooks, catalog, instances.connectors)
            configured = everywhere if operational is None else (*everywhere, operational)
            async with trio.open_nursery() as nursery:
                plugins = await start(nursery, parts, gateway, configured)
                try:
                    yield gateway
                finally:
                    await stop(parts, plugins)  # noqa: ASYNC102 -- it shields and bounds itself
                    nursery.cancel_scope.cancel()
        # Last: what is written after this is refused.
        await node.leave(store.flush)
