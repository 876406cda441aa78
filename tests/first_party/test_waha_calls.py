"""The WAHA connector's calls: messages, files, edits, presences; and what the server reports of them."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

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
    NotSupported,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
    event_id_of,
)
from hookgw.testing import FakeMediaSink, FakeSession
from plugins.waha import connector as module
from plugins.waha.connector import FILE_TIME
from tests.first_party.runs import check
from tests.first_party.waha import ANA, ANA_JID, BASE_URL, GROUP, OPTIONS, Setup, setup
from tests.networks.waha.server import Fault, Session
from tests.public.records import BUILT_IN_KINDS, Catalog

BOB, BOB_JID = "5511977776666@c.us", "5511977776666@s.whatsapp.net"

# httpx leaves generators behind when the rest of a body is not read.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*async_generator object:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
async def it() -> AsyncIterator[Setup]:
    async with setup() as made:
        made.waha.sessions["default"] = Session("default", "WORKING", is_paired=True)
        yield made


async def sent(it: Setup, message: Message, *, key: str = "k") -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Send a message, and return the call of WAHA, its body, and the payload."""
    payload = await it.connector.send(it.session, message, key=key)
    check("SEND_MESSAGE", payload)
    method, path, body = next(call for call in reversed(it.waha.calls) if call[0] in ("POST", "PUT"))
    return f"{method} {path}", body, payload


async def test_the_operator_can_keep_waha_from_fetching_pages(it: Setup) -> None:
    async with it.connected():
        text = TextMessage(number=ANA_JID, text="http://10.0.0.5:3000/")
        _, body, _ = await sent(it, text)
        assert body["linkPreview"] is True
        it.connector.set_defaults({"link_previews": False})
        _, body, _ = await sent(it, text)
        assert body["linkPreview"] is False


async def test_texts(it: Setup) -> None:
    async with it.connected():
        answered = MessageKey(remote_jid=ANA_JID, id="A")
        message = TextMessage(
            number=ANA_JID,
            text="hi @5511977776666",
            mentions=(BOB_JID,),
            reply_to=answered,
            link_preview=False,
        )
        call, body, payload = await sent(it, message)
        assert call == "POST /api/sendText"
        assert body == {
            "session": "default",
            "chatId": ANA,
            "text": "hi @5511977776666",
            "linkPreview": False,
            "mentions": [BOB],
            "reply_to": f"false_{ANA}_A",
            "id": payload["key"]["id"],
        }
        assert payload["key"] == {"remoteJid": ANA_JID, "fromMe": True, "id": body["id"]}
        assert payload["contextInfo"] == {"stanzaId": "A", "mentionedJid": [BOB_JID]}
        # The same key is the same message, of which WhatsApp shows one.
        assert (await sent(it, message))[2]["key"] == payload["key"]
        assert len(it.waha.messages) == 1
        assert (await sent(it, message, key="other"))[2]["key"] != payload["key"]
        await it.waha.all_delivered()
    # WAHA reports its messages: as the same events that the gateway raises.
    reported = [event for event in it.session.events if event.kind == "SEND_MESSAGE"]
    assert reported[0].event_id == event_id_of("SEND_MESSAGE", ANA_JID, payload["key"]["id"])
    assert len(reported) == 2
    it.check_events()


async def test_everybody_in_a_group_is_mentioned(it: Setup) -> None:
    async with it.connected():
        _, body, _ = await sent(it, TextMessage(number=GROUP, text="hi", mentions_everyone=True))
        assert body["mentions"] == ["all"]
        _, body, _ = await sent(it, TextMessage(number=ANA_JID, text="hi", mentions_everyone=True))
        assert "mentions" not in body


async def test_a_voice_message_that_is_not_to_be_converted(it: Setup) -> None:
    async with it.connected():
        for may_convert in (True, False):
            message = MediaMessage(
                number=ANA_JID,
                kind=MediaKind.AUDIO,
                content=b"x",
                mimetype="audio/mpeg",
                is_voice=True,
                may_convert=may_convert,
            )
            assert (await sent(it, message))[1]["convert"] is may_convert


