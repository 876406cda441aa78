"""Calls of the Telegram connector, against the fake: every type of message, and what Telegram refuses."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from hookgw import (
    Contact,
    ContactMessage,
    HookgwError,
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
from plugins.telegram.connector import Telegram
from plugins.telegram.outgoing import Target, target_of
from tests.first_party.telegram_bot import World, open_world
from tests.networks.telegram.bots import TOKEN
from tests.networks.telegram.server import BotApi, broken, refusing

KEY = MessageKey(remote_jid="42", id="1")
SECRET = TOKEN.partition(":")[2]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        world.bot.private_chat(42)
        world.bot.group(-1001)
        yield world


async def send(world: World, message: Message) -> dict[str, Any]:
    async with world.connected() as telegram:
        return await telegram.send(world.session, message, key="k")


async def test_a_text(world: World) -> None:
    data = await send(world, TextMessage(number="42", text="Hello", link_preview=False))
    assert data["key"] == {"remoteJid": "42", "fromMe": True, "id": "1"}
    assert data["message"] == {"conversation": "Hello"}
    assert data["status"] == "SERVER_ACK"
    assert world.bot.calls_of("sendMessage") == [
        {"chat_id": 42, "text": "Hello", "link_preview_options": {"is_disabled": True}}
    ]


async def test_a_reply_and_mentions(world: World) -> None:
    reply_to = MessageKey(remote_jid="-1001", id="77")
    data = await send(
        world,
        TextMessage(
            number="-1001/5", text="😀 @439 @43 and @44x", mentions=("43", "@ben", "45"), reply_to=reply_to
        ),
    )
    assert data["contextInfo"]["stanzaId"] == "77"
    [given] = world.bot.calls_of("sendMessage")
    assert given["message_thread_id"] == 5
    assert given["reply_parameters"] == {"message_id": 77}
    assert given["entities"] == [
        {
            "type": "text_mention",
            "offset": 8,
            "length": 3,
            "user": {"id": 43, "is_bot": False, "first_name": "43"},
        }
    ]


async def test_a_channel_posts_as_itself(world: World) -> None:
    world.bot.group(-1002, "News", "channel")["username"] = "shop_news"
    data = await send(world, TextMessage(number="https://t.me/shop_news", text="News!"))
    assert data["key"] == {"remoteJid": "-1002", "fromMe": True, "id": "1", "participant": "-1002"}


@pytest.mark.parametrize(
    ("message", "method", "name"),
    [
        (MediaMessage(number="42", kind=MediaKind.IMAGE, content=b"cat"), "sendPhoto", "imageMessage"),
        (MediaMessage(number="42", kind=MediaKind.VIDEO, content=b"cat"), "sendVideo", "videoMessage"),
        (MediaMessage(number="42", kind=MediaKind.AUDIO, content=b"cat"), "sendAudio", "audioMessage"),
        (
            MediaMessage(number="42", kind=MediaKind.AUDIO, content=b"cat", is_voice=True),
            "sendVoice",
            "audioMessage",
        ),
        (
            MediaMessage(number="42", kind=MediaKind.DOCUMENT, content=b"cat", file_name="a.pdf"),
            "sendDocument",
            "documentMessage",
        ),
        (MediaMessage(number="42", kind=MediaKind.STICKER, content=b"cat"), "sendSticker", "stickerMessage"),
    ],
)
async def test_files_are_uploaded(world: World, message: MediaMessage, method: str, name: str) -> None:
    data = await send(world, message)
    assert data["messageType"] == name
    [given] = world.bot.calls_of(method)
    [file] = [value for value in given.values() if isinstance(value, tuple)]
    assert file[1] == b"cat"
    if message.file_name:
        assert file[0] == "a.pdf"
        assert file[2] == "application/pdf"


async def test_telegram_fetches_a_picture_itself(world: World) -> None:
    url = "https://shop.example/cat.jpg"
    world.bot.urls[url] = b"a cat"
    data = await send(world, MediaMessage(number="42", kind=MediaKind.IMAGE, url=url, caption="look"))
    assert data["message"]["imageMessage"]["caption"] == "look"
    assert world.bot.calls_of("sendPhoto") == [{"chat_id": 42, "photo": url, "caption": "look"}]


@pytest.fixture
async def shop() -> AsyncIterator[Callable[..., Any]]:
    """Return a function that makes a world with a server of files in it."""
    api = BotApi()
    api.bot.private_chat(42)
    inner = api.transport()
    files: dict[str, httpx.Response] = {}

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host != "shop.example":
            return await inner.handle_async_request(request)
        await trio.lowlevel.checkpoint()
        return files[request.url.path]

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        yield lambda **more: (files.update(more.pop("files", {})), World(http, api, **more))[1]


async def test_what_telegram_cannot_fetch_is_uploaded(shop: Callable[..., World]) -> None:
    headers = {"content-type": "image/png; x=y"}
    moved = httpx.Response(302, headers={"location": "/cat"})
    world = shop(files={"/cat": httpx.Response(200, content=b"a cat", headers=headers), "/old.png": moved})
    await send(world, MediaMessage(number="42", kind=MediaKind.IMAGE, url="https://shop.example/old.png"))
    by_url, uploaded = world.bot.calls_of("sendPhoto")
    assert by_url["photo"] == "https://shop.example/old.png"
    assert uploaded["photo"] == ("old.png", b"a cat", "image/png")


async def test_another_bot_api_server_gets_no_url(shop: Callable[..., World]) -> None:
    """It would fetch the file in its own network, which may be the operator's."""
    files = {"/cat.jpg": httpx.Response(200, content=b"a cat", headers={"content-type": "image/jpeg"})}
    world = shop(files=files, base_url="http://10.0.0.5:8081")
    await send(world, MediaMessage(number="42", kind=MediaKind.IMAGE, url="https://shop.example/cat.jpg"))
    [uploaded] = world.bot.calls_of("sendPhoto")
    assert uploaded["photo"] == ("cat.jpg", b"a cat", "image/jpeg")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (httpx.Response(302, headers={"location": "/a"}), "redirects more than 3 times"),
        (httpx.Response(302, headers={"location": "http://a:port/"}), "cannot be read"),
        (httpx.Response(404), "answered with 404"),
        (httpx.Response(200, content=b""), "media is empty"),
        (httpx.Response(200, content=b"x", headers={"content-type": "x\n"}), "must be a media type"),
    ],
)
async def test_files_that_cannot_be_sent(
    shop: Callable[..., World], answer: httpx.Response, problem: str
) -> None:
    world = shop(files={"/a": answer})
    document = MediaMessage(number="42", kind=MediaKind.DOCUMENT, url="https://shop.example/a")
    with pytest.raises(BaseExceptionGroup) as caught:
        await send(world, document)
    assert caught.group_contains(Invalid, match=problem)


