"""``/message`` and ``/chat`` over a connector that the test controls."""

import base64
import textwrap
from typing import Any, cast

import httpx
import msgspec
import pytest
import trio

from hookgw import (
    ConnectionState,
    Contact,
    ContactMessage,
    Event,
    Gateway,
    LocationMessage,
    MediaKind,
    MediaMessage,
    Message,
    MessageKey,
    NetworkRefused,
    NewEvent,
    ReactionMessage,
    Session,
    TemplateMessage,
    TextMessage,
    event_id_of,
    hookimpl,
)
from hookgw.testing import FakeConnector
from tests.api.conftest import KEY as KEY_OF_API
from tests.api.conftest import slow_request
from tests.api.test_app import shape_of
from tests.public.config import Settings
from tests.public.webhooks import RegistrationChange
from tests.support.observer import Observer
from tests.support.waits import until

KEY = {"remoteJid": "55@fake", "fromMe": False, "id": "M1"}
MESSAGE_KEY = MessageKey(remote_jid="55@fake", id="M1")
OWN_KEY = MessageKey(remote_jid="55@fake", id="M1", from_me=True)


class TextsAlone:
    """A connector with what every connector must have."""

    name = "texts"

    async def run(self, session: Session) -> None:
        await session.set_state(ConnectionState.OPEN)
        await trio.sleep_forever()

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        return {"key": {}, "message": {}, "messageTimestamp": 1}

    @hookimpl
    def hookgw_connectors(self) -> list[Any]:
        return [self]


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
def plugins(connector: FakeConnector, observer: Observer) -> dict[str, object]:
    return {"fake": connector, "observer": observer, "texts": TextsAlone()}


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("loja1", integration="fake")
    await gateway.instances.connect("loja1")
    return gateway


SENT: list[tuple[str, Any, Message]] = [
    ("sendText", {"number": "55", "text": "Oi"}, TextMessage(number="55", text="Oi")),
    (
        "sendText",
        {"number": "55", "text": "Oi", "mentionsEveryOne": True},
        TextMessage(number="55", text="Oi", mentions_everyone=True),
    ),
    (
        "sendText",
        {"number": "55", "textMessage": {"text": "Oi"}, "options": {"mentions": {"everyOne": True}}},
        TextMessage(number="55", text="Oi", mentions_everyone=True),
    ),
    (
        "sendWhatsAppAudio",
        {"number": "55", "audio": "https://x.example/a.ogg", "encoding": False, "everyOne": True},
        MediaMessage(
            number="55",
            kind=MediaKind.AUDIO,
            url="https://x.example/a.ogg",
            is_voice=True,
            may_convert=False,
            mentions_everyone=True,
        ),
    ),
    (
        "sendSticker",
        {"number": "55", "sticker": "data:image/webp;base64,SGVsbG8=", "notConvertSticker": True},
        MediaMessage(number="55", kind=MediaKind.STICKER, content=b"Hello", mimetype="image/webp"),
    ),
    (
        "sendText",
        {
            "number": "55",
            "text": "Oi",
            "quoted": {"key": {"id": "M1"}},
            "mentioned": ["66"],
            "linkPreview": False,
        },
        TextMessage(
            number="55",
            text="Oi",
            reply_to=MessageKey(remote_jid="55", id="M1"),
            mentions=("66",),
            link_preview=False,
        ),
    ),
    (
        "sendText",
        {"number": "55", "text": "Oi", "quoted": {"key": {"id": "M1"}, "message": {"conversation": "Open?"}}},
        TextMessage(
            number="55",
            text="Oi",
            reply_to=MessageKey(remote_jid="55", id="M1"),
            replied={"conversation": "Open?"},
        ),
    ),
    (
        "sendMedia",
        {"number": "55", "mediatype": "image", "media": "https://x.example/a.png", "caption": "A"},
        MediaMessage(number="55", kind=MediaKind.IMAGE, url="https://x.example/a.png", caption="A"),
    ),
    (
        "sendMedia",
        {
            "number": "55",
            "mediaMessage": {
                "mediatype": "document",
                "media": "data:text/plain;base64,SGVsbG8=",
                "fileName": "a.txt",
            },
            "options": {"quoted": {"key": KEY}, "delay": 1},
        },
        MediaMessage(
            number="55",
            kind=MediaKind.DOCUMENT,
            content=b"Hello",
            mimetype="text/plain",
            file_name="a.txt",
            reply_to=MESSAGE_KEY,
            delay=0.001,
        ),
    ),
    (
        "sendWhatsAppAudio",
        {"number": "55", "audio": "SGVsbG8=", "encoding": True},
        MediaMessage(number="55", kind=MediaKind.AUDIO, content=b"Hello", is_voice=True),
    ),
    (
        "sendReaction",
        {"key": KEY, "reaction": "👍"},
        ReactionMessage(number="55@fake", key=MESSAGE_KEY, reaction="👍"),
    ),
    (
        "sendReaction",
        {"reactionMessage": {"key": KEY, "reaction": ""}},
        ReactionMessage(number="55@fake", key=MESSAGE_KEY, reaction=""),
    ),
    (
        "sendLocation",
        {"number": "55", "name": "Shop", "address": "Rua Um, 1", "latitude": -23.5, "longitude": 46},
        LocationMessage(number="55", name="Shop", address="Rua Um, 1", latitude=-23.5, longitude=46.0),
    ),
    (
        "sendContact",
        {"number": "55", "contact": [{"fullName": "Ana", "wuid": "66", "phoneNumber": "+66", "url": "x"}]},
        ContactMessage(number="55", contacts=(Contact(full_name="Ana", phone_number="+66", url="x"),)),
    ),
    (
        "sendContact",
        {"number": "55", "contactMessage": [{"fullName": "Ana"}]},
        ContactMessage(number="55", contacts=(Contact(full_name="Ana"),)),
    ),
    (
        "sendTemplate",
        {"number": "55", "name": "ready", "language": "pt_BR", "components": [{"type": "body"}]},
        TemplateMessage(number="55", name="ready", language="pt_BR", components=({"type": "body"},)),
    ),
]


