"""What an instance key may see of deliveries to webhooks of the configuration."""

from __future__ import annotations

import httpx
import msgspec
import pytest
import trio

from hookgw.api.app import create_app
from hookgw.config.settings import Settings
from hookgw.gateway.gateway import Gateway
from hookgw.gateway.open import open_gateway
from hookgw.testing import Receiver, answer
from tests.api.conftest import KEY, open_client
from tests.api.routes.test_events import one

TENANT = "the-key-of-the-shop"
WORDS = "account 4711 is locked"


@pytest.fixture
def refusing(hookgw_receiver: Receiver) -> Receiver:
    hookgw_receiver.will(answer(422, WORDS))
    return hookgw_receiver


async def test_an_instance_key_does_not_see_the_operators_receiver(
    settings: Settings, nursery: trio.Nursery, refusing: Receiver
) -> None:
    configured = ({"url": refusing.url, "label": "audit"},)
    async with (
        open_gateway(msgspec.structs.replace(settings, global_webhooks=configured)) as gateway,
        open_client(create_app(gateway), nursery) as client,
    ):
        await gateway.instances.create("shop", token=TENANT)
        await _deliver_in_vain(refusing, gateway, client)
        for text in await _texts(client, KEY):
            assert WORDS in text
        for text in await _texts(client, TENANT):
            assert WORDS not in text
            assert '"dead"' in text
            assert "Only a global key sees" in text


async def test_an_instance_key_sees_its_own_receiver(
    settings: Settings, nursery: trio.Nursery, refusing: Receiver
) -> None:
    async with (
        open_gateway(settings) as gateway,
        open_client(create_app(gateway), nursery) as client,
    ):
        await gateway.instances.create("shop", token=TENANT)
        await client.post("/webhook/set/shop", json={"url": refusing.url}, headers={"apikey": TENANT})
        await _deliver_in_vain(refusing, gateway, client)
        for text in await _texts(client, TENANT):
            assert WORDS in text


async def _deliver_in_vain(refusing: Receiver, gateway: Gateway, client: httpx.AsyncClient) -> None:
    await client.post("/event/emit/shop", json=one(id="order-1"), headers={"apikey": KEY})
    with trio.fail_after(10):
        await refusing.wait_for(1)
        while any(lane.backlog for lane in gateway.lanes()):
            await gateway.store.flush()
        await gateway.store.flush()


async def _texts(client: httpx.AsyncClient, key: str) -> list[str]:
    paths = ("/delivery/list/shop", "/delivery/find/shop/order-1")
    return [(await client.get(path, headers={"apikey": key})).text for path in paths]
