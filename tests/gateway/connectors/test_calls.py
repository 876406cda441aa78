from typing import Any

from hookgw import MediaMessage, TextMessage
from tests.public.instances import CALLS, calls_of, supports
from tests.public.plugins import Boundary, ContainedConnector, check_connector


class Small:
    name = "small"
    message_types: tuple[type, ...] = (TextMessage,)

    async def run(self, session: Any) -> None: ...

    async def send(self, session: Any, message: Any, *, key: str) -> dict[str, Any]:
        return {}


class Larger(Small):
    message_types = (TextMessage, MediaMessage)

    async def set_presence(
        self, session: Any, presence: str, *, number: str | None, delay: float
    ) -> None: ...

    async def edit(self, session: Any, key: Any, text: str, *, number: str) -> dict[str, Any]:
        return {}


def contained(connector: Any) -> ContainedConnector:
    return ContainedConnector(check_connector(connector), "mine", Boundary())


def test_the_calls_follow_from_messages_and_methods() -> None:
    own = ["findChats", "findContacts", "findMessages", "restart"]
    assert calls_of(contained(Small())) == ["sendText", *own]
    larger = contained(Larger())
    media = ["sendText", "sendMedia", "sendSticker", "sendWhatsAppAudio"]
    assert calls_of(larger) == [*media, "sendPresence", "updateMessage", "setPresence", *own]
    assert [call for call in CALLS if supports(larger, call)] == calls_of(larger)