async def test_what_is_sent(client: httpx.AsyncClient, connector: FakeConnector, observer: Observer) -> None:
    for call, body, message in SENT:
        response = await client.post(f"/message/{call}/loja1", json=body)
        assert response.status_code == 201
        assert connector.sent[-1].message == message
        assert observer.data_of("SEND_MESSAGE")[-1] == response.json()
    assert len(observer.data_of("SEND_MESSAGE")) == len(SENT)


async def test_a_report_of_the_network_of_what_was_sent_is_the_same_event(
    gateway: Gateway, connector: FakeConnector, observer: Observer
) -> None:
    sent = await gateway.messages.send("loja1", TextMessage(number="5511", text="hi"))
    event_id = event_id_of("SEND_MESSAGE", sent["key"]["remoteJid"], sent["key"]["id"])
    reported = NewEvent(kind="SEND_MESSAGE", data=sent, event_id=event_id)
    other = NewEvent(kind="SEND_MESSAGE", data=sent, sender="other@fake")
    await connector.session("loja1").emit_all([reported, other])
    senders = [event.sender for event in observer.events if event.kind == "SEND_MESSAGE"]
    assert senders == ["loja1@fake", "other@fake"]


@pytest.mark.parametrize("is_nested", [True, False])
async def test_a_report_of_the_network_of_what_was_deleted_is_the_same_event(
    gateway: Gateway, connector: FakeConnector, observer: Observer, *, is_nested: bool
) -> None:
    key = MessageKey(remote_jid="5511@fake", id="ABC", from_me=True)
    event_id = event_id_of("MESSAGES_DELETE", key.remote_jid, key.id)
    flat = {"remoteJid": key.remote_jid, "fromMe": True, "id": key.id}
    reported = NewEvent(
        kind="MESSAGES_DELETE", data={"id": "1", "key": flat} if is_nested else flat, event_id=event_id
    )
    await connector.session("loja1").emit_all([reported])
    await gateway.messages.delete("loja1", key)
    assert len(observer.data_of("MESSAGES_DELETE")) == 1


