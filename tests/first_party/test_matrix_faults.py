"""The Matrix connector against a scripted homeserver: gaps, refusals, broken answers, and logouts."""

import base64
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import (
    ConnectionState,
    InstanceSettings,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    MessageKey,
    NetworkRefused,
    NewEvent,
    NotFound,
    NotSupported,
    ReactionMessage,
    TextMessage,
)
from hookgw.testing import FakeMediaSink, FakeSession
from plugins.matrix.connector import Matrix
from plugins.matrix.gaps import PAGE
from plugins.matrix.sync import FILE_TIME
from tests.first_party.matrix import (
    ANA,
    CATALOG,
    DIRECT,
    HOMESERVER,
    ME,
    OPTIONS,
    ROOM,
    Homeserver,
    Reply,
    connected,
    invited,
    message,
    own_join,
    refusal,
    running,
    texts,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture
async def session(homeserver: Homeserver) -> AsyncIterator[FakeSession]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(homeserver.answer)) as http:
        yield FakeSession(options=OPTIONS, http=http, catalog=CATALOG)


async def test_the_first_sync_reads_no_history(homeserver: Homeserver, session: FakeSession) -> None:
    homeserver.sync(message(1), limited=True)
    async with running(session):
        await session.wait_until(ConnectionState.OPEN)
        homeserver.sync(message(2))
        await session.wait_for("MESSAGES_UPSERT")
    assert texts(session) == ["2"]
    assert session.stored["since"] == "s2"
    assert "since" not in homeserver.syncs[0]
    assert homeserver.syncs[1]["since"] == "s1"
    assert homeserver.paths("POST login") == ["login"]


async def test_the_homeserver_holds_a_sync_only_while_the_account_is_known_to_be_open(
    homeserver: Homeserver, session: FakeSession
) -> None:
    """The first sync, and the one after a failure, tell at once. The others would be thousands a minute."""
    homeserver.sync()
    homeserver.sync()
    homeserver.reply(httpx.Response(502))
    homeserver.sync(message(1))
    async with running(session):
        await session.wait_for("MESSAGES_UPSERT")
        await wait_all_tasks_blocked()
    assert [one["timeout"] for one in homeserver.syncs] == ["0", "30000", "30000", "0", "30000"]


async def test_thousands_of_events_of_one_room_are_stored_in_order_and_in_parts(
    homeserver: Homeserver, session: FakeSession
) -> None:
    stored: list[int] = []
    emit_all = session.emit_all

    async def counting(events: Sequence[NewEvent], **more: Any) -> None:
        stored.append(len(events))
        await emit_all(events, **more)

    session.emit_all = counting  # type: ignore[method-assign]
    large = message(9999, odd=[[]] * 20_001)
    timeline = [message(number) for number in range(3_000)]
    async with connected(homeserver, session):
        homeserver.sync(
            *timeline[:2_000], large, *timeline[2_000:], {"odd": 1}, account_data={"x": [[]] * 20_001}
        )
        while session.stored["since"] != "s2":  # noqa: ASYNC110
            await trio.sleep(0.1)
    assert texts(session) == [str(number) for number in range(3_000)]
    assert max(stored) < 1_000
    assert [json.loads(text) for text in session.left_out] == [large, {"x": [[]] * 20_001}]


async def test_a_reaction_to_an_event_that_was_left_out_holds_nothing_up(
    homeserver: Homeserver, session: FakeSession
) -> None:
    large = message(1, odd=[[]] * 20_001)
    relation = {"rel_type": "m.annotation", "event_id": large["event_id"], "key": "x"}
    async with connected(homeserver, session):
        homeserver.will("GET rooms", *[large] * 20)
        homeserver.sync(large, message(2, type="m.reaction", content={"m.relates_to": relation}), message(3))
        await session.wait_for("MESSAGES_UPSERT", 2)
    assert session.data_of("MESSAGES_UPSERT")[-1]["message"] == {"conversation": "3"}
    assert len(homeserver.paths("GET rooms")) == 1