async def test_an_engine_with_ids_of_its_own() -> None:
    async with setup(engine="WEBJS") as it:
        it.waha.sessions["default"] = Session("default", "WORKING", is_paired=True)
        async with it.connected():
            _, body, payload = await sent(it, TextMessage(number="+55 21 8888-7777", text="hi"))
            assert "id" not in body
            assert f"true_552188887777@c.us_{payload['key']['id']}" in it.waha.messages
            # In groups, these engines find the account's own message only with the author in its id.
            own = MessageKey(remote_jid=GROUP, id="A", from_me=True)
            await it.connector.edit(it.session, own, "new", number=GROUP)
            target = f"true_{GROUP}_A_{it.waha.me}"
            assert it.waha.calls[-1][:2] == ("PUT", f"/api/default/chats/{GROUP}/messages/{target}")


@pytest.mark.parametrize("comes_first", ["report", "answer"])
async def test_a_chat_with_two_names_is_one_event(comes_first: str) -> None:
    async with setup(engine="WEBJS") as it:
        it.waha.sessions["default"] = Session("default", "WORKING", is_paired=True)
        async with it.connected():
            report = it.waha.own("123@lid", "3EB0AA", body="hi")
            answer = json.dumps({"id": f"true_{ANA}_3EB0AA"}).encode()
            it.waha.faults.append(Fault("sendText", 201, answer))
            if comes_first == "report":
                it.waha.report("default", "message.any", report)
                await it.waha.all_delivered()
            payload = await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")
            if comes_first == "answer":
                it.waha.report("default", "message.any", report)
                await it.waha.all_delivered()
            [event] = [event for event in it.session.events if event.kind == "SEND_MESSAGE"]
            # The id of the gateway's own event for the send.
            assert event.event_id == event_id_of("SEND_MESSAGE", payload["key"]["remoteJid"], "3EB0AA")
            assert event.data["key"] == payload["key"]


async def test_numbers_of_brazil_are_asked_for_once(it: Setup) -> None:
    it.waha.on_whatsapp = {"5511988887777": "551188887777@c.us", "5511900000000": None}
    async with it.connected():
        for _ in range(2):
            _, body, payload = await sent(it, TextMessage(number="+55 11 98888-7777", text="hi"))
            assert body["chatId"] == "551188887777@c.us"
            assert payload["key"]["remoteJid"] == "551188887777@s.whatsapp.net"
        assert [path for _, path, _ in it.waha.calls].count("/api/contacts/check-exists") == 1
        with pytest.raises(NetworkRefused, match="Nobody on WhatsApp has the number") as caught:
            await it.connector.send(it.session, TextMessage(number="5511900000000", text="hi"), key="k")
        assert caught.value.status == 400
        assert caught.value.unknown_numbers == {"5511900000000": "5511900000000@s.whatsapp.net"}
        await sent(it, TextMessage(number="4915112345678", text="hi"))
        assert [path for _, path, _ in it.waha.calls].count("/api/contacts/check-exists") == 2


async def test_places_and_cards(it: Setup) -> None:
    async with it.connected():
        place = LocationMessage(
            number=ANA, latitude=38.9, longitude=-77.1, name="Office", address="Main St 1"
        )
        call, body, payload = await sent(it, place)
        assert call == "POST /api/sendLocation"
        assert body["title"] == "Office, Main St 1"
        assert payload["message"]["locationMessage"]["degreesLatitude"] == 38.9
        jane = Contact(
            full_name="Jane; Doe\nX", phone_number="+91 11 2345", email="j@example.org", organization="A,B"
        )
        call, body, payload = await sent(it, ContactMessage(number=ANA, contacts=(jane,)))
        assert call == "POST /api/sendContactVcard"
        [card] = body["contacts"]
        assert card["vcard"].split("\n") == [
            "BEGIN:VCARD",
            "VERSION:3.0",
            r"FN:Jane\; Doe\nX",
            r"ORG:A\,B",
            "TEL;type=CELL;type=VOICE;waid=91112345:+91 11 2345",
            "EMAIL:j@example.org",
            "END:VCARD",
        ]
        assert payload["message"]["contactMessage"]["vcard"] == card["vcard"]
        # A number that leads to somebody else is no link to a chat.
        spoilt = Contact(full_name="Jane", phone_number="5511988887777.0")
        [card] = (await sent(it, ContactMessage(number=ANA, contacts=(spoilt,))))[1]["contacts"]
        assert "TEL;type=CELL;type=VOICE:5511988887777.0" in card["vcard"]
        two = await sent(it, ContactMessage(number=ANA, contacts=(jane, jane)))
        assert len(two[2]["message"]["contactsArrayMessage"]["contacts"]) == 2
        with pytest.raises(Invalid, match="fullName"):
            await sent(it, ContactMessage(number=ANA, contacts=(Contact(full_name=" "),)))


