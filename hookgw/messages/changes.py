"""Edits and deletions: what they say of the messages that they change. No I/O.

Networks and gateways tell them in many forms:

- MESSAGES_EDITED of hookgw's connectors: the key of the message, with its new ``message``
- MESSAGES_EDITED and SEND_MESSAGE_UPDATE of Evolution API: the ``protocolMessage`` of Baileys, with the new
  content in ``editedMessage``. It raises MESSAGES_EDITED for all other protocol messages, too, among
  them deletions.
- MESSAGES_DELETE: the key of the message, or the message as it was with its key
- MESSAGES_UPSERT from Baileys: a message of its own, with a ``protocolMessage`` or an ``editedMessage`` in it

A MESSAGES_UPDATE with the status ``DELETED`` is none of them: Evolution API reports edits so, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from hookgw.connectors.json_values import mapping, text
from hookgw.kernel.json_decoding import decode_json
from hookgw.messages.content import MESSAGE_NAMES, MOST_PART, layers, unwrapped
from hookgw.records.chats import GROUP, HIDDEN, NUMBER, ChatFields, jids_of
from hookgw.records.events import Event

EDITED, DELETED = "EDITED", "DELETED"
"""The statuses of changed messages, as in Evolution API."""
_EDIT, _DELETION = "MESSAGES_EDITED", "MESSAGES_DELETE"
CHANGES = (_EDIT, "SEND_MESSAGE_UPDATE", _DELETION)
"""The kinds of events that change a message."""
# As Baileys has them in JSON, and as numbers.
_EDIT_TYPES = ("MESSAGE_EDIT", 14)
_DELETION_TYPES = ("REVOKE", 0)
MOST_KEPT = 8 * 2**20
"""Bytes of new contents that a search keeps."""
_NOTHING = msgspec.Raw(b"{}")
_UNKNOWN = "unknownMessage"
_NONE = msgspec.Raw(b"null")


class _Payload(ChatFields):
    key: dict[str, Any] | None = None
    type: Any = None
    message: msgspec.Raw = _NONE
    editedMessage: msgspec.Raw = _NONE  # noqa: N815 -- the name in the payload


_payload_of = msgspec.json.Decoder(_Payload, float_hook=float).decode
_parts_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Change(NamedTuple):
    """An edit or a deletion of a message.

    Attributes:
        key: of the message that it changes.
        message: the new content; ``None`` if the message was deleted.
        writer: the key of the message that tells it, and so who did it; ``None`` if a gateway tells it.
    """

    key: dict[str, Any]
    message: msgspec.Raw | None
    writer: dict[str, Any] | None = None

    @property
    def status(self) -> str:
        return DELETED if self.message is None else EDITED

    def concerns(self, key: dict[str, Any]) -> bool:
        """Return whether its writer may change the message with a key, which has its id.

        Only the author of a message edits it, and in a group admins delete those of others. WhatsApp's
        servers pass on everything, and its programs ignore what anybody else says.
        """
        if self.writer is None or (self.message is None and text(key.get("remoteJid")).endswith(GROUP)):
            return True
        if (self.writer.get("fromMe") is True) is not (key.get("fromMe") is True):
            return False
        writer, author = ({*jids_of(one, "participant")} for one in (self.writer, key))
        # One with the number alone and one with the @lid alone may be the same person.
        ends = ({name.rpartition("@")[2] for name in names} for names in (writer, author))
        return not writer.isdisjoint(author) or set.isdisjoint(*ends)

    def applied_to(self, message: msgspec.Raw) -> msgspec.Raw:
        """Return what a message has now. Of a deleted one, that is what it had, as in Evolution API."""
        if self.message is None:
            return message
        new = _decoded(self.message)
        if isinstance(new, dict) and new.keys() <= {_UNKNOWN}:
            return message  # GOWA does not tell new captions
        words = _words_alone(new)
        return self.message if words is None else _with_caption(message, words) or self.message


class Changes:
    """The newest change of each message, found in events that are read the newest first.

    A search reads tens of thousands of events. New contents beyond :data:`MOST_KEPT` are left out: those
    messages are edited, and have what they had.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[Change]] = {}
        self._room = MOST_KEPT

    def add(self, change: Change) -> bool:
        """Add a change. Return whether it is the newest one of its message."""
        identity, message = identity_of(change.key), change.message
        if message is not None:
            size = len(memoryview(message))
            # A copy: otherwise the whole event stays in memory.
            message = message.copy() if size <= self._room else _NOTHING
            self._room -= len(memoryview(message))
        found = self._found.setdefault(identity, [])
        found.append(Change({"id": identity[1]}, message, change.writer))
        return len(found) == 1

    def of(self, key: dict[str, Any]) -> Change | None:
        """Return the newest change of the message with a key."""
        found = self._found.get(identity_of(key), ()) if self._found else ()
        return next((change for change in found if change.concerns(key)), None)


