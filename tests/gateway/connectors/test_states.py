"""The connection states of instances: a connector's, or those that events report."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hookgw.gateway.connectors.states import ConnectionStates
from hookgw.models.connectors import ConnectionState
from hookgw.models.events import Event


def update(data: Any) -> Event:
    return Event(id="e", kind="CONNECTION_UPDATE", instance="shop", data_json=Event.encode(data), time=0)


@pytest.mark.parametrize(
    ("reported", "state"),
    [
        ("open", ConnectionState.OPEN),
        ("connecting", ConnectionState.CONNECTING),
        ("close", ConnectionState.CLOSE),
        ("refused", ConnectionState.CLOSE),
        ("OPEN", ConnectionState.CONNECTING),
        (["open"], ConnectionState.CONNECTING),
        (None, ConnectionState.CONNECTING),
    ],
)
def test_events_report_the_state(reported: Any, state: ConnectionState) -> None:
    states = ConnectionStates()
    assert states.state("shop") is ConnectionState.CLOSE
    states.note(update({"state": "connecting"}))
    states.note(update({"state": reported}))
    states.note(update([reported]))
    assert states.state("shop") is state
    assert states.sender("shop") is None
    assert states.state("other") is ConnectionState.CLOSE


@pytest.mark.parametrize(
    ("given", "kept"),
    [(401, 401), (-1, -1), (2**31, None), (10**4000, None), (True, None), ("401", None), (401.0, None)],
    ids=["401", "-1", "33 bits", "4,001 digits", "true", "text", "float"],
)
def test_the_reason_of_a_closed_connection_is_a_short_number(given: Any, kept: int | None) -> None:
    """The nodes of a fleet tell each other of it in MessagePack, which has no long ones."""
    states = ConnectionStates()
    states.note(update({"state": "close", "statusReason": given}))
    assert states.closing("shop") == (0, kept)
    msgspec.msgpack.encode(states.closing("shop"))


def test_a_deleted_instance_is_forgotten() -> None:
    states = ConnectionStates()
    states.note(update({"state": "open"}))
    states.forget("shop")
    states.forget("shop")
    assert states.state("shop") is ConnectionState.CLOSE


class FakeSession:
    state = ConnectionState.CONNECTING
    sender = "55@s"
    qr_code = None


def test_a_running_connector_knows_better_than_events() -> None:
    states = ConnectionStates()
    session: Any = FakeSession()
    states.sessions["shop"] = session
    states.note(update({"state": "open"}))
    assert (states.state("shop"), states.sender("shop")) == (ConnectionState.CONNECTING, "55@s")
    del states.sessions["shop"]
    assert (states.state("shop"), states.sender("shop")) == (ConnectionState.CLOSE, None)


def test_an_instance_that_shows_a_code_is_connecting() -> None:
    states = ConnectionStates()
    session: Any = FakeSession()
    session.state, session.qr_code = ConnectionState.CLOSE, object()
    states.sessions["shop"] = session
    assert states.state("shop") is ConnectionState.CONNECTING
    assert states.close_reason("shop") is None