async def test_places_and_contacts(world: World) -> None:
    place = await send(world, LocationMessage(number="42", latitude=1.5, longitude=-2.5))
    assert place["message"]["locationMessage"]["degreesLatitude"] == 1.5
    venue = await send(world, LocationMessage(number="42", latitude=1, longitude=2, name="Shop"))
    assert (
        venue["message"]["locationMessage"] | {"name": "Shop", "address": "Shop"}
        == (venue["message"]["locationMessage"])
    )
    contact = Contact(full_name="Ana", phone_number="+55 11", email="a@b.example", organization="A\nB")
    sent = await send(world, ContactMessage(number="42", contacts=(contact,)))
    assert "EMAIL:a@b.example" in sent["message"]["contactMessage"]["vcard"]
    assert "ORG:A B" in sent["message"]["contactMessage"]["vcard"]


async def test_reactions(world: World) -> None:
    data = await send(world, ReactionMessage(number="42", key=KEY, reaction="👍"))
    assert data["message"]["reactionMessage"] == {
        "key": {"remoteJid": "42", "fromMe": False, "id": "1"},
        "text": "👍",
    }
    await send(world, ReactionMessage(number="42", key=KEY, reaction=""))
    assert [given["reaction"] for given in world.bot.calls_of("setMessageReaction")] == [
        [{"type": "emoji", "emoji": "👍"}],
        [],
    ]


