"""What Matrix reports, as events of hookgw. No I/O.

A homeserver passes on what members of rooms wrote, and checks little of it: any field may be missing or have
another type. So every field is read through a function that checks its type, and an event without the fields
that it needs is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from hookgw import NewEvent, event_id_of
from hookgw.connectors import (
    MediaUrl,
    each,
    filled,
    found_at,
    mapping,
    message_data,
    network_event,
    number,
    strings,
    text,
)

from .content import POLLS, context_of, has_more, message_of, poll_of

SOURCE = "matrix"
TRANSACTION_PREFIX = "hookgw-"
"""Transaction ids of what hookgw sends begin so."""
ENCRYPTED = "End-to-end encrypted rooms are not supported: hookgw cannot read this message."

VOTES = ("m.poll.response", "org.matrix.msc3381.poll.response")
_ENCRYPTED_EVENT = "m.room.encrypted"
_MESSAGES = ("m.room.message", "m.sticker", "m.reaction", _ENCRYPTED_EVENT, *POLLS, *VOTES)
_CALLS = {
    "m.call.invite": "offer",
    "m.call.answer": "accept",
    "m.call.reject": "reject",
    "m.call.hangup": "terminate",
}
_GROUP_FIELDS = {"m.room.name": ("name", "subject"), "m.room.topic": ("topic", "desc")}
_PRESENCES = {"online": "available", "unavailable": "unavailable", "offline": "unavailable"}
LONGEST_ID = 255
"""Characters of an id. Members of a room may refer to longer ones, which no event has."""
_LARGEST_TIME = 253_402_300_799_000  # the last millisecond of the year 9999


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What the translation has to know of the account.

    Attributes:
        user: its id.
        name_in: returns the name of a user in a room, if it is known.
        author_of: returns who sent an event, if it is known.
        options_of: returns the options of a poll by their ids, if it is known.
        media_url: makes links to files.
        has_kind: whether hookgw has a kind: the plugin that adds it may be switched off.
    """

    user: str
    name_in: Callable[[str, str], str | None]
    author_of: Callable[[str], str | None]
    options_of: Callable[[str], dict[str, str] | None]
    media_url: MediaUrl
    has_kind: Callable[[str], bool]


def translate(event: Any, room: str, account: Account) -> NewEvent | None:
    """Return the event of hookgw for an event of a room's timeline; ``None`` if it raises none.

    What hookgw has no kind for becomes NETWORK_EVENT.

    What hookgw itself sent raises none here: the gateway has raised SEND_MESSAGE (or MESSAGES_EDITED, or
    MESSAGES_DELETE) for it.
    """
    event = mapping(event)
    sender, id_, kind = text(event.get("sender")), text(event.get("event_id")), text(event.get("type"))
    if not sender or not id_ or is_own_echo(event):
        return None
    content = mapping(event.get("content"))
    new = None
    if kind in _MESSAGES:
        new = _message(event, kind, room, content, account)
    elif kind in _CALLS:
        new = _call(event, kind, room, sender, content)
    elif kind == "m.room.redaction":
        new = _redaction(event, room, sender, content, account)
    elif kind == "m.room.member" and isinstance(event.get("state_key"), str):
        new = _membership(event, room, sender, content, account)
        if new is None and event["state_key"] == account.user:
            return None  # see invitation; or the account's own name
    elif event.get("state_key") == "":
        new = _group(event, kind, room, sender, content, account)
    if new is not None and account.has_kind(new.kind):
        return new
    # Without a content, a message was deleted meanwhile, which has its own event. A state was taken back: a
    # room left its space, a widget was removed, somebody left a call.
    is_gone = not content and not isinstance(event.get("state_key"), str)
    if new is None and (is_gone or found_at(event, "unsigned", "redacted_because")):
        return None
    return network_event(SOURCE, kind, msgspec.json.encode({**event, "room_id": room}), id_)


def is_own_echo(event: Mapping[str, Any]) -> bool:
    """Return whether hookgw sent an event: homeservers show its transaction id to its own device only."""
    return text(found_at(event, "unsigned", "transaction_id")).startswith(TRANSACTION_PREFIX)


def replacement(event: Mapping[str, Any]) -> str:
    """Return the room that replaces another one by a tombstone; empty for any other event."""
    # Without a state_key, it is a message that anybody may write.
    if event.get("type") != "m.room.tombstone" or event.get("state_key") != "":
        return ""
    new = text(found_at(event, "content", "replacement_room"))
    return new if new.startswith("!") and len(new) <= LONGEST_ID else ""


def _call(
    event: dict[str, Any], kind: str, room: str, sender: str, content: dict[str, Any]
) -> NewEvent | None:
    call_id = text(content.get("call_id"))
    if not call_id:
        return None
    data = {
        "id": call_id,
        "chatId": room,
        "from": sender,
        "status": _CALLS[kind],
        "isVideo": "m=video" in text(found_at(content, "offer", "sdp")),
        "date": _time_of(event),
        "content": content,
    }
    return NewEvent(kind="CALL", data=[data], event_id=event_id_of(text(event["event_id"])))


