"""Adds the event kinds of WhatsApp-style gateways that hookgw does not raise itself.

An example of ``hookgw_event_kinds``.
"""

from __future__ import annotations

from typing import Any

from hookgw import EventKind, hookimpl

# Loose on purpose: these payloads differ from gateway to gateway, and between versions of one gateway.
LOOSE = {"type": ["object", "array", "null"]}

_CHAT = "5511988887777@s.whatsapp.net"
_GROUP = "120363040000000000@g.us"
_KEY = {"remoteJid": _CHAT, "fromMe": False, "id": "3EB0C0BD05DCA97A7C09CB"}
_MESSAGE = {"key": _KEY, "message": {"conversation": "hello"}, "messageTimestamp": 1773027345}
_CONTACT_INFO = {"remoteJid": _CHAT, "pushName": "Ana"}
_CHAT_INFO = {"remoteJid": _CHAT, "unreadMessages": 1}
_GROUP_INFO = {"id": _GROUP, "subject": "Neighbours"}


def _kind(
    name: str, meaning: str, example: Any, *, dotted: str = "", aliases: tuple[str, ...] = ()
) -> EventKind:
    return EventKind(
        name=name, meaning=meaning, schema=LOOSE, example=example, dotted=dotted, aliases=aliases
    )


# "dotted" only where EventKind's rule (the first "_" becomes ".", the others "-") gives another name than the
# one that gateways send.
KINDS = [
    # Instances
    _kind("APPLICATION_STARTUP", "The gateway started.", {"version": "2.3.0"}),
    _kind("INSTANCE_CREATE", "An instance was created.", {"instanceName": "shop"}),
    _kind("INSTANCE_DELETE", "An instance was deleted.", {"instanceName": "shop"}),
    _kind("REMOVE_INSTANCE", "An instance was removed from the gateway's memory.", None),
    _kind("LOGOUT_INSTANCE", "The account of an instance was logged out.", None),
    _kind("STATUS_INSTANCE", "The status of an instance changed.", {"instance": "shop", "status": "closed"}),
    # Messages
    _kind("MESSAGES_SET", "The messages that existed when the account was connected.", [_MESSAGE]),
    _kind("MESSAGES_EDITED", "A message was edited.", _MESSAGE),
    _kind("MESSAGES_DELETE", "A message was deleted.", {**_KEY, "status": "DELETED"}),
    _kind(
        "SEND_MESSAGE_UPDATE",
        "A message that was sent through the gateway was edited or changed its status.",
        _MESSAGE,
        dotted="send.message.update",
    ),
    _kind(
        "MESSAGING_HISTORY_SET",
        "The account's history was loaded, or a part of it.",
        {"messageCount": 1200, "chatCount": 80, "contactCount": 310},
        dotted="messaging-history.set",
    ),
    # People and chats
    _kind("CONTACTS_SET", "The contacts that existed when the account was connected.", [_CONTACT_INFO]),
    _kind("CONTACTS_UPSERT", "Contacts were added, or more is known about them.", [_CONTACT_INFO]),
    _kind("CONTACTS_UPDATE", "Contacts changed their name or picture.", [_CONTACT_INFO]),
    _kind(
        "PRESENCE_UPDATE",
        "Somebody is online, offline, typing or recording.",
        {"id": _CHAT, "presences": {_CHAT: {"lastKnownPresence": "composing"}}},
    ),
    _kind("CHATS_SET", "The chats that existed when the account was connected.", [_CHAT_INFO]),
    _kind("CHATS_UPSERT", "Chats were added.", [_CHAT_INFO]),
    _kind("CHATS_UPDATE", "Chats changed, for example their unread messages.", [_CHAT_INFO]),
    _kind("CHATS_DELETE", "Chats were deleted.", [_CHAT]),
    # Groups
    _kind("GROUPS_UPSERT", "The account joined or created groups.", [_GROUP_INFO]),
    _kind(
        "GROUPS_UPDATE",
        "Groups changed their subject or settings.",
        [_GROUP_INFO],
        # Both spellings are in use.
        aliases=("GROUP_UPDATE",),
    ),
    _kind(
        "GROUP_PARTICIPANTS_UPDATE",
        "Members joined or left a group, or their rights changed.",
        {"id": _GROUP, "participants": [_CHAT], "action": "add"},
        dotted="group-participants.update",
    ),
    # Labels, calls and bots
    _kind("LABELS_EDIT", "A label was created, changed or deleted.", {"id": "1", "name": "paid"}),
    _kind(
        "LABELS_ASSOCIATION",
        "A label was added to a chat or removed from it.",
        {"labelId": "1", "chatId": _CHAT},
    ),
    _kind("CALL", "A call came in, was answered, or ended.", [{"from": _CHAT, "status": "offer"}]),
    _kind("TYPEBOT_START", "A conversation with a bot began.", {"remoteJid": _CHAT}),
    _kind(
        "TYPEBOT_CHANGE_STATUS",
        "A conversation with a bot was opened, paused or closed.",
        {"remoteJid": _CHAT, "status": "paused"},
    ),
    # Nothing raises these any more, but clients of Evolution API 1 ask for all kinds by name.
    _kind(
        "NEW_JWT_TOKEN",
        "The key of an instance was renewed.",
        {"token": "…"},
        dotted="new.jwt",
        aliases=("NEW_TOKEN",),
    ),
    _kind(
        "CHAMA_AI_ACTION",
        "A bot of Chama AI wants something done.",
        {"remoteJid": _CHAT},
        dotted="chama-ai.action",
    ),
]


@hookimpl
def hookgw_event_kinds() -> list[EventKind]:
    """Return the kinds."""
    return KINDS
