"""Filters the events of a registration by what their message is about.

An example of ``hookgw_filter`` with options for each registration::

    {"url": "https://…", "plugins": {"message_filters": {"from_me": false, "groups": false,
        "allow": ["5511*@s.whatsapp.net"], "message_types": ["conversation", "imageMessage"]}}}

Events that are about no chat (a changed connection, a new code) always pass.
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
STATUS = "status@broadcast"
"""The chat in which contacts' status updates come."""
CACHED = 4096
"""How many registrations' options are kept compiled; the one used longest ago goes first."""

Patterns = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=255)], ...], Meta(max_length=1000)]
"""Shell-style patterns of JIDs."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block of a registration. An event must pass everything that is given.

    Attributes:
        from_me: only messages of the account itself, or only those of others; both if left out.
        groups: whether messages of groups pass.
        status_broadcasts: whether status updates of contacts pass.
        allow: only JIDs that one of these patterns fits (``*``, ``?``, ``[…]``); empty for all. A
            message has the JID of its chat and, in a group, that of its sender; one that fits is enough.
        deny: no JIDs that one of these patterns fits; it wins over ``allow``.
        message_types: only these ``messageType``s; empty for all. Events without one pass.
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
        self._allow = _compiled(options.allow)
        self._deny = _compiled(options.deny)

    def passes(self, data: Any) -> bool:
        """Whether an event with this payload goes to the registration."""
        if not isinstance(data, dict):
            return True
        key = data.get("key")
        key = key if isinstance(key, dict) else data
        return self._sender_passes(key) and self._chat_passes(key) and self._type_passes(data)

    def _sender_passes(self, key: dict[str, Any]) -> bool:
        wanted, is_from_me = self._options.from_me, key.get("fromMe")
        return wanted is None or not isinstance(is_from_me, bool) or is_from_me is wanted

    def _chat_passes(self, key: dict[str, Any]) -> bool:
        options, chat = self._options, key.get("remoteJid")
        if not isinstance(chat, str):
            return True
        if (chat == STATUS and not options.status_broadcasts) or (
            chat.endswith("@g.us") and not options.groups
        ):
            return False
        jids = [jid for jid in (chat, key.get("participant")) if isinstance(jid, str)]
        if self._deny is not None and any(map(self._deny.fullmatch, jids)):
            return False
        return self._allow is None or any(map(self._allow.fullmatch, jids))

    def _type_passes(self, data: dict[str, Any]) -> bool:
        wanted, found = self._options.message_types, data.get("messageType")
        return not wanted or not isinstance(found, str) or found in wanted


def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)) if patterns else None


_filters: OrderedDict[str, tuple[float, Filter]] = OrderedDict()


def _filter_of(registration: Registration, block: Any) -> Filter:
    """The filter of a registration, compiled again only where the registration was changed."""
    found = _filters.pop(registration.id, None)
    if found is None or found[0] != registration.updated_at:
        found = (registration.updated_at, Filter(msgspec.convert(block, Options)))
    _filters[registration.id] = found
    if len(_filters) > CACHED:
        _filters.popitem(last=False)
    return found[1]


@hookimpl
def hookgw_check_registration(options: dict[str, Any]) -> None:
    """Refuse an unknown option, a wrong type, and patterns that are empty, too long or too many."""
    msgspec.convert(options, Options)


@hookimpl
def hookgw_filter(event: Event, registration: Registration) -> bool | None:
    """Drop what the registration does not want."""
    block = registration.plugins.get(NAME)
    if block is None:
        return None
    return _filter_of(registration, block).passes(event.data)
