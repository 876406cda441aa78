"""API keys as hookgw stores them, and their owners. No I/O."""

from __future__ import annotations

import msgspec

# The name of the key that an instance is created with, and of the global key that the first start creates.
DEFAULT_KEY = "default"
# Characters. Keys that people choose are guessable below this length; a shorter one gets a warning.
WEAK = 16


class Principal(msgspec.Struct, frozen=True):
    """An authenticated caller.

    Attributes:
        instance: the only instance that the caller may use; ``None`` for all of them.
    """

    instance: str | None = None

    @property
    def is_global(self) -> bool:
        return self.instance is None

    def may(self, instance: str) -> bool:
        return self.instance is None or self.instance == instance


GLOBAL = Principal()


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The stored part of an API key.

    Attributes:
        name: unique among the keys of its instance, or among the global keys.
        hash: see :meth:`Keyring.hash`; the key itself is not stored.
        created_at: seconds since the epoch; 0 if unknown.
        expires_at: the time from which the key is refused; ``None`` for never.
        origin: the name of the first key in the chain of keys that created this one; empty if this key is the
            first, because it came with its instance or a global key created it.
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

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def outlives(self, other: Key) -> bool:
        """Return whether this key is still valid after the other one has expired."""
        if other.expires_at is None:
            return False
        return self.expires_at is None or self.expires_at > other.expires_at
