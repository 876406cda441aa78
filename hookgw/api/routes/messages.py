"""``/message``: messages sent through an instance's connector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart import Blueprint, Response

from hookgw.api.openapi.describe import describes, json_body
from hookgw.api.request_body import json_response, read_json
from hookgw.models.messages import TextMessage
from hookgw.parsing import parse_text_message

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway

_MESSAGE = {"type": "object", "description": "The message, as in `data` of SEND_MESSAGE."}
_TEXT_BODY = json_body(
    "SendTextRequest",
    flat={"number": "5511988887777", "text": "Oi"},
    nested={"number": "5511988887777", "textMessage": {"text": "Oi"}},
)


class MessageRoutes:
    """The handlers of ``/message``."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limit = gateway.settings.server.max_body

    def blueprint(self) -> Blueprint:
        """Return the routes."""
        blueprint = Blueprint("messages", __name__, url_prefix="/message")
        blueprint.add_url_rule("/sendText/<instance>", view_func=self.send_text, methods=["POST"])
        return blueprint

    @describes("Messages", {201: _MESSAGE}, body=_TEXT_BODY, errors=(409, 502))
    async def send_text(self, instance: str) -> Response:
        """Send a text message through the instance's connector."""
        self._gateway.instances.get(instance)  # 404 comes before any error of the body
        number, text = parse_text_message(await read_json(self._limit))
        message = TextMessage(number=number, text=text)
        return json_response(await self._gateway.instances.send(instance, message), 201)