@pytest.mark.parametrize(
    ("call", "body", "problems"),
    [
        ("sendText", [1], ["The body must be an object, not a list."]),
        ("sendText", {"number": "5"}, ["text is missing."]),
        (
            "sendMedia",
            {"mediatype": "film", "media": "?"},
            [
                "number is missing.",
                "mediatype must be one of image, video, audio, document, sticker.",
                "media must be an http or https URL, base64, or a data: URL with base64.",
            ],
        ),
        ("sendMedia", {"number": "5", "mediaMessage": 1}, ["mediaMessage must be an object, not a number."]),
        ("sendReaction", {"key": {"id": "1"}}, ["key.remoteJid is missing.", "reaction is missing."]),
        (
            "sendLocation",
            {"number": "5", "latitude": 91, "longitude": "1"},
            ["latitude must be a number from -90 to 90.", "longitude must be a number from -180 to 180."],
        ),
        ("sendContact", {"number": "5", "contact": []}, ["contact must have at least one item."]),
        ("sendContact", {"number": "5", "contact": [{}]}, ["contact[0].fullName is missing."]),
        ("sendTemplate", {"number": "5", "name": ""}, ["name must have 1 to", "language is missing."]),
    ],
)
async def test_what_is_refused(
    client: httpx.AsyncClient, connector: FakeConnector, call: str, body: Any, problems: list[str]
) -> None:
    response = await client.post(f"/message/{call}/loja1", json=body)
    assert response.status_code == 400
    found = shape_of(response)
    assert [sentence[: len(wanted)] for sentence, wanted in zip(found, problems, strict=True)] == problems
    assert connector.sent == []


@pytest.mark.parametrize(
    ("call", "field"), [("sendMedia", {"mediatype": "image"}), ("sendWhatsAppAudio", {}), ("sendSticker", {})]
)
async def test_an_upload(
    client: httpx.AsyncClient, connector: FakeConnector, call: str, field: dict[str, str]
) -> None:
    content = bytes(range(256)) * 1000
    response = await client.post(
        f"/message/{call}/loja1",
        data={"number": "55", "quoted": '{"key": {"id": "M1"}}', **field},
        files={"file": ("a.png", content, "image/png")},
    )
    assert response.status_code == 201, response.text
    message = connector.sent[0].message
    assert isinstance(message, MediaMessage)
    assert (message.content, message.mimetype, message.number) == (content, "image/png", "55")
    assert message.file_name == ("a.png" if call == "sendMedia" else "")
    assert message.reply_to == MessageKey(remote_jid="55", id="M1")


FORM = "multipart/form-data; boundary=x"


@pytest.mark.parametrize(
    ("content_type", "body", "status", "problem"),
    [
        ("multipart/form-data", b"", 400, "no boundary"),
        (FORM, b"--x\r\n", 400, "is not a form"),
        (
            FORM,
            b'--x\r\nContent-Disposition: form-data; name="number"\r\n\r\n\xff\r\n--x--',
            400,
            "not a form",
        ),
        (
            FORM,
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 2 + b"--x--",
            400,
            "a twice",
        ),
        (
            FORM,
            b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n1\r\n' * 2 + b"--x--",
            400,
            "more than one file",
        ),
        (FORM, b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 51 + b"--x--", 400, ""),
        ("text/plain", b"x", 415, "must be application/json or multipart/form-data"),
    ],
)
async def test_a_bad_upload(
    client: httpx.AsyncClient, content_type: str, body: bytes, status: int, problem: str
) -> None:
    headers = {"content-type": content_type}
    response = await client.post("/message/sendMedia/loja1", content=body, headers=headers)
    assert response.status_code == status
    assert problem in shape_of(response)[0]


@pytest.mark.parametrize(
    "spelled",
    ["plain", "data", "php", "dotnet", "lines", "lines and an end", "two spaces", "spaces", "unpadded"],
)
async def test_a_large_file_as_base64(
    client: httpx.AsyncClient, connector: FakeConnector, spelled: str
) -> None:
    content = bytes(range(255)) * 2000
    text = base64.b64encode(content).decode()
    written = {
        "plain": text,
        "data": f"data:image/png;base64,{text}",
        "php": text.replace("/", "\\/"),
        "dotnet": text.replace("+", "\\u002B"),
        "lines": "\\r\\n".join(text[at : at + 76] for at in range(0, len(text), 76)),
        "lines and an end": text + "\\r\\n" * 20_000,
        # What becomes of line breaks where somebody replaces each character.
        "two spaces": "  ".join(text[at : at + 76] for at in range(0, len(text), 76)),
        "spaces": " " * 70_000 + text + " " * 70_000,
        "unpadded": text.rstrip("="),
    }[spelled]
    body = f'{{"number": "55", "mediatype": "image", "caption": "a \\"b\\"", "media": "{written}"}}'
    headers = {"content-type": "application/json"}
    response = await client.post("/message/sendMedia/loja1", content=body, headers=headers)
    assert response.status_code == 201, response.text[:200]
    message = connector.sent[0].message
    assert isinstance(message, MediaMessage)
    assert message.content == content
    assert (message.caption, message.mimetype) == ('a "b"', "image/png" if spelled == "data" else None)


