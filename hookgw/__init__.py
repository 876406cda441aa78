"""hookgw: a webhook gateway for messaging instances.

What plugin authors import. Everything here is stable within a major version. The names are looked
up when they are first used, so that ``hookgw --version`` need not import them all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hookgw._version import __version__

if TYPE_CHECKING:
    from hookgw.api.contract.declaring import describes
    from hookgw.connectors import ConnectionState, Connector, QRCode, Session
    from hookgw.deliveries import Attempt, Delivery, DeliveryState, LaneState, Outcome
    from hookgw.errors import HookgwError, Invalid, NetworkRefused, Unavailable
    from hookgw.events import Event, EventKind
    from hookgw.gateway import Gateway
    from hookgw.plugins.hookspecs import Outgoing, hookimpl
    from hookgw.registrations import Registration

_HOMES = {
    "hookgw.api.contract.declaring": ("describes",),
    "hookgw.connectors": ("ConnectionState", "Connector", "QRCode", "Session"),
    "hookgw.deliveries": ("Attempt", "Delivery", "DeliveryState", "LaneState", "Outcome"),
    "hookgw.errors": ("HookgwError", "Invalid", "NetworkRefused", "Unavailable"),
    "hookgw.events": ("Event", "EventKind"),
    "hookgw.gateway": ("Gateway",),
    "hookgw.plugins.hookspecs": ("Outgoing", "hookimpl"),
    "hookgw.registrations": ("Registration",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Attempt",
    "ConnectionState",
    "Connector",
    "Delivery",
    "DeliveryState",
    "Event",
    "EventKind",
    "Gateway",
    "HookgwError",
    "Invalid",
    "LaneState",
    "NetworkRefused",
    "Outcome",
    "Outgoing",
    "QRCode",
    "Registration",
    "Session",
    "Unavailable",
    "__version__",
    "describes",
    "hookimpl",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