async def test_ids_that_no_event_can_have_hold_nothing_up(
    homeserver: Homeserver, session: FakeSession
) -> None:
    """Members of a room choose what their events refer to: these would make a URL of 72 KB."""
    id_ = "$" + "\U0001f600" * 6_000
    relation = {"rel_type": "m.annotation", "event_id": id_, "key": "x"}
    read: dict[str, Any] = {"m.read": {ANA: {}}}
    async with connected(homeserver, session):
        homeserver.sync(
            message(1, type="m.reaction", content={"m.relates_to": relation}),
            message(2, type="m.room.redaction", redacts=id_, content={}),
            message(3),
            ephemeral={"events": [{"type": "m.receipt", "content": {id_: read, "$3": read}}]},
        )
        await session.wait_for("MESSAGES_UPSERT", 2)
        updates = await session.wait_for("MESSAGES_UPDATE")
    assert session.data_of("MESSAGES_UPSERT")[-1]["message"] == {"conversation": "3"}
    assert [update["keyId"] for update in updates] == ["$3"]


async def test_a_lookup_that_fails_for_good_holds_nothing_up(
    homeserver: Homeserver, session: FakeSession
) -> None:
    relation = {"rel_type": "m.annotation", "event_id": "$broken", "key": "x"}
    async with connected(homeserver, session):
        homeserver.will("GET rooms", *[refusal(500, "M_UNKNOWN")] * 50)
        for _ in range(10):  # again and again, until they are stored
            homeserver.sync(message(2, type="m.reaction", content={"m.relates_to": relation}), message(3))
        await session.wait_for("MESSAGES_UPSERT", 2)
    assert session.data_of("MESSAGES_UPSERT")[1]["message"] == {"conversation": "3"}


@pytest.mark.parametrize("odd", ["\\ud83d", "\\ude00\\ud83d"])
async def test_half_an_emoji_in_a_long_answer_costs_only_itself(
    homeserver: Homeserver, session: FakeSession, odd: str
) -> None:
    timeline = [message(number) for number in range(500)]
    answer = {
        "next_batch": "s2",
        "rooms": {"join": {ROOM: {"timeline": {"events": [*timeline, message(777)]}}}},
    }
    async with connected(homeserver, session):
        homeserver.reply(
            httpx.Response(200, content=json.dumps(answer).replace('"777"', f'"{odd}"').encode())
        )
        await session.wait_for("MESSAGES_UPSERT", 501)
    assert texts(session)[-1] == "\ufffd" * (len(odd) // 6)


async def test_a_restart_continues_with_the_same_login(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session):
        pass
    homeserver.sync(message(1))
    async with running(session):
        await session.wait_for("MESSAGES_UPSERT")
    assert len(homeserver.paths("POST login")) == 1
    assert [sync.get("since") for sync in homeserver.syncs].count(None) == 1


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ConnectError("refused"),
        httpx.Response(502, text="<html>"),
        httpx.Response(200, text='{"next_batch": '),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={}),
    ],
)
async def test_after_faults_it_continues(homeserver: Homeserver, session: FakeSession, fault: Reply) -> None:
    async with connected(homeserver, session):
        homeserver.reply(fault)
        homeserver.reply(fault)
        await session.wait_until(ConnectionState.CONNECTING)
        homeserver.sync(message(1))
        await session.wait_until(ConnectionState.OPEN)
    assert texts(session) == ["1"]
    assert [sync.get("since") for sync in homeserver.syncs[:4]] == [None, "s1", "s1", "s1"]


async def test_one_broken_poll_is_no_lost_connection(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session):
        homeserver.reply(httpx.ReadError("reset"))
        homeserver.sync(message(1))
        await session.wait_for("MESSAGES_UPSERT")
    assert [state for state, _, _ in session.states] == [ConnectionState.CONNECTING, ConnectionState.OPEN]


