"""What the connector relies on of Evolution API, and its ways of failing.

Each rule is that of the source of version 2.3.6 at https://github.com/EvolutionAPI/evolution-api; the file
is named beside it. 2.3.7 has the same webhooks.
"""

import base64
import itertools
import json
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import Response, request
from quart_trio import QuartTrio

KEY = "the-global-key-of-evolution"
WUID = "5511999999999@s.whatsapp.net"

# src/api/integrations/event/event.controller.ts
EVENTS = (
    *("APPLICATION_STARTUP", "QRCODE_UPDATED", "MESSAGES_SET", "MESSAGES_UPSERT", "MESSAGES_EDITED"),
    *("MESSAGES_UPDATE", "MESSAGES_DELETE", "SEND_MESSAGE", "SEND_MESSAGE_UPDATE", "CONTACTS_SET"),
    *("CONTACTS_UPSERT", "CONTACTS_UPDATE", "PRESENCE_UPDATE", "CHATS_SET", "CHATS_UPSERT", "CHATS_UPDATE"),
    *("CHATS_DELETE", "GROUPS_UPSERT", "GROUP_UPDATE", "GROUP_PARTICIPANTS_UPDATE", "CONNECTION_UPDATE"),
    *("LABELS_EDIT", "LABELS_ASSOCIATION", "CALL", "TYPEBOT_START", "TYPEBOT_CHANGE_STATUS"),
    *("REMOVE_INSTANCE", "LOGOUT_INSTANCE", "INSTANCE_CREATE", "INSTANCE_DELETE", "STATUS_INSTANCE"),
)
# src/config/env.config.ts: WEBHOOK_RETRY_NON_RETRYABLE_STATUS_CODES
DROPPED_FOR_GOOD = (400, 401, 403, 404, 422)

Reply = tuple[int, Any] | Callable[[], Awaitable[Any]]


class Account:
    """One instance of the server.

    Attributes:
        name, token: of the instance.
        state: of its connection: ``open``, ``connecting`` or ``close``.
        webhook: as ``find`` shows it; ``None`` before the first ``set``.
        settings: as they were set last.
        files: the content of received files, by the id of their message.
        numbers: that are on WhatsApp; ``None`` for all.
        pictures: the URLs of pictures, by JID.
        messages: that are stored; see :meth:`Evolution.store`.
        groups: with their participants.
    """

    def __init__(self, name: str, *, state: str = "open") -> None:
        self.name = name
        self.token = f"token-of-{name}".replace(" ", "-")
        self.state = state
        self.webhook: dict[str, Any] | None = None
        self.settings: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.numbers: set[str] | None = None
        self.pictures: dict[str, str] = {}
        self.messages: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self.codes = 0
        self.pairing_number = ""


class Posted:
    """One event that the server has posted, or tried to.

    Attributes:
        url: where.
        body: of every attempt, the same object.
        statuses: of the attempts; 0 for no answer.
    """

    def __init__(self, url: str, body: dict[str, Any]) -> None:
        self.url, self.body = url, body
        self.statuses: list[int] = []
        self.is_done = trio.Event()


