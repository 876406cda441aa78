"""What Meta reports, as events of hookgw. No I/O.

Meta signs what it reports, but passes on what people wrote, and adds types and fields now and then. So every
field is read through a function that checks its type. Fields that hookgw does not know go along as they are,
in ``meta``; all else that it does not know is a NETWORK_EVENT.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from hookgw import NewEvent, event_id_of
from hookgw.connectors import (
    MediaUrl,
    NetworkEvents,
    as_written,
    degrees,
    found_at,
    items,
    mapping,
    message_data,
    network_event,
    number,
    one_line,
    raw_at,
    raw_items,
    seconds,
    text,
    texts,
)
from hookgw.records.chats import USER_ID

from .errors import described
from .options import PLUGIN
from .webhooks import Change

SOURCE = "whatsapp_cloud"

_WA_ID = re.compile(r"\+?([0-9]{1,20})")
_GROUP_ID = re.compile(r"[A-Za-z0-9+/=_.:-]{1,256}")
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,40}")
_MEDIA_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_STATUSES = {
    "sent": "SERVER_ACK",
    "delivered": "DELIVERY_ACK",
    "read": "READ",
    "played": "PLAYED",
    "deleted": "DELETED",
    "failed": "ERROR",
}


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What the translation has to know.

    Attributes:
        media_url: makes links to files.
        is_received: whether a message id is one that somebody sent to the number.
        has_kind: whether hookgw has a kind: the plugin that adds it may be switched off.
    """

    media_url: MediaUrl
    is_received: Callable[[str], bool]
    has_kind: Callable[[str], bool]


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """An event, and what the connector has to know of it.

    Attributes:
        event: the event.
        chat: the JID of the chat.
        message_id: of a message that somebody sent to the number; empty for all others.
        media_id: of the file in the message; empty for none.
    """

    event: NewEvent
    chat: str = ""
    message_id: str = ""
    media_id: str = ""


def translate(change: Change, known: Knowledge) -> Iterator[Received]:
    """Return the events of a change, in order. What hookgw has no kind for is NETWORK_EVENT, byte for byte.

    That is a field, a name in the value of a known field, or an item of a known list. ``name`` is Meta's: of
    the field, in the value, or of the list.
    """
    readers, is_empty = _READERS.get(change.field), True
    for name, read in (readers or {}).items():
        listed, raws = change.value.get(name), None
        if not isinstance(listed, (list, NetworkEvents)):
            continue
        is_empty = False
        for place, item in enumerate(listed):
            found = list(read(mapping(item), change, known))
            if found and all(known.has_kind(one.event.kind) for one in found):
                yield from found
            else:
                if raws is None:
                    raws = raw_items(raw_at(change.raw()[0], name))
                value = as_written(raws[place] if place < len(raws) else b"", item)
                chat = group_jid(mapping(item).get("group_id"))
                yield _unknown(change, name, value, chat=chat)
    for name, value in change.value.items() if readers is not None else ():
        if name in _ABOUT or (name in (readers or {}) and isinstance(value, (list, NetworkEvents))):
            continue
        is_empty, (raw, time) = False, change.raw()
        yield _unknown(change, text(name), raw_at(raw, name), time)
    if is_empty and change.field:
        raw, time = change.raw()
        yield _unknown(change, change.field, raw, time)


def _unknown(change: Change, name: str, value: bytes, *ids: str, chat: str = "") -> Received:
    found = hashlib.sha256(value).hexdigest()
    return Received(event=network_event(PLUGIN, name, value, *ids, found, sender=change.account), chat=chat)


def jid_of(wa_id: Any, user_id: Any = None) -> str:
    """Return a person's JID: by the phone number or else, if that is hidden, by the user's id.

    As WhatsApp gateways do, ``@lid`` marks an id that is no phone number. Empty if there is neither.
    """
    if found := _WA_ID.fullmatch(text(wa_id)):
        return f"{found[1]}@s.whatsapp.net"
    return f"{user_id}@lid" if USER_ID.fullmatch(text(user_id)) else ""


def group_jid(group_id: Any) -> str:
    """Return a group's JID; empty if it is no id."""
    return f"{group_id}@g.us" if _GROUP_ID.fullmatch(text(group_id)) else ""