@pytest.mark.parametrize(
    ("kind", "mimetype", "more", "call", "convert"),
    [
        (MediaKind.IMAGE, "image/png", {"caption": "look"}, "sendImage", None),
        (MediaKind.VIDEO, "video/mp4", {}, "sendVideo", False),
        (MediaKind.VIDEO, "video/webm", {}, "sendVideo", True),
        (MediaKind.AUDIO, "audio/mpeg", {"is_voice": True}, "sendVoice", True),
        (MediaKind.AUDIO, "audio/ogg; codecs=opus", {"is_voice": True}, "sendVoice", False),
        (MediaKind.AUDIO, "audio/mpeg", {}, "sendFile", None),
        (MediaKind.DOCUMENT, "application/pdf", {"file_name": "a.pdf"}, "sendFile", None),
        (MediaKind.STICKER, "image/webp", {}, "sendSticker", None),
    ],
)
async def test_files(
    it: Setup, kind: MediaKind, mimetype: str, more: dict[str, Any], call: str, convert: Any
) -> None:
    async with it.connected():
        message = MediaMessage(number=ANA, kind=kind, content=b"content", mimetype=mimetype, **more)
        path, body, payload = await sent(it, message)
    assert path == f"POST /api/{call}"
    assert base64.b64decode(body["file"]["data"]) == b"content"
    assert body["file"]["mimetype"] == mimetype
    assert body.get("convert") is convert
    assert body.get("caption") == more.get("caption")
    file = payload["message"][f"{kind}Message"]
    assert file["mimetype"] == mimetype
    assert file["fileLength"] == "7"


async def test_a_file_without_a_type(it: Setup) -> None:
    async with it.connected():
        voice = MediaMessage(number=ANA, kind=MediaKind.AUDIO, content=b"x", is_voice=True)
        _, body, _ = await sent(it, voice)
        assert (body["file"]["mimetype"], body["file"]["filename"], body["convert"]) == (
            "audio/mpeg",
            "audio.mp3",
            True,
        )


async def test_templates_are_not_supported_and_stickers_not_by_every_server(it: Setup) -> None:
    async with it.connected():
        cannot = json.dumps({"message": "Cannot POST /api/sendSticker", "statusCode": 404}).encode()
        it.waha.faults.append(Fault("sendSticker", 404, cannot))
        sticker = MediaMessage(number=ANA, kind=MediaKind.STICKER, content=b"x", mimetype="image/webp")
        for message in (sticker, TemplateMessage(number=ANA, name="x", language="en")):
            with pytest.raises(NotSupported):
                await it.connector.send(it.session, message, key="k")


async def test_hookgw_itself_fetches_urls(it: Setup) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/old.png":
            return httpx.Response(302, headers={"location": "/a.png"})
        if request.url.path == "/loop":
            return httpx.Response(302, headers={"location": "/loop"})
        if request.url.path == "/large":
            return httpx.Response(200, content=b"x" * 200)
        if request.url.path == "/broken":
            raise httpx.ReadError("broken", request=request)
        found = request.url.path == "/a.png"
        return httpx.Response(200 if found else 404, content=b"png", headers={"content-type": "image/png"})

    def image(url: str, **more: Any) -> MediaMessage:
        return MediaMessage(number=ANA, kind=MediaKind.IMAGE, url=url, **more)

    async with it.connected(), httpx.AsyncClient(transport=Both(it, answer)) as http:
        it.session.client = http
        _, body, payload = await sent(it, image("https://files.example/old.png"))
        assert body["file"] == {
            "mimetype": "image/png",
            "filename": "old.png",
            "data": base64.b64encode(b"png").decode(),
        }
        assert payload["message"]["imageMessage"]["url"] == "https://files.example/old.png"
        for url, words in (
            ("https://files.example/none", "answered with 404"),
            ("https://files.example/loop", "redirects more than"),
            ("https://files.example/broken", "cannot be read"),
            ("https://files.example:port", "cannot be read"),
        ):
            with pytest.raises(Invalid, match=words):
                await sent(it, image(url))
        with pytest.raises(Invalid, match="mimetype"):
            await sent(it, image("https://files.example/a.png", mimetype="png"))


