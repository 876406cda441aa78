"""What Evolution API posts, as events: each once, and none refused for good."""

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
import trio
from quart import Response
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from hookgw import IngestRequest, Invalid, NewEvent, Unavailable
from hookgw.testing import FakeSession
from plugins.evolution.connector import Evolution as Connector
from plugins.evolution.webhook import EVENTS, PROOF
from tests.first_party.evolution import (
    Take,
    connected,
    transport_of,
)
from tests.first_party.runs import post
from tests.networks.evolution import WUID, Evolution

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_the_same_body_is_one_event(session: FakeSession, evolution: Evolution, taking: Take) -> None:
    first = evolution.envelope("shop", "presence.update", {"id": "a", "presences": {}})
    for _ in range(3):
        assert await taking(first) == 200
    # The same happening again, at another time, is another event.
    assert await taking(evolution.envelope("shop", "presence.update", first["data"])) == 200
    assert await taking({**first, "data": {"id": "b"}}) == 200
    assert await taking({**first, "event": "chats.update"}) == 200
    assert len(session.data_of("PRESENCE_UPDATE")) == 3
    assert len(session.data_of("CHATS_UPDATE")) == 1
    # Where it goes to changes with the webhook.
    assert await taking({**first, "destination": "other", "server_url": "other", "apikey": None}) == 200
    assert len(session.data_of("PRESENCE_UPDATE")) == 3


async def test_data_arrives_byte_for_byte(session: FakeSession, taking: Take) -> None:
    data = b'{"b": 1.0, "a": 1e3, "n": 123456789012345678901, "u": "\\u00e9"}'
    assert await taking(b'{"event":"call","data":' + data + b',"extra":[{}]}') == 200
    assert session.events[-1].data_json == data


@pytest.mark.parametrize("size", [1, 100_000])
async def test_how_far_a_history_sync_is_goes_along(
    session: FakeSession, evolution: Evolution, taking: Take, size: int
) -> None:
    messages = [{"key": {"id": str(number)}, "message": "x" * size} for number in range(20)]
    body = evolution.envelope("shop", "messages.set", messages)
    for _ in range(2):
        assert await taking({"isLatest": False, "progress": 40, **body}) == 200
    assert sum(map(len, session.data_of("MESSAGES_SET"))) == 20
    value = {"isLatest": False, "progress": 40}
    assert session.data_of("NETWORK_EVENT") == [
        {"network": "evolution", "name": "messages.set", "value": value}
    ]
    assert session.events[-1].kind == "NETWORK_EVENT"


@pytest.mark.parametrize("size", [1, 60_000])
async def test_files_of_a_history_sync_have_links(
    session: FakeSession, evolution: Evolution, taking: Take, size: int
) -> None:
    picture = {"imageMessage": {"mimetype": "image/png", "caption": "x" * size}}
    messages = [
        evolution.message("5511988887777@s.whatsapp.net", one, from_me=False)
        for one in (picture, {"conversation": "hi"}) * 10
    ]
    body = evolution.envelope("shop", "messages.set", messages)
    for _ in range(2):
        assert await taking(body) == 200
    found = [one for part in session.data_of("MESSAGES_SET") for one in part]
    links = [one["message"].pop("mediaUrl", "") for one in found]
    assert found == messages
    assert [link in session.media for link in links] == [True, False] * 10


@pytest.mark.parametrize("event", ["group.update", "GROUP_UPDATE", "groups.update", "GROUPS_UPDATE"])
async def test_spellings(session: FakeSession, taking: Take, event: str) -> None:
    assert await taking({"event": event, "data": [{"id": "1@g.us"}]}) == 200
    assert session.data_of("GROUPS_UPDATE") == [[{"id": "1@g.us"}]]


async def test_every_event_of_evolution_has_a_kind(session: FakeSession, taking: Take) -> None:
    for name in EVENTS:
        assert await taking({"event": name, "data": None}) == 200
        assert session.events[-1].data is None
    assert len({event.kind for event in session.events}) == len(EVENTS)


async def test_the_kind_may_be_in_the_path(session: FakeSession, taking: Take) -> None:
    body = {"event": "messages.upsert", "data": {"key": {"id": "1"}}}
    assert await taking(body, "messages-upsert") == 200
    assert await taking({"data": {"key": {"id": "2"}}}, "group-participants-update") == 200
    assert len(session.data_of("MESSAGES_UPSERT")) == 1
    assert len(session.data_of("GROUP_PARTICIPANTS_UPDATE")) == 1


