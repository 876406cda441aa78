"""What Telegram reports, as events of hookgw. No I/O.

The Bot API server is trusted, but people decide what is in their messages, new versions add fields, and
``base_url`` may lead anywhere. So every field is read through a function that checks its type, and an update
that hookgw has no kind for, or that lacks a field, is a NETWORK_EVENT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hookgw import NewEvent, event_id_of
from hookgw.connectors import (
    MediaUrl,
    as_written,
    filled,
    found_at,
    items,
    mapping,
    message_data,
    network_event,
    number,
    raw_at,
    seconds,
    text,
)

from .content import content_of
from .fields import identifier

SOURCE = "telegram"

ALLOWED_UPDATES = (
    *("message", "edited_message", "channel_post", "edited_channel_post"),
    *("business_connection", "business_message", "edited_business_message", "deleted_business_messages"),
    *("guest_message", "message_reaction", "message_reaction_count", "inline_query", "chosen_inline_result"),
    *("callback_query", "shipping_query", "pre_checkout_query", "purchased_paid_media", "poll"),
    *("poll_answer", "my_chat_member", "chat_member", "chat_join_request", "chat_boost"),
    *("removed_chat_boost", "managed_bot", "subscription", "stopped_message_generation"),
)
"""All kinds of updates that the Bot API 10.3 has. Some come only if they are asked for, and a server that is
older than a kind leaves it out."""

_STUBS = {
    "new_chat_members": "GROUP_PARTICIPANT_ADD",
    "left_chat_member": "GROUP_PARTICIPANT_REMOVE",
}
_BUSINESS_CONNECTION = re.compile(r"[A-Za-z0-9_-]{1,128}")
_MEMBERS = {"member", "administrator", "creator", "restricted"}
_PRIVATE = "private"


class Bot(msgspec.Struct, frozen=True, kw_only=True):
    """What the translation has to know of the bot.

    Attributes:
        id: its user id.
        media_url: makes links to files.
        has_done: returns whether hookgw itself did something lately: ``("sent", chat, id)``,
            ``("edited", chat, id, text)`` or ``("deleted", chat, id)``.
        now: seconds since the epoch.
        groups_ignore: whether only private chats raise events.
    """

    id: str
    media_url: MediaUrl
    has_done: Callable[..., bool]
    now: float
    groups_ignore: bool = False


def translate(update: Mapping[str, Any], bot: Bot) -> list[NewEvent] | None:
    """Return the events of an update, in order.

    The same update always has the same event ids, whether it comes by a poll or by a webhook.

    Returns:
        None at all, an empty list, for what hookgw itself has done or the settings leave out; ``None`` for an
        update that hookgw has no kind for, or cannot read. See :func:`unknown`.
    """
    update_id = str(number(update.get("update_id")) or 0)
    for name in ("message", "channel_post", "business_message"):
        if found := mapping(update.get(name)):
            return _message(found, bot, update_id)
    for name in ("edited_message", "edited_channel_post", "edited_business_message"):
        if found := mapping(update.get(name)):
            return _edited(found, bot, update_id)
    if found := mapping(update.get("deleted_business_messages")):
        return _deleted(found, bot)
    if found := mapping(update.get("message_reaction")):
        return _reaction(found, bot, update_id)
    if found := mapping(update.get("callback_query")):
        return _pressed_button(found, bot)
    for name in ("my_chat_member", "chat_member"):
        if found := mapping(update.get(name)):
            return _member(found, bot, update_id)
    return None


def unknown(update: Mapping[str, Any], bot: Bot, raw: bytes) -> list[NewEvent]:
    """Return the NETWORK_EVENTs for an update: one for each name in it.

    Args:
        update: decoded.
        bot: whose update it is.
        raw: the same, as Telegram wrote it; empty if that is not known.
    """
    update_id = str(number(update.get("update_id")) or 0)
    found = []
    for name, value in update.items():
        chat = mapping(found_at(value, "chat")) or mapping(found_at(value, "message", "chat"))
        if name == "update_id" or _is_ignored(chat, bot):
            continue
        written = as_written(raw_at(raw, name), value)
        found.append(network_event("telegram", text(name), written, bot.id, update_id))
    return found


def chat_of(chat: Mapping[str, Any], business_connection: Any = None) -> str:
    """Return what names a chat in payloads and in ``number``: its id.

    A chat of a business account that the bot is connected to has the id of the other person, as their chat
    with the bot itself, but its own messages. ``<chat>@<connection>`` keeps the two apart.
    """
    id_ = identifier(chat.get("id"))
    connection = text(business_connection)
    if id_ and _BUSINESS_CONNECTION.fullmatch(connection):
        return f"{id_}@{connection}"
    return id_


def data_of(message: Mapping[str, Any], bot: Bot) -> dict[str, Any] | None:
    """Return a message as in the data of MESSAGES_UPSERT and SEND_MESSAGE; ``None`` for none."""
    key = _key(message, bot)
    if key is None:
        return None
    content = content_of(message, bot.media_url)
    if content is None:
        return None
    return message_data(
        key,
        content,
        seconds(message.get("date")),
        push_name=text(found_at(message, "sender_chat", "title")) or _name(message.get("from")),
        context=_context(message, bot.media_url),
        status="SERVER_ACK" if key["fromMe"] else "",
        source=SOURCE,
    )


def _message(message: dict[str, Any], bot: Bot, update_id: str) -> list[NewEvent] | None:
    chat = mapping(message.get("chat"))
    if _is_ignored(chat, bot):
        return []
    key = _key(message, bot)
    if key is None:
        return None
    new_group = identifier(message.get("migrate_to_chat_id"))
    title = text(message.get("new_chat_title"))
    if new_group or title:
        group: dict[str, Any] = {"id": key["remoteJid"]}
        group |= {"migratedTo": new_group} if new_group else {"subject": title}
        return [_event("GROUPS_UPDATE", [group], bot, key["remoteJid"], update_id)]
    for field, stub in _STUBS.items():
        found = message.get(field)
        members = [_user(member) for member in (found if isinstance(found, list) else [found])]
        if any(members):
            data = message_data(key, ("groupStub", {}), seconds(message.get("date")), source=SOURCE)
            data |= {"messageStubType": stub, "messageStubParameters": list(filter(None, members))}
            return [_event("MESSAGES_UPSERT", data, bot, key["remoteJid"], key["id"])]
    is_by_bot = _user(message.get("sender_business_bot")) == bot.id
    if is_by_bot or bot.has_done("sent", key["remoteJid"], key["id"]):
        return []  # hookgw raised SEND_MESSAGE for it
    data_or_none = data_of(message, bot)
    if data_or_none is None:
        return None  # what a group or a chat says about itself
    return [_event("MESSAGES_UPSERT", data_or_none, bot, key["remoteJid"], key["id"])]


def _edited(message: dict[str, Any], bot: Bot, update_id: str) -> list[NewEvent] | None:
    if _is_ignored(mapping(message.get("chat")), bot):
        return []
    data = data_of(message, bot)
    if data is None:
        return None
    data["editTimestamp"] = seconds(message.get("edit_date"))
    key = data["key"]
    written = text(message.get("text")) or text(message.get("caption"))
    if bot.has_done("edited", key["remoteJid"], key["id"], written):
        return []  # hookgw raised MESSAGES_EDITED for it
    # With the update's id: a message can be edited several times within one second.
    return [_event("MESSAGES_EDITED", data, bot, key["remoteJid"], key["id"], update_id)]


def _deleted(deleted: dict[str, Any], bot: Bot) -> list[NewEvent] | None:
    chat = chat_of(mapping(deleted.get("chat")), deleted.get("business_connection_id"))
    found = deleted.get("message_ids")
    ids = [identifier(id_) for id_ in found] if isinstance(found, list) else []
    if not chat or not any(ids):
        return None
    return [
        # Telegram does not say who wrote them.
        _event(
            "MESSAGES_DELETE",
            {"remoteJid": chat, "fromMe": False, "id": id_, "status": "DELETED"},
            bot,
            chat,
            id_,
        )
        for id_ in ids
        # hookgw raised MESSAGES_DELETE for what it deleted.
        if id_ and not bot.has_done("deleted", chat, id_)
    ]


def _reaction(reaction: dict[str, Any], bot: Bot, update_id: str) -> list[NewEvent] | None:
    chat = mapping(reaction.get("chat"))
    remote_jid, target = chat_of(chat), identifier(reaction.get("message_id"))
    if _is_ignored(chat, bot):
        return []
    if not remote_jid or not target:
        return None
    before, now = _emoji(reaction.get("old_reaction")), _emoji(reaction.get("new_reaction"))
    # Telegram sends the whole list. The payload has room for one: the new one, or none if one was taken back.
    added = [emoji for emoji in now if emoji not in before]
    reacted = {"remoteJid": remote_jid, "fromMe": bot.has_done("sent", remote_jid, target), "id": target}
    sender = _user(reaction.get("user")) or identifier(found_at(reaction, "actor_chat", "id"))
    # A reaction is no message of its own on Telegram, and has no id.
    key: dict[str, Any] = {"remoteJid": remote_jid, "fromMe": False, "id": f"reaction-{update_id}"}
    if text(chat.get("type")) != _PRIVATE and sender:
        key["participant"] = sender
    content = {"reactionMessage": {"key": reacted, "text": added[0] if added else ""}}
    name = _name(reaction.get("user")) or text(found_at(reaction, "actor_chat", "title"))
    time = seconds(reaction.get("date"))
    data = message_data(key, ("reactionMessage", content), time, push_name=name, source=SOURCE)
    return [_event("MESSAGES_UPSERT", data, bot, remote_jid, target, sender, update_id)]


def _pressed_button(query: dict[str, Any], bot: Bot) -> list[NewEvent] | None:
    id_, user = text(query.get("id")), _user(query.get("from"))
    message = mapping(query.get("message"))
    chat = mapping(message.get("chat"))
    # A button of a message that was sent through the bot into some chat (inline mode) has no chat.
    remote_jid = chat_of(chat, message.get("business_connection_id")) or user
    if _is_ignored(chat, bot):
        return []
    if not id_ or not remote_jid:
        return None
    data_text = text(query.get("data"))
    label = data_text
    rows = found_at(message, "reply_markup", "inline_keyboard")
    for row in rows if isinstance(rows, list) else []:
        for button in items(row):
            if data_text and button.get("callback_data") == data_text:
                label = text(button.get("text")) or label
    key: dict[str, Any] = {"remoteJid": remote_jid, "fromMe": False, "id": id_}
    if user and user != remote_jid:
        key["participant"] = user
    answer = {"selectedButtonId": data_text, "selectedDisplayText": label}
    data = message_data(
        key,
        ("buttonsResponseMessage", {"buttonsResponseMessage": answer}),
        bot.now,  # Telegram does not say when: the date in the query is that of the message with the buttons
        push_name=_name(query.get("from")),
        context=filled(stanzaId=identifier(message.get("message_id"))),
        source=SOURCE,
    )
    return [_event("MESSAGES_UPSERT", data, bot, remote_jid, "callback", id_)]


def _member(change: dict[str, Any], bot: Bot, update_id: str) -> list[NewEvent] | None:
    chat = mapping(change.get("chat"))
    id_ = chat_of(chat)
    before, now = mapping(change.get("old_chat_member")), mapping(change.get("new_chat_member"))
    user = _user(now.get("user"))
    if not id_ or not user:
        return None
    old, new = text(before.get("status")), text(now.get("status"))
    if text(chat.get("type")) == _PRIVATE:
        # Somebody has blocked the bot, or has started it again.
        blocked = {"remoteJid": id_, "isBlocked": new == "kicked"}
        return [_event("CHATS_UPDATE", [blocked], bot, id_, update_id)]
    if bot.groups_ignore:
        return []
    was_in, is_in = _is_member(before), _is_member(now)
    if is_in != was_in:
        action = "add" if is_in else "remove"
    elif new == "administrator" and old != "administrator":
        action = "promote"
    elif old == "administrator" and new != "administrator":
        action = "demote"
    else:
        return None  # other rights, or a title
    data = {
        "id": id_,
        "author": _user(change.get("from")),
        "participants": [user],
        "action": action,
        "messageTimestamp": seconds(change.get("date")),
    }
    return [_event("GROUP_PARTICIPANTS_UPDATE", data, bot, id_, user, update_id)]


def _context(message: Mapping[str, Any], media_url: MediaUrl) -> dict[str, Any]:
    context: dict[str, Any] = {}
    answered = mapping(message.get("reply_to_message"))
    # In a topic, every message answers the one that opened the topic.
    if (id_ := identifier(answered.get("message_id"))) and "forum_topic_created" not in answered:
        context["stanzaId"] = id_
        if author := _author(answered):
            context["participant"] = author
        if (quoted := content_of(answered, media_url)) is not None:
            context["quotedMessage"] = quoted[1]
    if message.get("is_topic_message") is True and (thread := identifier(message.get("message_thread_id"))):
        context["threadId"] = thread
    if origin := mapping(message.get("forward_origin")):
        context["isForwarded"] = True
        user, chat = origin.get("sender_user"), origin.get("sender_chat") or origin.get("chat")
        name = _name(user) or text(origin.get("sender_user_name")) or text(mapping(chat).get("title"))
        if name:
            context["forwardedFrom"] = name
    if group := text(message.get("media_group_id")):
        context["mediaGroupId"] = group
    entities = items(message.get("entities")) + items(message.get("caption_entities"))
    if entities:
        context["entities"] = entities  # where the text is bold, a link, a mention …
    mentioned = [
        user
        for entity in entities
        if entity.get("type") == "text_mention" and (user := _user(entity.get("user")))
    ]
    if mentioned:
        context["mentionedJid"] = mentioned
    return context


def _key(message: Mapping[str, Any], bot: Bot) -> dict[str, Any] | None:
    chat = mapping(message.get("chat"))
    connection = message.get("business_connection_id")
    remote_jid, id_ = chat_of(chat, connection), identifier(message.get("message_id"))
    if not remote_jid or not id_:
        return None
    author = _author(message)
    if "@" in remote_jid:
        # In a chat of a business account, whatever the other person did not write is the account's.
        is_own = _user(message.get("from")) != identifier(chat.get("id"))
    else:
        is_own = author == bot.id
    key: dict[str, Any] = {"remoteJid": remote_jid, "fromMe": is_own, "id": id_}
    if text(chat.get("type")) != _PRIVATE and author:
        key["participant"] = author
    return key


def _author(message: Mapping[str, Any]) -> str:
    # Anonymous administrators and channels write as a chat; "from" is then a placeholder.
    return identifier(found_at(message, "sender_chat", "id")) or _user(message.get("from"))


def _user(user: Any) -> str:
    return identifier(mapping(user).get("id"))


def _name(user: Any) -> str:
    found = mapping(user)
    return " ".join(filter(None, (text(found.get("first_name")), text(found.get("last_name")))))


def _is_member(member: Mapping[str, Any]) -> bool:
    status = text(member.get("status"))
    # A restricted user may be one who has left.
    return status in _MEMBERS and (status != "restricted" or member.get("is_member") is not False)


def _is_ignored(chat: Mapping[str, Any], bot: Bot) -> bool:
    return bot.groups_ignore and text(chat.get("type")) not in ("", _PRIVATE)


def _emoji(reactions: Any) -> list[str]:
    found = []
    for one in items(reactions):
        if one.get("type") == "custom_emoji":
            found.append(f"custom_emoji:{text(one.get('custom_emoji_id'))}")
        elif one.get("type") == "paid":
            found.append("⭐")
        elif emoji := text(one.get("emoji")):
            found.append(emoji)
    return found


def _event(kind: str, data: Any, bot: Bot, *parts: str) -> NewEvent:
    return NewEvent(kind=kind, data=data, event_id=event_id_of(kind, bot.id, *parts))
