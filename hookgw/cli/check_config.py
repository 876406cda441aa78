"""``hookgw check-config``: whether the gateway would start with a configuration."""

from __future__ import annotations

from pathlib import Path

import click

from hookgw.cli.configuration import find_config, read_hooks, read_settings


@click.command("check-config")
@click.argument(
    "file", required=False, envvar="HOOKGW_CONFIG", type=click.Path(dir_okay=False, path_type=Path)
)
def check_config(file: Path | None) -> None:
    """Check FILE and the environment, and that its plugins load; exit code 1 if the start would stop.

    Without FILE it is the one that `hookgw serve` would read.
    """
    settings, base = read_settings(file)
    read_hooks(settings, base)
    click.echo(f"{find_config(file) or 'The configuration (no file, defaults)'} is valid.")
