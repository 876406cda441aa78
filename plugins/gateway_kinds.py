"""Adds the event kinds of WhatsApp-style gateways that hookgw itself does not raise.

An example of ``hookgw_event_kinds``. Their payloads differ from gateway to gateway, so the schema is
loose: an object, a list of objects, or nothing.
"""

from __future__ import annotations

from typing import Any

from hookgw import EventKind, hookimpl

LOOSE = {"type": ["object", "array", "null"]}
"""The schema of every kind here."""

_CHAT = "5511988887777@s.whatsapp.net"
_GROUP = "120363040000000000@g.us"
_KEY = {"remoteJid": _CHAT, "fromMe": False, "id": "3EB0C0BD05DCA97A7C09CB"}
_MESSAGE = {"key": _KEY, "message": {"conversation": "hello"}, "messageTimestamp": 1773027345}


def _kind(
    name: str, meaning: str, example: Any, *, dotted: str = "", aliases: tuple[str, ...] = ()
) -> EventKind:
    return EventKind(
        name=name, meaning=meaning, schema=LOOSE, example=example, dotted=dotted, aliases=aliases
    )


@hookimpl
def hookgw_event_kinds() -> list[EventKind]:
    """The kinds, by what they are about."""
    return [*_of_instances(), *_of_messages(), *_of_people(), *_of_groups(), *_of_the_rest()]


def _of_instances() -> list[EventKind]:
    return [
        _kind("APPLICATION_STARTUP", "The gateway started.", {"version": "2.3.0"}),
        _kind("INSTANCE_CREATE", "An instance was created.", {"instanceName": "shop"}),
        _kind("INSTANCE_DELETE", "An instance was deleted.", {"instanceName": "shop"}),
        _kind("REMOVE_INSTANCE", "An instance was taken out of the gateway's memory.", None),
        _kind("LOGOUT_INSTANCE", "The account of an instance was logged out.", None),
        _kind(
            "STATUS_INSTANCE", "The status of an instance changed.", {"instance": "shop", "status": "closed"}
        ),
    ]


def _of_messages() -> list[EventKind]:
    return [
        _kind("MESSAGES_SET", "The messages that were there when the account was connected.", [_MESSAGE]),
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
            "A part of the account's history was loaded.",
            {"messages": [_MESSAGE], "isLatest": True},
            dotted="messaging-history.set",
        ),
    ]


def _of_people() -> list[EventKind]:
    contact = {"remoteJid": _CHAT, "pushName": "Ana"}
    chat = {"remoteJid": _CHAT, "unreadMessages": 1}
    presence = {"id": _CHAT, "presences": {_CHAT: {"lastKnownPresence": "composing"}}}
    return [
        _kind("CONTACTS_SET", "The contacts that were there when the account was connected.", [contact]),
        _kind("CONTACTS_UPSERT", "Contacts were added, or came with more about them.", [contact]),
        _kind("CONTACTS_UPDATE", "Contacts changed their name or picture.", [contact]),
        _kind("PRESENCE_UPDATE", "Somebody is online, offline, typing or recording.", presence),
        _kind("CHATS_SET", "The chats that were there when the account was connected.", [chat]),
        _kind("CHATS_UPSERT", "Chats were added.", [chat]),
        _kind("CHATS_UPDATE", "Chats changed, for example their unread messages.", [chat]),
        _kind("CHATS_DELETE", "Chats were deleted.", [_CHAT]),
    ]


def _of_groups() -> list[EventKind]:
    group = {"id": _GROUP, "subject": "Neighbours"}
    members = {"id": _GROUP, "participants": [_CHAT], "action": "add"}
    return [
        _kind("GROUPS_UPSERT", "The account joined or made groups.", [group]),
        _kind(
            "GROUPS_UPDATE", "Groups changed their subject or settings.", [group], aliases=("GROUP_UPDATE",)
        ),
        _kind(
            "GROUP_PARTICIPANTS_UPDATE",
            "Members joined or left a group, or their rights changed.",
            members,
            dotted="group-participants.update",
        ),
    ]


def _of_the_rest() -> list[EventKind]:
    return [
        _kind("LABELS_EDIT", "A label was made, changed or deleted.", {"id": "1", "name": "paid"}),
        _kind(
            "LABELS_ASSOCIATION", "A label was put on a chat or taken off.", {"labelId": "1", "chatId": _CHAT}
        ),
        _kind("CALL", "A call came in, was answered, or ended.", [{"from": _CHAT, "status": "offer"}]),
        _kind("TYPEBOT_START", "A conversation with a bot began.", {"remoteJid": _CHAT}),
        _kind(
            "TYPEBOT_CHANGE_STATUS",
            "A conversation with a bot was opened, paused or closed.",
            {"remoteJid": _CHAT, "status": "paused"},
        ),
    ]
