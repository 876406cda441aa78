"""Telegram by polling, against the fake: nothing is lost or repeated, whatever goes wrong."""

import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
import trio

from hookgw import ConnectionState, InstanceSettings, Invalid, NewEvent
from hookgw.testing import FakeSession
from plugins.telegram.connector import Telegram
from plugins.telegram.events import ALLOWED_UPDATES
from plugins.telegram.polling import PAGE
from tests.first_party.runs import running
from tests.first_party.telegram_bot import OPTIONS, World, open_world
from tests.networks.telegram.bots import TOKEN, Bot
from tests.networks.telegram.server import BotApi, Fault, broken, losing_answer, refusing

pytestmark = pytest.mark.usefixtures("autojump_clock")

SECRET = TOKEN.partition(":")[2]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def test_messages_arrive_in_order(world: World) -> None:
    world.bot.say("0")  # before the first connect: Telegram keeps updates for a day
    async with world.connected():
        for number in range(1, 250):
            world.bot.say(str(number))
        await world.session.wait_for("MESSAGES_UPSERT", 250)
    assert world.texts() == [str(number) for number in range(250)]
    assert world.session.states[-1] == (
        ConnectionState.OPEN,
        200,
        {"wuid": "123456789", "profileName": "Shop"},
    )
    assert set(json.loads(world.bot.polls[0]["allowed_updates"])) == set(ALLOWED_UPDATES)


async def test_an_update_is_confirmed_after_its_commit(world: World) -> None:
    async with world.connected():
        world.bot.say("1")
        await world.session.wait_for("MESSAGES_UPSERT")
        offset = world.session.stored["offset"]
        assert world.session.stored["bot"] == "123456789"
        before = len(world.bot.polls)
        while len(world.bot.polls) == before:  # noqa: ASYNC110
            await trio.sleep(0.1)
        assert int(world.bot.polls[-1]["offset"]) == offset
        assert world.bot.updates == []


async def test_a_kill_before_the_confirmation_repeats_nothing(world: World) -> None:
    async with world.connected():
        world.bot.say("1")
        [first] = await world.session.wait_for("MESSAGES_UPSERT")
    world.bot.say("2")
    async with world.connected():
        await world.session.wait_for("MESSAGES_UPSERT", 2)
    assert first["key"]["id"] == "1"
    assert world.texts() == ["1", "2"]
    assert world.session.repeated == []


async def test_a_kill_before_the_commit_loses_nothing(world: World) -> None:
    async with world.connected():
        pass
    world.bot.say("1")
    world.session.end()  # as a gateway that is killed: nothing is stored any more
    async with httpx.AsyncClient(transport=world.api.transport()) as http:
        with pytest.raises(BaseExceptionGroup):
            await Telegram().run(world.session)
        after = FakeSession(options=OPTIONS, http=http, state=world.session.stored)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Telegram().run, after)
            [data] = await after.wait_for("MESSAGES_UPSERT")
            nursery.cancel_scope.cancel()
    assert data["message"] == {"conversation": "1"}


async def test_after_a_quiet_week_numbers_may_begin_anywhere(world: World) -> None:
    async with world.connected():
        world.bot.say("1")
        await world.session.wait_for("MESSAGES_UPSERT")
        await trio.sleep(1)  # confirmed by the next poll
        world.bot.push("message", world.bot.message("2"), number=1_000)
        await world.session.wait_for("MESSAGES_UPSERT", 2)
        world.bot.say("3")
        await world.session.wait_for("MESSAGES_UPSERT", 3)
    assert world.texts() == ["1", "2", "3"]
    assert world.session.repeated == []


@pytest.mark.parametrize(
    "fault",
    [
        broken("<html>", 502, "text/html"),
        broken('{"ok": true, "result": [{"update_id": 1, "mess'),
        broken("[]"),
        broken('{"ok": true, "result": {}}'),
        broken('{"ok": true, "result": [{"update_id": -1}, 5, {"update_id": "x"}]}'),
        broken("", 200),
        broken("[" * 100_000),
        broken('{"ok": false}', 500),
        broken("moved", 302, location="https://elsewhere.example/"),
        broken("who are you?", 404, "text/plain"),
        broken("proxy", 401, "text/plain"),
        refusing(500, "Internal Server Error: restart"),
        losing_answer(),
    ],
)
async def test_after_faults_it_continues(world: World, fault: Fault) -> None:
    async with world.connected():
        world.bot.say("1")
        world.api.will("getUpdates", fault, fault, fault)
        await world.session.wait_for("MESSAGES_UPSERT")
        world.bot.say("2")
        await world.session.wait_for("MESSAGES_UPSERT", 2)
        await world.session.wait_until(ConnectionState.OPEN)
    assert world.texts() == ["1", "2"]
    assert world.session.repeated == []