async def test_a_file_that_comes_too_slowly(autojump_clock: MockClock, it: Setup) -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            await trio.sleep(10)
            yield b"x"

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=drip())

    async with it.connected(), httpx.AsyncClient(transport=Both(it, answer)) as http:
        it.session.client = http
        slow = MediaMessage(number=ANA, kind=MediaKind.IMAGE, url="https://files.example/slow")
        with pytest.raises(Invalid, match="was not read within"):
            await it.connector.send(it.session, slow, key="k")


async def test_files_that_are_too_large(it: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_FILE", 100)

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"x" * 200)

    async with it.connected(), httpx.AsyncClient(transport=Both(it, answer)) as http:
        it.session.client = http
        for file, words in (
            ({"url": "https://files.example/large"}, "more than 100B"),
            ({"content": b"x" * 200}, "at most"),
        ):
            with pytest.raises(Invalid, match=words):
                await sent(it, MediaMessage(number=ANA, kind=MediaKind.IMAGE, **file))


class Both(httpx.AsyncBaseTransport):
    """Answers requests to the WAHA server by the stand-in, and others by a function."""

    def __init__(self, it: Setup, answer: Any) -> None:
        self._waha = httpx.ASGITransport(it.waha.app)  # type: ignore[arg-type]
        self._others = httpx.MockTransport(answer)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        is_waha = request.url.host == "waha.example"
        return await (self._waha if is_waha else self._others).handle_async_request(request)


async def test_reactions_edits_and_deletions_are_one_event_each(it: Setup) -> None:
    theirs = MessageKey(remote_jid=GROUP, id="A", participant=BOB_JID)
    own = MessageKey(remote_jid=ANA_JID, id="B", from_me=True)
    async with it.connected():
        call, body, payload = await sent(it, ReactionMessage(number=GROUP, key=theirs, reaction="👍"))
        assert call == "PUT /api/reaction"
        assert body == {"messageId": f"false_{GROUP}_A_{BOB}", "reaction": "👍", "session": "default"}
        assert payload["message"]["reactionMessage"]["key"]["id"] == "A"

        edited = await it.connector.edit(it.session, own, "new", number=ANA_JID)
        check("MESSAGES_EDITED", edited)
        assert edited["key"] == {"remoteJid": ANA_JID, "fromMe": True, "id": "B"}
        assert it.waha.calls[-1][1:] == (f"/api/default/chats/{ANA}/messages/true_{ANA}_B", {"text": "new"})

        deleted = await it.connector.delete(it.session, theirs)
        check("MESSAGES_DELETE", deleted)
        assert deleted["participant"] == BOB_JID
        assert it.waha.calls[-1][:2] == (
            "DELETE",
            f"/api/default/chats/{GROUP}/messages/false_{GROUP}_A_{BOB}",
        )
        await it.waha.all_delivered()
        # The gateway raises the events of these calls. WAHA's own reports are left out, or have the same id.
        [event] = [e for e in it.session.events if e.kind.startswith(("MESSAGES_", "SEND_"))]
        assert (event.kind, event.event_id) == ("MESSAGES_DELETE", event_id_of("MESSAGES_DELETE", GROUP, "A"))
        with pytest.raises(Invalid, match="text"):
            await it.connector.edit(it.session, own, "", number=ANA)


