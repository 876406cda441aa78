"""What hookgw forwards to Evolution API: messages, calls, files, and what it does with refusals."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from quart import Response
from trio.testing import MockClock

from hookgw import (
    ConnectionState,
    Contact,
    ContactMessage,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    Message,
    MessageKey,
    MessageQuery,
    NetworkRefused,
    NotFound,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from hookgw.testing import FakeMediaSink, FakeSession, open_kit, open_receiver
from plugins.evolution.connector import LARGEST_FILE
from plugins.evolution.connector import Evolution as Connector
from plugins.evolution.receiving import FILE_TIME
from tests.first_party.evolution import FORMER, connected, served, transport_of
from tests.networks.evolution import KEY, WUID, Evolution, serving
from tests.public.webhooks import RegistrationChange

pytestmark = pytest.mark.usefixtures("autojump_clock")

CHAT = "5511988887777@s.whatsapp.net"
MESSAGE = MessageKey(remote_jid=CHAT, id="3EB0A", from_me=True)
HI = TextMessage(number="5511988887777", text="hi")


@pytest.fixture
async def evolution(connector: Connector, session: FakeSession) -> AsyncIterator[Evolution]:
    """The server; the connector is connected to it."""
    async with served(connector, session) as evolution, connected(connector, session):
        yield evolution


@pytest.mark.parametrize(
    ("message", "call", "body"),
    [
        (HI, "sendText", {"number": "5511988887777", "text": "hi"}),
        (
            TextMessage(
                number="1@g.us",
                text="hi",
                mentions=("+55 11 98888-7777", "@5511988887777", "5511977776666"),
                link_preview=False,
                reply_to=MESSAGE,
            ),
            "sendText",
            {
                "number": "1@g.us",
                "text": "hi",
                "mentioned": ["5511988887777", "5511977776666"],
                "linkPreview": False,
                "quoted": {"key": {"remoteJid": CHAT, "fromMe": True, "id": "3EB0A"}},
            },
        ),
        (
            MediaMessage(
                number="5511988887777",
                kind=MediaKind.IMAGE,
                url="https://a.example/b.png",
                mimetype="image/png",
                caption="c",
                file_name="b.png",
            ),
            "sendMedia",
            {
                "number": "5511988887777",
                "mediatype": "image",
                "media": "https://a.example/b.png",
                "mimetype": "image/png",
                "caption": "c",
                "fileName": "b.png",
            },
        ),
        (
            MediaMessage(number="5511988887777", kind=MediaKind.DOCUMENT, content=b"menu"),
            "sendMedia",
            {"number": "5511988887777", "mediatype": "document", "media": "bWVudQ==", "fileName": "file"},
        ),
        (
            MediaMessage(number="5511988887777", kind=MediaKind.AUDIO, content=b"song"),
            "sendMedia",
            {"number": "5511988887777", "mediatype": "audio", "media": "c29uZw=="},
        ),
        (
            MediaMessage(number="5511988887777", kind=MediaKind.AUDIO, content=b"word", is_voice=True),
            "sendWhatsAppAudio",
            {"number": "5511988887777", "audio": "d29yZA=="},
        ),
        (
            MediaMessage(
                number="5511988887777",
                kind=MediaKind.AUDIO,
                content=b"word",
                is_voice=True,
                may_convert=False,
            ),
            "sendWhatsAppAudio",
            {"number": "5511988887777", "audio": "d29yZA==", "encoding": False},
        ),
        (
            TextMessage(number="1203@g.us", text="hi", mentions_everyone=True),
            "sendText",
            {"number": "1203@g.us", "text": "hi", "mentionsEveryOne": True},
        ),
        (
            MediaMessage(number="5511988887777", kind=MediaKind.STICKER, url="https://a.example/s.webp"),
            "sendSticker",
            {"number": "5511988887777", "sticker": "https://a.example/s.webp"},
        ),
        (
            LocationMessage(number="5511988887777", latitude=-23.5, longitude=-46.6),
            "sendLocation",
            {"number": "5511988887777", "latitude": -23.5, "longitude": -46.6, "name": "", "address": ""},
        ),
        (
            ContactMessage(
                number="5511988887777",
                contacts=(Contact(full_name="Ana", phone_number="+55 11 98888-7777", email="a@b"),),
            ),
            "sendContact",
            {
                "number": "5511988887777",
                "contact": [
                    {
                        "fullName": "Ana",
                        "wuid": "5511988887777",
                        "phoneNumber": "+55 11 98888-7777",
                        "email": "a@b",
                    }
                ],
            },
        ),
        (
            TextMessage(
                number="5511988887777", text="hi", reply_to=MESSAGE, replied={"conversation": "Open?"}
            ),
            "sendText",
            {
                "number": "5511988887777",
                "text": "hi",
                "quoted": {
                    "key": {"remoteJid": CHAT, "fromMe": True, "id": "3EB0A"},
                    "message": {"conversation": "Open?"},
                },
            },
        ),
        (
            ReactionMessage(number=CHAT, key=MESSAGE, reaction="👍"),
            "sendReaction",
            {"key": {"remoteJid": CHAT, "fromMe": True, "id": "3EB0A"}, "reaction": "👍"},
        ),
    ],
)
async def test_every_message(
    connector: Connector,
    session: FakeSession,
    evolution: Evolution,
    message: Message,
    call: str,
    body: dict[str, Any],
) -> None:
    connector.set_defaults({"forward_urls": True})
    sent = await connector.send(session, message, key="k")
    assert evolution.calls_of("POST message/") == [body]
    assert evolution.calls[-1][1] == f"message/{call}/shop"
    assert (sent["status"], sent["key"]["fromMe"]) == ("PENDING", True)
    await evolution.settled()
    # The server's own report; in the gateway it is the same event as that of the send.
    [reported] = [event for event in session.events if event.kind == "SEND_MESSAGE"]
    assert reported.data == sent


async def test_the_operator_can_keep_evolution_api_from_fetching_pages(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    text = TextMessage(number="5511988887777", text="http://10.0.0.5:3000/")
    await connector.send(session, text, key="k")
    connector.set_defaults({"link_previews": False})
    await connector.send(session, text, key="l")
    plain = {"number": "5511988887777", "text": text.text}
    assert evolution.calls_of("POST message/") == [plain, {**plain, "linkPreview": False}]


@pytest.mark.parametrize(
    "message",
    [
        ContactMessage(number="5511988887777", contacts=(Contact(full_name="Ana", phone_number="123"),)),
        MediaMessage(number="5511988887777", kind=MediaKind.IMAGE, content=b""),
    ],
)
async def test_what_cannot_be_sent(
    connector: Connector, session: FakeSession, evolution: Evolution, message: Message
) -> None:
    with pytest.raises(Invalid, match=r"contact|media"):
        await connector.send(session, message, key="k")
    assert evolution.calls_of("POST message/") == []


async def test_hookgw_itself_fetches_urls(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    """Evolution API would do so for every address in its own network."""

    def answer(request: httpx.Request) -> httpx.Response:
        match request.url.path:
            case "/old":
                return httpx.Response(302, headers={"location": "/menu.pdf"})
            case "/loop":
                return httpx.Response(302, headers={"location": "/loop"})
            case "/broken":
                raise httpx.ReadError("broken", request=request)
            case "/large":
                return httpx.Response(200, content=b"x" * (LARGEST_FILE + 1))
            case "/menu.pdf" | "/x":
                return httpx.Response(200, content=b"menu", headers={"content-type": "text/x; charset=utf-8"})
        return httpx.Response(404)

    transport_of(session).others = httpx.MockTransport(answer)

    async def send(url: str) -> Any:
        await connector.send(
            session, MediaMessage(number="5511988887777", kind=MediaKind.DOCUMENT, url=url), key="k"
        )
        return evolution.calls_of("POST message/sendMedia")[-1]

    document = {"number": "5511988887777", "mediatype": "document", "media": "bWVudQ=="}
    found = await send("https://files.example/menu.pdf?a=b")
    assert found == {**document, "mimetype": "application/pdf", "fileName": "menu.pdf"}
    assert await send("https://files.example/old") == {**document, "mimetype": "text/x", "fileName": "old"}
    assert await send("https://files.example/x") == {**document, "mimetype": "text/x", "fileName": "x"}
    for url, words in (
        ("https://files.example/loop", "redirects more than 3 times"),
        ("https://files.example/broken", "cannot be read: broken"),
        ("https://files.example/none", "answered with 404"),
        ("https://files.example/large", "more than 64MiB"),
        ("https://files.example:port", "cannot be read"),
    ):
        with pytest.raises(Invalid, match=words):
            await send(url)
    assert len(evolution.calls_of("POST message/")) == 3


async def test_a_url_that_takes_too_long(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await trio.sleep_forever()
            raise AssertionError(request)

    transport_of(session).others = Slow()
    message = MediaMessage(number="5511988887777", kind=MediaKind.IMAGE, url="https://files.example/a.png")
    with pytest.raises(Invalid, match="not read within 20 s"):
        await connector.send(session, message, key="k")


REFUSED = {"status": 400, "error": "Bad Request", "response": {"message": [["number is wrong", ["again"]]]}}


@pytest.mark.parametrize(
    ("fault", "status", "sentence"),
    [
        ((400, REFUSED), 400, "number is wrong again"),
        ((400, {"message": "plain"}), 400, "plain"),
        ((400, "[" * 100_000), 400, "answered with 400"),
        ((400, {"response": {"message": "é" * 10_000}}), 400, "ééé"),
        ((400, {"response": {"message": f"the key {KEY} is known"}}), 400, r"the key \*{8} is known"),
        ((401, {}), 409, "refuses the option api_key"),
        ((404, {"response": {"message": 'The "shop" instance does not exist'}}), 409, "no instance 'shop'"),
        ((404, {"response": {"message": ["Cannot POST /message"]}}), 502, "Cannot POST /message"),
        ((413, ""), 413, "answered with 413"),
        ((500, {"response": {"message": "Internal"}}), 502, "Internal"),
        ((201, ""), 502, "did not answer with JSON"),
        ((201, "[]"), 502, "did not say which message"),
        ((201, {"key": {"id": 7}}), 502, "did not say which message"),
    ],
)
async def test_the_caller_gets_the_reason(
    connector: Connector, session: FakeSession, evolution: Evolution, fault: Any, status: int, sentence: str
) -> None:
    evolution.faults["POST message/sendText"] = [fault]
    with pytest.raises(NetworkRefused, match=sentence) as caught:
        await connector.send(session, HI, key="k")
    assert caught.value.status == status
    assert len(str(caught.value)) <= 300
    assert session.state is ConnectionState.OPEN


async def test_a_wait_is_passed_on(connector: Connector, session: FakeSession, evolution: Evolution) -> None:
    async def slow_down() -> Response:
        return Response("{}", 429, {"retry-after": "30"})

    evolution.faults["POST message/sendText"] = [slow_down]
    with pytest.raises(NetworkRefused) as caught:
        await connector.send(session, HI, key="k")
    assert (caught.value.status, caught.value.retry_after) == (429, 30)


async def test_a_number_that_is_not_on_whatsapp(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    evolution.accounts["shop"].numbers = set()
    with pytest.raises(NetworkRefused, match=r"^5511988887777 is not on WhatsApp\.$") as caught:
        await connector.send(session, HI, key="k")
    assert caught.value.status == 400
    assert caught.value.unknown_numbers == {"5511988887777": CHAT}
    template = TemplateMessage(number="5511988887777", name="n", language="pt_BR")
    with pytest.raises(NetworkRefused, match="not available"):
        await connector.send(session, template, key="k")


async def test_no_answer(connector: Connector, session: FakeSession, evolution: Evolution) -> None:
    transport_of(session).errors["POST message/sendText"] = [httpx.ReadTimeout("slow")]
    with pytest.raises(NetworkRefused, match="cannot be reached: slow") as caught:
        await connector.send(session, HI, key="k")
    assert caught.value.status == 502


async def test_a_sent_message_of_another_version_satisfies_the_schema(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    answer = {"key": {"remoteJid": CHAT, "fromMe": True, "id": "A"}, "messageTimestamp": {"low": 1}}
    evolution.faults["POST message/sendText"] = [(201, answer)]
    sent = await connector.send(session, HI, key="k")
    assert sent["status"] == "PENDING"
    assert type(sent["messageTimestamp"]) is int


async def test_other_calls(connector: Connector, session: FakeSession, evolution: Evolution) -> None:
    key = {"remoteJid": CHAT, "fromMe": True, "id": "3EB0A"}
    edited = await connector.edit(session, MESSAGE, "new", number="5511988887777")
    assert evolution.calls_of("POST chat/updateMessage/shop") == [{"number": CHAT, "key": key, "text": "new"}]
    assert (edited["key"], edited["message"]) == (key, {"conversation": "new"})
    deleted = await connector.delete(session, MESSAGE)
    assert evolution.calls_of("DELETE chat/deleteMessageForEveryone/shop") == [key]
    assert deleted == {**key, "status": "DELETED"}
    theirs = MessageKey(remote_jid="1@g.us", id="B", participant=CHAT)
    await connector.mark_read(session, [MESSAGE, theirs])
    [body] = evolution.calls_of("POST chat/markMessageAsRead/shop")
    assert body == {"readMessages": [key, {"remoteJid": "1@g.us", "fromMe": False, "id": "B"}]}
    before = trio.current_time()
    await connector.set_presence(session, "composing", number="5511988887777", delay=40)
    assert trio.current_time() - before == 40
    [body] = evolution.calls_of("POST chat/sendPresence/shop")
    assert body == {"number": "5511988887777", "presence": "composing", "delay": 40_000}
    await connector.set_presence(session, "available", number=None, delay=0)
    assert evolution.calls_of("POST instance/setPresence/shop") == [{"presence": "available"}]


async def test_pictures_and_groups(connector: Connector, session: FakeSession, evolution: Evolution) -> None:
    account = evolution.accounts["shop"]
    account.pictures[CHAT] = "https://pps.example/a.jpg"
    people = [{"id": CHAT, "admin": "superadmin"}]
    account.groups = [{"id": "1203@g.us", "subject": "Loja", "size": 1, "participants": people}]
    found = await connector.find_picture(session, "+55 11 98888-7777")
    assert found == {"wuid": CHAT, "profilePictureUrl": "https://pps.example/a.jpg"}
    found = await connector.find_picture(session, "1203@g.us")
    assert found == {"wuid": "1203@g.us", "profilePictureUrl": None}
    assert await connector.list_groups(session, with_participants=True) == account.groups
    [group] = await connector.list_groups(session, with_participants=False)
    assert group == {"id": "1203@g.us", "subject": "Loja", "size": 1}
    assert await connector.find_group(session, "1203@g.us") == account.groups[0]
    with pytest.raises(NotFound, match="knows no group"):
        await connector.find_group(session, "9@g.us")
    evolution.faults["POST chat/fetchProfilePictureUrl"] = [(200, "[]"), (200, '{"wuid": 1}')]
    for _ in range(2):
        found = await connector.find_picture(session, "5511988887777")
        assert found == {"wuid": "5511988887777", "profilePictureUrl": None}
    evolution.faults["GET group"] = [(200, "{}"), (200, '[1, {"id": 2}]'), (200, "[]"), (500, "{}")]
    for _ in range(2):
        assert await connector.list_groups(session, with_participants=False) == []
    with pytest.raises(NotFound):
        await connector.find_group(session, "1203@g.us")
    with pytest.raises(NetworkRefused):
        await connector.find_group(session, "1203@g.us")


async def test_messages_are_those_of_evolution_api(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    evolution.accounts["shop"].messages = [
        {
            "id": "c1",
            "key": {"remoteJid": CHAT, "id": "M2", "fromMe": True},
            "messageType": "conversation",
            "messageTimestamp": 20,
            "source": "web",
        },
        {
            "id": "c0",
            "key": {"remoteJid": CHAT, "id": "M1", "fromMe": False},
            "messageType": "imageMessage",
            "messageTimestamp": 10,
        },
    ]
    answer = await connector.find_messages(session, MessageQuery(chat="5511988887777@c.us", size=1, page=2))
    assert answer["messages"] == {
        "total": 2,
        "pages": 2,
        "currentPage": 2,
        "records": evolution.accounts["shop"].messages[1:],
    }
    query = MessageQuery(
        id="M2", from_me=True, message_type="conversation", since=1.5, record_id="c1", source="web"
    )
    assert len((await connector.find_messages(session, query))["messages"]["records"]) == 1
    assert evolution.calls_of("POST chat/findMessages/shop") == [
        {"where": {"key": {"remoteJid": CHAT}}, "page": 2, "offset": 1},
        {
            "where": {
                "key": {"id": "M2", "fromMe": True},
                "messageType": "conversation",
                "id": "c1",
                "source": "web",
                "messageTimestamp": {"gte": "1970-01-01T00:00:01.500Z", "lte": "9999-12-31T23:59:59.000Z"},
            },
            "page": 1,
            "offset": 50,
        },
    ]
    evolution.faults["POST chat/findMessages"] = [(200, "[]"), (200, '{"messages": {"records": 1}}')]
    for _ in range(2):
        with pytest.raises(NetworkRefused, match="did not answer with messages"):
            await connector.find_messages(session, MessageQuery())


async def test_every_stored_message_names_its_file(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    evolution.accounts["shop"].files["3EB0A"] = b"cat"
    reference = await connector.media_reference(session, MESSAGE)
    assert reference is not None
    sink = FakeMediaSink()
    await connector.open_media(session, reference, sink)
    assert bytes(sink.content) == b"cat"
    assert await connector.media_reference(session, MessageKey(remote_jid="x" * 2000, id="A")) is None


async def test_numbers_come_in_the_order_of_the_question(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    evolution.accounts["shop"].numbers = {"5511988887777", "1@g.us"}
    found = await connector.find_numbers(
        session, ["+55 11 98888-7777", "5511977776666", "1@g.us", "5511988887777", "5511988887777.0"]
    )
    assert [(one["number"], one["exists"]) for one in found] == [
        ("+55 11 98888-7777", True),
        ("5511977776666", False),
        ("1@g.us", True),
        ("5511988887777", True),
        ("5511988887777.0", False),  # without its dot, which Evolution API leaves out, it is somebody else's
    ]
    assert evolution.calls_of("POST chat/whatsappNumbers/shop") == [
        {"numbers": ["5511988887777", "5511977776666", "1@g.us"]}
    ]
    assert [one["exists"] for one in await connector.find_numbers(session, ["011988887777"])] == [False]
    evolution.faults["POST chat/whatsappNumbers"] = [(200, '{"a": 1}'), (200, "[[], {}, null]")]
    for _ in range(2):
        [one] = await connector.find_numbers(session, ["5511988887777"])
        assert one == {"number": "5511988887777", "exists": False, "jid": "5511988887777"}


async def test_restart(connector: Connector, session: FakeSession, evolution: Evolution) -> None:
    await connector.restart(session)
    assert len(evolution.calls_of("POST instance/restart/shop")) == 1
    evolution.faults["POST instance/restart"] = [
        (400, REFUSED),  # it is not connected: the next run asks for a code
        (404, {"response": {"message": ["Cannot POST /instance/restart/shop"]}}),  # an older version
        (500, {}),
    ]
    evolution.faults["PUT instance/restart"] = [(200, "{}")]
    await connector.restart(session)
    await connector.restart(session)
    assert len(evolution.calls_of("PUT instance/restart/shop")) == 1
    with pytest.raises(NetworkRefused):
        await connector.restart(session)


async def test_logout_tells_its_last_events(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    await connector.logout(session)
    await evolution.settled()
    assert session.state is ConnectionState.CLOSE
    assert len(session.data_of("LOGOUT_INSTANCE")) == 1
    await connector.logout(session)  # it is logged out already
    evolution.faults["DELETE instance/logout"] = [(500, {})]
    with pytest.raises(NetworkRefused):
        await connector.logout(session)


# Files


@pytest.mark.parametrize("size", [0, 1, 2, 3, 100_000])
async def test_a_file_is_streamed(
    connector: Connector, session: FakeSession, evolution: Evolution, size: int
) -> None:
    async with connected(connector, session):
        posted = evolution.receive("shop", "", imageMessage={"mimetype": "image/png", "url": "https://mmg"})
        assert posted is not None
        await posted.is_done.wait()
    data = session.data_of("MESSAGES_UPSERT")[-1]
    assert data["message"]["imageMessage"] == posted.body["data"]["message"]["imageMessage"]
    reference, mimetype, _ = session.media[data["message"]["mediaUrl"]]
    assert mimetype == "image/png"
    content = evolution.accounts["shop"].files[data["key"]["id"]] = bytes(
        index % 251 for index in range(size)
    )
    async with connected(connector, session):
        sink = FakeMediaSink()
        await connector.open_media(session, reference, sink)
        assert (sink.content, sink.mimetype) == (content, "image/png")
        assert sink.file_name == f"{data['key']['id']}.png"
        evolution.accounts["shop"].files.clear()
        with pytest.raises(NotFound, match="Message not found"):
            await connector.open_media(session, reference, FakeMediaSink())


def picture(size: object = None, **more: Any) -> dict[str, Any]:
    content = {"mimetype": "image/png", "url": "https://mmg.whatsapp.net/v/1.enc", "mediaKey": {"0": 1}}
    return {"imageMessage": content | ({} if size is None else {"fileLength": size}), **more}


async def receive_file(
    session: FakeSession, evolution: Evolution, content: bytes | None, message: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let a file arrive; return what Evolution API has posted, and what was raised."""
    data = evolution.message("5511988887777@s.whatsapp.net", message, from_me=False)
    if content is not None:
        evolution.accounts["shop"].files[data["key"]["id"]] = content
    evolution.emit("shop", "messages.upsert", data)
    await evolution.settled()
    return data, session.data_of("MESSAGES_UPSERT")[-1]


