"""Making, listing and revoking keys, while the gateway runs.

What may be done is decided by rules without I/O; a change is on disk before it takes effect, and it takes
effect at once.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec
import structlog

from hookgw.auth.keyring import CONFIGURED_KEY, KeyHolder, Keyring, new_key
from hookgw.gateway.keyring_loading import GlobalKeys
from hookgw.gateway.registry import Registry
from hookgw.gateway.shielded import completes
from hookgw.models.api_keys import Key, Principal
from hookgw.models.clock import Clock, rfc3339
from hookgw.models.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized
from hookgw.models.registrations import GLOBAL_INSTANCE

logger = structlog.get_logger("hookgw.keys")

MAX_KEYS = 32
"""The most keys of one instance, and the most global ones."""


class KeyService:
    """What can be done to keys; the arguments are the gateway's own parts.

    ``scope`` is the instance whose keys are meant, or ``None`` for the global ones. Whether a caller may
    touch it has been checked.
    """

    def __init__(self, keyring: Keyring, registry: Registry, global_keys: GlobalKeys, clock: Clock) -> None:
        self._keyring = keyring
        self._registry = registry
        self._global = global_keys
        self._clock = clock

    def principal_of(self, key: str | None) -> Principal | None:
        """Return the principal that owns a key; ``None`` if the key is unknown, expired or missing."""
        holder = self._keyring.find(key)
        return None if holder is None else holder.principal

    def list(self, scope: str | None) -> list[Key]:
        """The keys, the oldest first, also those that have expired and have not been cleared away yet.

        Raises:
            NotFound: there is no such instance.
        """
        first = (self._global.configured,) if scope is None else ()
        return [*(key for key in first if key is not None), *self._stored(scope)]

    @completes
    async def create(
        self, scope: str | None, name: str, *, expires_at: float | None, maker: KeyHolder
    ) -> tuple[Key, str]:
        """Make a key. Those of the same scope that have expired are cleared away.

        Args:
            scope: see the class.
            name: of the new key.
            expires_at: seconds since the epoch; ``None`` for as long as the maker's own key.
            maker: whose key asks for it.

        Returns:
            What is kept of it, and the key itself, which cannot be shown again.

        Raises:
            Invalid: it would have expired already.
            NotFound: there is no such instance.
            Conflict: the name is taken, or there are too many keys.
            Forbidden: it would outlive the maker's own key.
            Unauthorized: the maker's key was revoked or has expired meanwhile.
        """
        async with self._registry.changing(scope or GLOBAL_INSTANCE):
            self._check_held(maker)
            now, stored = self._clock.steady(), self._stored(scope)
            kept = tuple(key for key in stored if not key.is_expired(now))
            _check_room(kept, name, reserved=scope is None)
            key = new_key()
            made = Key(
                name=name,
                hash=self._keyring.hash(key),
                created_at=self._clock.wall(),
                expires_at=maker.key.expires_at if expires_at is None else expires_at,
                origin="" if scope != maker.principal.instance else maker.key.origin or maker.key.name,
            )
            if made.is_expired(now):
                raise Invalid(f"The key would have expired already: it is {rfc3339(now)} here.")
            _check_lifetime(made, maker.key, "makes no key")
            await self._put(scope, (*kept, made))
            self._keyring.remove(scope, (key for key in stored if key.is_expired(now)))
            if scope is None:
                self._keyring.add_global(made)
            else:
                self._keyring.add_instance(scope, [made])
        expires = None if made.expires_at is None else rfc3339(made.expires_at)
        logger.info("key made", instance=scope, name=name, expires_at=expires, maker=maker.key.name)
        return made, key

    @completes
    async def revoke(self, scope: str | None, name: str, *, by: KeyHolder) -> None:
        """Revoke a key: from now on it opens nothing.

        Raises:
            NotFound: there is no such instance, or no key of that name.
            Conflict: it is the global key of the settings, or the last global key that never expires.
            Forbidden: it would outlive the caller's own key, or it is the last one and an instance key asks.
            Unauthorized: the caller's key was revoked or has expired meanwhile.
        """
        async with self._registry.changing(scope or GLOBAL_INSTANCE):
            self._check_held(by)
            stored = self._stored(scope)
            left = tuple(key for key in stored if key.name != name)
            if len(left) == len(stored):
                self._refuse_unknown(scope, name)
            (gone,) = (key for key in stored if key.name == name)
            _check_lifetime(gone, by.key, "revokes none")
            if not by.principal.is_global:
                self._check_another(left)
            if scope is None:
                self._check_lasting(left)
            await self._put(scope, left)
            self._keyring.remove(scope, [gone])
        logger.info("key revoked", instance=scope, name=name, by=by.key.name)

    def _stored(self, scope: str | None) -> tuple[Key, ...]:
        return self._global.stored if scope is None else self._registry.instance(scope).keys

    async def _put(self, scope: str | None, keys: tuple[Key, ...]) -> None:
        if scope is None:
            await self._global.put(keys)
        else:
            instance = self._registry.instance(scope)
            await self._registry.put_instance(msgspec.structs.replace(instance, keys=keys))

    def _check_held(self, holder: KeyHolder) -> None:
        """A caller that took its time over the request must not act on a key that it lost meanwhile."""
        if not self._keyring.is_held(holder):
            raise Unauthorized("The key is no longer valid.")

    def _refuse_unknown(self, scope: str | None, name: str) -> NoReturn:
        if scope is None and name == CONFIGURED_KEY and self._global.configured is not None:
            raise Conflict(
                f"The key {name!r} is auth.global_key of the configuration: change it there, and restart."
            )
        raise NotFound(f"There is no key {name!r}.")

    def _check_another(self, left: tuple[Key, ...]) -> None:
        now = self._clock.steady()
        if all(key.is_expired(now) for key in left):
            raise Forbidden(
                "This is the last key of the instance: make another one first, or use the global key."
            )

    def _check_lasting(self, left: tuple[Key, ...]) -> None:
        if self._global.configured is None and all(key.expires_at is not None for key in left):
            raise Conflict("This is the last global key that never expires: make another such key first.")


def _check_room(kept: tuple[Key, ...], name: str, *, reserved: bool) -> None:
    if reserved and name == CONFIGURED_KEY:
        raise Conflict(f"{name!r} is the name of auth.global_key of the configuration; choose another.")
    if any(key.name == name for key in kept):
        raise Conflict(f"The name {name!r} is taken by another key; choose another.")
    if len(kept) >= MAX_KEYS:
        raise Conflict(f"There are {MAX_KEYS} keys already, which is the most; revoke one first.")


def _check_lifetime(key: Key, own: Key, what: str) -> None:
    """A key that expires is no way to keep, or to take away, what lasts longer than it."""
    if key.outlives(own):
        assert own.expires_at is not None  # noqa: S101 -- nothing outlives what never expires
        raise Forbidden(f"This key expires at {rfc3339(own.expires_at)}: it {what} that outlives it.")
