"""What connectors have in common: hooks, defaults of the configuration, connections, and state."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import pytest

from hookgw import NetworkRefused
from hookgw.connectors import Connections, NetworkConnector, load_state, save_state, schema_with
from hookgw.testing import FakeSession
from tests.public.plugins import check_plugin, new_manager

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"server": {"type": "string"}, "key": {"type": "string", "writeOnly": True}},
}


class Chat(NetworkConnector[str]):
    name = "chat"
    options_schema: ClassVar[dict[str, Any]] = SCHEMA  # type: ignore[misc]
    default_names = ("server", "key", "previews")
    not_connected = "The instance is not connected to Chat."

    def check_defaults(self, options: dict[str, Any]) -> Mapping[str, Any]:
        if "server" not in options:
            raise ValueError("server is missing")
        return options


class State(msgspec.Struct):
    token: str = ""


def test_the_hooks_are_those_of_a_plugin() -> None:
    assert set(check_plugin(Chat(), new_manager())) == {
        *("hookgw_configure", "hookgw_reconfigure", "hookgw_secret_options", "hookgw_connectors"),
    }


def test_a_connector_takes_defaults_and_shows_no_secret() -> None:
    chat = Chat()
    [provided] = chat.hookgw_connectors()
    assert provided is chat  # type: ignore[comparison-overlap]
    assert chat.hookgw_secret_options() == ["key"]
    chat.hookgw_configure({"server": "https://a", "key": "planted"})
    assert chat.defaults == {"server": "https://a", "key": "planted"}
    assert chat.options_schema["properties"]["server"]["default"] == "https://a"
    assert "planted" not in str(chat.options_schema)
    assert Chat.options_schema == Chat().options_schema == SCHEMA


def test_changed_defaults_are_used_when_all_was_checked() -> None:
    chat = Chat()
    chat.hookgw_configure({"server": "https://a"})
    apply = chat.hookgw_reconfigure({"server": "https://b"})
    with pytest.raises(ValueError, match="server is missing"):
        chat.hookgw_reconfigure({})
    assert chat.defaults == {"server": "https://a"}
    apply()
    assert chat.defaults == {"server": "https://b"}


def test_a_schema_without_defaults_stays() -> None:
    assert schema_with(SCHEMA, {}) == SCHEMA


def test_connections_are_those_of_the_runs() -> None:
    connections, session = Connections[str]("Not connected."), FakeSession()
    assert connections.get(session) is None
    with pytest.raises(NetworkRefused, match=r"^Not connected\.$") as caught:
        connections.of(session)
    assert caught.value.status == 409
    with connections.joined(session, "first") as connection:
        assert connections.of(session) == connection == "first"
        assert connections.get(FakeSession(instance="other")) is None
    assert connections.get(session) is None


def test_a_run_that_ends_late_leaves_the_next_one_alone() -> None:
    connections, session = Connections[list[int]](""), FakeSession()
    former, next_one = connections.joined(session, [1]), connections.joined(session, [2])
    former.__enter__()
    next_one.__enter__()
    former.__exit__(None, None, None)
    assert connections.get(session) == [2]
    next_one.__exit__(None, None, None)
    assert connections.get(session) is None


async def test_the_state_of_a_run_is_that_of_the_next() -> None:
    session = FakeSession()
    assert await load_state(session, State) == State()
    await save_state(session, State("t"))
    assert await load_state(session, State) == State("t")


async def test_a_state_of_another_form_is_a_new_one() -> None:
    session = FakeSession()
    await session.save_state({"token": 5})
    assert await load_state(session, State) == State()
