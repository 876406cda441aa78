"""Telegram in real processes: kills, conflicts, webhooks; and a bot library that proves the fake."""

import asyncio
import importlib
import importlib.util
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.networks.gateway import Gateway, running_gateway
from tests.networks.telegram.bots import TOKEN, Bot
from tests.networks.telegram.server import BotApi, losing_answer, refusing, serving

MESSAGES = 200
CHATS = (41, 42, 43)
SECRET = TOKEN.partition(":")[2]

pytestmark = [pytest.mark.networks, pytest.mark.timeout(300)]


class World:
    """The fake as a server, and a gateway process that knows it."""

    def __init__(self, api: BotApi, url: str, gateway: Gateway, folder: Path) -> None:
        self.api = api
        self.url = url
        self.gateway = gateway
        self.folder = folder

    @property
    def bot(self) -> Bot:
        return self.api.bot

    async def connect(self, **options: Any) -> None:
        await self.gateway.connect("shop", "telegram", bot_token=TOKEN, **options)

    def texts(self) -> dict[str, list[str]]:
        """Return what was written in each chat, and has arrived."""
        found: dict[str, list[str]] = {str(chat): [] for chat in CHATS}
        for data in self.gateway.events("MESSAGES_UPSERT", "shop"):
            found[data["key"]["remoteJid"]].append(data["message"]["conversation"])
        return found

    async def restart_at_random(self, times: int) -> None:
        """Kill the gateway at random moments, and start it again."""
        for _ in range(times):
            await trio.sleep(random.uniform(0.05, 0.4))
            await self.gateway.kill()
            await self.gateway.start()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    api = BotApi()
    with trio.fail_after(250):
        async with serving(api, speed=100) as url:
            plugins = {"telegram": {"base_url": url, "servers": [url]}}
            # Whatever hookgw logs at most has no token in it, and each event is valid.
            strict = {"log": {"level": "debug"}, "events": {"validate": "strict"}}
            async with running_gateway(tmp_path, plugins, **strict) as gateway:
                yield World(api, url, gateway, tmp_path)


@pytest.mark.parametrize("mode", ["polling", "webhook"])
async def test_nothing_is_lost_or_repeated_through_kills(world: World, mode: str) -> None:
    await world.connect(mode=mode)

    async def write() -> None:
        for number in range(MESSAGES):
            for chat in CHATS:
                world.bot.say(str(number), person=chat)
            # Telegram is in trouble, too; one trouble at a time, because waits grow with each in a row.
            if random.random() < 0.05 and not world.api.faults.get("getupdates"):
                world.api.will("getUpdates", random.choice([losing_answer(), refusing(500, "Internal")]))
            await trio.sleep(0.005)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        nursery.start_soon(world.restart_at_random, 2)
    expected = [str(number) for number in range(MESSAGES)]
    while any(len(texts) < MESSAGES for texts in world.texts().values()):  # noqa: ASYNC110 (a process has them)
        await trio.sleep(0.2)
    assert world.texts() == dict.fromkeys(map(str, CHATS), expected)
    await world.gateway.wait_for_state("shop", "open")
    await _send_and_leave(world)


async def _send_and_leave(world: World) -> None:
    """Send, read a file, and delete the instance; nothing that hookgw writes has the token in it."""
    gateway, bot = world.gateway, world.bot
    sent = await gateway.call("POST", "message/sendText/shop", {"number": "42", "text": "Oi"}, status=201)
    assert sent["key"]["fromMe"] is True
    assert bot.sent[42, int(sent["key"]["id"])]["text"] == "Oi"
    bot.blocked.add(43)
    blocked = await gateway.try_call("POST", "message/sendText/shop", {"number": "43", "text": "Oi"})
    assert (blocked.status_code, "bot was blocked by the user" in blocked.text) == (403, True)
    bot.floods.append(7)
    flooded = await gateway.try_call("POST", "message/sendText/shop", {"number": "42", "text": "Oi"})
    assert (flooded.status_code, flooded.headers["retry-after"]) == (429, "7")
    bot.say(photo=[bot.file(b"a cat", width=9)], caption="look")
    picture = await gateway.wait_for_event("MESSAGES_UPSERT", messageType="imageMessage")
    async with httpx.AsyncClient(trust_env=False) as http:
        file = await http.get(picture["message"]["imageMessage"]["url"])
    assert (file.content, file.headers["content-type"]) == (b"a cat", "image/jpeg")
    options = await gateway.call("GET", "instance/options/shop")
    assert SECRET not in str(options)
    await gateway.call("DELETE", "instance/delete/shop")
    assert bot.webhook == {}
    assert SECRET not in (world.folder / "gateway.log").read_text(errors="replace")
    assert SECRET not in str([request.body for request in gateway.receiver.requests])


