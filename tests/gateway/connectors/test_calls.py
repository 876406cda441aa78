from __future__ import annotations

from typing import Any, get_args

import pytest

from hookgw.gateway.connectors.calls import CALLS, supports
from hookgw.models.connectors import OptionalCalls, Session
from hookgw.models.messages import LocationMessage, Message, TextMessage
from hookgw.plugins.boundary import Boundary
from hookgw.plugins.contained_connector import ContainedConnector
from hookgw.plugins.provided import check_connector


class TextsAlone:
    name = "texts"

    async def run(self, session: Session) -> None: ...

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        return {}


class WithMore(TextsAlone):
    message_types = (TextMessage, LocationMessage)

    async def delete(self, session: Session, key: Any) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("connector", "supported"),
    [
        (TextsAlone(), {"sendText"}),
        (WithMore(), {"sendText", "sendLocation", "deleteMessageForEveryone"}),
    ],
)
def test_what_a_connector_supports(connector: Any, supported: set[str]) -> None:
    contained = ContainedConnector(check_connector(connector), "mine", Boundary())
    assert {call for call in CALLS if supports(contained, call)} == supported


def test_every_kind_of_message_has_a_call() -> None:
    assert {needed for needed in CALLS.values() if not isinstance(needed, str)} == set(get_args(Message))


def test_each_call_needs_an_optional_method_that_exists() -> None:
    assert all(hasattr(OptionalCalls, needed) for needed in CALLS.values() if isinstance(needed, str))