@pytest.mark.parametrize(
    "text",
    [
        "A" * 99_999 + "?",
        "A" * 70_000 + "=" * 8 + "A" * 70_000,
        "A" * 131_068 + "==" + "AAAA",
        "A" * 131_069,
        '\\"' + "A" * 100_000,
        "A" * 65_535 + "\\u00" + "A" * 70_000,
        "\n" + "A" * 100_000,
        " " * 100_000,
        "é" * 100_000,
        "https://x.example/" + "a" * 2031,
    ],
)
async def test_a_long_text_that_is_no_base64(client: httpx.AsyncClient, text: str) -> None:
    body = f'{{"number": "55", "mediatype": "image", "media": "{text}"}}'
    headers = {"content-type": "application/json"}
    response = await client.post("/message/sendMedia/loja1", content=body.encode(), headers=headers)
    assert response.status_code == 400
    assert shape_of(response) == ["media must be an http or https URL, base64, or a data: URL with base64."]


@pytest.mark.parametrize("head", ["", "data:image/png;base64,"])
async def test_a_large_file_as_base64_in_a_form(
    client: httpx.AsyncClient, connector: FakeConnector, head: str
) -> None:
    content = bytes(range(255)) * 2000
    text = head + "\r\n".join(textwrap.wrap(base64.b64encode(content).decode(), 76))
    form = {"number": (None, "55"), "mediatype": (None, "image"), "media": (None, text)}
    response = await client.post("/message/sendMedia/loja1", files=form)
    assert response.status_code == 201, response.text[:200]
    message = connector.sent[0].message
    assert isinstance(message, MediaMessage)
    assert (message.content, message.mimetype) == (content, "image/png" if head else None)


async def test_only_the_file_may_be_large(client: httpx.AsyncClient, connector: FakeConnector) -> None:
    """What is beside it is decoded in one step, which holds up everybody."""
    numbers = "1," * 2**19
    for media in ("http://x.example/a.png", "A" * 100_000):
        body = f'{{"number": "55", "mediatype": "image", "media": "{media}", "quoted": [{numbers}1]}}'
        headers = {"content-type": "application/json"}
        response = await client.post("/message/sendMedia/loja1", content=body, headers=headers)
        assert response.status_code == 413
        assert shape_of(response) == ["Beside its file, the body may have at most 1MiB."]
        form = {"number": (None, "55"), "mediatype": (None, "image"), "media": (None, media)}
        response = await client.post("/message/sendMedia/loja1", files=form | {"quoted": (None, numbers)})
        assert response.status_code == 413
    assert connector.sent == []


async def test_a_long_caption_is_no_file(client: httpx.AsyncClient, connector: FakeConnector) -> None:
    body = {"number": "55", "mediatype": "image", "caption": "A" * 65_536, "media": "SGVsbG8="}
    assert (await client.post("/message/sendMedia/loja1", json=body)).status_code == 201
    message = connector.sent[0].message
    assert isinstance(message, MediaMessage)
    assert (message.caption, message.content) == ("A" * 65_536, b"Hello")
    body["caption"] = 'A"media":"\n' * 5000
    assert (await client.post("/message/sendMedia/loja1", json=body)).status_code == 201
    message = connector.sent[1].message
    assert isinstance(message, MediaMessage)
    assert (message.caption, message.content) == (body["caption"], b"Hello")
    for field in ("caption", "fileName", "number"):
        response = await client.post("/message/sendMedia/loja1", json=body | {field: "A" * 70_000})
        assert response.status_code == 400
        assert shape_of(response)[0].startswith(f"{field} must have ")


