"""API keys in memory. No I/O.

Only keyed hashes of keys are kept, with a salt of this installation. A caller cannot choose the hash of a
guess, so the time that a lookup in the table takes reveals nothing about the keys in it. No secrets are
compared.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from hookgw.auth.rate_limit import RateLimits, TokenBucket
from hookgw.kernel.errors import Forbidden
from hookgw.kernel.sentences import Sentence
from hookgw.records.api_keys import RIGHTS_OF_INSTANCE, Key, Limits, Principal

CONFIGURED_KEY = "configuration"
"""The name of the global key of the settings; no other key can have it."""
MAX_SOURCES_PER_KEY = 16
"""Client addresses that are remembered for one key."""


class KeyHolder:
    """The holder of a key, while the key is in the ring.

    Attributes:
        principal: the key's rights and reach.
        counted_as: the name under which shares and quotas count it, whatever its reach; ``None`` for an
            operator's key, which they do not count. The keys of an instance count together. Keys that
            another key has made, or that came with an instance that it created, count as that one: otherwise
            making them would multiply its share.
        bucket: limits the key's requests; ``None`` for no limit.
        sources: the ``rate_limit_key`` of recent clients, the oldest first; in memory only.
    """

    __slots__ = ("bucket", "counted_as", "key", "principal", "sources")

    def __init__(self, principal: Principal, key: Key, bucket: TokenBucket | None) -> None:
        self.principal = principal
        self.key = key
        self.counted_as = principal.instance
        if key.creator or (principal.instance is None and not principal.is_operator):
            self.counted_as = f"key {key.creator or key.name}"  # names of instances have no space
        self.bucket = bucket
        self.sources: dict[str, None] = {}

    @property
    def limits(self) -> Limits:
        """The limits that a new key inherits if this key creates that key, or the instance of that key."""
        mine = self.principal
        if mine.is_operator:
            return Limits()
        # By the reach as well: an instance that loses its tags is lost to its keys, too.
        return Limits(
            None if mine.reach.is_everything else mine.reach,
            None if mine.rights.covers(RIGHTS_OF_INSTANCE) else mine.rights.words,
            self.key.expires_at,
            self.key.creator or ("" if mine.instance is not None else self.key.name),
        )

    def note_used_from(self, source: str) -> None:
        """Remember that the key was used from a source; with too many of them, forget the oldest."""
        if len(self.sources) >= MAX_SOURCES_PER_KEY:
            del self.sources[next(iter(self.sources))]
        self.sources[source] = None


def new_key() -> str:
    """Return a new key of 192 random bits."""
    return secrets.token_urlsafe(24)


class Keyring:
    """The hashes of all keys.

    Args:
        salt: random bytes of this installation, stored with its data.
        now: wall-clock time in seconds since the epoch, for the expiry of keys.

    Attributes:
        installation: a short id of this installation, the same on all its nodes. It does not reveal the salt.
    """

    def __init__(self, salt: bytes, now: Callable[[], float], rates: RateLimits) -> None:
        # The salt is hashed once; each lookup copies this state, which costs a quarter less than a new HMAC.
        self._salted = hmac.new(salt, digestmod=hashlib.sha256)
        self.installation = hmac.digest(salt, b"installation", "sha256").hex()[:8]
        self._now = now
        self.rates = rates
        self._holders: dict[str, KeyHolder] = {}
        self._claimed: set[str] = set()

    def hash(self, key: str) -> str:
        """Return the keyed hash under which a key is stored."""
        salted = self._salted.copy()
        # A header may contain bytes that are not UTF-8. They arrive as lone surrogates, and must not raise.
        salted.update(key.encode("utf-8", "surrogatepass"))
        return salted.hexdigest()

    def add_global(self, key: Key) -> None:
        """Add a key of no instance. It wins over an instance's key with the same hash."""
        self._holders[key.hash] = self.make_holder(key.principal(None), key)

    def add_instance(self, instance: str, keys: Iterable[Key]) -> None:
        """Add the keys of an instance, except keys that another holder already has."""
        for key in keys:
            # An instance must not take over the key of another by storing a record with the same hash.
            if key.hash not in self._holders:
                self._holders[key.hash] = self.make_holder(key.principal(instance), key)

    def make_holder(self, principal: Principal, key: Key) -> KeyHolder:
        """Return a holder that is not in the ring, as for the session of a portal link.

        Args:
            key: says whose requests count together, by its ``creator`` or its ``origin``, and until when it
                lasts.
        """
        instance, group = principal.instance, key.name
        if key.creator:
            instance, group = None, key.creator
        elif instance is not None:
            group = key.origin or key.name
        bucket = self.rates.bucket(instance, group, is_limited=not principal.is_global)
        return KeyHolder(principal, key, bucket)

    def remove(self, instance: str | None, keys: Iterable[Key]) -> None:
        """Remove keys of an instance, or global keys (``None``); keys of other holders stay."""
        for key in keys:
            holder = self._holders.get(key.hash)
            if holder is not None and holder.principal.instance == instance:
                del self._holders[key.hash]

    @contextmanager
    def claiming(self, key: str, refusal: Sentence) -> Iterator[str]:
        """Reserve a new key within the block, in which the caller stores and adds it. Yield its hash.

        Raises:
            Forbidden: with ``refusal``: the key exists, or another block reserves it.
        """
        key_hash = self.hash(key)
        # Claimed as well as held: storing the key is async, and two callers could choose the same key
        # meanwhile.
        if key_hash in self._holders or key_hash in self._claimed:
            raise Forbidden(refusal)
        self._claimed.add(key_hash)
        try:
            yield key_hash
        finally:
            self._claimed.remove(key_hash)

    def find(self, key: str | None) -> KeyHolder | None:
        """Return the holder of a key; ``None`` if the key is unknown or has expired."""
        return self.holder_of(self.hash(key)) if key else None

    def holder_of(self, key_hash: str) -> KeyHolder | None:
        """Return the holder of the key with a hash, or ``None`` if it was revoked or has expired."""
        holder = self._holders.get(key_hash)
        return holder if holder is not None and self.is_held(holder) else None

    def is_held(self, holder: KeyHolder) -> bool:
        """Return whether a holder found earlier still holds its key."""
        # By identity: the same key may have been removed and given to another holder meanwhile.
        key = holder.key
        if self._holders.get(key.hash) is not holder:
            return False
        # Most keys never expire, and then the clock is not read.
        return key.expires_at is None or not key.is_expired(self._now())