async def test_what_waha_refused_is_news_when_somebody_does_it_on_the_phone(it: Setup) -> None:
    theirs = MessageKey(remote_jid=ANA_JID, id="A")
    own = MessageKey(remote_jid=ANA_JID, id="B", from_me=True)
    async with it.connected():
        it.waha.faults += [Fault(path="PUT /api/", status=500, times=2)]
        with pytest.raises(NetworkRefused):
            await it.connector.send(
                it.session, ReactionMessage(number=ANA, key=theirs, reaction="👍"), key="k"
            )
        with pytest.raises(NetworkRefused):
            await it.connector.edit(it.session, own, "new", number=ANA_JID)
        about = {"from": it.waha.me, "to": ANA, "fromMe": True, "timestamp": 1}
        reaction = {"text": "👍", "messageId": f"false_{ANA}_A"}
        it.waha.report("default", "message.reaction", {**about, "id": f"true_{ANA}_C", "reaction": reaction})
        edit = {"id": f"true_{ANA}_D", "editedMessageId": "B", "body": "new"}
        it.waha.report("default", "message.edited", {**about, **edit})
        await it.waha.all_delivered()
    kinds = sorted(event.kind for event in it.session.events if event.kind.startswith("MESSAGES_"))
    assert kinds == ["MESSAGES_EDITED", "MESSAGES_UPSERT"]


async def test_reading_and_presences(autojump_clock: MockClock, it: Setup) -> None:
    async with it.connected():
        keys = [
            MessageKey(remote_jid=ANA_JID, id="A"),
            MessageKey(remote_jid=ANA_JID, id="B"),
            MessageKey(remote_jid=GROUP, id="C", participant=BOB_JID),
        ]
        await it.connector.mark_read(it.session, keys)
        direct, group = await it.waha.wait_for_call("POST", "/sendSeen", 2)
        assert direct == {
            "session": "default",
            "chatId": ANA,
            "messageIds": [f"false_{ANA}_A", f"false_{ANA}_B"],
        }
        assert group["participant"] == BOB
        assert group["messageId"] == f"false_{GROUP}_C_{BOB}"

        await it.connector.set_presence(it.session, "composing", number=ANA_JID, delay=3.0)
        await it.waha.wait_for_call("POST", "/startTyping")
        await it.waha.wait_for_call("POST", "/stopTyping")
        await it.connector.set_presence(it.session, "paused", number=ANA_JID, delay=0)
        await it.waha.wait_for_call("POST", "/stopTyping", 2)
        await it.connector.set_presence(it.session, "recording", number=ANA_JID, delay=0)
        await it.connector.set_presence(it.session, "unavailable", number=None, delay=0)
        presences = await it.waha.wait_for_call("POST", "/presence", 2)
        assert presences == [{"presence": "recording", "chatId": ANA}, {"presence": "offline"}]
        with pytest.raises(Invalid, match="say in which"):
            await it.connector.set_presence(it.session, "composing", number=None, delay=0)


async def test_numbers(it: Setup) -> None:
    it.waha.on_whatsapp = {"4915112345678": None}
    async with it.connected():
        numbers = ["+55 11 98888-7777", "4915112345678", "ana", "120363@g.us", "999@g.us", "status@broadcast"]
        found = await it.connector.find_numbers(it.session, numbers)
        assert [(item["exists"], item["jid"]) for item in found] == [
            (True, ANA_JID),
            (False, "4915112345678@s.whatsapp.net"),
            (False, "ana"),
            (True, "120363@g.us"),
            (False, "999@g.us"),
            (False, "status@broadcast"),
        ]
        it.waha.faults.append(Fault("GET /api/default/groups", 500))
        with pytest.raises(NetworkRefused):
            await it.connector.find_numbers(it.session, ["120363@g.us"])


async def test_pictures(it: Setup) -> None:
    it.waha.pictures = {ANA: "https://pps.example/a.jpg"}
    async with it.connected():
        found = await it.connector.find_picture(it.session, "+55 11 98888-7777")
        assert found == {"wuid": ANA_JID, "profilePictureUrl": "https://pps.example/a.jpg"}
        found = await it.connector.find_picture(it.session, "120363@g.us")
        assert found == {"wuid": "120363@g.us", "profilePictureUrl": None}


