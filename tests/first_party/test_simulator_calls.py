"""The simulator's calls: all types of messages, the key of a send, reading, presences, changes, settings."""

from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema_rs
import pytest
import trio

from hookgw import (
    Contact,
    ContactMessage,
    InstanceSettings,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    Message,
    MessageKey,
    NetworkRefused,
    NotFound,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from hookgw.testing import FakeSession
from tests.public.plugins import ContainedConnector
from tests.public.records import Catalog
from tests.support.simulated import connected, instance, run_for, times_of

pytestmark = pytest.mark.usefixtures("autojump_clock")

ANA = "5511988887777"
ANA_JID = f"{ANA}@s.whatsapp.net"
OWN = MessageKey(remote_jid=ANA_JID, id="3EB0A1", from_me=True)
THEIRS = MessageKey(remote_jid=ANA_JID, id="3EB0B2")
CARD = Contact(full_name="Ben", phone_number="+55 11 9", email="ben@x.example")
BEN = "BEGIN:VCARD\nVERSION:3.0\nFN:Ben\nTEL:+55 11 9\nEMAIL:ben@x.example\nEND:VCARD"


@pytest.mark.parametrize(
    ("message", "name", "content"),
    [
        (TextMessage(number=ANA, text="hi"), "conversation", "hi"),
        (
            TextMessage(number=ANA, text="hi @1", reply_to=THEIRS, mentions=("5511988881111",)),
            "extendedTextMessage",
            {
                "text": "hi @1",
                "contextInfo": {"stanzaId": "3EB0B2", "mentionedJid": ["5511988881111@s.whatsapp.net"]},
            },
        ),
        (
            MediaMessage(number=ANA, kind=MediaKind.IMAGE, url="https://x.example/a.png", caption="a"),
            "imageMessage",
            {"url": "https://x.example/a.png", "caption": "a"},
        ),
        (
            MediaMessage(
                number=ANA, kind=MediaKind.AUDIO, content=b"abc", mimetype="audio/ogg", is_voice=True
            ),
            "audioMessage",
            {"mimetype": "audio/ogg", "fileLength": "3", "ptt": True},
        ),
        (
            MediaMessage(number=ANA, kind=MediaKind.DOCUMENT, content=b"abc", file_name="a.pdf"),
            "documentMessage",
            {"fileName": "a.pdf", "fileLength": "3"},
        ),
        (
            LocationMessage(number=ANA, latitude=1.5, longitude=-2, name="Home", reply_to=OWN),
            "locationMessage",
            {
                "degreesLatitude": 1.5,
                "degreesLongitude": -2,
                "name": "Home",
                "address": "",
                "contextInfo": {"stanzaId": "3EB0A1"},
            },
        ),
        (
            ContactMessage(number=ANA, contacts=(CARD,)),
            "contactMessage",
            {"displayName": "Ben", "vcard": BEN},
        ),
        (
            ContactMessage(number=ANA, contacts=(CARD, CARD)),
            "contactsArrayMessage",
            {"contacts": [{"displayName": "Ben", "vcard": BEN}] * 2},
        ),
        (
            ReactionMessage(number=ANA, key=THEIRS, reaction="👍"),
            "reactionMessage",
            {"key": {"remoteJid": ANA_JID, "fromMe": False, "id": "3EB0B2"}, "text": "👍"},
        ),
        (
            TemplateMessage(number=ANA, name="hello", language="pt_BR", components=({"type": "body"},)),
            "templateMessage",
            {"name": "hello", "language": "pt_BR", "components": [{"type": "body"}]},
        ),
    ],
)
async def test_every_type_of_message(
    simulator: ContainedConnector, catalog: Catalog, message: Message, name: str, content: Any
) -> None:
    session = instance(rate=0)
    async with connected(simulator, session):
        sent = await simulator.send(session, message, key="k")
        statuses = await session.wait_for("MESSAGES_UPDATE", 3)
    assert sent["message"] == {name: content}
    assert sent["messageType"] == name
    jsonschema_rs.validator_for(catalog.resolve("SEND_MESSAGE", "event").schema).validate(sent)
    assert [status["status"] for status in statuses] == ["SERVER_ACK", "DELIVERY_ACK", "READ"]


async def test_a_repeated_key_sends_nothing(simulator: ContainedConnector) -> None:
    session, hello = instance(rate=0, slow_send="20s"), TextMessage(number=ANA, text="hi")
    async with connected(simulator, session):
        with trio.move_on_after(5) as given_up:
            await simulator.send(session, hello, key="k")
        assert given_up.cancelled_caught
        first = await simulator.send(session, hello, key="k")
        assert await simulator.send(session, hello, key="k") == first
        other = await simulator.send(session, hello, key="l")
        assert other["key"]["id"] != first["key"]["id"]
        await trio.sleep(10)
    async with connected(simulator, session):
        # After a restart, the network still knows the message.
        again = await simulator.send(session, hello, key="k")
        await trio.sleep(10)
    assert again["key"] == first["key"]
    assert len(session.data_of("MESSAGES_UPDATE")) == 6


async def test_messages_are_forgotten_one_by_one(simulator: ContainedConnector, module_of: Any) -> None:
    module = module_of("simulator").connection
    async with trio.open_nursery() as nursery:
        connection = module.Connection("a", module.Options(), InstanceSettings(), None, nursery)
        for number in range(10_001):
            connection.remember({"key": {"id": str(number)}})
    assert [connection.sent.get(id_) is None for id_ in ("0", "1", "10000")] == [True, False, False]


async def test_the_gateway_raises_the_events_of_mark_read(simulator: ContainedConnector) -> None:
    session = instance(rate=0)
    async with connected(simulator, session):
        await simulator.mark_read(session, [THEIRS])
    assert session.data_of("MESSAGES_UPDATE") == []


async def test_presences_without_the_plugin_that_adds_their_kind(simulator: ContainedConnector) -> None:
    class Strict(FakeSession):
        async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
            raise Invalid(f"There is no kind {kind}.")

    session = Strict(options={"rate": 0, "qr_code": False})
    session.set_state = FakeSession("other").set_state  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(simulator.run, session)
        await trio.sleep(2)
        await simulator.set_presence(session, "composing", number=ANA, delay=1)
        await trio.sleep(2)
        nursery.cancel_scope.cancel()


async def test_a_presence_ends_after_its_delay(simulator: ContainedConnector) -> None:
    session = instance(rate=0, connect_delay=0)
    async with connected(simulator, session):
        account = session.states[-1][2]["wuid"]
        await simulator.set_presence(session, "composing", number=ANA, delay=2)
        await trio.sleep(3)
        await simulator.set_presence(session, "available", number=None, delay=0)
        await session.wait_for("PRESENCE_UPDATE", 3)
    assert session.data_of("PRESENCE_UPDATE") == [
        {"id": ANA_JID, "presences": {account: {"lastKnownPresence": "composing"}}},
        {"id": ANA_JID, "presences": {account: {"lastKnownPresence": "paused"}}},
        {"id": account, "presences": {account: {"lastKnownPresence": "available"}}},
    ]
    assert times_of(session, "PRESENCE_UPDATE") == [0, 2, 3]


async def test_own_messages_can_be_edited_and_deleted(simulator: ContainedConnector) -> None:
    session = instance(rate=0)
    async with connected(simulator, session):
        edited = await simulator.edit(session, OWN, "new", number=ANA)
        deleted = await simulator.delete(session, OWN)
        for call in (simulator.edit(session, THEIRS, "new", number=ANA), simulator.delete(session, THEIRS)):
            with pytest.raises(NetworkRefused, match="Only messages of the account itself") as caught:
                await call
            assert (caught.value.code, caught.value.status) == ("NOT_OWN", 403)
    key = {"remoteJid": ANA_JID, "fromMe": True, "id": "3EB0A1"}
    assert (edited["key"], edited["message"]) == (key, {"conversation": "new"})
    assert deleted == {**key, "status": "DELETED"}


async def test_find_numbers(simulator: ContainedConnector) -> None:
    session = instance(rate=0)
    async with connected(simulator, session):
        assert await simulator.find_numbers(session, [ANA, "nobody"]) == [
            {"number": ANA, "exists": True, "jid": ANA_JID},
            {"number": "nobody", "exists": False, "jid": ""},
        ]


async def test_pictures_and_groups(simulator: ContainedConnector) -> None:
    session = instance(rate=0, chats=11)
    async with connected(simulator, session):
        picture = await simulator.find_picture(session, ANA)
        assert picture["wuid"] == ANA_JID
        assert picture["profilePictureUrl"]
        groups = await simulator.list_groups(session, with_participants=True)
        assert [group["id"] for group in groups] == ["120363040000000004@g.us", "120363040000000009@g.us"]
        assert all(len(group["participants"]) == group["size"] for group in groups)
        first, _ = await simulator.list_groups(session, with_participants=False)
        assert groups[0] == first | {"participants": groups[0]["participants"]}
        assert await simulator.find_group(session, groups[1]["id"]) == groups[1]
        with pytest.raises(NotFound):
            await simulator.find_group(session, "120363040000000005@g.us")


async def test_settings_apply_at_once(simulator: ContainedConnector) -> None:
    session = instance(rate=10, seed=1)
    async with connected(simulator, session):
        await trio.sleep(10)
        assert any("participant" in data["key"] for data in session.data_of("MESSAGES_UPSERT"))
        assert session.data_of("MESSAGES_UPDATE") == []
        await simulator.settings(session, InstanceSettings(groups_ignore=True, read_messages=True))
        before = len(session.data_of("MESSAGES_UPSERT"))
        await trio.sleep(10)
    later = session.data_of("MESSAGES_UPSERT")[before:]
    assert later
    assert not any("participant" in data["key"] for data in later)
    read = session.data_of("MESSAGES_UPDATE")
    assert [(data["keyId"], data["status"]) for data in read] == [
        (data["key"]["id"], "READ") for data in later
    ]


async def test_a_new_run_finds_the_settings_in_its_session(simulator: ContainedConnector) -> None:
    session = instance(rate=10, chats=5)
    await simulator.settings(session, InstanceSettings(groups_ignore=True))  # not connected: nothing to do
    session.settings = InstanceSettings(groups_ignore=True)
    await run_for(simulator, session, 11)
    assert not any("participant" in data["key"] for data in session.data_of("MESSAGES_UPSERT"))
    # Ignored messages count, so that the next run continues after them.
    assert session.stored["received"] > len(session.data_of("MESSAGES_UPSERT"))


async def test_a_restart_needs_no_new_code(simulator: ContainedConnector) -> None:
    session = instance(rate=0)
    for codes in (1, 1, 2):
        if len(session.states) == 2:
            await simulator.restart(session)
        async with connected(simulator, session):
            assert len(session.qr_codes) == codes


@pytest.mark.parametrize(
    "method", ["mark_read", "set_presence", "edit", "delete", "find_numbers", "list_groups"]
)
async def test_calls_while_not_connected(simulator: ContainedConnector, method: str) -> None:
    session = instance(rate=0)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "mark_read": lambda: simulator.mark_read(session, [THEIRS]),
        "set_presence": lambda: simulator.set_presence(session, "available", number=None, delay=0),
        "edit": lambda: simulator.edit(session, OWN, "new", number=ANA),
        "delete": lambda: simulator.delete(session, OWN),
        "find_numbers": lambda: simulator.find_numbers(session, [ANA]),
        "list_groups": lambda: simulator.list_groups(session, with_participants=True),
    }
    with pytest.raises(NetworkRefused, match="not connected") as caught:
        await calls[method]()
    assert caught.value.code == "NOT_CONNECTED"
