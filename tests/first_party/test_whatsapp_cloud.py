"""The connector for the Cloud API against a stand-in for Meta: sends, health, requests, files, and faults."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, get_args

import httpx
import pytest
import structlog
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import (
    ConnectionState,
    Contact,
    ContactMessage,
    HookgwError,
    IngestRequest,
    IngestResponse,
    InstanceSettings,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    Message,
    MessageKey,
    NetworkRefused,
    NewEvent,
    NotFound,
    NotSupported,
    ProofRefused,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
    Unavailable,
    event_id_of,
)
from hookgw.testing import FakeMediaSink, FakeSession
from plugins.whatsapp_cloud.connection import CHECK_EVERY, CHECK_TIME, FILE_TIME
from plugins.whatsapp_cloud.connector import WhatsAppCloud
from tests.first_party import runs
from tests.networks.whatsapp_cloud.graph import ACCOUNT, CUSTOMER, NUMBER, SECRET, TOKEN, Graph
from tests.networks.whatsapp_cloud.webhooks import (
    VERIFY_TOKEN,
    encode,
    message,
    notification,
    signature,
    status,
    text_message,
    value,
)
from tests.public.config import PluginsSettings
from tests.public.plugins import Hooks, load_plugins

pytestmark = pytest.mark.usefixtures("autojump_clock")

OPTIONS = {
    "phone_number_id": NUMBER,
    "access_token": TOKEN,
    "app_secret": SECRET,
    "verify_token": VERIFY_TOKEN,
    "base_url": "https://graph.example",
}
CHAT = f"{CUSTOMER}@s.whatsapp.net"
HELLO = TextMessage(number=CUSTOMER, text="hello")


@pytest.fixture
def graph() -> Graph:
    return Graph()


@pytest.fixture
async def session(graph: Graph) -> AsyncIterator[FakeSession]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(graph.handle)) as http:
        yield FakeSession(options=OPTIONS, http=http)


@asynccontextmanager
async def running(session: FakeSession, **defaults: Any) -> AsyncIterator[WhatsAppCloud]:
    cloud = WhatsAppCloud()
    cloud.set_defaults(defaults)
    with trio.fail_after(36_000):  # the clock jumps there if nothing else can happen
        async with runs.running(cloud, session):
            yield cloud


@asynccontextmanager
async def connected(session: FakeSession) -> AsyncIterator[WhatsAppCloud]:
    async with running(session) as cloud:
        await session.wait_until(ConnectionState.OPEN)
        yield cloud


def posted(body: Any, secret: str = SECRET) -> IngestRequest:
    raw = body if isinstance(body, bytes) else encode(body)
    headers = {"x-hub-signature-256": signature(raw, secret)}
    return IngestRequest(method="POST", query={}, headers=headers, body=raw)


def texts(session: FakeSession) -> list[str]:
    return [data["message"]["conversation"] for data in session.data_of("MESSAGES_UPSERT")]


def refusal(
    code: int, status: int = 400, headers: dict[str, str] | None = None, **more: Any
) -> httpx.Response:
    error = {"message": f"(#{code}) Title", "type": "OAuthException", "code": code, **more}
    return httpx.Response(status, json={"error": error}, headers=headers)


# The number


async def test_the_number_is_checked(graph: Graph, session: FakeSession) -> None:
    async with connected(session):
        state, reason, more = session.states[-1]
        await trio.sleep(CHECK_EVERY * 2.5)
    account = {"wuid": f"{ACCOUNT}@s.whatsapp.net", "profileName": "Acme Shop", "qualityRating": "GREEN"}
    assert (state, reason, more) == (ConnectionState.OPEN, 200, account)
    assert graph.requests == [("GET", f"/v26.0/{NUMBER}")] * 3


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.Response(502, text="<html>"),
        httpx.Response(200, text='{"display_phone_number": "+1'),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"id": NUMBER}),
        httpx.Response(400, json={"error": "?"}),
        refusal(2, 500),
        refusal(77, is_transient=True),
    ],
)
async def test_faults_of_a_check(
    graph: Graph, session: FakeSession, fault: httpx.Response | Exception
) -> None:
    graph.will("number", fault, fault)
    async with connected(session):
        assert [state for state, _, _ in session.states] == [ConnectionState.CONNECTING, ConnectionState.OPEN]
        graph.will("number", fault, fault)
        await trio.sleep(CHECK_EVERY + 30)
        assert session.state is ConnectionState.OPEN  # two of them are no lost connection
        graph.will("number", fault, fault, fault)
        await session.wait_until(ConnectionState.CONNECTING)
        await session.wait_until(ConnectionState.OPEN)


async def test_a_check_has_a_deadline() -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    async with httpx.AsyncClient(transport=httpx.MockTransport(never)) as http:
        session = FakeSession(options=OPTIONS, http=http)
        async with running(session) as cloud:
            await trio.sleep(CHECK_TIME * 10)
            assert session.state is ConnectionState.CONNECTING
            # Meanwhile, what people write is taken.
            await cloud.ingest(session, posted(notification(value(messages=[text_message("hi")]))))
    assert texts(session) == ["hi"]


@pytest.mark.parametrize(("asked", "waits"), [(400, 400), (86_400, 3600)])
async def test_a_limited_check_waits_as_long_as_it_says_up_to_an_hour(
    graph: Graph, session: FakeSession, asked: int, waits: int
) -> None:
    async with connected(session):
        graph.will("number", refusal(80007, headers={"retry-after": str(asked)}))
        await trio.sleep(CHECK_EVERY + waits - 1)
        assert len(graph.requests) == 2
        assert session.state is ConnectionState.OPEN
        await trio.sleep(2)
        assert len(graph.requests) == 3


async def test_an_expired_token_closes_and_a_new_one_opens(graph: Graph, session: FakeSession) -> None:
    async with connected(session) as cloud:
        graph.tokens.clear()
        with pytest.raises(NetworkRefused) as refused:
            await cloud.send(session, HELLO, key="1")
        assert (refused.value.code, refused.value.status) == ("190", 409)
        # At once, not with the next check.
        with trio.fail_after(1):
            await session.wait_until(ConnectionState.CLOSE)
        _, reason, more = session.states[-1]
        assert reason == 401
        assert more["message"].startswith("Meta refuses the access token: Error validating access token")
        assert "PATCH /instance/options/shop" in more["message"]
        # What people write does not depend on the token.
        await cloud.ingest(session, posted(notification(value(messages=[text_message("still here")]))))
        await trio.sleep(CHECK_EVERY + 1)
        assert session.state is ConnectionState.CLOSE
    graph.tokens.add("new")
    session.options["access_token"] = "new"  # as hookgw does: it ends the run, and begins another
    async with connected(session) as cloud:
        await cloud.send(session, HELLO, key="2")
    assert texts(session) == ["still here"]


async def test_a_number_that_the_token_may_not_use_closes(graph: Graph, session: FakeSession) -> None:
    session.options["phone_number_id"] = "777"
    async with running(session):
        await session.wait_until(ConnectionState.CLOSE)
        _, reason, more = session.states[-1]
    assert reason == 403
    assert more["message"].startswith("Meta refuses the phone number 777: Unsupported get request.")
    assert "Check phone_number_id" in more["message"]


async def test_meta_does_not_repeat_the_token_to_anybody(graph: Graph, session: FakeSession) -> None:
    graph.will("number", refusal(190, 400, error_data=f"Malformed access token {TOKEN}"))
    async with running(session):
        await session.wait_until(ConnectionState.CLOSE)
    assert "Malformed access token ********" in session.states[-1][2]["message"]
    assert TOKEN not in str(session.states)


async def test_missing_options(session: FakeSession) -> None:
    session.options.update(app_secret="", access_token="")
    async with running(session) as cloud:
        await session.wait_until(ConnectionState.CLOSE)
        sentence = (
            "access_token and app_secret must be set in the options of the instance (POST /instance/create, "
            "PATCH /instance/options/<instance>), or in the configuration (plugins.options.whatsapp_cloud)."
        )
        assert session.states[-1][1:] == (400, {"message": sentence})
        # Meta repeats what it gets no 200 for, so nothing is lost until they are set.
        with pytest.raises(Unavailable):
            await cloud.ingest(session, posted(notification(value())))
        with pytest.raises(NetworkRefused):
            await cloud.send(session, HELLO, key="1")
        await trio.sleep(3600)
    with pytest.raises(Invalid) as refused:
        await cloud.check_options({}, public_url=None)
    assert "phone_number_id, access_token, app_secret and verify_token must be set" in str(refused.value)
    assert "or access_token, app_secret, verify_token also in the configuration" in str(refused.value)
    assert refused.value.messages[0].id == "whatsapp_cloud.options_and_number_missing"
    with pytest.raises(Invalid) as refused:
        await cloud.check_options({**OPTIONS, "phone_number_id": ""}, public_url=None)
    assert str(refused.value).endswith("PATCH /instance/options/<instance>).")
    assert refused.value.messages[0].id == "whatsapp_cloud.number_missing"
    with pytest.raises(Invalid, match="not valid"):
        await cloud.check_options({**OPTIONS, "access_token": 5}, public_url=None)
    with pytest.raises(Invalid, match="consists of digits"):
        await cloud.check_options({**OPTIONS, "phone_number_id": None, "number": "+1 650"}, public_url=None)
    evolution = {**OPTIONS, "phone_number_id": "", "number": NUMBER}
    await cloud.check_options(evolution, public_url=None)
    with pytest.raises(Invalid, match="base_url"):
        await cloud.check_options({**OPTIONS, "base_url": "https://"}, public_url=None)


async def test_options_of_the_configuration(graph: Graph, session: FakeSession) -> None:
    session.options = {"phone_number_id": int(NUMBER), "access_token": None}
    defaults = {name: text for name, text in OPTIONS.items() if name != "phone_number_id"}
    async with running(session, **defaults) as cloud:
        await session.wait_until(ConnectionState.OPEN)
        properties = cloud.options_schema["properties"]
    assert properties["base_url"]["default"] == OPTIONS["base_url"]
    assert SECRET not in json.dumps(cloud.options_schema)


async def test_the_operators_token_stays_with_the_operator() -> None:
    cloud = WhatsAppCloud()
    cloud.set_defaults({"access_token": TOKEN, "app_secret": SECRET, "verify_token": VERIFY_TOKEN})
    properties = cloud.options_schema["properties"]
    assert {name for name, one in properties.items() if one.get("x-operator")} == {
        *("phone_number_id", "number", "base_url"),
    }
    own = {"phone_number_id": NUMBER, "base_url": "https://graph.facebook.com"}
    await cloud.check_options(own, public_url=None)
    await cloud.check_options({**own, "base_url": "https://graph.facebook.com/"}, public_url=None)
    with pytest.raises(Invalid, match="access_token must be set"):
        await cloud.check_options({**own, "base_url": "https://evil.example"}, public_url=None)
    await cloud.check_options(
        {**own, "base_url": "https://graph.example", "access_token": "own"}, public_url=None
    )


@pytest.mark.parametrize(
    "options",
    [{"phone_number_id": NUMBER}, {"secret": "x"}, {"base_url": "graph.facebook.com"}, {"app_secret": 5}],
)
def test_wrong_options_of_the_configuration(tmp_path: Any, options: dict[str, Any]) -> None:
    hooks = Hooks(load_plugins(PluginsSettings(), base=tmp_path))
    hooks.configure({"whatsapp_cloud": {"app_secret": "x"}})
    assert "whatsapp_cloud" in hooks.connectors()
    with pytest.raises(Exception, match="whatsapp_cloud"):
        hooks.configure({"whatsapp_cloud": options})


# Sends


async def sent(session: FakeSession, given: Message, key: str = "order-17") -> dict[str, Any]:
    async with connected(session) as cloud:
        try:
            return await cloud.send(session, given, key=key)
        except HookgwError as error:
            refused = error  # the nursery would put it into a group
    raise refused


async def test_a_text(graph: Graph, session: FakeSession) -> None:
    reply = MessageKey(remote_jid=CHAT, id="wamid.first")
    given = TextMessage(number=f"+{CUSTOMER[:1]} 650-555-1234", text="hi https://a.example", reply_to=reply)
    data = await sent(session, given)
    [body] = graph.sent
    assert body == {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": CUSTOMER,
        "type": "text",
        "text": {"body": "hi https://a.example", "preview_url": True},
        "context": {"message_id": "wamid.first"},
        "biz_opaque_callback_data": "order-17",
        "id": body["id"],
        "number": NUMBER,
    }
    assert data["key"] == {"remoteJid": CHAT, "fromMe": True, "id": body["id"]}
    assert (data["message"], data["messageType"]) == (
        {"conversation": "hi https://a.example"},
        "conversation",
    )
    assert (data["status"], data["contextInfo"]) == ("PENDING", {"stanzaId": "wamid.first"})


async def test_the_chat_is_the_number_that_whatsapp_knows(graph: Graph, session: FakeSession) -> None:
    graph.corrections["5511988887777"] = "551188887777"
    data = await sent(session, TextMessage(number="5511988887777", text="oi"))
    assert data["key"]["remoteJid"] == "551188887777@s.whatsapp.net"


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        (CHAT, {"recipient_type": "individual", "to": CUSTOMER}),
        ("16505551234:12@s.whatsapp.net", {"recipient_type": "individual", "to": CUSTOMER}),
        ("US.134@lid", {"recipient_type": "individual", "recipient": "US.134"}),
        ("US.134", {"recipient_type": "individual", "recipient": "US.134"}),
        ("Y2FwaV9ncm91cDox@g.us", {"recipient_type": "group", "to": "Y2FwaV9ncm91cDox"}),
    ],
)
async def test_recipients(graph: Graph, session: FakeSession, number: str, fields: dict[str, str]) -> None:
    data = await sent(session, TextMessage(number=number, text="hi"))
    assert fields.items() <= graph.sent[0].items()
    jid = {"US.134": "US.134@lid", "16505551234:12@s.whatsapp.net": CHAT}.get(number, number)
    assert data["key"]["remoteJid"] == jid


@pytest.mark.parametrize("number", ["", "12", "ana", "123@lid", "status@broadcast", "1" * 16])
async def test_what_is_no_recipient(session: FakeSession, number: str) -> None:
    with pytest.raises(Invalid, match="number:"):
        await sent(session, TextMessage(number=number, text="hi"))


@pytest.mark.parametrize(
    ("given", "kind", "content", "shown"),
    [
        (
            LocationMessage(number=CUSTOMER, latitude=1.5, longitude=-2, name="HQ"),
            "location",
            {"latitude": 1.5, "longitude": -2, "name": "HQ"},
            {"locationMessage": {"degreesLatitude": 1.5, "degreesLongitude": -2, "name": "HQ"}},
        ),
        (
            ReactionMessage(
                number=CUSTOMER, key=MessageKey(remote_jid=CHAT, id="wamid.1", from_me=True), reaction=""
            ),
            "reaction",
            {"message_id": "wamid.1", "emoji": ""},
            {"reactionMessage": {"key": {"remoteJid": CHAT, "fromMe": True, "id": "wamid.1"}, "text": ""}},
        ),
        (
            TemplateMessage(number=CUSTOMER, name="hello_world", language="en_US"),
            "template",
            {"name": "hello_world", "language": {"code": "en_US"}},
            {"templateMessage": {"name": "hello_world", "language": "en_US", "components": []}},
        ),
        (
            TemplateMessage(
                number=CUSTOMER, name="hello_world", language="en_US", components=({"type": "body"},)
            ),
            "template",
            {"name": "hello_world", "language": {"code": "en_US"}, "components": [{"type": "body"}]},
            {
                "templateMessage": {
                    "name": "hello_world",
                    "language": "en_US",
                    "components": [{"type": "body"}],
                }
            },
        ),
        (
            MediaMessage(
                number=CUSTOMER,
                kind=MediaKind.DOCUMENT,
                url="https://a.example/a.pdf",
                caption="the bill",
                file_name="bill.pdf",
            ),
            "document",
            {"link": "https://a.example/a.pdf", "caption": "the bill", "filename": "bill.pdf"},
            {
                "documentMessage": {
                    "url": "https://a.example/a.pdf",
                    "caption": "the bill",
                    "fileName": "bill.pdf",
                }
            },
        ),
        (
            MediaMessage(number=CUSTOMER, kind=MediaKind.AUDIO, url="https://a.example/a.ogg", is_voice=True),
            "audio",
            {"link": "https://a.example/a.ogg", "voice": True},
            {"audioMessage": {"url": "https://a.example/a.ogg", "ptt": True}},
        ),
    ],
)
async def test_other_messages(
    graph: Graph, session: FakeSession, given: Message, kind: str, content: Any, shown: Any
) -> None:
    data = await sent(session, given)
    assert (graph.sent[0]["type"], graph.sent[0][kind]) == (kind, content)
    assert data["message"] == shown
    assert [data["messageType"]] == list(shown)


async def test_contacts(graph: Graph, session: FakeSession) -> None:
    ana = Contact(
        full_name="Ana",
        phone_number="+55 11 2345",
        organization="X",
        email="a@x.example",
        url="https://x.example",
    )
    data = await sent(session, ContactMessage(number=CUSTOMER, contacts=(ana,)))
    assert graph.sent[0]["contacts"] == [
        {
            "name": {"formatted_name": "Ana", "first_name": "Ana"},
            "phones": [{"phone": "+55 11 2345", "type": "CELL", "wa_id": "55112345"}],
            "org": {"company": "X"},
            "emails": [{"email": "a@x.example", "type": "WORK"}],
            "urls": [{"url": "https://x.example", "type": "WORK"}],
        }
    ]
    assert data["message"]["contactMessage"]["vcard"].startswith("BEGIN:VCARD\nVERSION:3.0\nFN:Ana\n")
    both = await sent(session, ContactMessage(number=CUSTOMER, contacts=(ana, Contact(full_name="Bo"))))
    assert len(both["message"]["contactsArrayMessage"]["contacts"]) == 2


@pytest.mark.parametrize(
    ("given", "mimetype"),
    [
        (MediaMessage(number=CUSTOMER, kind=MediaKind.IMAGE, content=b"\x89PNG\r\n\x1a\n--x"), "image/png"),
        (
            MediaMessage(number=CUSTOMER, kind=MediaKind.IMAGE, content=b"?", mimetype="image/jpeg"),
            "image/jpeg",
        ),
        (MediaMessage(number=CUSTOMER, kind=MediaKind.AUDIO, content=b"OggS...", is_voice=True), "audio/ogg"),
        (MediaMessage(number=CUSTOMER, kind=MediaKind.AUDIO, content=b"\0\0\0\x18ftypM4A "), "audio/mp4"),
        # As text-to-speech services send it: MPEG 2 Layer III without a tag, and ADTS.
        (MediaMessage(number=CUSTOMER, kind=MediaKind.AUDIO, content=b"\xff\xf3\xe4\xc4"), "audio/mpeg"),
        (MediaMessage(number=CUSTOMER, kind=MediaKind.AUDIO, content=b"\xff\xf1\x50\x80"), "audio/aac"),
        (MediaMessage(number=CUSTOMER, kind=MediaKind.VIDEO, content=b"\0\0\0\x18ftypisom"), "video/mp4"),
        (MediaMessage(number=CUSTOMER, kind=MediaKind.STICKER, content=b"RIFF\0\0\0\0WEBPVP8"), "image/webp"),
        (
            MediaMessage(number=CUSTOMER, kind=MediaKind.DOCUMENT, content=b"a", file_name="a.txt"),
            "text/plain",
        ),
        (MediaMessage(number=CUSTOMER, kind=MediaKind.IMAGE, content=b"?"), "image/jpeg"),
    ],
)
async def test_files_are_uploaded(
    graph: Graph, session: FakeSession, given: MediaMessage, mimetype: str
) -> None:
    data = await sent(session, given)
    [(id_, file)] = graph.media.items()
    assert (file.content, file.mimetype, file.number) == (given.content, mimetype, NUMBER)
    assert graph.sent[0][given.kind.value]["id"] == id_
    shown = data["message"][f"{given.kind.value}Message"]
    assert session.media[shown["url"]] == (id_, mimetype, given.file_name or shown["fileName"])
    assert (shown["mediaId"], shown["fileLength"]) == (id_, str(len(given.content or b"")))


async def test_what_cannot_be_sent(graph: Graph, session: FakeSession) -> None:
    with pytest.raises(Invalid, match="text"):
        await sent(session, TextMessage(number=CUSTOMER, text=""))
    with pytest.raises(Invalid, match="mimetype"):
        await sent(
            session, MediaMessage(number=CUSTOMER, kind=MediaKind.IMAGE, content=b"x", mimetype="x\r\ny")
        )
    reply = MessageKey(remote_jid=CHAT, id="no\nid")
    with pytest.raises(Invalid, match=r"key\.id"):
        await sent(session, TextMessage(number=CUSTOMER, text="hi", reply_to=reply))
    assert graph.sent == []


def test_it_sends_everything() -> None:
    assert set(WhatsAppCloud.message_types) == set(get_args(Message))


# Refusals


@pytest.mark.parametrize(
    ("code", "http_status", "status", "retry_after"),
    [
        (130429, 400, 429, 1.0),
        (131048, 400, 429, 3600.0),
        (131056, 400, 429, 6.0),
        (80007, 400, 429, 300.0),
        (4, 403, 429, 300.0),
        (613, 400, 429, 60.0),
        (190, 401, 409, None),
        (131047, 400, 409, None),
        (131026, 400, 422, None),
        (131030, 400, 403, None),
        (10, 403, 403, None),
        (200, 403, 403, None),
        (100, 400, 400, None),
        (132001, 404, 422, None),
        (131016, 500, 502, None),
        (2, 200, 502, None),
        (5555, 429, 429, 60.0),
    ],
)
async def test_refusals(
    graph: Graph, session: FakeSession, code: int, http_status: int, status: int, retry_after: float | None
) -> None:
    graph.will("messages", refusal(code, http_status, error_data={"details": "The details"}))
    with pytest.raises(NetworkRefused) as refused:
        await sent(session, HELLO)
    error = refused.value
    assert (error.code, error.status, error.retry_after) == (str(code), status, retry_after)
    assert str(error).startswith("Title. The details.")
    assert str(error).endswith(f"(code {code})")


async def test_how_long_to_wait(graph: Graph, session: FakeSession) -> None:
    usage = {"102290129340398": [{"type": "messaging", "estimated_time_to_regain_access": 7}], "x": 3}
    for headers, wait in (
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "Thu, 01 Jan 2099 00:00:00 GMT"}, 86_400.0),
        ({"retry-after": "9" * 30}, 86_400.0),
        ({"x-business-use-case-usage": json.dumps(usage)}, 420.0),
        ({"x-business-use-case-usage": json.dumps(usage).replace("7", "9000")}, 86_400.0),
        ({"x-business-use-case-usage": "{"}, 300.0),
    ):
        graph.will("messages", refusal(80007, headers=headers))
        with pytest.raises(NetworkRefused) as refused:
            await sent(session, HELLO)
        assert (refused.value.status, refused.value.retry_after) == (429, wait)


async def test_a_closed_window_says_what_to_do(graph: Graph, session: FakeSession) -> None:
    graph.closed_windows.add(CUSTOMER)
    with pytest.raises(NetworkRefused) as refused:
        await sent(session, HELLO)
    assert refused.value.code == "131047"
    assert "The 24-hour window is over" in str(refused.value)
    assert "sendTemplate" in str(refused.value)
    await sent(session, TemplateMessage(number=CUSTOMER, name="hello_world", language="en_US"))


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ReadError("reset"),
        httpx.Response(200, text='{"messages": [{"id"'),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={}),
        httpx.Response(200, json={"messages": [], "contacts": "x"}),
        httpx.Response(200, json={"messages": [{"id": 5}]}),
        httpx.Response(200, json={"error": {"code": "x"}}),
        httpx.Response(503, text="[" * 100_000),
        httpx.Response(302, headers={"location": "https://evil.example"}),
    ],
)
async def test_faults_of_a_send(
    graph: Graph, session: FakeSession, fault: httpx.Response | Exception
) -> None:
    graph.will("messages", fault)
    async with connected(session) as cloud:
        with pytest.raises(NetworkRefused) as refused:
            await cloud.send(session, HELLO, key="1")
        assert refused.value.status == 502
        assert (await cloud.send(session, HELLO, key="2"))["key"]["id"]
        assert session.state is ConnectionState.OPEN


async def test_an_upload_whose_answer_is_no_id(graph: Graph, session: FakeSession) -> None:
    graph.will("upload", httpx.Response(200, json={"id": None}))
    with pytest.raises(NetworkRefused, match="did not say where"):
        await sent(session, MediaMessage(number=CUSTOMER, kind=MediaKind.IMAGE, content=b"x"))
    assert graph.sent == []


# Other calls


async def test_reading_and_typing(graph: Graph, session: FakeSession) -> None:
    first, second = text_message("1"), text_message("2")
    graph.incoming |= {first["id"], second["id"]}
    async with connected(session) as cloud:
        with pytest.raises(NetworkRefused, match="none has arrived") as refused:
            await cloud.set_presence(session, "composing", number=CUSTOMER, delay=1)
        assert refused.value.status == 409
        await cloud.ingest(session, posted(notification(value(messages=[first, second]))))
        await cloud.ingest(session, posted(notification(value(messages=[first]))))  # Meta repeats it
        await cloud.mark_read(session, [MessageKey(remote_jid=CHAT, id=first["id"])])
        await cloud.set_presence(session, "recording", number=CHAT, delay=1)
        await cloud.set_presence(session, "paused", number=CHAT, delay=0)
        with pytest.raises(NotSupported):
            await cloud.set_presence(session, "available", number=None, delay=0)
    assert graph.read == [first["id"], f"{second['id']} typing"]


async def test_received_messages_are_marked_as_read(graph: Graph, session: FakeSession) -> None:
    session.settings = InstanceSettings(read_messages=True)
    messages = [text_message(str(number)) for number in range(1100)]
    graph.incoming |= {one["id"] for one in messages}
    graph.will("messages", httpx.ReadError("reset"))
    async with connected(session) as cloud:
        for _ in range(2):
            await cloud.ingest(session, posted(notification(value(messages=messages[:3]))))
        await cloud.ingest(session, posted(notification(value(statuses=[status("wamid.1", "read")]))))
        await wait_all_tasks_blocked()
        assert graph.read == [one["id"] for one in messages[1:3]]  # the first was lost, and is covered
        await cloud.ingest(session, posted(notification(value(messages=messages[3:]))))
    assert len(session.data_of("MESSAGES_UPSERT")) == 1100


# Requests of Meta


async def test_requests(session: FakeSession) -> None:
    body = notification(
        value(messages=[text_message("1"), text_message("2")]), value(messages=[text_message("3")])
    )
    async with connected(session) as cloud:
        for _ in range(3):
            assert await cloud.ingest(session, posted(body)) == IngestResponse()
        with pytest.raises(ProofRefused):
            await cloud.ingest(session, posted(body, "another secret"))
        with pytest.raises(ProofRefused):
            await cloud.ingest(session, IngestRequest(method="POST", query={}, headers={}, body=encode(body)))
        with pytest.raises(Invalid):
            await cloud.ingest(session, posted(b"{"))
        query = {"hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN, "hub.challenge": "42"}
        check = IngestRequest(method="GET", query=query, headers={}, body=b"")
        assert (await cloud.ingest(session, check)).body == b"42"
        wrong = IngestRequest(method="GET", query={**query, "hub.verify_token": "x"}, headers={}, body=b"")
        assert (await cloud.ingest(session, wrong)).status == 403
    assert texts(session) == ["1", "2", "3"]
    assert len(session.repeated) == 6
    with pytest.raises(Unavailable):
        await cloud.ingest(session, posted(body))


async def test_repeats_in_other_company_are_one_event(session: FakeSession) -> None:
    one, two = text_message("1"), text_message("2")
    read = status("wamid.x", "read")
    async with connected(session) as cloud:
        for body in (
            notification(value(messages=[one]), value(statuses=[read])),
            notification(value(messages=[two, one])),
            notification(value(statuses=[status("wamid.x", "delivered"), read])),
        ):
            await cloud.ingest(session, posted(body))
    assert texts(session) == ["1", "2"]
    assert [data["status"] for data in session.data_of("MESSAGES_UPDATE")] == ["READ", "DELIVERY_ACK"]


async def test_who_answers_a_conversation_is_told_to_its_number(session: FakeSession) -> None:
    told = {"type": "control_passed", "sender": {"phone_number": CUSTOMER}, "timestamp": "1750101000"}
    changes = [
        {**told, "recipient": {"phone_number_id": number, "display_phone_number": "15550783881"}}
        for number in ("777", NUMBER)
    ]
    async with connected(session) as cloud:
        for change in changes:
            await cloud.ingest(session, posted(notification(change, field="messaging_handovers")))
    [found] = [one for one in session.events if one.kind == "NETWORK_EVENT"]
    assert session.data_of("NETWORK_EVENT") == [
        {"network": "whatsapp_cloud", "name": "messaging_handovers", "value": changes[1]}
    ]
    assert found.sender == "15550783881@s.whatsapp.net"


async def test_other_numbers_are_other_instances(session: FakeSession) -> None:
    mine, other = value(messages=[text_message("mine")]), value(messages=[text_message("x")], number="777")
    account = notification({"event": "VERIFIED_ACCOUNT"}, field="account_update")
    with structlog.testing.capture_logs() as logs:
        async with connected(session) as cloud:
            for body in (notification(other, mine), notification(other), account):
                assert await cloud.ingest(session, posted(body)) == IngestResponse()
    assert texts(session) == ["mine"]
    assert [(log["event"], log["phone_number_id"]) for log in logs] == [
        ("request for another phone number", "777")
    ]
    # What hookgw has no kind for is not lost.
    [found] = session.data_of("NETWORK_EVENT")
    assert found == {
        "network": "whatsapp_cloud",
        "name": "account_update",
        "value": {"event": "VERIFIED_ACCOUNT"},
    }


async def test_a_field_without_a_kind_is_passed_on_byte_for_byte_and_once(session: FakeSession) -> None:
    raw = b'{"b": 1.0,"messages":[{}], "a":1}'
    body = b'{"entry":[{"time":%d,"changes":[{"field":"new","value":%b},{"field":"","value":1}]}]}'
    async with connected(session) as cloud:
        for time in (1, 1, 2):
            await cloud.ingest(session, posted(body % (time, raw)))
        await cloud.ingest(session, posted(b'{"entry":[7,{"changes":[3,{"field":"new","value":1}]}]}'))
    found = [event.data_json for event in session.events if event.kind == "NETWORK_EVENT"]
    expected = [b'{"network":"whatsapp_cloud","name":"new","value":%b}' % one for one in (raw, raw, b"1")]
    assert found == expected


async def test_a_part_of_a_long_history_is_passed_on_and_nobody_is_told_that_it_was_left_out(
    session: FakeSession,
) -> None:
    said = [text_message("hi", history_context={"status": "READ"}) for _ in range(3000)]
    whole = value(history=[{"metadata": {"phase": 1}, "threads": [{"id": CUSTOMER, "messages": said}]}])
    async with connected(session) as cloud:
        await cloud.ingest(session, posted(notification(whole, field="history")))
    assert [data["value"] for data in session.data_of("NETWORK_EVENT")] == [whole]
    assert session.left_out == []


async def test_a_wrong_secret_is_found(session: FakeSession) -> None:
    with structlog.testing.capture_logs() as logs:
        async with connected(session) as cloud:
            for _ in range(5):
                with pytest.raises(ProofRefused):
                    await cloud.ingest(session, posted(notification(value()), "another secret"))
                await trio.sleep(1000)
    assert [log["event"] for log in logs] == ["request of meta refused"] * 2


async def test_unreadable_parts_do_not_hold_up_the_others(session: FakeSession) -> None:
    broken: list[Any] = [text_message("x", id=None), text_message("y", **{"from": [], "from_user_id": 3})]
    body = notification(
        value(messages=[*broken, text_message("fine")], contacts=[], errors=[{"code": 131000}])
    )
    async with connected(session) as cloud:
        assert await cloud.ingest(session, posted(body)) == IngestResponse()
    assert texts(session) == ["fine"]


class Strict(FakeSession):
    """Refuses some events, as hookgw does in strict mode."""

    async def emit_all(self, events: Any, **more: Any) -> None:
        for event in events:
            if event.kind == "MESSAGES_UPSERT" and event.data["message"].get("conversation") == "refused":
                raise Invalid("data has 1,048,577 bytes; the limit is 1048576.")
        await super().emit_all(events, **more)


async def test_a_refused_event_does_not_hold_up_the_others(graph: Graph) -> None:
    messages = [text_message(body) for body in ("a", "refused", "b")]
    async with httpx.AsyncClient(transport=httpx.MockTransport(graph.handle)) as http:
        session = Strict(options=OPTIONS, http=http)
        async with connected(session) as cloud:
            assert (
                await cloud.ingest(session, posted(notification(value(messages=messages))))
                == IngestResponse()
            )
    assert texts(session) == ["a", "b"]


class Full(FakeSession):
    """Cannot store events at first."""

    refusals = 1

    async def emit_all(self, events: Any, **more: Any) -> None:
        if self.refusals and any(event.kind == "MESSAGES_UPSERT" for event in events):
            self.refusals -= 1
            raise Unavailable("The disk is full.")
        await super().emit_all(events, **more)


async def test_nothing_is_lost_while_events_cannot_be_stored(graph: Graph) -> None:
    body = notification(value(messages=[text_message("1")]))
    async with httpx.AsyncClient(transport=httpx.MockTransport(graph.handle)) as http:
        session = Full(options=OPTIONS, http=http)
        async with connected(session) as cloud:
            with pytest.raises(Unavailable):
                await cloud.ingest(session, posted(body))
            await cloud.ingest(session, posted(body))
    assert texts(session) == ["1"]


async def test_groups_can_be_ignored(session: FakeSession) -> None:
    session.settings = InstanceSettings(groups_ignore=True)
    messages = [text_message("group", group_id="G1"), text_message("mine")]
    async with connected(session) as cloud:
        await cloud.ingest(session, posted(notification(value(messages=messages))))
    assert texts(session) == ["mine"]


# Files


async def test_files_are_streamed(graph: Graph, session: FakeSession) -> None:
    content = bytes(range(256)) * 1024
    id_ = graph.add_media(content, "image/png")
    async with connected(session) as cloud:
        body = notification(value(messages=[message("image", {"id": id_, "mime_type": "image/png"})]))
        await cloud.ingest(session, posted(body))
        [data] = session.data_of("MESSAGES_UPSERT")
        reference, mimetype, _ = session.media[data["message"]["imageMessage"]["url"]]
        assert (reference, mimetype) == (id_, "image/png")
        sink = FakeMediaSink()
        await cloud.open_media(session, reference, sink)
    assert (sink.content, sink.mimetype, sink.size) == (content, "image/png", len(content))


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/x",
        "http://lookaside.fbsbx.com/x",
        "https://lookaside.fbsbx.com:8443/x",
        "https://a@lookaside.fbsbx.com/x",
        "https://xn--a/x",
        "https://lookaside.fbsbx.com.evil.example/x",
        "https://graph.example:444/x",
        "http://graph.example/x",
        "file:///etc/passwd",
        "",
        "https://[",
    ],
)
async def test_the_token_goes_to_meta_alone(graph: Graph, session: FakeSession, url: str) -> None:
    graph.will("media", httpx.Response(200, json={"url": url, "mime_type": "image/png", "file_size": 1}))
    async with connected(session) as cloud:
        with pytest.raises(NetworkRefused, match="hookgw fetches nothing from there"):
            await cloud.open_media(session, "123", FakeMediaSink())
    assert [path for _, path in graph.requests] == [f"/v26.0/{NUMBER}", "/v26.0/123"]


async def test_files_at_metas_own_host(graph: Graph, session: FakeSession) -> None:
    graph.file_host = "https://lookaside.fbsbx.com"
    sink = FakeMediaSink()
    async with connected(session) as cloud:
        await cloud.open_media(session, graph.add_media(b"x", ""), sink)
    assert (sink.content, sink.mimetype) == (b"x", "application/octet-stream")


@pytest.mark.parametrize("reference", ["../me", "1/2", "", "123?x", "é"])
async def test_links_name_files_alone(graph: Graph, session: FakeSession, reference: str) -> None:
    async with connected(session) as cloud:
        with pytest.raises(NotFound):
            await cloud.open_media(session, reference, FakeMediaSink())
    assert len(graph.requests) == 1


async def test_files_that_are_gone_or_of_others(graph: Graph, session: FakeSession) -> None:
    other, mine = graph.add_media(b"x", "image/png", "777"), graph.add_media(b"x", "image/png")
    async with connected(session) as cloud:
        for reference in ("999", other):
            with pytest.raises(NotFound):
                await cloud.open_media(session, reference, FakeMediaSink())
        graph.will(
            "file", httpx.Response(404), httpx.Response(302, headers={"location": "https://evil.example"})
        )
        with pytest.raises(NotFound):
            await cloud.open_media(session, mine, FakeMediaSink())
        with pytest.raises(NetworkRefused, match="answered with 302"):
            await cloud.open_media(session, mine, FakeMediaSink())
        graph.will("media", refusal(130429))
        with pytest.raises(NetworkRefused) as refused:
            await cloud.open_media(session, mine, FakeMediaSink())
        assert refused.value.status == 429
        graph.will("file", httpx.ReadError("reset"), httpx.Response(500, text="x" * 100_000))
        for _ in range(2):
            with pytest.raises(NetworkRefused) as refused:
                await cloud.open_media(session, mine, FakeMediaSink())
            assert refused.value.status == 502


async def test_files_inside_of_events(graph: Graph) -> None:
    small, large = graph.add_media(b"OggS", "audio/ogg"), graph.add_media(b"x" * 2**20, "audio/ogg")
    messages = [message("audio", {"id": id_, "mime_type": "audio/ogg"}) for id_ in (small, large, "999")]
    async with httpx.AsyncClient(transport=httpx.MockTransport(graph.handle)) as http:
        session = FakeSession(options=OPTIONS, http=http, wants_base64=True)
        async with connected(session) as cloud:
            await cloud.ingest(session, posted(notification(value(messages=messages))))
    first, second, third = session.data_of("MESSAGES_UPSERT")
    assert base64.b64decode(first["message"]["base64"]) == b"OggS"
    assert "base64" not in second["message"]
    assert "base64" not in third["message"]


async def test_slow_files_change_no_order(graph: Graph) -> None:
    """Requests are answered in time and in the order of arrival; a cancelled one lets the others go on."""
    id_ = graph.add_media(b"OggS", "audio/ogg")

    async def slowly(request: httpx.Request) -> httpx.Response:
        if "attachments" in request.url.path:
            await trio.sleep(30)
        return graph.answer(request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(slowly)) as http:
        session = FakeSession(options=OPTIONS, http=http, wants_base64=True)
        async with connected(session) as cloud, trio.open_nursery() as nursery:
            begun = trio.current_time()

            async def post(*messages: dict[str, Any]) -> None:
                await cloud.ingest(session, posted(notification(value(messages=messages))))

            nursery.start_soon(post, message("audio", {"id": id_, "mime_type": "audio/ogg"}))
            await wait_all_tasks_blocked()
            with trio.move_on_after(1):
                await post(text_message("cancelled"))
            nursery.start_soon(post, text_message("2"))
            await wait_all_tasks_blocked()
            nursery.start_soon(
                post, message("audio", {"id": id_, "mime_type": "audio/ogg"}), text_message("4")
            )
            events = await session.wait_for("MESSAGES_UPSERT", 4)
            assert trio.current_time() - begun < FILE_TIME + 2
    kinds = [data["messageType"] for data in events]
    assert kinds == ["audioMessage", "conversation", "audioMessage", "conversation"]
    assert [event["message"].get("base64") for event in events] == [None] * 4


def test_a_send_has_the_event_id_that_a_report_of_it_would_have() -> None:
    # Statuses name the message alone, and messages of the phone are no sends: they never meet.
    assert event_id_of("SEND_MESSAGE", CHAT, "wamid.1") != event_id_of("MESSAGES_UPSERT", "wamid.1")
    assert NewEvent(kind="x", data={}).sender is None
