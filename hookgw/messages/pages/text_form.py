"""Sends the text of a form of a page, once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from hookgw.messages.requests import parse_text_message

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway
    from hookgw.site.site import Form


async def send_text(gateway: Gateway, instance: str, number: str, form: Form) -> None:
    """Send ``text`` of a form to a number; a second click with the same ``once`` sends nothing again."""
    gateway.messages.require(instance, "sendText")
    text = form.text("text")
    message = parse_text_message({"number": number, "text": text})
    # With the text: after a step back, the form may have another one.
    given = "\n".join((form.get("once"), number, text))
    once = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()
    await gateway.messages.send(instance, message, key=once)
