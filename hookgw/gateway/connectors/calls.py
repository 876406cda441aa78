"""The calls of the HTTP API that need a connector, and what a connector must have for each. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from hookgw.models.messages import (
    ContactMessage,
    LocationMessage,
    MediaMessage,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from hookgw.plugins.contained_connector import ContainedConnector

CALLS: Mapping[str, type | str] = {
    "sendText": TextMessage,
    "sendMedia": MediaMessage,
    "sendWhatsAppAudio": MediaMessage,
    "sendReaction": ReactionMessage,
    "sendLocation": LocationMessage,
    "sendContact": ContactMessage,
    "sendTemplate": TemplateMessage,
    "markMessageAsRead": "mark_read",
    "sendPresence": "set_presence",
    "updateMessage": "edit",
    "deleteMessageForEveryone": "delete",
    "whatsappNumbers": "find_numbers",
}
"""For each call, by the last word of its path: a class of messages, or the name of an optional method."""


def supports(connector: ContainedConnector, call: str) -> bool:
    """Return whether a connector has what a call of :data:`CALLS` needs."""
    needed = CALLS[call]
    return needed in connector.methods if isinstance(needed, str) else needed in connector.message_types