async def test_edits_and_deletions(world: World) -> None:
    async with world.connected() as telegram:
        sent = await telegram.send(world.session, TextMessage(number="42", text="a"), key="k")
        key = MessageKey(remote_jid="42", id=sent["key"]["id"], from_me=True)
        edited = await telegram.edit(world.session, key, "b", number="42")
        assert edited["message"] == {"conversation": "b"}
        assert edited["key"]["id"] == key.id
        with pytest.raises(NetworkRefused, match="message is not modified"):
            await telegram.edit(world.session, key, "b", number="42")
        picture = MediaMessage(number="42", kind=MediaKind.IMAGE, content=b"cat")
        shown = await telegram.send(world.session, picture, key="k2")
        with_caption = MessageKey(remote_jid="42", id=shown["key"]["id"])
        captioned = await telegram.edit(world.session, with_caption, "look", number="42")
        assert captioned["message"]["imageMessage"]["caption"] == "look"
        deleted = await telegram.delete(world.session, key)
        assert deleted["status"] == "DELETED"
        with pytest.raises(NetworkRefused, match="message to delete not found"):
            await telegram.delete(world.session, key)


async def test_chats_of_business_accounts(world: World) -> None:
    key = MessageKey(remote_jid="42@B1", id="9")
    async with world.connected() as telegram:
        data = await telegram.send(world.session, TextMessage(number="42@B1", text="a"), key="k")
        assert data["key"] == {"remoteJid": "42@B1", "fromMe": True, "id": "1"}
        await telegram.mark_read(world.session, [key])
        world.api.will("deleteBusinessMessages", refusing(400, "Bad Request: not enough rights"))
        with pytest.raises(NetworkRefused, match="not enough rights"):
            await telegram.delete(world.session, key)
        gone = {"business_connection_id": "B1", "chat": world.bot.private_chat(42), "message_ids": [9]}
        world.bot.push("deleted_business_messages", gone)  # by the owner, after all
        await world.session.wait_for("MESSAGES_DELETE")
        await telegram.delete(world.session, key)
        world.bot.push("deleted_business_messages", gone)
        world.bot.say("later")
        await world.session.wait_for("MESSAGES_UPSERT")
        assert len(world.session.data_of("MESSAGES_DELETE")) == 1
        with pytest.raises(NotSupported, match="no read receipts"):
            await telegram.mark_read(world.session, [KEY])
        with pytest.raises(NotSupported, match="business account"):
            await telegram.send(world.session, ReactionMessage(number="", key=key, reaction="👍"), key="k")
    assert world.bot.calls_of("readBusinessMessage") == [
        {"chat_id": 42, "business_connection_id": "B1", "message_id": 9}
    ]
    assert world.bot.calls_of("deleteBusinessMessages") == [
        {"business_connection_id": "B1", "message_ids": [9]}
    ]


async def test_typing_is_shown_as_long_as_asked(autojump_clock: MockClock, world: World) -> None:
    async with world.connected() as telegram:
        began = trio.current_time()
        await telegram.set_presence(world.session, "composing", number="42", delay=11)
        assert trio.current_time() - began < 11
        await telegram.set_presence(world.session, "recording", number="42", delay=0)
        await telegram.set_presence(world.session, "paused", number="42", delay=0)
        with pytest.raises(NotSupported):
            await telegram.set_presence(world.session, "available", number=None, delay=0)
        with pytest.raises(Invalid):
            await telegram.set_presence(world.session, "composing", number=None, delay=0)
    actions = [given["action"] for given in world.bot.calls_of("sendChatAction")]
    assert actions == ["typing", "typing", "typing", "record_voice"]


