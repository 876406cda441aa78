"""Responses about keys."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from hookgw.kernel.schema_parts import Time


class Key(Struct, frozen=True, kw_only=True, rename="camel"):
    """The stored data of a key. hookgw stores only a hash of the key and cannot show the key again.

    Attributes:
        name: unique among the keys of the instance, or among the global keys.
        instance: the instance's name; ``null`` for a global key.
        state: whether the key is valid.
        created_at: when the key was created; ``null`` if unknown.
        expires_at: when the key expires; ``null`` for never.
        origin: the first key of the chain in which each key created the next; ``null`` if a global key
            created this one for an instance.
        current: whether this call used the key.
    """

    name: str
    instance: str | None
    state: Literal["active", "expired"]
    created_at: Time | None
    expires_at: Time | None
    origin: str | None
    current: bool


class CreatedKey(Key, frozen=True, kw_only=True, rename="camel"):
    """A new key.

    Attributes:
        key: the key itself, which is shown only here.
        warnings: fields of the request that were ignored.
    """

    key: str
    warnings: list[str] | UnsetType = UNSET
