"""The calls of the HTTP API that a connector answers. No I/O."""

from __future__ import annotations

from hookgw.plugins.contained_connector import ContainedConnector
from hookgw.records.messages import (
    ContactMessage,
    LocationMessage,
    MediaMessage,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)

# The last part of the call's path, and the class of messages, or the method, that it needs. hookgw answers
# the calls that need nothing itself, for every instance with a connector.
_NEEDS: dict[str, type | str | None] = {
    "sendText": TextMessage,
    "sendMedia": MediaMessage,
    "sendSticker": MediaMessage,
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
    "fetchProfilePictureUrl": "find_picture",
    "getBase64FromMediaMessage": "open_media",
    "fetchAllGroups": "list_groups",
    "findGroupInfos": "find_group",
    "participants": "find_group",
    "setPresence": "set_presence",
    "findChats": None,
    "findContacts": None,
    "findMessages": None,
    "restart": None,
}

CALLS = tuple(_NEEDS)
"""The calls that some connectors lack, and the calls that every instance with a connector has."""


def supports(connector: ContainedConnector, call: str) -> bool:
    need = _NEEDS[call]
    return need is None or need in connector.methods or need in connector.message_types


def calls_of(connector: ContainedConnector) -> list[str]:
    return [call for call in CALLS if supports(connector, call)]
