"""``/storage/backup``: into one folder, without leaving it, and never over another file."""

import stat
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio

from hookgw import Conflict, Gateway
from hookgw.core import jobs
from hookgw.operations.backups import BackupService
from hookgw.store.sqlite import backup
from tests.api.conftest import ENGINE, is_sqlite
from tests.api.test_app import shape_of
from tests.public.config import Settings, StorageSettings
from tests.store.sqlite.support import peek


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


@pytest.fixture
def settings(settings: Settings, folder: Path) -> Settings:
    storage = msgspec.structs.replace(settings.storage, backup_folder=str(folder))
    return msgspec.structs.replace(settings, storage=storage)


def prepare(folder: Path, mode: int = 0o700) -> None:
    folder.mkdir()
    folder.chmod(mode)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


@is_sqlite
async def test_a_backup_has_the_mode_and_the_content(client: httpx.AsyncClient, folder: Path) -> None:
    await client.post("/instance/create", json={"instanceName": "loja1"})
    response = await client.post("/storage/backup", json={"name": "a.db"})
    assert (response.status_code, response.json()) == (201, {"name": "a.db"})
    assert names(folder) == ["a.db"]
    assert (mode_of(folder / "a.db"), mode_of(folder)) == (0o600, 0o700)
    assert peek(folder / "a.db", "SELECT key FROM shelves WHERE shelf = 'instances'") == [(b"loja1",)]
    (entry, _) = (await client.get("/audit/list")).json()["entries"]
    assert (entry["action"], entry["subject"]) == ("storage.backup", "a.db")
    assert entry["details"] == {"bytes": str((folder / "a.db").stat().st_size)}


@is_sqlite
async def test_without_a_name_it_gets_the_time(client: httpx.AsyncClient, folder: Path) -> None:
    bodies: list[dict[str, Any]] = [{}, {"json": {}}, {"json": {"name": None}}]
    for body in bodies:
        response = await client.post("/storage/backup", **body)
        if response.status_code != 409:  # two within one second
            assert response.status_code == 201
            assert response.json()["name"] in names(folder)
    assert all(name.startswith("hookgw-20") and name.endswith("Z.db") for name in names(folder))


@pytest.mark.parametrize(
    "name", ["../a.db", "/tmp/a.db", "a/b", "..", ".", "", ".hidden", "a b", "a\0b", "x" * 129, 5, ["a"]]
)
async def test_no_name_leads_out_of_the_folder(
    client: httpx.AsyncClient, folder: Path, tmp_path: Path, name: Any
) -> None:
    response = await client.post("/storage/backup", json={"name": name})
    assert response.status_code == 400
    assert shape_of(response)[0].startswith("name must")
    assert names(folder) == []


@is_sqlite
@pytest.mark.parametrize("kind", ["file", "link", "broken link"])
async def test_nothing_is_replaced(
    client: httpx.AsyncClient, folder: Path, tmp_path: Path, kind: str
) -> None:
    prepare(folder)
    other = tmp_path / "other"
    if kind == "file":
        (folder / "a.db").write_text("precious")
    else:
        (folder / "a.db").symlink_to(other)
        if kind == "link":
            other.write_text("precious")
    response = await client.post("/storage/backup", json={"name": "a.db"})
    assert response.status_code == 409
    assert "There is a file" in shape_of(response)[0]
    assert names(folder) == ["a.db"]
    assert other.exists() == (kind == "link")


@is_sqlite
async def test_a_folder_that_others_can_write_to_is_refused(client: httpx.AsyncClient, folder: Path) -> None:
    prepare(folder, 0o777)
    response = await client.post("/storage/backup", json={"name": "a.db"})
    assert response.status_code == 503
    assert "can be written to by every user" in shape_of(response)[0]
    assert names(folder) == []


@is_sqlite
async def test_a_path_that_is_no_folder(client: httpx.AsyncClient, folder: Path) -> None:
    folder.write_text("")  # noqa: ASYNC240
    response = await client.post("/storage/backup", json={"name": "a.db"})
    assert response.status_code == 503
    assert "storage.backup_folder" in shape_of(response)[0]


