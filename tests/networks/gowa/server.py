"""A stand-in for a GOWA server, made from its ``docs/openapi.yaml`` and ``docs/webhook-payload.md`` (9.0.0).

It has the parts that hookgw uses, and sends webhooks. It misbehaves on demand: see :class:`Fault`, and the
attributes ``sign_wrongly`` and ``forgets_webhooks``.
"""

import base64
import hashlib
import hmac
import json
import secrets
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import segno
import trio
from quart import Response, request
from quart_trio import QuartTrio

Post = Callable[[str, dict[str, str], bytes], Awaitable[int]]
"""Posts a webhook, and returns the status of the answer; raises ``OSError`` if there is none."""

ATTEMPTS = 5
"""How often GOWA tries a webhook, after 1, 2, 4 and 8 seconds. All of it has 30 s (webhook-payload.md)."""
GIVES_UP = 30.0


@dataclass
class Fault:
    """What happens to requests instead of their answer.

    Attributes:
        path: the requests whose path, with the method before it, contains this.
        status, body: of the answer.
        times: how many requests.
    """

    path: str
    status: int
    body: bytes = b"{}"
    times: int = 1


@dataclass
class Device:
    """A device (DeviceInfo), with its webhook."""

    id: str
    jid: str = ""
    is_connected: bool = False
    url: str = ""
    secret: str = ""
    code: str = ""
    pair_code: str = ""


