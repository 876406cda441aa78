"""What a backup, and a copy to a database, keep: tags, reach and rights of keys, and what ``apply`` owns."""

from pathlib import Path

import msgspec
import trio

from hookgw.store.postgresql import copy_rows as database_rows
from hookgw.store.sqlite import copy_rows as file_rows
from tests.api.conftest import KEY, is_sqlite, open_client, open_whole_gateway
from tests.public.config import Settings, StorageSettings
from tests.public.kernel import Size
from tests.public.postgresql import Server
from tests.public.store import copy_rows
from tests.support.application import create_app
from tests.support.postgres import PostgresServer

pytestmark = is_sqlite
VALUE = "k" * 40
URL = "http://127.0.0.1:9/hook"
DOCUMENT = {
    "name": "accounts",
    "instances": {
        "loja1": {"tags": {"tenant": "acme", "plan": "gold"}, "webhooks": {"crm": {"url": URL}}},
        "loja2": {"tags": {"tenant": "bolt"}, "webhooks": {"crm": {"url": URL}}},
    },
    "keys": {"of-apply": {"tags": {"tenant": "acme"}, "rights": ["read"], "value": VALUE}},
}


async def check_kept(settings: Settings, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery, open_whole_gateway(settings, base=tmp_path) as gateway:
        app = create_app(gateway)
        async with (
            open_client(app, nursery, apikey=KEY) as client,
            open_client(app, nursery, apikey=VALUE) as own,
        ):
            found = {
                one["name"]: one["tags"] for one in (await client.get("/instance/fetchInstances")).json()
            }
            assert found == {
                "loja1": {"plan": "gold", "tenant": "acme"},
                "loja2": {"tenant": "bolt"},
                "loja3": {},
            }
            # By the index, too.
            assert [one.name for one in gateway.registry.tagged([("tenant", "acme")])] == ["loja1"]
            # Its reach and its rights.
            assert [one["name"] for one in (await own.get("/instance/fetchInstances")).json()] == ["loja1"]
            assert (await own.get("/webhook/list/loja1")).status_code == 200
            assert (await own.get("/webhook/list/loja2")).status_code == 403
            assert (await own.post("/webhook/pause/loja1/crm")).status_code == 403
            again = (await client.post("/apply", json=DOCUMENT)).json()
            assert (again["changes"], again["keys"]) == ([], [])
            # What the document owns is removed with it, and nothing else.
            query = {"prune": "true", "dryRun": "true"}
            pruned = (await client.post("/apply", json={"name": "accounts"}, params=query)).json()
            removed = {one["name"] for one in pruned["changes"] if one["action"] == "delete"}
            assert removed == {"loja1", "loja2", "of-apply"}


async def test_a_backup_and_a_copy_keep_them(
    settings: Settings, postgres: PostgresServer, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir(mode=0o700)
    copy = folder / "copy.db"
    async with (
        trio.open_nursery() as nursery,
        open_whole_gateway(settings, base=tmp_path) as gateway,
        open_client(create_app(gateway), nursery, apikey=KEY) as client,
    ):
        assert (await client.post("/instance/create", json={"instanceName": "loja3"})).status_code == 201
        assert (await client.post("/apply", json=DOCUMENT)).json()["failed"] == 0
        await gateway.store.back_up(copy, lambda done, total: None)
    restored = StorageSettings(path=str(copy), min_free=Size(0))
    await check_kept(msgspec.structs.replace(settings, storage=restored), tmp_path)
    with postgres.new_schema() as schema:
        server = Server(postgres.url(), schema)
        with file_rows.open_source(copy) as rows, database_rows.open_target(server, rows.place) as others:
            copy_rows(rows, others)
        database = StorageSettings(engine="postgresql", url=postgres.url(), schema=schema, min_free=Size(0))
        await check_kept(msgspec.structs.replace(settings, storage=database), tmp_path)
