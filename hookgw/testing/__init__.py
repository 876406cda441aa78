"""The test kit for plugin authors, which hookgw's own tests use too.

It has a real receiver with programmable faults, a gateway on a clock that the test moves, a scripted
connector, and a session for unit tests of connectors. :mod:`hookgw.testing.pytest_plugin` provides fixtures.
``docs/testing.md`` has examples. Everything here is stable within a major version.
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
    from hookgw.testing.connector import ConnectorCall, FakeConnector, SentMessage
    from hookgw.testing.kit import GatewayKit, open_kit
    from hookgw.testing.received import Received
    from hookgw.testing.receiver import Receiver, open_receiver
    from hookgw.testing.running import running
    from hookgw.testing.session import EmittedEvent, FakeMediaSink, FakeSession

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
    "hookgw.testing.connector": ("ConnectorCall", "FakeConnector", "SentMessage"),
    "hookgw.testing.kit": ("GatewayKit", "open_kit"),
    "hookgw.testing.received": ("Received",),
    "hookgw.testing.receiver": ("Receiver", "open_receiver"),
    "hookgw.testing.running": ("running",),
    "hookgw.testing.session": ("EmittedEvent", "FakeMediaSink", "FakeSession"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "Close",
    "ConnectorCall",
    "Drip",
    "EmittedEvent",
    "FakeConnector",
    "FakeMediaSink",
    "FakeSession",
    "GatewayKit",
    "HalfClose",
    "Hang",
    "Pause",
    "Received",
    "Receiver",
    "Reset",
    "Send",
    "SentMessage",
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
    "running",
]


# pytest imports this package at every start, because of the pytest plugin. Importing each module at the first
# use of its names keeps Trio and the gateway out of test runs that have nothing to do with hookgw.
def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