PEOPLE = [{"id": ANA_JID, "admin": "superadmin"}, {"id": BOB_JID, "admin": None}]
SHOWN = {
    "id": "120363@g.us",
    "subject": "Loja",
    "owner": ANA_JID,
    "desc": "News",
    "size": 2,
    "creation": 17,
    "subjectTime": 17,
    "restrict": False,
    "announce": True,
    "isCommunity": False,
    "isCommunityAnnounce": False,
}


@pytest.mark.parametrize(
    ("engine", "group"),
    [
        (
            "NOWEB",
            {
                "id": "120363@g.us",
                "subject": "Loja",
                "owner": ANA_JID,
                "desc": "News",
                "creation": 17,
                "announce": True,
                "participants": [{"id": ANA_JID, "admin": "superadmin"}, {"id": BOB_JID, "admin": None}],
            },
        ),
        (
            "WEBJS",
            {
                "id": {"server": "g.us", "user": "120363", "_serialized": "120363@g.us"},
                "name": "Loja",
                "groupMetadata": {
                    "creation": 17,
                    "announce": True,
                    "owner": {"_serialized": ANA},
                    "desc": "News",
                    "participants": [
                        {"id": {"_serialized": ANA}, "isAdmin": True, "isSuperAdmin": True},
                        {"id": {"_serialized": BOB}, "isAdmin": False, "isSuperAdmin": False},
                    ],
                },
            },
        ),
        (
            "GOWS",
            {
                "JID": "120363@g.us",
                "Name": "Loja",
                "OwnerJID": ANA_JID,
                "Topic": "News",
                "GroupCreated": "1970-01-01T00:00:17+00:00",
                "IsAnnounce": True,
                "Participants": [
                    {"JID": ANA_JID, "IsAdmin": True, "IsSuperAdmin": True},
                    {"JID": BOB_JID, "IsAdmin": False, "IsSuperAdmin": False},
                ],
            },
        ),
    ],
)
async def test_groups_of_every_engine(engine: str, group: dict[str, Any]) -> None:
    async with setup(engine=engine) as it:
        it.waha.sessions["default"] = Session("default", "WORKING", is_paired=True)
        it.waha.groups = [group]
        async with it.connected():
            assert await it.connector.list_groups(it.session, with_participants=False) == [SHOWN]
            whole = SHOWN | {"participants": PEOPLE}
            assert await it.connector.list_groups(it.session, with_participants=True) == [whole]
            assert await it.connector.find_group(it.session, "120363@g.us") == whole
            with pytest.raises(NotFound, match="knows no group"):
                await it.connector.find_group(it.session, "999@g.us")
            it.waha.faults.append(Fault("GET /api/default/groups", 200, b"[1, {}, null]"))
            assert await it.connector.list_groups(it.session, with_participants=False) == []
            it.waha.faults.append(Fault("GET /api/default/groups", 500))
            with pytest.raises(NetworkRefused):
                await it.connector.find_group(it.session, "120363@g.us")


@pytest.mark.parametrize(
    ("fault", "status", "words", "retry_after"),
    [
        (Fault("sendText", 429, b"{}", {"retry-after": "30"}), 429, "answered with 429", 30),
        (Fault("sendText", 500, b'{"exception": {"message": "boom"}}'), 502, "WAHA: boom", None),
        (Fault("sendText", 401, b"{}"), 409, "does not accept the option api_key", None),
        (Fault("sendText", 403, b'{"message": "No"}'), 409, "does not allow this .* No", None),
        (Fault("sendText", 400, b'{"message": ["a", "b", 1]}'), 400, "WAHA: a; b", None),
        (Fault("sendText", 201, b"<html>"), 502, "did not answer with JSON", None),
    ],
)
async def test_refusals_reach_the_caller(
    it: Setup, fault: Fault, status: int, words: str, retry_after: float | None
) -> None:
    async with it.connected():
        it.waha.faults.append(fault)
        with pytest.raises(NetworkRefused, match=words) as caught:
            await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")
        assert (caught.value.status, caught.value.retry_after) == (status, retry_after)
        it.waha.sessions["default"].status = "FAILED"
        with pytest.raises(NetworkRefused, match=r"not as expected.*the session is FAILED"):
            await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")