class FakeGowa:
    """The server.

    Args:
        post: sends webhooks.
        nursery: runs the deliveries.
        user, password: of ``--basic-auth``; empty for none.

    Attributes:
        app: answers requests.
        devices: by id.
        calls: every request: method, path, and body, form or query.
        files: by their path below ``statics/``, with the ids of their messages in ``media``.
        messages: what was sent, by the messages' ids.
        faults: what goes wrong.
        sign_wrongly: whether webhooks have a wrong signature.
        lost: the webhooks that nobody took in time.
        undelivered: how many webhooks are on their way.
    """

    me = "5511999999999@s.whatsapp.net"

    def __init__(
        self, post: Post, nursery: trio.Nursery, *, user: str = "hookgw", password: str = "gowa-password"
    ) -> None:
        self.app = QuartTrio("gowa")
        self.app.config["MAX_CONTENT_LENGTH"] = 100_000_000  # WhatsappSettingMaxVideoSize
        self.devices: dict[str, Device] = {}
        self.calls: list[tuple[str, str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.media: dict[tuple[str, str], str] = {}
        self.messages: dict[str, Any] = {}
        self.on_whatsapp: set[str] | None = None
        self.faults: list[Fault] = []
        self.sign_wrongly = False
        self.lost: list[dict[str, Any]] = []
        self.undelivered = 0
        self.changed = trio.Event()
        self._post = post
        self._nursery = nursery
        credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._authorization = f"Basic {credentials}" if user else ""
        self._add_routes()

    # What happens on WhatsApp

    def scan(self, id_: str) -> None:
        """Scan the QR code with the account's phone."""
        device = self.devices[id_]
        assert device.code
        device.jid, device.is_connected = self.me, True

    def log_out(self, id_: str) -> None:
        """Remove the device on the phone: the slot stays (POST /devices/{device_id}/logout says so, too)."""
        device = self.devices[id_]
        device.jid, device.is_connected = "", False

    def receive(self, id_: str, chat: str, **payload: Any) -> dict[str, Any]:
        """Receive a message (Message Events)."""
        author = payload.pop("author", chat)
        payload = {
            "id": secrets.token_hex(10).upper(),
            "chat_id": chat,
            "from": author,
            "from_name": "Ana",
            "sender_display_name": "Ana Lima",
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "is_from_me": False,
            **payload,
        }
        self.report(id_, "message", payload)
        return payload

    def report(self, id_: str, event: str, payload: Any, **beside: Any) -> None:
        """Report an event to the device's webhook; in a task of its own, as GOWA does."""
        device = self.devices[id_]
        # By the account's id: before the login, the global webhook gets everything, and there is none.
        if not device.jid or not device.url:
            return
        body = {"event": event, "device_id": device.jid, "session_id": id_, "payload": payload, **beside}
        self.undelivered += 1
        self._nursery.start_soon(partial(self._deliver, device.url, device.secret, body))

    async def _deliver(self, url: str, secret: str, report: dict[str, Any]) -> None:
        body = json.dumps(report).encode()
        key = b"wrong" if self.sign_wrongly else secret.encode()
        headers = {
            "content-type": "application/json",
            "x-hub-signature-256": f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}",
        }
        is_taken = False
        with trio.move_on_after(GIVES_UP):
            for attempt in range(ATTEMPTS):
                if attempt:
                    await trio.sleep(2 ** (attempt - 1))
                try:
                    is_taken = 200 <= await self._post(url, headers, body) < 300
                except OSError:
                    continue
                if is_taken:
                    break
        if not is_taken:
            self.lost.append(report)
        self.undelivered -= 1
        self._note_change()

    async def all_delivered(self) -> None:
        """Wait until no webhook is on its way."""
        while self.undelivered:
            await self.changed.wait()

    def _note_change(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    # The API

    def _add_routes(self) -> None:  # noqa: C901 (a table of routes)
        app = self.app

        @app.before_request
        async def check() -> Response | None:
            form = await request.form
            files = {
                name: (one.filename, one.mimetype, one.read()) for name, one in (await request.files).items()
            }
            body = await request.get_json(silent=True) if request.is_json else {**form, **files} or None
            self.calls.append((request.method, request.path, body or dict(request.args)))
            for fault in self.faults:
                if fault.path in f"{request.method} {request.path}":
                    fault.times -= 1
                    if not fault.times:
                        self.faults.remove(fault)
                    kind = "application/json" if fault.body[:1] == b"{" else "text/plain"
                    return Response(fault.body, fault.status, content_type=kind)
            # The pictures and files stand before the check (rest.go); so does /health.
            if request.path.startswith(("/statics/", "/fake/")) or not self._authorization:
                return None
            if request.headers.get("authorization") != self._authorization:
                challenge = {"www-authenticate": 'Basic realm="Restricted", charset="UTF-8"'}
                return Response("Unauthorized", 401, challenge, content_type="text/plain")
            return None

        @app.get("/app/info")
        async def info() -> Response:
            return _success({"version": "v9.0.0", "os": "GOWA", "base_path": "", "chatwoot_enabled": False})

        @app.post("/devices")
        async def add_device() -> Response:
            body = await request.get_json()
            id_ = body["device_id"]
            if id_ in self.devices:
                return _failure(500, "INTERNAL_SERVER_ERROR", f"device {id_} already exists")
            device = self.devices[id_] = Device(id_, url=body["webhook_url"], secret=body["webhook_secret"])
            self._note_change()
            return _success(_shown(device) | {"webhook_url": device.url})

        @app.get("/devices/<id_>")
        async def device(id_: str) -> Response:
            if id_ not in self.devices:
                return _failure(500, "INTERNAL_SERVER_ERROR", f"device {id_} not found")
            return _success(_shown(self.devices[id_]))

        @app.get("/devices/<id_>/status")
        async def status(id_: str) -> Response:
            if id_ not in self.devices:
                return _failure(500, "INTERNAL_SERVER_ERROR", f"device {id_} not found")
            one = self.devices[id_]
            is_logged_in = bool(one.jid) and one.is_connected
            return _success(
                {"device_id": id_, "is_connected": one.is_connected, "is_logged_in": is_logged_in}
            )

        @app.route("/devices/<id_>/webhook", methods=["GET", "PATCH"])
        async def webhook(id_: str) -> Response:
            if id_ not in self.devices:
                return _failure(404, "NOT_FOUND", "device not found")
            one = self.devices[id_]
            if request.method == "PATCH":
                body = await request.get_json()
                one.url, one.secret = body["webhook_url"], body["webhook_secret"]
            shown = {"webhook_url": one.url, "webhook_secret": one.secret, "webhook_events": ""}
            return _success({"device_id": id_, **shown, "webhook_insecure_skip_verify": False})

        @app.get("/devices/<id_>/login")
        async def login(id_: str) -> Response:
            one = self.devices[id_]
            if one.jid:
                return _failure(400, "ALREADY_LOGGED_IN", "you are already logged in.")
            one.pair_code = ""
            one.code = f"2@{secrets.token_urlsafe(120)},{secrets.token_urlsafe(30)},1"
            path = f"qrcode/scan-qr-{secrets.token_hex(8)}.png"
            self.files[path] = draw_code(one.code)
            # The host of the link is that of the request, which may be a name of another network.
            link = f"http://elsewhere.example:3000/statics/{path}"
            return _success({"device_id": id_, "qr_link": link, "qr_duration": 30})

        @app.post("/devices/<id_>/login/code")
        async def login_with_code(id_: str) -> Response:
            one, phone = self.devices[id_], request.args.get("phone", "")
            if one.jid:
                return _failure(400, "ALREADY_LOGGED_IN", "you are already logged in.")
            if not phone.isdigit():
                return _failure(400, "VALIDATION_ERROR", "phone_number: must be in international format.")
            # A login with another QR code begins with a new connection, which ends this one.
            one.pair_code = f"{secrets.token_hex(2)}-{secrets.token_hex(2)}".upper()
            return _success({"device_id": id_, "pair_code": one.pair_code})

        @app.post("/devices/<id_>/logout")
        async def logout(id_: str) -> Response:
            self.log_out(id_)
            return _success(None)

        @app.post("/devices/<id_>/reconnect")
        async def reconnect(id_: str) -> Response:
            if not self.devices[id_].jid:
                return _failure(
                    500, "INTERNAL_SERVER_ERROR", f"device {id_} is not logged in (session deleted)"
                )
            self.devices[id_].is_connected = True
            return _success(None)

        @app.get("/statics/<path:path>")
        async def statics(path: str) -> Response:
            if path not in self.files:
                return Response("Not Found", 404, content_type="text/plain")
            return Response(self.files[path], content_type="application/octet-stream")

        @app.post("/send/<what>")
        async def send(what: str) -> Response:
            return self._of_device({"message_id": self._new_id(self.calls[-1])})

        @app.post("/message/<id_>/<what>")
        async def message(id_: str, what: str) -> Response:
            return self._of_device(
                {"message_id": self._new_id(self.calls[-1]) if what == "reaction" else id_}
            )

        @app.get("/message/<id_>/download")
        async def download(id_: str) -> Response:
            path = self.media.get((request.args.get("phone", ""), id_))
            if path is None:
                return _failure(500, "INTERNAL_SERVER_ERROR", f"message with ID {id_} not found")
            file = {"message_id": id_, "media_type": "image", "file_path": f"statics/{path}"}
            return self._of_device({**file, "filename": path.rpartition("/")[2], "file_size": 1})

        @app.post("/call/reject")
        async def reject() -> Response:
            return self._of_device(None)

        @app.get("/user/check")
        async def check_user() -> Response:
            phone = request.args["phone"]
            return self._of_device({"is_on_whatsapp": self.on_whatsapp is None or phone in self.on_whatsapp})

    def _new_id(self, call: Any) -> str:
        id_ = f"3EB0{secrets.token_hex(9).upper()}"
        self.messages[id_] = call
        return id_

    def _of_device(self, results: Any) -> Response:
        """Answer a call of an account, which must be logged in (X-Device-Id)."""
        id_ = request.headers.get("x-device-id", "")
        if id_ not in self.devices:
            return _failure(
                404, "DEVICE_NOT_FOUND", "device not found; create a device first from /api/devices"
            )
        if not self.devices[id_].is_connected:
            return _failure(
                401, "AUTHENTICATION_ERROR", "you are not connect to services server, please reconnect"
            )
        return _success(results)


def picture(rows: list[bytes], depth: int = 8) -> bytes:
    """Return a PNG with a palette."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    width = len(rows[0]) * 8 // depth
    head = struct.pack(">IIBBBBB", width, len(rows), depth, 3, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def draw_code(text: str, depth: int = 1) -> bytes:
    """Draw a code as GOWA does: 512 pixels, each with the colour of the module that it is in."""
    code = segno.make(text, error="m", mode="byte", micro=False, boost_error=False)
    blank = [[0] * (len(code.matrix) + 8)] * 4
    modules = [*blank, *([0] * 4 + list(row) + [0] * 4 for row in code.matrix), *blank]
    places = [number * len(modules) // 512 for number in range(512)]
    rows = ["".join(f"{modules[y][x]:0{depth}b}" for x in places) for y in places]
    return picture([int(row, 2).to_bytes(64 * depth, "big") for row in rows], depth)


def _success(results: Any) -> Response:
    body = {"status": 200, "code": "SUCCESS", "message": "Success", "results": results}
    return Response(json.dumps(body), content_type="application/json")


def _failure(status: int, code: str, message: str) -> Response:
    body = {"status": status, "code": code, "message": message, "results": None}
    return Response(json.dumps(body), status, content_type="application/json")


def _shown(device: Device) -> dict[str, Any]:
    return {
        "id": device.id,
        "phone_number": device.jid.partition("@")[0],
        "display_name": "Shop" if device.jid else "",
        "state": "logged_in" if device.is_connected else "disconnected",
        "jid": device.jid,
        "created_at": "2026-01-01T00:00:00Z",
    }
