import base64
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.public.app import open_gateway
from tests.public.config import (
    MasterKeys,
    PluginsSettings,
    Settings,
    StorageSettings,
    new_master_key,
    parse_master_key,
    read_master_keys,
)
from tests.public.instances import load_media_key
from tests.public.kernel import StartError
from tests.support.keys import principal_of

TEXT, OLD = new_master_key(), new_master_key()
KEY = parse_master_key(TEXT)


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        (StorageSettings(), MasterKeys()),
        (StorageSettings(master_key=""), MasterKeys()),
        (StorageSettings(master_key=TEXT), MasterKeys(KEY)),
        (
            StorageSettings(master_key=TEXT, old_master_keys=("", OLD)),
            MasterKeys(KEY, (parse_master_key(OLD),)),
        ),
        (StorageSettings(master_key="clear", old_master_keys=(TEXT,)), MasterKeys(None, (KEY,), unseal=True)),
        (StorageSettings(old_master_keys=(TEXT,)), MasterKeys(None, (KEY,))),
    ],
)
def test_keys_of_the_settings(settings: StorageSettings, keys: MasterKeys) -> None:
    assert read_master_keys(settings) == keys


def test_the_key_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "master.key"
    file.write_text(TEXT + "\n")
    file.chmod(0o600)
    with capture_logs() as lines:
        found = read_master_keys(StorageSettings(master_key_file=str(file), old_master_keys=(OLD,)))
    assert found == MasterKeys(KEY, (parse_master_key(OLD),))
    assert lines == []


def test_a_key_file_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "master.key"
    file.write_text(TEXT)
    file.chmod(0o644)
    with capture_logs() as lines:
        assert read_master_keys(StorageSettings(master_key_file=str(file))).present == KEY
    assert [line["fix"] for line in lines] == [f"chmod o-r {file}"]


@pytest.mark.parametrize("content", ["", "hunter2", "ä", f"{TEXT}\n{TEXT}"], ids=range(4))
def test_a_file_without_a_key_stops_the_start(tmp_path: Path, content: str) -> None:
    file = tmp_path / "master.key"
    file.write_text(content)
    with pytest.raises(StartError, match=f"storage.master_key_file: {file} contains no master key") as caught:
        read_master_keys(StorageSettings(master_key_file=str(file)))
    assert not content or content not in str(caught.value)


def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be read: No such file"):
        read_master_keys(StorageSettings(master_key_file=str(tmp_path / "none")))


async def test_a_gateway_seals_what_it_keeps(tmp_path: Path) -> None:
    path = tmp_path / "hookgw.db"

    def settings(**storage: object) -> Settings:
        return Settings(
            storage=StorageSettings(path=str(path), **storage),  # type: ignore[arg-type]
            plugins=PluginsSettings(folders=()),
        )

    shown: list[str] = []
    options = {"token": "planted-credential"}
    async with open_gateway(settings(master_key=TEXT)) as gateway:
        await gateway.keys.ensure_lasting_global_key(shown.append)
        _, key, _ = await gateway.instances.create("shop", options=options)
    async with open_gateway(settings(master_key=OLD, old_master_keys=(TEXT,))) as gateway:
        for known in (key, shown[0]):
            assert principal_of(gateway, known) is not None
        assert gateway.instances.get("shop").options == options
    assert b"planted" not in path.read_bytes()
    with pytest.raises(StartError, match="HOOKGW_MASTER_KEY"):
        async with open_gateway(settings()):
            pass


async def test_the_key_of_links_to_files_is_sealed_and_stays_the_same(tmp_path: Path) -> None:
    """Whoever has it can read every file of every account."""
    path = tmp_path / "hookgw.db"

    async def key_of(**storage: Any) -> bytes:
        settings = Settings(
            storage=StorageSettings(path=str(path), **storage), plugins=PluginsSettings(folders=())
        )
        async with open_gateway(settings) as gateway:
            return await load_media_key(gateway.store)

    clear = await key_of()
    assert base64.b64encode(clear) in path.read_bytes()
    for storage in (
        {"master_key": TEXT},
        {"master_key": OLD, "old_master_keys": (TEXT,)},
        {"master_key": OLD},
    ):
        assert await key_of(**storage) == clear
        assert base64.b64encode(clear) not in path.read_bytes()
