"""``/delivery/list``, ``/delivery/replay`` and ``/delivery/cancel`` without an instance; orders to jobs."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio

from hookgw import Gateway
from hookgw.core import jobs
from hookgw.testing import Receiver, answer
from tests.api.conftest import KEY, open_client
from tests.api.routes.test_events import one
from tests.api.routes.test_jobs import ended
from tests.api.test_app import shape_of
from tests.public.records import JobKind
from tests.public.web import AppApplication as Application
from tests.support.waits import until

TENANT = {"apikey": "the-key-of-the-shop"}
NAMES = ("loja1", "loja2", "shop")


@pytest.fixture
async def client(
    app: Application, nursery: trio.Nursery, gateway: Gateway, hookgw_receiver: Receiver
) -> AsyncIterator[httpx.AsyncClient]:
    """With the global key. Each instance has a dead letter; its receiver takes what comes from then on."""
    hookgw_receiver.default = answer(422)
    async with open_client(app, nursery, apikey=KEY) as client:
        for name in NAMES:
            await gateway.instances.create(name, token=TENANT["apikey"] if name == "shop" else None)
            await client.post(f"/webhook/set/{name}", json={"url": f"{hookgw_receiver.url}{name}"})
            await client.post(f"/event/emit/{name}", json=one(id=f"of-{name}"))
        await dead(client, {})
        hookgw_receiver.default = answer()
        hookgw_receiver.requests.clear()
        yield client


async def dead(client: httpx.AsyncClient, headers: dict[str, str], count: int = 3) -> None:
    with trio.fail_after(10):
        while True:
            found = (await client.get("/delivery/list?state=dead", headers=headers)).json()["deliveries"]
            if len(found) == count:
                return
            await trio.sleep(0.02)


async def listed(client: httpx.AsyncClient, query: str, **headers: str) -> list[str]:
    response = await client.get(f"/delivery/list?{query}", headers=headers)
    assert response.status_code == 200, response.text
    return sorted(found["instance"] for found in response.json()["deliveries"])


async def test_a_list_of_several_instances(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> None:
    host = hookgw_receiver.url.split("/")[2]
    for query, names in {
        "": NAMES,
        "instances=loja*": NAMES[:2],
        "instances=loja2,shop&limit=1000": NAMES[1:],
        "status=422": NAMES,
        "status=5xx": (),
        "error=422": NAMES,
        "error=nothing": (),
        "label=default": NAMES,
        "label=crm": (),
        f"host={host}": NAMES,
        "host=example.com": (),
        "since=1h": NAMES,
        "until=1h": (),
        "failedSince=dlv_1&instances=loja1": NAMES[:1],
        "person=nobody": (),
        "events=call,messages.upsert": NAMES,
    }.items():
        assert await listed(client, query) == [*names], query
    page = (await client.get("/delivery/list?limit=2")).json()
    rest = (await client.get(f"/delivery/list?limit=2&cursor={page['cursor']}")).json()
    assert [one["instance"] for one in page["deliveries"] + rest["deliveries"]] == [*reversed(NAMES)]
    for query in ("instances=x y", "status=abc", "host=a/b", "failedSince=17", "instances=none"):
        assert (await client.get(f"/delivery/list?{query}")).status_code in (400, 404), query


async def test_an_instances_key_reaches_its_own_alone(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    assert await listed(client, "", **TENANT) == ["shop"]
    assert await listed(client, "instances=*", **TENANT) == ["shop"]
    assert await listed(client, "instances=loja*", **TENANT) == []
    assert (await client.get("/delivery/list?instances=loja1", headers=TENANT)).status_code == 403
    assert (await client.get("/delivery/list?instances=nobody", headers=TENANT)).status_code == 403
    for call in ("replay", "cancel"):
        body = {"since": "1h", "instances": ["loja1", "shop"]}
        assert (await client.post(f"/delivery/{call}", json=body, headers=TENANT)).status_code == 403
    counting = {"since": "1h", "dryRun": True}
    counted = (await client.post("/delivery/replay", json=counting, headers=TENANT)).json()
    assert counted == {"replayed": 0, "matching": 1, "instances": {"shop": {"default": 1}}}
    replayed = await client.post("/delivery/replay", json={"since": "1h"}, headers=TENANT)
    assert (replayed.status_code, replayed.json()) == (202, {"replayed": 1})
    await hookgw_receiver.wait_for(1)
    assert [request.target for request in hookgw_receiver.requests] == ["/shop"]


async def test_a_replay_of_several_is_one_job(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> None:
    asked = {"since": "1h", "instances": ["loja*"]}
    counted = (await client.post("/delivery/replay", json=asked | {"dryRun": True})).json()
    assert counted["instances"] == {"loja1": {"default": 1}, "loja2": {"default": 1}}
    response = await client.post("/delivery/replay", json=asked)
    assert (response.status_code, response.json()) == (202, {"replayed": 2})
    await hookgw_receiver.wait_for(2)
    assert sorted(request.target for request in hookgw_receiver.requests) == ["/loja1", "/loja2"]
    nothing = await client.post("/delivery/replay", json=asked | {"instances": ["none*"]})
    assert (nothing.status_code, nothing.json()) == (202, {"replayed": 0})
    assert (await client.post("/delivery/replay", json=asked | {"instances": ["none"]})).status_code == 404
    assert shape_of(await client.post("/delivery/replay", json={})) == ["since is missing."]
    assert (await client.post("/delivery/replay", json={"failedSince": "dlv_1"})).status_code == 202
    assert (await client.post("/delivery/replay", json={"finishedSince": "1h"})).status_code == 202


async def test_a_cancellation_of_several(client: httpx.AsyncClient) -> None:
    for name in NAMES:
        await client.post(f"/webhook/pause/{name}")
        await client.post(f"/event/emit/{name}", json=one())
    counted = (await client.post("/delivery/cancel", json={"dryRun": True})).json()
    assert (counted["matching"], len(counted["instances"])) == (3, 3)
    some = await client.post("/delivery/cancel", json={"instances": ["loja*"]})
    assert (some.status_code, some.json()) == (200, {"cancelled": 2})
    assert await listed(client, "state=pending") == ["shop"]
    assert (await client.post("/delivery/cancel", json={}, headers=TENANT)).json() == {"cancelled": 1}


async def test_jobs_are_paused_resumed_and_cancelled(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.05)
    free, obey = trio.Event(), gateway.jobs.obey

    async def held(running: Any, *given: Any, **more: Any) -> bool:
        if running.job.instance != "*":
            await free.wait()
        return await obey(running, *given, **more)

    monkeypatch.setattr(gateway.jobs, "obey", held)
    job = (await client.post("/delivery/replay", json={"since": "1h"})).json()["job"]
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 5.0)
    paused = await client.post(f"/job/pause/{job}")
    assert (paused.status_code, paused.json()["state"]) == (200, "paused")
    assert paused.json()["instances"] == {"done": 0, "total": 3}
    (shown,) = (await client.get("/job/list")).json()
    assert (shown["id"], shown["state"]) == (job, "paused")
    parts = (await client.get(f"/job/list?parent={job}")).json()
    assert sorted(part["instance"] for part in parts) == [*NAMES]
    assert [part["parent"] for part in parts] == [job] * 3
    assert shape_of(await client.post(f"/job/pause/{parts[0]['id']}")) == [
        f"The job is part of {job}: pause that one."
    ]
    (own,) = (await client.get("/job/list", headers=TENANT)).json()
    assert (own["instance"], own["parent"]) == ("shop", job)
    for order in ("pause", "resume", "cancel"):
        assert (await client.post(f"/job/{order}/{job}", headers=TENANT)).status_code == 404
    assert (await client.post(f"/job/resume/{job}")).json()["state"] == "running"
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.05)
    await client.post(f"/job/cancel/{job}")
    free.set()
    assert (await ended(client, job))["state"] == "cancelled"
    assert (await client.post(f"/job/pause/{job}")).status_code == 409
    entries = (await client.get("/audit/list?action=job")).json()["entries"]
    assert [(entry["action"], entry["subject"]) for entry in reversed(entries)] == [
        ("job.pause", job),
        ("job.resume", job),
        ("job.cancel", job),
    ]


async def test_jobs_of_a_key_that_wait_for_others_are_limited(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused one lets them wait for ever, each with a part for each instance. Operators have no limit."""
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0)
    monkeypatch.setattr("hookgw.deliveries.bulk.MOST_OF_CALLER", 2)
    free, obey = trio.Event(), gateway.jobs.obey

    async def held(running: Any, *given: Any, **more: Any) -> bool:
        if running.job.instance.startswith("loja"):
            await free.wait()
        return await obey(running, *given, **more)

    monkeypatch.setattr(gateway.jobs, "obey", held)
    made = await client.post("/key/create", json={"name": "crm", "instances": ["loja1", "loja2"]})
    crm = {"apikey": made.json()["key"]}
    both: dict[str, Any] = {"since": "1h", "state": "all"}
    one_of_them = {**both, "instances": ["loja1"]}

    async def ask(call: str, body: Any, headers: dict[str, str]) -> int:
        return (await client.post(f"/delivery/{call}", json=body, headers=headers)).status_code

    assert await ask("replay", both, crm) == 202
    # While the part of an earlier job is not stored yet, nothing waits for it.
    await until(lambda: gateway.jobs.running(JobKind.REPLAY, "loja1") is not None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "replay", one_of_them, crm)  # it is stored, and answered, once it waits
        await until(lambda: gateway.jobs.of_caller("key crm") >= 2)
        for call, body in (
            ("replay", both),
            ("replay", one_of_them),
            ("cancel", {}),
            ("cancel", {"instances": ["loja1"]}),
        ):
            refused = await client.post(f"/delivery/{call}", json=body, headers=crm)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "10"), call
            assert "2 replays and cancellations of this key run or wait" in shape_of(refused)[0]
        assert await ask("replay", both, {}) == 202
        assert await ask("replay", {**both, "instances": ["shop"]}, TENANT) == 202
        free.set()
        await until(lambda: not gateway.jobs.of_caller("key crm"))
    assert await ask("cancel", {}, crm) in (200, 202)


