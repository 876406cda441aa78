"""The keyring of an installation, over restarts of a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookgw.access import Keyring, Principal
from hookgw.clock import Clock
from hookgw.keys import open_keyring
from hookgw.registrations import Instance
from hookgw.settings import AuthSettings
from hookgw.store import open_store


async def opened(path: Path, shown: list[str], *instances: Instance, key: str | None = None) -> Keyring:
    async with open_store(path, clock=Clock()) as store:
        return await open_keyring(store, AuthSettings(global_key=key), instances, shown.append)


async def test_a_global_key_is_made_once_and_shown_once(tmp_path: Path) -> None:
    shown: list[str] = []
    first = await opened(tmp_path / "hookgw.db", shown)
    again = await opened(tmp_path / "hookgw.db", shown)
    [key] = shown
    assert first.authenticate(key) == again.authenticate(key) == Principal()
    assert key.encode() not in (tmp_path / "hookgw.db").read_bytes()


async def test_a_configured_key_is_the_only_global_one(tmp_path: Path) -> None:
    shown: list[str] = []
    await opened(tmp_path / "hookgw.db", shown)
    configured = await opened(tmp_path / "hookgw.db", shown, key="configured")
    [made] = shown
    assert configured.authenticate("configured") == Principal()
    assert configured.authenticate(made) is None


async def test_a_key_that_could_not_be_shown_is_made_anew(tmp_path: Path) -> None:
    def killed(key: str) -> None:
        raise KeyboardInterrupt

    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        with pytest.raises(KeyboardInterrupt):
            await open_keyring(store, AuthSettings(), (), killed)
    shown: list[str] = []
    keyring = await opened(tmp_path / "hookgw.db", shown)
    assert keyring.authenticate(shown[0]) == Principal()


async def test_instance_keys_outlive_a_restart(tmp_path: Path) -> None:
    key_hash = (await opened(tmp_path / "hookgw.db", [], key="g")).hash("shop-key")
    shop = Instance(name="shop", id="1", key_hashes=(key_hash,))
    keyring = await opened(tmp_path / "hookgw.db", [], shop, key="g")
    assert keyring.authenticate("shop-key") == Principal("shop")