async def test_a_server_that_is_away_is_a_state_with_a_reason() -> None:
    api, is_lost = BotApi(), True
    inner = api.transport()

    async def answer(request: httpx.Request) -> httpx.Response:
        if is_lost:
            raise httpx.ConnectError(f"no route to {request.url}", request=request)
        return await inner.handle_async_request(request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        world = World(http, api)
        async with world.running():
            await world.session.wait_until(ConnectionState.CLOSE)
            assert world.session.states[-1][2]["message"] == (
                "The Bot API server cannot be reached: no route to "
                "https://api.telegram.org/bot123456789:********/getMe. hookgw keeps trying."
            )
            is_lost = False
            await world.session.wait_until(ConnectionState.OPEN)
            is_lost = True
            world.bot.say("1")
            await trio.sleep(120)
            state, reason, more = world.session.states[-1]
            assert (state, reason) == (ConnectionState.CONNECTING, 503)
            assert SECRET not in more["message"]
            is_lost = False
            await world.session.wait_for("MESSAGES_UPSERT")


async def test_a_poller_waits_as_long_as_telegram_says(world: World) -> None:
    async with world.connected():
        began = trio.current_time()
        world.bot.floods.append(77)
        world.bot.say("1")
        world.bot.say("2")
        await world.session.wait_for("MESSAGES_UPSERT", 2)
        world.bot.floods.append(77)
        world.bot.say("3")
        await world.session.wait_for("MESSAGES_UPSERT", 3)
    assert trio.current_time() - began >= 77


async def test_a_poller_that_may_not_ask_for_long_is_not_shown_as_open(world: World) -> None:
    async with world.connected():
        world.bot.floods.append(1800)
        world.bot.say("1")
        await world.session.wait_until(ConnectionState.CONNECTING)
        assert "Too Many Requests" in world.session.states[-1][2]["message"]
        await world.session.wait_for("MESSAGES_UPSERT")
        await world.session.wait_until(ConnectionState.OPEN)


async def test_odd_characters_in_one_message_keep_back_none(world: World) -> None:
    updates = [{"update_id": 900 + n, "message": world.bot.message(text)} for n, text in enumerate("ab")]
    body = json.dumps({"ok": True, "result": updates}).replace('"a"', r'"a\ud83d"')
    async with world.connected():
        world.api.will("getUpdates", broken(body.replace('"b"', '"b", "x": 1e999')))
        await world.session.wait_for("MESSAGES_UPSERT", 2)
    assert world.texts() == ["a�", "b"]


async def test_updates_in_another_order_and_twice_are_events_in_order(world: World) -> None:
    updates = [{"update_id": 900 + n, "message": world.bot.message(str(n))} for n in range(5)]
    shuffled = [updates[n] for n in (3, 1, 1, 0, 4, 2, 3)]
    world.api.will("getUpdates", broken(json.dumps({"ok": True, "result": shuffled})))
    async with world.connected():
        await world.session.wait_for("MESSAGES_UPSERT", 5)
    assert world.texts() == ["0", "1", "2", "3", "4"]
    assert world.session.stored["offset"] == 905


async def test_a_slow_server_is_a_reason() -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        # As hookgw's client does it.
        await trio.sleep(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout(f"no answer of {request.url}", request=request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        world = World(http, BotApi())
        async with world.running():
            await world.session.wait_until(ConnectionState.CLOSE)
            assert SECRET not in world.session.states[-1][2]["message"]


async def test_an_update_that_nobody_can_read_is_skipped_in_the_end(world: World) -> None:
    world.bot.push("message", world.bot.message("bad"), number=500)
    world.bot.say("good")
    # 6 until the answer has one update, then 6 of that.
    body = '{"ok": true, "result": [{"update_id": 500, "message": {'
    world.api.will("getUpdates", *[broken(body)] * 12)
    async with world.connected():
        await world.session.wait_for("MESSAGES_UPSERT")
    assert world.texts() == ["good"]


async def test_an_update_that_is_too_large_is_skipped_at_once(world: World) -> None:
    """Telegram forgets it, too: it would come again and again."""
    world.bot.push("message", {**world.bot.message("large"), "x": [[]] * 20_000}, number=500)
    async with world.connected():
        while not world.session.stored.get("offset"):  # noqa: ASYNC110
            await trio.sleep(0.1)
        assert world.session.stored["offset"] == 501
        world.bot.push("message", {**world.bot.message("large"), "x": [[]] * 20_000}, number=501)
        world.bot.push("message", world.bot.message("good"), number=502)
        await world.session.wait_for("MESSAGES_UPSERT")
    assert world.texts() == ["good"]
    assert len(world.session.left_out) == 2


async def test_a_second_poller_is_reported_and_its_end_noticed(world: World) -> None:
    async def other_program(*, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        """A bot that polls in the usual way, with a wait after each conflict."""
        with trio.CancelScope() as scope:
            task_status.started(scope)
            async with httpx.AsyncClient(transport=world.api.transport()) as http:
                while True:
                    url = f"https://api.telegram.org/bot{TOKEN}/getUpdates"
                    answer = await http.get(url, params={"timeout": 30})
                    if answer.status_code == 409:
                        await trio.sleep(3)

    async with world.connected(), trio.open_nursery() as nursery:
        await trio.sleep(100)
        other = await nursery.start(other_program)
        began = trio.current_time()
        await world.session.wait_until(ConnectionState.CLOSE)
        assert trio.current_time() - began < 20
        _, reason, more = world.session.states[-1]
        assert reason == 409
        assert more["message"].startswith("Another program asks Telegram for this bot's updates (409)")
        await trio.sleep(300)
        assert world.session.state is ConnectionState.CLOSE
        other.cancel()
        began = trio.current_time()
        await world.session.wait_until(ConnectionState.OPEN)
        assert trio.current_time() - began < 30
        world.bot.say("1")
        await world.session.wait_for("MESSAGES_UPSERT")
    assert [state for state, _, _ in world.session.states].count(ConnectionState.OPEN) == 2


async def test_a_webhook_is_deleted_before_polling(world: World) -> None:
    world.bot.webhook = {"url": "https://other.example/", "secret_token": "", "max_connections": 40}
    async with world.connected():
        assert world.bot.webhook == {}
        # And if somebody sets one later.
        await world.bot.call("setWebhook", {"url": "https://other.example/"})
        world.bot.say("1")
        await world.session.wait_for("MESSAGES_UPSERT")
        assert world.bot.webhook == {}
        assert world.session.state is ConnectionState.OPEN
        # Again and again: a program that shares the bot.
        await world.bot.call("setWebhook", {"url": "https://other.example/"})
        await world.session.wait_until(ConnectionState.CLOSE)
        assert world.session.states[-1][1] == 409
        assert "keeps setting a webhook" in world.session.states[-1][2]["message"]
        await world.session.wait_until(ConnectionState.OPEN)


@pytest.mark.parametrize("when", ["at first", "later"])
async def test_a_revoked_token_closes_with_a_reason(world: World, when: str) -> None:
    if when == "at first":
        world.bot.is_revoked = True
        await Telegram().run(world.session)
    else:
        async with world.connected():
            world.bot.is_revoked = True
            world.bot.say("1")
            await world.session.wait_until(ConnectionState.CLOSE)
    state, reason, more = world.session.states[-1]
    assert (state, reason) == (ConnectionState.CLOSE, 401)
    assert more["message"] == (
        "Telegram does not accept the bot's token (Unauthorized). Get the current one from @BotFather, set "
        "the option bot_token (PATCH /instance/options), and connect the instance."
    )


async def test_one_401_is_doubted(world: World) -> None:
    async with world.connected():
        world.api.will("getUpdates", refusing(401, "Unauthorized"))
        for number in range(3):
            world.bot.say(str(number))
            await world.session.wait_for("MESSAGES_UPSERT", number + 1)
        assert world.session.state is ConnectionState.OPEN


async def test_a_server_that_answers_at_once_is_not_asked_all_the_time(world: World) -> None:
    async with world.connected():
        world.api.will("getUpdates", *[broken('{"ok": true, "result": []}')] * 100)
        began = trio.current_time()
        while world.api.faults["getupdates"]:  # noqa: ASYNC110
            await trio.sleep(1)
        assert trio.current_time() - began > 90


async def test_a_token_that_never_was_one_closes(world: World) -> None:
    world.api.will("getMe", refusing(404, "Not Found"))
    await Telegram().run(world.session)
    assert world.session.states[-1][:2] == (ConnectionState.CLOSE, 401)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"bot_token": ""}, "bot_token is missing: set the option"),
        ({"bot_token": "secret"}, "bot_token is not the token of a bot"),
        ({"base_url": "https://u:p@x.example"}, "base_url: use the URL of the server"),
        ({"mode": "carrier pigeon"}, "The options of the instance are not valid"),
    ],
)
async def test_wrong_options_close_with_a_reason(world: World, options: dict[str, str], reason: str) -> None:
    world.session.options |= options
    async with running(Telegram(), world.session):
        await world.session.wait_until(ConnectionState.CLOSE)
    state, code, more = world.session.states[-1]
    assert (state, code) == (ConnectionState.CLOSE, 400)
    assert reason in more["message"]


