import httpx
import msgspec
import pytest

from hookgw import Gateway
from tests.api.test_app import shape_of
from tests.public.config import InstancesSettings, Settings
from tests.public.instances import FoundServer


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
    assert webhook["calls"] == ["findChats", "findContacts", "findMessages", "restart"]
    assert webhook["integrations"] == []
    assert found["matrix"]["takesRequests"] is False


async def test_it_needs_a_global_key(client: httpx.AsyncClient) -> None:
    """The schemas have defaults of the operator's, such as addresses of servers."""
    created = (await client.post("/instance/create", json={"instanceName": "loja1"})).json()
    for method, path in (("GET", "/connector/list"), ("POST", "/connector/find")):
        response = await client.request(method, path, headers={"apikey": created["hash"]})
        assert response.status_code == 403
        assert shape_of(response)


async def test_servers_are_looked_for_only_on_request(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def find() -> list[FoundServer]:
        asked.append(True)
        return [FoundServer("waha", "http://waha:3000", None, False, "plugins: {}")]

    monkeypatch.setattr(gateway.server_search, "find", find)
    assert (await client.get("/connector/find")).status_code == 405
    assert not asked
    found = await client.post("/connector/find")
    assert found.json() == [
        {
            "connector": "waha",
            "url": "http://waha:3000",
            "version": None,
            "isListed": False,
            "configuration": "plugins: {}",
        }
    ]