async def test_version_1(session: FakeSession, taking: Take) -> None:
    body = {
        "event": "messages.upsert",
        "instance": "shop",
        "data": {
            "key": {"remoteJid": "5511988887777@s.whatsapp.net", "fromMe": False, "id": "3A0"},
            "pushName": "Ana",
            "message": {"conversation": "oi"},
            "messageType": "conversation",
            "messageTimestamp": 1717775575,
            "owner": "shop",
            "source": "ios",
        },
        "destination": "https://hookgw.example",
        "date_time": "2024-06-07T12:52:55.000Z",
        "sender": WUID,
        "server_url": "https://evolution.example",
        "apikey": "B6D711FCDE4D4FD5936544120E713976",
    }
    assert await taking(body) == 200
    assert (session.events[-1].data, session.events[-1].sender) == (body["data"], WUID)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        7,
        "text",
        [None],
        {"event": None, "data": None},
        {"event": 7, "data": {}},
        {"event": {"a": 1}, "data": []},
        {"data": {}},
    ],
)
async def test_what_is_no_event_is_acknowledged_and_logged(
    session: FakeSession, taking: Take, body: Any
) -> None:
    before = len(session.events)
    with capture_logs() as logs:
        assert await taking(body) == 200
    assert len(session.events) == before
    assert [line["log_level"] for line in logs] in (["warning"], ["warning", "warning"])


async def test_an_unknown_event_is_passed_on_and_logged_once(session: FakeSession, taking: Take) -> None:
    with capture_logs() as logs:
        for number in (0, 1, 1, 2):
            await taking(b'{"event": "no.such.event", "data": {"b": %d.0,"a":1}}' % number)
    assert len(logs) == 1
    assert "no.such.event" in logs[0]["reason"]
    found = [event.data_json for event in session.events if event.kind == "NETWORK_EVENT"]
    assert found == [
        b'{"network":"evolution","name":"no.such.event","value":{"b": %d.0,"a":1}}' % number
        for number in range(3)
    ]
    assert await taking({"event": "x" * 10_000, "data": [None]}) == 200
    assert session.data_of("NETWORK_EVENT")[-1]["value"] == [None]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"null", None),
        (b"[]", []),
        (b'["a", null, 1]', ["a", None, 1]),
        (b'"text"', "text"),
        (b'{"name": "\\ud83d cut"}', {"name": "� cut"}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": 1e999, "b": -Infinity, "c": NaN}', {"a": None, "b": None, "c": None}),
        (b'{"a": "\xff"}', {"a": "�"}),
    ],
)
async def test_lying_data_is_repaired(session: FakeSession, taking: Take, data: bytes, wanted: Any) -> None:
    body = b'{"event": "chats.update", "sender": 7, "date_time": null, "data": ' + data + b"}"
    for _ in range(2):
        assert await taking(body) == 200
    assert session.data_of("CHATS_UPDATE") == [wanted]


async def test_data_that_nobody_can_read_is_left_out(session: FakeSession, taking: Take) -> None:
    for deep in (1_000, 100_000):
        body = b'{"event": "chats.update", "data": ' + b"[" * deep + b"]" * deep + b"}"
        with capture_logs() as logs:
            assert await taking(body) == 200
        assert len(logs) == 1
    assert session.data_of("CHATS_UPDATE") == []


async def test_a_list_with_very_many_values_becomes_several_events(
    session: FakeSession, taking: Take
) -> None:
    contacts = [{"id": str(number), "name": "Ana", "n": 1.0} for number in range(30_000)]
    large = [0] * 20_001
    for data in ([*contacts, large], contacts):
        session.events.clear()
        body = json.dumps({"event": "contacts.set", "date_time": str(len(data)), "data": data}).encode()
        for _ in range(2):
            assert await taking(body) == 200
        parts = session.data_of("CONTACTS_SET")
        assert len(parts) > 5
        assert [contact for part in parts for contact in part] == contacts
        assert all(sum(map(len, part)) + 1 <= 20_000 for part in parts)
    assert session.left_out == [json.dumps(large).encode()] * 2


