"""What a page shows of a message: its words, or what kind of file it has. No I/O.

A payload may hold anything, and megabytes of it. So its parts are cut out undecoded, and only small ones are
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from hookgw.connectors.json_values import LARGEST_NUMBER, any_number, mapping
from hookgw.kernel.json_decoding import decode_json
from hookgw.messages.changes import DELETED, EDITED, Changes, read_change
from hookgw.messages.chats import LastMessage, sent_at
from hookgw.messages.content import MESSAGE_NAMES, MOST_PART, layers, unwrapped
from hookgw.messages.stored_messages import Content, read_content
from hookgw.records.chats import HIDDEN, NUMBER, jids_of, plain_jid
from hookgw.store import LoggedEvent

MOST_TEXT = 4_000
"""Characters of a message on a page."""
_TEXTS = {
    "extendedTextMessage": ("text",),
    "reactionMessage": ("text",),
    "locationMessage": ("name", "address"),
    "liveLocationMessage": ("caption",),
    "contactMessage": ("displayName",),
    "pollCreationMessage": ("name",),
    "pollCreationMessageV2": ("name",),
    "pollCreationMessageV3": ("name",),
    "pollCreationMessageV5": ("name",),
    "pollCreationMessageV6": ("name",),
    "pollResultSnapshotMessage": ("name",),
    "pollResultSnapshotMessageV3": ("name",),
    "pollUpdateMessage": ("vote.selectedOptions",),
    "contactsArrayMessage": ("displayName", "contacts.displayName"),
    "eventMessage": ("name",),
    "eventInviteMessage": ("caption", "eventTitle"),
    "groupInviteMessage": ("caption", "groupName"),
    "newsletterAdminInviteMessage": ("caption", "newsletterName"),
    "newsletterFollowerInviteMessageV2": ("caption", "newsletterName"),
    "productMessage": ("body", "product.title"),
    "stickerPackMessage": ("caption", "name"),
    "scheduledCallCreationMessage": ("title",),
    "invoiceMessage": ("note",),
    "sendPaymentMessage": ("noteMessage.conversation", "noteMessage.extendedTextMessage"),
    "requestPaymentMessage": ("noteMessage.conversation", "noteMessage.extendedTextMessage"),
    "paymentReminderMessage": ("description",),
    "splitPaymentMessage": ("description",),
    "questionResponseMessage": ("text",),
    "statusQuestionAnswerMessage": ("text",),
    "statusQuotedMessage": ("text",),
    "richResponseMessage": ("submessages.messageText",),
    "systemMessage": ("body",),
    "unsupportedMessage": ("caption",),
    "orderMessage": ("message", "orderTitle"),
    "buttonsMessage": ("contentText",),
    "buttonsResponseMessage": ("selectedDisplayText",),
    "listMessage": ("description", "title"),
    "listResponseMessage": ("title",),
    "templateButtonReplyMessage": ("selectedDisplayText",),
    "hydratedTemplate": ("hydratedContentText",),
    "hydratedFourRowTemplate": ("hydratedContentText",),
    "interactiveMessageTemplate": ("body",),
    "interactiveMessage": ("body",),
    "interactiveResponseMessage": ("body",),
}
"""Where the words of a message are that is neither a plain text nor a file, by its kind.

