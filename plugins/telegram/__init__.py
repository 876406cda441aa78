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

from .connector import Telegram

_telegram = Telegram()
hookgw_configure = _telegram.hookgw_configure
hookgw_reconfigure = _telegram.hookgw_reconfigure
hookgw_connectors = _telegram.hookgw_connectors