async def test_an_event_with_too_many_values_is_acknowledged(session: FakeSession, taking: Take) -> None:
    for size in (20_001, 700_000):  # the second one has more than 1 MiB
        assert await taking({"event": "chats.update", "data": {"a": [0] * size}}) == 200
    assert len(session.left_out) == 2
    assert await taking({"event": "chats.update", "data": {"a": [0] * 19_000}}) == 200
    assert len(session.data_of("CHATS_UPDATE")) == 1


async def test_a_list_of_events(session: FakeSession, taking: Take) -> None:
    assert await taking([{"event": "call", "data": 1}, {"event": "chats.delete", "data": [2]}]) == 200
    assert [event.kind for event in session.events[-2:]] == ["CALL", "CHATS_DELETE"]


async def test_a_cut_body_may_come_again(session: FakeSession, taking: Take) -> None:
    whole = b'{"event": "call", "data": {"a": "b"}}'
    for length in range(len(whole)):
        assert await taking(whole[:length]) == 408  # one after which Evolution API repeats it
    assert await taking(whole) == 200
    assert session.data_of("CALL") == [{"a": "b"}]


@pytest.mark.parametrize("given", [None, "", "wrong", "é", "\udcff"])
async def test_without_the_proof_nothing_is_taken(
    connector: Connector, session: FakeSession, evolution: Evolution, given: str | None
) -> None:
    body = json.dumps(evolution.envelope("shop", "call", {})).encode()
    headers = {} if given is None else {PROOF: given}
    async with connected(connector, session):
        assert await post(connector, session, body, headers) == 401
        assert await post(connector, session, b"not JSON", headers) == 401
        request = IngestRequest(method="GET", query={}, headers={PROOF: session.stored["secret"]}, body=b"")
        with pytest.raises(Exception, match="POST"):
            await connector.ingest(session, request)
    assert session.data_of("CALL") == []
    # Not yet: it may be sent again.
    assert await post(connector, session, body, headers) == 503


async def test_files_in_events_are_for_registrations_that_want_them(
    session: FakeSession, taking: Take
) -> None:
    data = {"key": {"id": "1"}, "message": {"imageMessage": {}, "base64": "aGVsbG8="}}
    assert await taking({"event": "messages.upsert", "data": data}) == 200
    # As data, not as bytes: only so does the gateway find the file, and leaves it out for others.
    assert (session.events[-1].data, session.events[-1].data_json) == (data, None)


@pytest.mark.parametrize("account", [WUID, "77@lid"])
async def test_an_edit_by_a_person_has_the_key_of_the_message(
    session: FakeSession, evolution: Evolution, taking: Take, account: str
) -> None:
    """Evolution API passes on the key that the author sees: the account is their chat, and it is theirs."""
    ana = "5511988887777@s.whatsapp.net"
    messages = [
        evolution.message(ana, {"conversation": "hi"}, from_me=False),
        evolution.message(ana, {"conversation": "hi"}, from_me=True),
        evolution.message(WUID, {"conversation": "a note to myself"}, from_me=True),
    ]
    for message in messages:
        evolution.store("shop", message)
    for message in messages:
        key = {**message["key"], "remoteJid": account, "fromMe": True}
        for change in ({"type": "REVOKE"}, {"type": 14, "editedMessage": {"conversation": "new"}}):
            body = evolution.envelope("shop", "messages.edited", {"key": key, **change})
            for _ in range(2):
                assert await taking(body) == 200
            assert session.events[-1].data == {"key": message["key"], **change}
    assert len(session.data_of("MESSAGES_EDITED")) == 6


async def test_an_edit_whose_message_cannot_be_looked_up_comes_as_it_is(
    session: FakeSession, evolution: Evolution, taking: Take
) -> None:
    async def never() -> Response:
        await trio.sleep_forever()
        raise AssertionError

    async def tell(id_: str) -> None:
        data = {"key": {"remoteJid": WUID, "fromMe": True, "id": id_}, "type": "REVOKE"}
        assert await taking(evolution.envelope("shop", "messages.edited", data)) == 200
        assert session.events[-1].data == data

    await tell("not stored")
    transport_of(session).errors["POST chat/findMessages"] = [httpx.ConnectError("no route")]
    await tell("not reached")
    evolution.faults["POST chat/findMessages"] = [never]
    await tell("not in time")
    asked = len(evolution.calls_of("POST chat/findMessages"))
    await tell("not asked, because others would wait, too")
    assert len(evolution.calls_of("POST chat/findMessages")) == asked