async def test_an_answer_that_was_too_much_is_asked_for_in_parts(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session):
        homeserver.reply(httpx.RemoteProtocolError("The response exceeded 16777216 bytes."))
        homeserver.sync(message(1))
        await session.wait_for("MESSAGES_UPSERT")
        limits = [json.loads(sync["filter"])["room"]["timeline"]["limit"] for sync in homeserver.syncs]
    assert limits[1:3] == [100, 50]


async def test_a_logout_closes_with_the_reason(homeserver: Homeserver, session: FakeSession) -> None:
    homeserver.sync()
    homeserver.reply(refusal(401, "M_UNKNOWN_TOKEN"))
    await Matrix().run(session)
    state, reason, more = session.states[-1]
    assert (state, reason) == (ConnectionState.CLOSE, 401)
    assert "M_UNKNOWN_TOKEN" in more["message"]
    assert session.stored["token"] == ""
    assert session.stored["since"] == "s1"


async def test_after_a_soft_logout_the_same_device_logs_in(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session):
        homeserver.reply(refusal(401, "M_UNKNOWN_TOKEN", soft_logout=True))
        homeserver.sync(message(1))
        await session.wait_for("MESSAGES_UPSERT")
    logins = [body for _, path, body in homeserver.requests if path == "login"]
    assert [login.get("device_id") for login in logins] == [None, "DEV"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"homeserver": HOMESERVER}, "access_token"),
        ({**OPTIONS, "homeserver": "hs.example"}, "homeserver"),
        ({**OPTIONS, "join_invites": "some"}, "join_invites"),
    ],
)
async def test_wrong_options_close(session: FakeSession, options: dict[str, Any], said: str) -> None:
    session.options = options
    async with running(session):
        await session.wait_until(ConnectionState.CLOSE)
    state, reason, more = session.states[-1]
    assert (state, reason) == (ConnectionState.CLOSE, 400)
    assert said in more["message"]


async def test_a_homeserver_that_was_never_reached_is_a_state_with_a_reason(
    homeserver: Homeserver, session: FakeSession
) -> None:
    homeserver.will("POST login", httpx.ConnectError("no route"))
    homeserver.will("POST login", httpx.ConnectError("no route"))
    homeserver.sync()
    async with running(session):
        await session.wait_until(ConnectionState.OPEN)
    (_, _, _), (state, reason, more), _ = session.states
    assert (state, reason) == (ConnectionState.CLOSE, 503)
    assert more["message"] == "The homeserver cannot be reached: no route. hookgw keeps trying."


async def test_a_wrong_password_and_a_strangers_token_close(
    homeserver: Homeserver, session: FakeSession
) -> None:
    homeserver.will("POST login", refusal(403, "M_FORBIDDEN"))
    await Matrix().run(session)
    assert session.states[-1][:2] == (ConnectionState.CLOSE, 401)
    session.options = {"homeserver": HOMESERVER, "user": "ana", "access_token": "shops"}
    await Matrix().run(session)
    assert "belongs to @shop:hs.example" in session.states[-1][2]["message"]


async def test_refused_sends(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session) as matrix:
        text = TextMessage(number=ROOM, text="hello")
        for answer, status, wait in (
            (refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=2500), 429, 2.5),
            (refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=90_000_000), 429, 86_400),
            (refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=-1), 429, None),
            (refusal(403, "M_FORBIDDEN"), 403, None),
            (refusal(401, "M_UNKNOWN_TOKEN"), 409, None),
            (refusal(500, "M_UNKNOWN"), 502, None),
        ):
            homeserver.will("PUT rooms", answer)
            with pytest.raises(NetworkRefused) as caught:
                await matrix.send(session, text, key="k")
            assert (caught.value.status, caught.value.retry_after) == (status, wait)
            assert caught.value.code == json.loads(answer.content)["errcode"]
        homeserver.will("PUT rooms", httpx.ReadTimeout("slow"))
        with pytest.raises(NetworkRefused, match="cannot be reached"):
            await matrix.send(session, text, key="k")
        homeserver.will("PUT rooms", httpx.PoolTimeout("Nothing was sent."))
        with pytest.raises(NetworkRefused, match=r"^Nothing was sent\.") as caught:
            await matrix.send(session, text, key="k")
        assert (caught.value.status, caught.value.retry_after) == (503, 5)
        sent = homeserver.paths("PUT rooms")
        assert len(set(sent)) == 1, "a repeated send has the same transaction"


