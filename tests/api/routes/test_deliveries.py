from typing import Any

import httpx
import pytest

from hookgw import Gateway
from hookgw.testing import Receiver, answer
from tests.api.routes.test_events import one
from tests.api.test_app import shape_of


async def emit_to(client: httpx.AsyncClient, gateway: Gateway, receiver: Receiver, count: int) -> None:
    """Emit events and wait until their deliveries are finished on disk."""
    await client.post("/webhook/set/loja1", json={"url": receiver.url})
    for number in range(count):
        await client.post("/event/emit/loja1", json=one(id=f"e-{number}"))
    await receiver.wait_for(count)
    while any(lane.backlog for lane in gateway.lanes()):
        await gateway.store.flush()
    await gateway.store.flush()


async def page(client: httpx.AsyncClient, query: str = "") -> dict[str, Any]:
    response = await client.get(f"/delivery/list/loja1{query}")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_deliveries_newest_first(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await emit_to(client, gateway, hookgw_receiver, 3)
    found = await page(client)
    assert [one["eventId"] for one in found["deliveries"]] == ["e-2", "e-1", "e-0"]
    assert found["cursor"] is None
    newest = found["deliveries"][0]
    assert (newest["state"], newest["kind"], newest["attempts"]) == ("delivered", "MESSAGES_UPSERT", 1)
    assert (newest["label"], newest["url"]) == ("default", hookgw_receiver.url)
    assert newest["lastAttempt"]["status"] == 200
    assert newest["nextAttemptAt"] is None
    assert newest["finishedAt"].endswith("Z")


async def test_pages(client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver) -> None:
    await emit_to(client, gateway, hookgw_receiver, 5)
    seen: list[str] = []
    query = "?limit=2"
    while True:
        found = await page(client, query)
        seen += [one["eventId"] for one in found["deliveries"]]
        if found["cursor"] is None:
            break
        query = f"?limit=2&cursor={found['cursor']}"
    assert seen == ["e-4", "e-3", "e-2", "e-1", "e-0"]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("?state=delivered", 2),
        ("?state=dead", 0),
        ("?kind=messages.upsert", 2),
        ("?kind=CALL", 0),
        ("?since=2020-01-01T00:00:00Z", 2),
        ("?since=2999-01-01T00:00:00+01:00", 0),
        ("?since=2020-01-01 00:00:00Z", 2),
        ("?since=2999-01-01 00:00:00+01:00", 0),
        ("?until=2020-01-01T00:00:00Z", 0),
        ("?limit=1", 1),
        ("?state=&limit=", 2),
    ],
)
async def test_filters(
    query: str, count: int, client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await emit_to(client, gateway, hookgw_receiver, 2)
    assert len((await page(client, query))["deliveries"]) == count


@pytest.mark.parametrize(
    "query",
    [
        *("state=lost", "kind=MESAGES", "since=yesterday", "until=5", "cursor=5", "cursor=dlv_x"),
        *("limit=0", "limit=1001", "limit=x", "limit=-1", "limit=9999999"),
    ],
)
async def test_bad_filters(query: str, client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    response = await client.get(f"/delivery/list/loja1?{query}")
    assert response.status_code == 400
    assert shape_of(response)


async def test_the_label_selects_a_registration(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await client.post(
        "/webhook/set/loja1/crm", json={"url": f"{hookgw_receiver.url}/crm", "events": ["CALL"]}
    )
    await emit_to(client, gateway, hookgw_receiver, 2)
    for label, count in (("default", 2), ("crm", 0), ("", 2)):
        found = (await page(client, f"?label={label}"))["deliveries"]
        assert [one["label"] for one in found] == [label or "default"] * count
    response = await client.get("/delivery/list/loja1?label=x")
    assert (response.status_code, shape_of(response)) == (404, ["The instance 'loja1' has no webhook 'x'."])
    await gateway.instances.create("loja2")
    assert (await client.get("/delivery/list/loja2?label=crm")).status_code == 404


@pytest.mark.parametrize("name", ["e-0", "the id"])
async def test_one_delivery_with_every_attempt(
    name: str, client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await emit_to(client, gateway, hookgw_receiver, 1)
    if name == "the id":
        name = (await page(client))["deliveries"][0]["id"]
    found = (await client.get(f"/delivery/find/loja1/{name}")).json()
    assert (found["id"][:4], found["eventId"], found["state"]) == ("dlv_", "e-0", "delivered")
    assert found["event"]["data"] == one()["data"]
    assert found["registration"]["label"] == "default"
    assert [attempt["number"] for attempt in found["attempts"]] == [1]


async def test_a_delivery_outlives_its_registration(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await emit_to(client, gateway, hookgw_receiver, 1)
    await client.delete("/webhook/delete/loja1")
    found = (await client.get("/delivery/find/loja1/e-0")).json()
    assert (found["registration"], found["label"], found["url"]) == (None, None, None)


async def test_deliveries_of_another_instance_are_not_found(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await emit_to(client, gateway, hookgw_receiver, 1)
    await gateway.instances.create("loja2")
    for name in ("e-0", (await page(client))["deliveries"][0]["id"], "dlv_999"):
        response = await client.get(f"/delivery/find/loja2/{name}")
        assert response.status_code == 404
        assert shape_of(response)


async def test_lanes(client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver) -> None:
    await emit_to(client, gateway, hookgw_receiver, 1)
    registration = gateway.registrations.get("loja1")
    (lane,) = (await client.get("/lane/list")).json()
    assert lane == {
        "lane": f"{registration.id}:0",
        "registration": registration.id,
        "instance": "loja1",
        "label": "default",
        "partition": None,
        "url": hookgw_receiver.url,
        "state": "idle",
        "backlog": 0,
        "held": 0,
        "head": None,
        "headInstance": None,
        "headAge": None,
        "waitingUntil": None,
        "waitsFor": None,
        "lastOutcome": "delivered",
        "lastError": None,
        "advice": None,
        "fetchedAt": None,
        "consumer": None,
        **({} if gateway.fleet is None else {"node": gateway.fleet.name}),
    }


async def test_a_lane_of_an_instance_names_it(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await client.post("/webhook/set/loja1", json={"url": hookgw_receiver.url, "ordering": "instance"})
    await client.post("/event/emit/loja1", json=one())
    await hookgw_receiver.wait_for(1)
    (lane,) = (await client.get("/lane/list")).json()
    assert (lane["label"], lane["partition"]) == ("default", "loja1")


async def test_a_lane_outlives_its_registration(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await emit_to(client, gateway, hookgw_receiver, 1)
    await client.delete("/webhook/delete/loja1")
    for lane in (await client.get("/lane/list")).json():
        assert (lane["instance"], lane["label"], lane["url"]) == (None, None, None)


class TestSendingAgain:
    async def refused(self, client: httpx.AsyncClient, gateway: Gateway, receiver: Receiver) -> None:
        """Make three dead letters; afterwards the receiver accepts everything."""
        receiver.default = answer(400)
        await emit_to(client, gateway, receiver, 3)
        receiver.default = answer()
        receiver.requests.clear()

    @pytest.mark.parametrize("by", ["eventId", "id"])
    async def test_one(
        self, by: str, client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
    ) -> None:
        await self.refused(client, gateway, hookgw_receiver)
        (_, dead, _) = (await page(client))["deliveries"]
        response = await client.post(f"/delivery/resend/loja1/{dead[by]}")
        assert response.status_code == 202
        sent = response.json()
        assert (sent["id"], sent["eventId"], sent["label"]) == (dead["id"], "e-1", "default")
        (request,) = await hookgw_receiver.wait_for(1)
        assert (request.event_id, request.header("x-attempt")) == ("e-1", "2")

    async def test_deliveries_that_cannot_be_resent(
        self, client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
    ) -> None:
        await self.refused(client, gateway, hookgw_receiver)
        response = await client.post("/delivery/resend/loja1/dlv_99")
        assert (response.status_code, shape_of(response)) == (
            404,
            ["The instance 'loja1' has no delivery 'dlv_99'."],
        )
        dead = (await page(client))["deliveries"][0]["id"]
        assert (await client.post(f"/delivery/resend/nobody/{dead}")).status_code == 404
        await client.delete("/webhook/delete/loja1")
        response = await client.post(f"/delivery/resend/loja1/{dead}")
        assert response.status_code == 409
        assert "was deleted" in shape_of(response)[0]

    async def test_many(self, client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver) -> None:
        await self.refused(client, gateway, hookgw_receiver)
        response = await client.post(
            "/delivery/replay/loja1", json={"since": "1h", "kinds": ["messages.upsert"]}
        )
        assert (response.status_code, response.json()) == (202, {"replayed": 3})
        await hookgw_receiver.wait_for(3)
        assert hookgw_receiver.ids == ["e-0", "e-1", "e-2"]
        response = await client.post("/delivery/replay/loja1", json={"since": "1h", "kinds": ["CALL"]})
        assert response.json() == {"replayed": 0}

    @pytest.mark.parametrize(
        ("instance", "body", "status"),
        [
            ("nobody", {"since": "1h"}, 404),
            ("loja1", {"since": "1h", "label": "crm"}, 404),
            ("loja1", {}, 400),
            ("loja1", {"since": "1h", "state": "pending"}, 400),
            ("loja1", {"since": "1h", "labels": "crm"}, 400),
        ],
    )
    async def test_replays_that_are_refused(
        self, instance: str, body: Any, status: int, client: httpx.AsyncClient, gateway: Gateway
    ) -> None:
        await gateway.instances.create("loja1")
        response = await client.post(f"/delivery/replay/{instance}", json=body)
        assert response.status_code == status
        assert shape_of(response)


async def test_a_misspelt_field_cancels_nothing(client: httpx.AsyncClient) -> None:
    await client.post("/webhook/set/loja1", json={"url": "https://example.com/hook"})
    await client.post("/webhook/pause/loja1")
    await client.post("/event/emit/loja1", json={"event": "CALL", "data": {}})
    response = await client.post("/delivery/cancel/loja1", json={"labels": "nope"})
    assert response.status_code == 400
    assert shape_of(response) == ["labels is not a field of a cancellation. Did you mean label?"]
    [delivery] = (await client.get("/delivery/list/loja1")).json()["deliveries"]
    assert delivery["state"] == "pending"


async def test_cancel_one(client: httpx.AsyncClient) -> None:
    await client.post("/webhook/set/loja1", json={"url": "https://example.com/hook"})
    await client.post("/webhook/pause/loja1")
    for number in range(3):
        await client.post("/event/emit/loja1", json={"event": "CALL", "data": {}, "id": f"e{number}"})
    first = (await client.get("/delivery/find/loja1/e0")).json()["id"]
    response = await client.post(f"/delivery/cancel/loja1/{first}")
    assert response.status_code == 200
    found = response.json()
    assert (found["id"], found["state"], found["eventId"]) == (first, "dead", "e0")
    assert found["reason"] == "Cancelled with a global key."
    again = await client.post(f"/delivery/cancel/loja1/{first}")
    assert again.status_code == 409
    assert shape_of(again) == ["The delivery cannot be cancelled: it is a dead letter already."]
    assert (await client.post("/delivery/cancel/loja1/e1")).json()["eventId"] == "e1"
    for instance, name in (("loja1", "dlv_999"), ("loja1", "e9"), ("nobody", first)):
        assert (await client.post(f"/delivery/cancel/{instance}/{name}")).status_code == 404
    entries = (await client.get("/audit/list/loja1")).json()["entries"]
    assert [one["subject"] for one in entries if one["action"] == "delivery.cancel"][-1] == first
    pending = (await client.get("/delivery/list/loja1", params={"state": "pending"})).json()["deliveries"]
    assert [one["eventId"] for one in pending] == ["e2"]
    assert (await client.post(f"/delivery/resend/loja1/{first}")).status_code == 202


async def test_cancel(client: httpx.AsyncClient) -> None:
    await client.post("/webhook/set/loja1", json={"url": "https://example.com/hook"})
    await client.post("/webhook/pause/loja1")
    for kind in ("CALL", "CALL", "MESSAGES_UPSERT"):
        await client.post("/event/emit/loja1", json={"event": kind, "data": {}})
    asked: dict[str, object] = {"kinds": ["call"], "since": "1h"}
    counted = (await client.post("/delivery/cancel/loja1", json=asked | {"dryRun": True})).json()
    assert counted == {"cancelled": 0, "matching": 2, "instances": {"loja1": {"default": 2}}}
    response = await client.post("/delivery/cancel/loja1", json={"kinds": ["call"], "since": "1h"})
    assert (response.status_code, response.json()) == (200, {"cancelled": 2})
    dead = (await client.get("/delivery/list/loja1", params={"state": "dead"})).json()["deliveries"]
    assert {one["reason"] for one in dead} == {"Cancelled with a global key."}
    assert (await client.post("/delivery/cancel/loja1", json={})).json() == {"cancelled": 1}
    assert (await client.post("/delivery/cancel/loja1", json={"label": "none"})).status_code == 404
    bad = await client.post("/delivery/cancel/loja1", json={"kinds": ["x"], "since": 5, "dryRun": 2})
    assert bad.status_code == 400
    assert len(bad.json()["response"]["message"]) == 3