async def test_another_bot_starts_from_its_own_updates(world: World) -> None:
    async with world.connected():
        world.bot.say("1")
        await world.session.wait_for("MESSAGES_UPSERT")
    other = Bot("987654321:BBFakeTokenOfAnotherBot", "Other")
    world.api.bots[other.token] = other
    other.push("message", other.message("2"), number=5)
    world.session.options["bot_token"] = other.token
    async with world.connected():
        await world.session.wait_for("MESSAGES_UPSERT", 2)
    assert "offset" not in other.polls[0]
    assert world.texts() == ["1", "2"]


async def test_a_state_of_another_kind_is_forgotten(world: World) -> None:
    world.session.stored = {"offset": "x"}
    async with world.connected():
        world.bot.say("1")
        await world.session.wait_for("MESSAGES_UPSERT")


async def test_one_event_that_is_refused_keeps_back_no_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit_all = world.session.emit_all

    async def refuse(events: Sequence[NewEvent], **more: Any) -> None:
        if any(event.data.get("message") == {"conversation": "2"} for event in events):
            raise Invalid("It breaks a rule.")
        await emit_all(events, **more)

    for number in range(1, 4):
        world.bot.say(str(number))
    monkeypatch.setattr(world.session, "emit_all", refuse)
    async with world.connected():
        await world.session.wait_for("MESSAGES_UPSERT", 2)
        world.bot.say("4")
        await world.session.wait_for("MESSAGES_UPSERT", 3)
    assert world.texts() == ["1", "3", "4"]


