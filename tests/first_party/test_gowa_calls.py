"""The GOWA connector's calls: messages, files, edits, presences, and calls while nobody is logged in."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from hookgw import (
    ConnectionState,
    Contact,
    ContactMessage,
    FetchedFile,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    Message,
    MessageKey,
    NetworkRefused,
    NotFound,
    NotSupported,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from hookgw.testing import FakeMediaSink
from tests.first_party.gowa import ANA, BOB, GROUP, Setup, setup
from tests.first_party.runs import check
from tests.networks.gowa.server import Fault

KEY = MessageKey(remote_jid=ANA, id="A")

# httpx leaves generators behind when the rest of a body is not read.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*async_generator object:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
async def it(autojump_clock: MockClock) -> AsyncIterator[Setup]:
    async with setup() as made, made.connected():
        yield made


async def sent(it: Setup, message: Message) -> tuple[str, Any, dict[str, Any]]:
    """Send a message, and return the call of GOWA, its body or form, and the payload."""
    payload = await it.connector.send(it.session, message, key="k")
    check("SEND_MESSAGE", payload)
    method, path, body = it.gowa.calls[-1]
    assert payload["key"]["fromMe"] is True
    assert payload["key"]["id"] in it.gowa.messages
    return f"{method} {path}", body, payload


async def test_a_message_without_an_id_is_no_sent_message(it: Setup) -> None:
    """No status could be matched with it."""
    it.gowa.faults.append(Fault(status=200, body=b'{"code": "SUCCESS", "results": {}}', path="send/message"))
    with pytest.raises(NetworkRefused, match=r"^GOWA did not say which message it has sent\.$"):
        await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")


async def test_texts(it: Setup) -> None:
    message = TextMessage(number="+55 11 98888-7777", text="hi", mentions=("5511977776666",), reply_to=KEY)
    call, body, payload = await sent(it, message)
    assert call == "POST /send/message"
    assert body == {"phone": ANA, "message": "hi", "mentions": [BOB], "reply_message_id": "A"}
    assert payload["message"] == {"conversation": "hi"}
    assert payload["key"]["remoteJid"] == ANA
    assert payload["contextInfo"] == {"stanzaId": "A", "mentionedJid": [BOB]}
    assert payload["status"] == "SERVER_ACK"


@pytest.mark.parametrize(
    ("kind", "field", "mimetype", "more"),
    [
        (MediaKind.IMAGE, "image", "image/jpeg", {}),
        (MediaKind.VIDEO, "video", "video/mp4", {}),
        (MediaKind.AUDIO, "audio", "audio/mpeg", {"is_voice": True}),
        (MediaKind.DOCUMENT, "file", "application/octet-stream", {}),
        (MediaKind.STICKER, "sticker", "image/webp", {}),
    ],
)
async def test_files_are_parts_of_a_form(
    it: Setup, kind: MediaKind, field: str, mimetype: str, more: dict[str, Any]
) -> None:
    message = MediaMessage(
        number=GROUP, kind=kind, content=b"\xff a file", caption="look", reply_to=KEY, **more
    )
    call, form, payload = await sent(it, message)
    assert call == f"POST /send/{field}"
    name, type_, content = form.pop(field)
    assert (type_, content) == (mimetype, b"\xff a file")
    assert name.startswith(kind.value)
    assert form.pop("ptt", "") == ("true" if more else "")
    assert form == {"phone": GROUP, "caption": "look", "reply_message_id": "A"}
    file = payload["message"][f"{kind.value}Message"]
    assert (file["mimetype"], file["fileLength"], file["caption"]) == (mimetype, "8", "look")


async def test_hookgw_itself_fetches_urls(it: Setup) -> None:
    fetched = []

    async def fetch(url: str, *, limit: int) -> FetchedFile:
        fetched.append(url)
        return FetchedFile(b"%PDF", mimetype="application/pdf")

    it.session.fetch = fetch  # type: ignore[method-assign]
    url = "https://shop.example/menu.pdf"
    _, form, _ = await sent(it, MediaMessage(number=ANA, kind=MediaKind.DOCUMENT, url=url))
    assert form["file"] == ("menu.pdf", "application/pdf", b"%PDF")
    assert fetched == [url]
    assert url not in str(form)


async def test_places_contacts_and_reactions(it: Setup) -> None:
    place = LocationMessage(number=ANA, latitude=-23.5, longitude=-46.6, name="Sé")
    assert (await sent(it, place))[:2] == (
        "POST /send/location",
        {"phone": ANA, "latitude": "-23.5", "longitude": "-46.6"},
    )
    bob = Contact(full_name="Bob", phone_number="+55 11 97777-6666")
    call, body, payload = await sent(it, ContactMessage(number=ANA, contacts=(bob,)))
    assert call == "POST /send/contact"
    assert body == {"phone": ANA, "contact_name": "Bob", "contact_phone": "5511977776666"}
    assert payload["messageType"] == "contactMessage"
    call, body, payload = await sent(it, ReactionMessage(number=ANA, key=KEY, reaction="👍"))
    assert (call, body) == ("POST /message/A/reaction", {"phone": ANA, "emoji": "👍"})
    assert payload["message"]["reactionMessage"]["key"] == {"remoteJid": ANA, "fromMe": False, "id": "A"}
    for message in (
        ContactMessage(number=ANA, contacts=(bob, bob)),
        TemplateMessage(number=ANA, name="t", language="pt"),
    ):
        with pytest.raises(NotSupported):
            await it.connector.send(it.session, message, key="k")


async def test_edits_and_deletions(it: Setup) -> None:
    edited = await it.connector.edit(it.session, KEY, "new", number="")
    assert it.gowa.calls[-1] == ("POST", "/message/A/update", {"phone": ANA, "message": "new"})
    check("MESSAGES_EDITED", edited)
    deleted = await it.connector.delete(it.session, MessageKey(remote_jid=ANA, id="A", from_me=True))
    assert it.gowa.calls[-1] == ("POST", "/message/A/revoke", {"phone": ANA})
    check("MESSAGES_DELETE", deleted)
    # GOWA reports the deletion, too: it is one event.
    await it.session.emit("MESSAGES_DELETE", deleted, event_id=None)
    with pytest.raises(Invalid):
        await it.connector.edit(it.session, KEY, "", number="")


async def test_read_marks_and_presences(it: Setup) -> None:
    await it.connector.mark_read(it.session, [KEY, MessageKey(remote_jid=GROUP, id="B")])
    assert [call[1:] for call in it.gowa.calls[-2:]] == [
        ("/message/A/read", {"phone": ANA}),
        ("/message/B/read", {"phone": GROUP}),
    ]
    await it.connector.set_presence(it.session, "available", number=None, delay=0)
    assert it.gowa.calls[-1][1:] == ("/send/presence", {"type": "available"})
    await it.connector.set_presence(it.session, "composing", number=ANA, delay=2)
    assert it.gowa.calls[-1][1:] == ("/send/chat-presence", {"phone": ANA, "action": "start"})
    await trio.sleep(3)
    assert it.gowa.calls[-1][1:] == ("/send/chat-presence", {"phone": ANA, "action": "stop"})
    before = len(it.gowa.calls)
    await it.connector.set_presence(it.session, "paused", number=ANA, delay=2)
    await trio.sleep(3)
    [paused] = it.gowa.calls[before:]
    assert paused[1:] == ("/send/chat-presence", {"phone": ANA, "action": "stop"})
    with pytest.raises(Invalid):
        await it.connector.set_presence(it.session, "composing", number=None, delay=0)


async def test_numbers_are_looked_up(it: Setup) -> None:
    it.gowa.on_whatsapp = {"5511988887777"}
    found = await it.connector.find_numbers(it.session, ["+55 11 98888-7777", BOB, GROUP, "0123"])
    assert [(one["jid"], one["exists"]) for one in found] == [
        (ANA, True),
        (BOB, False),
        (GROUP, False),
        ("0123", False),
    ]


async def test_received_files_are_fetched_by_the_message(it: Setup) -> None:
    await it.events_of("message", {"id": "A", "chat_id": ANA, "from": ANA, "image": "statics/media/1.jpeg"})
    [data] = it.session.data_of("MESSAGES_UPSERT")
    reference, mimetype, _ = it.session.media[data["message"]["imageMessage"]["url"]]
    assert mimetype == "image/jpeg"
    it.gowa.media[ANA, "A"] = "media/5511/2026-11-20/a b.jpeg"
    it.gowa.files["media/5511/2026-11-20/a b.jpeg"] = b"a picture"
    sink = FakeMediaSink()
    await it.connector.open_media(it.session, reference, sink)
    assert (sink.content, sink.mimetype) == (b"a picture", "image/jpeg")
    del it.gowa.media[ANA, "A"]
    for gone in (reference, "nonsense"):
        with pytest.raises(NotFound):
            await it.connector.open_media(it.session, gone, FakeMediaSink())


@pytest.mark.parametrize(
    "path", ["statics/../../etc/passwd", "https://evil.example/x", "http://[x/statics/a", "/etc/passwd", ""]
)
async def test_a_path_cannot_lead_elsewhere(it: Setup, path: str) -> None:
    answer = b'{"code": "SUCCESS", "results": {"file_path": "%s"}}' % path.encode()
    it.gowa.faults.append(Fault("/download", 200, answer))
    before = len(it.gowa.calls)
    with pytest.raises(NetworkRefused):
        await it.connector.open_media(it.session, f"{ANA} A", FakeMediaSink())
    assert [call[1] for call in it.gowa.calls[before:]] == ["/message/A/download", "/statics/"]


async def test_a_file_goes_into_its_event_for_those_who_want_it(autojump_clock: MockClock) -> None:
    async with setup(wants_base64=True) as it, it.connected():
        it.gowa.media[ANA, "A"], it.gowa.files["a.jpeg"] = "a.jpeg", b"a picture"
        for id_ in ("A", "B"):
            payload = {"id": id_, "chat_id": ANA, "from": ANA, "image": "statics/media/1.jpeg"}
            await it.events_of("message", payload)
        with_file, without = it.session.data_of("MESSAGES_UPSERT")
        assert base64.b64decode(with_file["message"]["base64"]) == b"a picture"
        assert "base64" not in without["message"]


@pytest.mark.parametrize(
    ("status", "body", "shown"),
    [
        (400, b'{"code": "INVALID_JID", "message": "Phone 55 is not on whatsapp"}', 400),
        (429, b'{"code": "WA_REACHOUT_TIMELOCK", "message": "timelock"}', 429),
        (500, b'{"code": "INTERNAL_SERVER_ERROR", "message": "no"}', 502),
        (504, b'{"code": "GATEWAY_TIMEOUT", "message": "late"}', 502),
        (404, b"Cannot POST", 502),
        (401, b"Unauthorized", 409),
        (401, b'{"code": "AUTHENTICATION_ERROR", "message": "you are not logged in"}', 409),
    ],
)
async def test_refusals_have_gowas_words_and_a_status_that_callers_understand(
    it: Setup, status: int, body: bytes, shown: int
) -> None:
    it.gowa.faults.append(Fault("/send/message", status, body))
    with pytest.raises(NetworkRefused) as refused:
        await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")
    assert refused.value.status == shown


async def test_a_number_that_is_not_on_whatsapp_is_told_as_evolution_api_does(it: Setup) -> None:
    body = f'{{"code": "INVALID_JID", "message": "Phone {ANA} is not on whatsapp"}}'
    it.gowa.faults.append(Fault("/send/message", 400, body.encode()))
    with pytest.raises(NetworkRefused) as refused:
        await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")
    assert refused.value.unknown_numbers == {ANA.partition("@")[0]: ANA}


async def test_a_call_that_finds_the_account_logged_out_is_409_and_the_state_follows(it: Setup) -> None:
    it.gowa.log_out("shop")
    with pytest.raises(NetworkRefused, match="not logged in on the GOWA server") as refused:
        await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")
    assert refused.value.status == 409
    with trio.fail_after(1):  # a look follows at once, not after half a minute
        await it.session.wait_until(ConnectionState.CLOSE)
    assert it.session.states[-1][1] == 401