A place may be inside of members and lists.
"""
_PLAIN = (
    "extendedTextMessage",
    "richResponseMessage",
    "buttonsMessage",
    "listMessage",
    "hydratedTemplate",
    "hydratedFourRowTemplate",
    "interactiveMessageTemplate",
    "interactiveMessage",
)
"""Those of which a page shows the words alone, as of a plain text."""
_NAMES = tuple(dict.fromkeys(("conversation", *_TEXTS, *MESSAGE_NAMES)))
_NONE = msgspec.Raw(b"null")
_Parts: Any = msgspec.defstruct("_Parts", [(name, msgspec.Raw, _NONE) for name in _NAMES])
_parts_of = msgspec.json.Decoder(_Parts).decode


class Words(NamedTuple):
    """What a message says.

    Attributes:
        kind: such as ``imageMessage``; empty for a plain text.
        text: its words, or the caption or the name of a file.
        size: bytes of its file; ``None`` if it has none, or does not say.
        is_cut: whether there is more of it than a page shows.
        change: ``EDITED`` or ``DELETED``; empty if neither has happened.
    """

    kind: str = ""
    text: str = ""
    size: int | None = None
    is_cut: bool = False
    change: str = ""


class Bubble(NamedTuple):
    """A message in a chat, or a change of one that is on an earlier page.

    Attributes:
        id: the network's.
        author: the name of its author; empty for the account itself, or if it is unknown.
        at: when, in seconds since the epoch.
        names: all names of its chat.
        is_of_earlier: whether it is a change of an earlier message.
    """

    id: str
    from_me: bool
    author: str
    at: float
    words: Words
    names: tuple[str, ...]
    is_of_earlier: bool = False


def words_of(message: bytes, message_type: Any = None) -> Words:
    """Return the words of the ``message`` of a payload.

    Args:
        message_type: the payload's, for a message that is too large to be read or of an unknown kind.
    """
    named = message_type if isinstance(message_type, str) else ""
    try:
        parts = _parts_of(message)
        small = {name: bytes(raw) for name in _NAMES if (raw := getattr(parts, name)) != _NONE}
        is_cut = any(len(raw) > MOST_PART for raw in small.values())
        found = {name: decode_json(raw) for name, raw in small.items() if len(raw) <= MOST_PART}
    except (msgspec.MsgspecError, ValueError):
        return Words(named[:64])
    kind, text = _text_of(found)
    file_kind, file = unwrapped(found)
    if file_kind is not None and not isinstance(found.get("conversation"), str):
        text = _first(file, ("caption",)) or text or _first(file, ("fileName",))
        return _cut(file_kind, text, _size_of(file.get("fileLength")))
    if kind is not None:
        return _cut(kind, text)
    return Words(named[:64] if named != "conversation" else "", is_cut=is_cut)


def _text_of(message: dict[str, Any]) -> tuple[str | None, str]:
    """Return the kind and the words of a message without a file; ``None`` for an unknown kind."""
    found: tuple[str | None, str] = (None, "")
    for layer in layers(message):
        if isinstance(text := layer.get("conversation"), str) and text:
            return "", text
        for kind, places in _TEXTS.items():
            if isinstance(layer.get(kind), dict):
                found = "" if kind in _PLAIN else kind, _first(layer[kind], places)
                if found[1]:
                    return found
    return found


def last_words(last: LastMessage) -> Words:
    """Return the words of the last message of a chat."""
    return _changed(words_of(bytes(last.message), last.message_type), last.status)


def bubbles_of(events: Iterable[LoggedEvent]) -> list[Bubble]:
    """Return the messages of a chat as they are now, the oldest first.

    Args:
        events: messages and changes, the newest first. A message that hookgw has sent may be there twice,
            because the network reports it, too.
    """
    found: dict[str, Bubble] = {}
    changes = Changes()
    for one in events:
        change, status = read_change(one.event), ""
        content = read_content(one.event) if change is None else None
        if change is not None and changes.add(change):
            content = Content(change.key, message=change.message or msgspec.Raw(b"{}"))
            status = change.status
        if content is None:
            continue
        key = content.key
        names = jids_of(key)
        known = found.get(key["id"])
        if (known is not None and not known.is_of_earlier) or not names:
            continue
        # Evolution API names the account itself as the chat of an edit by a person.
        if change is not None and plain_jid(one.event.sender or "") in names:
            continue
        if change is None:
            found.pop(key["id"], None)  # a change of it, which has its place among the earlier ones
            if (later := changes.of(key)) is not None:
                content.message, status = later.applied_to(content.message), later.status
        from_me = key.get("fromMe") is True
        pushed = content.push_name[:128] if isinstance(content.push_name, str) else ""
        # In a group the name of who wrote may be missing; in a chat with a person it is the chat's.
        members = () if names[0].endswith((NUMBER, HIDDEN)) else jids_of(key, "participant")
        author = "" if from_me else pushed or (members[0].partition("@")[0] if members else "")
        found[key["id"]] = Bubble(
            key["id"],
            from_me,
            author,
            sent_at(content.message_timestamp, one.accepted_at),
            _changed(words_of(bytes(content.message), content.message_type), status),
            names,
            is_of_earlier=change is not None,
        )
    return [*found.values()][::-1]


def _changed(words: Words, status: str | None) -> Words:
    """Return the words of a message that was edited or deleted: a deleted one has none."""
    if status == DELETED:
        return Words(change=DELETED)
    return words._replace(change=EDITED) if status == EDITED else words


def _cut(kind: str, text: str, size: int | None = None) -> Words:
    return Words(kind, text[:MOST_TEXT], size, is_cut=len(text) > MOST_TEXT)


def _first(part: dict[str, Any], places: tuple[str, ...]) -> str:
    return next(filter(None, (_words_at(part, place.split(".")) for place in places)), "")


def _words_at(part: Any, names: Sequence[str]) -> str:
    """Return the text at a place; of a list, those of its items, one a line."""
    if isinstance(part, list):
        found = (_words_at(item, names) for item in part if not isinstance(item, list))
        return "\n".join(filter(None, found))
    if names:
        return _words_at(mapping(part).get(names[0]), names[1:])
    # What has buttons has its words in an object.
    words = part.get("text") if isinstance(part, dict) else part
    return words if isinstance(words, str) else ""


def _size_of(value: Any) -> int | None:
    """Return a length of a file. JavaScript writes long numbers as a text, or in two halves."""
    found = any_number(value)
    return int(found) if found is not None and 0 <= found < LARGEST_NUMBER else None
