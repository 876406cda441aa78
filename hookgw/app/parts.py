"""The parts of a gateway, one for each slice, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass

from hookgw.accounts.service import NodeAccounts
from hookgw.app.gateway import Gateway
from hookgw.app.reload import ConfigurationReload
from hookgw.core.open import Core
from hookgw.core.plugin_records import PluginRecords
from hookgw.deliveries.open import Deliveries
from hookgw.events.open import Events
from hookgw.fleet.open import Fleet
from hookgw.instances.open import Instances
from hookgw.keys.open import Keys
from hookgw.messages.open import Messages
from hookgw.operations.open import Operations
from hookgw.webhooks.open import Webhooks


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    core: Core
    fleet: Fleet
    instances: Instances
    webhooks: Webhooks
    events: Events
    deliveries: Deliveries
    messages: Messages
    accounts: NodeAccounts
    keys: Keys
    operations: Operations


def gateway_of(parts: Parts) -> Gateway:
    """Return what the API, the commands and plugins work with."""
    core = parts.core
    configuration = ConfigurationReload(
        core.settings,
        core.registry,
        core.pending,
        core.store,
        core.hooks,
        core.catalog,
        core.jobs,
        core.audit,
    )
    return Gateway(
        events=parts.events.intake,
        instances=parts.instances.service,
        ingest=parts.instances.ingest,
        registrations=parts.webhooks.service,
        backfills=parts.webhooks.backfills,
        accounts=parts.accounts,
        keys=parts.keys.service,
        portal=parts.keys.portal,
        messages=parts.messages.service,
        chats=parts.messages.chats,
        stored_messages=parts.messages.stored_messages,
        deliveries=parts.deliveries.service,
        erasures=parts.events.erasures,
        history=parts.deliveries.history,
        pulls=parts.deliveries.pulls,
        jobs=core.jobs,
        media=parts.messages.media,
        configuration=configuration,
        authenticator=core.authenticator,
        sessions=core.sessions,
        operational=core.operational,
        activity=parts.operations.activity,
        figures=parts.operations.figures,
        auto_disable=parts.webhooks.auto_disable,
        restarts=core.restarts,
        hub=core.hub,
        outbound=core.outbound,
        http=core.outbound.http,
        server_search=parts.instances.server_search,
        dispatcher=core.dispatcher,
        backlog=core.backlog,
        disk=core.disk,
        registry=core.registry,
        connectors=parts.instances.connectors,
        settings=core.settings,
        catalog=core.catalog,
        hooks=core.hooks,
        store=core.store,
        audit=core.audit,
        backups=parts.operations.backups,
        clock=core.clock,
        loop_load=core.loop_load,
        metrics=core.metrics,
        views=parts.operations.views,
        quiet=parts.instances.quiet,
        node=core.node,
        refresh=core.refresh,
        peers=parts.fleet.peers,
        records=PluginRecords(core.store, core.node, ""),
    )