async def test_two_programs_with_one_bot(world: World) -> None:
    options = {"bot_token": TOKEN, "mode": "webhook", "base_url": "https://api.telegram.org"}
    body = {"instanceName": "shop", "integration": "telegram", **options}
    refused = await world.gateway.try_call("POST", "instance/create", body)
    assert refused.status_code == 400
    assert "mode: webhook needs an https URL in server.public_url" in refused.text
    assert SECRET not in refused.text
    await world.connect()

    async def poll(http: httpx.AsyncClient) -> None:
        while True:
            await http.get(f"{world.url}/bot{TOKEN}/getUpdates?timeout=30", timeout=40)
            await trio.sleep(1)

    async with httpx.AsyncClient(trust_env=False) as http, trio.open_nursery() as nursery:
        nursery.start_soon(poll, http)
        with trio.fail_after(20):
            found = await world.gateway.wait_for_state("shop", "close")
        nursery.cancel_scope.cancel()
    assert "Another program asks Telegram for this bot's updates (409)" in str(found)


# The fake, by a library that others wrote.


@pytest.fixture
async def library() -> AsyncIterator[tuple[BotApi, Callable[[Callable[..., Any]], Any]]]:
    """Return the fake, and a function that runs a program of python-telegram-bot against it."""
    if importlib.util.find_spec("telegram") is None:
        pytest.skip("python-telegram-bot is not installed: run nox -s networks")
    telegram, requests = importlib.import_module("telegram"), importlib.import_module("telegram.request")
    api = BotApi()
    with trio.fail_after(60):
        async with serving(api, speed=100) as url:

            async def run(program: Callable[..., Any]) -> Any:
                async def main() -> Any:
                    urls = {"base_url": f"{url}/bot", "base_file_url": f"{url}/file/bot"}
                    # For two polls at a time.
                    two = requests.HTTPXRequest(connection_pool_size=2)
                    bot = telegram.Bot(TOKEN, **urls, get_updates_request=two)
                    async with bot:
                        return await program(bot, telegram)

                # It runs on asyncio, in a thread of its own; the fake goes on meanwhile.
                return await trio.to_thread.run_sync(asyncio.run, main(), abandon_on_cancel=True)

            yield api, run


async def test_the_library_reads_what_the_fake_says(library: tuple[BotApi, Any]) -> None:
    api, run = library
    fake = api.bot
    fake.group(-1001)

    async def listen(bot: Any, telegram: Any) -> Any:
        me = await bot.get_me()
        updates = await bot.get_updates(timeout=0, allowed_updates=telegram.Update.ALL_TYPES)
        assert updates == ()
        return me.id, me.username

    assert await run(listen) == (123456789, "shop_bot")
    fake.say("hi", reply_to_message=fake.message("before"))
    fake.say(photo=[fake.file(b"cat", width=9, height=9)], caption="look", chat=-1001)
    fake.say(voice=fake.file(b"x", duration=3), location={"latitude": 1.0, "longitude": 2.0})
    reaction = {"chat": fake.private_chat(42), "message_id": 1, "date": 1, "user": fake.message()["from"]}
    emoji = [{"type": "emoji", "emoji": "👍"}]
    fake.push("message_reaction", {**reaction, "old_reaction": [], "new_reaction": emoji})
    button = {"id": "q1", "from": fake.message()["from"], "chat_instance": "c", "data": "y"}
    fake.push("callback_query", {**button, "message": fake.message("Sure?")})
    deleted = {"business_connection_id": "B1", "chat": fake.private_chat(42), "message_ids": [1]}
    fake.push("deleted_business_messages", deleted)

    async def read(bot: Any, telegram: Any) -> Any:
        first, *_ = await bot.get_updates(limit=2, allowed_updates=telegram.Update.ALL_TYPES)
        updates = await bot.get_updates(offset=first.update_id, timeout=1)
        assert updates[0] == first
        for unread in await bot.get_updates(offset=updates[-1].update_id + 1):
            raise AssertionError(unread)
        text, photo, voice, reaction, button, deleted = updates
        assert (text.message.text, text.message.reply_to_message.text) == ("hi", "before")
        file = await (await bot.get_file(photo.message.photo[0])).download_as_bytearray()
        assert bytes(file) == b"cat"
        assert voice.message.voice.file_size == 1
        assert reaction.message_reaction.new_reaction[0].emoji == "👍"
        assert await bot.answer_callback_query(button.callback_query.id)
        assert deleted.deleted_business_messages.message_ids == (1,)
        # Nothing in them is unknown to the library.
        return [dict(one.api_kwargs) for update in updates for one in (update, update.message) if one]

    assert not any(await run(read))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the library, about its own types
