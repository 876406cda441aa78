"""``/job``, and the calls that answer with a job because there is much to do."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio

from hookgw import Gateway
from hookgw.core import jobs
from hookgw.testing import Receiver
from tests.api.conftest import KEY, open_client
from tests.api.routes.test_events import one
from tests.public.web import AppApplication as Application

TENANT = {"apikey": "the-key-of-the-shop"}


class Hold:
    """Keeps every step of a job from being done, but for that which only stores a replay."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gateway: Gateway) -> None:
        self.free = trio.Event()
        for name in ("park_step", "replay_step"):
            monkeypatch.setattr(gateway.store, name, self._held(getattr(gateway.store, name)))

    def _held(self, step: Any) -> Any:
        async def held(*given: Any, **more: Any) -> Any:
            if more.get("is_stored") is False:
                return await step(*given, **{**more, "count": 0})
            await self.free.wait()
            return await step(*given, **more)

        return held


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch, gateway: Gateway) -> Hold:
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.05)
    return Hold(monkeypatch, gateway)


@pytest.fixture
async def client(
    app: Application, nursery: trio.Nursery, gateway: Gateway, hookgw_receiver: Receiver
) -> AsyncIterator[httpx.AsyncClient]:
    """With the global key; the instance ``shop`` has a pending delivery."""
    await gateway.instances.create("shop", token=TENANT["apikey"])
    async with open_client(app, nursery, apikey=KEY) as client:
        await client.post("/webhook/set/shop", json={"url": hookgw_receiver.url})
        # No job counts a delivery whose attempt is in flight.
        await client.post("/webhook/pause/shop")
        await client.post("/event/emit/shop", json=one())
        yield client


async def ended(client: httpx.AsyncClient, job: str) -> dict[str, Any]:
    with trio.fail_after(45):
        while True:
            found: dict[str, Any] = (await client.get(f"/job/find/{job}")).json()
            if found["state"] != "running":
                return found
            await trio.sleep(0.01)


async def test_a_large_instance_is_deleted_in_one_call(client: httpx.AsyncClient, hold: Hold) -> None:
    deleted = await client.delete("/instance/delete/shop", headers=TENANT)
    assert deleted.status_code == 202
    job = deleted.json()["job"]
    assert deleted.json() == {
        "status": "PENDING",
        "error": False,
        "response": {"message": "Instance deleted"},
        "job": job,
    }
    assert (await client.post("/event/emit/shop", json=one())).status_code == 404
    assert (await client.post("/event/emit/shop", json=one(), headers=TENANT)).status_code == 404
    refused = await client.post("/instance/create", json={"instanceName": "shop"})
    assert refused.status_code == 409
    assert job in refused.text
    # The key of the deleted instance finds the job, until it ends.
    running = (await client.get(f"/job/find/{job}", headers=TENANT)).json()
    assert (running["kind"], running["instance"], running["state"]) == ("delete_instance", "shop", "running")
    assert (await client.get("/job/list", headers=TENANT)).json() == [running]
    hold.free.set()
    last = await ended(client, job)
    assert (last["state"], last["done"], last["error"]) == ("done", 1, None)
    assert last["finished"] is not None
    assert (await client.get(f"/job/find/{job}", headers=TENANT)).status_code == 401
    assert (await client.post("/instance/create", json={"instanceName": "shop"})).status_code == 201


async def test_a_registration_is_deleted(client: httpx.AsyncClient, hold: Hold) -> None:
    deleted = await client.delete("/webhook/delete/shop")
    assert deleted.status_code == 202
    assert deleted.json()["response"]["message"] == "Webhook deleted"
    hold.free.set()
    assert (await ended(client, deleted.json()["job"]))["done"] == 1


async def test_a_registration_is_disabled(
    client: httpx.AsyncClient, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    disabled = await client.post("/webhook/set/shop", json={"url": "", "enabled": False})
    assert disabled.status_code == 202
    assert disabled.json()["state"] == "disabled"
    hold.free.set()
    assert (await ended(client, disabled.json()["job"]))["kind"] == "disable_registration"
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 30.0)
    again = await client.post("/webhook/set/shop", json={"url": "", "enabled": False})
    assert again.status_code == 201
    assert "job" not in again.json()


async def test_a_replay(client: httpx.AsyncClient, hold: Hold) -> None:
    replayed = await client.post("/delivery/replay/shop", json={"since": "1h"})
    assert replayed.status_code == 202
    assert replayed.json()["replayed"] == 0
    second = await client.post("/delivery/replay/shop", json={"since": "1h"})
    assert second.status_code == 409
    hold.free.set()
    assert (await ended(client, replayed.json()["job"]))["state"] == "done"


async def test_of_a_short_job_the_audit_alone_has_the_id(client: httpx.AsyncClient) -> None:
    assert (await client.post("/delivery/cancel/shop", json={})).json()["cancelled"] == 1
    entries = (await client.get("/audit/list/shop", params={"action": "delivery.cancel"})).json()["entries"]
    found = await client.get(f"/job/find/{entries[0]['details']['job']}")
    assert found.status_code == 404
    assert (
        "unless it ended within 2 s: then the audit alone names it." in found.json()["response"]["message"][0]
    )


async def test_an_instance_key_sees_the_jobs_of_its_instance_alone(
    client: httpx.AsyncClient, gateway: Gateway, hold: Hold
) -> None:
    await gateway.instances.create("bakery", token="the-key-of-the-bakery")
    theirs = {"apikey": "the-key-of-the-bakery"}
    job = (await client.delete("/webhook/delete/shop", headers=TENANT)).json()["job"]
    assert (await client.get(f"/job/find/{job}", headers=TENANT)).status_code == 200
    unseen = await client.get(f"/job/find/{job}", headers=theirs)
    unknown = await client.get("/job/find/job_1", headers=theirs)
    assert unseen.status_code == unknown.status_code == 404
    assert unseen.text.replace(job, "job_1") == unknown.text
    assert (await client.get("/job/list", headers=theirs)).json() == []
    assert [one["id"] for one in (await client.get("/job/list")).json()] == [job]
    hold.free.set()
    await ended(client, job)
    # Neither does a later instance of the same name.
    await client.delete("/instance/delete/shop")
    await gateway.instances.create("shop", token="the-key-of-its-successor")
    later = await client.get(f"/job/find/{job}", headers={"apikey": "the-key-of-its-successor"})
    assert later.status_code == 404


@pytest.mark.parametrize("path", ["shop", "shop/crm"])
async def test_set_does_not_create_an_instance_that_is_being_deleted(
    path: str, client: httpx.AsyncClient, hold: Hold
) -> None:
    job = (await client.delete("/instance/delete/shop")).json()["job"]
    refused = await client.post(f"/webhook/set/{path}", json={"url": "https://example.com/hook"})
    assert refused.status_code == 409
    assert f"is being deleted ({job})" in refused.text
    hold.free.set()
    await ended(client, job)
    document = (await client.get("/openapi.json")).json()
    template = "/webhook/set/{instance}" + ("/{label}" if "/" in path else "")
    assert "409" in document["paths"][template]["post"]["responses"]
