"""A simulated messaging network, for trying hookgw out, for its demo, and for tests.

An instance with ``"integration": "simulator"`` shows a QR code, opens, and receives messages at a given rate.
Messages that it sends are acknowledged, delivered and read. An instance's options override those of the
configuration::

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
    """Set the default options of all simulated instances."""
    read_options(options, strict=True)
    _simulator.defaults = options


@hookimpl
def hookgw_connectors() -> list[Connector]:
    """Provide the connector ``simulator``."""
    return [_simulator]
