"""Loads the keyring at start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from hookgw.auth.keyring import CONFIGURED_KEY, Keyring, new_key
from hookgw.auth.rate_limit import RateLimits
from hookgw.concurrency.clock import Clock
from hookgw.config.settings import AuthSettings
from hookgw.core.audit import Audit
from hookgw.core.audited_changes import keys_changed
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import StorageUnavailable
from hookgw.kernel.fields import Field
from hookgw.records.api_keys import WEAK, Key
from hookgw.records.instances import Instance
from hookgw.store import Store
from hookgw.store.fleet import GLOBAL_KEYS

logger = structlog.get_logger("hookgw.keys")

_SALT = "auth.salt"


class GlobalKeys(Collaborator):
    """The keys of no instance: the stored ones, and ``auth.global_key`` of the configuration, if it is set.

    Attributes:
        stored: those that may do everything. They are stored as earlier versions of hookgw do, which would
            take any other key among them for one of these.
        limited: those with a reach or rights, by name; each is a record of its own.
    """

    _store: Store
    stored: tuple[Key, ...]
    limited: dict[str, Key]
    configured: Key | None
    _audit: Audit
    _fields: Sequence[Field]

    def all(self) -> list[Key]:
        """Return the stored ones, the oldest first."""
        return sorted((*self.stored, *self.limited.values()), key=lambda key: key.created_at)

    def find(self, name: str) -> Key | None:
        return self.limited.get(name) or next((key for key in self.stored if key.name == name), None)

    async def put(self, keys: tuple[Key, ...]) -> None:
        """Store these keys instead of the stored ones."""
        audit = keys_changed(self._audit, self._fields, self.stored, keys)
        await self._store.put_value(GLOBAL_KEYS, msgspec.to_builtins(keys), audit=audit)
        self.stored = keys

    async def put_limited(self, key: Key) -> None:
        audit = keys_changed(self._audit, self._fields, (), (key,))
        await self._store.put_key(key, audit=audit)
        self.limited[key.name] = key

    async def remove_limited(self, keys: Iterable[Key]) -> None:
        removed = list(keys)
        audit = keys_changed(self._audit, self._fields, removed, ())
        await self._store.remove_keys([key.name for key in removed], audit=audit)
        for key in removed:
            self.limited.pop(key.name, None)

    def apply_limited(self, keys: Mapping[str, Key | None], keyring: Keyring) -> None:
        """Take over keys that another node has stored, by name; ``None`` for a removed one."""
        for name, key in keys.items():
            former = self.limited.pop(name, None)
            if former is not None and former != key:
                keyring.remove(None, [former])
            if key is not None:
                self.limited[name] = key
                if former != key:
                    keyring.add_global(key)

    def apply(self, value: Any, keyring: Keyring) -> None:
        """Take over the stored keys as another node has changed them."""
        former, self.stored = self.stored, _read_keys(value)
        keyring.remove(None, (key for key in former if key not in self.stored))
        for key in self.stored:
            if key not in former:
                keyring.add_global(key)

    def includes_lasting(self) -> bool:
        """Return whether any key never expires. If all expire, the operator is locked out one day."""
        return self.configured is not None or any(key.expires_at is None for key in self.stored)


async def open_keyring(
    store: Store,
    settings: AuthSettings,
    instances: Iterable[Instance],
    clock: Clock,
    audit: Audit,
    fields: Sequence[Field],
) -> tuple[Keyring, GlobalKeys]:
    """Load the keyring: the salt and generated global keys of the store, and the instances' keys.

    Raises:
        StorageUnavailable: the disk refuses, or the stored global keys are damaged.
    """
    salt = await store.get_value(_SALT)
    if not isinstance(salt, str):
        salt = new_key()
        await store.put_value(_SALT, salt)
    rates = RateLimits(settings.instance_key_rate, settings.global_key_rate, clock.steady)
    keyring = Keyring(salt.encode(), clock.steady, rates)
    # Instances first: if an instance's chosen token equals a global key, the global key wins.
    for instance in instances:
        keyring.add_instance(instance.name, instance.keys)
    configured = None
    if settings.global_key:
        if len(settings.global_key) < WEAK:
            logger.warning("weak key", setting="auth.global_key", characters=f"fewer than {WEAK}")
        configured = Key(name=CONFIGURED_KEY, hash=keyring.hash(settings.global_key))
    stored = _read_keys(await store.get_value(GLOBAL_KEYS))
    found = GlobalKeys(store, stored, await store.load_keys(), configured, audit, fields)
    # The configured one last: it can do everything, whatever is stored of the same key.
    for key in (*found.limited.values(), *found.stored, *([configured] if configured else ())):
        keyring.add_global(key)
    return keyring, found


def _read_keys(value: Any) -> tuple[Key, ...]:
    try:
        return () if value is None else msgspec.convert(value, tuple[Key, ...])
    except msgspec.ValidationError as error:
        raise StorageUnavailable.of(
            "storage.keys_damaged",
            "The data file is damaged: {name!r} does not contain keys ({error}).",
            name=GLOBAL_KEYS,
            error=error,
        ) from error
