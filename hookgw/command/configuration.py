"""Finds and loads the configuration and its plugins for commands."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

import click
import msgspec
import structlog

from hookgw.command.logging_setup import configure_logging
from hookgw.command.plugin_commands import add_contained_commands
from hookgw.config.file_permissions import exposed_secrets, way_to_hide
from hookgw.config.file_presence import is_there
from hookgw.config.load import load_settings, unknown_variables
from hookgw.config.settings import Settings
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins

DEFAULT_FILE = Path("config.yaml")


config_option = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="HOOKGW_CONFIG",
    help="The configuration file. Or set HOOKGW_CONFIG.  [default: config.yaml, if it exists]",
)


def find_config(given: Path | None) -> Path | None:
    """Return the given file, else ``config.yaml`` if it exists here, else ``None`` (use the defaults)."""
    if given is not None:
        return given
    # What cannot be read, such as a link to nothing, is no reason to use the defaults.
    with suppress(OSError):
        if not is_there(DEFAULT_FILE, follow_symlinks=False):
            return None
    return DEFAULT_FILE


def read_settings(given: Path | None) -> tuple[Settings, Path]:
    """Load the settings from the file of :func:`find_config` and from the environment.

    Return them with the folder to which relative plugin folders refer.

    Raises:
        ConfigError: a key or value is wrong. The message names its path and line.
    """
    path = find_config(given)
    # Plugin folders are relative to the file, so that the directory of a service does not matter.
    settings = load_settings(path, os.environ)
    return settings, (path.parent if path else Path())


def warn_of_exposed_secrets(given: Path | None) -> None:
    """Log a warning if other users can read a secret in the file of :func:`find_config`."""
    path = find_config(given)
    exposed = exposed_secrets(path) if path is not None else []
    if path is not None and exposed:
        structlog.get_logger("hookgw.config").warning(
            "other users can read secrets in the configuration file",
            file=str(path),
            keys=exposed,
            fix=way_to_hide(path),
        )


def warn_of_unknown_variables() -> None:
    """Log a warning for each environment variable that begins as hookgw's do and has no meaning."""
    for name, near in unknown_variables(os.environ).items():
        hint = f"Did you mean {near}?" if near else "See docs/configuration.md, Values from the environment."
        structlog.get_logger("hookgw.config").warning("unknown environment variable", name=name, fix=hint)


def load_hooks(settings: Settings, base: Path) -> Hooks:
    """Load the plugins that the settings name; they print to standard error, as the log does.

    Raises:
        StartError: a plugin cannot be loaded.
    """
    # Standard output belongs to the command's result, which a program may read.
    configure_logging(msgspec.structs.replace(settings.log, format="text"), sys.stderr)
    with redirect_stdout(sys.stderr):
        loaded = load_plugins(settings.plugins, base=base)
    return Hooks(loaded, hook_timeout=settings.plugins.hook_timeout, on_failure=None)


def add_plugin_commands(group: click.Group) -> None:
    """Let the configured plugins add their commands; raise ``StartError`` if one is wrong."""
    # `--config` belongs to commands, and click looks for a command before it parses that command's options:
    # only the environment can name the file here.
    given = os.environ.get("HOOKGW_CONFIG")
    settings, base = read_settings(Path(given) if given else None)
    hooks = load_hooks(settings, base)
    with redirect_stdout(sys.stderr):  # what a command itself prints stays
        hooks.configure(settings.plugins.options)
        add_contained_commands(hooks, group)
