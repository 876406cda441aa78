"""``/message``: messages sent through an instance's connector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from quart import Response, request

from hookgw.messages import responses
from hookgw.messages.requests import (
    KEY_PATTERN,
    parse_audio_message,
    parse_contact_message,
    parse_idempotency_key,
    parse_location_message,
    parse_media_message,
    parse_reaction_message,
    parse_sticker_message,
    parse_template_message,
    parse_text_message,
)
from hookgw.messages.uploads import MULTIPART, read_upload
from hookgw.records.api_keys import Right
from hookgw.records.messages import Message
from hookgw.web.forms import NOTE, read_send
from hookgw.web.openapi.describe import Body, Parameter, describes, json_body
from hookgw.web.request_body import current_exchange, json_response
from hookgw.web.route_group import RouteGroup, route

_TAG = "Messages"
_SENT = {201: responses.SentMessage}
_ERRORS = (409, 422, 501, 502)
_NUMBER = "5511988887777"
_KEY = {"remoteJid": "5511988887777@s.whatsapp.net", "fromMe": False, "id": "3EB0C0BD05DCA97A7C09CB"}
_TEXT_BODY = json_body(
    "SendTextRequest",
    note=NOTE,
    a_text={"number": _NUMBER, "text": "Oi"},
    a_reply={"number": _NUMBER, "text": "Oi", "quoted": {"key": {"id": _KEY["id"]}}},
)


def _file_body(name: str, form: str, **examples: Any) -> Body:
    """Return a body that is JSON or, as an upload, a form with the schema of another component."""
    body = json_body(name, note=NOTE, **examples)
    upload = {MULTIPART: {"$ref": f"#/components/schemas/{form}"}}
    return replace(body, schemas={**body.schemas, **upload})


_MEDIA_BODY = _file_body(
    "SendMediaRequest",
    "SendMediaForm",
    by_URL={
        "number": _NUMBER,
        "mediatype": "image",
        "media": "https://shop.example/menu.png",
        "caption": "The menu",
    },
    as_base64={
        "number": _NUMBER,
        "mediatype": "document",
        "media": "SGVsbG8=",
        "mimetype": "text/plain",
        "fileName": "hello.txt",
    },
)
_AUDIO_BODY = _file_body(
    "SendAudioRequest", "SendAudioForm", by_URL={"number": _NUMBER, "audio": "https://shop.example/hello.ogg"}
)
_STICKER_BODY = _file_body(
    "SendStickerRequest",
    "SendAudioForm",
    by_URL={"number": _NUMBER, "sticker": "https://shop.example/hello.webp"},
)
_LOCATION_BODY = json_body(
    "SendLocationRequest",
    note=NOTE,
    a_place={
        "number": _NUMBER,
        "name": "Shop",
        "address": "Rua Um, 1",
        "latitude": -23.55,
        "longitude": -46.63,
    },
)
_CONTACT_BODY = json_body(
    "SendContactRequest",
    note=NOTE,
    a_card={"number": _NUMBER, "contact": [{"fullName": "Ana", "phoneNumber": "+55 11 98888-7777"}]},
)
_REACTION_BODY = json_body("SendReactionRequest", note=NOTE, a_reaction={"key": _KEY, "reaction": "👍"})
_TEMPLATE_BODY = json_body(
    "SendTemplateRequest",
    note=NOTE,
    a_template={
        "number": _NUMBER,
        "name": "order_ready",
        "language": "pt_BR",
        "components": [{"type": "body", "parameters": [{"type": "text", "text": "42"}]}],
    },
)
_IDEMPOTENCY_KEY = Parameter(
    "idempotency-key",
    "The same for each repetition of this send: the connector passes it to the network, and hookgw returns "
    "the outcome of a send in progress, or of a recent one, with the same key.",
    {"type": "string", "pattern": f"^{KEY_PATTERN}$"},
    "header",
)


class MessageRoutes(RouteGroup):
    """The handlers of ``/message``.

    Each of them checks in the order 401, 403, 404, 501, 400, 409: a client that asks for a call that the
    network lacks learns this, whatever is wrong with its body.
    """

    @route("POST", "/message/sendText/<instance>")
    @describes(_TAG, Right.SEND, _SENT, body=_TEXT_BODY, query=(_IDEMPOTENCY_KEY,), errors=_ERRORS)
    async def send_text(self, instance: str) -> Response:
        """Send a text message."""
        self._gateway.messages.require(instance, "sendText")
        return await self._send(instance, await read_send(self._limit, parse_text_message))

    @route("POST", "/message/sendMedia/<instance>")
    @describes(_TAG, Right.SEND, _SENT, body=_MEDIA_BODY, query=(_IDEMPOTENCY_KEY,), errors=_ERRORS)
    async def send_media(self, instance: str) -> Response:
        """Send a file: by URL, as base64, or as an upload."""
        self._gateway.messages.require(instance, "sendMedia")
        return await self._send_file(instance, "media", parse_media_message)

    @route("POST", "/message/sendWhatsAppAudio/<instance>")
    @describes(_TAG, Right.SEND, _SENT, body=_AUDIO_BODY, query=(_IDEMPOTENCY_KEY,), errors=_ERRORS)
    async def send_audio(self, instance: str) -> Response:
        """Send a voice message: by URL, as base64, or as an upload."""
        self._gateway.messages.require(instance, "sendWhatsAppAudio")
        return await self._send_file(instance, "audio", parse_audio_message)

    @route("POST", "/message/sendSticker/<instance>")
    @describes(_TAG, Right.SEND, _SENT, body=_STICKER_BODY, query=(_IDEMPOTENCY_KEY,), errors=_ERRORS)
    async def send_sticker(self, instance: str) -> Response:
        """Send a sticker: by URL, as base64, or as an upload."""
        self._gateway.messages.require(instance, "sendSticker")
        return await self._send_file(instance, "sticker", parse_sticker_message)

    @route("POST", "/message/sendReaction/<instance>")
    @describes(_TAG, Right.SEND, _SENT, body=_REACTION_BODY, query=(_IDEMPOTENCY_KEY,), errors=_ERRORS)
    async def send_reaction(self, instance: str) -> Response:
        """React to a message."""
        self._gateway.messages.require(instance, "sendReaction")
        return await self._send(instance, await read_send(self._limit, parse_reaction_message))

    @route("POST", "/message/sendLocation/<instance>")
    @describes(_TAG, Right.SEND, _SENT, body=_LOCATION_BODY, query=(_IDEMPOTENCY_KEY,), errors=_ERRORS)
    async def send_location(self, instance: str) -> Response:
        """Send a place."""
        self._gateway.messages.require(instance, "sendLocation")
        return await self._send(instance, await read_send(self._limit, parse_location_message))

    @route("POST", "/message/sendContact/<instance>")
    @describes(_TAG, Right.SEND, _SENT, body=_CONTACT_BODY, query=(_IDEMPOTENCY_KEY,), errors=_ERRORS)
    async def send_contact(self, instance: str) -> Response:
        """Send cards of people."""
        self._gateway.messages.require(instance, "sendContact")
        return await self._send(instance, await read_send(self._limit, parse_contact_message))

    @route("POST", "/message/sendTemplate/<instance>")
    @describes(_TAG, Right.SEND, _SENT, body=_TEMPLATE_BODY, query=(_IDEMPOTENCY_KEY,), errors=_ERRORS)
    async def send_template(self, instance: str) -> Response:
        """Send a message that the network has approved beforehand."""
        self._gateway.messages.require(instance, "sendTemplate")
        return await self._send(instance, await read_send(self._limit, parse_template_message))

    async def _send_file(
        self, instance: str, field: str, parse: Callable[[Any, dict[str, bytes]], Message]
    ) -> Response:
        limit = self._gateway.settings.server.max_upload
        return await self._send(instance, parse(*await read_upload(limit, self._limit, field)))

    async def _send(self, instance: str, message: Message) -> Response:
        key = parse_idempotency_key(request.headers.get("idempotency-key"))
        # The send goes on if the client goes away, and so does the count of its body.
        exchange = current_exchange()
        release = exchange.hand_over()
        sent = await self._gateway.messages.send(
            instance, message, key=key, on_ended=release, is_there=exchange.is_client_there
        )
        return json_response(sent, 201)
