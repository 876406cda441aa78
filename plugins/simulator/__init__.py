"""A messaging network that is not there: for trying hookgw out, for its demo, and for tests.

An instance made with ``"integration": "simulator"`` shows a QR code, opens, and gets messages at a
rate. What it sends is acknowledged, delivered and read. Its options are those of the instance, over
those of the configuration::

    plugins: {options: {simulator: {rate: 5, chats: 20, connect_delay: 2s}}}

An example of ``hookgw_connectors``.
"""

from __future__ import annotations

from typing import Any

from hookgw import Connector, hookimpl

from .connector import Simulator
from .options import read_options

_simulator = Simulator()


@hookimpl
def hookgw_configure(options: dict[str, Any]) -> None:
    """Take the defaults of all simulated instances."""
    read_options(options, strict=True)
    _simulator.defaults = options


@hookimpl
def hookgw_connectors() -> list[Connector]:
    """Provide the connector ``simulator``."""
    return [_simulator]
