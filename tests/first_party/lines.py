"""A connected instance of each network whose server posts to hookgw, on the stand-in of its server."""

import copy
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import trio

from hookgw import (
    ConnectionState,
)
from hookgw.testing import FakeSession
from plugins.evolution.connector import Evolution
from plugins.evolution.webhook import PROOF
from plugins.gowa.connector import Gowa
from plugins.telegram.connector import Telegram
from plugins.waha.connector import Waha
from plugins.whatsapp_cloud.connector import WhatsAppCloud
from tests.first_party.runs import CATALOG as CATALOG
from tests.first_party.runs import post, running
from tests.networks.evolution import KEY
from tests.networks.evolution import Evolution as FakeEvolution
from tests.networks.gowa.server import Device, FakeGowa
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


class Wire(httpx.AsyncBaseTransport):
    """Carries requests to the network's server, or to nobody.

    Attributes:
        answer: answers in place of the server, if it is set.
        asked: the number of requests so far.
    """

    def __init__(self, server: httpx.AsyncBaseTransport) -> None:
        self.answer: Callable[[httpx.Request], httpx.Response] | None = None
        self.asked = 0
        self._server = server

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.answer is None:
            return await self._server.handle_async_request(request)
        await trio.lowlevel.checkpoint()
        await request.aread()
        return self.answer(request)


@dataclass
class Line:
    """A connected instance, and how its network reports.

    Attributes:
        post: posts a proved body, and returns the status of the answer, as the gateway would.
        bodies: what the network reports.
        news: returns a report of its own for each number.
        connector: of the instance.
        wire: carries its requests.
        chat: the ``number`` of a chat.
    """

    connector: Any
    wire: Wire
    chat: str
    session: FakeSession
    post: Callable[[bytes], Awaitable[int]]
    bodies: list[Any]
    news: Callable[[int], Any]


@asynccontextmanager
async def connected(connector: Any, session: FakeSession) -> AsyncIterator[None]:
    async with running(connector, session):
        with trio.move_on_after(5):  # of WAHA, a code is shown
            await session.wait_until(ConnectionState.OPEN)
        yield


def posting(
    connector: Any, session: FakeSession, headers: Callable[[bytes], dict[str, str]]
) -> Callable[[bytes], Awaitable[int]]:
    async def take(body: bytes) -> int:
        status = await post(connector, session, body, headers(body))
        assert status != 401, "The proof was right"
        return status

    return take


def payload(name: str) -> Any:
    return json.loads((PAYLOADS / f"{name}.json").read_text("utf-8"))


@asynccontextmanager
async def evolution() -> AsyncIterator[Line]:
    fake = FakeEvolution()
    fake.add("shop")
    options = {"base_url": "http://evolution.example", "api_key": KEY, "media_links": True}
    wire = Wire(httpx.ASGITransport(cast("Any", fake.app)))
    async with httpx.AsyncClient(transport=wire) as http:
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
                connector,
                wire,
                "5511988887777",
                session,
                posting(connector, session, lambda _: proof),
                [payload(n) for n in names],
                news,
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
        wire = Wire(httpx.ASGITransport(cast("Any", fake.app)))
        async with httpx.AsyncClient(transport=wire) as http:
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
                        "message.reaction", {**text, "reaction": {"text": "x", "messageId": text["id"]}}, "r3"
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

                yield Line(
                    connector,
                    wire,
                    "5511988887777",
                    session,
                    posting(connector, session, headers),
                    bodies,
                    news,
                )
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
    wire = Wire(httpx.MockTransport(graph.handle))
    async with httpx.AsyncClient(transport=wire) as http:
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

            yield Line(
                connector, wire, "5511988887777", session, posting(connector, session, headers), bodies, news
            )