def _redaction(
    event: dict[str, Any], room: str, sender: str, content: dict[str, Any], account: Account
) -> NewEvent | None:
    target = text(event.get("redacts")) or text(content.get("redacts"))
    if not target:
        return None
    # Matrix does not say whose message it was. If it is not known, it was most likely the sender's own.
    author = account.author_of(target) or sender
    key = {"remoteJid": room, "fromMe": author == account.user, "id": target, "participant": author}
    data = {**key, "status": "DELETED", "deletedBy": sender, "messageTimestamp": _time_of(event)}
    # If hookgw deleted it, MESSAGES_DELETE has this id already.
    own = ("MESSAGES_DELETE", room, target) if sender == account.user else (text(event["event_id"]),)
    data |= filled(reason=text(content.get("reason")))
    return NewEvent(kind="MESSAGES_DELETE", data=data, event_id=event_id_of(*own))


def _group(
    event: dict[str, Any], kind: str, room: str, author: str, content: dict[str, Any], account: Account
) -> NewEvent | None:
    """Return the event for a room's new name, topic, picture, or for the room that replaces it."""
    changed: dict[str, Any] = {}
    if new := replacement(event):
        changed = {"replacedBy": new, **filled(reason=text(content.get("body")))}
    elif kind in _GROUP_FIELDS:
        name, field = _GROUP_FIELDS[kind]
        changed = {field: text(content.get(name))}
    elif kind == "m.room.avatar":
        url = text(content.get("url"))
        changed = {"pictureUrl": account.media_url(url) if url else None}
    else:
        return None
    data = [{"id": room, **changed, "author": author}]
    return NewEvent(kind="GROUPS_UPDATE", data=data, event_id=event_id_of(text(event["event_id"])))


def _vote(
    room: str, content: Mapping[str, Any], target: str, account: Account
) -> tuple[str, dict[str, Any]] | None:
    chosen = content.get("m.selections")
    if chosen is None:
        chosen = found_at(content, "org.matrix.msc3381.poll.response", "answers")
    if not target or not isinstance(chosen, list):
        return None
    names = account.options_of(target) or {}
    # Without any, the vote was taken back.
    selected = [names.get(id_) or id_ for id_ in strings(chosen)]
    key = _key_of(room, target, account)
    vote = {"pollCreationMessageKey": key, "vote": {"selectedOptions": selected}}
    return "pollUpdateMessage", {"pollUpdateMessage": vote}


def _key_of(room: str, id_: str, account: Account) -> dict[str, Any]:
    """Return the key of an event that another one is about."""
    author = account.author_of(id_)
    key: dict[str, Any] = {"remoteJid": room, "fromMe": author == account.user, "id": id_}
    return key if author is None else {**key, "participant": author}


def _message(
    event: dict[str, Any], kind: str, room: str, content: dict[str, Any], account: Account
) -> NewEvent | None:
    id_, sender = text(event["event_id"]), text(event["sender"])
    is_own = sender == account.user
    key: dict[str, Any] = {"remoteJid": room, "fromMe": is_own, "id": id_, "participant": sender}
    relation = mapping(content.get("m.relates_to"))
    relation_type, target = text(relation.get("rel_type")), text(relation.get("event_id"))
    event_kind, context, more = "MESSAGES_UPSERT", None, dict[str, Any]()
    if kind == _ENCRYPTED_EVENT:
        # As in payloads of WhatsApp gateways, where a message that cannot be decrypted is such a stub.
        body: tuple[str, dict[str, Any]] | None = ("encryptedMessage", {})
        more = {"messageStubType": "CIPHERTEXT", "messageStubParameters": [ENCRYPTED]}
    else:
        # Anybody in the room can claim to replace what somebody else wrote: that is no edit.
        if relation_type == "m.replace" and target and account.author_of(target) in (None, sender):
            event_kind = "MESSAGES_EDITED"
            key["id"] = target
            content = mapping(content.get("m.new_content")) or content
        body, context = _body_of(kind, room, content, relation, account), context_of(content, relation)
        if kind == "m.room.message" and has_more(content):
            more = {"content": content}
    if body is None:
        return None
    data = message_data(
        key,
        body,
        _time_of(event),
        push_name=account.name_in(room, sender) or "",
        context=context,
        status="SERVER_ACK" if is_own else "",
        source=SOURCE,
    )
    # Without a time: the sender's homeserver made it up. messageTimestamp shows it.
    # If hookgw sent it, SEND_MESSAGE has this id already: the homeserver need not say who sent it.
    parts = ("SEND_MESSAGE", room, id_) if is_own and event_kind == "MESSAGES_UPSERT" else (id_,)
    return NewEvent(kind=event_kind, data=data | more, event_id=event_id_of(*parts))


