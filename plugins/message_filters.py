"""Filters the events of a registration by sender, chat and type of their message.

An example of ``hookgw_filter`` with options for each registration::

    {"url": "https://…", "plugins": {"message_filters": {"from_me": false, "groups": false,
        "allow": ["5511*@s.whatsapp.net"], "message_types": ["conversation", "imageMessage"]}}}

Events without a chat (a connection update, a QR code) always pass.
"""

from __future__ import annotations

import fnmatch
import re
from collections import OrderedDict
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hookgw import Event, Registration, hookimpl

NAME = "message_filters"
# The chat in which the status updates of contacts arrive.
STATUS = "status@broadcast"
# Registrations with compiled options in memory. Beyond that, the least recently used one is compiled again.
CACHED = 4096

Patterns = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=255)], ...], Meta(max_length=1000)]
"""Shell-style patterns of JIDs. The limits bound the work that one tenant can cause per event."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block of a registration. An event must pass all options.

    Attributes:
        from_me: ``true`` for the account's own messages only, ``false`` for those of others only.
        groups: whether messages in groups pass.
        status_broadcasts: whether status updates of contacts pass.
        allow: JIDs that pass, as patterns (``*``, ``?``, ``[…]``); empty for all. A message has the JID of
            its chat and, in a group, that of its sender; one match is enough.
        deny: JIDs that do not pass, as patterns. It overrides ``allow``.
        message_types: the ``messageType``s that pass; empty for all. Events without a type pass.
    """

    from_me: bool | None = None
    groups: bool = True
    status_broadcasts: bool = True
    allow: Patterns = ()
    deny: Patterns = ()
    message_types: frozenset[str] = frozenset()


class Filter:
    """A registration's options, compiled."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._allow = _compile(options.allow)
        self._deny = _compile(options.deny)

    def passes(self, data: Any) -> bool:
        """Return whether an event with this payload goes to the registration."""
        if not isinstance(data, dict):
            return True
        # MESSAGES_UPSERT has these fields in "key", MESSAGES_UPDATE at the top.
        key = data.get("key")
        key = key if isinstance(key, dict) else data
        options = self._options
        # A producer may send anything: a field of another type counts as missing.
        from_me, chat, kind = key.get("fromMe"), key.get("remoteJid"), data.get("messageType")
        if isinstance(from_me, bool) and options.from_me not in (None, from_me):
            return False
        if isinstance(kind, str) and options.message_types and kind not in options.message_types:
            return False
        if not isinstance(chat, str):
            return True
        if chat == STATUS and not options.status_broadcasts:
            return False
        if chat.endswith("@g.us") and not options.groups:
            return False
        jids = [jid for jid in (chat, key.get("participant")) if isinstance(jid, str)]
        if self._deny is not None and any(map(self._deny.fullmatch, jids)):
            return False
        return self._allow is None or any(map(self._allow.fullmatch, jids))


def _compile(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    # fnmatch uses atomic groups, so no tenant can write a pattern that backtracks for seconds.
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)) if patterns else None


_filters: OrderedDict[str, tuple[float, Filter]] = OrderedDict()


@hookimpl
def hookgw_check_registration(options: dict[str, Any]) -> None:
    """Reject unknown options, wrong types, and empty, too long or too many patterns."""
    msgspec.convert(options, Options)


@hookimpl
def hookgw_filter(event: Event, registration: Registration) -> bool | None:
    """Drop events that the registration does not want."""
    block = registration.plugins.get(NAME)
    # First of all: event.data decodes the payload, which most deliveries do not need.
    if block is None:
        return None
    found = _filters.pop(registration.id, None)
    # A registration keeps its id when it changes.
    if found is None or found[0] != registration.updated_at:
        found = (registration.updated_at, Filter(msgspec.convert(block, Options)))
    # Popped and added again, so the first entry is always the least recently used one.
    _filters[registration.id] = found
    if len(_filters) > CACHED:
        _filters.popitem(last=False)
    return found[1].passes(event.data)
