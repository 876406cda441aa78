"""``hookgw check-config``: whether the gateway would start with a configuration."""

from __future__ import annotations

from pathlib import Path

import click
import trio

from hookgw.api.server.certificates import load_context
from hookgw.cli.configuration import (
    config_option,
    find_config,
    load_hooks,
    read_settings,
    warn_of_exposed_secrets,
)
from hookgw.cli.idle_gateway import check_routes
from hookgw.cli.output import say
from hookgw.config.master_keys import read_master_keys
from hookgw.gateway.start_plugins import start_plugins


@click.command("check-config")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@config_option
def check_config(file: Path | None, config: Path | None) -> None:
    """Check the configuration without starting the gateway.

    Checks FILE, or the file that `hookgw serve` would read, together with the
    HOOKGW_… environment variables. Also loads the plugins, checks what they
    provide, and loads the certificate and the master key. Exits with code 1 if
    the gateway would not start.
    """
    file = file or config
    settings, base = read_settings(file)
    hooks = load_hooks(settings, base)
    catalog, _ = start_plugins(hooks, settings)
    if hooks.implements("hookgw_routes"):
        trio.run(check_routes, hooks, catalog, settings)
    read_master_keys(settings.storage)
    if settings.server.tls.certificate:
        load_context(settings.server.tls)
    warn_of_exposed_secrets(file)  # after load_hooks, which configures the log
    say(f"{find_config(file) or 'The configuration (defaults and environment, no file)'} is valid.")
