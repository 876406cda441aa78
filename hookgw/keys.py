"""The keyring of an installation: read at start, with the global key made where nobody gave one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hookgw.access import Keyring, new_key
from hookgw.registrations import Instance
from hookgw.settings import AuthSettings
from hookgw.store import Store

_SALT = "auth.salt"
_GLOBAL_KEY_HASH = "auth.global_key_hash"


async def open_keyring(
    store: Store, settings: AuthSettings, instances: Iterable[Instance], show_key: Callable[[str], None]
) -> Keyring:
    """Make the keyring.

    Args:
        store: keeps the salt, and the hash of a global key that was made.
        settings: may name the global key; then that one alone is it.
        instances: their keys open what is theirs.
        show_key: called with a global key that is made just now, before its hash is kept: a process that
            is killed in between makes another one at the next start.
    """
    salt = await store.get_value(_SALT)
    if not isinstance(salt, str):
        salt = new_key()
        await store.put_value(_SALT, salt)
    keyring = Keyring(salt.encode())
    for instance in instances:
        keyring.add_instance(instance.name, instance.key_hashes)
    if settings.global_key:
        keyring.add_global(keyring.hash(settings.global_key))
    else:
        keyring.add_global(await _made_key_hash(store, keyring, show_key))
    return keyring


async def _made_key_hash(store: Store, keyring: Keyring, show_key: Callable[[str], None]) -> str:
    known = await store.get_value(_GLOBAL_KEY_HASH)
    if isinstance(known, str):
        return known
    key = new_key()
    show_key(key)
    await store.put_value(_GLOBAL_KEY_HASH, keyring.hash(key))
    return keyring.hash(key)
