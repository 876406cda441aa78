"""Events, event kinds and the catalog of kinds. No I/O.

An event carries its payload as the JSON bytes that arrived. hookgw decodes them between accept and delivery
only if a plugin reads ``data``, so the order of keys and the spelling of numbers survive.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import random
import re
import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_decoding import decode_json
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import rfc3339
from hookgw.records.chats import chats_in

# No ".": Standard Webhooks signs "<id>.<timestamp>.<body>", and a dot in the id would let two different
# deliveries have the same signature.
EVENT_ID = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)

_EDITED, _EDIT_DIGITS = "-edited-", 12
_EDITED_ID = re.compile(r"(.+)-edited-[0-9a-f]{12}", re.ASCII)

# The readable part of an id that stands for a network's ids. Never change it: events would come twice.
_WORD = re.compile(r"[A-Za-z0-9]+", re.ASCII)
_READABLE = 32

# For suggestions: the characters of an unknown kind, and the known ones, that are compared exactly.
_COMPARED = 40
_CANDIDATES = 5
_SIMILAR = 0.6
"""The least similarity of a suggestion, from 0 to 1; the default of ``difflib.get_close_matches``."""
_MEANT = {
    "MESSAGE": "MESSAGES_UPSERT",
    "MESSAGES": "MESSAGES_UPSERT",
    "MESSAGE_ANY": "MESSAGES_UPSERT",
    "MESSAGE_CREATE": "MESSAGES_UPSERT",
    "MESSAGE_CREATED": "MESSAGES_UPSERT",
    "MESSAGE_REACTION": "MESSAGES_UPSERT",
    "MESSAGE_RECEIVED": "MESSAGES_UPSERT",
    "MESSAGE_WAITING": "MESSAGES_UPSERT",
    "RECEIVED_MESSAGE": "MESSAGES_UPSERT",
    "MESSAGE_ACK": "MESSAGES_UPDATE",
    "MESSAGE_STATUS": "MESSAGES_UPDATE",
    "READRECEIPT": "MESSAGES_UPDATE",
    "STATUSES": "MESSAGES_UPDATE",
    "MESSAGE_EDITED": "MESSAGES_EDITED",
    "MESSAGE_REVOKED": "MESSAGES_DELETE",
    "MESSAGE_SENT": "SEND_MESSAGE",
    "SESSION_STATUS": "CONNECTION_UPDATE",
    "STATE_CHANGE": "CONNECTION_UPDATE",
    "QR": "QRCODE_UPDATED",
    "CALL_RECEIVED": "CALL",
    "CHATPRESENCE": "PRESENCE_UPDATE",
    "PRESENCE": "PRESENCE_UPDATE",
}
"""What the names of other systems mean here, such as those of WAHA, the Cloud API and wuzapi."""
_EVERY = {"ALL", "ANY", "EVERY", "EVERYTHING", "*"}
"""What other systems call every kind."""

# os.urandom releases the interpreter lock, which costs a switch of threads for each event.
random_ids = random.Random()  # noqa: S311 -- seeded by the system; event ids are not secret
_random_bits = random_ids.getrandbits


# dict=True: cached_property stores the decoded payload in __dict__.
class Event(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Something that happened on an instance. Immutable once accepted.

    Attributes:
        id: 1 to 255 characters of ``A-Z a-z 0-9 _ -``; unique within the instance. It is the
            ``webhook-id`` of every attempt, resend and replay.
        kind: the canonical name of an event kind, for example ``MESSAGES_UPSERT``.
        instance: the instance's name.
        data_json: the payload, as JSON in UTF-8.
        time: the time of the event, in seconds since the epoch.
        sender: the account that the instance is connected as, if known.
        server_url: the address of the gateway that first saw the event, if known.
    """

    id: str
    kind: str
    instance: str
    data_json: bytes
    time: float
    sender: str | None = None
    server_url: str | None = None

    @cached_property
    def data(self) -> Any:
        """The decoded payload. Treat it as read-only; use :meth:`replace` to change it."""
        return decode_json(self.data_json)

    @cached_property
    def chat_hash(self) -> int | None:
        """The CRC-32 of the chat, which chooses a partition; ``None`` if there are several chats.

        It does not keep the chat in memory.
        """
        chats = self.chats
        if len(chats) > 1:
            return None
        return zlib.crc32(chats[0].encode("utf-8", "surrogatepass") if chats else b"")

    @property
    def chats(self) -> tuple[str, ...]:
        """The chats that the payload is about: none, one, or in a list several.

        A person on WhatsApp has one name here, whatever the payload calls them; see docs/http.md.
        """
        return chats_in(self.data_json)

    @property
    def date_time(self) -> str:
        """The time of the event, as RFC 3339 with ``Z``."""
        return rfc3339(self.time)

    @staticmethod
    def encode(data: Any) -> bytes:
        """Encode a payload as JSON.

        Raises:
            TypeError: the payload cannot be encoded as JSON.
        """
        return msgspec.json.encode(data)

    def replace(self, *, data: Any = msgspec.UNSET, kind: str | None = None) -> Event:
        """Return a copy with another payload or kind; id, instance and time stay the same.

        Raises:
            TypeError: ``data`` cannot be encoded as JSON.
        """
        data_json = self.data_json if data is msgspec.UNSET else self.encode(data)
        return msgspec.structs.replace(self, data_json=data_json, kind=kind or self.kind)


