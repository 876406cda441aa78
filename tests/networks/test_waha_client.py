"""The stand-in for a WAHA server, and what hookgw asks of it, by a client made from WAHA's own schemas."""

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from hookgw import (
    Contact,
    ContactMessage,
    InstanceSettings,
    LocationMessage,
    MediaKind,
    MediaMessage,
    MessageKey,
    ReactionMessage,
    TextMessage,
)
from tests.first_party.waha import ANA, ANA_JID, GROUP, Setup, setup
from tests.networks.waha.server import FakeWaha, Session

pytestmark = pytest.mark.networks

# The body of each call, by a part of its path.
_BODIES = {
    "PUT /api/sessions/": "SessionUpdateRequest",
    "/sendText": "MessageTextRequest",
    "/sendImage": "MessageImageRequest",
    "/sendVideo": "MessageVideoRequest",
    "/sendVoice": "MessageVoiceRequest",
    "/sendFile": "MessageFileRequest",
    "/sendSticker": "MessageStickerRequest",
    "/sendLocation": "MessageLocationRequest",
    "/sendContactVcard": "MessageContactVcardRequest",
    "/sendSeen": "SendSeenRequest",
    "/startTyping": "ChatRequest",
    "/stopTyping": "ChatRequest",
    "PUT /api/reaction": "MessageReactionRequest",
    "PUT /api/default/chats/": "EditMessageRequest",
    "/presence": "WAHASessionPresence",
    "/calls/reject": "RejectCallRequest",
}
_REPORTS = {
    "message": "WAMessage",
    "message.any": "WAMessage",
    "message.reaction": "WAMessageReaction",
    "message.edited": "WAMessageEditedBody",
    "message.revoked": "WAMessageRevokedBody",
    "message.ack": "WAMessageAckBody",
    "session.status": "WASessionStatusBody",
}


@pytest.fixture
def models() -> Any:
    """The schemas of WAHA 2026.9."""
    pytest.importorskip("waha", reason="waha-py is not installed: run nox -s networks")
    from waha.generated import models

    return models


@pytest.fixture
async def it() -> AsyncIterator[Setup]:
    async with setup() as made:
        made.waha.sessions["default"] = Session("default", "WORKING", is_paired=True)
        yield made


def check(models: Any, name: str, value: Any) -> None:
    """Check that a value has the fields of a schema, and no others."""
    model = getattr(models, name)
    # The schemas do not say that what is not known is null.
    required = {field.alias or name for name, field in model.model_fields.items() if field.is_required()}
    model.model_validate({**value, **{field: "" for field in required if value.get(field, "") is None}})
    unknown = value.keys() - {field.alias or name for name, field in model.model_fields.items()}
    assert not unknown, (name, unknown)


def check_body(models: Any, method: str, path: str, body: Any) -> None:
    for part, name in _BODIES.items():
        if part in f"{method} {path}":
            if name == "SessionUpdateRequest":
                for webhook in body["config"]["webhooks"]:
                    # The schema has objects where WAHA's documentation has names.
                    check(models, "WebhookConfig", {**webhook, "events": []})
                    check(models, "RetriesConfiguration", webhook["retries"])
            else:
                if "file" in body:
                    check(models, "BinaryFile", body["file"])
                if name in ("MessageVideoRequest", "MessageVoiceRequest"):
                    # The schema has objects where WAHA's documentation has texts.
                    body = {**body, "file": {**body["file"], "mimetype": {}, "filename": {}}}
                check(models, name, body)
            return
    assert method in ("GET", "DELETE") or re.search(r"/(start|stop|restart|logout)$|/sessions$", path), path


async def test_what_hookgw_asks_is_as_waha_describes_it(it: Setup, models: Any) -> None:
    key = MessageKey(remote_jid=GROUP, id="A", from_me=True, participant=ANA_JID)
    jane = Contact(full_name="Jane", phone_number="+91 11")
    async with it.connected():
        for kind in MediaKind:
            file = MediaMessage(number=ANA, kind=kind, content=b"x", caption="c", reply_to=key)
            await it.connector.send(it.session, file, key="k")
        voice = MediaMessage(number=ANA, kind=MediaKind.AUDIO, content=b"x", is_voice=True)
        for message in (
            voice,
            TextMessage(number=ANA, text="hi", mentions=(ANA_JID,), reply_to=key),
            LocationMessage(number=ANA, latitude=1, longitude=2, name="Office"),
            ContactMessage(number=ANA, contacts=(jane,)),
            ReactionMessage(number=GROUP, key=key, reaction="x"),
        ):
            await it.connector.send(it.session, message, key="k")
        await it.connector.edit(it.session, key, "new", number=GROUP)
        await it.connector.delete(it.session, key)
        await it.connector.mark_read(it.session, [key])
        for presence in ("composing", "paused", "recording", "available"):
            await it.connector.set_presence(it.session, presence, number=ANA, delay=0)
        await it.connector.find_numbers(it.session, [ANA, GROUP])
        settings = InstanceSettings(reject_call=True, msg_call="Write.", read_messages=True)
        await it.connector.settings(it.session, settings)
        it.waha.receive("default", ANA, "hi")
        it.waha.report("default", "call.received", {"id": "C", "from": ANA})
        await it.waha.wait_for_call("POST", "/calls/reject")
        await it.connector.restart(it.session)
        await it.connector.logout(it.session)
    for method, path, body in it.waha.calls:
        check_body(models, method, path, body)


