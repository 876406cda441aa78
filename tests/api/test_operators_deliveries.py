"""What an instance key can do with deliveries to webhooks of the configuration: nothing, and see nothing."""

from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest
import trio

from hookgw import DeliveryState, Gateway
from hookgw.testing import Receiver, answer
from tests.api.conftest import KEY, open_client
from tests.api.routes.test_events import one
from tests.public.config import Settings
from tests.public.store import DeliveryQuery
from tests.public.web import AppApplication as Application

OPERATOR = {"apikey": KEY}
WORDS = "account 4711 is locked"


@pytest.fixture
def operators(hookgw_receiver: Receiver) -> Receiver:
    """The receiver of the global webhook; it refuses every event for good."""
    hookgw_receiver.default = answer(422, WORDS)
    return hookgw_receiver


@pytest.fixture
def settings(settings: Settings, operators: Receiver) -> Settings:
    """With a global webhook."""
    configured = ({"url": operators.url, "label": "audit"},)
    return msgspec.structs.replace(settings, global_webhooks=configured)


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    """With the instance ``shop``, which has a registration of its own."""
    await gateway.instances.create("shop", token="the-key-of-the-shop")
    return gateway


@pytest.fixture
async def client(app: Application, nursery: trio.Nursery) -> AsyncIterator[httpx.AsyncClient]:
    """With the instance's key."""
    async with open_client(app, nursery, apikey="the-key-of-the-shop") as client:
        yield client


async def test_a_list_and_a_report_leave_them_out(
    gateway: Gateway, client: httpx.AsyncClient, operators: Receiver
) -> None:
    await client.post("/webhook/set/shop", json={"url": operators.url})
    await client.post("/event/emit/shop", json=one(id="e1"))
    await _wait_for_dead(gateway, 2)

    everything = (await client.get("/delivery/list/shop", headers=OPERATOR)).json()["deliveries"]
    of_audit, own = [delivery["id"] for delivery in everything]
    seen = (await client.get("/delivery/list/shop")).json()
    assert [(delivery["id"], delivery["label"]) for delivery in seen["deliveries"]] == [(own, "default")]
    assert seen["cursor"] is None
    assert (await client.get("/delivery/list/shop?state=dead&limit=1")).json() == seen
    assert (await client.get(f"/delivery/find/shop/{of_audit}")).status_code == 404
    # By the event's id it is the newest delivery that the key may see.
    assert (await client.get("/delivery/find/shop/e1")).json()["id"] == own

    theirs = await client.get(f"/delivery/find/shop/{of_audit}", headers=OPERATOR)
    assert theirs.json()["lastAttempt"]["answer"] == WORDS


async def test_pages_without_them_are_full(
    gateway: Gateway, client: httpx.AsyncClient, operators: Receiver
) -> None:
    await client.post("/webhook/set/shop", json={"url": operators.url})
    await client.post("/event/emit/shop", json=[one(id=f"e{number}") for number in range(3)])
    await _wait_for_dead(gateway, 6)
    first = (await client.get("/delivery/list/shop?limit=2")).json()
    assert [delivery["eventId"] for delivery in first["deliveries"]] == ["e2", "e1"]
    rest = (await client.get(f"/delivery/list/shop?limit=2&cursor={first['cursor']}")).json()
    assert [delivery["eventId"] for delivery in rest["deliveries"]] == ["e0"]
    assert rest["cursor"] is None


async def test_a_resend_does_not_find_them(
    gateway: Gateway, client: httpx.AsyncClient, operators: Receiver
) -> None:
    await client.post("/event/emit/shop", json=one(id="e1"))
    await _wait_for_dead(gateway, 1)
    (delivery,) = (await client.get("/delivery/list/shop", headers=OPERATOR)).json()["deliveries"]
    for name in (delivery["id"], "e1"):
        refused = await client.post(f"/delivery/resend/shop/{name}")
        assert refused.status_code == 404
        assert refused.json()["response"]["message"] == [f"The instance 'shop' has no delivery '{name}'."]
    assert len(operators.requests) == 1
    assert (await client.post("/delivery/resend/shop/e1", headers=OPERATOR)).status_code == 202
    await operators.wait_for(2)


