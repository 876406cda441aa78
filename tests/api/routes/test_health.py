import httpx
import msgspec
import pytest
import trio

from hookgw import Gateway
from hookgw.operations.routes import health
from tests.api.conftest import KEY
from tests.api.test_app import shape_of
from tests.public.config import OperationsSettings, Settings
from tests.public.records import SHARDS
from tests.support.disks import refuse


async def test_the_process_is_alive(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_it_is_ready(stranger: httpx.AsyncClient, gateway: Gateway) -> None:
    response = await stranger.get("/readyz")
    fleet = gateway.fleet
    shares = {} if fleet is None else {"node": fleet.name, "shards": {fleet.name: SHARDS}}
    assert (response.status_code, response.json()) == (200, {"status": "ready", **shares})


async def test_it_is_not_ready_if_the_disk_refuses(
    stranger: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.store, "check", refuse)
    response = await stranger.get("/readyz")
    assert response.status_code == 503
    assert shape_of(response) == ["The disk is full."]


async def test_a_node_without_its_database_says_why(
    stranger: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.node, "may_act", lambda: False)
    monkeypatch.setattr(gateway.node, "refusal", ("connection refused",))
    response = await stranger.get("/readyz")
    assert response.status_code == 503
    reached, reason = shape_of(response)
    assert "cannot reach the database" in reached
    assert reason == "connection refused"


async def test_it_is_not_ready_if_the_disk_hangs(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.store, "check", trio.sleep_forever)
    monkeypatch.setattr(health, "READY_TIMEOUT", 0)
    response = await client.get("/readyz")
    assert response.status_code == 503
    assert shape_of(response)


async def test_without_a_url_there_is_no_secret_of_operational_events(client: httpx.AsyncClient) -> None:
    response = await client.get("/operations/secret", headers={"apikey": KEY})
    assert response.status_code == 404
    assert shape_of(response) == ["operations.url is not set in the configuration; set it first."]


async def test_an_instance_key_does_not_see_the_secret_of_operational_events(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    _, key, _ = await gateway.instances.create("shop")
    response = await client.get("/operations/secret", headers={"apikey": key})
    assert response.status_code == 403


class TestWithOperations:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        operations = OperationsSettings(url="http://127.0.0.1:9/ops")
        return msgspec.structs.replace(settings, operations=operations)

    async def test_the_secret_of_operational_events(
        self, client: httpx.AsyncClient, gateway: Gateway
    ) -> None:
        response = await client.get("/operations/secret", headers={"apikey": KEY})
        registration = gateway.operational.registration
        assert registration is not None
        assert (response.status_code, response.json()) == (200, {"secret": registration.secrets[0].value})
        assert response.json()["secret"].startswith("whsec_")