@pytest.mark.parametrize("chat", ["5511988887777@s.whatsapp.net", "182764512345678@lid"])
async def test_a_status_from_a_linked_device_has_the_chat_of_its_message(
    session: FakeSession, evolution: Evolution, taking: Take, chat: str
) -> None:
    """Of ``5511988887777:12@s.whatsapp.net``, Evolution API 2.4 leaves ``5511988887777``."""
    number = "5511988887777@s.whatsapp.net"
    message = evolution.message(chat, {"conversation": "hi"}, from_me=True)
    if chat != number:
        message["key"]["remoteJidAlt"] = number
    evolution.store("shop", message)
    found = {"remoteJid": chat} if chat == number else {"remoteJid": chat, "remoteJidAlt": number}
    for status in ("DELIVERY_ACK", "READ"):
        data = {"keyId": message["key"]["id"], "remoteJid": chat.partition("@")[0], "fromMe": True}
        data |= {"status": status}
        assert await taking(evolution.envelope("shop", "messages.update", data)) == 200
        assert session.events[-1].data == {**data, **found}
    # The chat of a number is the same in all of its messages.
    assert len(evolution.calls_of("POST chat/findMessages")) == 1


async def test_a_status_whose_message_is_not_known_comes_as_it_is(
    session: FakeSession, evolution: Evolution, taking: Take
) -> None:
    whole = {"keyId": "1", "remoteJid": "5511988887777@s.whatsapp.net", "fromMe": True, "status": "READ"}
    assert await taking(evolution.envelope("shop", "messages.update", whole)) == 200
    assert evolution.calls_of("POST chat/findMessages") == []
    other = evolution.message("5511966665555@s.whatsapp.net", {"conversation": "hi"}, from_me=True)
    evolution.store("shop", other)
    # The message of somebody else says nothing of the chat.
    for id_, chat in (("not stored", "5511988887777"), (other["key"]["id"], "5511977776666")):
        cut = {**whole, "keyId": id_, "remoteJid": chat}
        for _ in range(2):
            assert await taking(evolution.envelope("shop", "messages.update", cut)) == 200
            assert session.events[-1].data == cut
    assert len(evolution.calls_of("POST chat/findMessages")) == 2
    # One that was stored too late, or is gone, hides none of the chat's others.
    mine = evolution.message("5511988887777@s.whatsapp.net", {"conversation": "hi"}, from_me=True)
    evolution.store("shop", mine)
    cut = {**whole, "keyId": mine["key"]["id"], "remoteJid": "5511988887777"}
    assert await taking(evolution.envelope("shop", "messages.update", cut)) == 200
    assert session.events[-1].data["remoteJid"] == "5511988887777@s.whatsapp.net"