def _message(message: dict[str, Any], change: Change, known: Knowledge) -> Iterator[Received]:
    id_, sender = text(message.get("id")), change.account
    is_echo = change.field == _ECHOES
    # Of messages that were sent from the phone, the chat is the recipient.
    key, contact = _key(message, change.value, "to" if is_echo else "from")
    if not id_ or not key["remoteJid"]:
        return
    key |= {"fromMe": is_echo, "id": id_}
    person = key.get("participant") or key["remoteJid"]
    if "participant" in key and is_echo:
        key["participant"] = sender
    kind, event_id = "MESSAGES_UPSERT", event_id_of("MESSAGES_UPSERT", id_)
    time = message.get("timestamp")
    changed = mapping(message.get(text(message.get("type"))))
    original = text(changed.get("original_message_id"))
    if message.get("type") == "revoke" and original:
        by = sender if is_echo else person
        gone = {**key, "id": original, "status": "DELETED", "deletedBy": by}
        gone["messageTimestamp"] = seconds(time)
        event_id = event_id_of("MESSAGES_DELETE", id_)
        event = NewEvent(kind="MESSAGES_DELETE", data=gone, event_id=event_id, sender=sender)
        yield Received(event=event, chat=key["remoteJid"])
        return
    if message.get("type") == "edit" and original:
        kind, event_id, key["id"] = "MESSAGES_EDITED", event_id_of("MESSAGES_EDITED", id_), original
        message = mapping(changed.get("message"))
    name, content = _content(message, key["remoteJid"], known)
    data = message_data(
        key,
        (name, {name: content}),
        seconds(time),
        push_name="" if is_echo else text(found_at(contact, "profile", "name")),
        context=_context(message),
        status="SERVER_ACK" if is_echo else "",
        source=SOURCE,
    )
    if errors := [described(error) for error in items(message.get("errors"))]:
        (content if isinstance(content, dict) else data)["errors"] = errors
    _add_unread(data, message, {*_READ, text(message.get("type"))}, contact)
    yield Received(
        event=NewEvent(kind=kind, data=data, event_id=event_id, sender=sender),
        chat=key["remoteJid"],
        message_id=id_ if kind == "MESSAGES_UPSERT" and not is_echo else "",
        # The message that an edit changes had the file.
        media_id="" if kind == "MESSAGES_EDITED" else text(mapping(content).get("mediaId")),
    )


