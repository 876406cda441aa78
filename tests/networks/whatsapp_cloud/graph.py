"""The Graph API: takes messages and files for phone numbers. No I/O."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import httpx

TOKEN = "EAAG-a-token-of-the-tests"
NUMBER = "106540352242922"
DISPLAY = "+1 555-078-3881"
ACCOUNT = "15550783881"
CUSTOMER = "16505551234"
WABA = "102290129340398"
APP = "670843887433847"
SECRET = "the app secret of the tests"

Fault = httpx.Response | Exception

_FIELDS = ("display_phone_number", "verified_name", "quality_rating", "platform_type")
# "Media", supported media types.
_MIMETYPES = {
    "audio/aac",
    "audio/amr",
    "audio/mpeg",
    "audio/mp4",
    "audio/ogg",
    "text/plain",
    "application/pdf",
    "image/jpeg",
    "image/png",
    "image/webp",
    "video/3gpp",
    "video/mp4",
}
_FILES = ("image", "audio", "video", "document", "sticker")
_PATH = re.compile(r"/v[0-9]+\.[0-9]+/([A-Za-z0-9_-]+)(?:/([a-z_]+))?/?")


@dataclass
class Media:
    """A file.

    Attributes:
        content, mimetype: what it is.
        number: the phone number that it belongs to.
    """

    content: bytes
    mimetype: str
    number: str


class GraphRefusal(Exception):
    """An error response, as "Error codes" (support/error-codes) shows it."""

    def __init__(self, status: int, code: int, title: str, details: str = "", **more: Any) -> None:
        error: dict[str, Any] = {
            "message": f"(#{code}) {title}",
            "type": "OAuthException",
            "code": code,
            "fbtrace_id": "AbCdEfGhIjKl",
            **more,
        }
        if details:
            error["error_data"] = {"messaging_product": "whatsapp", "details": details}
        super().__init__(title)
        self.response = httpx.Response(status, json={"error": error})


@dataclass
class Graph:
    """Meta's side of one or more phone numbers.

    Attributes:
        tokens: the valid access tokens.
        numbers: display number and name of each phone number id.
        media: the files, by id.
        sent: the accepted messages, in order, with the id that each got.
        read: the ids of messages that were marked as read; with "typing" after the id if it also showed that.
        incoming: the ids of messages that people sent.
        closed_windows: the people who have not written for 24 hours.
        corrections: by number, the one under which WhatsApp knows the person.
        callbacks: the URL of each number's webhooks, by phone number id; that of the app by its id.
        is_subscribed: whether the app is subscribed to the account.
        requests: method and path of each request.
        on_sent: called with each accepted message.
        file_host: where files are, such as ``https://lookaside.fbsbx.com``; by default at the Graph API.
    """

    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    numbers: dict[str, tuple[str, str]] = field(default_factory=lambda: {NUMBER: (DISPLAY, "Acme Shop")})
    media: dict[str, Media] = field(default_factory=dict)
    sent: list[dict[str, Any]] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    incoming: set[str] = field(default_factory=set)
    closed_windows: set[str] = field(default_factory=set)
    corrections: dict[str, str] = field(default_factory=dict)
    callbacks: dict[str, str] = field(default_factory=dict)
    is_subscribed: bool = False
    requests: list[tuple[str, str]] = field(default_factory=list)
    on_sent: Callable[[dict[str, Any]], None] | None = None
    file_host: str = ""
    _faults: dict[str, list[Fault]] = field(default_factory=dict)
    _lost: dict[str, int] = field(default_factory=dict)

    def will(self, call: str, *faults: Fault) -> None:
        """Answer the next requests of a kind: ``number``, ``messages``, ``media``, ``file`` or ``upload``."""
        self._faults.setdefault(call, []).extend(faults)

    def lose_answers(self, call: str, count: int = 1) -> None:
        """Do what the next requests of a kind ask, and lose the answers."""
        self._lost[call] = self._lost.get(call, 0) + count

    def add_media(self, content: bytes, mimetype: str, number: str = NUMBER) -> str:
        """Keep a file, and return its id."""
        id_ = str(1_000_000 + len(self.media))
        self.media[id_] = Media(content, mimetype, number)
        return id_

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer a request; for ``httpx.MockTransport`` of an ``httpx.AsyncClient``."""
        return self.answer(request)

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer a request whose body was read."""
        self.requests.append((request.method, request.url.path))
        call = self.kind_of(request)
        if self._faults.get(call):
            fault = self._faults[call].pop(0)
            if isinstance(fault, Exception):
                raise fault
            return httpx.Response(fault.status_code, headers=fault.headers, stream=fault.stream)
        try:
            self._check_token(request)
            found = self._answer(call, request)
        except GraphRefusal as refusal:
            return refusal.response
        if self._lost.get(call):
            self._lost[call] -= 1
            raise httpx.ReadError("The connection was reset.", request=request)
        return found

    def kind_of(self, request: httpx.Request) -> str:
        """Return the kind of a request; see :meth:`will`."""
        if request.url.path.startswith("/whatsapp_business/attachments"):
            return "file"
        found = _PATH.fullmatch(request.url.path)
        if found is None:
            return ""
        if found[2]:
            kinds = {"messages": "messages", "media": "upload"}
            return kinds.get(found[2], "subscription" if found[1] in (WABA, APP) else "")
        return "number" if found[1] in self.numbers else "media"

    def _answer(self, call: str, request: httpx.Request) -> httpx.Response:
        if call == "file":
            return self._file(request)
        found = _PATH.fullmatch(request.url.path)
        if found is None:
            raise GraphRefusal(404, 2500, "Unknown path components")
        if call in ("messages", "upload") and found[1] not in self.numbers:
            raise _unknown_object(found[1], "post")
        if call == "number":
            return self._number(found[1], request)
        if call == "subscription" and request.method == "POST":
            return self._subscribe(found[1], request)
        if call == "messages" and request.method == "POST":
            return self._message(found[1], _json(request))
        if call == "upload" and request.method == "POST":
            return self._upload(found[1], request)
        if call == "media":
            return self._media(found[1], request)
        raise GraphRefusal(400, 100, "Unsupported request")

    def _check_token(self, request: httpx.Request) -> None:
        """https://developers.facebook.com/docs/graph-api/guides/error-handling: 190, with 463 if expired."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        # Of the app's own settings, the app's token (graph-api/reference/app/subscriptions).
        is_app = request.url.path.endswith("/subscriptions") and token == f"{APP}|{SECRET}"
        if scheme == "Bearer" and (token in self.tokens or is_app):
            return
        raise GraphRefusal(401, 190, "Error validating access token: Session has expired", error_subcode=463)

    def _number(self, id_: str, request: httpx.Request) -> httpx.Response:
        """reference/whatsapp-business-phone-number/whatsapp-business-account-phone-number-api."""
        if request.method == "POST":  # webhooks/override: set phone number alternate callback
            asked = _json(request).get("webhook_configuration", {})
            self.callbacks[id_] = asked["override_callback_uri"]
            return httpx.Response(200, json={"success": True})
        display, name = self.numbers[id_]
        known = dict(zip(_FIELDS, (display, name, "GREEN", "CLOUD_API"), strict=True))
        fields = request.url.params.get("fields", ",".join(_FIELDS)).split(",")
        for wanted in fields:
            if wanted not in known and wanted != "id":
                raise GraphRefusal(400, 100, f"Tried accessing nonexisting field ({wanted})")
        return httpx.Response(200, json={**{f: known[f] for f in fields if f in known}, "id": id_})

    def callback_to_verify(self, request: httpx.Request) -> tuple[str, str] | None:
        """Return the URL and the verify token in a request that sets a callback: Meta checks it before."""
        kind = self.kind_of(request)
        if kind == "number" and request.method == "POST":
            asked = _json(request).get("webhook_configuration", {})
            return asked["override_callback_uri"], asked["verify_token"]
        if kind == "subscription" and request.url.path.endswith("/subscriptions"):
            form = dict(parse_qsl(request.content.decode()))
            return form["callback_url"], form["verify_token"]
        return None

    def _subscribe(self, id_: str, request: httpx.Request) -> httpx.Response:
        """https://developers.facebook.com/docs/graph-api/reference/app/subscriptions; subscribed_apps."""
        if id_ == WABA:
            self.is_subscribed = True
        else:
            form = dict(parse_qsl(request.content.decode()))
            if form.get("object") != "whatsapp_business_account" or "messages" not in form.get("fields", ""):
                raise GraphRefusal(400, 100, "Invalid parameter")
            self.callbacks[APP] = form["callback_url"]
        return httpx.Response(200, json={"success": True})

    def _message(self, number: str, body: dict[str, Any]) -> httpx.Response:
        """reference/whatsapp-business-phone-number/message-api."""
        if body.get("messaging_product") != "whatsapp":
            raise GraphRefusal(400, 100, "The parameter messaging_product is required.")
        if body.get("status") == "read":
            return self._mark_read(body)
        to, kind = body.get("to") or body.get("recipient"), body.get("type", "text")
        if not isinstance(to, str) or not to:
            raise GraphRefusal(400, 100, "The parameter to is required.")
        content = body.get(kind)
        if content is None:
            raise GraphRefusal(400, 131008, "Required parameter is missing", f"{kind} is missing")
        self._check_content(kind, content)
        digits = re.sub("[^0-9]", "", to)
        if kind != "template" and digits in self.closed_windows:
            # support/error-codes: 131047, re-engagement message.
            details = (
                "Message failed to send because more than 24 hours have passed since the customer last "
                "replied to this number."
            )
            raise GraphRefusal(400, 131047, "Re-engagement message", details)
        if len(body.get("biz_opaque_callback_data", "")) > 512:
            raise GraphRefusal(400, 100, "biz_opaque_callback_data is too long.")
        id_ = f"wamid.HBgLOUT{len(self.sent):08d}VAgARGBI="
        self.sent.append({**body, "id": id_, "number": number})
        if self.on_sent is not None:
            self.on_sent(self.sent[-1])
        contact = {"input": to, "wa_id": self.corrections.get(digits, digits)}
        if "recipient" in body:  # business-scoped-user-ids
            contact = {"input": to, "user_id": to}
        elif body.get("recipient_type") == "group":
            contact = {"input": to, "wa_id": to}
        messages = [{"id": id_, "message_status": "accepted"}]
        return httpx.Response(
            200, json={"messaging_product": "whatsapp", "contacts": [contact], "messages": messages}
        )

    def _mark_read(self, body: dict[str, Any]) -> httpx.Response:
        """messages/mark-message-as-read; typing-indicators."""
        if body.get("message_id") not in self.incoming:
            raise GraphRefusal(400, 131009, "Parameter value is not valid", "Unknown message_id")
        typing = body.get("typing_indicator")
        if typing not in (None, {"type": "text"}):
            raise GraphRefusal(400, 100, "Invalid parameter")
        self.read.append(body["message_id"] + (" typing" if typing else ""))
        return httpx.Response(200, json={"success": True})

    def _check_content(self, kind: str, content: Any) -> None:
        """messages/text-messages, messages/image-messages and the pages beside them."""
        if kind == "text" and len(content["body"]) > 4096:
            raise GraphRefusal(400, 100, "Param text['body'] must be at most 4096 characters long.")
        if kind in _FILES:
            if content.get("id") is not None and content["id"] not in self.media:
                raise GraphRefusal(400, 131009, "Parameter value is not valid", "Media not found")
            if content.get("id") is None and not str(content.get("link", "")).startswith("http"):
                raise GraphRefusal(400, 131008, "Required parameter is missing", "id or link")
            if kind in ("audio", "sticker") and "caption" in content:
                raise GraphRefusal(400, 100, "Unexpected key caption")
        if kind == "template" and content["name"] != "hello_world":
            details = f"template name ({content['name']}) does not exist in {content['language']['code']}"
            raise GraphRefusal(404, 132001, "Template name does not exist in the translation", details)
        if kind == "contacts" and not all(len(card["name"]) > 1 for card in content):
            raise GraphRefusal(400, 131009, "Parameter value is not valid", "contacts.name")

    def _upload(self, number: str, request: httpx.Request) -> httpx.Response:
        """business-phone-numbers/media: upload media."""
        parts = _parts(request)
        if parts.get("messaging_product", (b"", ""))[0] != b"whatsapp" or "file" not in parts:
            raise GraphRefusal(400, 100, "Invalid parameter", "messaging_product and file are required")
        content, mimetype = parts["file"]
        if mimetype.partition(";")[0].strip() not in _MIMETYPES:
            details = f"Param file must be a file with one of the following types: … Received {mimetype}."
            raise GraphRefusal(400, 100, "Invalid parameter", details)
        return httpx.Response(200, json={"id": self.add_media(content, mimetype, number)})

    def _media(self, id_: str, request: httpx.Request) -> httpx.Response:
        """business-phone-numbers/media: get media URL, delete media."""
        found = self.media.get(id_)
        number = request.url.params.get("phone_number_id")
        if found is None or number not in (None, found.number):
            raise _unknown_object(id_, request.method.lower())
        if request.method == "DELETE":
            del self.media[id_]
            return httpx.Response(200, json={"success": True})
        host = self.file_host or f"{request.url.scheme}://{request.url.netloc.decode()}"
        about = {
            "messaging_product": "whatsapp",
            "url": f"{host}/whatsapp_business/attachments/?mid={id_}&ext=1749854575&hash=ARaB",
            "mime_type": found.mimetype,
            "sha256": hashlib.sha256(found.content).hexdigest(),
            "file_size": len(found.content),
            "id": id_,
        }
        return httpx.Response(200, json=about)

    def _file(self, request: httpx.Request) -> httpx.Response:
        """business-phone-numbers/media: download media, with the token."""
        found = self.media.get(request.url.params.get("mid", ""))
        if found is None:
            return httpx.Response(404)
        return httpx.Response(200, content=found.content, headers={"content-type": found.mimetype})


def _unknown_object(id_: str, method: str) -> GraphRefusal:
    title = (
        f"Unsupported {method} request. Object with ID '{id_}' does not exist, cannot be loaded due to "
        "missing permissions, or does not support this operation"
    )
    return GraphRefusal(400, 100, title, error_subcode=33)


def _json(request: httpx.Request) -> dict[str, Any]:
    try:
        body = json.loads(request.content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise GraphRefusal(400, 100, "Invalid parameter")
    return body


def _parts(request: httpx.Request) -> dict[str, tuple[bytes, str]]:
    """Return content and type of each part of a multipart body."""
    boundary = re.search('boundary="?([^";]+)', request.headers.get("content-type", ""))
    if boundary is None:
        return {}
    parts = {}
    for piece in request.content.split(b"--" + boundary[1].encode())[1:-1]:
        head, _, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]*)"', head)
        kind = re.search(rb"(?i)content-type: *([^\r]*)", head)
        if name:
            parts[name[1].decode()] = (content.removesuffix(b"\r\n"), kind[1].decode() if kind else "")
    return parts
