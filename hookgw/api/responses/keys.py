"""Answers about keys."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from hookgw.api.responses.common import Time


class Key(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is kept of a key; nobody can show the key itself again.

    Attributes:
        name: among the keys of its instance, or among the global ones.
        instance: whose it is; ``null`` for a global key.
        state: whether it opens anything.
        created_at: when it was made; ``null`` where that is not known.
        expires_at: when it stops opening anything; ``null`` for never.
        origin: the key from which it descends; ``null`` where a global key made it for an instance.
        current: whether this call was made with it.
    """

    name: str
    instance: str | None
    state: Literal["active", "expired"]
    created_at: Time | None
    expires_at: Time | None
    origin: str | None
    current: bool


class CreatedKey(Key, frozen=True, kw_only=True, rename="camel"):
    """A key that was just made.

    Attributes:
        key: the key itself, which is shown only here.
        warnings: what was ignored of the request.
    """

    key: str
    warnings: list[str] | UnsetType = UNSET
