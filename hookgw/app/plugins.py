"""``hookgw plugins``: which plugins the configuration loads."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click
import msgspec

from hookgw.app.start_plugins import start_plugins
from hookgw.command.configuration import config_option, load_hooks, read_settings
from hookgw.command.output import Column, show_table, shown_as_json, table_options


@click.command()
@config_option
@table_options
def plugins(config: Path | None) -> None:
    """List the plugins and their hooks."""
    settings, base = read_settings(config)
    hooks = load_hooks(settings, base)
    with redirect_stdout(sys.stderr):
        start_plugins(hooks, settings)  # an optional plugin that fails is shown with the reason
    found = hooks.plugins()
    if shown_as_json(msgspec.to_builtins(found)):
        return
    # A disabled plugin has no hooks. An optional plugin that cannot be loaded has an error.
    show_table(
        (
            Column("name", least=None),
            Column("source", least=16, drop=2),
            Column("version", least=None, drop=1),
            Column("enabled", least=None),
            Column("hooks", least=26, wraps=True),
            Column("error", least=20, drop=3, wraps=True),
        ),
        ((info.name, info.source, info.version, info.enabled, info.hooks, info.error) for info in found),
    )