async def test_waha_does_not_repeat_the_keys_to_anybody(it: Setup) -> None:
    it.connector.set_defaults({"base_url": BASE_URL, "api_key": "waha-key"})
    del it.session.options["api_key"]
    async with it.connected():
        key = it.webhooks()[0]["hmac"]["key"]
        said = json.dumps({"message": f"no waha-key {key}"}).encode()
        it.waha.faults.append(Fault("sendText", 400, said))
        with pytest.raises(NetworkRefused) as caught:
            await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")
        assert str(caught.value) == "WAHA: no ******** ********"


async def test_an_answer_that_says_nothing(it: Setup) -> None:
    async with it.connected():
        it.waha.faults.append(Fault("sendText", 201, b"", times=2))
        first = await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")
        second = await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")
        assert first["key"] == second["key"]
        it.waha.faults.append(
            Fault("sendText", 201, b'{"key": {"remoteJid": "1@s.whatsapp.net", "id": "X"}}')
        )
        raw = await it.connector.send(it.session, TextMessage(number=ANA, text="hi"), key="k")
        assert raw["key"] == {"remoteJid": "1@s.whatsapp.net", "fromMe": True, "id": "X"}


async def test_received_files_are_streamed(it: Setup) -> None:
    it.waha.files["default/false_1@c.us_A.jpg"] = ("image/jpeg", b"a picture")
    media = {"url": "http://localhost:3000/api/files/default/false_1%40c.us_A.jpg", "mimetype": "image/jpeg"}
    async with it.connected():
        message = it.waha.receive("default", ANA, "look", hasMedia=True, media=media)
        await it.waha.all_delivered()
        [event] = it.session.data_of("MESSAGES_UPSERT")
        url = event["message"]["imageMessage"]["url"]
        reference, mimetype, _ = it.session.media[url]
        assert (reference, mimetype) == (f"{message['id']}/default/false_1@c.us_A.jpg", "image/jpeg")
        sink = FakeMediaSink()
        await it.connector.open_media(it.session, reference, sink)
        assert (sink.content, sink.mimetype, sink.size) == (b"a picture", "image/jpeg", 9)
        for wrong in (
            "-/default/none.jpg",
            f"{message['id']}/none.jpg",
            "../sessions/default",
            "",
            "-/%2e%2e/b",
        ):
            with pytest.raises(NotFound):
                await it.connector.open_media(it.session, wrong, FakeMediaSink())
        it.waha.faults.append(Fault("/api/files", 500, b"x" * 100_000))
        with pytest.raises(NetworkRefused, match="answered with 500"):
            await it.connector.open_media(it.session, reference, FakeMediaSink())


async def test_files_that_waha_has_deleted_are_fetched_again(it: Setup) -> None:
    media = {"url": "http://localhost:3000/api/files/default/A.jpg", "mimetype": "image/jpeg"}
    async with it.connected():
        message = it.waha.receive("default", ANA, "look", hasMedia=True, media=media)
        await it.waha.all_delivered()
        [(reference, _, _)] = it.session.media.values()
        it.waha.expired[message["id"]] = ("default/B.jpg", "image/jpeg", b"a picture")
        sink = FakeMediaSink()
        await it.connector.open_media(it.session, reference, sink)
        assert sink.content == b"a picture"
        it.waha.faults.append(Fault("/api/files", 404, times=2))
        with pytest.raises(NotFound):
            await it.connector.open_media(it.session, reference, FakeMediaSink())
        it.waha.faults += [Fault("/api/files", 404), Fault("/api/files", 500)]
        with pytest.raises(NetworkRefused):
            await it.connector.open_media(it.session, reference, FakeMediaSink())