async def test_a_cancellation_leaves_them_alone(
    gateway: Gateway, client: httpx.AsyncClient, operators: Receiver
) -> None:
    operators.default = answer(503, headers={"retry-after": "1000"})
    await client.post("/event/emit/shop", json=one(id="e1"))
    await operators.wait_for(1)
    for body, expected in (
        ({"dryRun": True}, {"cancelled": 0, "matching": 0, "instances": {}}),
        ({}, {"cancelled": 0}),
    ):
        assert (await client.post("/delivery/cancel/shop", json=body)).json() == expected
    assert gateway.backlog.count == 1
    by_operator = await client.post("/delivery/cancel/shop", json={}, headers=OPERATOR)
    assert by_operator.json() == {"cancelled": 1}


async def test_one_of_them_is_cancelled_by_a_global_key_alone(
    gateway: Gateway, client: httpx.AsyncClient, operators: Receiver
) -> None:
    operators.default = answer(503, headers={"retry-after": "1000"})
    await client.post("/event/emit/shop", json=one(id="e1"))
    await operators.wait_for(1)
    (delivery,) = (await client.get("/delivery/list/shop", headers=OPERATOR)).json()["deliveries"]
    refused = await client.post(f"/delivery/cancel/shop/{delivery['id']}")
    assert refused.status_code == 403
    # By the event's id it is the newest delivery that the key may see.
    assert (await client.post("/delivery/cancel/shop/e1")).status_code == 404
    assert gateway.backlog.count == 1
    by_operator = await client.post(f"/delivery/cancel/shop/{delivery['id']}", headers=OPERATOR)
    assert by_operator.json()["state"] == "dead"


async def test_a_replay_leaves_them_alone(
    gateway: Gateway, client: httpx.AsyncClient, operators: Receiver
) -> None:
    await client.post("/event/emit/shop", json=one(id="e1"))
    await _wait_for_dead(gateway, 1)
    asked = {"since": "1h", "state": "all"}
    assert (await client.post("/delivery/replay/shop", json=asked)).json() == {"replayed": 0}
    assert len(operators.requests) == 1
    by_operator = await client.post("/delivery/replay/shop", json=asked, headers=OPERATOR)
    assert by_operator.json() == {"replayed": 1}
    await operators.wait_for(2)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/delivery/list/*"),
        ("GET", "/delivery/find/*/dlv_1"),
        ("POST", "/delivery/resend/*/dlv_1"),
        ("POST", "/delivery/replay/*"),
    ],
)
async def test_operational_events_belong_to_no_tenant(
    method: str, path: str, client: httpx.AsyncClient
) -> None:
    assert (await client.request(method, path, json={"since": "1h"})).status_code == 403


async def test_a_poison_event_holds_up_only_its_own_instance(
    gateway: Gateway, client: httpx.AsyncClient, operators: Receiver
) -> None:
    await gateway.instances.create("bakery")
    operators.will(answer(500))
    operators.default = answer()
    await client.post("/event/emit/shop", json=[one(id="poison"), one(id="behind")])
    await operators.wait_for(1)
    await client.post("/event/emit/bakery", json=one(id="fresh"), headers=OPERATOR)
    await operators.wait_for(2)
    assert operators.ids == ["poison", "fresh"]


async def _wait_for_dead(gateway: Gateway, count: int) -> None:
    with trio.fail_after(10):
        while True:
            query = DeliveryQuery(instance="shop", state=DeliveryState.DEAD)
            if len((await gateway.store.list_deliveries(query)).deliveries) == count:
                return
            await trio.sleep(0.01)
