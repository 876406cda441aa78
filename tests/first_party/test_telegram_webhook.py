"""Telegram by webhook, against the fake: the webhook stays set, and no request without a proof counts."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from hookgw import ConnectionState, IngestRequest, Invalid, NotSupported, ProofRefused, Unavailable
from plugins.telegram.connector import Telegram
from plugins.telegram.events import ALLOWED_UPDATES
from plugins.telegram.options import read_defaults
from plugins.telegram.webhook import CHECK
from tests.first_party.telegram_bot import OPTIONS, World, open_world
from tests.networks.telegram.server import broken, refusing

HEADER = "x-telegram-bot-api-secret-token"


@pytest.fixture
async def world(autojump_clock: MockClock) -> AsyncIterator[World]:
    async with open_world(mode="webhook") as world:
        yield world


def posted(world: World, update: Any, secret: str | None = None) -> IngestRequest:
    """Return the request that Telegram sends for an update, or for a body."""
    body = update if isinstance(update, bytes) else json.dumps(update).encode()
    secret = world.bot.webhook["secret_token"] if secret is None else secret
    return IngestRequest(method="POST", query={}, headers={HEADER: secret}, body=body)


def update(world: World, number: int, text: str = "hi") -> dict[str, Any]:
    return {"update_id": number, "message": world.bot.message(text)}


async def test_the_webhook_is_set_with_a_secret_and_one_connection(world: World) -> None:
    async with world.connected():
        [given] = world.bot.calls_of("setWebhook")
    assert given["url"] == world.session.ingest_url
    assert given["max_connections"] == 1
    assert set(given["allowed_updates"]) == set(ALLOWED_UPDATES)
    assert len(given["secret_token"]) >= 32
    assert world.session.stored["secret"] == given["secret_token"]
    async with world.connected():
        assert world.bot.webhook["secret_token"] == given["secret_token"]  # the same after a restart


async def test_an_update_is_an_event_once_and_answered_after_the_commit(world: World) -> None:
    async with world.connected() as telegram:
        request = posted(world, update(world, 5))
        for _ in range(2):
            answer = await telegram.ingest(world.session, request)
            assert (answer.status, answer.body) == (200, b"")
        assert world.texts() == ["hi"]
        assert len(world.session.repeated) == 1


@pytest.mark.parametrize("secret", ["", "wrong", "é", "x" * 10_000])
async def test_a_request_without_the_secret_is_refused(world: World, secret: str) -> None:
    async with world.connected() as telegram:
        with pytest.raises(ProofRefused):
            await telegram.ingest(world.session, posted(world, update(world, 5), secret))
        bare = IngestRequest(method="POST", query={}, headers={}, body=b"{}")
        with pytest.raises(ProofRefused):
            await telegram.ingest(world.session, bare)
    assert world.texts() == []


async def test_without_a_secret_of_its_own_nothing_is_let_in(autojump_clock: MockClock) -> None:
    async with open_world(mode="polling") as world, world.connected() as telegram:
        with pytest.raises(ProofRefused):
            await telegram.ingest(world.session, posted(world, update(world, 5), ""))


async def test_an_update_that_nobody_understands_does_not_come_again(world: World) -> None:
    async with world.connected() as telegram:
        for body in (
            b"[]",
            b"5",
            b'{"update_id": "x"}',
            b'{"update_id": 1e999}',
            b'{"update_id": 5, "x": {}}',
        ):
            assert (await telegram.ingest(world.session, posted(world, body))).status == 200
        # Damaged on its way: Telegram shall send it again.
        for body in (b"", b'{"update_id": 5, "mess', b"\xff", b"[" * 100_000):
            with pytest.raises(Invalid):
                await telegram.ingest(world.session, posted(world, body))
        request = IngestRequest(method="GET", query={}, headers=posted(world, b"").headers, body=b"")
        with pytest.raises(NotSupported):
            await telegram.ingest(world.session, request)
        odd = json.dumps(update(world, 6, "a")).replace('"a"', r'"a\ud83d"').encode()
        await telegram.ingest(world.session, posted(world, odd))
    assert world.texts() == ["a�"]
    with pytest.raises(Unavailable):
        await telegram.ingest(world.session, posted(world, odd))


async def test_a_lost_webhook_is_set_again(world: World) -> None:
    async with world.connected():
        await world.bot.call("deleteWebhook", {})
        await world.bot.wait_for_calls("setWebhook", 2)
        assert trio.current_time() <= CHECK + 1
        assert world.bot.webhook["url"] == world.session.ingest_url
        assert world.session.state is ConnectionState.OPEN
        # Another program keeps taking it: the state says so, and its end is noticed.
        await trio.sleep(1)
        await world.bot.call("setWebhook", {"url": "https://other.example/", "allowed_updates": ["message"]})
        await world.session.wait_until(ConnectionState.CLOSE)
        assert world.session.states[-1][1] == 409
        assert "Another program keeps changing" in world.session.states[-1][2]["message"]
        assert world.bot.webhook["url"] == world.session.ingest_url
        await world.session.wait_until(ConnectionState.OPEN)


async def test_more_connections_or_other_updates_are_set_back(world: World) -> None:
    async with world.connected():
        world.bot.webhook["max_connections"] = 40
        await world.bot.wait_for_calls("setWebhook", 2)
        assert world.bot.webhook["max_connections"] == 1
        await trio.sleep(300 + CHECK)
        await world.bot.call("setWebhook", {"url": world.session.ingest_url, "allowed_updates": ["message"]})
        await world.bot.wait_for_calls("setWebhook", 4)
        assert set(world.bot.calls_of("setWebhook")[-1]["allowed_updates"]) == set(ALLOWED_UPDATES)


async def test_an_older_server_that_leaves_out_a_kind_of_updates_is_left_alone(world: World) -> None:
    info = {"url": world.session.ingest_url, "max_connections": 1, "allowed_updates": ["message"]}
    body = json.dumps({"ok": True, "result": info})
    world.api.will("getWebhookInfo", *[broken(body)] * 10)
    async with world.connected():
        await trio.sleep(8 * CHECK)
        assert world.session.state is ConnectionState.OPEN
    assert len(world.bot.calls_of("setWebhook")) == 1


async def test_a_refused_webhook_is_a_reason_and_tried_again(world: World) -> None:
    refusal = refusing(400, "Bad Request: bad webhook: Failed to resolve host: Name or service not known")
    world.api.will("setWebhook", refusal, refusal)
    async with world.running():
        await world.session.wait_until(ConnectionState.CLOSE)
        _, reason, more = world.session.states[-1]
        assert reason == 400
        assert more["message"].startswith("Telegram refuses the webhook: Bad Request: bad webhook: Failed to")
        await world.session.wait_until(ConnectionState.OPEN)


async def test_a_server_that_is_away_is_a_state_and_passes(world: World) -> None:
    async with world.connected():
        world.api.will("getWebhookInfo", *[broken("<html>", 502)] * 3)
        await world.session.wait_until(ConnectionState.CONNECTING)
        assert world.session.states[-1][1] == 503
        await world.session.wait_until(ConnectionState.OPEN)


async def test_a_revoked_token_closes(world: World) -> None:
    async with world.connected():
        world.api.will("getWebhookInfo", refusing(401, "Unauthorized"))  # one is doubted
        await trio.sleep(2 * CHECK)
        assert world.session.state is ConnectionState.OPEN
        world.bot.is_revoked = True
        await world.session.wait_until(ConnectionState.CLOSE)
    assert world.session.states[-1][1] == 401


async def test_what_telegram_cannot_deliver_is_in_the_log(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    async with world.connected():
        world.bot.say("waits")
        world.bot.webhook |= {"last_error_date": 1_700_000_000, "last_error_message": "SSL error"}
        await trio.sleep(CHECK + 1)
    assert "SSL error" in capsys.readouterr().out


@pytest.mark.parametrize("call", ["logout", "remove"])
async def test_the_webhook_is_deleted_with_the_instance(world: World, call: str) -> None:
    async with world.connected() as telegram:
        await getattr(telegram, call)(world.session)
        await trio.sleep(10 * CHECK)  # the run does not set it again until the gateway ends it
        assert world.bot.webhook == {}
    await getattr(telegram, call)(world.session)  # not connected: nothing is to be done
    assert len(world.bot.calls_of("deleteWebhook")) == 1


async def test_polling_goes_on_where_the_webhook_ended(world: World) -> None:
    async with world.connected() as telegram:
        first = world.bot.push("message", world.bot.message("1"))
        assert first is not None
        await telegram.ingest(world.session, posted(world, world.bot.updates[0][2]))
    world.bot.say("2")
    world.session.options["mode"] = "polling"
    async with world.connected():
        await world.session.wait_for("MESSAGES_UPSERT", 2)
    assert world.bot.webhook == {}
    assert world.texts() == ["1", "2"]


async def test_files_inside_events_are_given_less_time(world: World) -> None:
    world.session.wants_files = True
    async with world.connected() as telegram:
        photo = [world.bot.file(b"a cat", width=9)]
        message = world.bot.message(photo=photo)
        await telegram.ingest(world.session, posted(world, {"update_id": 5, "message": message}))
    [data] = world.session.data_of("MESSAGES_UPSERT")
    assert data["message"]["base64"] == "YSBjYXQ="


@pytest.mark.parametrize(
    ("public_url", "base_url", "problem"),
    [
        ("https://hooks.example", "https://api.telegram.org", ""),
        ("https://hooks.example:8443/hookgw", "https://api.telegram.org/", ""),
        (None, "https://api.telegram.org", "mode: webhook needs server.public_url"),
        ("http://hooks.example", "https://api.telegram.org", "needs an https URL"),
        (
            "https://hooks.example:9443",
            "https://api.telegram.org",
            "needs one of the ports 443, 80, 88, 8443",
        ),
        ("http://10.0.0.1:8080", "http://10.0.0.5:8081", ""),
        (None, "http://10.0.0.5:8081", "mode: webhook needs server.public_url"),
    ],
)
async def test_a_webhook_needs_a_public_url(public_url: str | None, base_url: str, problem: str) -> None:
    options = {**OPTIONS, "mode": "webhook", "base_url": base_url}
    if not problem:
        await Telegram().check_options(options, public_url=public_url)
        return
    with pytest.raises(Invalid, match=problem):
        await Telegram().check_options(options, public_url=public_url)


async def test_an_instance_without_a_public_url_says_so(world: World) -> None:
    class Session:
        """A session of a gateway without a public URL."""

        ingest_url = "/ingest/shop/token"

        def __getattr__(self, name: str) -> Any:
            return getattr(world.session, name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(Telegram().run, Session())
        await world.session.wait_until(ConnectionState.CLOSE)
        nursery.cancel_scope.cancel()
    assert "server.public_url" in world.session.states[-1][2]["message"]


async def test_the_configuration_has_defaults(autojump_clock: MockClock) -> None:
    telegram = Telegram()
    telegram.hookgw_configure({"mode": "webhook", "base_url": "http://10.0.0.5:8081"})
    assert telegram.options_schema["properties"]["mode"]["default"] == "webhook"
    with pytest.raises(Invalid, match=r"server\.public_url"):
        await telegram.check_options({"bot_token": OPTIONS["bot_token"]}, public_url=None)
    for options in ({"bot_token": "1:a"}, {"mode": "x"}, {"base_url": "ftp://x"}, {"base_url": "http://["}):
        with pytest.raises(ValueError, match=r"bot_token|mode|base_url"):
            read_defaults(options)


async def test_what_has_no_kind_is_passed_on_byte_for_byte(autojump_clock: MockClock, world: World) -> None:
    body = b'{"update_id": 8, "poll_answer": {"poll_id" :"5", "n": 1.0}}'
    async with world.connected() as telegram:
        for _ in range(2):
            assert (await telegram.ingest(world.session, posted(world, body))).status == 200
    found = [event.data_json for event in world.session.events if event.kind == "NETWORK_EVENT"]
    assert found == [b'{"network":"telegram","name":"poll_answer","value":{"poll_id" :"5", "n": 1.0}}']
