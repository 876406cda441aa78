"""Messages that an instance sends: their files, and how events show them."""

import httpx
import pytest

from hookgw import (
    Contact,
    ContactMessage,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    Message,
    MessageKey,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from hookgw.connectors import (
    FileToSend,
    check_mimetype,
    file_to_send,
    is_mimetype,
    message_data,
    sent_content,
    text_data,
    vcard_of,
    vcard_text,
)
from hookgw.testing import FakeSession

ANN = Contact(full_name="Ann;\nB", phone_number="+1 555", email="a@b", url="", organization="C")
KEY = {"remoteJid": "room", "fromMe": True, "id": "1"}


async def test_a_file_of_the_message_is_not_fetched() -> None:
    message = MediaMessage(number="1", kind=MediaKind.IMAGE, content=b"x", file_name="a.png")
    found = await file_to_send(message, FakeSession(), network="Chat", limit=1)
    assert (found.content, found.mimetype, found.name) == (b"x", "image/png", "a.png")
    with pytest.raises(Invalid, match=r"^media: Chat takes files of at most 0 bytes\.$"):
        await file_to_send(message, FakeSession(), network="Chat", limit=0)


async def test_a_type_that_says_nothing_is_none() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"x", headers={"content-type": "application/octet-stream"})

    message = MediaMessage(number="1", kind=MediaKind.IMAGE, url="https://files.example/a.png")
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        found = await file_to_send(message, FakeSession(http=http), network="Chat", limit=1)
    assert found.mimetype == "image/png"


@pytest.mark.parametrize(
    ("kind", "content", "mimetype", "name"),
    [
        (MediaKind.AUDIO, b"OggS", "audio/ogg", "audio.oga"),
        (MediaKind.AUDIO, b"\0\0\0\x18ftypM4A ", "audio/mp4", "audio.m4a"),
        (MediaKind.AUDIO, b"?", "audio/mpeg", "audio.mp3"),
        (MediaKind.VIDEO, b"\0\0\0\x18ftypisom", "video/mp4", "video.mp4"),
        (MediaKind.STICKER, b"RIFF....WEBP", "image/webp", "sticker.webp"),
        (MediaKind.DOCUMENT, b"%PDF-1.7", "application/pdf", "document.pdf"),
    ],
)
async def test_a_file_without_type_and_name_gets_both(
    kind: MediaKind, content: bytes, mimetype: str, name: str
) -> None:
    message = MediaMessage(number="1", kind=kind, content=content)
    found = await file_to_send(message, FakeSession(), network="Chat", limit=100)
    assert (found.mimetype, found.name) == (mimetype, name)


@pytest.mark.parametrize(("file_name", "name"), [("", "b c.png"), ("own.png", "own.png")])
async def test_a_file_at_a_url_is_fetched_by_hookgw(file_name: str, name: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"xyz", headers={"content-type": "image/png"})

    url = "https://files.example/a/b%20c.png?token=1"
    message = MediaMessage(number="1", kind=MediaKind.IMAGE, url=url, file_name=file_name)
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        session = FakeSession(http=http)
        found = await file_to_send(message, session, network="Chat", limit=3)
        assert (found.content, found.mimetype, found.name) == (b"xyz", "image/png", name)
        with pytest.raises(Invalid):
            await file_to_send(message, session, network="Chat", limit=2)


def test_media_types() -> None:
    assert check_mimetype("image/png") == "image/png"
    assert check_mimetype("audio/ogg; codecs=opus") == "audio/ogg; codecs=opus"
    assert not is_mimetype("audio/ogg; codecs=opus")
    for wrong in ("", "png", "a/b\r\nx: y", "a/b/c", "ä/b"):
        assert not is_mimetype(wrong)
        with pytest.raises(Invalid, match=r"image/png\.$"):
            check_mimetype(wrong)


def test_a_name_adds_no_line_to_a_card() -> None:
    begin, end = "BEGIN:VCARD\nVERSION:3.0\n", "\nEND:VCARD"
    assert vcard_of(ANN) == f"{begin}FN:Ann; B\nORG:C\nTEL:+1 555\nEMAIL:a@b{end}"
    card = vcard_of(ANN, written=vcard_text, telephone="TEL;waid=1555")
    assert card == f"{begin}FN:Ann\\;\\nB\nORG:C\nTEL;waid=1555:+1 555\nEMAIL:a@b{end}"
    assert vcard_of(Contact(full_name="")) == f"{begin}FN:{end}"
    assert vcard_text("a\\b,c\r\nd\re") == "a\\\\b\\,c\\nd\\ne"


@pytest.mark.parametrize(
    ("message", "name", "content"),
    [
        (TextMessage(number="1", text="hi"), "conversation", "hi"),
        (
            MediaMessage(number="1", kind=MediaKind.AUDIO, content=b"x", is_voice=True),
            "audioMessage",
            {"mimetype": "audio/ogg", "fileName": "a.oga", "fileLength": "3", "ptt": True},
        ),
        (
            LocationMessage(number="1", latitude=1.0, longitude=2.0, name="Here"),
            "locationMessage",
            {"degreesLatitude": 1.0, "degreesLongitude": 2.0, "name": "Here", "address": ""},
        ),
        (
            ContactMessage(number="1", contacts=(ANN,)),
            "contactMessage",
            {"displayName": ANN.full_name, "vcard": vcard_of(ANN)},
        ),
        (
            ReactionMessage(number="1", key=MessageKey(remote_jid="x", from_me=False, id="2"), reaction="👍"),
            "reactionMessage",
            {"key": {"remoteJid": "room", "fromMe": False, "id": "2"}, "text": "👍"},
        ),
        (
            TemplateMessage(number="1", name="order", language="en", components=({"type": "body"},)),
            "templateMessage",
            {"name": "order", "language": "en", "components": [{"type": "body"}]},
        ),
    ],
)
def test_what_was_sent_is_shown_as_receivers_know_it(message: Message, name: str, content: object) -> None:
    file = FileToSend(content=b"abc", mimetype="audio/ogg", name="a.oga")
    assert sent_content(message, "room", file=file) == (name, {name: content})


def test_several_cards_are_one_content() -> None:
    name, content = sent_content(ContactMessage(number="1", contacts=(ANN, ANN)), "room", vcard=str)
    assert name == "contactsArrayMessage"
    assert content[name] == {"contacts": [{"displayName": ANN.full_name, "vcard": str(ANN)}] * 2}


def test_the_data_of_a_sent_message_and_of_a_text() -> None:
    text = text_data(KEY, "hi", 7.9)
    assert text == {
        "key": KEY,
        "message": {"conversation": "hi"},
        "messageType": "conversation",
        "messageTimestamp": 7,
    }
    sent = message_data(KEY, ("conversation", text["message"]), 7.9, status="PENDING", source="web")
    assert sent == {**text, "status": "PENDING", "source": "web"}
    named = message_data(KEY, ("stub", {}), 7, push_name="Ann", context={"stanzaId": "2"})
    assert named["pushName"] == "Ann"
    assert named["contextInfo"] == {"stanzaId": "2"}
    assert list(named) == [
        *("key", "pushName", "message", "messageType", "contextInfo", "messageTimestamp"),
    ]
