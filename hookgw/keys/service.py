"""Creates, lists and revokes API keys. A change takes effect as soon as it is on disk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import msgspec
import structlog

from hookgw.auth.keyring import CONFIGURED_KEY, KeyHolder, Keyring, new_key
from hookgw.concurrency.clock import Clock
from hookgw.core.access import check_reach, check_reach_of_tags
from hookgw.core.keyring_loading import GlobalKeys
from hookgw.core.registry import Registry
from hookgw.core.shielded import completes
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, Forbidden, Invalid, NotFound, TooManyKeys, Unauthorized
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import rfc3339
from hookgw.records.api_keys import (
    DEFAULT_KEY,
    EVERYTHING,
    RIGHTS_OF_INSTANCE,
    Key,
    Principal,
    Reach,
    Rights,
)
from hookgw.records.registrations import GLOBAL_INSTANCE

logger = structlog.get_logger("hookgw.keys")

_NO_KEY = Sentence.declared("key.not_found", "There is no key {name!r}.")

MAX_KEYS = 32
"""The most keys of one instance, and the most of no instance that may do everything."""
MAX_LIMITED_KEYS = 10_000
"""The most keys of no instance with a reach or rights."""
MAX_MADE = 100
"""The most of these that one of them has made, directly or not: it must not use up the room of others."""


class KeyService(Collaborator):
    """The calls that change keys.

    ``scope`` is the name of the keys' instance, ``None`` for global keys. The caller has checked that the
    request may touch it. A method with a scope raises ``NotFound`` if there is no such instance.

    Args:
        alone: holds a lock in a fleet, so that no two nodes change the global keys at the same time.

    Attributes:
        holder_of: see :meth:`~hookgw.auth.keyring.Keyring.find`.
    """

    _keyring: Keyring
    _registry: Registry
    _global: GlobalKeys
    _clock: Clock
    _alone: Callable[[], AbstractAsyncContextManager[None]] = nullcontext

    def __post_init__(self) -> None:
        self.holder_of = self._keyring.find

    def has_value(self, key: Key, value: str) -> bool:
        return key.hash == self._keyring.hash(value)

    def global_holder(self, name: str) -> KeyHolder | None:
        """Return the holder of the global key with a name; ``None`` if there is none, or it has expired."""
        found = next((key for key in self.list(None) if key.name == name), None)
        return None if found is None else self._keyring.holder_of(found.hash)

    def check_held(self, holder: KeyHolder) -> None:
        """Check again, after a wait, that a caller's key is valid.

        Raises:
            Unauthorized: the key was revoked, its instance was deleted, or it has expired.
        """
        # A caller that sends its request slowly must not act with a key that was revoked meanwhile.
        if not self._keyring.is_held(holder):
            raise Unauthorized.of("key.no_longer_valid", "The key is no longer valid.")

    @completes
    async def ensure_lasting_global_key(self, show_key: Callable[[str], None]) -> None:
        """Create a global key if every one expires: otherwise the operator is locked out one day.

        Call this once the API listens. A start that fails must not use up the key that it shows.

        Args:
            show_key: called with the new key, if there is one. It cannot be shown again.

        Raises:
            StorageUnavailable: the disk refuses; the key that was shown is not valid.
        """
        async with self._registry.changing(GLOBAL_INSTANCE), self._alone():
            if self._global.includes_lasting():
                return
            stored = self._global.stored
            names = (DEFAULT_KEY, *(f"{DEFAULT_KEY}-{number}" for number in range(2, len(stored) + 2)))
            name = next(name for name in names if name not in stored)
            generated = new_key()
            # Shown before its hash is stored: a process that is killed in between generates another key at
            # its next start. In the other order, the hash of an unseen key would lock the operator out.
            show_key(generated)
            key = Key(name=name, hash=self._keyring.hash(generated), created_at=self._clock.wall())
            await self._global.put(key)
            self._keyring.add_global(key)

    def names_of(self, reach: Reach | None) -> list[str] | None:
        """Return the present names of the instances that a reach names, sorted; ``None`` for any."""
        if reach is None or reach.instances is None:
            return None
        return [one.name for one in self._registry.instances() if one.id in reach.instances]

    def list(self, scope: str | None, *, seen_by: KeyHolder | None = None) -> list[Key]:
        """Return the keys, the oldest first, including expired keys that have not been removed yet.

        Args:
            seen_by: the caller: keys that can do more than this one are left out.
        """
        if scope is not None:
            found = [*self._registry.instance(scope).keys]
        else:
            configured = self._global.configured
            found = [*([] if configured is None else [configured]), *self._global.all()]
        return [key for key in found if seen_by is None or _is_under(key, scope, seen_by)]

    @completes
    async def create(
        self,
        scope: str | None,
        name: str,
        *,
        maker: KeyHolder,
        expires_at: float | None = None,
        tags: Mapping[str, str] | None = None,
        instances: Sequence[str] | None = None,
        rights: Sequence[str] | None = None,
        value: str | None = None,
        **given: Any,
    ) -> tuple[Key, str]:
        """Create a key, and remove the expired keys of the same scope.

        Args:
            expires_at: seconds since the epoch; ``None`` for the expiry of the maker's key.
            maker: the holder of the key that makes the request.
            tags, instances: the reach; with neither, that of the maker's key. It never goes beyond that.
            rights: as in :meth:`Rights.of`; ``None`` for those of the maker's key.
            value: the key itself; ``None`` to make one.
            given: further fields of the key.

        Returns:
            The stored part of the key, and the key itself, which cannot be shown again.

        Raises:
            Invalid: the key would have expired already.
            Conflict: the name is taken.
            TooManyKeys: as many keys as allowed are there.
            Forbidden: the key would outlive the maker's key, or could do more.
            ForeignKey: the maker's key does not reach one of the instances.
            NotFound: one of the instances does not exist.
            Unauthorized: the maker's key was revoked, or has expired, meanwhile.
        """
        async with self._changing(scope):
            self.check_held(maker)
            now, stored = self._clock.steady(), self._stored(scope)
            reach = self.reach_of(scope, maker, tags, instances)
            words = None if rights is None else Rights.of(rights).words
            if words is None and not (scope is None and maker.principal.is_operator):
                words = maker.principal.rights.words
            if scope is not None and words is not None and Rights.of(words) == RIGHTS_OF_INSTANCE:
                words = None  # all that a key of an instance can have
            # Expired keys are removed here and nowhere else, so that `list` can show that one has expired.
            kept = tuple(key for key in stored if not key.is_expired(now))
            if scope is None and name == CONFIGURED_KEY:
                raise Conflict.of(
                    "key.name_reserved",
                    "{name!r} is reserved for auth.global_key; choose another name.",
                    name=name,
                )
            if any(key.name == name for key in kept):
                raise Conflict.of(
                    "key.name_taken",
                    "The name {name!r} is taken by another key; choose another.",
                    name=name,
                )
            origin = "" if scope != maker.principal.instance else maker.key.origin or maker.key.name
            creator = maker.limits.creator
            key = value or new_key()
            self._check_room(scope, kept, creator, reach is not None or words is not None)
            made = Key(
                name=name,
                hash=self._keyring.hash(key),
                created_at=self._clock.wall(),
                expires_at=maker.key.expires_at if expires_at is None else expires_at,
                origin=origin,
                creator=creator,
                reach=reach,
                rights=words,
                **given,
            )
            if made.is_expired(now):
                raise Invalid.of(
                    "key.expired_already",
                    "The key would have expired already: it is {now} now.",
                    now=rfc3339(now),
                )
            _check_lifetime(made, maker.key)
            if not maker.principal.covers(made.principal(scope)):
                raise Forbidden(_more_than(maker.principal, made.principal(scope)))
            # First: the value of an expired key may come again.
            self._keyring.remove(scope, (key for key in stored if key.is_expired(now)))
            unusable = Sentence(
                "key.value_unusable", "This value cannot be used. Choose another, or omit it."
            )
            with self._keyring.claiming(key, unusable):
                # On disk before it opens anything: a key that worked must not be gone after a crash.
                await self._put(scope, (*kept, made))
                if scope is None:
                    self._keyring.add_global(made)
                else:
                    self._keyring.add_instance(scope, [made])
        expires = None if made.expires_at is None else rfc3339(made.expires_at)
        logger.info("key created", instance=scope, name=name, expires_at=expires, maker=maker.key.name)
        return made, key

    @completes
    async def revoke(self, scope: str | None, name: str, *, by: KeyHolder) -> None:
        """Revoke a key, at once.

        Raises:
            NotFound: there is no such instance, or no key of that name.
            Conflict: it is the global key of the configuration, or the last global key that never expires.
            Forbidden: the key outlives the caller's key, or it is the instance's last key and the caller's
                is an instance key.
            Unauthorized: the caller's key was revoked, or has expired, meanwhile.
        """
        async with self._changing(scope):
            self.check_held(by)
            stored = self._stored(scope)
            remaining = tuple(key for key in stored if key.name != name)
            if len(remaining) == len(stored):
                if scope is None and name == CONFIGURED_KEY and self._global.configured is not None:
                    raise Conflict.of(
                        "key.of_configuration",
                        "The key {name!r} is auth.global_key: change it in the configuration, and restart.",
                        name=name,
                    )
                raise NotFound(_NO_KEY(name=name))
            (revoked,) = (key for key in stored if key.name == name)
            if not _is_under(revoked, scope, by):
                raise NotFound(_NO_KEY(name=name))  # it may be another tenant's
            _check_lifetime(revoked, by.key)
            now = self._clock.steady()
            is_own = by.principal.instance is not None
            if is_own and all(key.is_expired(now) for key in remaining):
                raise Forbidden.of(
                    "key.last_of_instance",
                    "This is the last key of the instance: create another one first, or use the global key.",
                )
            if scope is None and not revoked.is_limited and not self._global.includes_lasting(besides=name):
                raise Conflict.of(
                    "key.last_global",
                    "This is the last global key that never expires: create another one first.",
                )
            # Here, too: a revoked key must not open anything after a crash.
            await self._put(scope, remaining)
            self._keyring.remove(scope, [revoked])
        logger.info("key revoked", instance=scope, name=name, by=by.key.name)

    @asynccontextmanager
    async def _changing(self, scope: str | None) -> AsyncIterator[None]:
        if scope is None:
            async with self._registry.changing(GLOBAL_INSTANCE), self._alone():
                yield
        else:
            async with self._registry.changing_existing(scope):
                yield

    def _stored(self, scope: str | None) -> tuple[Key, ...]:
        return tuple(self._global.all()) if scope is None else self._registry.instance(scope).keys

    async def _put(self, scope: str | None, keys: tuple[Key, ...]) -> None:
        """Store these keys instead of the stored ones."""
        if scope is None:
            wanted = {key.name: key for key in keys}
            if gone := [key for name, key in self._global.stored.items() if wanted.get(name) != key]:
                await self._global.remove(gone)
            for name, key in wanted.items():
                if name not in self._global.stored:
                    await self._global.put(key)
        else:
            instance = self._registry.instance(scope)
            await self._registry.put_instance(msgspec.structs.replace(instance, keys=keys))

    def reach_of(
        self,
        scope: str | None,
        maker: KeyHolder,
        tags: Mapping[str, str] | None,
        names: Sequence[str] | None,
    ) -> Reach | None:
        """Return the reach of a new key or link, which is within that of its maker; ``None`` for no limit.

        Raises:
            ForeignKey, NotFound: see :meth:`create`.
        """
        asked, outer = EVERYTHING, maker.principal.reach
        if tags is not None:
            check_reach_of_tags(maker.principal, tags)
            asked = Reach(tags=tuple(sorted(tags.items())))
        if names is not None:
            for one in names:
                check_reach(self._registry, maker.principal, one)
            asked = Reach(frozenset(self._registry.instance(one).id for one in names))
        elif scope is not None and outer.instances is not None:
            outer = Reach(tags=outer.tags)  # the key's instance is one of them
        # By the maker's tags as well: an instance that loses them is lost to its keys, too.
        found = asked.within(outer)
        return None if found.is_everything else found

    def _check_room(self, scope: str | None, kept: Sequence[Key], creator: str, is_limited: bool) -> None:
        """Raise ``TooManyKeys`` if there are as many keys as allowed."""
        if scope is not None:
            most, count = MAX_KEYS, len(kept)
        elif not is_limited:
            most, count = MAX_KEYS, sum(not key.is_limited for key in kept)
        else:
            most, count = MAX_LIMITED_KEYS, sum(key.is_limited for key in kept)
            if creator and count < most:
                most, count = MAX_MADE, sum(key.creator == creator for key in kept)
        if count >= most:
            raise TooManyKeys.of(
                "key.too_many",
                "There are {most:,} keys, which is the limit; revoke one first.",
                most=most,
            )


def _is_under(key: Key, scope: str | None, holder: KeyHolder) -> bool:
    """Return whether a holder may see and revoke a key: it is its own, or can do nothing more."""
    return key.hash == holder.key.hash or holder.principal.covers(key.principal(scope))


def _more_than(maker: Principal, made: Principal) -> Sentence:
    missing = [word for word in made.rights.words if not maker.rights.covers(Rights.of([word]))]
    if missing:
        return Sentence(
            "key.right_lacking",
            "This key does not have {rights}, so it cannot make a key that does.",
            rights=", ".join(missing),
        )
    return Sentence(
        "key.reach_lacking", "This key does not reach that far, so it cannot make a key that does."
    )


def _check_lifetime(key: Key, callers: Key) -> None:
    # A key that expires must not be a way to keep access, or to take it away, for longer than itself.
    if key.outlives(callers):
        assert callers.expires_at is not None  # noqa: S101 -- nothing outlives a key that never expires
        raise Forbidden.of(
            "key.outlives",
            "This key expires at {expires_at}: it can neither create nor revoke a key that outlives it.",
            expires_at=rfc3339(callers.expires_at),
        )