def edited_id(event_id: str, data_json: bytes) -> str:
    """Return the id of an edited copy of an event: the same edit gives the same id."""
    digest = hashlib.sha256(event_id.encode() + b"\0" + data_json).hexdigest()[:_EDIT_DIGITS]
    return f"{event_id[: 255 - len(_EDITED) - _EDIT_DIGITS]}{_EDITED}{digest}"


def edited_from(event_id: str) -> str | None:
    """Return the id of the event that an edited copy was made from, as far as the copy's id has it."""
    if _EDITED not in event_id:  # nearly always
        return None
    found = _EDITED_ID.fullmatch(event_id)
    return None if found is None else found[1]


def new_event_id(now: float) -> str:
    """Return a new event id: ``msg_``, the wall-clock time in milliseconds (48 bits), and 80 random bits."""
    # Ids that grow with time stay together in the store's index of ids, which makes commits cheaper.
    return "msg_%032x" % (int(1000 * now) << 80 | _random_bits(80))


def event_id_of(*parts: str) -> str:
    """Return the event id that stands for a network's ids.

    Networks' ids have characters that an event's id cannot have, and any length. The same parts give the same
    id, for ever and on every machine; other parts, or the same text in other parts, give another id.

    The id is the words (letters and digits of ASCII) of all parts, joined with ``-`` and cut to 32
    characters, or ``id`` if there are none; then ``-`` and 32 characters of a hash: the first 20 bytes of the
    SHA-256 of the parts as netstrings (``<bytes>:<text>,`` in UTF-8), as base32 in lower case.

    Args:
        parts: what identifies the happening, such as the network's id of a message; at least one character.

    Raises:
        ValueError: all parts are empty, or there are none: different events would get the same id.
        TypeError: a part is not a string.
    """
    # Never the plain id, even where it fits: a network could choose an id that looks like another one's hash.
    text = " ".join(parts)
    if not any(parts):
        raise ValueError("event_id_of needs a part with at least one character")
    digest = hashlib.sha256()
    for part in parts:
        # Systems bring halves of surrogate pairs, which UTF-8 alone refuses.
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b," % (len(encoded), encoded))
    readable = "-".join(_WORD.findall(text))[:_READABLE] or "id"
    return f"{readable}-{base64.b32encode(digest.digest()[:20]).decode().lower()}"


class EventKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of event that registrations can ask for.

    Attributes:
        name: capital letters, digits and underscores, for example ``MESSAGES_UPSERT``.
        meaning: one sentence for people who choose kinds.
        schema: JSON Schema (2020-12) of ``data``.
        example: a payload that satisfies the schema.
        dotted: the other spelling, for example ``messages.upsert``; if empty, it is derived from the name.
        aliases: further names of the kind.
        plugin: the plugin that adds the kind; empty for built-in kinds.
        operational: whether only hookgw emits it, about itself; see ``docs/operations.md``.
    """

    name: str
    meaning: str
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})
    example: Any = {}
    dotted: str = ""
    aliases: tuple[str, ...] = ()
    plugin: str = ""
    operational: bool = False

    @property
    def dotted_name(self) -> str:
        """The spelling with dots: ``dotted`` if it is given, else derived from the name."""
        return self.dotted or self.name.lower().replace("_", ".", 1).replace("_", "-")


def path_segment(kind: str) -> str:
    return kind.lower().replace("_", "-")


class Catalog:
    """All known event kinds. Lookups accept any spelling."""

    def __init__(self, kinds: Iterable[EventKind] = ()) -> None:
        self._kinds: dict[str, EventKind] = {}
        self._spellings: dict[str, EventKind] = {}
        self._former: dict[str, EventKind] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: EventKind) -> None:
        """Add a kind.

        Raises:
            ValueError: the name is malformed, or another kind already has one of its spellings.
        """
        name = kind.name
        if not (name.isascii() and name.replace("_", "").isalnum() and name == name.upper()):
            raise ValueError(f"{name!r} is not an event kind: use capital letters, digits and underscores")
        # All spellings are checked before any is stored: a refused kind leaves the catalog unchanged.
        spellings = {fold_kind(spelling) for spelling in (name, kind.dotted_name, *kind.aliases)}
        for spelling in spellings:
            if spelling in self._spellings:
                other = self._spellings[spelling]
                raise ValueError(f"{name} is already defined, as {other.name} of {other.plugin or 'hookgw'}")
        self._kinds[name] = kind
        for spelling in spellings:
            self._spellings[spelling] = kind

    def add_former(self, names: Iterable[str]) -> None:
        """Add names of kinds whose plugins may be gone: events, deliveries and registrations still have them.

        They are no kinds of the catalog, unless :meth:`add` has added them, too.
        """
        for name in names:
            self._former[name] = EventKind(name=name, meaning="")

    def remove(self, kind: EventKind) -> None:
        """Remove a kind with all of its spellings; its name stays as that of a former kind."""
        self.add_former([kind.name])
        del self._kinds[kind.name]
        self._spellings = {name: other for name, other in self._spellings.items() if other != kind}

    def __iter__(self) -> Iterator[EventKind]:
        return iter(self._kinds.values())

    def __len__(self) -> int:
        return len(self._kinds)

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def get(self, spelling: str) -> EventKind | None:
        """Return the kind of a name in any spelling (``MESSAGES_UPSERT``, ``messages.upsert``)."""
        # Producers nearly always send the canonical name: that lookup folds nothing.
        return self._kinds.get(spelling) or self._spellings.get(fold_kind(spelling))

    def get_stored(self, spelling: str) -> EventKind | None:
        """Return as :meth:`get` does, or else a former kind, of which no more than the name is known."""
        return self.get(spelling) or self._former.get(fold_kind(spelling))

    def of_instances(self) -> list[EventKind]:
        """Return the kinds that events of instances may have: all but the operational ones."""
        return [kind for kind in self if not kind.operational]

    def stored(self) -> list[str]:
        """Return the names of the kinds of instances; last, those whose plugins may be gone."""
        present = [kind.name for kind in self.of_instances()]
        return present + sorted(self._former.keys() - self._kinds.keys())

    def stored_name(self, spelling: object, where: str) -> str:
        """Return the name of a kind by which stored events are sought; see :meth:`resolve`."""
        return self.resolve(spelling, where, stored=True).name

    def resolve(
        self, spelling: object, where: str, *, operational: bool = False, stored: bool = False
    ) -> EventKind:
        """Return the kind of a name in any spelling.

        Args:
            spelling: what the caller sent.
            where: the field to name in an error, for example ``webhook.events[1]``.
            operational: whether the place takes operational kinds, and only those. The message suggests no
                other ones.
            stored: whether it takes former kinds, too, because it asks for what is stored or is stored.

        Raises:
            Invalid: the kind is unknown; the message suggests a similar known one.
        """
        if not isinstance(spelling, str):
            raise Invalid.of(
                "event.kind_not_string",
                "{where} must be the name of an event kind, a string.",
                where=where,
            )
        kind = self.get_stored(spelling) if stored else self.get(spelling)
        if kind is not None:
            return kind
        if stored and fold_kind(spelling) in _EVERY:
            raise Invalid.of(
                "event.every_kind",
                "{where}: {kind!r} is not a known event kind. To have every kind, name none.",
                where=where,
                kind=spelling,
            )
        shown = spelling if len(spelling) <= 64 else spelling[:64] + "…"
        near = self._nearest(spelling, operational=operational)
        if near is None:
            raise Invalid(
                Sentence(
                    "event.not_operational_kind",
                    "{where}: {kind!r} is not an operational kind.",
                    where=where,
                    kind=shown,
                )
                if operational
                else Sentence(
                    "event.not_a_kind",
                    "{where}: {kind!r} is not a known event kind.",
                    where=where,
                    kind=shown,
                )
            )
        raise Invalid(
            Sentence(
                "event.not_operational_kind_near",
                "{where}: {kind!r} is not an operational kind. Did you mean {near}?",
                where=where,
                kind=shown,
                near=near.name,
            )
            if operational
            else Sentence(
                "event.not_a_kind_near",
                "{where}: {kind!r} is not a known event kind. Did you mean {near}?",
                where=where,
                kind=shown,
                near=near.name,
            )
        )

    def _nearest(self, spelling: str, *, operational: bool) -> EventKind | None:
        folded = fold_kind(spelling)
        if folded in _EVERY:
            return None
        if not operational and folded in _MEANT:
            return self._kinds.get(_MEANT[folded])
        # The exact comparison is quadratic in the length of the text: it gets a part of it, and only the few
        # names that have about the same letters.
        matcher = difflib.SequenceMatcher(b=fold_kind(spelling[:_COMPARED]), autojunk=False)

        def similarity(name: str, *, exact: bool) -> float:
            matcher.set_seq1(name)
            return matcher.ratio() if exact else matcher.quick_ratio()

        allowed = [name for name, kind in self._spellings.items() if kind.operational is operational]
        ranked = sorted(allowed, key=lambda name: similarity(name, exact=False), reverse=True)
        near = max(ranked[:_CANDIDATES], key=lambda name: similarity(name, exact=True), default=None)
        if near is None or similarity(near, exact=True) < _SIMILAR:
            return None
        return self._spellings[near]


def fold_kind(spelling: str) -> str:
    """Return the name of a kind that is spelled in another way, such as ``messages.upsert``."""
    return spelling.upper().replace(".", "_").replace("-", "_")


class Receipt(msgspec.Struct, frozen=True):
    """The result of accepting events.

    Attributes:
        fresh: for each event in order, ``True`` if it is new and ``False`` if it is a duplicate.
        warnings: payloads that violate the schema of their kind, as sentences.
    """

    fresh: list[bool]
    warnings: list[str]