# hookgw closes when it has refused, and httpx leaves its generator of the rest of the body behind.
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_an_upload_has_a_limit_of_its_own(client: httpx.AsyncClient, connector: FakeConnector) -> None:
    files = {"file": ("a", b"x" * 2 * 2**20, "image/png")}
    response = await client.post(
        "/message/sendMedia/loja1", data={"number": "1", "mediatype": "image"}, files=files
    )
    assert response.status_code == 201
    files = {"file": ("a", b"x" * 17 * 2**20, "image/png")}
    response = await client.post(
        "/message/sendMedia/loja1", data={"number": "1", "mediatype": "image"}, files=files
    )
    assert response.status_code == 413
    response = await client.post("/message/sendText/loja1", json={"number": "1", "text": "x" * 2**20})
    assert response.status_code == 413


# /chat


async def test_messages_are_marked_as_read(
    client: httpx.AsyncClient, connector: FakeConnector, observer: Observer
) -> None:
    body = {"readMessages": [KEY, {"remoteJid": "66@fake", "id": "M2", "participant": "7"}]}
    response = await client.post("/chat/markMessageAsRead/loja1", json=body)
    assert (response.status_code, response.json()) == (201, {"message": "Read messages", "read": "success"})
    other = MessageKey(remote_jid="66@fake", id="M2", participant="7")
    assert connector.calls_of("mark_read") == [{"keys": (MESSAGE_KEY, other)}]
    status = {"fromMe": False, "status": "READ"}
    assert observer.data_of("MESSAGES_UPDATE") == [
        {"keyId": "M1", "remoteJid": "55@fake", **status},
        {"keyId": "M2", "remoteJid": "66@fake", **status, "participant": "7"},
    ]


@pytest.mark.parametrize(
    ("body", "delay"),
    [
        ({"number": "55", "presence": "composing", "delay": 1500}, 1.5),
        ({"number": "55", "presence": "composing"}, 5.0),
        ({"number": "55", "options": {"presence": "composing", "delay": 20_000}}, 20.0),
    ],
)
async def test_a_presence(
    client: httpx.AsyncClient, connector: FakeConnector, body: dict[str, Any], delay: float
) -> None:
    response = await client.post("/chat/sendPresence/loja1", json=body)
    assert (response.status_code, response.json()) == (201, {"presence": "composing"})
    shown = {"presence": "composing", "number": "55", "delay": delay}
    assert connector.calls_of("set_presence") == [shown]


async def test_a_message_is_edited(
    client: httpx.AsyncClient, connector: FakeConnector, observer: Observer
) -> None:
    response = await client.post(
        "/chat/updateMessage/loja1", json={"key": KEY | {"fromMe": None}, "text": "new"}
    )
    assert response.status_code == 200
    assert connector.calls_of("edit") == [{"key": OWN_KEY, "text": "new", "number": "55@fake"}]
    assert observer.data_of("MESSAGES_EDITED") == [response.json()]


async def test_a_message_is_deleted(
    client: httpx.AsyncClient, connector: FakeConnector, observer: Observer
) -> None:
    body = {"remoteJid": "55@fake", "id": "M1"}
    response = await client.request("DELETE", "/chat/deleteMessageForEveryone/loja1", json=body)
    assert response.status_code == 201
    assert connector.calls_of("delete") == [{"key": OWN_KEY}]
    assert observer.data_of("MESSAGES_DELETE") == [response.json()]


class TestWithoutTheKindOfItsEvent:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        plugins = msgspec.structs.replace(settings.plugins, disabled=("gateway_kinds",))
        return msgspec.structs.replace(settings, plugins=plugins)

    async def test_a_call_works(
        self, client: httpx.AsyncClient, gateway: Gateway, observer: Observer
    ) -> None:
        assert "MESSAGES_DELETE" not in gateway.catalog
        body = {"remoteJid": "55@fake", "id": "M1"}
        response = await client.request("DELETE", "/chat/deleteMessageForEveryone/loja1", json=body)
        assert response.status_code == 201
        assert observer.data_of("MESSAGES_DELETE") == []


async def test_numbers_are_looked_up(client: httpx.AsyncClient) -> None:
    response = await client.post("/chat/whatsappNumbers/loja1", json={"numbers": ["55", 66]})
    assert response.status_code == 200
    assert response.json() == [
        {"number": "55", "exists": True, "jid": "55@fake"},
        {"number": "66", "exists": True, "jid": "66@fake"},
    ]


