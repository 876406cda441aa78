"""API keys: whose they are, and what is kept of them. No I/O."""

from __future__ import annotations

import msgspec

DEFAULT_KEY = "default"
"""The name of the key that comes with an instance, and of the global key that is made at the first start."""


WEAK = 16
"""A key of fewer characters, chosen by somebody, is worth a warning."""


class Principal(msgspec.Struct, frozen=True):
    """Who a caller is.

    Attributes:
        instance: the one instance that it may touch; ``None`` for all of them.
    """

    instance: str | None = None

    @property
    def is_global(self) -> bool:
        return self.instance is None

    def may(self, instance: str) -> bool:
        """Whether it may see and change that instance."""
        return self.instance is None or self.instance == instance


GLOBAL = Principal()


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a key.

    Attributes:
        name: among the keys of its instance, or among the global ones.
        hash: see :meth:`Keyring.hash`; the key itself is not kept.
        created_at: seconds since the epoch; 0 where it is not known.
        expires_at: the moment from which it opens nothing; ``None`` for never.
        origin: the name of the key from which it descends, by one key making the next. It is empty where a
            global key made it for an instance, or it came with one: then it is an origin itself.
    """

    name: str
    hash: str
    created_at: float = 0.0
    expires_at: float | None = None
    origin: str = ""

    def is_expired(self, now: float) -> bool:
        """Whether it opens nothing any more."""
        return self.expires_at is not None and now >= self.expires_at

    def outlives(self, other: Key) -> bool:
        """Whether it still opens something when the other does not."""
        if other.expires_at is None:
            return False
        return self.expires_at is None or self.expires_at > other.expires_at
