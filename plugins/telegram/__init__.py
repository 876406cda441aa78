"""Connects instances to Telegram: bots, over the Bot API.

An instance with ``"integration": "telegram"`` has the option ``bot_token``, which @BotFather gives out.
docs/networks/telegram.md describes all options. Those that make sense for all instances may stand in the
configuration, and a Bot API server with a private address must::

    plugins: {options: {telegram: {base_url: "http://10.0.0.5:8081", servers: ["http://10.0.0.5:8081"]}}}

Read it in this order: ``events.py`` and ``content.py`` (updates become events), ``outgoing.py`` (messages
become calls), ``client.py`` (requests, with a secret in the URL), ``connection.py`` (events and state in one
commit), ``polling.py`` and ``webhook.py`` (the two ways in which updates come), ``connector.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hookgw import Connector, hookimpl

from .connector import Telegram
from .options import read_defaults

_telegram = Telegram()


@hookimpl
def hookgw_configure(options: dict[str, Any]) -> None:
    """Set the default options of all bots."""
    _telegram.set_defaults(read_defaults(options))


@hookimpl
def hookgw_reconfigure(options: dict[str, Any]) -> Callable[[], None]:
    """Check other default options; instances use them when they connect the next time."""
    return partial(_telegram.set_defaults, read_defaults(options))


@hookimpl
def hookgw_connectors() -> list[Connector]:
    """Provide the connector ``telegram``."""
    return [_telegram]
