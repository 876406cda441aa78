"""Connects instances to sessions of WAHA, the WhatsApp HTTP API.

An instance with ``"integration": "waha"`` has the options ``base_url`` and ``api_key``; docs/networks/waha.md
describes all of them. What is the same for all instances may stand in the configuration. A server with a
private address must be listed there::

    plugins: {options: {waha: {base_url: "http://10.0.0.5:3000", api_key: "…", servers: ["http://10.0.0.5:3000"]}}}

An example of a connector whose network calls hookgw: it sets its webhook up by itself, and checks it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hookgw import Connector, hookimpl

from .connector import Waha
from .options import check_defaults

_waha = Waha()


@hookimpl
def hookgw_configure(options: dict[str, Any]) -> None:
    """Set the options of all instances that do not set them themselves."""
    check_defaults(options)
    _waha.set_defaults(options)


@hookimpl
def hookgw_reconfigure(options: dict[str, Any]) -> Callable[[], None]:
    """Check other defaults; instances use them when they connect the next time."""
    check_defaults(options)
    return partial(_waha.set_defaults, options)


@hookimpl
def hookgw_secret_options() -> list[str]:
    """Say what is masked in messages and tracebacks."""
    return ["api_key", "hmac_key"]


@hookimpl
def hookgw_connectors() -> list[Connector]:
    """Provide the connector ``waha``."""
    return [_waha]