def identity_of(key: dict[str, Any]) -> tuple[str, str]:
    """Return what distinguishes a message: its chat and its id, which Telegram gives out anew in each chat.

    For a person on WhatsApp, who may have another name in each event, the id alone.
    """
    names = jids_of(key)
    return "" if not names or names[0].endswith((NUMBER, HIDDEN)) else names[0], key["id"]


def read_change(event: Event) -> Change | None:
    """Return the change that an event tells; ``None`` if it tells none."""
    data = event.data_json
    if event.kind not in CHANGES and b'"protocolMessage"' not in data and b'"editedMessage"' not in data:
        return None  # nearly all messages
    try:
        payload = _payload_of(data)
    except msgspec.MsgspecError:
        return None
    key = payload.key if payload.key is not None else msgspec.structs.asdict(payload)
    change = _change_in(event.kind, key, payload)
    return change if change is not None and text(change.key.get("id")) else None


def _change_in(kind: str, key: dict[str, Any], payload: _Payload) -> Change | None:
    if kind == _DELETION or (kind in CHANGES and payload.type in _DELETION_TYPES):
        return Change(key, None)
    if kind in CHANGES and payload.editedMessage != _NONE:
        return Change(key, payload.editedMessage)
    for layer in layers(_decoded(payload.message)):
        if isinstance(protocol := layer.get("protocolMessage"), dict):
            return _protocol_change(key, protocol)
        wrapper = layer.get("editedMessage")
        if isinstance(wrapper, dict) and "protocolMessage" not in mapping(wrapper.get("message")):
            return _edit(key, wrapper.get("message"))
    return Change(key, payload.message) if kind == _EDIT and payload.message != _NONE else None


def _protocol_change(key: dict[str, Any], protocol: dict[str, Any]) -> Change | None:
    # The chat in the key of a protocol message is the one that its author sees.
    changed = {**key, "id": mapping(protocol.get("key")).get("id")}
    if protocol.get("type") in _DELETION_TYPES:
        return Change(changed, None, key)
    return _edit(changed, protocol.get("editedMessage"), key) if protocol.get("type") in _EDIT_TYPES else None


def _edit(key: dict[str, Any], message: Any, writer: dict[str, Any] | None = None) -> Change | None:
    return (
        Change(key, msgspec.Raw(msgspec.json.encode(message)), writer) if isinstance(message, dict) else None
    )


def _words_alone(message: Any) -> str | None:
    """Return the words of an edit that has nothing else: a text, or the caption of a file."""
    kind, file = unwrapped(message)
    if kind is not None:
        return text(file.get("caption")) if "mimetype" not in file else None
    found = mapping(message)
    return (
        text(found.get("conversation")) or text(mapping(found.get("extendedTextMessage")).get("text")) or None
    )


def _with_caption(message: msgspec.Raw, caption: str) -> msgspec.Raw | None:
    """Return a message with another caption of its file; ``None`` if it has no file."""
    try:
        parts = _parts_of(message)
    except msgspec.MsgspecError:
        return None
    for name, raw in parts.items():
        part = {name: _decoded(raw)} if name in MESSAGE_NAMES else {}
        kind, file = unwrapped(part)
        if kind is not None:
            file["caption"] = caption
            parts[name] = msgspec.Raw(msgspec.json.encode(part[name]))
            return msgspec.Raw(msgspec.json.encode(parts))
    return None


def _decoded(part: msgspec.Raw) -> Any:
    """Return a part of a message; ``None`` if it is too large to be read, or has a number that is none."""
    try:
        return decode_json(part) if len(memoryview(part)) <= MOST_PART else None
    except (msgspec.MsgspecError, ValueError):
        return None