# Errors.

CHAT_CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/chat/markMessageAsRead", {"readMessages": [KEY]}),
    ("POST", "/chat/sendPresence", {"number": "5", "presence": "paused"}),
    ("POST", "/chat/updateMessage", {"key": KEY, "text": "new"}),
    ("PUT", "/chat/markMessageAsRead", {"read_messages": [KEY]}),
    ("PUT", "/chat/updateMessage", {"key": KEY, "text": "new"}),
    ("DELETE", "/chat/deleteMessageForEveryone", KEY),
    ("POST", "/chat/whatsappNumbers", {"numbers": ["5"]}),
]
CALLS = [*(("POST", f"/message/{call}", body) for call, body, _ in SENT), *CHAT_CALLS]


async def test_no_connector_and_no_connection(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja2")
    await gateway.instances.logout("loja1")
    for method, path, body in CALLS:
        response = await client.request(method, f"{path}/loja2", json=body)
        assert (response.status_code, "has no connector" in shape_of(response)[0]) == (409, True)
        response = await client.request(method, f"{path}/loja1", json=body)
        assert (response.status_code, "is not connected" in shape_of(response)[0]) == (409, True)
        assert (await client.request(method, f"{path}/loja1", json=5)).status_code == 400


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "multipart/form-data"])
async def test_a_call_that_the_network_lacks_gets_501_whatever_is_in_its_body(
    client: httpx.AsyncClient, gateway: Gateway, content_type: str
) -> None:
    await gateway.instances.create("loja2", integration="texts")
    headers = {"content-type": content_type}
    lacking = [(method, path) for method, path, _ in CALLS if path != "/message/sendText"]
    for method, path in lacking:
        response = await client.request(method, f"{path}/loja2", content=b"odd", headers=headers)
        assert response.status_code == 501
        call = path.rpartition("/")[2]
        assert shape_of(response) == [f"The connector 'texts' does not support {call}."]


async def test_the_networks_refusal_reaches_the_caller(
    client: httpx.AsyncClient, connector: FakeConnector
) -> None:
    refusal = NetworkRefused("Too fast.", code="M_LIMIT_EXCEEDED", status=429, retry_after=61.5)
    connector.faults = dict.fromkeys(("mark_read", "set_presence", "edit", "delete", "find_numbers"), refusal)
    for method, path, body in CHAT_CALLS:
        response = await client.request(method, f"{path}/loja1", json=body)
        assert (response.status_code, response.headers["retry-after"]) == (429, "62")
        assert response.json()["response"] == {
            "message": ["Too fast."],
            "errors": [{"id": "text", "values": {"text": "Too fast."}}],
            "code": "M_LIMIT_EXCEEDED",
        }


async def test_a_number_that_the_network_does_not_know_is_named(
    client: httpx.AsyncClient, connector: FakeConnector
) -> None:
    unknown = {"5511988887777": "5511988887777@s.whatsapp.net", "odd": 5}
    reason = "5511988887777 is not on WhatsApp."
    connector.refusal = NetworkRefused(reason, status=400, unknown_numbers=cast("Any", unknown))
    response = await client.post("/message/sendText/loja1", json={"number": "5511988887777", "text": "Oi"})
    assert response.status_code == 400
    jid, number = "5511988887777@s.whatsapp.net", "5511988887777"
    assert response.json()["response"] == {
        "message": [{"jid": jid, "number": number, "exists": False}, reason],
        "errors": [
            {"id": "number.not_on_network", "values": {"number": number, "jid": jid}},
            {"id": "text", "values": {"text": reason}},
        ],
    }


async def test_a_refused_send_is_not_repeated_by_hookgw(
    client: httpx.AsyncClient, connector: FakeConnector, observer: Observer
) -> None:
    connector.refusal = NetworkRefused("Too fast.", status=429, retry_after=300)
    response = await client.post("/message/sendText/loja1", json={"number": "5", "text": "Oi"})
    assert (response.status_code, response.headers["retry-after"]) == (429, "300")
    assert observer.data_of("SEND_MESSAGE") == []


# Idempotency-Key.