def _body_of(
    kind: str, room: str, content: dict[str, Any], relation: dict[str, Any], account: Account
) -> tuple[str, dict[str, Any]] | None:
    target = text(relation.get("event_id"))
    if kind == "m.reaction":
        if relation.get("rel_type") != "m.annotation" or not target:
            return None
        reaction = {"key": _key_of(room, target, account), "text": text(relation.get("key"))}
        return "reactionMessage", {"reactionMessage": reaction}
    if kind in VOTES:
        return _vote(room, content, target, account)
    if kind in POLLS:
        return poll_of(content)
    return message_of("m.sticker" if kind == "m.sticker" else "", content, account.media_url)


def _membership(
    event: Mapping[str, Any], room: str, author: str, content: Mapping[str, Any], account: Account
) -> NewEvent | None:
    now = text(content.get("membership"))
    unsigned = mapping(event.get("unsigned"))
    before = text(mapping(unsigned.get("prev_content") or event.get("prev_content")).get("membership"))
    if now == before == "join" and event["state_key"] != account.user:
        url = text(content.get("avatar_url"))
        picture = account.media_url(url) if url else None
        name = text(content.get("displayname")) or event["state_key"]
        contact = {"id": event["state_key"], "remoteJid": event["state_key"], "pushName": name}
        return NewEvent(
            kind="CONTACTS_UPDATE",
            data=[{**contact, "profilePicUrl": picture, "groupJid": room}],
            event_id=event_id_of(text(event["event_id"])),
        )
    if now == before:
        return None
    action = {"join": "add", "leave": "remove", "ban": "remove", "invite": "invite", "knock": "knock"}.get(
        now
    )
    if action is None or (action == "remove" and before in ("leave", "ban")):
        return None
    if action == "invite" and event["state_key"] == account.user:
        return None  # see invitation
    data = {"id": room, "author": author, "participants": [event["state_key"]], "action": action}
    data |= filled(isBan=now == "ban", reason=text(content.get("reason")))
    return NewEvent(
        kind="GROUP_PARTICIPANTS_UPDATE", data=data, event_id=event_id_of(text(event["event_id"]))
    )


def receipts(content: Any, room: str, account: Account) -> Iterator[NewEvent]:
    for id_, user in read_by(content):
        author = account.author_of(id_)
        data = {
            "keyId": id_,
            "remoteJid": room,
            "fromMe": author == account.user,
            "participant": user,
            "status": "READ",
        }
        yield NewEvent(kind="MESSAGES_UPDATE", data=data, event_id=event_id_of("read", room, id_, user))


def read_by(content: Any) -> list[tuple[str, str]]:
    """Return the events and users of the receipts in the content of an ``m.receipt``."""
    return [
        (id_, user)
        for id_, by_type in mapping(content).items()
        if len(id_) <= LONGEST_ID
        for receipt in ("m.read", "m.read.private")
        for user in mapping(mapping(by_type).get(receipt))
    ]


def typing(room: str, before: Iterable[str], now: Iterable[str], account: Account) -> NewEvent | None:
    """Return the event for a change of who types in a room."""
    typing_before, typing_now = set(before) - {account.user}, set(now) - {account.user}
    changed = sorted(typing_before ^ typing_now)
    if not changed:
        return None
    presences = {
        user: {"lastKnownPresence": "composing" if user in typing_now else "paused"} for user in changed
    }
    return NewEvent(kind="PRESENCE_UPDATE", data={"id": room, "presences": presences})


def presence(event: Any, account: Account, now: float) -> NewEvent | None:
    """Return the event for an ``m.presence``; ``now`` is in seconds since the epoch."""
    event = mapping(event)
    user, content = text(event.get("sender")), mapping(event.get("content"))
    known = _PRESENCES.get(text(content.get("presence")))
    if not user or user == account.user or known is None:
        return None
    shown: dict[str, Any] = {"lastKnownPresence": known}
    if status := text(content.get("status_msg")):
        shown["status"] = status
    if (ago := number(content.get("last_active_ago"))) is not None:
        shown["lastSeen"] = max(0, int(now - ago / 1000))
    return NewEvent(kind="PRESENCE_UPDATE", data={"id": user, "presences": {user: shown}})


def invitation(room: str, invited: Any, account: Account) -> NewEvent | None:
    """Return the event for a room in a sync's ``invite``."""
    for event in each(found_at(invited, "invite_state", "events")):
        if event.get("type") == "m.room.member" and event.get("state_key") == account.user:
            # Stripped events have no id. The same room may invite again after a refusal: no id of our own.
            data = {
                "id": room,
                "author": text(event.get("sender")),
                "participants": [account.user],
                "action": "invite",
                "isDirect": found_at(event, "content", "is_direct") is True,
            }
            return NewEvent(kind="GROUP_PARTICIPANTS_UPDATE", data=data)
    return None


def _time_of(event: Mapping[str, Any]) -> int:
    milliseconds = number(event.get("origin_server_ts")) or 0
    return min(milliseconds, _LARGEST_TIME) // 1000