async def test_an_encrypted_room_is_refused(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session) as matrix:
        homeserver.will(f"GET rooms/{ROOM}/state/m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"})
        for _ in range(2):
            with pytest.raises(NotSupported, match="encrypted"):
                await matrix.send(session, TextMessage(number=ROOM, text="hello"), key="k")
        key = MessageKey(remote_jid=ROOM, id="$1", from_me=True)
        with pytest.raises(NotSupported, match="encrypted"):
            await matrix.edit(session, key, "x", number=ROOM)


async def test_a_direct_room_is_created_once(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session) as matrix:
        sent = await matrix.send(session, TextMessage(number=ANA, text="1", mentions=(ANA,)), key="1")
        homeserver.will("GET rooms", {"membership": "join"})
        await matrix.send(session, TextMessage(number=ANA, text="2"), key="2")
    assert sent["key"] == {"remoteJid": ROOM, "fromMe": True, "id": "$sent", "participant": ME}
    assert len(homeserver.paths("POST createRoom")) == 1
    assert ("PUT", f"user/{ME}/account_data/m.direct", {ANA: [ROOM]}) in homeserver.requests


async def test_other_messages(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session) as matrix:
        key = MessageKey(remote_jid=ROOM, id="$1")
        place = LocationMessage(number=ROOM, latitude=-23.55, longitude=-46.63, name="Shop", reply_to=key)
        sent = await matrix.send(session, place, key="1")
        assert sent["message"]["locationMessage"]["name"] == "Shop"
        assert sent["contextInfo"] == {"stanzaId": "$1"}
        voice = MediaMessage(number=ROOM, kind=MediaKind.AUDIO, content=b"OggS", is_voice=True)
        sent = await matrix.send(session, voice, key="2")
        assert sent["message"]["audioMessage"]["ptt"] is True
        linked = MediaMessage(number=ROOM, kind=MediaKind.STICKER, url="https://cdn.example/cat.webp")
        homeserver.will(
            "GET /cat.webp", httpx.Response(200, content=b"RIFF", headers={"content-type": "image/webp"})
        )
        sent = await matrix.send(session, linked, key="3")
        assert sent["message"]["stickerMessage"]["mimetype"] == "image/webp"
        with pytest.raises(Invalid, match="404"):
            await matrix.send(session, linked, key="4")
        sent = await matrix.send(session, ReactionMessage(number=ROOM, key=key, reaction="👍"), key="5")
        assert sent["message"]["reactionMessage"]["text"] == "👍"
        nothing = ReactionMessage(number=ROOM, key=key, reaction="")
        homeserver.will("GET /_matrix/client/v1/rooms", {"chunk": []})
        with pytest.raises(Invalid, match="not reacted"):
            await matrix.send(session, nothing, key="6")
        homeserver.will("GET /_matrix/client/v1/rooms", {"chunk": [{"sender": ME, "event_id": "$r"}]})
        await matrix.send(session, nothing, key="7")
        assert any("/redact/$r/" in path for path in homeserver.paths("PUT rooms"))
        for number in ("5511988887777", "@ana", "#room", ""):
            with pytest.raises(Invalid):
                await matrix.send(session, TextMessage(number=number, text="x"), key="8")


