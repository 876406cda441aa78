"""The connection states of instances: a connector's, or those that events report."""

from typing import Any

import msgspec
import pytest

from hookgw import ConnectionState, Event
from tests.public.instances import ConnectionStates
from tests.public.records import Disconnection


def update(data: Any) -> Event:
    """Return an event of a producer that writes its local time as if it were UTC."""
    return Event(id="e", kind="CONNECTION_UPDATE", instance="shop", data_json=Event.encode(data), time=19_800)


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
    states = ConnectionStates(now=lambda: 0)
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


def test_a_later_end_without_a_code_changes_nothing_of_the_end() -> None:
    states = ConnectionStates(now=iter(range(6, 20)).__next__)
    states.restore("shop", Disconnection(at=5, code=401, reason="The network logged the account out."))
    states.note(update({"state": "close"}))
    states.note(update({"state": "close", "statusReason": 401}))
    assert states.closing("shop") == (5, 401)
    assert states.close_reason("shop") == "The network logged the account out."
    states.note(update({"state": "close", "statusReason": 403}))
    assert states.closing("shop") == (8, 403)
    # Open meanwhile, it has ended anew, whatever is known of that.
    states.note(update({"state": "open"}))
    assert states.disconnection("shop") == Disconnection(
        at=8, code=403, reason="An event reported that it is closed.", is_over=True
    )
    states.note(update({"state": "close"}))
    assert states.closing("shop") == (10, None)


async def test_ends_of_connections_are_to_be_stored_once() -> None:
    states = ConnectionStates()
    states.note(update({"state": "open"}))
    states.note(update({"state": "close", "statusReason": 428}))
    states.note(update({"state": "close", "statusReason": 401}))
    assert await states.take_unstored() == {"shop"}
    states.note(update({"state": "close", "statusReason": 401}))
    states.note(update({"state": "open"}))
    assert await states.take_unstored() == {"shop"}
    states.note(update({"state": "close"}))
    states.forget("shop")
    assert await states.take_unstored() == set()
    assert states.disconnection("shop") is None


def test_an_instance_that_moves_to_another_node_has_no_end_that_nobody_saw() -> None:
    passed_on = ConnectionStates(lambda _: False)
    passed_on._reported["shop"] = ConnectionState.CLOSE
    passed_on.leave("shop")
    assert not passed_on._for_others
