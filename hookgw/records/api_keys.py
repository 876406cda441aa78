"""API keys as hookgw stores them, and their owners. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from hookgw.records.tags import has_tags

# The name of the key that an instance is created with, and of the global key that the first start creates.
DEFAULT_KEY = "default"
# Characters. Keys that people choose are guessable below this length; a shorter one gets a warning.
WEAK = 16
LEAST_VALUE = 32
"""The fewest characters of a key that no operator chooses: a taken value is refused, so short ones could be
guessed without a wrong key."""


class Right(StrEnum):
    """What a key may do. Rights do not include each other.

    Attributes:
        READ: find and list everything but the data of events.
        PAYLOADS: see the data of events.
        RECEIVE: pull deliveries and acknowledge them.
        SEND: send messages, emit events.
        WEBHOOKS: set, test, pause and delete webhooks.
        REPLAY: replay, resend, backfill and cancel deliveries.
        CONNECT: connect, restart and log out; change options and settings.
        INSTANCES: create and delete instances.
        KEYS: create and revoke keys.
        OPERATE: everything else.
    """

    READ = "read"
    PAYLOADS = "payloads"
    RECEIVE = "receive"
    SEND = "send"
    WEBHOOKS = "webhooks"
    REPLAY = "replay"
    CONNECT = "connect"
    INSTANCES = "instances"
    KEYS = "keys"
    OPERATE = "operate"


MEANINGS = {
    Right.READ: "find and list everything but the data of events",
    Right.PAYLOADS: "see the data of events, and search in it",
    Right.RECEIVE: "pull deliveries and acknowledge them; `receive:<label>`: of this webhook alone",
    Right.SEND: "send messages, emit events",
    Right.WEBHOOKS: "set, test, pause and delete webhooks, and see their secrets",
    Right.REPLAY: "replay, resend, backfill and cancel deliveries",
    Right.CONNECT: "connect, restart and log out; change options and settings",
    Right.INSTANCES: "create and delete instances, erase data of persons",
    Right.KEYS: "create, list and revoke keys that can no more than this one",
    Right.OPERATE: "everything else: tags, backups, nodes, what concerns all instances",
}
"""What each right allows, for documents and forms."""
_RIGHTS = frozenset(map(str, Right))
_OF_LABEL = f"{Right.RECEIVE}:"


class Rights(msgspec.Struct, frozen=True):
    """What a caller may do.

    Attributes:
        names: rights.
        label: the only webhook that ``receive`` is for; ``None`` for all of them.
    """

    names: frozenset[Right]
    label: str | None = None

    @classmethod
    def of(cls, words: Iterable[str]) -> Rights:
        """Return rights as requests and records name them: ``read``, ``receive``, ``receive:crm``.

        Words that this version does not know give nothing.
        """
        names: set[Right] = set()
        labels: set[str] = set()
        for word in words:
            if word in _RIGHTS:
                names.add(Right(word))
            elif word.startswith(_OF_LABEL):
                labels.add(word.removeprefix(_OF_LABEL))
        if not labels or Right.RECEIVE in names:
            return cls(frozenset(names))
        return cls(frozenset({*names, Right.RECEIVE}), min(labels))

    @property
    def words(self) -> tuple[str, ...]:
        """The rights as requests and records name them, in the order of the table."""
        label = "" if self.label is None else f":{self.label}"
        return tuple(
            f"{right}{label}" if right is Right.RECEIVE else str(right)
            for right in Right
            if right in self.names
        )

    def has(self, right: Right, label: str | None = None) -> bool:
        """Return whether something is allowed.

        Args:
            label: of the webhook concerned, if the right is ``receive``.
        """
        return right in self.names and (
            right is not Right.RECEIVE or self.label is None or label is None or label == self.label
        )

    def covers(self, other: Rights) -> bool:
        """Return whether all that ``other`` allows is allowed by these, too."""
        has_label = Right.RECEIVE not in other.names or self.label is None or self.label == other.label
        return other.names <= self.names and has_label


ALL_RIGHTS = Rights(frozenset(Right))
RIGHTS_OF_INSTANCE = Rights(frozenset(Right) - {Right.OPERATE})
"""Of a key that belongs to an instance, unless it has fewer."""


class Tagged(Protocol):
    """An instance, as far as reach goes."""

    @property
    def id(self) -> str: ...
    @property
    def tags(self) -> Mapping[str, str]: ...


class Reach(msgspec.Struct, frozen=True, omit_defaults=True):
    """The instances that a caller may use: those that meet both conditions.

    Attributes:
        instances: ids, so that a later instance of the same name is not among them; ``None`` for any.
        tags: names with values, all of which an instance has, also one that is made later.
    """

    instances: frozenset[str] | None = None
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def is_everything(self) -> bool:
        return self.instances is None and not self.tags

    def includes(self, instance: Tagged) -> bool:
        if self.instances is not None and instance.id not in self.instances:
            return False
        return has_tags(instance.tags, self.tags)

    def covers(self, other: Reach) -> bool:
        """Return whether all that ``other`` reaches, now and later, is reached by this one, too."""
        has_ids = self.instances is None or (
            other.instances is not None and other.instances <= self.instances
        )
        return has_ids and set(self.tags) <= set(other.tags)

    def within(self, outer: Reach) -> Reach:
        """Return the reach that both have in common."""
        ids = [one.instances for one in (self, outer) if one.instances is not None]
        return Reach(frozenset.intersection(*ids) if ids else None, tuple(sorted({*self.tags, *outer.tags})))


EVERYTHING = Reach()


class Principal(msgspec.Struct, frozen=True):
    """What an authenticated caller may do, and on which instances.

    Attributes:
        instance: the name of the instance that the caller's key belongs to; ``None`` for none.
        reach: a further limit, beside that instance.
        rights: by default all; for a key of an instance, all but ``operate``, which it never has.
    """

    instance: str | None = None
    reach: Reach = EVERYTHING
    rights: Rights = ALL_RIGHTS

    def __post_init__(self) -> None:
        if self.instance is not None and Right.OPERATE in self.rights.names:
            # Nearly all keys of instances have the same rights, and a set of rights takes 700 bytes.
            fewer = (
                RIGHTS_OF_INSTANCE
                if self.rights == ALL_RIGHTS
                else Rights(self.rights.names - {Right.OPERATE}, self.rights.label)
            )
            msgspec.structs.force_setattr(self, "rights", fewer)

    @property
    def is_global(self) -> bool:
        """Whether the caller reaches everything: all instances, and what belongs to none."""
        return self.instance is None and self.reach.is_everything

    @property
    def is_operator(self) -> bool:
        return self.is_global and Right.OPERATE in self.rights.names

    def reaches(self, name: str, instance: Tagged | None) -> bool:
        """Return whether an instance is within reach.

        Args:
            name: as the caller gave it.
            instance: of that name; ``None`` if there is none. Only callers who reach everything, and keys of
                a deleted instance, may learn that.
        """
        if self.instance is not None and self.instance != name:
            return False
        return self.reach.is_everything or (instance is not None and self.reach.includes(instance))

    def covers(self, other: Principal) -> bool:
        """Return whether ``other`` can do nothing that this one cannot."""
        is_inside = self.instance is None or self.instance == other.instance
        return is_inside and self.reach.covers(other.reach) and self.rights.covers(other.rights)


class Limits(msgspec.Struct, frozen=True):
    """What a key that another one makes has of it, so that it can do no more: fields of a :class:`Key`."""

    reach: Reach | None = None
    rights: tuple[str, ...] | None = None
    expires_at: float | None = None
    creator: str = ""


NO_LIMITS = Limits()


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The stored part of an API key.

    Attributes:
        name: unique among the keys of its instance, or among the global keys.
        hash: see :meth:`Keyring.hash`; the key itself is not stored.
        created_at: seconds since the epoch; 0 if unknown.
        expires_at: the time from which the key is refused; ``None`` for never.
        origin: the name of the first key in the chain of keys that created this one; empty if this key is the
            first, because it came with its instance or a global key created it.
        creator: the name of the first key in that chain, of any scope, that is no operator's; this
            key counts as that one in limits. Empty if there is none.
        reach: which instances it is for; ``None`` for its own, or everything.
        rights: as in :meth:`Rights.of`; ``None`` for all.
        declared_by: the name of the document whose ``apply`` made it; empty if none did.
    """

    name: str
    hash: str
    created_at: float = 0.0
    expires_at: float | None = None
    # An instance key may create further keys: they share the rate limit of their origin, so that creating
    # keys does not multiply what one tenant may send.
    origin: str = ""
    declared_by: str = ""
    creator: str = ""
    reach: Reach | None = None
    rights: tuple[str, ...] | None = None

    @property
    def is_limited(self) -> bool:
        """Whether the key has a reach or rights of its own."""
        return self.reach is not None or self.rights is not None

    def principal(self, instance: str | None) -> Principal:
        """Return what the key may do.

        Args:
            instance: the name of the instance that it belongs to; ``None`` for none.
        """
        rights = ALL_RIGHTS if self.rights is None else Rights.of(self.rights)
        return Principal(instance, self.reach or EVERYTHING, rights)

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def outlives(self, other: Key) -> bool:
        """Return whether this key is still valid after the other one has expired."""
        if other.expires_at is None:
            return False
        return self.expires_at is None or self.expires_at > other.expires_at
