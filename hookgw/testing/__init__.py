"""The test kit for plugin authors, which hookgw's own tests use too.

It has a real receiver with programmable faults, a gateway on a clock that the test moves, a scripted
connector, and a session for unit tests of connectors. :mod:`hookgw.testing.pytest_plugin` provides fixtures.
``docs/testing.md`` has examples. Everything here is stable within a major version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgw._lazy import names_of

if TYPE_CHECKING:
    from hookgw.testing.answers import Answer as Answer
    from hookgw.testing.answers import Close as Close
    from hookgw.testing.answers import Drip as Drip
    from hookgw.testing.answers import HalfClose as HalfClose
    from hookgw.testing.answers import Hang as Hang
    from hookgw.testing.answers import Pause as Pause
    from hookgw.testing.answers import Reset as Reset
    from hookgw.testing.answers import Send as Send
    from hookgw.testing.answers import Step as Step
    from hookgw.testing.answers import Stream as Stream
    from hookgw.testing.answers import answer as answer
    from hookgw.testing.answers import chunk as chunk
    from hookgw.testing.answers import close as close
    from hookgw.testing.answers import hang as hang
    from hookgw.testing.answers import raw as raw
    from hookgw.testing.answers import redirect as redirect
    from hookgw.testing.answers import reset as reset
    from hookgw.testing.connector import ConnectorCall as ConnectorCall
    from hookgw.testing.connector import FakeConnector as FakeConnector
    from hookgw.testing.connector import SentMessage as SentMessage
    from hookgw.testing.connector_run import running as running
    from hookgw.testing.kit import GatewayKit as GatewayKit
    from hookgw.testing.kit import open_kit as open_kit
    from hookgw.testing.received import Received as Received
    from hookgw.testing.receiver import Receiver as Receiver
    from hookgw.testing.receiver import open_receiver as open_receiver
    from hookgw.testing.session import EmittedEvent as EmittedEvent
    from hookgw.testing.session import FakeMediaSink as FakeMediaSink
    from hookgw.testing.session import FakeSession as FakeSession

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
    "hookgw.testing.connector_run": ("running",),
    "hookgw.testing.kit": ("GatewayKit", "open_kit"),
    "hookgw.testing.received": ("Received",),
    "hookgw.testing.receiver": ("Receiver", "open_receiver"),
    "hookgw.testing.session": ("EmittedEvent", "FakeMediaSink", "FakeSession"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


# pytest imports this package at every start, because of the pytest plugin. Importing each module at the first
# use of its names keeps Trio and the gateway out of test runs that have nothing to do with hookgw.
__getattr__ = names_of(__name__, _HOME_OF)
