"""The generic way in: any system that can POST JSON raises the events of an instance.

An instance with ``"integration": "webhook"`` has an ``ingestUrl``. Each JSON body (or form) that is posted
there is one event, whose data is the body, byte for byte. ``schemes.py`` is the table of signatures that it
knows; docs/networks/webhook.md describes the options of an instance. Other systems have other events. The
configuration can add their kinds::

    plugins: {options: {webhook: {kinds: {ORDER_PAID: "An order was paid."}}}}

An example of a connector that only listens: it has no account, connects to nothing, and sends nothing.
"""

from __future__ import annotations

from typing import Any

from hookgw import Connector, EventKind, PluginGateway, hookimpl

from .connector import Webhook
from .kinds import read_kinds

_webhook = Webhook()
_kinds: list[EventKind] = []


@hookimpl
def hookgw_configure(options: dict[str, Any]) -> None:
    """Take the event kinds of the configuration."""
    _kinds[:] = read_kinds(options)


@hookimpl
def hookgw_event_kinds() -> list[EventKind]:
    """Add the event kinds of the configuration to the catalog."""
    return _kinds


@hookimpl
def hookgw_connectors() -> list[Connector]:
    """Provide the connector ``webhook``."""
    return [_webhook]


@hookimpl
async def hookgw_run(gateway: PluginGateway) -> None:
    """Learn the event kinds, to check options when an instance is created."""
    _webhook.catalog = gateway.catalog
