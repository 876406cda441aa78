"""``hookgw check-config``: check whether the gateway would start with a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import trio

from hookgw.app.idle_gateway import check_routes
from hookgw.app.start_plugins import refusal_of, start_plugins
from hookgw.command.configuration import (
    config_option,
    find_config,
    load_hooks,
    read_settings,
    warn_of_exposed_secrets,
    warn_of_unknown_variables,
)
from hookgw.command.output import say
from hookgw.config.master_key_file import read_master_keys
from hookgw.config.master_keys import MasterKeys
from hookgw.config.settings import Settings
from hookgw.delivery.http.client_tls import read_ca_file
from hookgw.delivery.outbound import OutboundHttp
from hookgw.kernel.errors import StartError, StorageUnavailable
from hookgw.plugins.hooks import Hooks
from hookgw.records.registrations import Registration
from hookgw.site.brand import load_brand
from hookgw.store.engines import database_of
from hookgw.store.stored_registrations import NOTHING, read_stored
from hookgw.web.server.certificates import load_context
from hookgw.webhooks.refused_addresses import by_registration, refused_addresses


@click.command("check-config")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@config_option
def check_config(file: Path | None, config: Path | None) -> None:
    """Check the configuration without starting the gateway.

    Checks FILE, or the file that `hookgw serve` would read, together with the
    HOOKGW_… environment variables. Also loads the plugins, checks what they
    provide, and loads the certificate, the authorities and the master key.
    Exits with code 1 if the gateway would not start.

    Warns of each webhook whose address these settings refuse, also of those
    that are stored. It reads them from the storage, while hookgw runs or not.
    """
    file = file or config
    settings, base = read_settings(file)
    hooks = load_hooks(settings, base)
    catalog, webhooks = start_plugins(hooks, settings)
    if hooks.implements("hookgw_routes"):
        trio.run(check_routes, hooks, catalog, settings)
    keys = read_master_keys(settings.storage)
    if settings.storage.engine == "postgresql":
        database_of(settings.storage.url, settings.storage.schema)
    read_ca_file(settings.delivery.ca_file)
    load_brand(settings.dashboard.brand, b"")
    if settings.server.tls.certificate:
        load_context(settings.server.tls)
    warn_of_unknown_variables()
    warn_of_exposed_secrets(file)  # after load_hooks, which configures the log
    _warn_of_refused_addresses(settings, keys, hooks, [webhook.registration for webhook in webhooks])
    say(f"{find_config(file) or 'The configuration (defaults and environment, no file)'} is valid.")


def _warn_of_refused_addresses(
    settings: Settings, keys: MasterKeys, hooks: Hooks, configured: Sequence[Registration]
) -> None:
    stored = NOTHING
    try:
        stored = read_stored(settings.storage, keys)
    # The check is of the configuration. The storage may be on another machine, or another user's.
    except (StartError, StorageUnavailable) as error:
        say(f"Warning: The stored webhooks were not checked. {' '.join(error.messages)}", err=True)
    found = refused_addresses(
        [*stored.registrations.values(), *configured],
        partial(refusal_of, OutboundHttp(settings.delivery), hooks),
        by_registration(stored.pending),
    )
    for refused in found:
        say(f"Warning: {refused}", err=True)