async def test_which_chats_exist(world: World) -> None:
    async with world.connected() as telegram:
        numbers = ["42", "43", "+55 11 98888-7777", "@nobody"]
        found = await telegram.find_numbers(world.session, numbers)
        assert [one["exists"] for one in found] == [True, False, False, False]
        assert found[0] == {"number": "42", "exists": True, "jid": "42"}
        world.bot.floods.append(3)
        with pytest.raises(NetworkRefused):
            await telegram.find_numbers(world.session, ["42"])


async def test_a_group_that_has_become_a_supergroup(world: World) -> None:
    world.bot.migrated[-5] = -1001
    data = await send(world, TextMessage(number="-5", text="a"))
    assert data["key"]["remoteJid"] == "-1001"
    picture = MediaMessage(number="-5", kind=MediaKind.IMAGE, content=b"cat")
    assert (await send(world, picture))["key"]["remoteJid"] == "-1001"


@pytest.mark.parametrize(
    ("fault", "status", "retry_after", "sentence"),
    [
        (refusing(429, "Too Many Requests: retry after 9", retry_after=9), 429, 9, "Too Many Requests"),
        (refusing(429, "Too Many Requests", retry_after=90_000), 429, 86_400, "Too Many Requests"),
        (refusing(429, "Too Many Requests", retry_after=-1), 429, 1, "Too Many Requests"),
        (refusing(403, "Forbidden: bot was blocked by the user"), 403, None, "bot was blocked by the user"),
        (refusing(400, "Bad Request: chat not found"), 400, None, "chat not found"),
        (refusing(500, "Internal Server Error: restart"), 502, None, "Internal Server Error"),
        (refusing(401, "Unauthorized"), 409, None, "Unauthorized"),
        (refusing(999, "Odd"), 502, None, "Odd"),
        (refusing(400, f"Bad Request: {TOKEN}"), 400, None, r"\*{8}"),
        (broken("<html>", 502), 502, None, "status 502"),
        (broken("<html>"), 502, None, "did not answer with the JSON"),
        (broken('{"ok": true, "result": {}}'), 502, None, "did not say which message"),
        (broken('{"ok": true, "result": true}'), 502, None, "did not say which message"),
        (broken("x", 429, **{"retry-after": "7"}), 429, 7, "status 429"),
        (broken("x", 429), 429, 1, "status 429"),
    ],
)
async def test_refusals(
    world: World, fault: Any, status: int, retry_after: float | None, sentence: str
) -> None:
    async with world.connected() as telegram:
        world.api.will("sendMessage", fault)
        with pytest.raises(NetworkRefused, match=sentence) as caught:
            await telegram.send(world.session, TextMessage(number="42", text="a"), key="k")
    assert caught.value.status == status
    assert caught.value.retry_after == retry_after
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert len(world.bot.calls_of("sendMessage")) == 0  # it is not repeated by itself


async def test_a_broken_connection_does_not_show_the_token(autojump_clock: MockClock) -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        raise httpx.ReadError(f"broken while reading {request.url}", request=request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        world = World(http, BotApi())
        async with world.running() as telegram:
            await trio.sleep(1)
            with pytest.raises(NetworkRefused, match="cannot be reached: broken") as caught:
                await telegram.send(world.session, TextMessage(number="42", text="a"), key="k")
            with pytest.raises(NetworkRefused, match="cannot be reached") as of_file:
                await telegram.open_media(world.session, "AgAC-file_1", FakeMediaSink())
    for error in (caught.value, of_file.value):
        assert SECRET not in f"{error!r} {error} {error.__cause__!r}"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (
            TextMessage(number="42", text="a" * 4097),
            "text has 4,097 characters, and Telegram takes at most 4,096",
        ),
        (TextMessage(number="42", text="  "), "text must not be empty"),
        (
            TextMessage(number="+55 11 98888-7777", text="a"),
            "is a phone number, and Telegram lets bots write",
        ),
        (TextMessage(number="Ana", text="a"), "neither the id of a chat"),
        (TextMessage(number="42", text="a", reply_to=MessageKey(remote_jid="42", id="x")), "quoted.key.id"),
        (
            MediaMessage(number="42", kind=MediaKind.IMAGE, content=b"x", caption="a" * 1025),
            "caption has 1,025 characters",
        ),
        (MediaMessage(number="42", kind=MediaKind.STICKER, content=b"x", caption="a"), "stickers have none"),
        (ContactMessage(number="42", contacts=(Contact(full_name="A"),)), "phoneNumber is missing"),
        (
            ContactMessage(number="42", contacts=(Contact(full_name="A", phone_number="1", url="u" * 2100),)),
            "more than 2,048 bytes",
        ),
        (ContactMessage(number="42", contacts=(Contact(full_name="A"),) * 2), "one contact in a message"),
        (TemplateMessage(number="42", name="a", language="en"), "has no such messages"),
        (ReactionMessage(number="42", key=MessageKey(remote_jid="42", id="$1"), reaction="👍"), "key.id"),
    ],
)
async def test_what_cannot_be_sent(world: World, message: Message, problem: str) -> None:
    async with world.connected() as telegram:
        with pytest.raises(HookgwError, match=problem) as caught:
            await telegram.send(world.session, message, key="k")
    assert isinstance(caught.value, Invalid | NotSupported)
    assert [name for name, _ in world.bot.calls if name.startswith("send")] == []


