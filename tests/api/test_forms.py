"""Bodies of sends as forms: ``application/x-www-form-urlencoded``."""

from urllib.parse import quote

import httpx
import pytest

from hookgw import (
    Contact,
    ContactMessage,
    Gateway,
    LocationMessage,
    MediaKind,
    MediaMessage,
    Message,
    MessageKey,
    ReactionMessage,
    TextMessage,
)
from hookgw.testing import FakeConnector
from tests.api.test_app import shape_of

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def plugins(connector: FakeConnector) -> dict[str, object]:
    return {"fake": connector}


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("loja1", integration="fake")
    await gateway.instances.connect("loja1")
    return gateway


@pytest.mark.parametrize(
    ("call", "form", "message"),
    [
        ("sendText", "number=55&text=Oi+A%26B", TextMessage(number="55", text="Oi A&B")),
        (
            "sendText",
            "number=55&text=%C3%A9&linkPreview=false&mentioned[]=66&mentioned[]=77&quoted[key][id]=M1",
            TextMessage(
                number="55",
                text="é",
                mentions=("66", "77"),
                link_preview=False,
                reply_to=MessageKey(remote_jid="55", id="M1"),
            ),
        ),
        (
            "sendText",
            "number=55&text=123&quoted=" + quote('{"key":{"id":"M1"}}') + "&mentioned=" + quote('["66"]'),
            TextMessage(
                number="55", text="123", mentions=("66",), reply_to=MessageKey(remote_jid="55", id="M1")
            ),
        ),
        ("sendText", "number=55&textMessage%5Btext%5D=Oi&", TextMessage(number="55", text="Oi")),
        (  # PHP writes true as 1, and Python as True
            "sendText",
            "number=55&text=Oi&linkPreview=0&mentionsEveryOne=1",
            TextMessage(number="55", text="Oi", link_preview=False, mentions_everyone=True),
        ),
        (
            "sendText",
            "number=55&text=Oi&linkPreview=False",
            TextMessage(number="55", text="Oi", link_preview=False),
        ),
        (
            "sendLocation",
            "number=55&latitude=-23.5&longitude=46&name=Shop&address=",
            LocationMessage(number="55", latitude=-23.5, longitude=46.0, name="Shop"),
        ),
        (
            "sendContact",
            "number=55&contact[0][fullName]=Ana&contact[0][phoneNumber]=55&contact[1][fullName]=Bia",
            ContactMessage(
                number="55", contacts=(Contact(full_name="Ana", phone_number="55"), Contact(full_name="Bia"))
            ),
        ),
        (
            "sendReaction",
            "key[remoteJid]=55@fake&key[fromMe]=true&key[id]=M1&reaction=%F0%9F%91%8D",
            ReactionMessage(
                number="55@fake", key=MessageKey(remote_jid="55@fake", id="M1", from_me=True), reaction="👍"
            ),
        ),
        (
            "sendMedia",
            "number=55&mediatype=document&media=SGVsbG8%3D&fileName=a.txt",
            MediaMessage(number="55", kind=MediaKind.DOCUMENT, content=b"Hello", file_name="a.txt"),
        ),
        (
            "sendWhatsAppAudio",
            "number=55&audio=https%3A%2F%2Fx%2Fa.ogg",
            MediaMessage(number="55", kind=MediaKind.AUDIO, url="https://x/a.ogg", is_voice=True),
        ),
    ],
)
async def test_a_form_is_sent(
    call: str, form: str, message: Message, client: httpx.AsyncClient, connector: FakeConnector
) -> None:
    sent = await client.post(f"/message/{call}/loja1", content=form, headers=FORM)
    assert sent.status_code == 201, sent.text
    assert connector.sent[-1].message == message


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("number=55", "text is missing."),
        ("number=55&text=a&text=b", "The form has the field text twice."),
        ("number=55&text=a&quoted=a&quoted[key]=b", "as a text, too."),
        ("number=55&text=%FF", "in UTF-8."),
        ("number=55&text[a=b", "write names as in quoted[key][id]."),
        ("number=55&text=a&a[b][c][d][e][f][g][h]=1", "nested too deeply"),
        ("&" * 1000, "more than 1,000 fields"),
        ("number=55&text=a&linkPreview=maybe", "linkPreview must be true or false"),
    ],
)
async def test_a_bad_form(form: str, said: str, client: httpx.AsyncClient, connector: FakeConnector) -> None:
    answer = await client.post("/message/sendText/loja1", content=form, headers=FORM)
    assert (answer.status_code, len(shape_of(answer))) == (400, 1)
    assert said in shape_of(answer)[0]
    assert not connector.sent


async def test_a_long_text_in_a_form_is_whole(client: httpx.AsyncClient, connector: FakeConnector) -> None:
    text = "é%+&= " * 8_000
    form = f"a=&number=55&text={quote(text)}"
    assert (await client.post("/message/sendText/loja1", content=form, headers=FORM)).status_code == 201
    assert connector.sent[-1].message == TextMessage(number="55", text=text)


async def test_a_form_has_the_limit_of_bodies(client: httpx.AsyncClient) -> None:
    form = "number=55&mediatype=image&media=" + "A" * 2**20
    for call in ("sendText", "sendMedia"):
        answer = await client.post(f"/message/{call}/loja1", content=form, headers=FORM)
        assert answer.status_code == 413
