"""The keyring of an installation, over restarts of a real store."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.public.app import AUDITED
from tests.public.auth import CONFIGURED_KEY, Keyring, RateLimits
from tests.public.concurrency import Clock
from tests.public.config import AuthSettings
from tests.public.core import Audit, GlobalKeys, open_keyring
from tests.public.records import Instance, Key, Principal
from tests.public.store import open_store

SALT = "the-salt"
OLD_KEY = "the-key-that-an-earlier-start-made"
OLD_HASH = Keyring(SALT.encode(), float, RateLimits(0, 0, float)).hash(OLD_KEY)


async def opened(path: Path, *instances: Instance, key: str | None = None) -> tuple[Keyring, GlobalKeys]:
    async with open_store(path / "hookgw.db", clock=Clock()) as store:
        audit = Audit(store, Clock())
        return await open_keyring(
            store, AuthSettings(global_key=key), instances, Clock(), audit, AUDITED.keys
        )


async def put(path: Path, *keys: Key) -> None:
    """Write the salt and keys as an earlier start left them."""
    async with open_store(path / "hookgw.db", clock=Clock()) as store:
        await store.put_value("auth.salt", SALT)
        for key in keys:
            await store.put_key(key)


def owner(ring: Keyring, key: str) -> Principal | None:
    holder = ring.find(key)
    return None if holder is None else holder.principal


async def test_a_configured_key_is_one_of_them(tmp_path: Path) -> None:
    await put(tmp_path, Key(name="default", hash=OLD_HASH))
    ring, keys = await opened(tmp_path, key="configured")
    assert owner(ring, "configured") == owner(ring, OLD_KEY) == Principal()
    assert keys.configured is not None
    assert (keys.configured.name, len(keys.stored)) == (CONFIGURED_KEY, 1)
    ring, keys = await opened(tmp_path)
    assert owner(ring, "configured") is None
    assert owner(ring, OLD_KEY) == Principal()


@pytest.mark.parametrize(("key", "told"), [("k" * 15, True), ("k" * 16, False)])
async def test_a_short_configured_key_is_worth_a_warning(key: str, told: bool, tmp_path: Path) -> None:
    with capture_logs() as logs:
        await opened(tmp_path, key=key)
    assert [log["event"] for log in logs] == ["weak key"] * told
    assert key not in repr(logs)


async def test_instance_keys_outlive_a_restart(tmp_path: Path) -> None:
    ring, _ = await opened(tmp_path, key="g")
    shop = Instance(name="shop", id="1", keys=(Key(name="crm", hash=ring.hash("shop-key")),))
    ring, _ = await opened(tmp_path, shop, key="g")
    assert owner(ring, "shop-key") == Principal("shop")


async def test_the_keys_of_no_instance_are_taken_over_from_other_nodes(tmp_path: Path) -> None:
    await put(tmp_path)
    ring, keys = await opened(tmp_path, key="g")
    acme = Key(name="acme", hash=ring.hash("acme-key"), rights=("read",))
    keys.apply({"acme": acme}, ring)
    first = ring.find("acme-key")
    assert first is not None
    keys.apply({"acme": acme}, ring)
    assert ring.find("acme-key") is first  # nothing has changed: its sessions and buckets stay
    keys.apply({"acme": None}, ring)
    assert ring.find("acme-key") is None
    assert not ring.is_held(first)
