"""Every field of what networks post, replaced by everything else: it is no failure, and stops nothing.

The senders are proved. What they pass on was written by people, and other versions have other fields.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest
import trio
from trio.testing import MockClock

from hookgw import (
    ConnectionState,
    HookgwError,
    IngestRequest,
    Invalid,
    NewEvent,
    ProofRefused,
    Session,
    Unavailable,
)
from hookgw.models.event_kinds import BUILT_IN_KINDS
from hookgw.models.events import Catalog, Event
from hookgw.models.payload_schemas import SchemaBook
from hookgw.testing import FakeSession
from plugins.evolution.connector import Evolution
from plugins.evolution.webhook import PROOF
from plugins.gateway_kinds import KINDS
from plugins.telegram.connector import Telegram
from plugins.waha.connector import Waha
from plugins.whatsapp_cloud.connector import WhatsAppCloud
from tests.networks.evolution import KEY
from tests.networks.evolution import Evolution as FakeEvolution
from tests.networks.telegram.bots import TOKEN
from tests.networks.telegram.server import BotApi
from tests.networks.waha.server import FakeWaha
from tests.networks.whatsapp_cloud.graph import NUMBER, SECRET, Graph
from tests.networks.whatsapp_cloud.graph import TOKEN as META_TOKEN
from tests.networks.whatsapp_cloud.webhooks import (
    VERIFY_TOKEN,
    message,
    notification,
    signature,
    status,
    text_message,
    value,
)

PAYLOADS = Path(__file__).parents[1] / "payloads"
CATALOG = Catalog([*BUILT_IN_KINDS, *KINDS])
SCHEMAS = SchemaBook(CATALOG)
# As JSON: some of it no JSON library writes.
LIES = (
    *("null", '""', '"x"', '"\\ud83d"', '"\\u0000"', '"https://x.example/a"', '"1e999"', '"1749416383"'),
    *("0", "-1", "1.5", "1e300", "-1e999", "18446744073709551616", "1" + "0" * 5000, "true", "NaN"),
    *("[]", "{}", "[[]]", '[null, {"a": 1}]', '{"a": {"b": "c"}}', '{"": null}', '{"id": [1], "type": {}}'),
    *("[" * 300 + "]" * 300, '"' + "x" * 70_000 + '"'),
)
MISSING = ""
LIES_AT_A_PLACE = int(os.environ.get("HOOKGW_LIES", "3"))


@dataclass
class Line:
    """A connected instance, and how its network reports.

    Attributes:
        post: posts a proved body, and returns the status of the answer, as the gateway would.
        bodies: what the network reports.
        news: returns a report of its own for each number.
    """

    session: FakeSession
    post: Callable[[bytes], Awaitable[int]]
    bodies: list[Any]
    news: Callable[[int], Any]


@asynccontextmanager
async def connected(connector: Any, session: FakeSession) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connector.run, session)
        with trio.move_on_after(5):  # of WAHA, a code is shown
            await session.wait_until(ConnectionState.OPEN)
        yield
        nursery.cancel_scope.cancel()


def posting(
    connector: Any, session: Session, headers: Callable[[bytes], dict[str, str]]
) -> Callable[[bytes], Awaitable[int]]:
    async def post(body: bytes) -> int:
        request = IngestRequest(method="POST", query={}, headers=headers(body), body=body)
        try:
            return int((await connector.ingest(session, request)).status)
        except ProofRefused:
            raise AssertionError("The proof was right") from None
        except HookgwError as error:
            return int(error.status)

    return post


def payload(name: str) -> Any:
    return json.loads((PAYLOADS / f"{name}.json").read_text("utf-8"))


@asynccontextmanager
async def evolution() -> AsyncIterator[Line]:
    fake = FakeEvolution()
    fake.add("shop")
    options = {"base_url": "http://evolution.example", "api_key": KEY, "media_links": True}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(cast("Any", fake.app))) as http:
        session, connector = FakeSession(options=options, http=http, catalog=CATALOG), Evolution()
        async with connected(connector, session):
            proof = {PROOF: session.stored["secret"]}
            names = sorted(path.stem for path in PAYLOADS.glob("*.json") if path.stem != "big-integers")
            template = payload("messages-upsert.text")

            def news(number: int) -> Any:
                body = copy.deepcopy(template)
                body["data"]["key"]["id"] = f"NEWS{number}"
                return body

            yield Line(
                session, posting(connector, session, lambda _: proof), [payload(n) for n in names], news
            )


@asynccontextmanager
async def waha() -> AsyncIterator[Line]:
    async with trio.open_nursery() as nursery:
        given: list[tuple[str, bytes]] = []

        async def take(url: str, headers: dict[str, str], body: bytes) -> int:
            given.append((url, body))
            return 200

        fake = FakeWaha(take, nursery)
        options = {"base_url": "https://waha.example", "api_key": "waha-key", "session": "default"}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(cast("Any", fake.app))) as http:
            session, connector = FakeSession(options=options, http=http, catalog=CATALOG), Waha()
            async with connected(connector, session):
                webhooks: Any = fake.sessions["default"].config.get("webhooks")
                key = webhooks[0]["hmac"]["key"].encode()

                def headers(body: bytes) -> dict[str, str]:
                    return {"x-webhook-hmac": hmac.new(key, body, hashlib.sha512).hexdigest()}

                def report(event: str, payload: Any, id_: str) -> Any:
                    return {
                        "id": id_,
                        "event": event,
                        "session": "default",
                        "me": {"id": "1@c.us"},
                        "payload": payload,
                    }

                ana, group = "5511988887777@c.us", "120363040000000000@g.us"
                text = {
                    "id": f"false_{ana}_3EB0",
                    "timestamp": 1773027345,
                    "from": ana,
                    "fromMe": False,
                    "body": "hi",
                    "hasMedia": True,
                    "media": {
                        "url": "http://w/api/files/default/a.jpg",
                        "mimetype": "image/jpeg",
                        "filename": "a",
                    },
                    "replyTo": {"id": "true_x_1", "participant": ana, "body": "b"},
                    "location": {"latitude": "1", "longitude": "2", "description": "d"},
                    "vCards": ["BEGIN:VCARD"],
                    "ack": 1,
                    "_data": {"notifyName": "Ana", "type": "image", "pushName": "Ana"},
                }
                bodies = [
                    report("message.any", text, "r1"),
                    report("message.ack", {"id": text["id"], "from": ana, "ack": 3, "ackName": "READ"}, "r2"),
                    report(
                        "message.reaction",
                        {**text, "reaction": {"text": "x", "messageId": text["id"]}},
                        "r3",
                    ),
                    report("message.edited", {**text, "editedMessageId": "3EB0"}, "r4"),
                    report("message.revoked", {"after": text, "before": text, "revokedMessageId": "3"}, "r5"),
                    report(
                        "group.v2.participants",
                        {
                            "group": {"id": group},
                            "type": "join",
                            "timestamp": 5,
                            "participants": [{"id": ana}],
                        },
                        "r6",
                    ),
                    report(
                        "group.v2.join",
                        {
                            "group": {
                                "id": group,
                                "subject": "s",
                                "participants": [{"id": ana, "role": "admin"}],
                            }
                        },
                        "r7",
                    ),
                    report(
                        "presence.update",
                        {
                            "id": ana,
                            "presences": [{"participant": ana, "lastKnownPresence": "typing", "lastSeen": 5}],
                        },
                        "r8",
                    ),
                    report(
                        "poll.vote",
                        {"vote": {"id": "false_x_1", "selectedOptions": ["a"]}, "poll": {"id": "true_x_2"}},
                        "r9",
                    ),
                    report("call.received", {"id": "c", "from": ana, "timestamp": 5, "isVideo": True}, "r10"),
                    report(
                        "label.chat.added",
                        {"labelId": "1", "chatId": ana, "label": {"id": "1", "name": "n"}},
                        "r11",
                    ),
                    report("chat.archive", {"id": ana, "timestamp": 5, "archived": True}, "r12"),
                    report("session.status", {"status": "WORKING"}, "r13"),
                ]

                def news(number: int) -> Any:
                    return report("message.any", {**text, "id": f"false_{ana}_NEWS{number}"}, f"n{number}")

                yield Line(session, posting(connector, session, headers), bodies, news)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def whatsapp_cloud() -> AsyncIterator[Line]:
    graph = Graph()
    options = {
        "phone_number_id": NUMBER,
        "access_token": META_TOKEN,
        "app_secret": SECRET,
        "verify_token": VERIFY_TOKEN,
        "api_version": "v26.0",
        "base_url": "https://graph.example",
    }
    async with httpx.AsyncClient(transport=httpx.MockTransport(graph.handle)) as http:
        session, connector = FakeSession(options=options, http=http, catalog=CATALOG), WhatsAppCloud()
        async with connected(connector, session):
            card = {
                "name": {"formatted_name": "A", "first_name": "A"},
                "phones": [{"phone": "1", "wa_id": "1"}],
                "emails": [{"email": "e"}],
                "urls": [{"url": "u"}],
                "org": {"company": "c"},
            }
            messages = [
                text_message("hi", context={"from": "1", "id": "wamid.1", "forwarded": True}),
                message("image", {"id": "123", "mime_type": "image/png", "sha256": "s", "caption": "c"}),
                message("document", {"id": "123", "mime_type": "a/b", "filename": "f"}, group_id="g1"),
                message(
                    "location", {"latitude": 1.5, "longitude": 2, "name": "n", "address": "a", "url": "u"}
                ),
                message("contacts", [card]),
                message("reaction", {"message_id": "wamid.1", "emoji": "x"}),
                message("interactive", {"type": "button_reply", "button_reply": {"id": "1", "title": "t"}}),
                message(
                    "interactive",
                    {"type": "nfm_reply", "nfm_reply": {"response_json": "{}", "body": "b", "name": "n"}},
                ),
                message("button", {"payload": "p", "text": "t"}),
                message(
                    "order", {"catalog_id": "c", "text": "t", "product_items": [{"product_retailer_id": "1"}]}
                ),
                message("system", {"body": "b", "type": "user_changed_number", "wa_id": "2"}),
                message("edit", {"original_message_id": "wamid.1", "message": text_message("new")}),
                message("revoke", {"original_message_id": "wamid.1"}),
                message(
                    "unsupported", errors=[{"code": 131051, "title": "t", "error_data": {"details": "d"}}]
                ),
            ]
            statuses = [
                status(
                    "wamid.1",
                    "delivered",
                    conversation={"id": "c", "origin": {"type": "t"}},
                    pricing={"billable": True},
                ),
                status(
                    "wamid.1",
                    "failed",
                    errors=[{"code": 131026, "title": "t", "error_data": {"details": "d"}}],
                ),
            ]
            echo = {**text_message("hi"), "to": "5511988887777"}
            call = {
                "id": "wacid.1",
                "from": "1",
                "to": "2",
                "event": "connect",
                "timestamp": "5",
                "direction": "d",
            }
            bodies = [notification(value(messages=[one])) for one in messages]
            bodies += [notification(value(statuses=[one])) for one in statuses]
            bodies.append(notification(value(message_echoes=[echo]), field="smb_message_echoes"))
            bodies.append(notification(value(calls=[call]), field="calls"))

            def headers(body: bytes) -> dict[str, str]:
                return {"x-hub-signature-256": signature(body)}

            def news(number: int) -> Any:
                return notification(value(messages=[{**text_message("news"), "id": f"wamid.NEWS{number}"}]))

            yield Line(session, posting(connector, session, headers), bodies, news)


@asynccontextmanager
async def telegram() -> AsyncIterator[Line]:
    api = BotApi()
    options = {"bot_token": TOKEN, "mode": "webhook", "base_url": "https://api.telegram.org"}
    async with httpx.AsyncClient(transport=api.transport()) as http:
        session, connector = FakeSession(options=options, http=http, catalog=CATALOG), Telegram()
        async with connected(connector, session):
            secret = api.bot.webhook["secret_token"]
            user = {"id": 5, "is_bot": False, "first_name": "Ana", "username": "ana"}
            chat = {"id": -5, "type": "group", "title": "t"}
            basic = {"message_id": 7, "date": 1749416383, "chat": chat, "from": user}
            file = {
                "file_id": "f",
                "file_unique_id": "u",
                "file_size": 5,
                "mime_type": "a/b",
                "file_name": "n",
            }
            contents: list[dict[str, Any]] = [
                {"text": "hi", "entities": [{"type": "bold", "offset": 0, "length": 1}]},
                {"photo": [{**file, "width": 1, "height": 2}], "caption": "c", "media_group_id": "m"},
                *(
                    {name: {**file, "duration": 5}}
                    for name in ("video", "audio", "voice", "document", "sticker")
                ),
                {"location": {"latitude": 1.5, "longitude": 2}},
                {"venue": {"location": {"latitude": 1, "longitude": 2}, "title": "t", "address": "a"}},
                {"contact": {"phone_number": "1", "first_name": "f", "vcard": "v"}},
                {"text": "re", "reply_to_message": {**basic, "text": "x"}, "quote": {"text": "q"}},
                {"text": "fw", "forward_origin": {"type": "user", "sender_user": user, "date": 5}},
                {"new_chat_members": [user]},
                {"left_chat_member": user},
                {"new_chat_title": "t"},
                {"migrate_to_chat_id": -6},
                {"poll": {"id": "1", "question": "q", "options": [{"text": "a"}]}},
                {"dice": {"emoji": "x", "value": 5}},
            ]
            updates: list[dict[str, Any]] = [{"message": {**basic, **content}} for content in contents]
            updates += [
                {"edited_message": {**basic, "text": "new", "edit_date": 5}},
                {
                    "business_message": {
                        **basic,
                        "text": "b",
                        "business_connection_id": "bc1",
                        "sender_business_bot": user,
                    }
                },
                {
                    "deleted_business_messages": {
                        "business_connection_id": "bc1",
                        "chat": chat,
                        "message_ids": [1, 2],
                    }
                },
                {
                    "message_reaction": {
                        "chat": chat,
                        "message_id": 7,
                        "user": user,
                        "actor_chat": chat,
                        "date": 5,
                        "old_reaction": [],
                        "new_reaction": [{"type": "emoji", "emoji": "x"}],
                    }
                },
                {"callback_query": {"id": "1", "from": user, "data": "d", "message": {**basic, "text": "t"}}},
                {
                    "my_chat_member": {
                        "chat": chat,
                        "from": user,
                        "date": 5,
                        "old_chat_member": {"status": "member", "user": user},
                        "new_chat_member": {"status": "kicked", "user": user},
                    }
                },
            ]
            bodies = [{"update_id": 1000 + index, **one} for index, one in enumerate(updates)]

            def news(number: int) -> Any:
                return {
                    "update_id": 5000 + number,
                    "message": {**basic, "message_id": 900 + number, "text": "news"},
                }

            headers = {"x-telegram-bot-api-secret-token": secret}
            yield Line(session, posting(connector, session, lambda _: headers), bodies, news)


LINES = {"evolution": evolution, "waha": waha, "whatsapp_cloud": whatsapp_cloud, "telegram": telegram}


def places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    children: Any = (
        body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    )
    for name, child in children:
        yield from places(child, (*path, name))


def lied(body: Any, path: tuple[Any, ...], lie: str) -> bytes:
    """Return a body with a lie at a place, or without what is there."""
    changed = copy.deepcopy(body)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    if lie == MISSING:
        del inner[path[-1]]
        return json.dumps(changed).encode()
    inner[path[-1]] = "<the lie>"
    return json.dumps(changed).replace('"<the lie>"', lie).encode()


def count_of(line: Line) -> int:
    """Return the number of events that the network has reported."""
    return sum(event.kind != "CONNECTION_UPDATE" for event in line.session.events)


@pytest.mark.parametrize("name", LINES)
async def test_no_lie_is_a_failure(name: str, autojump_clock: MockClock) -> None:
    async with LINES[name]() as line:
        refused: dict[int, bytes] = {}
        # Each place gets some lies, and the next place the next ones: all of them would take 10 s.
        lies = cycle((MISSING, *LIES))
        for body in line.bodies:
            for path in places(body):
                for lie in islice(lies, LIES_AT_A_PLACE):
                    raw = lied(body, path, lie)
                    answer = await line.post(raw)
                    if answer != 200:
                        refused[answer] = raw[:300]
        assert refused == {}
        # Evolution's data is passed on as it is; the gateway holds it to the schema, if it shall.
        for event in line.session.events if name != "evolution" else ():
            encoded = msgspec.json.encode(event.data)
            stored = Event(id="e", kind=event.kind, instance="shop", data_json=encoded, time=0.0)
            assert SCHEMAS.problem(stored) is None, event
        before = count_of(line)
        for number in range(3):
            assert await line.post(json.dumps(line.news(number)).encode()) == 200
        assert count_of(line) == before + 3


@pytest.mark.parametrize("name", LINES)
async def test_odd_bytes_in_a_report_keep_nothing_back(name: str, autojump_clock: MockClock) -> None:
    async with LINES[name]() as line:
        before = count_of(line)
        for number, odd in enumerate((b'"\xff"', rb'"\ud83d"', b"1e999", b"NaN", b"1" + b"0" * 5000)):
            raw = json.dumps(line.news(number)).encode()
            assert await line.post(b'{"odd": ' + odd + b", " + raw[1:]) == 200
            assert count_of(line) == before + 1 + number


@pytest.mark.parametrize("name", LINES)
async def test_what_is_no_report_at_all_gets_an_answer(name: str, autojump_clock: MockClock) -> None:
    async with LINES[name]() as line:
        before = count_of(line)
        for raw in (
            b"",
            b"null",
            b"[]",
            b"5",
            b'"x"',
            b"{}",
            b"{",
            b"[" * 100_000,
            b"\xff\xfe{\x00}\x00",
            b"a=b",
        ):
            assert await line.post(raw) in (200, 400, 408), raw[:20]
        assert count_of(line) == before


def refusing(session: FakeSession, error: HookgwError, marks: tuple[str, ...]) -> Callable[[], None]:
    """Let a session refuse events whose data has one of these texts; return a function that ends it."""
    emit_all = session.emit_all

    async def refuse(events: Sequence[NewEvent], **more: Any) -> None:
        for event in events:
            encoded = event.data_json or msgspec.json.encode(event.data)
            if any(mark.encode() in encoded for mark in marks):
                await trio.lowlevel.checkpoint()
                raise error
        await emit_all(events, **more)

    session.emit_all = refuse  # type: ignore[method-assign]
    return partial(setattr, session, "emit_all", emit_all)


@pytest.mark.parametrize("name", LINES)
async def test_what_hookgw_refuses_for_good_is_acknowledged(name: str, autojump_clock: MockClock) -> None:
    """It is too large, or violates the schema of its kind: a network that repeats it would do so in vain."""
    async with LINES[name]() as line:
        before = count_of(line)
        refusing(line.session, Invalid("data has 2,000,000 bytes."), ("NEWS1", '"901"'))
        for number in range(3):
            assert await line.post(json.dumps(line.news(number)).encode()) == 200
        assert count_of(line) == before + 2


@pytest.mark.parametrize("name", LINES)
async def test_what_cannot_be_stored_now_is_repeated(name: str, autojump_clock: MockClock) -> None:
    async with LINES[name]() as line:
        before = count_of(line)
        end = refusing(line.session, Unavailable("The disk is full."), ("NEWS", '"90'))
        raw = json.dumps(line.news(1)).encode()
        for _ in range(2):
            assert await line.post(raw) == 503
        end()
        for _ in range(2):
            assert await line.post(raw) == 200
        assert count_of(line) == before + 1
