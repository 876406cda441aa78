"""Connects instances to the accounts in an Evolution API server, which stays.

hookgw sets the webhook of an instance there, takes its events, and forwards its calls. An instance with
``"integration": "evolution"`` has the options ``base_url``, ``api_key`` and ``remote``;
docs/networks/evolution.md describes all of them. Defaults for all instances, and a server with a private
address, are in the configuration::

    plugins:
      options:
        evolution: {base_url: "http://10.0.0.5:8080", api_key: "…", servers: ["http://10.0.0.5:8080"]}

An example of ``hookgw_connectors`` for a network that calls hookgw.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hookgw import Connector, hookimpl

from .connector import Evolution
from .options import read_defaults

_evolution = Evolution()


@hookimpl
def hookgw_configure(options: dict[str, Any]) -> None:
    """Set the default options of all instances."""
    _evolution.set_defaults(read_defaults(options))


@hookimpl
def hookgw_reconfigure(options: dict[str, Any]) -> Callable[[], None]:
    """Check other default options; instances use them when they connect the next time."""
    return partial(_evolution.set_defaults, read_defaults(options))


@hookimpl
def hookgw_secret_options() -> list[str]:
    """Say what is masked in messages and tracebacks."""
    return ["api_key"]


@hookimpl
def hookgw_connectors() -> list[Connector]:
    """Provide the connector ``evolution``."""
    return [_evolution]