async def test_files_in_events(autojump_clock: MockClock) -> None:
    async with setup(wants_base64=True) as it:
        it.waha.sessions["default"] = Session("default", "WORKING", is_paired=True)
        it.session.base64_limit = 100
        it.waha.files |= {"small": ("image/png", b"png"), "large": ("image/png", b"x" * 200)}
        async with it.connected():

            async def receive(name: str, text: str) -> None:
                media = {"url": f"/api/files/{name}", "mimetype": "image/png"}
                it.waha.receive("default", ANA, text, hasMedia=True, media=media)

            for name in ("small", "large", "none"):
                await receive(name, name)
                await it.waha.all_delivered()
            # A file that takes long holds later messages up for a moment, and loses nothing.
            it.waha.faults.append(Fault("/api/files/small", seconds=3600))
            await receive("small", "slow")
            await trio.sleep(FILE_TIME / 2)
            it.waha.receive("default", ANA, "after it")
            await it.waha.all_delivered()
        messages = [event["message"] for event in it.session.data_of("MESSAGES_UPSERT")]
        assert [message.get("base64") for message in messages] == [
            base64.b64encode(b"png").decode(),
            None,
            None,
            None,
            None,
        ]
        assert messages[3]["imageMessage"]["caption"] == "slow"
        assert messages[4] == {"conversation": "after it"}
        assert it.answers.count(200) == len(it.answers)


async def test_a_wanted_file_that_waha_has_not_downloaded_is_explained(autojump_clock: MockClock) -> None:
    async with setup(wants_base64=True) as it:
        it.waha.sessions["default"] = Session("default", "WORKING", is_paired=True)
        async with it.connected():
            engine = {"message": {"imageMessage": {"url": "https://mmg.whatsapp.net/v/1.enc"}}}
            for media in (None, {"url": "https://s3.example/bucket/x?signature=1", "mimetype": "image/png"}):
                it.waha.receive("default", ANA, "look", hasMedia=True, media=media, _data=engine)
                await it.waha.all_delivered()
        missing, linked = it.session.data_of("MESSAGES_UPSERT")
        reason = "WAHA has not downloaded the file."
        assert missing["mediaUnavailable"] == {"reason": reason, "setting": "WHATSAPP_DOWNLOAD_MEDIA"}
        assert "mediaUnavailable" not in linked


async def test_reports_that_are_not_for_this_instance(it: Setup) -> None:
    async with it.connected():
        [webhook] = it.webhooks()
        session = it.waha.sessions["default"]
        envelope = it.waha.envelope(session, "message", {"id": f"false_{ANA}_A", "body": "x"})
        it.waha.post(webhook, {**envelope, "session": "another"})
        it.waha.post(webhook, {**envelope, "event": "engine.event"})
        it.waha.post(webhook, {**envelope, "payload": ["?"]})
        await it.waha.all_delivered()
        assert it.answers[-3:] == [200, 200, 200]
        assert it.session.data_of("MESSAGES_UPSERT") == []
        # Kinds of the plugin gateway_kinds, which may be disabled, are left out.
        it.session.catalog = Catalog(BUILT_IN_KINDS)
        it.waha.report(
            "default", "presence.update", {"id": ANA, "presences": [{"lastKnownPresence": "online"}]}
        )
        await it.waha.all_delivered()
        assert it.answers[-1] == 200
        assert it.session.data_of("PRESENCE_UPDATE") == []


async def test_repeated_and_reordered_reports_are_one_event_each(
    autojump_clock: MockClock, it: Setup
) -> None:
    async with it.connected():
        # Also those that a global webhook of the server (WHATSAPP_HOOK_URL) sends to the same URL.
        it.waha.sessions["default"].config["webhooks"].append({**it.webhooks()[0], "events": ["message"]})
        it.waha.repeat = 2
        waits = iter(range(20, 0, -1))
        it.waha.delay = lambda: next(waits)
        payload = it.waha.receive("default", ANA, "one")
        it.waha.receive("default", ANA, "two")
        it.waha.acknowledge("default", payload["id"], 3)
        it.waha.report(
            "default", "message.ack.group", {"id": payload["id"], "ackName": "READ", "fromMe": True}
        )
        await it.waha.all_delivered()
    assert sorted(event["message"]["conversation"] for event in it.session.data_of("MESSAGES_UPSERT")) == [
        "one",
        "two",
    ]
    assert len(it.session.data_of("MESSAGES_UPDATE")) == 1
    assert len(it.session.repeated) > 5
    it.check_events()


async def test_without_a_connection_calls_are_refused() -> None:
    session = FakeSession(options=OPTIONS, settings=InstanceSettings())
    with pytest.raises(NetworkRefused, match="not connected"):
        await module.Waha().send(session, TextMessage(number=ANA, text="x"), key="k")