async def test_presence(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session) as matrix:
        await matrix.set_presence(session, "composing", number=ROOM, delay=1.5)
        await matrix.set_presence(session, "paused", number=ROOM, delay=0)
        await matrix.set_presence(session, "available", number=None, delay=0)
        await matrix.restart(session)
        with pytest.raises(Invalid):
            await matrix.set_presence(session, "composing", number=None, delay=0)
    bodies = [body for method, _, body in homeserver.requests if method == "PUT"]
    assert bodies == [{"typing": True, "timeout": 1500}, {"typing": False}, {"presence": "online"}]


async def test_media(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session) as matrix:
        homeserver.will(
            "GET /_matrix/client/v1/media", refusal(404, "M_UNRECOGNIZED"), refusal(404, "M_NOT_FOUND")
        )
        file = httpx.Response(200, content=b"file", headers={"content-type": "image/png"})
        homeserver.will("GET /_matrix/media/v3/download/a/b", file)
        sink = FakeMediaSink()
        await matrix.open_media(session, "mxc://a/b", sink)
        assert (sink.content, sink.mimetype, sink.size) == (b"file", "image/png", 4)
        for reference in ("mxc://a/b", "mxc://a/../b", "https://a/b"):
            with pytest.raises(NotFound):
                await matrix.open_media(session, reference, FakeMediaSink())


async def test_the_length_of_a_compressed_answer_is_not_that_of_the_file(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session) as matrix:
        body = gzip.compress(b"file")
        headers = {"content-encoding": "gzip", "content-length": str(len(body))}
        packed = httpx.Response(200, stream=httpx.ByteStream(body), headers=headers)
        homeserver.will("GET /_matrix/client/v1/media", packed)
        sink = FakeMediaSink()
        await matrix.open_media(session, "mxc://a/b", sink)
    assert (sink.content, sink.size) == (b"file", None)


def image(number: int, **info: Any) -> dict[str, Any]:
    content = {"msgtype": "m.image", "body": "a.png", "url": f"mxc://hs.example/{number}", "info": info}
    return message(number, content=content)


def files_in(session: FakeSession) -> list[str | None]:
    return [data["message"].get("base64") for data in session.data_of("MESSAGES_UPSERT")]


@pytest.fixture
async def asked(homeserver: Homeserver) -> AsyncIterator[FakeSession]:
    """A session of an instance with a registration that asks for files inside events."""
    async with httpx.AsyncClient(transport=httpx.MockTransport(homeserver.answer)) as http:
        yield FakeSession(options=OPTIONS, http=http, catalog=CATALOG, wants_base64=True)


async def test_files_go_into_events_where_a_registration_asks_for_them(
    homeserver: Homeserver, session: FakeSession, asked: FakeSession
) -> None:
    async with connected(homeserver, session):
        homeserver.sync(image(1))
        await session.wait_for("MESSAGES_UPSERT")
    assert files_in(session) == [None]
    assert homeserver.paths("GET /_matrix/client/v1/media") == []
    async with connected(homeserver, asked):
        homeserver.will("GET /_matrix/client/v1/media", httpx.Response(200, content=b"file"))
        homeserver.sync(message(1), image(2, size=4))
        await asked.wait_for("MESSAGES_UPSERT", 2)
    assert files_in(asked) == [None, base64.b64encode(b"file").decode()]
    shown = asked.data_of("MESSAGES_UPSERT")[1]["message"]["imageMessage"]
    assert asked.media[shown["url"]][0] == "mxc://hs.example/2"


