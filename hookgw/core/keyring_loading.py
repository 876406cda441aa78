"""Loads the keyring at start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import structlog

from hookgw.auth.keyring import CONFIGURED_KEY, Keyring, new_key
from hookgw.auth.rate_limit import RateLimits
from hookgw.concurrency.clock import Clock
from hookgw.config.settings import AuthSettings
from hookgw.core.audit import Audit
from hookgw.core.audited_changes import keys_changed
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.fields import Field
from hookgw.records.api_keys import WEAK, Key
from hookgw.records.instances import Instance
from hookgw.store import Store

logger = structlog.get_logger("hookgw.keys")

_SALT = "auth.salt"


class GlobalKeys(Collaborator):
    """The keys of no instance: the stored ones, by name, and ``auth.global_key``, if it is set."""

    _store: Store
    stored: dict[str, Key]
    configured: Key | None
    _audit: Audit
    _fields: Sequence[Field]

    def all(self) -> list[Key]:
        """Return the stored ones, the oldest first."""
        return sorted(self.stored.values(), key=lambda key: key.created_at)

    async def put(self, key: Key) -> None:
        audit = keys_changed(self._audit, self._fields, (), (key,))
        await self._store.put_key(key, audit=audit)
        self.stored[key.name] = key

    async def remove(self, keys: Collection[Key]) -> None:
        audit = keys_changed(self._audit, self._fields, keys, ())
        await self._store.remove_keys([key.name for key in keys], audit=audit)
        for key in keys:
            self.stored.pop(key.name, None)

    def apply(self, keys: Mapping[str, Key | None], keyring: Keyring) -> None:
        """Take over keys that another node has stored, by name; ``None`` for a removed one."""
        for name, key in keys.items():
            former = self.stored.pop(name, None)
            if former is not None and former != key:
                keyring.remove(None, [former])
            if key is not None:
                self.stored[name] = key
                if former != key:
                    keyring.add_global(key)

    def includes_lasting(self, besides: str = "") -> bool:
        """Return whether any key never expires, ``besides`` one. If all expire, the operator is locked out
        one day.
        """
        return self.configured is not None or any(
            key.expires_at is None and not key.is_limited and name != besides
            for name, key in self.stored.items()
        )


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
        StorageUnavailable: the disk refuses, or a stored key is damaged.
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
    found = GlobalKeys(store, await store.load_keys(), configured, audit, fields)
    # The configured one last: it can do everything, whatever is stored of the same key.
    for key in (*found.stored.values(), *([configured] if configured else ())):
        keyring.add_global(key)
    return keyring, found