async def test_groups_can_be_ignored(world: World) -> None:
    world.session.settings = InstanceSettings(groups_ignore=True)
    world.bot.group(-1001)
    async with world.connected():
        world.bot.say("group", chat=-1001)
        world.bot.say("private")
        await world.session.wait_for("MESSAGES_UPSERT")
    assert world.texts() == ["private"]


async def test_a_pressed_button_is_answered(world: World) -> None:
    async with world.connected():
        message = world.bot.message("Sure?")
        world.bot.push(
            "callback_query", {"id": "q1", "from": message["from"], "message": message, "data": "y"}
        )
        await world.session.wait_for("MESSAGES_UPSERT")
        await world.bot.wait_for_calls("answerCallbackQuery")
        world.api.will("answerCallbackQuery", refusing(400, "Bad Request: query is too old"))
        world.bot.push(
            "callback_query", {"id": "q2", "from": message["from"], "message": message, "data": "y"}
        )
        world.bot.say("later")
        await world.session.wait_for("MESSAGES_UPSERT", 3)
    assert world.bot.calls_of("answerCallbackQuery")[0] == {"callback_query_id": "q1"}


async def test_files_come_inside_the_event_for_who_wants_them() -> None:
    async with open_world() as world:
        world.session.wants_files = True
        bot = world.bot
        bot.say(photo=[bot.file(b"a cat", width=90)], caption="look")
        bot.say(document=bot.file(b"x", size=2**30))
        bot.say(voice={"file_id": "gone"})
        async with world.connected():
            [cat, large, gone] = await world.session.wait_for("MESSAGES_UPSERT", 3)
    assert cat["message"]["base64"] == "YSBjYXQ="
    assert cat["message"]["imageMessage"]["url"].startswith("https://")
    assert "base64" not in large["message"]
    assert "base64" not in gone["message"]


async def test_the_token_is_in_no_log_and_no_repr(
    world: World, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "httpx")  # hookgw itself makes it quiet
    world.api.will("getUpdates", broken("<html>", 502), refusing(400, f"Bad Request: /bot{TOKEN}/ is odd"))
    async with world.connected() as telegram:
        world.bot.say("1")
        await world.session.wait_for("MESSAGES_UPSERT")
        connection = telegram.connections.of(world.session)
        shown = f"{connection.options!r} {connection.state!r} {connection.client!r} {vars(telegram)!r}"
        shown += repr(world.session.states)
    captured = capsys.readouterr()
    assert "HTTP Request" in caplog.text  # httpx logs the URLs
    assert SECRET not in caplog.text + shown + captured.out + captured.err


def test_a_page_is_as_large_as_telegram_allows() -> None:
    assert PAGE == 100


async def test_what_has_no_kind_is_passed_on_byte_for_byte(world: World) -> None:
    value = b'{"poll_id" :"5", "n": 1.0}'
    body = b'{"ok":true,"result":[{"update_id": 8, "message": 7}, {"update_id":9,"poll_answer":%b}]}' % value
    world.api.will("getUpdates", broken(body))
    async with world.connected():
        await world.session.wait_for("NETWORK_EVENT", 2)
    found = [event.data_json for event in world.session.events if event.kind == "NETWORK_EVENT"]
    assert found == [
        b'{"network":"telegram","name":"message","value":7}',
        b'{"network":"telegram","name":"poll_answer","value":%b}' % value,
    ]
    assert world.session.stored["offset"] == 10