async def test_the_fake_understands_what_the_library_sends(library: tuple[BotApi, Any]) -> None:
    api, run = library
    fake = api.bot
    fake.private_chat(42)
    fake.group(-1001)
    fake.migrated[-5] = -1001
    fake.blocked.add(43)
    fake.private_chat(43)

    async def send(bot: Any, telegram: Any) -> None:
        text = await bot.send_message(42, "a", reply_parameters=telegram.ReplyParameters(7))
        edited = await bot.edit_message_text("b", 42, text.message_id)
        assert (edited.text, edited.reply_to_message.message_id) == ("b", 7)
        assert await bot.delete_message(42, text.message_id)
        photo = await bot.send_photo(42, b"a picture", caption="look")
        assert (photo.caption, photo.photo[-1].width) == ("look", 900)
        await bot.edit_message_caption(42, photo.message_id, caption="see")
        document = await bot.send_document(42, b"a file", filename="a.pdf")
        assert document.document.file_name == "a.pdf"
        assert (await bot.send_voice(42, b"x")).voice.file_id
        assert (await bot.send_location(42, 1.5, 2.5)).location.latitude == 1.5
        assert (await bot.send_venue(42, 1, 2, "Shop", "Rua A")).venue.title == "Shop"
        assert (await bot.send_contact(42, "+55", "Ana")).contact.first_name == "Ana"
        assert await bot.set_message_reaction(42, photo.message_id, "👍")
        assert await bot.send_chat_action(42, "typing")

    await run(send)

    async def fail(bot: Any, telegram: Any) -> list[str]:
        errors = []
        for call in (
            bot.send_message(43, "a"),
            bot.send_message(99, "a"),
            bot.send_message(-5, "a"),
            bot.send_message(42, "a" * 4097),
            bot.get_file("nothing"),
            bot.set_webhook("ftp://x"),
        ):
            try:
                await call
            except telegram.error.TelegramError as error:
                errors.append(f"{type(error).__name__}: {error}")
        return errors

    assert await run(fail) == [
        "Forbidden: Forbidden: bot was blocked by the user",
        "BadRequest: Chat not found",
        "ChatMigrated: Group migrated to supergroup. New chat id: -1001",
        "BadRequest: Message is too long",
        "BadRequest: Wrong file_id or the file is temporarily unavailable",
        "BadRequest: Invalid webhook url specified",
    ]

    async def flooded(bot: Any, telegram: Any) -> str:
        fake.floods.append(3)
        with pytest.raises(telegram.error.RetryAfter) as caught:
            await bot.send_message(42, "a")
        return str(caught.value)

    assert "Retry in 3" in await run(flooded)


async def test_webhooks_and_conflicts_of_the_library(
    library: tuple[BotApi, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = library
    monkeypatch.setattr("tests.networks.telegram.bots.CONFLICT_PAUSE", 0.1)

    async def conflict(bot: Any, telegram: Any) -> None:
        assert await bot.set_webhook("https://x.example/hook", secret_token="s", max_connections=1)
        info = await bot.get_webhook_info()
        assert (info.url, info.max_connections) == ("https://x.example/hook", 1)
        with pytest.raises(telegram.error.Conflict):
            await bot.get_updates()
        assert await bot.delete_webhook()
        waiting = asyncio.create_task(bot.get_updates(timeout=10))
        await asyncio.sleep(0.2)
        other = asyncio.create_task(bot.get_updates(timeout=1))
        with pytest.raises(telegram.error.Conflict):
            await waiting
        assert await other == ()

    await run(conflict)