@pytest.mark.parametrize("has_link", [True, False])
async def test_a_file_comes_into_its_event_if_a_registration_asks_for_it(
    connector: Connector, session: FakeSession, evolution: Evolution, *, has_link: bool
) -> None:
    session.options["media_links"] = has_link
    session.wants_files = True
    async with connected(connector, session):
        for message in (
            picture("5"),
            picture({"low": 5, "high": 0, "unsigned": True}),
            {"viewOnceMessageV2": {"message": picture()}},
            {"templateMessage": {"hydratedFourRowTemplate": picture()}},
        ):
            sent, raised = await receive_file(session, evolution, b"hello", message)
            more = {"base64": "aGVsbG8="}
            if has_link:
                more |= {"mediaUrl": raised["message"]["mediaUrl"]}
            assert raised == {**sent, "message": {**message, **more}}
            assert list(raised) == list(sent)
        asked = evolution.calls_of("POST chat/getBase64FromMediaMessage")
        # Evolution API need not have stored the message.
        assert asked[-1]["message"] == {"key": sent["key"], "message": message}
        session.wants_files = False
        _, raised = await receive_file(session, evolution, b"hello", picture("5"))
        assert "base64" not in raised["message"]
        assert len(evolution.calls_of("POST chat/getBase64FromMediaMessage")) == len(asked)