async def test_the_callers_key_reaches_the_connector(
    client: httpx.AsyncClient, connector: FakeConnector
) -> None:
    body = {"number": "55", "text": "Oi"}
    await client.post("/message/sendText/loja1", json=body, headers={"idempotency-key": "order-42/ready"})
    for _ in range(2):
        await client.post("/message/sendText/loja1", json=body)
    keys = [sent.key for sent in connector.sent]
    assert keys[0] == "order-42/ready"
    assert len(set(keys)) == 3


async def test_a_repetition_does_not_send_twice(client: httpx.AsyncClient, connector: FakeConnector) -> None:
    body, headers = {"number": "55", "text": "Oi"}, {"idempotency-key": "a"}
    first = await client.post("/message/sendText/loja1", json=body, headers=headers)
    second = await client.post("/message/sendText/loja1", json=body, headers=headers)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert len(connector.sent) == 1
    other = await client.post("/message/sendText/loja1", json=body | {"text": "Tchau"}, headers=headers)
    assert other.status_code == 422
    assert "another message" in shape_of(other)[0]


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 256])
async def test_a_bad_key(client: httpx.AsyncClient, key: str) -> None:
    response = await client.post(
        "/message/sendText/loja1",
        json={"number": "55", "text": "Oi"},
        headers=[(b"idempotency-key", key.encode())],
    )
    assert response.status_code == 400
    assert shape_of(response) == ["Idempotency-Key must be 1 to 255 visible ASCII characters."]


async def test_a_sticker_of_a_client_of_evolution_api_1(
    client: httpx.AsyncClient, connector: FakeConnector
) -> None:
    client.event_hooks = {}  # the document names one form of the field
    body = {"number": "55", "stickerMessage": {"image": "https://x.example/a.webp"}}
    assert (await client.post("/message/sendSticker/loja1", json=body)).status_code == 201
    message = MediaMessage(number="55", kind=MediaKind.STICKER, url="https://x.example/a.webp")
    assert connector.sent[-1].message == message


# Delays.


async def test_a_delay_is_honoured(client: httpx.AsyncClient, connector: FakeConnector) -> None:
    for body in ({"delay": 20}, {"options": {"delay": 20.0}}, {"delay": 0}, {"delay": None}):
        sent = await client.post("/message/sendText/loja1", json={"number": "55", "text": "Oi", **body})
        assert sent.status_code == 201
    assert [one["presence"] for one in connector.calls_of("set_presence")] == ["composing", "composing"]
    assert [call["delay"] for call in connector.calls_of("set_presence")] == [0.02, 0.02]


@pytest.mark.parametrize("delay", [-1, 60_001, 1.5, "1200", True, []])
async def test_a_bad_delay(client: httpx.AsyncClient, connector: FakeConnector, delay: Any) -> None:
    for body in ({"delay": delay}, {"options": {"delay": delay}}):
        sent = await client.post("/message/sendText/loja1", json={"number": "55", "text": "Oi", **body})
        assert sent.status_code == 400
        assert "delay must be a whole number from 0 to 60000." in shape_of(sent)[0]
    assert connector.sent == []


@pytest.mark.parametrize("how", ["close", "end its side"])
async def test_a_client_that_closes_its_connection_meanwhile_sends_nothing(
    client: httpx.AsyncClient, connector: FakeConnector, how: str
) -> None:
    body = '{"number": "55", "text": "first", "delay": 60000}'
    async with slow_request(client, "/message/sendText/loja1", body, apikey=KEY_OF_API) as request:
        await request.send_body()
        await until(lambda: connector.calls_of("set_presence"))
        if how == "close":
            await request.stream.aclose()
        else:
            await request.stream.send_eof()
        # It waits in line, but not for a minute.
        with trio.fail_after(20):
            sent = await client.post("/message/sendText/loja1", json={"number": "55", "text": "second"})
    assert sent.status_code == 201
    assert [one.message for one in connector.sent] == [TextMessage(number="55", text="second")]


# Chats and contacts.


@pytest.fixture
async def heard(gateway: Gateway) -> None:
    """Somebody hears the events, so that they are in the history."""
    await gateway.registrations.set("loja1", "default", RegistrationChange(url="http://127.0.0.1:9/x"))
    for number, name in (("55", "Ana"), ("66", "Bia"), ("77", "Caio")):
        key = {"remoteJid": f"{number}@fake", "fromMe": False, "id": f"M{number}"}
        data = {"key": key, "pushName": name, "message": {"conversation": "Oi"}, "messageTimestamp": 17}
        await gateway.events.accept(
            [
                Event(
                    id=f"e{number}",
                    kind="MESSAGES_UPSERT",
                    instance="loja1",
                    data_json=Event.encode(data),
                    time=1.8e9 + int(number),
                )
            ]
        )


