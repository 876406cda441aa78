"""Everything that plugins can refuse before the data file is opened; ``check-config`` uses it too. No I/O."""

from __future__ import annotations

from hookgw.config.settings import Settings
from hookgw.gateway.configured_registrations import ParsedWebhook, parse_global_webhooks
from hookgw.models.event_kinds import BUILT_IN_KINDS
from hookgw.models.events import Catalog
from hookgw.models.operational_kinds import OPERATIONAL_KINDS
from hookgw.plugins.hooks import Hooks


def start_plugins(hooks: Hooks, settings: Settings) -> tuple[Catalog, tuple[ParsedWebhook, ...]]:
    """Give plugins their options, and check what they provide.

    An optional plugin that fails is switched off, with everything that it provides.

    Returns:
        The catalog of all event kinds, and the webhooks of the configuration.

    Raises:
        StartError: a plugin failed, or the configuration breaks a rule of a plugin or of hookgw.
    """
    hooks.configure(settings.plugins.options)
    while True:
        before = hooks.plugins()
        # This checks the connectors, too.
        catalog = Catalog([*BUILT_IN_KINDS, *OPERATIONAL_KINDS, *hooks.kinds()])
        webhooks = parse_global_webhooks(settings.global_webhooks, catalog, hooks.check_configured)
        # If a webhook's options switched a plugin off, its kinds are gone.
        if hooks.plugins() == before:
            return catalog, webhooks