@pytest.mark.filterwarnings(
    # httpx's own, when a body is not read to its end.
    "ignore:.*async_generator object:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("says_size", [True, False])
@pytest.mark.parametrize("has_link", [True, False, None])
async def test_a_file_that_is_too_large_for_an_event_gets_a_link_or_a_reason(
    connector: Connector,
    session: FakeSession,
    evolution: Evolution,
    *,
    has_link: bool | None,
    says_size: bool,
) -> None:
    if has_link is not None:
        session.options["media_links"] = has_link
    session.wants_files, size = True, 2_000_000
    async with connected(connector, session):
        message = picture(str(size) if says_size else None)
        sent, raised = await receive_file(session, evolution, bytes(size), message)
    asked = evolution.calls_of("POST chat/getBase64FromMediaMessage")
    assert len(asked) == (0 if says_size else 1)
    if has_link is not False:
        assert raised == {**sent, "message": {**message, "mediaUrl": raised["message"]["mediaUrl"]}}
        assert raised["message"]["mediaUrl"] in session.media
        return
    missing = raised["mediaUnavailable"]
    assert raised == {**sent, "mediaUnavailable": missing}
    assert missing["setting"] == "events.max_data"
    assert f"{session.base64_limit:,}" in missing["reason"]


async def test_a_file_of_gigabytes_is_not_asked_for(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    session.options["media_links"] = False
    session.wants_files = True
    # JavaScript's halves are 32 bits with a sign.
    message = picture({"low": 2_500_000_000 - 2**32, "high": 0, "unsigned": True})
    async with connected(connector, session):
        _, raised = await receive_file(session, evolution, b"", message)
    assert "2,500,000,000" in raised["mediaUnavailable"]["reason"]
    assert evolution.calls_of("POST chat/getBase64FromMediaMessage") == []


async def test_a_file_that_evolution_api_does_not_hand_out_holds_nothing_up_for_long(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    session.options["media_links"] = False
    session.wants_files = True
    async with connected(connector, session):
        _, raised = await receive_file(session, evolution, None, picture())
        assert raised["mediaUnavailable"] == {"reason": "Message not found", "setting": None}
        evolution.faults["POST chat/getBase64FromMediaMessage"] = [trio.sleep_forever]
        start = trio.current_time()
        for _ in range(3):
            _, raised = await receive_file(session, evolution, b"hello", picture())
            assert "too long" in raised["mediaUnavailable"]["reason"]
        assert trio.current_time() - start == pytest.approx(FILE_TIME, abs=1)
        evolution.faults.clear()
        await trio.sleep(60)
        _, raised = await receive_file(session, evolution, b"hello", picture())
        assert raised["message"]["base64"] == "aGVsbG8="


async def test_many_files_at_once_are_all_inside_and_in_order(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    session.wants_files = True
    async with connected(connector, session):
        for number in range(25):
            data = evolution.message("5511988887777@s.whatsapp.net", picture(), from_me=False)
            evolution.accounts["shop"].files[data["key"]["id"]] = b"%d" % number
            evolution.emit("shop", "messages.upsert", data)
        await evolution.settled()
    raised = session.data_of("MESSAGES_UPSERT")
    found = {data["key"]["id"]: base64.b64decode(data["message"]["base64"]) for data in raised}
    assert found == evolution.accounts["shop"].files


async def test_links_only_where_there_is_none(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    bucket = {"imageMessage": {"mimetype": 7}, "mediaUrl": "https://s3.example/a"}
    async with connected(connector, session):
        for message in ({"conversation": "hi"}, bucket, {"imageMessage": 7}):
            evolution.receive("shop", "", **message)
        strange: list[Any] = [None, [], {}, {"message": {"imageMessage": {}}}, {"key": {}, "message": None}]
        for data in strange:
            evolution.emit("shop", "messages.upsert", data)
        key = {"remoteJid": "x" * 2_000, "id": "1"}
        evolution.emit("shop", "messages.upsert", {"key": key, "message": {"imageMessage": {}}})
        await evolution.settled()
    raised = session.data_of("MESSAGES_UPSERT")
    assert sorted(map(str, raised)) == sorted(str(one.body["data"]) for one in evolution.posted)
    assert session.media == {}


@pytest.mark.filterwarnings(
    # httpx's own, when a body is not read to its end.
    "ignore:.*async_generator object:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize(
    "answer",
    [
        '{"mimetype": 7, "base64":"aGVsbG8"}',
        '{"mimetype": "a/b", "base64":"aGVs',
        '{"mimetype": "a/b", "base64":"!!!!"}',
        '{"mimetype": "a/b"}',
        "[]",
        "x" * 300_000,
    ],
)
async def test_a_lying_file(
    connector: Connector, session: FakeSession, evolution: Evolution, answer: str
) -> None:
    evolution.faults["POST chat/getBase64"] = [(201, answer)]
    with pytest.raises(NetworkRefused, match="Evolution API"):
        await connector.open_media(session, '["a", false, "b"]', FakeMediaSink())


@pytest.mark.parametrize("reference", ["", "7", "[]", "[1,2,3,4]", "{"])
async def test_a_link_to_something_else(
    connector: Connector, session: FakeSession, evolution: Evolution, reference: str
) -> None:
    with pytest.raises(NotFound, match="does not name a message"):
        await connector.open_media(session, reference, FakeMediaSink())


async def test_a_key_of_strange_values_is_a_refusal(
    connector: Connector, session: FakeSession, evolution: Evolution
) -> None:
    with pytest.raises(NotFound):
        await connector.open_media(session, "[1, 2, 3]", FakeMediaSink())
    evolution.faults["POST chat/getBase64"] = [(500, "{}")]
    with pytest.raises(NetworkRefused):
        await connector.open_media(session, '["a", false, "b"]', FakeMediaSink())


# In a gateway


async def test_in_a_gateway(tmp_path: Path, hookgw_clock: MockClock) -> None:
    """Strict payloads, one event for a send and for a deletion, and the webhook is given back."""
    evolution = Evolution()
    shop = evolution.add("remote shop")
    received: list[int] = []
    async with serving(evolution) as url, open_receiver() as receiver:
        settings = {
            "server": {"public_url": "https://hooks.example"},
            "events": {"validate": "strict"},
            "plugins": {"options": {"evolution": {"servers": [url]}}},
        }
        async with open_kit(tmp_path, settings=settings) as kit:
            instances = kit.gateway.instances
            options = {"base_url": url, "api_key": shop.token, "remote": "remote shop"}
            change = RegistrationChange(url=receiver.url)
            await instances.create("shop", integration="evolution", options=options, webhook=change)

            async def deliver(_: str, headers: dict[str, str], body: bytes) -> int:
                received.append(len(body))
                return (await kit.ingest(body, headers=headers)).status

            evolution.deliver = deliver
            async with httpx.AsyncClient(headers={"apikey": KEY}, trust_env=False) as http:
                await http.post(f"{url}/webhook/set/remote%20shop", json={"webhook": FORMER})
            await instances.connect("shop")
            sent = await kit.gateway.messages.send("shop", HI)
            key = MessageKey(remote_jid=CHAT, id=sent["key"]["id"], from_me=True)
            await kit.gateway.messages.delete("shop", key)
            evolution.receive("remote shop", "hello")
            await evolution.settled()
            requests = await receiver.wait_for(5)
            kinds = [request.json["event"] for request in requests]
            assert kinds[:2] == ["CONNECTION_UPDATE"] * 2
            assert sorted(kinds[2:]) == ["MESSAGES_DELETE", "MESSAGES_UPSERT", "SEND_MESSAGE"]
            assert {request.json["sender"] for request in requests[2:]} == {WUID}
            assert {request.json["instance"] for request in requests} == {"shop"}
            await kit.settled()
            assert len(receiver.requests) == 5
            assert shop.webhook is not None
            await instances.delete("shop")
            assert shop.webhook["url"] == FORMER["url"]
    assert len(received) == 3
