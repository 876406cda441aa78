"""Keys: who a caller is and what it may touch. No I/O.

A key is known by its keyed hash alone, and the salt of that hash is the installation's own. A caller
cannot steer the hash of a guess, so how long a look-up of it takes says nothing about the keys in the
table: no comparison of secrets takes place whose time could leak.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from hookgw.auth.rate_limit import RateLimits, TokenBucket
from hookgw.models.api_keys import GLOBAL, Key, Principal
from hookgw.models.errors import Forbidden

CONFIGURED_KEY = "configuration"
"""The name of the global key of the settings; no other key can have it."""
SOURCES_OF_A_KEY = 16
"""How many places are remembered of one key."""


class KeyHolder:
    """Who holds a key, as long as the key is in the ring.

    Attributes:
        principal: what the key opens.
        key: what is kept of it.
        bucket: limits its requests, if anything does.
        sources: from where it was used lately, see ``source_of``; kept in memory alone.
    """

    __slots__ = ("bucket", "key", "principal", "sources")

    def __init__(self, principal: Principal, key: Key, bucket: TokenBucket | None) -> None:
        self.principal = principal
        self.key = key
        self.bucket = bucket
        self.sources: dict[str, None] = {}

    def note_used_from(self, source: str) -> None:
        """Take note that it was used from there; of too many sources the one known longest is forgotten."""
        if len(self.sources) >= SOURCES_OF_A_KEY:
            del self.sources[next(iter(self.sources))]
        self.sources[source] = None


def new_key() -> str:
    """A fresh key of 192 random bits."""
    return secrets.token_urlsafe(24)


class Keyring:
    """The hashes of all keys.

    Args:
        salt: random bytes of the installation, kept with its data.
        now: the time by which keys expire, in seconds since the epoch.
        rates: limits the requests of each key.
    """

    def __init__(self, salt: bytes, now: Callable[[], float], rates: RateLimits) -> None:
        self._salted = hmac.new(salt, digestmod=hashlib.sha256)
        self._now = now
        self._rates = rates
        self._holders: dict[str, KeyHolder] = {}
        self._claimed: set[str] = set()

    def hash(self, key: str) -> str:
        """The keyed hash under which a key is stored."""
        salted = self._salted.copy()
        salted.update(key.encode("utf-8", "surrogatepass"))
        return salted.hexdigest()

    def add_global(self, key: Key) -> None:
        """Let a key do everything, even where an instance has the same one."""
        self._holders[key.hash] = self._holder(GLOBAL, key)

    def add_instance(self, instance: str, keys: Iterable[Key]) -> None:
        """Let keys do what concerns the instance; what somebody has already stays his."""
        for key in keys:
            if key.hash not in self._holders:
                self._holders[key.hash] = self._holder(Principal(instance), key)

    def _holder(self, principal: Principal, key: Key) -> KeyHolder:
        group = key.name if principal.is_global else key.origin or key.name
        return KeyHolder(principal, key, self._rates.bucket(principal.instance, group))

    def remove(self, instance: str | None, keys: Iterable[Key]) -> None:
        """Forget keys of an instance, or global ones (``None``); what is somebody else's stays."""
        for key in keys:
            holder = self._holders.get(key.hash)
            if holder is not None and holder.principal.instance == instance:
                del self._holders[key.hash]

    @contextmanager
    def claiming(self, key: str) -> Iterator[str]:
        """Keep a new key from being given to anybody else for the length of a block.

        Yields:
            Its hash.

        Raises:
            Forbidden: somebody has that key already, or is being given it.
        """
        key_hash = self.hash(key)
        if key_hash in self._holders or key_hash in self._claimed:
            raise Forbidden("This token cannot be used; choose another, or leave it out.")
        self._claimed.add(key_hash)
        try:
            yield key_hash
        finally:
            self._claimed.remove(key_hash)

    def find(self, key: str | None) -> KeyHolder | None:
        """Who holds a key; ``None`` for nobody, also where it has expired."""
        if not key:
            return None
        holder = self._holders.get(self.hash(key))
        return None if holder is None or self._is_expired(holder) else holder

    def is_held(self, holder: KeyHolder) -> bool:
        """Whether a holder that was found a while ago still holds its key."""
        return self._holders.get(holder.key.hash) is holder and not self._is_expired(holder)

    def _is_expired(self, holder: KeyHolder) -> bool:
        return holder.key.expires_at is not None and holder.key.is_expired(self._now())