def _key(
    message: Mapping[str, Any], value: Mapping[str, Any], who: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return who a message is from, or for, as the start of its key, and the contact; empty for nobody."""
    wa_id, user_id = message.get(who), message.get(f"{who}_user_id") or message.get(f"{who}_parent_user_id")
    contact = _contact(value, wa_id, user_id)
    # Of somebody whose id has changed, Meta may say the new one alone.
    system = mapping(message.get("system"))
    wa_id = wa_id or contact.get("wa_id") or system.get("wa_id")
    user_id = user_id or contact.get("user_id") or system.get("user_id")
    person, group = jid_of(wa_id, user_id), group_jid(message.get("group_id"))
    key = {"remoteJid": group or person}
    if group:
        key["participant"] = person
    elif (other := jid_of(None, user_id)) and other != person:
        key["remoteJidAlt"] = other
    return key, contact


def _contact(value: Mapping[str, Any], wa_id: Any, user_id: Any) -> dict[str, Any]:
    contacts = items(value.get("contacts"))
    for contact in contacts:
        if (wa_id and contact.get("wa_id") == wa_id) or (user_id and contact.get("user_id") == user_id):
            return contact
    # The sender of system messages may have changed the number.
    return contacts[0] if len(contacts) == 1 else {}


def _add_unread(
    data: dict[str, Any], said: Mapping[str, Any], read: Collection[str], contact: Mapping[str, Any]
) -> None:
    """Add a person's username, and all fields that hookgw does not read, as Meta has them."""
    if username := text(mapping(contact.get("profile")).get("username")) or text(contact.get("username")):
        data["username"] = username
    rest = _without(said, read)
    if about := _without(contact, _READ_OF_CONTACT):
        rest["contact"] = about
    if rest:
        data["meta"] = rest


def _without(said: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in read}


def _content(message: Mapping[str, Any], chat: str, known: Knowledge) -> tuple[str, Any]:
    """Return the name and the value of a message's content, in the words of WhatsApp gateways."""
    kind = text(message.get("type"))
    content = mapping(message.get(kind))
    if kind == "text":
        return "conversation", text(content.get("body"))
    if kind in ("image", "video", "audio", "voice", "document", "sticker"):
        return _file(kind, content, known.media_url)
    if kind == "location":
        return "locationMessage", _location(content)
    if kind == "contacts":
        cards = [_card(card) for card in items(message.get("contacts"))]
        return (
            ("contactMessage", cards[0]) if len(cards) == 1 else ("contactsArrayMessage", {"contacts": cards})
        )
    if kind == "reaction":
        id_ = text(content.get("message_id"))
        # Meta does not say whose message it was. If it is not known, it was most likely the business's.
        reacted = {"remoteJid": chat, "fromMe": not known.is_received(id_), "id": id_}
        return "reactionMessage", {"key": reacted, "text": text(content.get("emoji"))}
    if kind == "interactive":
        return _interactive(content)
    if kind == "button":
        chosen = {"selectedId": content.get("payload"), "selectedDisplayText": content.get("text")}
        return "templateButtonReplyMessage", _without(content, {"payload", "text"}) | texts(chosen)
    return _other(kind, message)


def _file(kind: str, content: Mapping[str, Any], media_url: MediaUrl) -> tuple[str, dict[str, Any]]:
    mimetype = text(content.get("mime_type")) or "application/octet-stream"
    file_name = text(content.get("filename"))
    file: dict[str, Any] = {}
    if id_ := _media_id(content):
        file = {"url": media_url(id_, mimetype=mimetype, file_name=file_name), "mediaId": id_}
    file["mimetype"] = mimetype
    shown = {"caption": content.get("caption"), "fileSha256": content.get("sha256"), "fileName": file_name}
    file.update(_without(content, _READ_OF_FILE) | texts(shown))
    if kind in ("audio", "voice"):
        return "audioMessage", {**file, "ptt": kind == "voice" or content.get("voice") is True}
    if kind == "sticker":
        return "stickerMessage", {**file, "isAnimated": content.get("animated") is True}
    if kind == "document" and file_name:
        file["title"] = file_name
    return f"{kind}Message", file


def _location(content: Mapping[str, Any]) -> dict[str, Any]:
    place: dict[str, Any] = {}
    for name, source in (("degreesLatitude", "latitude"), ("degreesLongitude", "longitude")):
        if (found := degrees(content.get(source), 360)) is not None:
            place[name] = found
    said = {name: content.get(name) for name in ("name", "address", "url")}
    return {**_without(content, {"latitude", "longitude", *said}), **place, **texts(said)}


def _card(card: Mapping[str, Any]) -> dict[str, Any]:
    names, lines = mapping(card.get("name")), []
    shown = text(names.get("formatted_name")) or text(names.get("first_name"))
    for phone in items(card.get("phones")):
        waid = text(phone.get("wa_id"))
        lines.append(f"TEL{f';waid={one_line(waid)}' if waid else ''}:{one_line(phone.get('phone'))}")
    lines += [f"EMAIL:{one_line(email.get('email'))}" for email in items(card.get("emails"))]
    lines += [f"URL:{one_line(url.get('url'))}" for url in items(card.get("urls"))]
    if company := one_line(mapping(card.get("org")).get("company")):
        lines.append(f"ORG:{company}")
    vcard = "\n".join(["BEGIN:VCARD", "VERSION:3.0", f"FN:{one_line(shown)}", *lines, "END:VCARD"])
    # Addresses and birthdays have no line of their own.
    return {"displayName": shown, "vcard": text(card.get("vcard")) or vcard, "contact": dict(card)}


def _interactive(content: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    kind = text(content.get("type"))
    reply = mapping(content.get(kind))
    if kind == "button_reply":
        chosen = {"selectedButtonId": reply.get("id"), "selectedDisplayText": reply.get("title")}
        return "buttonsResponseMessage", _without(reply, {"id", "title"}) | texts(chosen)
    if kind == "list_reply":
        shown = texts({name: reply.get(name) for name in ("title", "description")})
        return "listResponseMessage", {
            **_without(reply, {"id", "title", "description"}),
            **shown,
            "singleSelectReply": texts({"selectedRowId": reply.get("id")}),
        }
    if kind == "nfm_reply":
        flow = texts({"name": reply.get("name"), "paramsJson": reply.get("response_json")})
        return "interactiveResponseMessage", {
            **_without(reply, {"name", "response_json", "body"}),
            "body": texts({"text": reply.get("body")}),
            "nativeFlowResponseMessage": flow,
        }
    return "interactiveResponseMessage", dict(content)


def _other(kind: str, message: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the content of an order, and of all other types, also future ones, much as Meta has it."""
    content = dict(mapping(message.get(kind)))
    if kind == "order":
        products = items(content.pop("product_items", None))
        order = texts({"catalogId": content.get("catalog_id"), "message": content.get("text")})
        rest = _without(content, {"catalog_id", "text"})
        return "orderMessage", {**rest, **order, "itemCount": len(products), "products": products}
    if kind == "system" and (identity := mapping(message.get("identity"))):
        content["identity"] = identity
    if not _TYPE.fullmatch(kind):
        return "unknownMessage", content
    return f"{_camel(kind)}Message", content


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return f"{first}{''.join(map(str.capitalize, rest))}"


def _context(message: Mapping[str, Any]) -> dict[str, Any]:
    given, context = mapping(message.get("context")), dict[str, Any]()
    if answered := text(given.get("id")):
        context["stanzaId"] = answered
        if author := jid_of(given.get("from"), given.get("from_user_id")):
            context["participant"] = author
    if given.get("forwarded") is True or given.get("frequently_forwarded") is True:
        context["isForwarded"] = True
    if given.get("frequently_forwarded") is True:
        context["isFrequentlyForwarded"] = True
    if product := mapping(given.get("referred_product")):
        context["referredProduct"] = product
    context |= _without(given, {"id", *_READ, "forwarded", "frequently_forwarded", "referred_product"})
    if advertisement := mapping(message.get("referral")):
        names = {
            "headline": "title",
            "body": "body",
            "media_type": "mediaType",
            "image_url": "imageUrl",
            "video_url": "mediaUrl",
            "thumbnail_url": "thumbnailUrl",
            "source_type": "sourceType",
            "source_id": "sourceId",
            "source_url": "sourceUrl",
            "ctwa_clid": "ctwaClid",
        }
        context["externalAdReply"] = {
            **{_camel(name): value for name, value in _without(advertisement, names).items()},
            **texts({name: advertisement.get(source) for source, name in names.items()}),
        }
    return context


def _status(status: Mapping[str, Any], change: Change, known: Knowledge) -> Iterator[Received]:  # noqa: ARG001
    id_, word = text(status.get("id")), _STATUSES.get(text(status.get("status")))
    is_group = status.get("recipient_type") == "group"
    wa_id, user_id = status.get("recipient_id"), status.get("recipient_user_id")
    person = jid_of(wa_id, user_id)
    chat = group_jid(wa_id) if is_group else person
    # A payment that failed is no message that failed.
    is_payment = status.get("type") == "payment" or "payment" in status
    if not id_ or not chat or word is None or is_payment:
        return
    data: dict[str, Any] = {"keyId": id_, "remoteJid": chat, "fromMe": True, "status": word}
    if (other := jid_of(None, user_id)) and other != person and not is_group:
        data["remoteJidAlt"] = other
    member = ""
    if is_group:
        wa_id, user_id = (status.get(f"recipient_participant_{name}") for name in ("id", "user_id"))
        member = jid_of(wa_id, user_id)
    if member:
        data["participant"] = member
    data["messageTimestamp"] = seconds(status.get("timestamp"))
    if errors := [described(error) for error in items(status.get("errors"))]:
        data["error"], data["errors"] = errors[0], errors
    for name in ("pricing", "conversation"):
        if found := mapping(status.get(name)):
            data[name] = found
    # What hookgw has sent with the message: the key of the send.
    if key := text(status.get("biz_opaque_callback_data")):
        data["idempotencyKey"] = key
    _add_unread(data, status, _READ_OF_STATUS, _contact(change.value, wa_id, user_id))
    # In a group, each member has each status.
    event_id = event_id_of("MESSAGES_UPDATE", id_, word, *filter(None, [member]))
    event = NewEvent(kind="MESSAGES_UPDATE", data=data, event_id=event_id, sender=change.account)
    yield Received(event=event, chat=chat)


def _call(call: Mapping[str, Any], change: Change, known: Knowledge) -> Iterator[Received]:  # noqa: ARG001
    id_, happened = text(call.get("id")), text(call.get("event"))
    by_business = call.get("direction") == "BUSINESS_INITIATED"
    who = ("to", "to_user_id") if by_business else ("from", "from_user_id")
    chat, status = jid_of(*map(call.get, who)), {"connect": "offer", "terminate": "terminate"}.get(happened)
    if not id_ or not chat or status is None:
        return
    data: dict[str, Any] = {
        "id": id_,
        "chatId": chat,
        "from": change.account if by_business else chat,
        "date": datetime.fromtimestamp(seconds(call.get("timestamp")), UTC).isoformat(),
        "status": status,
        "isVideo": False,
        "isGroup": False,
    }
    _add_unread(data, call, _READ_OF_CALL, {})
    event = NewEvent(
        kind="CALL", data=[data], event_id=event_id_of("CALL", id_, happened), sender=change.account
    )
    yield Received(event=event, chat=chat)


def _members(group: Mapping[str, Any], change: Change, known: Knowledge) -> Iterator[Received]:  # noqa: ARG001
    chat = group_jid(group.get("group_id"))
    for action, name in (("add", "added_participants"), ("remove", "removed_participants")):
        # "input" is the number or user id by which the business named them, and may be all that Meta says.
        people = [
            jid_of(one.get("wa_id"), one.get("user_id")) or jid_of(one.get("input"), one.get("input"))
            for one in items(group.get(name))
        ]
        people = [person for person in people if person]
        if not chat or not people:
            continue
        data: dict[str, Any] = {"id": chat, "participants": people, "action": action}
        _add_unread(data, group, _READ_OF_GROUP, {})
        when = str(number(group.get("timestamp")) or 0)
        event_id = event_id_of("GROUP_PARTICIPANTS_UPDATE", chat, action, when, *people)
        sender = change.account
        event = NewEvent(kind="GROUP_PARTICIPANTS_UPDATE", data=data, event_id=event_id, sender=sender)
        yield Received(event=event, chat=chat)


def _contact_of_phone(entry: Mapping[str, Any], change: Change, known: Knowledge) -> Iterator[Received]:  # noqa: ARG001
    """Return the event of a contact that somebody added or changed in the WhatsApp Business app."""
    contact = mapping(entry.get("contact"))
    chat, name = jid_of(contact.get("phone_number")), text(contact.get("full_name"))
    if entry.get("type") != "contact" or entry.get("action") != "add" or not chat:
        return
    when = str(number(mapping(entry.get("metadata")).get("timestamp")) or 0)
    data = [{"remoteJid": chat, "pushName": name or text(contact.get("first_name"))}]
    event_id = event_id_of("CONTACTS_UPSERT", chat, when)
    event = NewEvent(kind="CONTACTS_UPSERT", data=data, event_id=event_id, sender=change.account)
    yield Received(event=event, chat=chat)


def _media_id(content: Mapping[str, Any]) -> str:
    found = _MEDIA_ID.fullmatch(text(content.get("id")))
    return found[0] if found else ""


_ECHOES = "smb_message_echoes"
# The names that are read beside the lists of a change, and in their items. All others are passed on.
_ABOUT = frozenset({"messaging_product", "metadata", "contacts"})
_READ = frozenset(
    {
        *("id", "from", "from_user_id", "to", "to_user_id", "group_id", "type", "timestamp", "context"),
        *("referral", "errors"),
    }
)
_READ_OF_FILE = frozenset({"id", "mime_type", "filename", "caption", "sha256", "voice", "animated", "url"})
_READ_OF_CONTACT = frozenset({"profile", "username", "wa_id", "user_id"})
_READ_OF_STATUS = frozenset(
    {
        *("id", "status", "recipient_type", "recipient_id", "recipient_user_id", "timestamp", "errors"),
        *("recipient_participant_id", "recipient_participant_user_id", "biz_opaque_callback_data"),
        *("pricing", "conversation"),
    }
)
_READ_OF_CALL = frozenset(
    {*("id", "event", "direction", "from", "from_user_id", "to", "to_user_id", "timestamp")}
)
_READ_OF_GROUP = frozenset({"group_id", "timestamp", "added_participants", "removed_participants"})
# By the field of a change: the lists in it, in their order, and what reads an item of each.
_READERS: dict[str, dict[str, Callable[[dict[str, Any], Change, Knowledge], Iterator[Received]]]] = {
    "messages": {"messages": _message, "statuses": _status},
    _ECHOES: {"message_echoes": _message},
    "calls": {"calls": _call},
    "group_participants_update": {"groups": _members},
    "smb_app_state_sync": {"state_sync": _contact_of_phone},
}