async def test_what_the_stand_in_reports_is_as_waha_describes_it(models: Any) -> None:
    reports: list[tuple[str, Any]] = []

    class Recording(FakeWaha):
        def report(self, name: str, event: str, payload: Any, **more: Any) -> None:
            reports.append((event, payload))

    async def post(url: str, headers: dict[str, str], body: bytes) -> int:
        return 200

    async with trio.open_nursery() as nursery:
        waha = Recording(post, nursery)
        waha.sessions["default"] = Session("default")
        waha.start_session(waha.sessions["default"])
        waha.scan("default")
        message = waha.receive("default", ANA, "hi")
        waha.write_on_phone("default", ANA, "hi")
        waha.acknowledge("default", message["id"], 3)
        transport = httpx.ASGITransport(waha.app)  # type: ignore[arg-type]
        headers = {"x-api-key": "waha-key"}
        async with httpx.AsyncClient(transport=transport, base_url="http://waha", headers=headers) as http:
            sent = (
                await http.post("/api/sendText", json={"session": "default", "chatId": ANA, "text": "x"})
            ).json()
            target = f"/api/default/chats/{ANA}/messages/{sent['id']}"
            reaction = {"session": "default", "messageId": sent["id"], "reaction": "x"}
            await http.put("/api/reaction", json=reaction)
            await http.put(target, json={"text": "y"})
            await http.delete(target)
            for answer in (sent, message):
                check(models, "WAMessage", answer)
    assert {event for event, _ in reports} == set(_REPORTS)
    for event, payload in reports:
        if event == "message.revoked":
            check(models, "WAMessage", payload["after"])
            payload = {**payload, "after": None}
        check(models, _REPORTS[event], payload)


async def test_another_client_uses_the_stand_in(models: Any) -> None:
    from waha import WahaClient

    async def post(url: str, headers: dict[str, str], body: bytes) -> int:
        return 200

    async with trio.open_nursery() as nursery:
        waha = FakeWaha(post, nursery)
        config = Config()
        config.bind = ["127.0.0.1:0"]
        [url] = await nursery.start(partial(serve, waha.app, config))
        client, stranger = WahaClient(url, api_key="waha-key"), WahaClient(url, api_key="wrong")
        try:
            with pytest.raises(httpx.HTTPStatusError, match="401"):
                await stranger.sessions.a_get("default")
            with pytest.raises(httpx.HTTPStatusError, match="404"):
                await client.sessions.a_get("default")
            await client.sessions.a_create({"name": "default", "config": {}})
            models.SessionInfo.model_validate(await client.sessions.a_get("default"))
            code = await client.auth.a_get_qr("default", params={"format": "raw"})
            models.QRCodeValue.model_validate(code)
            models.Base64File.model_validate(await client.auth.a_get_qr("default"))
            with pytest.raises(httpx.HTTPStatusError, match="422"):
                await client.chatting.a_send_text({"session": "default", "chatId": ANA, "text": "x"})
            waha.scan("default")
            await client.sessions.a_update("default", {"config": {"webhooks": []}})
            sent = await client.chatting.a_send_text({"session": "default", "chatId": ANA, "text": "x"})
            check(models, "WAMessage", sent)
            await client.chats.a_edit_message("default", ANA, sent["id"], {"text": "y"})
            await client.chats.a_delete_message("default", ANA, sent["id"])
            found = await client.contacts.a_check_exists({"phone": "4915112345678", "session": "default"})
            models.WANumberExistResult.model_validate(found)
            await client.sessions.a_logout("default")
            await client.sessions.a_stop("default")
            assert waha.sessions["default"].status == "STOPPED"
        finally:
            for one in (client, stranger):
                await one._http.aclose()
        nursery.cancel_scope.cancel()
