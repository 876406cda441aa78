import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import Gateway
from hookgw.store.sqlite import copy_rows as file_rows
from hookgw.web.server import response_memory
from tests.api.conftest import KEY, is_sqlite, open_client, open_whole_gateway
from tests.api.routes.test_events import one
from tests.api.server.wire import Running
from tests.api.test_app import shape_of
from tests.public.config import ServerSettings, Settings
from tests.public.deliveries import Pull
from tests.public.delivery import verify
from tests.public.kernel import Conflict, verifying_key
from tests.public.sqlite import restore_file
from tests.public.store import copy_rows
from tests.public.web import AppApplication as Application
from tests.support.application import create_app
from tests.support.room import Room
from tests.support.waits import until

# Deliveries that their receiver fetches: POST /delivery/pull and /delivery/ack.


async def set_pulled(client: httpx.AsyncClient, label: str = "default", **fields: Any) -> dict[str, Any]:
    response = await client.post(f"/webhook/set/loja1/{label}", json={"url": "pull:", **fields})
    assert response.status_code == 201, response.text
    stored: dict[str, Any] = response.json()
    return stored


async def emit(client: httpx.AsyncClient, *ids: str) -> None:
    for name in ids:
        assert (await client.post("/event/emit/loja1", json=one(id=name))).status_code == 202


async def pull(client: httpx.AsyncClient, *, status: int = 200, **fields: Any) -> dict[str, Any]:
    response = await client.post("/delivery/pull/loja1", json={"wait": "5s", **fields})
    assert response.status_code == status, response.text
    found: dict[str, Any] = response.json()
    return found


async def ack(client: httpx.AsyncClient, *, status: int = 200, **fields: Any) -> Any:
    response = await client.post("/delivery/ack/loja1", json=fields)
    assert response.status_code == status, response.text
    return response.json() if status == 200 else shape_of(response)


def ids_of(found: dict[str, Any]) -> list[str]:
    return [one["headers"]["webhook-id"] for one in found["deliveries"]]