async def test_a_file_that_does_not_fit_or_cannot_be_read_is_a_link_alone(
    homeserver: Homeserver, asked: FakeSession
) -> None:
    asked.base64_limit = 4
    async with connected(homeserver, asked):
        homeserver.will(
            "GET /_matrix/client/v1/media",
            httpx.Response(200, content=b"large"),  # and the sender said that it is small
            refusal(404, "M_NOT_FOUND"),
            *[httpx.ReadError("reset")] * 3,
            httpx.Response(200, content=b"file"),
        )
        broken = message(5, content={"msgtype": "m.image", "body": "x", "url": "https://other.example/x"})
        homeserver.sync(image(1, size=5), image(2, size=4), image(3), image(4), broken, image(6))
        await asked.wait_for("MESSAGES_UPSERT", 6)
    assert files_in(asked) == [None, None, None, None, None, base64.b64encode(b"file").decode()]
    assert len(homeserver.paths("GET /_matrix/client/v1/media")) == 6


async def test_a_limited_file_and_receipt_are_asked_for_again(
    homeserver: Homeserver, asked: FakeSession
) -> None:
    asked.settings = InstanceSettings(read_messages=True)
    async with connected(homeserver, asked):
        limited = refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=500)
        homeserver.will("GET /_matrix/client/v1/media", limited, httpx.Response(200, content=b"file"))
        homeserver.will("POST rooms", limited)
        homeserver.sync(image(1))
        await asked.wait_for("MESSAGES_UPSERT")
        await trio.sleep(2)
    assert files_in(asked) == [base64.b64encode(b"file").decode()]
    assert len(homeserver.paths("POST rooms")) == 2


async def test_files_that_take_long_hold_up_an_answer_once(
    homeserver: Homeserver, asked: FakeSession
) -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"fi"
        await trio.sleep_forever()

    began = trio.current_time()
    async with connected(homeserver, asked):
        slow = httpx.Response(200, content=never())
        homeserver.will("GET /_matrix/client/v1/media", slow, httpx.Response(200, content=b"file"))
        homeserver.sync(image(1), image(2))
        homeserver.sync(image(3))
        await asked.wait_for("MESSAGES_UPSERT", 3)
        assert trio.current_time() - began == FILE_TIME
    assert files_in(asked) == [None, None, base64.b64encode(b"file").decode()]


