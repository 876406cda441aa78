"""A client of Evolution API names an integration, and gets a connector, or learns what is missing."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.api.conftest import KEY, open_client
from tests.public.app import open_gateway
from tests.public.config import (
    AuthSettings,
    InstancesSettings,
    PluginsSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from tests.public.kernel import Size
from tests.support.application import create_app

NOBODY = "http://127.0.0.1:9"
SET_UP = {
    "evolution": {"base_url": NOBODY, "api_key": "key-of-evolution", "servers": [NOBODY]},
    "whatsapp_cloud": {
        "access_token": "token-of-meta",
        "app_secret": "secret-of-meta",
        "verify_token": "of-mine",
        "base_url": NOBODY,
        "servers": [NOBODY],
    },
}
CASES = {
    "WHATSAPP-BAILEYS": (
        "evolution",
        "base_url",
        {"token": "a-token-of-a-client", "number": "551198888"},
    ),
    "WHATSAPP-BUSINESS": ("whatsapp_cloud", "access_token", {"number": "106540352242922", "businessId": "1"}),
}
Opened = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def opened(tmp_path: Path, nursery: trio.Nursery) -> Opened:
    """Return a function that runs a gateway on the same data, with options of plugins."""

    @asynccontextmanager
    async def run(**options: Any) -> AsyncIterator[httpx.AsyncClient]:
        connectors = {name: connector for name, (connector, _, _) in CASES.items()}
        settings = Settings(
            auth=AuthSettings(global_key=KEY),
            server=ServerSettings(public_url="https://hooks.example"),
            storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)),
            instances=InstancesSettings(integrations=connectors),
            plugins=PluginsSettings(options=options),
        )
        async with (
            open_gateway(settings, base=tmp_path) as gateway,
            open_client(create_app(gateway), nursery, apikey=KEY) as client,
        ):
            client.event_hooks = {}  # the document publishes hookgw's own names of fields
            yield client

    return run


async def reasons(client: httpx.AsyncClient) -> list[str]:
    """Return what people read of the instance, wherever they look."""
    state = (await client.get("/instance/connectionState/loja1")).json()["instance"]
    (listed,) = (await client.get("/instance/fetchInstances")).json()
    sent = await client.post("/message/sendText/loja1", json={"number": "5511988887777", "text": "hi"})
    assert sent.status_code == 409
    return [state["reason"], listed["disconnectionReason"], *sent.json()["response"]["message"]]


@pytest.mark.parametrize("integration", CASES)
async def test_a_client_of_evolution_api_gets_the_connector_or_learns_what_is_missing(
    opened: Opened, integration: str
) -> None:
    connector, missing, fields = CASES[integration]
    body = {"instanceName": "loja1", "integration": integration, "qrcode": False, **fields}
    async with opened() as client:
        refused = await client.post("/instance/create", json=body)
        assert refused.status_code == 400
        text = " ".join(refused.json()["response"]["message"])
        assert missing in text
        assert f"plugins.options.{connector}" in text
        assert (await client.get("/instance/fetchInstances")).json() == []
    async with opened(**SET_UP) as client:
        created = await client.post("/instance/create", json=body)
        assert created.status_code == 201, created.text
        shown = created.json()["instance"]
        assert (shown["integration"], shown["connector"]) == (integration, connector)
        assert created.json()["ingestUrl"].startswith("https://hooks.example/ingest/loja1/")
        for reason in (await reasons(client))[:2]:
            assert reason == "It has not been connected since hookgw started: connect it."
        with trio.move_on_after(0.2):  # nobody answers
            await client.get("/instance/connect/loja1")
    # The configuration has lost what it needs.
    async with opened() as client:
        with trio.fail_after(5):
            connected = await client.get("/instance/connect/loja1")
        said = connected.json()["instance"]["reason"]
        assert missing in said
        assert f"plugins.options.{connector}" in said
        assert all(said in reason for reason in await reasons(client))
        assert connected.json()["instance"]["state"] == "close"
