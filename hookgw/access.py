"""Keys: who a caller is and what it may touch. No I/O.

A key is known by its keyed hash alone, and the salt of that hash is the installation's own. A caller
cannot steer the hash of a guess, so how long a look-up of it takes says nothing about the keys in the
table: no comparison of secrets takes place whose time could leak.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from hookgw.errors import Forbidden


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


def new_key() -> str:
    """A fresh key of 192 random bits."""
    return secrets.token_urlsafe(24)


class Keyring:
    """The hashes of all keys.

    Args:
        salt: random bytes of the installation, kept with its data.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._principals: dict[str, Principal] = {}
        self._claimed: set[str] = set()

    def hash(self, key: str) -> str:
        """The keyed hash under which a key is stored."""
        return hmac.new(self._salt, key.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def add_global(self, key_hash: str) -> None:
        """Let the key of that hash do everything."""
        self._principals[key_hash] = GLOBAL

    def add_instance(self, instance: str, key_hashes: Iterable[str]) -> None:
        """Let the keys of those hashes do what concerns the instance."""
        for key_hash in key_hashes:
            self._principals.setdefault(key_hash, Principal(instance))

    def remove(self, key_hashes: Iterable[str]) -> None:
        """Forget instance keys."""
        for key_hash in key_hashes:
            if self._principals.get(key_hash, GLOBAL) is not GLOBAL:
                del self._principals[key_hash]

    @contextmanager
    def claiming(self, key: str) -> Iterator[str]:
        """Keep a new key from being given to anybody else for the length of a block.

        Yields:
            Its hash.

        Raises:
            Forbidden: somebody has that key already, or is being given it.
        """
        key_hash = self.hash(key)
        if key_hash in self._principals or key_hash in self._claimed:
            raise Forbidden("This token cannot be used; choose another, or leave it out.")
        self._claimed.add(key_hash)
        try:
            yield key_hash
        finally:
            self._claimed.remove(key_hash)

    def authenticate(self, key: str | None) -> Principal | None:
        """Whose key it is; ``None`` for nobody's."""
        if not key:
            return None
        return self._principals.get(self.hash(key))
