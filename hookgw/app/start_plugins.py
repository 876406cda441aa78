"""The part of the start that plugins can refuse, before the data file opens; for ``check-config`` too. No
I/O.
"""

from __future__ import annotations

from hookgw.config.settings import Settings
from hookgw.delivery.outbound import OutboundHttp
from hookgw.instances.connectors.runner import Connectors
from hookgw.instances.fields import CREATE_FIELDS
from hookgw.kernel.errors import ConfigError
from hookgw.plugins.hooks import Hooks
from hookgw.records.event_kinds import BUILT_IN_KINDS
from hookgw.records.events import Catalog
from hookgw.records.operational_kinds import OPERATIONAL_KINDS
from hookgw.records.registrations import Registration
from hookgw.webhooks.configured import ParsedWebhook, parse_global_webhooks


def start_plugins(hooks: Hooks, settings: Settings) -> tuple[Catalog, tuple[ParsedWebhook, ...]]:
    """Give plugins their options, and check their event kinds, connectors and pages.

    An optional plugin that fails is switched off, with everything that it provides. Return the catalog of all
    event kinds, and the webhooks of the configuration.

    Raises:
        StartError: a plugin failed, or the configuration breaks a rule of a plugin or of hookgw.
    """
    hooks.configure(settings.plugins.options, reserved=CREATE_FIELDS)
    while True:
        before = hooks.plugins()
        # This checks the connectors, too.
        catalog = Catalog([*BUILT_IN_KINDS, *OPERATIONAL_KINDS, *hooks.kinds()])
        webhooks = parse_global_webhooks(settings.global_webhooks, catalog, hooks.check_configured)
        # If a webhook's options switched a plugin off, its kinds are gone.
        if hooks.plugins() == before:
            break
    # An optional plugin that failed has taken its connector away: that does not stop the start.
    if not any(plugin.error for plugin in hooks.plugins()):
        connectors = hooks.connectors()
        known = ", ".join(sorted(connectors)) or "none"
        problems = [
            f"instances.integrations.{name}: there is no connector {connector!r}. Known connectors: {known}."
            for name, connector in settings.instances.integrations.items()
            if connector not in connectors
        ]
        if problems:
            raise ConfigError(*problems)
    return catalog, webhooks


def refusal_of(outbound: OutboundHttp, hooks: Hooks, registration: Registration) -> str | None:
    """Return why nothing can be delivered to a registration, if that is known without a lookup."""
    if (refusal := hooks.missing_plugin(registration) or outbound.known_refusal(registration)) is not None:
        return refusal
    missing = hooks.absent_plugin(registration) if registration.enabled else None
    return None if missing is None else str(missing)


def remove_switched_off(hooks: Hooks, catalog: Catalog, connectors: Connectors) -> None:
    """Remove what plugins provide that were switched off after :func:`start_plugins`.

    Call this before anything runs: they have done nothing yet.
    """
    kept = hooks.kinds()
    for kind in [kind for kind in catalog if kind.plugin and kind not in kept]:
        catalog.remove(kind)
    connectors.keep(hooks.connectors())
