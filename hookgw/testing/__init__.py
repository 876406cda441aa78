"""What plugin authors test with: the tools of hookgw's own tests.

A real receiver whose faults are programmable, a gateway on a clock that the test moves, and a
scripted connector. ``docs/testing.md`` shows them at work; :mod:`hookgw.testing.pytest_plugin`
offers them as fixtures. Everything here is stable within a major version. The names are looked up
when they are first used, since pytest imports this package at every start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgw.testing.answers import (
        Answer,
        Close,
        Drip,
        HalfClose,
        Hang,
        Pause,
        Reset,
        Send,
        Step,
        Stream,
        answer,
        chunk,
        close,
        hang,
        raw,
        redirect,
        reset,
    )
    from hookgw.testing.connector import FakeConnector, SentText
    from hookgw.testing.kit import GatewayKit, open_kit
    from hookgw.testing.received import Received
    from hookgw.testing.receiver import Receiver, open_receiver

_HOMES = {
    "hookgw.testing.answers": (
        "Answer",
        "Close",
        "Drip",
        "HalfClose",
        "Hang",
        "Pause",
        "Reset",
        "Send",
        "Step",
        "Stream",
        "answer",
        "chunk",
        "close",
        "hang",
        "raw",
        "redirect",
        "reset",
    ),
    "hookgw.testing.connector": ("FakeConnector", "SentText"),
    "hookgw.testing.kit": ("GatewayKit", "open_kit"),
    "hookgw.testing.received": ("Received",),
    "hookgw.testing.receiver": ("Receiver", "open_receiver"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "Close",
    "Drip",
    "FakeConnector",
    "GatewayKit",
    "HalfClose",
    "Hang",
    "Pause",
    "Received",
    "Receiver",
    "Reset",
    "Send",
    "SentText",
    "Step",
    "Stream",
    "answer",
    "chunk",
    "close",
    "hang",
    "open_kit",
    "open_receiver",
    "raw",
    "redirect",
    "reset",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