async def test_a_long_list_becomes_several_events(
    session: FakeSession, taking: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the gateway does, the session refuses an event of more than ``events.max_data``."""
    emit_all = session.emit_all

    async def limited(events: Sequence[NewEvent], **more: Any) -> None:
        if any(len(json.dumps(event.data)) > 1_000 for event in events):
            raise Invalid("too large")
        await emit_all(events, **more)

    monkeypatch.setattr(session, "emit_all", limited)
    history = [{"key": {"id": str(number)}, "message": {"conversation": "x" * 50}} for number in range(100)]
    for _ in range(2):
        assert await taking({"event": "messages.set", "data": history}) == 200
    parts = session.data_of("MESSAGES_SET")
    assert 10 <= len(parts) <= 20
    assert [message for part in parts for message in part] == history
    # One item alone is too large, and there is nothing to divide.
    for data in (["x" * 2_000], {"x": "y" * 2_000}):
        with capture_logs() as logs:
            assert await taking({"event": "chats.set", "data": data}) == 200
        assert [line["event"] for line in logs] == ["event left out"]


async def test_events_stay_in_the_order_of_their_arrival(
    session: FakeSession, taking: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit_all, batches = session.emit_all, []

    async def slow(events: Sequence[NewEvent], **more: Any) -> None:
        if any(event.data == ["refused"] for event in events):
            raise Invalid("refused")
        batches.append(len(events))
        await trio.sleep(sum(len(json.dumps(event.data)) for event in events))
        await emit_all(events, **more)

    monkeypatch.setattr(session, "emit_all", slow)
    arriving: list[dict[str, Any]] = [
        {"event": "call", "data": [number, "x" * (100 - 5 * number)]} for number in range(20)
    ]
    arriving[5:5] = [{"event": "connection.update", "data": {"state": "close"}}, {"event": "unknown"}]
    arriving[12:12] = [{"event": "call", "data": ["refused"]}, arriving[3]]
    statuses = []

    async def post_one(body: dict[str, Any]) -> None:
        statuses.append(await taking(body))

    async with trio.open_nursery() as nursery:
        for body in arriving:
            nursery.start_soon(post_one, body)
            await wait_all_tasks_blocked()
    assert [data[0] for data in session.data_of("CALL")] == list(range(20))
    assert statuses == [200] * len(arriving)
    kinds = [event.kind for event in session.events]
    assert kinds.index("CONNECTION_UPDATE", 2) == kinds.index("CALL") + 5
    assert max(batches) > 5  # one commit for many


@pytest.mark.parametrize("odd", [[0] * 90, [[[]]] * 60, ["\n" * 900], [10**70] * 60])
async def test_files_in_a_list_with_very_many_values_stay(
    session: FakeSession, taking: Take, odd: list[Any]
) -> None:
    items = [{"n": number, "message": {"base64": "aGk=", "x": odd}} for number in range(1_000)]
    assert await taking({"event": "messages.set", "data": items}) == 200
    parts = session.data_of("MESSAGES_SET")
    assert len(parts) > 1
    assert [item for part in parts for item in part] == items


async def test_a_request_is_read_again_if_the_one_that_read_it_has_ended(
    session: FakeSession, taking: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode_json, is_slow = session.decode_json, True

    async def slow(text: bytes, **more: Any) -> Any:
        await trio.sleep(5 if b"second" in text and is_slow else 1)
        return await decode_json(text, **more)

    monkeypatch.setattr(session, "decode_json", slow)
    statuses: dict[str, int] = {}

    async def post_one(name: str, *, after: float) -> None:
        await trio.sleep(after)
        statuses[name] = await taking({"event": "call", "data": [name]})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: post_one("zeroth", after=0))
        nursery.start_soon(lambda: post_one("second", after=0.5))
        with trio.move_on_after(3):  # its sender goes away while the next one is read
            await post_one("first", after=0.2)
        is_slow = False
    assert statuses == {"zeroth": 200, "second": 200}
    assert [data[0] for data in session.data_of("CALL")] == ["zeroth", "second"]


async def test_what_cannot_be_stored_now_comes_again(
    session: FakeSession, taking: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit_all = session.emit_all
    is_full = True

    async def full(events: Sequence[NewEvent], **more: Any) -> None:
        await trio.sleep(1)
        if is_full:
            raise Unavailable("The disk is full.")
        await emit_all(events, **more)

    monkeypatch.setattr(session, "emit_all", full)
    statuses = []

    async def post_one(number: int) -> None:
        with trio.move_on_after(3.2 if number == 3 else 60):  # a request that takes too long is cancelled
            statuses.append(await taking({"event": "call", "data": number}))

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(post_one, number)
            await wait_all_tasks_blocked()
        await trio.sleep(3.5)
        is_full = False
    assert statuses == [503] * 3 + [200] * 2
    assert session.data_of("CALL") == [4, 5]


async def test_the_clock_of_the_server_may_jump(
    session: FakeSession, evolution: Evolution, taking: Take
) -> None:
    """It tells the local time as if it were UTC: in autumn, an hour comes twice."""

    def update(state: str, at: str) -> dict[str, Any]:
        data = {"instance": "shop", "state": state, "statusReason": 428}
        return {**evolution.envelope("shop", "connection.update", data), "date_time": at}

    for state, at in (
        ("open", "2026-10-25T02:59:59.000Z"),
        ("close", "2026-10-25T02:00:01.000Z"),
        ("open", "nonsense"),
        ("close", "2126-10-25T02:00:01+03:00"),
    ):
        assert await taking(update(state, at)) == 200
    states = [data["state"] for data in session.data_of("CONNECTION_UPDATE")]
    assert states == ["connecting", "open", "close", "open", "close"]
