"""Events, event kinds and the catalog of kinds. No I/O.

An event's payload travels as the JSON bytes that it came in: nothing between accept and delivery
decodes it unless a plugin looks at it, so the order of keys and the spelling of numbers survive.
"""

from __future__ import annotations

import difflib
import random
import re
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import msgspec

from hookgw.models.clock import rfc3339
from hookgw.models.errors import Invalid

EVENT_ID = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)
"""What an event id looks like; no ``.`` in it, because the signature joins its parts with one."""

_random_bits = random.Random().getrandbits  # noqa: S311 -- seeded by the system, for ids that are no secrets


class Event(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Something that happened on an instance. Immutable once accepted.

    Attributes:
        id: 1 to 255 characters of ``A-Z a-z 0-9 _ -``; unique within the instance. It is the
            ``webhook-id`` of every attempt, resend and replay.
        kind: the canonical name of an event kind, for example ``MESSAGES_UPSERT``.
        instance: the instance's name.
        data_json: the payload, as JSON in UTF-8.
        time: when it happened, in seconds since the epoch.
        sender: the account that the instance is connected as, where it is known.
        server_url: the address of the gateway that saw the event first, where it is known.
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
        """The payload, decoded. Treat it as read-only; use :meth:`replace` to change it."""
        return msgspec.json.decode(self.data_json)

    @property
    def date_time(self) -> str:
        """When it happened, as RFC 3339 with ``Z``."""
        return rfc3339(self.time)

    @staticmethod
    def encode(data: Any) -> bytes:
        """A payload as JSON.

        Raises:
            TypeError: it cannot be written as JSON.
        """
        return msgspec.json.encode(data)

    def replace(self, *, data: Any = msgspec.UNSET, kind: str | None = None) -> Event:
        """A copy with another payload or kind; id, instance and time stay.

        Raises:
            TypeError: ``data`` cannot be written as JSON.
        """
        data_json = self.data_json if data is msgspec.UNSET else self.encode(data)
        return msgspec.structs.replace(self, data_json=data_json, kind=kind or self.kind)


def new_event_id() -> str:
    """A fresh event id: ``msg_``, the time in milliseconds (48 bits), and 80 random bits.

    Ids that grow with time keep the store's index of them together, which makes commits cheaper. They
    are unique and no secrets: the system's source of random bits would give up Python's lock for each.
    """
    return f"msg_{time.time_ns() // 1_000_000:012x}{_random_bits(80):020x}"


class EventKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of event that registrations can ask for.

    Attributes:
        name: capital letters, digits and underscores, for example ``MESSAGES_UPSERT``.
        meaning: one sentence for people who choose kinds.
        schema: JSON Schema (2020-12) of ``data``.
        example: a payload that satisfies the schema.
        dotted: the other spelling, for example ``messages.upsert``; made from the name if empty.
        aliases: further names that mean the same kind.
        plugin: the plugin that adds the kind; empty for the built-in ones.
        operational: whether hookgw alone raises it, for those who operate it; see ``docs/operations.md``.
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
        return self.dotted or self.name.lower().replace("_", ".", 1).replace("_", "-")


def path_segment(kind: str) -> str:
    """What ``byEvents`` adds to the URL's path for the kind of that name: ``messages-upsert``."""
    return kind.lower().replace("_", "-")


class Catalog:
    """All known event kinds, found by any spelling."""

    def __init__(self, kinds: Iterable[EventKind] = ()) -> None:
        self._kinds: dict[str, EventKind] = {}
        self._spellings: dict[str, EventKind] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: EventKind) -> None:
        """Add a kind.

        Raises:
            ValueError: the name is malformed, or one of its spellings is taken by another kind.
        """
        name = kind.name
        if not (name.isascii() and name.replace("_", "").isalnum() and name == name.upper()):
            raise ValueError(f"{name!r} is no event kind: use capital letters, digits and underscores")
        spellings = {_fold(spelling) for spelling in (name, kind.dotted_name, *kind.aliases)}
        for spelling in spellings:
            if spelling in self._spellings:
                other = self._spellings[spelling]
                raise ValueError(f"{name} is already known, as {other.name} of {other.plugin or 'hookgw'}")
        self._kinds[name] = kind
        for spelling in spellings:
            self._spellings[spelling] = kind

    def __iter__(self) -> Iterator[EventKind]:
        return iter(self._kinds.values())

    def __len__(self) -> int:
        return len(self._kinds)

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def get(self, spelling: str) -> EventKind | None:
        """The kind of that name, in any spelling (``MESSAGES_UPSERT``, ``messages.upsert``)."""
        return self._kinds.get(spelling) or self._spellings.get(_fold(spelling))

    def resolve(self, spelling: object, where: str) -> EventKind:
        """The kind of that name.

        Args:
            spelling: what the caller wrote.
            where: the place to name in an error, for example ``webhook.events[1]``.

        Raises:
            Invalid: nobody knows the kind; the nearest known one is named.
        """
        if not isinstance(spelling, str):
            raise Invalid(f"{where} must be the name of an event kind, a string.")
        kind = self.get(spelling)
        if kind is not None:
            return kind
        shown = spelling if len(spelling) <= 64 else spelling[:64] + "…"
        near = difflib.get_close_matches(_fold(shown), list(self._spellings), n=1, cutoff=0.0)
        hint = f" Did you mean {self._spellings[near[0]].name}?" if near else ""
        raise Invalid(f"{where}: {shown!r} is no known event kind.{hint}")


def _fold(spelling: str) -> str:
    return spelling.upper().replace(".", "_").replace("-", "_")


class Receipt(msgspec.Struct, frozen=True):
    """What became of events that were handed in.

    Attributes:
        fresh: for each event, whether it was accepted; ``False`` for one that is known already.
        warnings: payloads that break the schema of their kind, as sentences.
    """

    fresh: list[bool]
    warnings: list[str]