async def test_only_global_keys_make_backups(client: httpx.AsyncClient, folder: Path) -> None:
    await client.post("/instance/create", json={"instanceName": "loja1", "token": "the-key-of-loja1"})
    response = await client.post(
        "/storage/backup", json={"name": "a"}, headers={"apikey": "the-key-of-loja1"}
    )
    assert response.status_code == 403
    assert names(folder) == []


class TestWithoutAFolder:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        storage = msgspec.structs.replace(settings.storage, backup_folder="")
        return msgspec.structs.replace(settings, storage=storage)

    async def test_the_setting_or_the_tools_of_a_database_are_named(self, client: httpx.AsyncClient) -> None:
        response = await client.post("/storage/backup", json={"name": "a.db"})
        assert response.status_code == 409
        named = "set storage.backup_folder" if ENGINE == "sqlite" else "back it up with pg_dump"
        assert named in shape_of(response)[0]


async def test_a_database_is_backed_up_with_its_own_tools() -> None:
    """Its configuration refuses such a folder."""
    unused: Any = None
    settings = StorageSettings(engine="postgresql", url="postgresql://h/db")
    service = BackupService(unused, unused, unused, unused, settings, unused)
    with pytest.raises(Conflict, match="pg_dump"):
        await service.create("a.db")


@is_sqlite
async def test_a_long_backup_is_a_job_and_another_one_waits_for_its_end(
    client: httpx.AsyncClient, gateway: Gateway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.01)
    monkeypatch.setattr(backup, "PAGES", 1)
    monkeypatch.setattr(backup, "LEAST_REST", 0.03)
    response = await client.post("/storage/backup", json={"name": "a.db"})
    assert response.status_code == 202
    job = response.json()["job"]
    found = (await client.get(f"/job/find/{job}")).json()
    assert (found["kind"], found["instance"], found["state"]) == ("backup", "*", "running")
    refused = await client.post("/storage/backup", json={"name": "b.db"})
    assert (refused.status_code, job in refused.text) == (409, True)
    with trio.fail_after(20):
        while found["state"] == "running":
            assert found["total"] is None or found["done"] <= found["total"]
            await trio.sleep(0.05)
            found = (await client.get(f"/job/find/{job}")).json()
    assert (found["state"], found["done"] == found["total"], found["done"] > 3) == ("done", True, True)
    assert names(folder) == ["a.db"]
    assert (await client.post("/storage/backup", json={"name": "b.db"})).status_code < 300


@is_sqlite
async def test_a_backup_that_fails_later_says_why(
    client: httpx.AsyncClient, gateway: Gateway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.01)
    monkeypatch.setattr(backup, "PAGES", 1)
    monkeypatch.setattr(backup, "LEAST_REST", 0.03)
    await trio.Path(folder).mkdir(mode=0o700, exist_ok=True)  # it may be made after the answer
    job = (await client.post("/storage/backup", json={"name": "a.db"})).json()["job"]
    (folder / "a.db").write_text("somebody else's")
    with trio.fail_after(20):
        found = (await client.get(f"/job/find/{job}")).json()
        while found["state"] == "running":
            await trio.sleep(0.05)
            found = (await client.get(f"/job/find/{job}")).json()
    assert found["state"] == "failed"
    assert "There is a file" in found["error"]
    assert names(folder) == ["a.db"]
    assert (folder / "a.db").read_text() == "somebody else's"


@is_sqlite
async def test_the_end_of_the_gateway_ends_a_backup(
    client: httpx.AsyncClient, gateway: Gateway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixtures close the gateway, and with it the store, while the copy is under way."""
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.01)
    monkeypatch.setattr(backup, "PAGES", 1)
    monkeypatch.setattr(backup, "LEAST_REST", 60.0)
    assert (await client.post("/storage/backup", json={"name": "a.db"})).status_code == 202