async def test_files_are_not_held_in_memory_page_by_page(
    homeserver: Homeserver, asked: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugins.matrix.sync.MOST_FILES", 8)
    stored: list[int] = []
    emit_all = asked.emit_all

    async def note(events: Any, **more: Any) -> None:
        stored.append(len(events))
        await emit_all(events, **more)

    monkeypatch.setattr(asked, "emit_all", note)
    async with connected(homeserver, asked):
        stored.clear()
        file = httpx.Response(200, content=b"file")
        homeserver.will("GET /_matrix/client/v1/media", *[file] * 5)
        homeserver.sync(*[image(number) for number in range(5)])
        await asked.wait_for("MESSAGES_UPSERT", 5)
        await wait_all_tasks_blocked()
    assert stored == [2, 2, 1]


async def test_read_messages(homeserver: Homeserver, session: FakeSession) -> None:
    session.settings = InstanceSettings(read_messages=True)
    async with connected(homeserver, session):
        homeserver.sync(message(1), message(2), message(3, sender=ME))
        await session.wait_for("MESSAGES_UPSERT", 3)
        await wait_all_tasks_blocked()
        # One receipt covers the messages before it. The account's own need none.
        assert homeserver.paths("POST rooms") == [f"rooms/{ROOM}/receipt/m.read/$2"]
        homeserver.will("POST rooms", refusal(403, "M_FORBIDDEN"))
        homeserver.sync(message(4))
        await session.wait_for("MESSAGES_UPSERT", 4)
        session.settings = InstanceSettings()
        homeserver.sync(message(5))
        await session.wait_for("MESSAGES_UPSERT", 5)
        await wait_all_tasks_blocked()
    assert len(homeserver.paths("POST rooms")) == 2


async def test_always_online(homeserver: Homeserver, session: FakeSession) -> None:
    shown = []
    async with connected(homeserver, session) as matrix:
        for is_always in (True, False):
            session.settings = InstanceSettings(always_online=is_always)
            for _ in range(2):  # the first one has asked before
                homeserver.sync()
                await wait_all_tasks_blocked()
            shown.append(homeserver.syncs[-1]["set_presence"])
        await matrix.set_presence(session, "available", number=None, delay=0)
        homeserver.sync()
        await wait_all_tasks_blocked()
        shown.append(homeserver.syncs[-1]["set_presence"])
    assert shown == ["online", "offline", "online"]


async def test_groups_ignore(homeserver: Homeserver, session: FakeSession) -> None:
    session.settings = InstanceSettings(groups_ignore=True, read_messages=True)
    async with connected(homeserver, session):
        homeserver.sync(message(1))
        direct = {"type": "m.direct", "content": {ANA: [ROOM]}}
        room = {"timeline": {"events": [message(2)]}}
        homeserver.reply(
            {"next_batch": "d", "account_data": {"events": [direct]}, "rooms": {"join": {ROOM: room}}}
        )
        await session.wait_for("MESSAGES_UPSERT")
        await wait_all_tasks_blocked()
    assert texts(session) == ["2"]
    assert homeserver.paths("POST rooms") == [f"rooms/{ROOM}/receipt/m.read/$2"]


async def test_a_limited_sync_waits_as_long_as_it_says(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session):
        await wait_all_tasks_blocked()
        began = trio.current_time()
        homeserver.reply(refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=90_000))
        homeserver.sync(message(1))
        await trio.sleep(89)
        assert session.states[-1][0] is ConnectionState.CONNECTING  # for so long, nothing comes
        await session.wait_for("MESSAGES_UPSERT")
        assert trio.current_time() - began == 90
        # A header says it where the body does not, and more than a minute is believed, too.
        homeserver.reply(
            httpx.Response(429, headers={"retry-after": "120"}, json={"errcode": "M_LIMIT_EXCEEDED"})
        )
        homeserver.sync(message(2))
        await session.wait_for("MESSAGES_UPSERT", 2)
        assert trio.current_time() - began == 210
        limits = {json.loads(sync["filter"])["room"]["timeline"]["limit"] for sync in homeserver.syncs[1:]}
    assert limits == {PAGE}  # it was not too much for the homeserver
    assert ConnectionState.CLOSE not in [state for state, _, _ in session.states]


async def test_invitations(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session):
        homeserver.will("POST rooms/!d", httpx.ConnectError("down"), {}, refusal(403, "M_FORBIDDEN"))
        rooms = {"!d": invited(ANA, is_direct=True), "!group": invited(ANA, is_direct=False)}
        homeserver.reply({"next_batch": "x", "rooms": {"invite": rooms}})
        await session.wait_for("GROUP_PARTICIPANTS_UPDATE", 2)
        await trio.sleep(20)
        assert homeserver.paths("POST rooms") == ["rooms/!d/join", "rooms/!d/join"]
        assert ("PUT", f"user/{ME}/account_data/m.direct", {ANA: ["!d"]}) in homeserver.requests


async def test_a_message_in_a_direct_chat_that_was_just_joined(
    homeserver: Homeserver, session: FakeSession
) -> None:
    """The homeserver reports messages of the room before it has stored that the room is a direct chat."""
    session.settings = InstanceSettings(groups_ignore=True)
    async with connected(homeserver, session) as matrix:
        homeserver.will(DIRECT, *[refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=60_000)] * 5)
        homeserver.reply({"next_batch": "x", "rooms": {"invite": {ROOM: invited(ANA, is_direct=True)}}})
        await session.wait_for("GROUP_PARTICIPANTS_UPDATE")
        homeserver.sync(own_join("$join"), message(2))
        with trio.fail_after(10):
            await session.wait_for("MESSAGES_UPSERT")  # the room is no group
            sent = await matrix.send(session, TextMessage(number=ANA, text="hello"), key="k")
    assert sent["key"]["remoteJid"] == ROOM
    assert homeserver.paths("POST createRoom") == []


