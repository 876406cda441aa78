"""Documents of ``apply``: what carries them out on this node."""

from __future__ import annotations

from functools import partial

from hookgw.accounts.plan import Rules
from hookgw.accounts.service import NodeAccounts
from hookgw.core.open import Core
from hookgw.instances.open import Instances
from hookgw.webhooks.open import Webhooks


def open_accounts(core: Core, instances: Instances, webhooks: Webhooks) -> NodeAccounts:
    rules = Rules(
        core.catalog,
        core.hooks.secret_options,
        instances.connectors.names,
        instances.connectors.option_rules,
        partial(core.hooks.check_registration, at=""),
    )
    return NodeAccounts(
        core.registry, instances.service, webhooks.service, rules, core.clock, core.node.holds
    )
