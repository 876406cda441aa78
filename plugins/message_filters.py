"""Filters the events of a registration by sender, chat and type of their message.

An example of ``hookgw_filter`` with options for each registration::

    {"url": "https://…", "plugins": {"message_filters": {"from_me": false, "groups": false,
        "allow": ["5511*@s.whatsapp.net"], "message_types": ["conversation", "imageMessage"]}}}

Events without a chat (a connection update, a QR code) always pass.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hookgw import ChatFields, Event, Registration, chat_names, hookimpl, jids_of, plain_jid
from hookgw.connectors import Recent

NAME = "message_filters"
# The chat in which the status updates of contacts arrive.
STATUS = "status@broadcast"
# Registrations with compiled options in memory. Beyond that, the least recently used one is compiled again.
CACHED = 4096

# These limits bound the work that one tenant can cause for everybody: 100 hostile wildcards take 10 ms to
# compile, and 5 ms for each event.
MAX_WILDCARDS = 100
MAX_STARS = 3
MAX_CHARACTERS = 4096
# No network has longer JIDs, and no wildcard matches them.
MAX_JID = 255

Pattern = Annotated[str, Meta(min_length=1, max_length=MAX_JID)]
Patterns = Annotated[tuple[Pattern, ...], Meta(max_length=1000)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block of a registration. An event must pass all options; a list, one of its entries.

    Attributes:
        from_me: ``true`` for the account's own messages only, ``false`` for those of others only.
        groups: whether messages in groups pass.
        status_broadcasts: whether status updates of contacts pass.
        allow: JIDs that pass, as patterns (``*``, ``?``, ``[…]``), or phone numbers alone, as people write
            them; empty for all. A message has the JID of its chat and, in a group, that of its sender, each
            by all names that it has for them, and without a device; one match is enough. At most 100 may be
            wildcards, with at most 3 stars each and 4,096 characters together.
        deny: JIDs that do not pass, as patterns. It overrides ``allow``.
        message_types: the ``messageType``s that pass; empty for all. Events without a type pass.
    """

    from_me: bool | None = None
    groups: bool = True
    status_broadcasts: bool = True
    allow: Patterns = ()
    deny: Patterns = ()
    message_types: frozenset[str] = frozenset()


class Patterned:
    """The patterns of one option, compiled.

    Raises:
        ValueError: there are too many wildcards, or too long ones.
    """

    def __init__(self, name: str, patterns: tuple[str, ...]) -> None:
        # As events name people: "*@c.us" is another spelling, too.
        patterns = tuple(
            f"{one.removesuffix('@c.us')}@s.whatsapp.net" if one.endswith("@c.us") else plain_jid(one)
            for one in patterns
        )
        # A phone number alone, too. On Telegram, the same digits are a chat, and with a minus sign a group.
        numbers = (re.sub(r"[\s()-]", "", one.removeprefix("+")) for one in patterns if one[:1] != "-")
        patterns += tuple(f"{number}@s.whatsapp.net" for number in numbers if number.isdecimal())
        wildcards = [pattern for pattern in patterns if any(sign in pattern for sign in "*?[")]
        if len(wildcards) > MAX_WILDCARDS:
            raise ValueError(f"{name} has {len(wildcards)} wildcards; at most {MAX_WILDCARDS} are allowed")
        for pattern in wildcards:
            if pattern.count("*") > MAX_STARS:
                raise ValueError(f"{name}: {pattern[:64]!r} has more than {MAX_STARS} stars")
        if sum(map(len, wildcards)) > MAX_CHARACTERS:
            raise ValueError(f"{name}: the wildcards have more than {MAX_CHARACTERS:,} characters together")
        # Most patterns are plain JIDs, and a set finds them at once, however many there are.
        self._exact = frozenset(patterns).difference(wildcards)
        # fnmatch uses atomic groups, so no tenant can write a pattern that backtracks for seconds.
        self._wildcards = re.compile("|".join(map(fnmatch.translate, wildcards))) if wildcards else None

    def __bool__(self) -> bool:
        return bool(self._exact) or self._wildcards is not None

    def match(self, jid: str) -> bool:
        """Return whether a JID matches one of the patterns."""
        if jid in self._exact:
            return True
        return self._wildcards is not None and len(jid) <= MAX_JID and bool(self._wildcards.fullmatch(jid))


class Message(ChatFields):
    """What the options ask for, of the payload of an event. The rest of it is not decoded."""

    key: Any = None
    messageType: Any = None  # noqa: N815 -- the name in the payload


# float: msgspec's own takes 20 µs for a number such as 1.5e300.
_messages_of = msgspec.json.Decoder(Message | list[Message], float_hook=float).decode


class Filter:
    """A registration's options, compiled."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._allow = Patterned("allow", options.allow)
        self._deny = Patterned("deny", options.deny)

    def passes(self, data_json: bytes) -> bool:
        """Return whether an event with this payload goes to the registration."""
        try:
            data = _messages_of(data_json)
        except msgspec.ValidationError:  # no object, and no list of them
            return True
        if not isinstance(data, list):
            return self._passes(data)
        return not data or any(map(self._passes, data))

    def _passes(self, data: Message) -> bool:
        fields = msgspec.structs.asdict(data)
        # MESSAGES_UPSERT has these fields in "key", MESSAGES_UPDATE at the top.
        key = data.key if isinstance(data.key, dict) else fields
        options = self._options
        # A producer may send anything: a field of another type counts as missing.
        from_me, kind, jids = key.get("fromMe"), data.messageType, chat_names(fields)
        if isinstance(from_me, bool) and options.from_me not in (None, from_me):
            return False
        if isinstance(kind, str) and options.message_types and kind not in options.message_types:
            return False
        if not jids:
            return True
        if STATUS in jids and not options.status_broadcasts:
            return False
        if jids[0].endswith("@g.us") and not options.groups:
            return False
        jids += jids_of(key, "participant")
        if any(map(self._deny.match, jids)):
            return False
        return not self._allow or any(map(self._allow.match, jids))


_filters: Recent[str, tuple[float, Filter]] = Recent(CACHED)


@hookimpl
def hookgw_check_registration(options: dict[str, Any]) -> None:
    """Reject unknown options, wrong types, and empty, too long or too many patterns."""
    Filter(msgspec.convert(options, Options))


@hookimpl
def hookgw_concerns(registration: Registration) -> bool:
    """Say which registrations have filters."""
    return NAME in registration.plugins


@hookimpl
def hookgw_filter(event: Event, registration: Registration) -> bool | None:
    """Drop events that the registration does not want."""
    block = registration.plugins.get(NAME)
    # First of all: most deliveries need none of this.
    if block is None:
        return None
    found = _filters.get(registration.id)
    # A registration keeps its id when it changes.
    if found is None or found[0] != registration.updated_at:
        found = (registration.updated_at, Filter(msgspec.convert(block, Options)))
        _filters.put(registration.id, found)
    return found[1].passes(event.data_json)