async def test_chats(client: httpx.AsyncClient, heard: None) -> None:
    response = await client.post("/chat/findChats/loja1", json={})
    assert response.status_code == 200
    assert [chat["remoteJid"] for chat in response.json()] == ["77@fake", "66@fake", "55@fake"]
    assert response.json()[2] == {
        "id": "55@fake",
        "remoteJid": "55@fake",
        "pushName": "Ana",
        "profilePicUrl": None,
        "updatedAt": "1970-01-01T00:00:17.000Z",
        "lastMessage": {
            "id": "M55",
            "key": {"remoteJid": "55@fake", "fromMe": False, "id": "M55"},
            "pushName": "Ana",
            "message": {"conversation": "Oi"},
            "messageType": None,
            "messageTimestamp": 17,
            "status": None,
            "source": None,
        },
        "unreadCount": None,
        "isSaved": True,
    }


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (None, ["77@fake", "66@fake", "55@fake"]),
        ({"where": {"remoteJid": "55@fake"}}, ["55@fake"]),
        ({"where": {"id": "55"}}, ["55@fake"]),
        ({"where": {"pushName": "Bia"}}, ["66@fake"]),
        ({"where": {"pushName": "Nobody"}}, []),
        ({"page": 1, "offset": 2}, ["77@fake", "66@fake"]),
        ({"page": 2, "offset": 2}, ["55@fake"]),
        ({"page": 0, "offset": 0}, ["77@fake", "66@fake", "55@fake"]),
        ({"take": 1}, ["77@fake"]),
        ({"take": 1, "skip": 1}, ["66@fake"]),
        ({"take": 2, "skip": 2}, ["55@fake"]),
        ({"take": 1, "skip": 1, "page": 2}, ["55@fake"]),
        ({"take": 1000}, ["77@fake", "66@fake", "55@fake"]),
    ],
)
async def test_chats_and_contacts_by_filter(
    client: httpx.AsyncClient, heard: None, body: Any, found: list[str]
) -> None:
    for path in ("/chat/findChats/loja1", "/chat/findContacts/loja1"):
        response = await client.post(path, json=body) if body is not None else await client.post(path)
        assert [one["remoteJid"] for one in response.json()] == found


async def test_all_chats_with_get(client: httpx.AsyncClient, heard: None) -> None:
    everything = await client.post("/chat/findChats/loja1", json={})
    assert (await client.get("/chat/findChats/loja1")).json() == everything.json()


async def test_contacts(client: httpx.AsyncClient, heard: None) -> None:
    response = await client.post("/chat/findContacts/loja1", json={"where": {"remoteJid": "55"}})
    assert response.json() == [
        {
            "id": "55@fake",
            "remoteJid": "55@fake",
            "pushName": "Ana",
            "profilePicUrl": None,
            "updatedAt": "1970-01-01T00:00:17.000Z",
            "isGroup": False,
            "isSaved": True,
            "type": "contact",
        }
    ]


@pytest.mark.parametrize(
    "body", [5, {"where": 5}, {"page": -1}, {"offset": "1"}, {"take": 1001}, {"where": {"id": 5}}]
)
async def test_a_bad_query(client: httpx.AsyncClient, body: Any) -> None:
    assert (await client.post("/chat/findChats/loja1", json=body)).status_code == 400


async def test_the_state_is_open_only_once_a_send_works(client: httpx.AsyncClient, gateway: Gateway) -> None:
    """An event over HTTP says nothing of the connection of an instance with a connector."""
    await gateway.instances.logout("loja1")
    opened = {"event": "CONNECTION_UPDATE", "data": {"instance": "loja1", "state": "open"}}
    assert (await client.post("/event/emit/loja1", json=opened)).status_code == 202
    state = (await client.get("/instance/connectionState/loja1")).json()["instance"]["state"]
    sent = await client.post("/message/sendText/loja1", json={"number": "5", "text": "Oi"})
    assert (state, sent.status_code) == ("close", 409)