async def test_deliveries_are_fetched_in_order_as_they_would_have_been_posted(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await set_pulled(client)
    secret = (await client.get("/webhook/secret/loja1")).json()["secret"]
    await emit(client, "e-0", "e-1", "e-2")
    found = await pull(client)
    assert ids_of(found) == ["e-0", "e-1", "e-2"]
    assert found["cursor"] == found["deliveries"][-1]["cursor"]
    first = found["deliveries"][0]
    headers, body = first["headers"], first["body"]
    assert json.loads(body)["data"] == one()["data"]
    assert json.loads(body)["destination"] == "pull:"
    assert (headers["x-attempt"], headers["x-instance-name"]) == ("1", "loja1")
    assert (headers["x-event-type"], headers["content-type"]) == ("MESSAGES_UPSERT", "application/json")
    verify([verifying_key(secret)], headers, body.encode(), now=gateway.clock.wall())
    assert await ack(client, cursor=found["cursor"]) == {"acknowledged": 3, "failed": 0}
    assert (await pull(client, wait="0s"))["deliveries"] == []
    listed = (await client.get("/delivery/list/loja1")).json()["deliveries"]
    assert [(one["state"], one["attempts"], one["lastAttempt"]["url"]) for one in listed] == [
        ("delivered", 1, "pull:")
    ] * 3


async def test_a_fetch_waits_for_the_next_delivery(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await set_pulled(client)
    found: list[dict[str, Any]] = []

    async def fetch() -> None:
        found.append(await pull(client, wait="30s"))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            await until(lambda: gateway.pulls.waiting("loja1"))
            await emit(client, "e-0")
    assert ids_of(found[0]) == ["e-0"]


async def test_a_consumer_gets_its_own_lease_back_and_another_one_does_not(client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    await emit(client, "e-0", "e-1")
    found = await pull(client, max=1, consumer="a")
    assert ids_of(found) == ["e-0"]
    assert ids_of(await pull(client, max=5, consumer="a")) == ["e-0"]
    response = await client.post("/delivery/pull/loja1", json={"consumer": "b"})
    assert (response.status_code, "leased the next" in shape_of(response)[0]) == (409, True)
    await ack(client, cursor=found["cursor"], consumer="b", status=409)
    await ack(client, cursor=found["cursor"], consumer="a")
    assert ids_of(await pull(client, consumer="b")) == ["e-1"]


async def test_ids_are_acknowledged_from_the_front(client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    await emit(client, "e-0", "e-1", "e-2")
    found = (await pull(client))["deliveries"]
    ids = [one["id"] for one in found]
    [message] = await ack(client, ids=ids[1:], status=409)
    assert message.startswith(f"{ids[0]} comes first and is not acknowledged.")
    assert await ack(client, ids=ids[:2]) == {"acknowledged": 2, "failed": 0}
    assert ids_of(await pull(client)) == ["e-2"]
    await ack(client, ids=ids[:1], status=409)  # it is acknowledged


async def test_a_failure_returns_that_delivery_and_all_behind_it(client: httpx.AsyncClient) -> None:
    await set_pulled(client, retry={"schedule": ["0s", "0s"]})
    await emit(client, "e-0", "e-1", "e-2")
    found = (await pull(client))["deliveries"]
    done = await ack(
        client, ids=[found[0]["id"]], failed=[{"id": found[1]["id"], "reason": "no such customer"}]
    )
    assert done == {"acknowledged": 1, "failed": 1}
    again = await pull(client)
    assert ids_of(again) == ["e-1", "e-2"]
    assert [one["headers"]["x-attempt"] for one in again["deliveries"]] == ["2", "1"]
    assert [one["body"] for one in again["deliveries"]] == [one["body"] for one in found[1:]]
    report = (await client.get("/delivery/find/loja1/e-1")).json()
    assert report["attempts"][0]["outcome"] == "failed"
    assert report["attempts"][0]["error"] == "The consumer reported a failure: no such customer"


async def test_failures_end_in_a_dead_letter_and_the_next_ones_follow(client: httpx.AsyncClient) -> None:
    await set_pulled(client, retry={"schedule": ["0s"]})
    await emit(client, "e-0", "e-1")
    for _ in range(2):
        found = (await pull(client))["deliveries"]
        await ack(client, failed=[{"id": found[0]["id"]}])
    assert ids_of(await pull(client)) == ["e-1"]
    assert (await client.get("/delivery/find/loja1/e-0")).json()["state"] == "dead"


async def test_a_receiver_that_keeps_its_own_place(client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    await emit(client, "e-0", "e-1", "e-2")
    found = await pull(client, max=2)
    # It has worked on both, and was killed before it said so.
    again = await pull(client, after=found["cursor"])
    assert ids_of(again) == ["e-2"]
    assert ids_of(await pull(client, after=found["cursor"])) == ["e-2"]
    assert await pull(client, after=again["cursor"], wait="0s") == {
        "deliveries": [],
        "cursor": again["cursor"],
    }
    listed = (await client.get("/delivery/list/loja1")).json()["deliveries"]
    assert [one["state"] for one in listed] == ["delivered"] * 3


async def test_after_acknowledges_what_is_leased_to_nobody(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await set_pulled(client)
    await emit(client, "e-0", "e-1")
    found = await pull(client, max=1)
    [lane] = gateway.dispatcher.pulled(gateway.registrations.get("loja1").id)
    lane.fail(lane.lease.leased[0], "as if the lease had ended")  # type: ignore[union-attr]
    assert ids_of(await pull(client, after=found["cursor"])) == ["e-1"]


async def test_after_needs_one_order(client: httpx.AsyncClient) -> None:
    await set_pulled(client, ordering="none", concurrency=4)
    response = await client.post("/delivery/pull/loja1", json={"after": "c5.5.00000000"})
    assert (response.status_code, shape_of(response)) == (
        409,
        ["after needs all deliveries in one order: set ordering to url."],
    )


async def test_partitions_are_leased_one_by_one(client: httpx.AsyncClient) -> None:
    await set_pulled(client, ordering="none", concurrency=8)
    names = [f"e-{number}" for number in range(20)]
    await emit(client, *names)
    first = await pull(client, max=1, consumer="a")
    others: list[str] = []
    while found := await pull(client, consumer="b", wait="0s"):
        if not found["deliveries"]:
            break
        others += ids_of(found)
        await ack(client, consumer="b", ids=[one["id"] for one in reversed(found["deliveries"])])
    assert set(others) < set(names) - set(ids_of(first))
    await ack(client, consumer="a", cursor=first["cursor"])
    rest = ids_of(await pull(client, consumer="a"))
    assert sorted([*ids_of(first), *others, *rest]) == sorted(names)


async def test_a_pause_gives_nothing_away_and_takes_acknowledgements(client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    await emit(client, "e-0", "e-1")
    found = await pull(client, max=1)
    await client.post("/webhook/pause/loja1")
    await ack(client, cursor=found["cursor"])
    assert (await pull(client, wait="0s"))["deliveries"] == []
    await client.post("/webhook/resume/loja1")
    assert ids_of(await pull(client)) == ["e-1"]


async def test_the_filter_applies(client: httpx.AsyncClient) -> None:
    await set_pulled(client, filter=[{"pointer": "/data/key/fromMe", "op": "equals", "value": "no"}])
    await emit(client, "e-0")
    assert (await pull(client, wait="0s"))["deliveries"] == []
    while (await client.get("/delivery/find/loja1/e-0")).json()["state"] != "dropped":
        await pull(client, wait="0s")


async def test_a_replay_comes_after_what_is_pending(client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    await emit(client, "e-0")
    await ack(client, cursor=(await pull(client))["cursor"])
    await emit(client, "e-1")
    assert (await client.post("/delivery/resend/loja1/e-0")).status_code == 202
    found = await pull(client)
    assert ids_of(found) == ["e-1", "e-0"]
    assert found["deliveries"][1]["headers"]["x-attempt"] == "2"


async def test_a_cancelled_delivery_is_not_the_consumers_any_more(client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    await emit(client, "e-0", "e-1")
    found = (await pull(client))["deliveries"]
    response = await client.post(f"/delivery/cancel/loja1/{found[0]['id']}")
    assert response.status_code == 200, response.text
    assert ids_of(await pull(client)) == ["e-1"]
    await ack(client, ids=[found[0]["id"]], status=409)
    await ack(client, ids=[found[1]["id"]])
    assert (await client.get("/delivery/find/loja1/e-0")).json()["state"] == "dead"


async def test_what_was_cancelled_a_moment_ago_is_not_acknowledged(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_pulled(client)
    await emit(client, "e-0", "e-1")
    found = (await pull(client))["deliveries"]
    [lane] = gateway.dispatcher.pulled(gateway.pulls.find("loja1", "default").id)
    async with trio.open_nursery() as nursery:
        await lane.lock.acquire()  # as if the lane still read what is left of the lease
        response = await client.post(f"/delivery/cancel/loja1/{found[0]['id']}")
        assert response.status_code == 200, response.text
        nursery.start_soon(partial(ack, client, ids=[found[0]["id"]], status=409))
        await trio.sleep(0.1)
        lane.lock.release()
    await ack(client, ids=[found[1]["id"]])
    assert (await client.get("/delivery/find/loja1/e-0")).json()["state"] == "dead"


async def test_from_push_to_pull_and_back(client: httpx.AsyncClient, hookgw_receiver: Any) -> None:
    await client.post("/webhook/set/loja1", json={"url": hookgw_receiver.url})
    await emit(client, "e-0")
    await hookgw_receiver.wait_for(1)
    await set_pulled(client)
    await emit(client, "e-1", "e-2")
    found = await pull(client, max=1)
    assert ids_of(found) == ["e-1"]
    await client.post("/webhook/set/loja1", json={"url": hookgw_receiver.url})
    await hookgw_receiver.wait_for(3)
    assert [one.event_id for one in hookgw_receiver.requests] == ["e-0", "e-1", "e-2"]
    response = await client.post("/delivery/ack/loja1", json={"cursor": found["cursor"]})
    assert response.status_code == 409


async def test_what_has_no_effect_is_warned_of(client: httpx.AsyncClient) -> None:
    stored = await set_pulled(client, headers={"x-a": "b"}, timeout="3s", byEvents=True)
    assert stored["warnings"] == [
        "headers has no effect: the receiver fetches.",
        "timeout has no effect: the receiver fetches.",
        "byEvents has no effect: the receiver fetches.",
    ]
    await emit(client, "e-0")
    assert "x-a" not in (await pull(client))["deliveries"][0]["headers"]


async def test_who_cannot_fetch(client: httpx.AsyncClient, hookgw_receiver: Any) -> None:
    await client.post("/webhook/set/loja1", json={"url": hookgw_receiver.url})
    response = await client.post("/delivery/pull/loja1", json={})
    assert (response.status_code, "posted to its URL" in shape_of(response)[0]) == (409, True)
    assert (await client.post("/delivery/pull/loja1/x", json={})).status_code == 404
    await set_pulled(client, enabled=False)
    assert (await client.post("/delivery/pull/loja1", json={})).status_code == 409
    assert (await client.post("/delivery/ack/loja1", json={"ids": ["dlv_1"]})).status_code == 409
    await client.patch("/webhook/set/loja1", json={"enabled": True})
    assert (await client.post("/delivery/pull/loja1")).status_code == 200


@pytest.mark.parametrize("consumer", ["Loja\u00a01", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "日本"])
async def test_a_consumer_is_any_text_in_one_line(consumer: str, client: httpx.AsyncClient) -> None:
    """Such as with a no-break space, or a family, whose parts a joiner holds together."""
    await set_pulled(client)
    response = await client.post("/delivery/pull/loja1", json={"consumer": consumer})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    "body",
    [
        *({"max": 0}, {"max": 1001}, {"wait": "61s"}, {"wait": 5}, {"lease": "0s"}, {"lease": "11m"}),
        *({"consumer": ""}, {"consumer": "a\nb"}, {"after": ""}, {"after": "17"}, {"after": "cx"}, {"x": 1}),
        [1],
    ],
)
async def test_a_pull_that_is_wrong(body: Any, client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    response = await client.post("/delivery/pull/loja1", json=body)
    assert response.status_code == 400, response.text


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"consumer": "a"}, {"cursor": 5}, {"ids": "dlv_1"}, {"failed": ["dlv_1"]}, {"ids": ["17"]}),
        *(
            {"failed": [{"reason": "x"}]},
            {"failed": [{"id": "dlv_1", "why": "x"}]},
            {"cursor": "q"},
            {"ids": []},
        ),
    ],
)
async def test_an_acknowledgement_that_is_wrong(body: Any, client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    response = await client.post("/delivery/ack/loja1", json=body)
    assert response.status_code == 400, response.text


async def test_a_test_has_no_url_to_send_to(client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    response = await client.post("/webhook/test/loja1")
    assert (response.status_code, "fetches" in shape_of(response)[0]) == (409, True)


async def test_a_stream_of_events(client: httpx.AsyncClient) -> None:
    # The other client reads responses to their end, to compare them with the document.
    streaming = httpx.AsyncClient(base_url=client.base_url, headers={"apikey": KEY})
    await set_pulled(client)
    await emit(client, "e-0")
    seen: list[tuple[str, str]] = []
    headers = {"accept": "text/event-stream"}
    with trio.fail_after(10):
        async with (
            streaming,
            streaming.stream("POST", "/delivery/pull/loja1", headers=headers, json={}) as response,
        ):
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            cursor = ""
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    cursor = line[4:]
                if line.startswith("data: "):
                    data = json.loads(line[6:])
                    if len(seen) == 3:
                        assert data["message"] == ["The instance 'loja1' has no webhook 'default'."]
                        continue
                    seen.append((data["headers"]["webhook-id"], cursor))
                    assert data["cursor"] == cursor
                    if len(seen) == 3:
                        await client.delete("/webhook/delete/loja1")  # which ends the stream
                        continue
                    await ack(client, cursor=cursor)
                    await emit(client, f"e-{len(seen)}")
    assert [name for name, _ in seen] == ["e-0", "e-1", "e-2"]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        # Clients that openapi-generator makes name all content types of the document.
        ("application/json, text/event-stream", "application/json"),
        ("text/event-stream, application/json", "application/json"),
        ("text/event-stream;q=0.5, application/json", "application/json"),
        ("text/event-stream;q=0", "application/json"),
        ("*/*", "application/json"),
        ("application/json;q=0.5, text/event-stream", "text/event-stream"),
        ("text/event-stream, */*", "text/event-stream"),
        ("TEXT/EVENT-STREAM", "text/event-stream"),
    ],
)
async def test_a_stream_is_for_clients_that_prefer_it(
    client: httpx.AsyncClient, accept: str, content_type: str
) -> None:
    await set_pulled(client)
    await emit(client, "e-0")
    with trio.fail_after(10):
        async with (
            httpx.AsyncClient(base_url=client.base_url, headers={"apikey": KEY}) as streaming,
            streaming.stream("POST", "/delivery/pull/loja1", headers={"accept": accept}) as response,
        ):
            assert response.headers["content-type"].partition(";")[0] == content_type


async def test_the_document_has_the_messages_of_the_stream(client: httpx.AsyncClient) -> None:
    """A delivery, and why the stream ends: what the route sends is what the document says."""
    streaming = httpx.AsyncClient(base_url=client.base_url, headers={"apikey": KEY})
    document = (await client.get("/openapi.json")).json()
    declared = document["paths"]["/delivery/pull/{instance}"]["post"]["responses"]["200"]["content"]
    assert list(declared) == ["application/json", "text/event-stream"]

    def check(value: object, component: str) -> None:
        assert f"`{component}`" in declared["text/event-stream"]["schema"]["description"]
        schema = {"$ref": f"#/components/schemas/{component}"}
        whole = {"allOf": [schema], "components": document["components"]}
        jsonschema_rs.Draft202012Validator(whole, validate_formats=True).validate(value)

    await set_pulled(client)
    await emit(client, "e-0")
    message: dict[str, str] = {}
    kinds: list[str] = []
    with trio.fail_after(10):
        async with (
            streaming,
            streaming.stream(
                "POST", "/delivery/pull/loja1", headers={"accept": "text/event-stream"}
            ) as response,
        ):
            assert response.headers["content-type"].partition(";")[0] in declared
            async for line in response.aiter_lines():
                if line and not line.startswith(":"):
                    name, _, message[name] = line.partition(": ")
                    continue
                if not message:
                    continue
                kinds.append(message.get("event", "delivery"))
                check(json.loads(message["data"]), "Messages" if "event" in message else "PulledDelivery")
                assert set(message) <= {"id", "event", "data"}
                message = {}
                if len(kinds) == 1:
                    await client.delete("/webhook/delete/loja1")  # which ends the stream
    assert kinds == ["delivery", "error"]


async def test_lanes_show_who_has_them(client: httpx.AsyncClient) -> None:
    await set_pulled(client)
    await emit(client, "e-0")
    [lane] = (await client.get("/lane/list")).json()
    assert (lane["state"], lane["waitsFor"], lane["fetchedAt"], lane["url"]) == (
        "waiting",
        "fetch",
        None,
        "pull:",
    )
    await pull(client, consumer="n8n-1")
    [lane] = (await client.get("/lane/list")).json()
    assert (lane["state"], lane["consumer"], lane["waitsFor"]) == ("delivering", "n8n-1", None)
    assert lane["fetchedAt"].endswith("Z")


async def test_a_fetch_waits_for_memory_and_keeps_its_lease(
    client: httpx.AsyncClient, gateway: Gateway, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_pulled(client)
    await client.post("/event/emit/loja1", json=one(id="e-0", data={"text": "x" * 100_000}))
    monkeypatch.setattr(response_memory, "PATIENCE", 0.01)
    app.response_memory.change("others", 0, gateway.settings.server.response_memory)
    assert (await client.post("/delivery/pull/loja1", json={"wait": "5s"})).status_code == 503
    app.response_memory.change("others", gateway.settings.server.response_memory, 0)
    assert ids_of(await pull(client, wait="0s")) == ["e-0"]


async def test_a_stream_waits_for_memory_and_says_that_there_was_none(
    client: httpx.AsyncClient, gateway: Gateway, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small each delivery is: all that a client has yet to read counts."""
    await set_pulled(client)
    await emit(client, *[f"e-{number}" for number in range(20)])
    monkeypatch.setattr(response_memory, "PATIENCE", 0.01)
    app.response_memory.change("others", 0, gateway.settings.server.response_memory)
    client.event_hooks = {}  # the contract is for the first response of each route
    response = await client.post("/delivery/pull/loja1", json={}, headers={"accept": "text/event-stream"})
    assert response.status_code == 200
    assert "id: " not in response.text
    assert "event: error\ndata: " in response.text
    assert "server.response_memory" in response.text


async def test_what_waits_for_memory_is_left_to_its_lane(client: httpx.AsyncClient, gateway: Gateway) -> None:
    """So that nobody keeps many of them by returning their leases meanwhile."""

    class Full(Room):
        is_full = True

        def reserve_nowait(self, size: int) -> bool:
            return not self.is_full

        async def reserve(self, size: int) -> None:
            await ack(client, consumer="slow", release=True)
            assert ids_of(await pull(client, consumer="fast", max=1)) == ["e-0"]
            self.is_full = False

    await set_pulled(client)
    await emit(client, "e-0", "e-1")
    with pytest.raises(Conflict, match="The consumer 'fast' has leased"):
        await gateway.pulls.pull("loja1", "default", Pull(consumer="slow"), Full())


async def test_what_is_leased_does_not_wait_for_another_lane(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await set_pulled(client, ordering="none", concurrency=8)
    registration = gateway.registry.find("loja1", "default")
    assert registration is not None
    await emit(client, *[f"e-{number}" for number in range(20)])
    last = gateway.dispatcher.pulled(registration.id)[-1]
    async with last.lock:  # as while memory is short
        with trio.fail_after(30):
            assert 0 < len(ids_of(await pull(client, wait="60s"))) < 20


async def test_a_receiver_that_has_lost_its_state_goes_back(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await set_pulled(client)
    await emit(client, *(f"e-{number}" for number in range(6)))
    found = (await pull(client))["deliveries"]
    await ack(client, cursor=found[3]["cursor"])
    again = await pull(client, after=found[1]["cursor"])
    assert ids_of(again) == ["e-2", "e-3", "e-4", "e-5"]
    assert [one["headers"]["x-attempt"] for one in again["deliveries"]] == ["2", "2", "1", "1"]
    assert again["deliveries"][0]["cursor"] == found[2]["cursor"]
    assert again["deliveries"][0]["body"] == found[2]["body"]
    await ack(client, cursor=again["cursor"])
    # What nobody fetches from any more is idle by then: a lane of its own begins.
    await emit(client, "e-6")
    assert ids_of(await pull(client, after=found[4]["cursor"])) == ["e-5", "e-6"]
    audit = (await client.get("/audit/list/loja1")).json()["entries"]
    assert [one["details"]["after"] for one in audit if one["action"] == "delivery.replay"] == [
        found[4]["cursor"],
        found[1]["cursor"],
    ]


async def test_going_back_ends_the_lease_and_leaves_dead_letters(client: httpx.AsyncClient) -> None:
    await set_pulled(client, retry={"schedule": []})
    await emit(client, "e-0", "e-1", "e-2", "e-3")
    found = (await pull(client))["deliveries"]
    await ack(client, ids=[found[0]["id"]], failed=[{"id": found[1]["id"]}])
    await ack(client, cursor=(await pull(client, max=1))["cursor"])  # e-2
    await pull(client)
    again = await pull(client, after=found[0]["cursor"])
    assert ids_of(again) == ["e-2", "e-3"]


async def test_a_cursor_of_before_a_restore_is_refused(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await set_pulled(client)
    await emit(client, "e-0", "e-1")
    found = (await pull(client))["deliveries"]
    cursor = found[0]["cursor"]
    place, seq, check, generation = cursor.split(".")
    # The last one has the numbers of a delivery that is there.
    for wrong in (
        f"{place}.ffff.{check}.{generation}",
        f"{place}.{seq}.00000000.{generation}",
        f"{place}.{seq}.{check}.000000000000",
        f"{place}.{seq}.{check}",
    ):
        response = await client.post("/delivery/pull/loja1", json={"after": wrong})
        assert (response.status_code, "before a restore" in shape_of(response)[0]) == (409, True)
    assert "before a restore" in (await ack(client, status=409, cursor=wrong))[0]
    await client.post("/webhook/set/loja1/crm", json={"url": "pull:"})
    response = await client.post("/delivery/pull/loja1/crm", json={"after": cursor})
    assert response.status_code == 409


async def test_the_place_in_another_instance_s_webhook_counts_nothing_as_delivered(
    client: httpx.AsyncClient,
) -> None:
    """As when a program keeps the places of two accounts under one name."""
    await set_pulled(client)
    await client.post("/webhook/set/loja2", json={"url": "pull:"})
    await emit(client, "e-0", "e-1")
    await client.post("/event/emit/loja2", json=one(id="x-0"))
    await emit(client, "e-2")
    fetched = await client.post("/delivery/pull/loja2", json={"wait": "5s"})
    cursor = fetched.json()["cursor"]
    response = await client.post("/delivery/pull/loja1", json={"after": cursor})
    assert (response.status_code, "not of this webhook" in shape_of(response)[0]) == (409, True)
    assert ids_of(await pull(client)) == ["e-0", "e-1", "e-2"]
    assert "not of this webhook" in (await ack(client, status=409, cursor=cursor))[0]
    assert ids_of(await pull(client)) == ["e-0", "e-1", "e-2"]


@is_sqlite
@pytest.mark.parametrize("is_restored", [False, True], ids=["copied", "restored"])
async def test_a_cursor_of_another_data_file_counts_nothing_as_delivered(
    settings: Settings, tmp_path: Path, is_restored: bool
) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[httpx.AsyncClient]:
        async with (
            open_whole_gateway(settings, base=tmp_path) as gateway,
            trio.open_nursery() as nursery,
            open_client(create_app(gateway), nursery, apikey=KEY) as client,
        ):
            yield client
            nursery.cancel_scope.cancel()

    path, former, expected = tmp_path / "hookgw.db", tmp_path / "former.db", ["e-2", "e-3"]
    async with opened() as client:
        await set_pulled(client)
    if is_restored:
        path.rename(former)
        restore_file(former, path, force=False)
    async with opened() as client:
        await emit(client, "e-0", "e-1", "e-2", "e-3")
        cursor = (await pull(client, max=2))["cursor"]
        await pull(client, after=cursor, wait="0s")
    if is_restored:
        restore_file(former, path, force=True)
    else:
        path.rename(former)
        with file_rows.open_source(former) as rows, file_rows.open_target(path) as others:
            copy_rows(rows, others)
    async with opened() as client:
        response = await client.post("/delivery/pull/loja1", json={"after": cursor})
        assert response.status_code == 409
        if is_restored:
            expected = ["e-4", "e-5"]
            await emit(client, *expected)
        assert ids_of(await pull(client)) == expected


class TestOneRequestAtATime:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(bind=("127.0.0.1:0",), max_requests=1)

    async def test_a_fetch_that_waits_is_no_request_in_progress(
        self, client: httpx.AsyncClient, gateway: Gateway
    ) -> None:
        await set_pulled(client)
        found: list[dict[str, Any]] = []

        async def fetch() -> None:
            found.append(await pull(client, wait="30s"))

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                for number in (1, 2):  # until it waits, a fetch is a request in progress
                    nursery.start_soon(fetch)
                    while gateway.pulls.waiting("loja1") < number:  # noqa: ASYNC110 -- it has no event
                        await trio.sleep(0.01)
                await emit(client, "e-0")
        assert [ids_of(one) for one in found] == [["e-0"], ["e-0"]]


class TestFewConnections:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(bind=("127.0.0.1:0",), max_connections=16)

    async def test_the_fetches_of_a_key_that_reaches_many_instances_leave_connections_to_others(
        self, client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hookgw.deliveries.pull.LOOK_EVERY", 0.05)
        for name in ("loja1", "loja2"):
            await client.post("/instance/create", json={"instanceName": name, "tags": {"tenant": "acme"}})
            await client.post(f"/webhook/set/{name}", json={"url": "pull:"})
        made = await client.post("/key/create", json={"name": "acme", "tags": {"tenant": "acme"}})
        key = made.json()["key"]

        async def fetch(name: str) -> None:
            await client.post(f"/delivery/pull/{name}", json={"wait": "60s"}, headers={"apikey": key})

        async with trio.open_nursery() as nursery:
            for number in range(4):  # of 8, as many as it leaves free
                nursery.start_soon(fetch, f"loja{number % 2 + 1}")
                while sum(map(gateway.pulls.waiting, ("loja1", "loja2"))) <= number:  # noqa: ASYNC110 -- no event
                    await trio.sleep(0.01)
            refused = await client.post("/delivery/pull/loja1", json={"wait": "60s"}, headers={"apikey": key})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert shape_of(refused) == [
                "4 fetches with this key wait, its share of server.max_connections. Retry later."
            ]
            assert (await client.post("/delivery/pull/loja1", json={})).status_code == 200  # the operator's
            nursery.cancel_scope.cancel()
        with trio.fail_after(10):
            await until(lambda: not gateway.pulls.waiting("loja1"))
            found = await client.post("/delivery/pull/loja1", json={}, headers={"apikey": key})
        assert found.status_code == 200


async def test_so_many_fetches_of_an_instance_may_wait(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.deliveries.pull.MOST_WAITING", 0)
    await set_pulled(client)
    response = await client.post("/delivery/pull/loja1", json={"wait": "5s"})
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")


async def test_a_consumer_that_has_gone_leases_nothing(
    client: httpx.AsyncClient, gateway: Gateway, server: Running
) -> None:
    """A process that ends closes its connection, but the system does not tell that from half a close."""
    await set_pulled(client)
    async with await server.connect() as stream:
        body = b'{"consumer": "old", "wait": "60s"}'
        headers = f"host: x\r\napikey: {KEY}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        await stream.send_all(f"POST /delivery/pull/loja1 HTTP/1.1\r\n{headers}\r\n\r\n".encode() + body)
        await until(lambda: gateway.pulls.waiting("loja1"))
        await stream.send_eof()
        await wait_all_tasks_blocked(0.05)
    await emit(client, "e-0")
    await until(lambda: not gateway.pulls.waiting("loja1"))
    assert ids_of(await pull(client, consumer="new")) == ["e-0"]


async def test_a_deleted_webhook_ends_the_wait(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await set_pulled(client)
    await emit(client, "e-0")
    found = await pull(client)
    await ack(client, cursor=found["cursor"])  # first: a fetch before it has the same lease again
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def fetch() -> None:
                await pull(client, wait="60s", status=404)

            await until(lambda: gateway.pulls.waiting("loja1"))
            await client.delete("/webhook/delete/loja1")


async def test_a_backfill_is_fetched_before_what_came_after_the_call(client: httpx.AsyncClient) -> None:
    await client.post("/instance/create", json={"instanceName": "loja1"})
    await emit(client, "e-0", "e-1")
    await set_pulled(client)
    assert (await client.post("/webhook/backfill/loja1", json={"since": "1h"})).status_code == 202
    await emit(client, "e-2")
    seen: list[str] = []
    while len(seen) < 3:
        found = await pull(client)
        seen += ids_of(found)
        await ack(client, cursor=found["cursor"])
    assert seen == ["e-0", "e-1", "e-2"]
