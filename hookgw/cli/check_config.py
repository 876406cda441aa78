"""``hookgw check-config``: whether the gateway would start with a configuration."""

from __future__ import annotations

from pathlib import Path

import click

from hookgw.api.server.certificates import load_context
from hookgw.cli.configuration import find_config, read_hooks, read_settings, warn_of_exposed_secrets


@click.command("check-config")
@click.argument(
    "file", required=False, envvar="HOOKGW_CONFIG", type=click.Path(dir_okay=False, path_type=Path)
)
def check_config(file: Path | None) -> None:
    """Check whether a configuration is right.

    Reads FILE, by default the one that `hookgw serve` would read, with the environment over it, and loads
    the plugins and the certificate. Exit code 1 where the start would stop.
    """
    settings, base = read_settings(file)
    read_hooks(settings, base)
    if settings.server.tls.certificate:
        load_context(settings.server.tls)
    warn_of_exposed_secrets(file)
    click.echo(f"{find_config(file) or 'The configuration (no file, defaults)'} is valid.")
