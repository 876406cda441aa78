"""Where a command finds the configuration, and what it makes of it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import structlog

from hookgw.cli.logging_setup import configure_logging
from hookgw.config.file_permissions import exposed_secrets
from hookgw.config.load import load_settings
from hookgw.config.settings import Settings
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins

DEFAULT_FILE = Path("config.yaml")


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option ``--config``, as its argument ``config``."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="HOOKGW_CONFIG",
        help="The configuration file. Also HOOKGW_CONFIG.  [default: config.yaml, where there is one]",
    )(command)


def find_config(given: Path | None) -> Path | None:
    """The file to read: the given one, else ``config.yaml`` here, else ``None`` for the defaults."""
    if given is not None:
        return given
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def read_settings(given: Path | None) -> tuple[Settings, Path]:
    """The settings from the file that :func:`find_config` finds, and the environment.

    Returns:
        them, and the folder that relative plugin folders are below.

    Raises:
        ConfigError: a key or value is wrong; the message names its path and line.
    """
    path = find_config(given)
    settings = load_settings(path, os.environ)
    return settings, (path.parent if path else Path())


def warn_of_exposed_secrets(given: Path | None) -> None:
    """Log a warning where others can read a secret in the file that :func:`find_config` finds."""
    path = find_config(given)
    exposed = exposed_secrets(path) if path is not None else []
    if path is not None and exposed:
        structlog.get_logger("hookgw.config").warning(
            "others can read secrets in the configuration file",
            file=str(path),
            keys=exposed,
            mend=f"chmod o-r {shlex.quote(str(path))}",
        )


def read_hooks(settings: Settings, base: Path) -> Hooks:
    """The plugins that the settings name, with their options checked. Warnings go to standard error.

    Raises:
        StartError: a plugin cannot be loaded, or refuses its options.
    """
    configure_logging(msgspec.structs.replace(settings.log, format="text"), sys.stderr)
    loaded = load_plugins(settings.plugins, base=base)
    hooks = Hooks(loaded, hook_timeout=settings.plugins.hook_timeout, on_failure=None)
    hooks.configure(settings.plugins.options)
    return hooks


def add_plugin_commands(group: click.Group) -> None:
    """Let the configured plugins add their commands to a group.

    Raises:
        StartError: the configuration or a plugin is at fault.
    """
    given = os.environ.get("HOOKGW_CONFIG")
    settings, base = read_settings(Path(given) if given else None)
    read_hooks(settings, base).commands(group)
