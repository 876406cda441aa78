"""The parts of a gateway, one for each slice, and what is made of them."""

from __future__ import annotations

import msgspec

from hookgw.accounts.service import NodeAccounts
from hookgw.app.gateway import Gateway
from hookgw.app.reload import ConfigurationReload
from hookgw.core.open import Core, Shared
from hookgw.core.plugin_records import PluginRecords
from hookgw.deliveries.open import Deliveries
from hookgw.events.open import Events
from hookgw.fleet.open import Fleet
from hookgw.instances.open import Instances
from hookgw.keys.open import Keys
from hookgw.messages.open import Messages
from hookgw.operations.open import Operations
from hookgw.webhooks.open import Webhooks


class Parts(msgspec.Struct, frozen=True, eq=False):
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
    shared = {name: getattr(core, name) for name in Shared.__struct_fields__}
    return Gateway(
        **shared,
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
        media=parts.messages.media,
        configuration=configuration,
        figures=parts.operations.figures,
        auto_disable=parts.webhooks.auto_disable,
        http=core.outbound.http,
        server_search=parts.instances.server_search,
        connectors=parts.instances.connectors,
        backups=parts.operations.backups,
        views=parts.operations.views,
        quiet=parts.instances.quiet,
        peers=parts.fleet.peers,
        records=PluginRecords(core.store, core.node, ""),
    )