@pytest.mark.parametrize(
    ("number", "target"),
    [
        ("42", Target(42)),
        (" -1001234567890 ", Target(-1001234567890)),
        ("-1001/5", Target(-1001, "", "5")),
        ("42@B_1-x", Target(42, "B_1-x")),
        ("@shop_news", Target("@shop_news")),
        ("https://t.me/shop_news/", Target("@shop_news")),
        ("t.me/shop_news/7", Target("@shop_news", "", "7")),
    ],
)
def test_numbers(number: str, target: Target) -> None:
    assert target_of(number) == target


async def test_a_file_is_streamed(world: World) -> None:
    file = world.bot.file(b"a cat" * 100_000, "photos/file 1.jpg")
    async with world.connected() as telegram:
        sink = FakeMediaSink()
        await telegram.open_media(world.session, file["file_id"], sink)
        assert sink.content == b"a cat" * 100_000
        large = world.bot.file(b"", size=20 * 2**20 + 1)
        with pytest.raises(NetworkRefused, match="up to 20 MB") as caught:
            await telegram.open_media(world.session, large["file_id"], FakeMediaSink())
        assert caught.value.status == 413
        with pytest.raises(NotFound):
            await telegram.open_media(world.session, "nothing", FakeMediaSink())
        world.api.will("getFile", refusing(403, "Forbidden: no"))
        with pytest.raises(NetworkRefused, match="no"):
            await telegram.open_media(world.session, file["file_id"], FakeMediaSink())
        world.bot.files[file["file_id"]].path = "gone"
        world.bot.path_of_files = "photos/lost.jpg"
        with pytest.raises(NotFound, match="no longer has"):
            await telegram.open_media(world.session, file["file_id"], FakeMediaSink())


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/var/lib/bot/a.jpg",
            "../getMe",
            "a/../../b",
            "a/./b",
            "a//b",
            "..",
            "a?b",
            "a#b",
            "a/%2e%2e/b",
        ),
        *("https://elsewhere.example/a", "//elsewhere.example/a", "a\\b", "a\nb", "a/" * 20),
    ],
)
async def test_a_path_leads_nowhere_else(world: World, path: str) -> None:
    file = world.bot.file(b"a cat")
    world.bot.files[file["file_id"]].path = path
    async with world.connected() as telegram:
        world.api.will(
            "getFile", broken(httpx.Response(200, json={"ok": True, "result": {"file_path": path}}).content)
        )
        with pytest.raises(NotFound, match="--local"):
            await telegram.open_media(world.session, file["file_id"], FakeMediaSink())


async def test_calls_need_a_connection(world: World) -> None:
    with pytest.raises(NetworkRefused, match="not connected"):
        await Telegram().send(world.session, TextMessage(number="42", text="a"), key="k")
