from __future__ import annotations

import httpx
import msgspec
import pytest

from hookgw.config import InstancesSettings, Settings
from tests.api.test_app import shape_of


@pytest.fixture
def settings(settings: Settings) -> Settings:
    integrations = {"WHATSAPP-BAILEYS": "simulator", "EVOLUTION": "simulator"}
    return msgspec.structs.replace(settings, instances=InstancesSettings(integrations=integrations))


async def test_connectors_are_listed_with_their_options(client: httpx.AsyncClient) -> None:
    response = await client.get("/connector/list")
    assert response.status_code == 200
    found = {one["name"]: one for one in response.json()}
    assert list(found) == sorted(found)
    assert {"matrix", "simulator", "webhook"} <= found.keys()
    simulator, webhook = found["simulator"], found["webhook"]
    assert (simulator["plugin"], simulator["takesRequests"]) == ("simulator", True)
    assert simulator["integrations"] == ["EVOLUTION", "WHATSAPP-BAILEYS"]
    assert simulator["optionsSchema"]["properties"]["app_secret"]["writeOnly"] is True
    assert webhook["calls"] == ["findChats", "findContacts", "restart"]
    assert webhook["integrations"] == []
    assert found["matrix"]["takesRequests"] is False


async def test_it_needs_a_global_key(client: httpx.AsyncClient) -> None:
    """The schemas have defaults of the operator's, such as addresses of servers."""
    created = (await client.post("/instance/create", json={"instanceName": "loja1"})).json()
    response = await client.get("/connector/list", headers={"apikey": created["hash"]})
    assert response.status_code == 403
    assert shape_of(response)