async def test_resend_with_other_data_or_to_another_url(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    call = "/delivery/resend/loja1/of-loja1"
    edited = await client.post(call, json={"data": {"n": 2}})
    assert edited.status_code == 202
    assert edited.json()["eventId"].startswith("of-loja1-edited-")
    once = await client.post(call, json={"url": f"{hookgw_receiver.url}look"})
    assert (once.status_code, once.json()["status"]) == (200, 200)
    await hookgw_receiver.wait_for(2)
    both = await client.post(call, json={"url": hookgw_receiver.url, "data": 1, "more": 1})
    assert shape_of(both) == [
        "more is not a field of a resend.",
        "data and url cannot be given together.",
    ]
    assert (await client.post(call, json={"url": "ftp://x"})).status_code == 400


async def test_a_test_with_its_own_kind_and_data(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    response = await client.post("/webhook/test/loja1", json={"event": "CALL", "data": {"n": 1}})
    assert (response.status_code, response.json()["status"]) == (200, 200)
    assert hookgw_receiver.requests[-1].json["data"] == {"n": 1}
    assert (await client.post("/webhook/test/loja1")).status_code == 200
    assert (await client.post("/webhook/test/loja1", json={"event": "nothing"})).status_code == 400
    assert (await client.post("/webhook/test/loja1", json={"events": "CALL"})).status_code == 400


async def test_tags_choose_the_instances_of_lists_replays_and_cancellations(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    for name, tags in {"loja1": {"tenant": "acme", "plan": "gold"}, "shop": {"tenant": "acme"}}.items():
        await gateway.instances.change_tags(name, tags)
    for query, names in {
        "tag=tenant=acme": ("loja1", "shop"),
        "tag=tenant%3Dacme&tag=plan=gold": ("loja1",),
        "tag=tenant=acme&instances=loja*": ("loja1",),
        "tag=tenant=acme&tag=tenant=bolt": (),
        "tag=tenant=nobody": (),
        "tag=": NAMES,
    }.items():
        assert await listed(client, query) == [*names], query
        events = (await client.get(f"/event/list?{query}")).json()["events"]
        assert sorted(one["instance"] for one in events if one["event"] == "MESSAGES_UPSERT") == [*names]
    for path in ("/delivery/list?tag=tenant", "/event/list?tag=a%20b=c", "/delivery/list/shop?tag=a=b"):
        assert (await client.get(path)).status_code == 400, path
    asked: dict[str, Any] = {"since": "1h", "tags": {"tenant": "acme"}}
    counted = (await client.post("/delivery/replay", json=asked | {"dryRun": True})).json()
    assert counted["instances"] == {"loja1": {"default": 1}, "shop": {"default": 1}}
    assert (await client.post("/delivery/replay", json=asked)).json() == {"replayed": 2}
    await hookgw_receiver.wait_for(2)
    assert sorted(request.target for request in hookgw_receiver.requests) == ["/loja1", "/shop"]
    one_of_them = asked | {"tags": {"tenant": "acme", "plan": "gold"}, "state": "all"}
    assert (await client.post("/delivery/replay", json=one_of_them)).json() == {"replayed": 1}
    assert (await client.post("/delivery/cancel", json={"tags": {"tenant": "x"}})).json() == {"cancelled": 0}
    for call, path in (("replay", ""), ("cancel", "/loja1")):
        body = asked | {"tags": {"tenant": ""}} if not path else {"tags": {"tenant": "acme"}}
        assert (await client.post(f"/delivery/{call}{path}", json=body)).status_code == 400
    entries = (await client.get("/audit/list?action=delivery.replay")).json()["entries"]
    assert "tenant=acme" in {one["details"].get("tags") for one in entries}
    # A tag reaches no further than the key.
    assert await listed(client, "tag=tenant=acme", **TENANT) == ["shop"]


async def test_events_are_listed_by_their_deliveries(client: httpx.AsyncClient) -> None:
    async def found(query: str, **headers: str) -> list[str]:
        response = await client.get(f"/event/list{query}&kind=messages.upsert", headers=headers)
        assert response.status_code == 200, response.text
        return sorted(one["instance"] for one in response.json()["events"])

    everything = "state=dead&status=4xx&label=default&host=127.0.0.1&since=1h&events=MESSAGES_UPSERT"
    assert await found(f"?{everything}") == [*NAMES]
    assert await found(f"?{everything}&instances=loja*") == ["loja1", "loja2"]
    assert await found(f"/loja1?{everything}") == ["loja1"]
    assert await found(f"?{everything}", **TENANT) == ["shop"]
    ids = {one["instance"]: one["id"] for one in (await client.get("/delivery/list")).json()["deliveries"]}
    assert await found(f"?failedSince={ids['loja2']}") == ["loja2", "shop"]
    for none in (
        "state=delivered",
        "status=503",
        "label=crm",
        "host=crm.example",
        "error=no+such",
        "person=x@y",
    ):
        assert await found(f"?{none}") == [], none
    assert (await client.get("/event/list/loja1?label=crm")).status_code == 404
    assert (await client.get("/event/list?state=sad")).status_code == 400
