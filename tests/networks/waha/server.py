"""A stand-in for a WAHA server, from WAHA's public documentation.

It has the parts of WAHA's API that hookgw uses, and sends webhooks. Each rule names its page below
https://waha.devlike.pro/docs/how-to/, or its schema in https://waha.devlike.pro/swagger/openapi.json
(version 2026.7.1). ``test_waha_client.py`` proves it with a client that was made from the schemas of 2026.9.
It misbehaves on demand: see :class:`Fault`, and the attributes ``repeat``, ``delay`` and ``sign_wrongly``.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio
from quart import Response, request
from quart_trio import QuartTrio

# openapi.json, WAHAWebhookMessage.event. A server refuses the whole webhook for any other name.
KNOWN_EVENTS = (
    *("session.status", "message", "message.reaction", "message.any", "message.ack", "message.ack.group"),
    *("message.waiting", "message.revoked", "message.edited", "state.change", "group.join", "group.leave"),
    *("group.v2.join", "group.v2.leave", "group.v2.update", "group.v2.participants", "presence.update"),
    *("poll.vote", "poll.vote.failed", "chat.archive", "call.received", "call.accepted", "call.rejected"),
    *("label.upsert", "label.deleted", "label.chat.added", "label.chat.deleted", "event.response"),
    *("event.response.failed", "engine.event"),
)
_PICTURE = b"\x89PNG\r\n\x1a\n"
# "NOWEB, GOWS - Provide message ID in send request" (docs/overview/changelog, 2026.4.3).
_CHOOSING_ENGINES = ("NOWEB", "GOWS")
ACKS = {-1: "ERROR", 0: "PENDING", 1: "SERVER", 2: "DEVICE", 3: "READ", 4: "PLAYED"}  # events#messageack

Post = Callable[[str, dict[str, str], bytes], Awaitable[int]]
"""Posts a webhook, and returns the status of the answer; raises ``OSError`` if there is none."""


@dataclass
class Fault:
    """What happens to requests instead of their answer.

    Attributes:
        path: the requests whose path, with the method before it, contains this.
        status, body, headers: of the answer; without a status, the request is answered as usual.
        seconds: to wait before.
        times: how many requests.
    """

    path: str
    status: int | None = None
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    times: int = 1


@dataclass
class Session:
    name: str
    status: str = "STOPPED"
    config: dict[str, Any] = field(default_factory=dict)
    is_paired: bool = False
    was_unpaired: bool = False
    code: str = ""


class FakeWaha:
    """The server.

    Args:
        post: sends webhooks.
        nursery: runs the deliveries.
        api_key: that requests must show; empty for none.
        engine: of all sessions.

    Attributes:
        app: answers requests.
        sessions: by name.
        kept: the messages of each chat, the oldest first, as the server's own store has them.
        messages: what was sent through the API, by WAHA's id of the message, as WhatsApp shows it.
        calls: every request: method, path, and body or query.
        files: by their path below ``/api/files/``: type and content.
        expired: files that were deleted: path, type and content, by WAHA's id of their message.
        faults: what goes wrong.
        known_events: of the server's version.
        on_whatsapp: the chat of each phone number that has one; by default any number has.
        groups: as the engine has them.
        pictures: the URLs of pictures, by chat.
        repeat: how often a webhook that was taken is sent once more.
        delay: returns the seconds before a webhook is sent for the first time.
        sign_wrongly: whether webhooks have a wrong signature.
        hidden_keys: whether the keys of webhooks are not shown.
        hidden_webhooks: whether webhooks are not shown at all.
        pace: by which the waits between attempts are multiplied.
        undelivered: how many webhooks are on their way.
        version: of the server. Older ones than 2024.11.5 sign and repeat nothing (docs/overview/changelog).
        shows_version: whether a caller may ask for it.
        has_pages: whether it knows pages of chats, and filters and pages of the messages of a chat.
        keeps_login: whether a session of an unlinked account fails until it is logged out, as on NOWEB.
    """

    me = "5511999999999@c.us"

    def __init__(
        self, post: Post, nursery: trio.Nursery, *, api_key: str = "waha-key", engine: str = "NOWEB"
    ) -> None:
        self.app = QuartTrio("waha")
        self.app.config["MAX_CONTENT_LENGTH"] = 50 * 1024 * 1024  # WAHA's own limit for a request
        self.sessions: dict[str, Session] = {}
        self.messages: dict[str, dict[str, Any]] = {}
        self.kept: dict[str, list[dict[str, Any]]] = {}
        self.calls: list[tuple[str, str, Any]] = []
        self.files: dict[str, tuple[str, bytes]] = {}
        self.expired: dict[str, tuple[str, str, bytes]] = {}
        self.faults: list[Fault] = []
        self.known_events: tuple[str, ...] = KNOWN_EVENTS
        self.on_whatsapp: dict[str, str | None] = {}
        self.groups: list[dict[str, Any]] = []
        self.pictures: dict[str, str] = {}
        self.repeat = 0
        self.delay: Callable[[], float] = lambda: 0.0
        self.sign_wrongly = False
        self.hidden_keys = False
        self.hidden_webhooks = False
        self.pace = 1.0
        self.undelivered = 0
        self.version = "2026.7.1"
        self.shows_version = True
        self.keeps_login = False
        self.has_pages = True
        self.changed = trio.Event()
        self._post = post
        self._nursery = nursery
        self._api_key = api_key
        self._engine = engine
        self._add_routes()

    # What happens on WhatsApp

    def scan(self, name: str) -> None:
        """Scan the QR code with the account's phone."""
        session = self.sessions[name]
        session.is_paired = True
        self.set_status(session, "WORKING")

    def unpair(self, name: str) -> None:
        """Remove the device on the phone: "device has been disconnected from that account" (events)."""
        session = self.sessions[name]
        session.is_paired, session.was_unpaired = False, True
        self.set_status(session, "FAILED")

    def new_code(self, name: str) -> None:
        """Let the QR code change: "issued every time when QR updated" (events#sessionstatus)."""
        self.set_status(self.sessions[name], "SCAN_QR_CODE")

    def receive(self, name: str, chat: str, body: str = "", **more: Any) -> dict[str, Any]:
        """Receive a message, which is reported as ``message`` and ``message.any`` (events#messageany)."""
        author = more.get("participant")
        id_ = more.pop("id", None) or f"3A{secrets.token_hex(9).upper()}"
        full_id = f"false_{chat}_{id_}" + (f"_{author}" if author else "")
        payload = {
            "id": full_id,
            "timestamp": int(time.time()),
            "from": chat,
            "fromMe": False,
            "source": "app",
            "to": self.me,
            "participant": None,
            "body": body,
            "hasMedia": False,
            "media": None,
            "mediaUrl": None,
            "ack": 0,
            "ackName": "PENDING",
            "vCards": [],
            "_data": {"pushName": "Ana"},
            **more,
        }
        self.report(name, "message", payload)
        self.report(name, "message.any", payload)
        return payload

    def write_on_phone(self, name: str, chat: str, body: str) -> dict[str, Any]:
        """Write a message with the account's phone: in ``message.any`` alone."""
        id_ = f"3A{secrets.token_hex(9).upper()}"
        payload = self.own(chat, id_, source="app", body=body, ack=1, ackName="SERVER")
        self.report(name, "message.any", payload)
        return payload

    def own(self, chat: str, id_: str = "", **more: Any) -> dict[str, Any]:
        """Return a message of the account (openapi.json, WAMessage)."""
        return {
            "id": f"true_{chat}_{id_ or f'3EB0{secrets.token_hex(9).upper()}'}",
            "timestamp": int(time.time()),
            "from": chat,
            "fromMe": True,
            "source": "api",
            "to": chat,
            "participant": None,
            "body": None,
            "hasMedia": False,
            "mediaUrl": None,
            "ack": 0,
            "ackName": "PENDING",
            **more,
        }

    def acknowledge(self, name: str, message_id: str, ack: int, **more: Any) -> None:
        """Report how far a message has come (events#messageack)."""
        chat = message_id.split("_")[1]
        payload = {"id": message_id, "from": chat, "to": self.me, "participant": None, "fromMe": True}
        self.report(name, "message.ack", {**payload, "ack": ack, "ackName": ACKS[ack], **more})

    def report(self, name: str, event: str, payload: Any, **more: Any) -> None:
        """Send an event to all webhooks of a session that want it (events#event-payload)."""
        session = self.sessions[name]
        for webhook in session.config.get("webhooks") or []:
            if event in webhook["events"]:
                self.post(webhook, self.envelope(session, event, payload, **more))

    def envelope(self, session: Session, event: str, payload: Any, **more: Any) -> dict[str, Any]:
        """Return the body of a webhook (events#structure)."""
        return {
            "id": f"evt_{secrets.token_hex(13)}",
            "timestamp": int(time.time() * 1000),
            "event": event,
            "session": session.name,
            "metadata": session.config.get("metadata"),
            "me": {"id": self.me, "pushName": "Shop"} if session.status == "WORKING" else None,
            "payload": payload,
            "engine": self._engine,
            "environment": self._environment(),
            **more,
        }

    def post(self, webhook: dict[str, Any], envelope: dict[str, Any]) -> None:
        """Send a webhook. Those before are not waited for, so they may overtake each other."""
        body = json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()
        self.undelivered += 1
        self._nursery.start_soon(self._deliver, webhook, body)

    async def _deliver(self, webhook: dict[str, Any], body: bytes) -> None:
        headers = {  # events#headers
            "content-type": "application/json",
            "X-Webhook-Request-Id": secrets.token_hex(8),
            "X-Webhook-Timestamp": str(int(time.time() * 1000)),
        }
        headers |= {header["name"]: header["value"] for header in webhook.get("customHeaders") or []}
        signs = tuple(map(int, self.version.split("."))) >= (2024, 11, 5)
        if signs and (webhook.get("hmac") or {}).get("key"):  # events#hmac-authentication
            key = webhook["hmac"]["key"] + ("?" if self.sign_wrongly else "")
            headers["X-Webhook-Hmac"] = hmac.new(key.encode(), body, hashlib.sha512).hexdigest()
            headers["X-Webhook-Hmac-Algorithm"] = "sha512"
        # events#retries; without them, one more attempt is made up here. What signs nothing makes none.
        retries: dict[str, Any] = (webhook.get("retries") or {}) if signs else {"attempts": 0}
        seconds, attempts = retries.get("delaySeconds", 2), retries.get("attempts", 1)
        await trio.sleep(self.delay())
        repeats = self.repeat
        attempt = 0
        while True:
            try:
                status = await self._post(webhook["url"], headers, body)
            except OSError:
                status = 0
            if 200 <= status < 300:
                if not repeats:
                    break
                repeats -= 1
                continue
            attempt += 1
            if attempt > attempts:
                break
            factor = {"linear": attempt, "exponential": 2 ** (attempt - 1)}.get(
                retries.get("policy", "linear"), 1
            )
            await trio.sleep(seconds * factor * self.pace)
        self.undelivered -= 1
        self._announce()

    async def all_delivered(self) -> None:
        """Wait until no webhook is on its way."""
        while self.undelivered:
            await self.changed.wait()

    async def wait_for_call(self, method: str, path: str, count: int = 1) -> list[Any]:
        """Wait until there were requests whose path ends so; return their bodies."""
        while len(found := [body for m, p, body in self.calls if m == method and p.endswith(path)]) < count:
            await self.changed.wait()
        return found

    def _announce(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    def set_status(self, session: Session, status: str) -> None:
        session.status = status
        if status == "SCAN_QR_CODE":
            session.code = f"2@{secrets.token_hex(8)}"
        statuses = [{"status": status, "timestamp": int(time.time() * 1000)}]
        payload = {"name": session.name, "status": status, "statuses": statuses, "data": None}
        self.report(session.name, "session.status", payload)
        self._announce()

    def start_session(self, session: Session) -> None:
        self.set_status(session, "STARTING")
        unpaired = "FAILED" if session.was_unpaired and self.keeps_login else "SCAN_QR_CODE"
        self.set_status(session, "WORKING" if session.is_paired else unpaired)

    def _environment(self) -> dict[str, Any]:
        return {"version": self.version, "engine": self._engine, "tier": "CORE"}

    # The API

    def _add_routes(self) -> None:  # noqa: C901 (each route is a function of its own)
        app = self.app

        @app.before_request
        async def check() -> Any:
            if request.path.startswith("/fake/"):
                return None
            body = await request.get_json(silent=True) if request.method != "GET" else dict(request.args)
            self.calls.append((request.method, request.path, body))
            self._announce()
            if self._api_key and request.headers.get("x-api-key") != self._api_key:  # security
                return {"message": "Unauthorized", "statusCode": 401}, 401
            for fault in self.faults:
                if fault.times and fault.path in f"{request.method} {request.path}":
                    fault.times -= 1
                    await trio.sleep(fault.seconds)
                    if fault.status is not None:
                        return Response(
                            fault.body, fault.status, {"content-type": "application/json", **fault.headers}
                        )
            return None

        def found(name: str) -> Session | None:
            return self.sessions.get(name)

        def missing() -> Any:
            return {"message": "Session not found", "error": "Not Found", "statusCode": 404}, 404

        def shown(session: Session) -> dict[str, Any]:  # sessions#get-session
            me = {"id": self.me, "pushName": "Shop"} if session.status == "WORKING" else None
            config = session.config
            if self.hidden_keys:
                hidden = [{**webhook, "hmac": {"key": "***"}} for webhook in config.get("webhooks") or []]
                config = {**config, "webhooks": hidden}
            if self.hidden_webhooks:
                config = {name: value for name, value in config.items() if name != "webhooks"}
            return {
                "name": session.name,
                "status": session.status,
                "config": config,
                "me": me,
                "engine": {"engine": self._engine},
                "presence": {},
                "timestamps": {"activity": int(time.time() * 1000)},
            }

        def refusal(config: dict[str, Any]) -> Any:
            for number, webhook in enumerate(config.get("webhooks") or []):
                if any(event not in self.known_events for event in webhook["events"]):
                    words = "each value in events must be one of the following values"
                    message = f"config.webhooks.{number}.{words}: {', '.join(self.known_events)}"
                    return {"message": [message], "error": "Bad Request", "statusCode": 400}, 400
            return None

        @app.get("/api/server/version")
        async def version() -> Any:  # observability#get-server-version
            if not self.shows_version:
                return {"message": "Forbidden resource", "error": "Forbidden", "statusCode": 403}, 403
            return self._environment()

        @app.get("/api/sessions/<name>")
        async def get_session(name: str) -> Any:
            session = found(name)
            return shown(session) if session else missing()

        @app.post("/api/sessions")
        async def create_session() -> Any:  # sessions#create-session
            given = await request.get_json()
            if found(given["name"]):
                message = f"Session '{given['name']}' already exists. Use PUT to update it."
                return {"message": message, "error": "Unprocessable Entity", "statusCode": 422}, 422
            config = given.get("config") or {}
            if refused := refusal(config):
                return refused
            session = self.sessions[given["name"]] = Session(given["name"], config=config)
            if given.get("start", True):
                self.start_session(session)
            return shown(session), 201

        @app.put("/api/sessions/<name>")
        async def update_session(name: str) -> Any:
            # "with a full new configuration … if the session not in STOPPED status, it'll be stopped and
            # started with a new configuration" (sessions#update-session)
            session = found(name)
            if session is None:
                return missing()
            config = (await request.get_json()).get("config") or {}
            if refused := refusal(config):
                return refused
            is_running = session.status != "STOPPED"
            if is_running:
                self.set_status(session, "STOPPED")
            session.config = config
            if is_running:
                self.start_session(session)
            return shown(session)

        @app.post("/api/sessions/<name>/<call>")
        async def control(name: str, call: str) -> Any:
            session = found(name)
            if session is None:
                return missing()
            if call == "start":  # "it'll start the session only if it's not running" (sessions#start-session)
                if session.status in ("STOPPED", "FAILED"):
                    self.start_session(session)
            elif call == "stop":
                self.set_status(session, "STOPPED")
            elif call == "restart":
                self.set_status(session, "STOPPED")
                self.start_session(session)
            elif call == "logout":
                # "If the session is running, it'll be logged out and started from scratch", "keeps the
                # session's configuration" (sessions#logout-session)
                session.is_paired = session.was_unpaired = False
                if session.status != "STOPPED":
                    self.set_status(session, "STOPPED")
                    self.start_session(session)
            else:
                return {
                    "message": f"Cannot POST {request.path}",
                    "error": "Not Found",
                    "statusCode": 404,
                }, 404
            return shown(session), 201

        @app.get("/api/<name>/auth/qr")
        async def code(name: str) -> Any:  # sessions#get-qr
            session = found(name)
            if session is None:
                return missing()
            if session.status != "SCAN_QR_CODE":
                message = (
                    f"Can get QR code only in SCAN_QR_CODE status. The current status is '{session.status}'"
                )
                return {"message": message, "error": "Unprocessable Entity", "statusCode": 422}, 422
            if request.args.get("format") == "raw":
                return {"value": session.code}
            if "application/json" in request.headers.get("accept", ""):
                return {"mimetype": "image/png", "data": base64.b64encode(_PICTURE).decode()}
            return Response(_PICTURE, content_type="image/png")

        @app.post("/api/<name>/auth/request-code")
        async def pairing_code(name: str) -> Any:  # sessions#get-pairing-code
            session = found(name)
            if session is None:
                return missing()
            body = await request.get_json()
            return {"code": f"ABCD-{body['phoneNumber'][-4:]}"}, 201

        def not_working(name: str) -> Any:
            session = found(name)
            if session is None or session.status != "WORKING":
                error = "Session status is not as expected. Try again later or restart the session"
                status = session.status if session else "STOPPED"
                return {"error": error, "session": name, "status": status, "expected": ["WORKING"]}, 422
            return None

        async def send(content: dict[str, Any]) -> Any:
            given = await request.get_json()
            name, chat = given["session"], given["chatId"]
            if refused := not_working(name):
                return refused
            id_ = given.get("id") if self._engine in _CHOOSING_ENGINES else None
            message = self.own(chat, id_ or "", **content)
            full_id = message["id"]
            # WhatsApp shows a message once, however often its id is sent.
            self.messages.setdefault(full_id, {**message, "request": given})
            self.report(name, "message.any", message)
            if self._engine == "WEBJS":  # WhatsApp Web's own object, as the library whatsapp-web.js has it
                parts = {"fromMe": True, "remote": chat, "id": full_id.split("_")[2], "_serialized": full_id}
                return {"id": parts, "ack": 0}, 201
            return message, 201

        @app.post("/api/sendText")
        async def send_text() -> Any:  # send-messages#send-text
            return await send({"body": (await request.get_json())["text"]})

        @app.post("/api/sendLocation")
        async def send_location() -> Any:  # send-messages#send-location
            given = await request.get_json()
            place = {"latitude": str(given["latitude"]), "longitude": str(given["longitude"]), "live": False}
            return await send({"location": place})

        @app.post("/api/sendContactVcard")
        async def send_contacts() -> Any:  # send-messages#send-contact-vcard
            given = await request.get_json()
            return await send({"vCards": [contact["vcard"] for contact in given["contacts"]]})

        async def send_file() -> Any:  # send-messages#send-image, #send-voice, #send-video, #send-file
            given = await request.get_json()
            media = {"url": None, "mimetype": given["file"]["mimetype"], "filename": None}
            return await send({"hasMedia": True, "media": media, "body": given.get("caption")})

        # sendSticker since 2026.8.2: https://github.com/devlikeapro/waha/releases/tag/2026.8.2
        for call in ("sendImage", "sendFile", "sendVoice", "sendVideo", "sendSticker"):
            app.add_url_rule(f"/api/{call}", call, send_file, methods=["POST"])

        async def done() -> Any:
            given = await request.get_json()
            return not_working(given["session"]) or ({"result": True}, 201)

        for call in ("sendSeen", "startTyping", "stopTyping"):  # send-messages#send-seen; presence
            app.add_url_rule(f"/api/{call}", call, done, methods=["POST"])

        @app.put("/api/reaction")
        async def react() -> Any:  # send-messages#add-a-reaction
            given = await request.get_json()
            name, target = given["session"], given["messageId"]
            if refused := not_working(name):
                return refused
            chat = target.split("_")[1]
            reaction = {"text": given["reaction"], "messageId": target}
            payload = self.own(chat, timestamp=time.time(), reaction=reaction)
            for missing in ("body", "hasMedia", "mediaUrl", "ack", "ackName"):
                del payload[missing]
            self.report(name, "message.reaction", payload)
            return payload

        @app.put("/api/<name>/chats/<chat>/messages/<message>")
        async def edit(name: str, chat: str, message: str) -> Any:  # send-messages#edit-message
            if refused := not_working(name):
                return refused
            text = (await request.get_json())["text"]
            payload = self.own(chat, body=text, editedMessageId=message.split("_")[2])
            self.report(name, "message.edited", payload)
            return payload

        @app.get("/api/<name>/chats/overview")
        async def overview(name: str) -> Any:  # chats#get-chats-overview
            if refused := not_working(name):
                return refused
            newest = {chat: messages[-1] for chat, messages in self.kept.items() if messages}
            chats = sorted(newest, key=lambda chat: newest[chat]["timestamp"], reverse=True)
            begin, count = int(request.args["offset"]), int(request.args.get("limit", 20))
            begin = begin if self.has_pages else 0
            page = chats[begin : begin + count]
            # "Merge LID (@lid) and phone-number (@c.us) chats" (swagger/openapi.json, 2026.7.1)
            if request.args.get("merge", "true") == "true":
                page = [chat for chat in page if not chat.endswith("@lid")]
            return [{"id": chat, "lastMessage": newest[chat]} for chat in page]

        @app.get("/api/<name>/chats/<chat>/messages")
        async def history(name: str, chat: str) -> Any:  # chats#get-messages-from-chat
            if refused := not_working(name):
                return refused
            found = self.kept[chat]
            if not self.has_pages:
                return found[-int(request.args["limit"]) :]
            first, last = (int(request.args[f"filter.timestamp.{end}"]) for end in ("gte", "lte"))
            found = [one for one in found if first <= one["timestamp"] <= last]
            begin, count = int(request.args["offset"]), int(request.args["limit"])
            # "increase it always for `limit` amount, even if you get less messages"
            return [one for one in found[begin : begin + count] if one.get("body", "") is not None]

        @app.get("/api/<name>/chats/<chat>/messages/<message>")
        async def find(name: str, chat: str, message: str) -> Any:  # receive-messages#get-message-by-id
            if refused := not_working(name):
                return refused
            if message not in self.expired:
                return {"message": "Message not found", "error": "Not Found", "statusCode": 404}, 404
            file, mimetype, content = self.expired[message]
            if request.args.get("downloadMedia") == "true":
                self.files[file] = mimetype, content
            media = {"url": f"http://localhost:3000/api/files/{file}", "mimetype": mimetype}
            return {**self.own(chat), "id": message, "hasMedia": True, "media": media}

        @app.delete("/api/<name>/chats/<chat>/messages/<message>")
        async def delete(name: str, chat: str, message: str) -> Any:  # send-messages#delete-message
            if refused := not_working(name):
                return refused
            revoked = message.split("_")[2]
            payload = {"revokedMessageId": revoked, "after": self.own(chat), "before": None}
            self.report(name, "message.revoked", payload)
            return Response(b"", 200)

        @app.post("/api/<name>/presence")
        async def presence(name: str) -> Any:  # presence#set-presence
            return not_working(name) or ("", 201)

        @app.post("/api/<name>/calls/reject")
        async def reject(name: str) -> Any:  # calls
            return not_working(name) or ("", 201)

        @app.get("/api/contacts/check-exists")
        async def exists() -> Any:  # contacts#check-phone-number-exists
            phone = request.args["phone"]
            chat = self.on_whatsapp.get(phone, f"{phone}@c.us")
            return {"numberExists": True, "chatId": chat, "pn": None} if chat else {"numberExists": False}

        @app.get("/api/<name>/groups/<group>")
        async def group(name: str, group: str) -> Any:  # groups
            if not found(name) or not group.startswith("1203"):
                return {"message": "Group not found", "error": "Not Found", "statusCode": 404}, 404
            return next(
                (one for one in self.groups if group in str(one)), {"id": group, "subject": "Neighbours"}
            )

        @app.get("/api/<name>/groups")
        async def groups(name: str) -> Any:  # groups#get-groups
            # NOWEB has Baileys' own object, with the ids as names.
            if self._engine == "NOWEB":
                return {one["id"]: one for one in self.groups}
            return list(self.groups)

        @app.get("/api/contacts/profile-picture")
        async def picture() -> Any:  # contacts#get-contact-profile-picture
            return {"profilePictureURL": self.pictures.get(request.args["contactId"])}

        @app.get("/api/files/<path:path>")
        async def file(path: str) -> Any:  # receive-messages#media-files
            if path not in self.files:
                words = {"code": 404, "key": "FILE_NOT_FOUND", "message": "File not found"}
                return {"error": words}, 404
            mimetype, content = self.files[path]
            return Response(content, content_type=mimetype)
