"""A machine whose clock was set, or that slept: "two hours ago" is counted from the times that are stored."""

import httpx
import pytest
import trio

from hookgw import Gateway
from hookgw.testing import Receiver, answer
from tests.api.routes.test_events import one

HOURS = 10.5 * 3600
DEAD = "/delivery/list/shop?state=dead"


@pytest.fixture(params=[HOURS, -HOURS], ids=["forward", "back"])
async def apart(
    request: pytest.FixtureRequest,
    client: httpx.AsyncClient,
    gateway: Gateway,
    hookgw_receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> float:
    """Set the machine's clock by so many seconds; an event becomes a dead letter then."""
    by: float = request.param
    wall = gateway.clock.wall
    monkeypatch.setattr(gateway.clock, "wall", lambda: wall() + by)
    hookgw_receiver.default = answer(400)
    await client.post("/webhook/set/shop", json={"url": hookgw_receiver.url})
    assert (await client.post("/event/emit/shop", json=one())).status_code == 202
    await hookgw_receiver.wait_for(1)
    with trio.fail_after(10):
        while not (await client.get(DEAD)).json()["deliveries"]:  # noqa: ASYNC110 (nobody tells of the commit)
            await trio.sleep(0.01)
    return by


async def test_lists_have_what_came_in_the_last_two_hours(client: httpx.AsyncClient, apart: float) -> None:
    assert apart
    for path, key in (
        ("/delivery/list/shop?since=2h&until=1ms", "deliveries"),
        ("/delivery/list?since=2h&until=1ms", "deliveries"),
        ("/event/list/shop?since=2h&until=1ms", "events"),
    ):
        found = await client.get(path)
        assert found.status_code == 200, found.text
        assert len(found.json()[key]) == 1, f"{path} {found.text}"
        assert (await client.get(path.replace("=1ms", "=1h"))).json()[key] == []


async def test_replays_and_backfills_count_it(client: httpx.AsyncClient, apart: float) -> None:
    assert apart
    body = {"since": "2h", "until": "1ms", "dryRun": True}
    counted = await client.post("/delivery/replay/shop", json=body)
    assert counted.status_code == 200, counted.text
    assert counted.json()["matching"] == 1, counted.text
    assert (await client.post("/delivery/replay/shop", json=body | {"until": "1h"})).json()["matching"] == 0
    await client.post("/webhook/set/shop/other", json={"url": "http://127.0.0.1:1/"})
    found = await client.post("/webhook/backfill/shop/other", json=body)
    assert found.json()["count"] == 1, found.text


async def test_the_diagnosis_says_so_and_counts_the_last_day(client: httpx.AsyncClient, apart: float) -> None:
    checks = {check["check"]: check for check in (await client.get("/diagnosis/shop")).json()["checks"]}
    which = "behind" if apart > 0 else "ahead of"
    assert checks["clock"]["state"] == "warning"
    assert checks["clock"]["found"] == f"The times of hookgw are 10h {which} the machine's clock."
    assert checks["dead letters"]["found"] == "1 in the last day."
    assert checks["events"]["found"].startswith("The last stored event came 0s ago.")


async def test_clocks_that_agree_are_no_check(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("shop")
    assert "clock" not in (await client.get("/diagnosis/shop")).text