@pytest.mark.parametrize(("answer", "is_created"), [({}, False), (refusal(403, "M_FORBIDDEN"), True)])
async def test_a_message_to_who_has_just_invited_waits_for_the_join(
    homeserver: Homeserver, session: FakeSession, answer: Reply | dict[str, Any], is_created: bool
) -> None:
    async with connected(homeserver, session) as matrix:
        homeserver.will("POST rooms/!d/join", httpx.ConnectError("down"), answer)
        homeserver.reply({"next_batch": "x", "rooms": {"invite": {"!d": invited(ANA, is_direct=True)}}})
        await session.wait_for("GROUP_PARTICIPANTS_UPDATE")
        await wait_all_tasks_blocked()
        with trio.fail_after(1):  # the next attempt to join is later
            sent = await matrix.send(session, TextMessage(number=ANA, text="hello"), key="k")
    assert sent["key"]["remoteJid"] == (ROOM if is_created else "!d")
    assert len(homeserver.paths("POST createRoom")) == is_created


async def test_direct_chats_at_once_are_all_marked(homeserver: Homeserver, session: FakeSession) -> None:
    marked: dict[str, list[str]] = {"@old:hs.example": ["!old"]}

    def store(request: httpx.Request) -> httpx.Response:
        marked.clear()
        marked.update(json.loads(request.content))
        return httpx.Response(200, json={})

    async with connected(homeserver, session):
        # Another client of the account has marked one since the login, and the next /sync will tell.
        homeserver.will(
            f"GET user/{ME}/account_data/m.direct", *[lambda _: httpx.Response(200, json=marked)] * 9
        )
        homeserver.will(DIRECT, store, store, store)
        rooms = {f"!{number}": invited(f"@{number}:hs.example", is_direct=True) for number in range(3)}
        homeserver.reply({"next_batch": "x", "rooms": {"invite": rooms}})
        await session.wait_for("GROUP_PARTICIPANTS_UPDATE", 3)
        await wait_all_tasks_blocked()
    assert marked == {
        "@old:hs.example": ["!old"],
        **{f"@{number}:hs.example": [f"!{number}"] for number in range(3)},
    }


async def test_an_account_may_have_very_many_direct_chats(
    homeserver: Homeserver, session: FakeSession
) -> None:
    session.settings = InstanceSettings(groups_ignore=True)
    content = {f"@{number}:hs.example": [f"!{number}:hs.example"] for number in range(12_000)}
    direct = {"type": "m.direct", "content": {**content, ANA: [ROOM]}}
    async with connected(homeserver, session) as matrix:
        homeserver.reply({"next_batch": "d", "account_data": {"events": [direct]}})
        homeserver.sync(message(1))
        await session.wait_for("MESSAGES_UPSERT")  # the room is no group
        homeserver.will(f"GET user/{ME}/account_data/m.direct", {**content, "@b:hs.example": ["!b"]})
        homeserver.will("GET rooms/!b/state/m.room.member", {"membership": "join"})
        sent = await matrix.send(session, TextMessage(number="@b:hs.example", text="hello"), key="k")
    assert sent["key"]["remoteJid"] == "!b"
    assert session.left_out == []


async def test_a_direct_chat_that_another_client_opened_is_found(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session) as matrix:
        homeserver.will(f"GET user/{ME}/account_data/m.direct", {ANA: ["!d"]})
        homeserver.will("GET rooms/!d/state/m.room.member", {"membership": "join"})
        sent = await matrix.send(session, TextMessage(number=ANA, text="hello"), key="k")
    assert sent["key"]["remoteJid"] == "!d"
    assert homeserver.paths("POST createRoom") == []


async def test_calls_without_a_connection(session: FakeSession) -> None:
    with pytest.raises(NetworkRefused) as caught:
        await Matrix().send(session, TextMessage(number=ROOM, text="x"), key="k")
    assert caught.value.status == 409