class Evolution:
    """The server.

    Args:
        retry_delay: seconds before the first repetition of a webhook; 5 s in Evolution API.
        longest_delay: seconds before any repetition; 300 s in Evolution API.

    Attributes:
        app: answers requests.
        accounts: the instances, by name.
        events: the names that ``webhook/set`` knows.
        calls: method, path and body of each request, in order.
        faults: answers to the next requests whose ``"POST message/sendText"`` begins so; used up in order.
        posted: every event, in the order in which they were raised.
        attempts: how often an event is posted; 10 in Evolution API.
        deliver: posts a body to a URL with headers, and returns the status.
    """

    def __init__(self, *, retry_delay: float = 5.0, longest_delay: float = 300.0) -> None:
        self.accounts: dict[str, Account] = {}
        self.events = list(EVENTS)
        self.calls: list[tuple[str, str, Any]] = []
        self.faults: dict[str, list[Reply]] = {}
        self.posted: list[Posted] = []
        self.attempts = 10
        self.retry_delay, self.longest_delay = retry_delay, longest_delay
        self.deliver: Callable[[str, dict[str, str], bytes], Awaitable[int]] = self._post
        self.app = QuartTrio("evolution")
        self._http: httpx.AsyncClient | None = None
        self._nursery: trio.Nursery | None = None
        self._ids = itertools.count(1)
        self._clock = 0
        self._add_routes()

    @asynccontextmanager
    async def posting(self) -> AsyncIterator[None]:
        """Post events in the background for the length of the block."""
        async with (
            httpx.AsyncClient(trust_env=False, timeout=30) as self._http,
            trio.open_nursery() as self._nursery,
        ):
            yield
            self._nursery.cancel_scope.cancel()
        self._nursery = self._http = None

    def add(self, name: str, *, state: str = "open") -> Account:
        account = self.accounts[name] = Account(name, state=state)
        return account

    def calls_of(self, beginning: str) -> list[Any]:
        """Return the bodies of the requests whose method and path begin so."""
        return [body for method, path, body in self.calls if f"{method} {path}".startswith(beginning)]

    # Events

    def envelope(self, name: str, event: str, data: Any) -> dict[str, Any]:
        """Return what is posted of an event (webhook.controller.ts, emit)."""
        account = self.accounts[name]
        url = (account.webhook or {}).get("url", "")
        # A clock with milliseconds, on which no two events are at the same time.
        self._clock = max(self._clock + 1, time.time_ns() // 1_000_000)
        at = datetime.fromtimestamp(self._clock / 1000, UTC).isoformat(timespec="milliseconds")
        return {
            "event": event,
            "instance": name,
            "data": data,
            "destination": url,
            "date_time": at.replace("+00:00", "Z"),
            "sender": WUID,
            "server_url": "http://evolution.example",
            "apikey": account.token,
        }

    def emit(self, name: str, event: str, data: Any) -> Posted | None:
        """Post an event as the instance's webhook says; ``None`` if it does not want it."""
        webhook = self.accounts[name].webhook
        kind = event.replace(".", "_").replace("-", "_").upper()
        if webhook is None or not webhook["enabled"] or kind not in webhook["events"]:
            return None
        url = webhook["url"]
        if webhook["webhookByEvents"]:
            url += "/" + kind.replace("_", "-").lower()
        posted = Posted(url, self.envelope(name, event, data))
        self.posted.append(posted)
        assert self._nursery is not None, "events are posted within posting()"
        self._nursery.start_soon(self.repeat, posted, dict(webhook["headers"] or {}))
        return posted

    def receive(
        self, name: str, text: str, *, number: str = "5511988887777", **message: Any
    ) -> Posted | None:
        """Let somebody write to an account."""
        data = self.message(f"{number}@s.whatsapp.net", message or {"conversation": text}, from_me=False)
        return self.emit(name, "messages.upsert", data)

    def message(self, chat: str, content: dict[str, Any], *, from_me: bool) -> dict[str, Any]:
        """Return a message as it is posted (whatsapp.baileys.service.ts, prepareMessage)."""
        number = next(self._ids)
        return {
            "key": {"remoteJid": chat, "fromMe": from_me, "id": f"3EB0{number:012X}"},
            "pushName": "Loja" if from_me else "Ana",
            "status": "PENDING" if from_me else "DELIVERY_ACK",
            "message": content,
            "contextInfo": None,
            "messageType": next(iter(content)),
            "messageTimestamp": int(time.time()),
            "instanceId": "e7a9b0f2-6c3a-4c7b-9c37-6f0f3f0c6a11",
            "source": "unknown" if from_me else "android",
        }

    def store(self, name: str, data: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Store a message as it is stored in the database (prisma/postgresql-schema.prisma, Message)."""
        columns = ("key", "pushName", "messageType", "message", "messageTimestamp", "instanceId", "source")
        row = {column: data.get(column) for column in (*columns, "contextInfo")} | more
        row = {"id": f"cmi{next(self._ids):012d}", **row, "MessageUpdate": []}
        self.accounts[name].messages.append(row)
        return row

    def set_state(self, name: str, state: str, reason: int = 200) -> Posted | None:
        """Change the state of a connection (whatsapp.baileys.service.ts, connectionUpdate)."""
        account = self.accounts[name]
        account.state = "close" if state == "refused" else state
        data: dict[str, Any] = {"instance": name, "state": state, "statusReason": reason}
        if state == "open":
            data |= {"wuid": WUID, "profileName": "Loja", "profilePictureUrl": None}
        return self.emit(name, "connection.update", data)

    def show_code(self, name: str) -> Posted | None:
        """Show another code (whatsapp.baileys.service.ts, connectionUpdate)."""
        self.accounts[name].codes += 1
        return self.emit(name, "qrcode.updated", {"qrcode": {"instance": name, **self._code(name)}})

    async def settled(self) -> None:
        """Wait until every event was answered, or dropped."""
        for posted in list(self.posted):
            await posted.is_done.wait()

    def _code(self, name: str) -> dict[str, Any]:
        code = f"2@{name}-{self.accounts[name].codes}"
        pairing_code = "WZYEH1YY" if self.accounts[name].pairing_number else None
        picture = f"data:image/png;base64,{_b64(code.encode())}"
        return {"pairingCode": pairing_code, "code": code, "base64": picture}

    async def repeat(self, posted: Posted, headers: dict[str, str]) -> None:
        """Post an event until it is answered (webhook.controller.ts, retryWebhookRequest).

        The same object each time, in memory alone.
        """
        body = json.dumps(posted.body).encode()
        for attempt in range(self.attempts):
            try:
                status = await self.deliver(posted.url, headers, body)
            except httpx.HTTPError:
                status = 0
            posted.statuses.append(status)
            if 200 <= status < 300 or status in DROPPED_FOR_GOOD:
                break
            jitter = 1 + random.uniform(-0.2, 0.2)
            await trio.sleep(
                max(self.retry_delay, min(self.retry_delay * 2**attempt, self.longest_delay) * jitter)
            )
        posted.is_done.set()

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> int:
        assert self._http is not None
        headers = {"content-type": "application/json", **headers}
        return (await self._http.post(url, content=body, headers=headers)).status_code

    # Requests

    def _add_routes(self) -> None:  # noqa: C901 -- a list
        app = self.app

        @app.before_request
        async def check() -> Any:
            body = await request.get_json(silent=True)
            path = request.path.strip("/")
            if path.startswith("fake/"):
                return None
            self.calls.append((request.method, path, body))
            call = f"{request.method} {path}"
            for beginning, left in self.faults.items():
                if call.startswith(beginning) and left:
                    fault = left.pop(0)
                    if callable(fault):
                        return await fault()
                    return fault[1], fault[0]
            # src/api/guards/auth.guard.ts and instance.guard.ts
            name = path.rpartition("/")[2]
            account = self.accounts.get(name)
            key = request.headers.get("apikey", "")
            if path == "instance/fetchInstances":
                return None if key in {KEY, *(one.token for one in self.accounts.values())} else _no_key()
            if key != KEY and (account is None or key != account.token):
                return _no_key()
            if account is None:
                return _refused(404, "Not Found", f'The "{name}" instance does not exist')
            return None

        @app.post("/webhook/set/<name>")
        async def set_webhook(name: str) -> Any:
            # webhook.schema.ts, then webhook.controller.ts, set
            body = (await request.get_json()).get("webhook")
            if not isinstance(body, dict):
                return _refused(400, "Bad Request", ['requires property "webhook"'])
            known = ",".join(self.events)
            wrong = [
                f"webhook.events[{index}] is not one of enum values: {known}"
                for index, event in enumerate(body.get("events") or [])
                if event not in self.events
            ]
            wrong += [f'webhook requires property "{one}"' for one in ("enabled", "url") if one not in body]
            if wrong:
                return _refused(400, "Bad Request", wrong)
            self.accounts[name].webhook = {
                "id": "clwh1",
                "url": body["url"],
                "headers": body.get("headers"),
                "enabled": body["enabled"],
                "events": (body.get("events") or list(self.events)) if body["enabled"] else [],
                "webhookByEvents": body.get("byEvents", False),
                "webhookBase64": body.get("base64", False),
                "createdAt": "2026-11-01T12:00:00.000Z",
                "updatedAt": "2026-11-01T12:00:00.000Z",
                "instanceId": "e7a9b0f2-6c3a-4c7b-9c37-6f0f3f0c6a11",
            }
            return _json(self.accounts[name].webhook, 201)

        @app.get("/webhook/find/<name>")
        async def find_webhook(name: str) -> Any:
            return _json(self.accounts[name].webhook)

        # src/api/controllers/instance.controller.ts

        @app.get("/instance/connectionState/<name>")
        async def connection_state(name: str) -> Any:
            return {"instance": {"instanceName": name, "state": self.accounts[name].state}}

        @app.get("/instance/fetchInstances")
        async def fetch_instances() -> Any:
            wanted = request.args.get("instanceName")
            return _json([_shown(one) for one in self.accounts.values() if wanted in (None, one.name)])

        @app.get("/instance/connect/<name>")
        async def connect(name: str) -> Any:
            account = self.accounts[name]
            if account.state == "open":
                return {"instance": {"instanceName": name, "state": "open"}}
            if account.state == "close":
                account.pairing_number = request.args.get("number", "")
                self.set_state(name, "connecting")
                self.show_code(name)
            return {**self._code(name), "count": account.codes}

        @app.post("/instance/restart/<name>")
        async def restart(name: str) -> Any:
            if self.accounts[name].state == "close":
                return {"error": True, "message": "BadRequestException: not connected"}
            self.set_state(name, "connecting")
            self.set_state(name, "open")
            return {"instance": {"instanceName": name, "state": self.accounts[name].state}}

        @app.delete("/instance/logout/<name>")
        async def logout(name: str) -> Any:
            if self.accounts[name].state == "close":
                return _refused(400, "Bad Request", [f'The "{name}" instance is not connected'])
            self.set_state(name, "close", 401)
            self.emit(name, "logout.instance", None)
            return {"status": "SUCCESS", "error": False, "response": {"message": "Instance logged out"}}

        @app.post("/instance/setPresence/<name>")
        async def set_presence(name: str) -> Any:
            return await request.get_json(), 201

        @app.post("/settings/set/<name>")
        async def set_settings(name: str) -> Any:
            # src/validate/settings.schema.ts
            body = await request.get_json()
            needed = ("rejectCall", "groupsIgnore", "alwaysOnline", "readMessages", "readStatus")
            wrong = [f'requires property "{one}"' for one in needed if type(body.get(one)) is not bool]
            if wrong:
                return _refused(400, "Bad Request", wrong)
            self.accounts[name].settings = body
            return {"settings": {"instanceName": name, "settings": body}}, 201

        @app.get("/settings/find/<name>")
        async def find_settings(name: str) -> Any:
            return _json(self.accounts[name].settings)

        # src/api/routes/sendMessage.router.ts and chat.router.ts

        @app.post("/message/<call>/<name>")
        async def send(call: str, name: str) -> Any:
            body = await request.get_json()
            made = _content(call, body)
            if isinstance(made, str):
                return _refused(400, "Bad Request", [[made]])
            account = self.accounts[name]
            number = body["key"]["remoteJid"] if call == "sendReaction" else body["number"]
            if account.numbers is not None and number not in account.numbers:
                jid = f"{number}@s.whatsapp.net"
                return _refused(400, "Bad Request", [{"jid": jid, "exists": False, "number": number}])
            chat = number if "@" in number else f"{number}@s.whatsapp.net"
            sent = self.message(chat, made, from_me=True)
            self.emit(
                name, "send.message", sent
            )  # not awaited there: it may come before the answer, or after
            return _json(sent, 201)

        @app.post("/chat/updateMessage/<name>")
        async def update(name: str) -> Any:
            body = await request.get_json()
            edited = {"key": body["key"], "editedMessage": {"conversation": body["text"]}}
            self.emit(name, "send.message.update", edited)
            return {"message": {"protocolMessage": edited}}

        @app.delete("/chat/deleteMessageForEveryone/<name>")
        async def delete(name: str) -> Any:
            key = await request.get_json()
            data = {"id": "cm1", "key": key, "status": "DELETED", "messageType": "conversation"}
            self.emit(name, "messages.delete", data)
            return {"key": {"remoteJid": key["remoteJid"], "fromMe": True, "id": "3EB0DE1E7E"}}, 201

        @app.post("/chat/markMessageAsRead/<name>")
        async def mark_read(name: str) -> Any:
            return {"message": "Read messages", "read": "success"}, 201

        @app.post("/chat/sendPresence/<name>")
        async def send_presence(name: str) -> Any:
            body = await request.get_json()
            await trio.sleep(body["delay"] / 1000)
            return {"presence": body["presence"]}, 201

        @app.post("/chat/whatsappNumbers/<name>")
        async def numbers(name: str) -> Any:
            known = self.accounts[name].numbers
            asked = (await request.get_json())["numbers"]
            # Groups come first.
            ordered = sorted(asked, key=lambda one: not one.endswith("@g.us"))
            return _json(
                [
                    {
                        "jid": one if "@" in one else f"{one}@s.whatsapp.net",
                        "exists": known is None or one in known,
                        "number": one,
                    }
                    for one in ordered
                ]
            )

        @app.post("/chat/fetchProfilePictureUrl/<name>")
        async def picture(name: str) -> Any:
            number = (await request.get_json())["number"]
            jid = number if "@" in number else f"{number}@s.whatsapp.net"
            return _json({"wuid": jid, "profilePictureUrl": self.accounts[name].pictures.get(jid)})

        @app.post("/chat/findMessages/<name>")
        async def messages(name: str) -> Any:
            body = await request.get_json()
            where, size, page = body.get("where", {}), body.get("offset") or 50, body.get("page") or 1
            span = where.get("messageTimestamp") or {}
            # Only between two times; "2026-11-26T07:00:00.000Z".
            between = [_seconds(span[name]) for name in ("gte", "lte")] if span else [0, math.inf]
            found = [
                one
                for one in self.accounts[name].messages
                # Of false, it makes no filter.
                if all(not value or one["key"].get(part) == value for part, value in where["key"].items())
                and all(where.get(part) in (None, one.get(part)) for part in ("id", "messageType", "source"))
                and between[0] <= one["messageTimestamp"] <= between[1]
            ]
            random.shuffle(found)  # by their time alone: those of the same second come in any order
            found.sort(key=lambda one: -one["messageTimestamp"])
            records = found[(page - 1) * size : page * size]
            shown = {"total": len(found), "pages": -(-len(found) // size), "currentPage": page}
            return _json({"messages": {**shown, "records": records}})

        @app.get("/group/fetchAllGroups/<name>")
        async def groups(name: str) -> Any:
            if "getParticipants" not in request.args:
                message = "The getParticipants needs to be informed in the query"
                return _refused(400, "Bad Request", [message])
            left_out = set() if request.args["getParticipants"] == "true" else {"participants"}
            return _json(
                [
                    {part: value for part, value in one.items() if part not in left_out}
                    for one in self.accounts[name].groups
                ]
            )

        @app.get("/group/findGroupInfos/<name>")
        async def group(name: str) -> Any:
            for one in self.accounts[name].groups:
                if one["id"] == request.args["groupJid"]:
                    return _json(one)
            return _refused(404, "Not Found", ["Error fetching group", "Error: item-not-found"])

        @app.post("/chat/getBase64FromMediaMessage/<name>")
        async def media(name: str) -> Any:
            key = (await request.get_json())["message"]["key"]
            file = self.accounts[name].files.get(key["id"])
            if file is None:
                return _refused(400, "Bad Request", ["Message not found"])
            described = {"mediaType": "imageMessage", "fileName": f"{key['id']}.png", "caption": 'a "cat"'}
            size = {"fileLength": str(len(file)), "height": 1, "width": 1}
            found = {**described, "size": size, "mimetype": "image/png", "base64": _b64(file), "buffer": None}
            return _json(found, 201)

        # For people who try hookgw with `python -m tests.networks.evolution`. Evolution API has no such call.

        @app.post("/fake/receive/<name>")
        async def fake_receive(name: str) -> Any:
            body = await request.get_json(force=True)
            posted = self.receive(name, body.get("text", "hello"), number=body.get("number", "5511988887777"))
            return {"posted_to": None if posted is None else posted.url.rpartition("/")[0] + "/…"}

        @app.post("/fake/scan/<name>")
        async def fake_scan(name: str) -> Any:
            self.set_state(name, "open")
            return {"state": "open"}


@asynccontextmanager
async def serving(evolution: Evolution, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve an :class:`Evolution` for the length of the block; yield its URL."""
    config = Config()
    config.bind = [f"{host}:{port}"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 0
    stop = trio.Event()
    async with evolution.posting(), trio.open_nursery() as nursery:
        run = partial(serve, evolution.app, config, shutdown_trigger=stop.wait)
        [url] = await nursery.start(run)
        try:
            yield url
        finally:
            stop.set()
            nursery.cancel_scope.deadline = trio.current_time() + 1


def _content(call: str, body: dict[str, Any]) -> dict[str, Any] | str:
    """Return what a call sends, or why it is refused (src/validate/message.schema.ts)."""
    needed = {
        "sendText": ("number", "text"),
        "sendMedia": ("number", "mediatype", "media"),
        "sendWhatsAppAudio": ("number", "audio"),
        "sendSticker": ("number", "sticker"),
        "sendLocation": ("number", "latitude", "longitude", "name", "address"),
        "sendContact": ("number", "contact"),
        "sendReaction": ("key", "reaction"),
        "sendTemplate": ("number", "name", "language"),
    }
    for name in needed[call]:
        if name not in body:
            return f'requires property "{name}"'
    if call == "sendTemplate":
        return "Method not available in the Baileys service"
    match call:
        case "sendText":
            return {"conversation": body["text"]}
        case "sendMedia":
            return {f"{body['mediatype']}Message": {"url": "https://mmg.whatsapp.net/x"}}
        case "sendWhatsAppAudio":
            return {"audioMessage": {"ptt": True}}
        case "sendSticker":
            return {"stickerMessage": {}}
        case "sendLocation":
            return {"locationMessage": {"degreesLatitude": body["latitude"]}}
        case "sendContact":
            return {"contactMessage": {"displayName": body["contact"][0]["fullName"]}}
        case _:
            return {"reactionMessage": {"key": body["key"], "text": body["reaction"]}}


def _shown(account: Account) -> dict[str, Any]:
    return {
        "id": "e7a9b0f2-6c3a-4c7b-9c37-6f0f3f0c6a11",
        "name": account.name,
        "connectionStatus": account.state,
        "ownerJid": WUID if account.state == "open" else None,
        "profileName": "Loja" if account.state == "open" else None,
        "profilePicUrl": None,
        "integration": "WHATSAPP-BAILEYS",
        "token": account.token,
    }


def _no_key() -> Any:
    return _refused(401, "Unauthorized", "Unauthorized")


def _refused(status: int, error: str, message: Any) -> Any:
    # src/main.ts
    return {"status": status, "error": error, "response": {"message": message}}, status


def _json(value: Any, status: int = 200) -> Response:
    # As express writes it: without spaces.
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Response(text, status, content_type="application/json; charset=utf-8")


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()
