"""Connects instances to WhatsApp's Cloud API: a business phone number at Meta.

An instance with ``"integration": "whatsapp_cloud"`` has the options ``phone_number_id``, ``access_token``,
``app_secret`` and ``verify_token``. docs/networks/whatsapp_cloud.md describes all of them. Those that all
instances share may stand in the configuration::

    plugins: {options: {whatsapp_cloud: {app_secret: "${META_APP_SECRET}", verify_token: "${META_VERIFY}"}}}

An example of a network that calls hookgw. Read it in this order:

- ``options.py``: the options of an instance, and those that the configuration gives to all;
- ``webhooks.py``: what Meta posts: the proof, the challenge, and the changes in a body;
- ``events.py``: messages and statuses as events; ``outgoing.py``: the way back;
- ``client.py``: requests to the Graph API, and its errors;
- ``turns.py`` and ``connection.py``: one number: its health, and the order of what arrives;
- ``connector.py``: the connector.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hookgw import Connector, hookimpl

from .connector import WhatsAppCloud
from .options import check_defaults

_whatsapp_cloud = WhatsAppCloud()


@hookimpl
def hookgw_configure(options: dict[str, Any]) -> None:
    """Set the options that instances do not set themselves."""
    check_defaults(options)
    _whatsapp_cloud.set_defaults(options)


@hookimpl
def hookgw_reconfigure(options: dict[str, Any]) -> Callable[[], None]:
    """Check other default options; instances use them when they connect the next time."""
    check_defaults(options)
    return partial(_whatsapp_cloud.set_defaults, options)


@hookimpl
def hookgw_secret_options() -> list[str]:
    """Say what is masked in messages and tracebacks."""
    return ["access_token", "app_secret", "verify_token"]


@hookimpl
def hookgw_connectors() -> list[Connector]:
    """Provide the connector ``whatsapp_cloud``."""
    return [_whatsapp_cloud]