@asynccontextmanager
async def telegram() -> AsyncIterator[Line]:
    api = BotApi()
    options = {"bot_token": TOKEN, "mode": "webhook", "base_url": "https://api.telegram.org"}
    wire = Wire(api.transport())
    async with httpx.AsyncClient(transport=wire) as http:
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
            yield Line(
                connector, wire, "5", session, posting(connector, session, lambda _: headers), bodies, news
            )


@asynccontextmanager
async def gowa() -> AsyncIterator[Line]:
    async with trio.open_nursery() as nursery:

        async def take(url: str, headers: dict[str, str], body: bytes) -> int:
            return 200

        fake = FakeGowa(take, nursery)
        device = fake.devices["shop"] = Device("shop", jid=fake.me, is_connected=True)
        options = {"base_url": "https://gowa.example", "user": "hookgw", "password": "gowa-password"}
        wire = Wire(httpx.ASGITransport(cast("Any", fake.app)))
        async with httpx.AsyncClient(transport=wire) as http:
            session, connector = FakeSession(options=options, http=http, catalog=CATALOG), Gowa()
            async with connected(connector, session):

                def headers(body: bytes) -> dict[str, str]:
                    proof = hmac.new(device.secret.encode(), body, hashlib.sha256).hexdigest()
                    return {"x-hub-signature-256": f"sha256={proof}"}

                def report(event: str, **payload: Any) -> Any:
                    beside = {"session_id": "shop", "timestamp": "2026-11-20T12:00:00Z"}
                    return {"event": event, "payload": payload, "device_id": fake.me, **beside}

                ana, group = "5511988887777@s.whatsapp.net", "120363040000000000@g.us"
                about = {
                    "id": "3EB0",
                    "chat_id": group,
                    "from": ana,
                    "from_lid": "2@lid",
                    "from_name": "Ana",
                    "timestamp": "2026-11-20T12:00:00Z",
                    "is_from_me": False,
                }
                place = {"degreesLatitude": 1.5, "degreesLongitude": 2}
                bodies = [
                    report(
                        "message",
                        **about,
                        body="hi",
                        replied_to_id="A",
                        quoted_body="b",
                        forwarded=True,
                        referral={"ctwa_clid": "c", "ad_title": "t"},
                        image={"path": "statics/media/a.jpg", "caption": "hi"},
                    ),
                    report("message", **about, contacts_array=[{"displayName": "n", "vcard": "v"}]),
                    report("message", **about, location=place, view_once=True),
                    report("message", **about, interactive="Open"),
                    report("message", **about, poll={"name": "n"}),
                    report("message.reaction", **about, reaction="x", reacted_message_id="A"),
                    report("message.edited", **about, original_message_id="A", body="new"),
                    report("message.revoked", **about, revoked_message_id="A", revoked_from_me=False),
                    report("message.deleted", deleted_message_id="A", chat_id=ana, was_from_me=True),
                    report(
                        "message.ack", ids=["A", "B"], chat_id=group, receipt_type="read", **{"from": ana}
                    ),
                    report("chat_presence", chat_id=ana, state="composing", media="audio", **{"from": ana}),
                    report("group.participants", chat_id=group, type="join", jids=[ana]),
                    report("group.joined", chat_id=group, group_name="n", jids=[ana]),
                    report("label.edit", label_id="1", name="n", color=2, predefined_id="1", deleted=False),
                    report("label.association", label_id="1", chat_id=ana, labeled=True),
                    report("call.offer", call_id="C", group_jid=group, auto_rejected=False, **{"from": ana}),
                    report("newsletter.mute", newsletter_id="1@newsletter", mute="on"),
                ]

                def news(number: int) -> Any:
                    return report("message", id=f"NEWS{number}", chat_id=ana, body="news", **{"from": ana})

                post = posting(connector, session, headers)
                yield Line(connector, wire, "5511988887777", session, post, bodies, news)
        nursery.cancel_scope.cancel()


LINES = {
    "evolution": evolution,
    "gowa": gowa,
    "waha": waha,
    "whatsapp_cloud": whatsapp_cloud,
    "telegram": telegram,
}
