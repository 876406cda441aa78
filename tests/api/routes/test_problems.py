"""``/problem``: what is wrong, by its cause; and mutes."""

from typing import Any

import httpx
import pytest
import trio

from hookgw import Gateway
from hookgw.testing import Receiver, answer
from tests.api.routes.test_events import one
from tests.public.auth import new_key
from tests.public.records import Key, Reach

REFUSED = "http://127.0.0.1:9/hook"


async def fail(client: httpx.AsyncClient, *names: str, url: str = REFUSED) -> None:
    for name in names:
        await client.post("/instance/create", json={"instanceName": name})
        hook = {"url": url, "retry": {"schedule": ["1h"]}}
        assert (await client.post(f"/webhook/set/{name}", json=hook)).status_code == 201
        await client.post(f"/event/emit/{name}", json=one())


async def listed(client: httpx.AsyncClient, count: int, **options: Any) -> list[dict[str, Any]]:
    """The problems, once so many webhooks have one."""
    with trio.fail_after(20):
        while True:
            page = (await client.get("/problem/list", **options)).json()
            found: list[dict[str, Any]] = page["problems"]
            if sum(len(group["problems"]) for group in found) == count:
                assert page["others"] == 0
                return found
            await trio.sleep(0.02)


async def test_problems_are_listed_by_their_cause(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    assert (await client.get("/problem/list")).json() == {"problems": [], "others": 0}
    hookgw_receiver.default = answer(410)
    await fail(client, "loja3", url=hookgw_receiver.url)
    with trio.fail_after(20):
        while gateway.registrations.get("loja3").enabled:  # noqa: ASYNC110 (an attempt)
            await trio.sleep(0.02)
    await fail(client, "loja1", "loja2")
    gone, refused = await listed(client, 3)
    # What loses events comes first, whatever waits for the others.
    assert (gone["kind"], gone["loss"], gone["repairs"]) == ("webhook_disabled", "events", ["enable"])
    assert refused["cause"] == "127.0.0.1:9 refuses connections"
    assert (refused["loss"], refused["repairs"], refused["mute"]) == ("time", ["try", "pause"], None)
    assert (refused["webhooks"], refused["instances"], refused["pending"]) == (2, 2, 2)
    assert {(one["instance"], one["label"], one["url"]) for one in refused["problems"]} == {
        (name, "default", REFUSED) for name in ("loja1", "loja2")
    }
    assert refused["since"] == min(one["since"] for one in refused["problems"])


async def test_receivers_that_fetch_have_a_problem_each(client: httpx.AsyncClient) -> None:
    """They share no host: each is somebody else's program."""
    for name in ("loja1", "loja2"):
        await fail(client, name, url="pull:")
        fetched = (await client.post(f"/delivery/pull/{name}", json={})).json()["deliveries"]
        failed = [{"id": fetched[0]["id"], "reason": "A bug."}]
        await client.post(f"/delivery/ack/{name}", json={"failed": failed})
    assert {one["cause"] for one in await listed(client, 2)} == {"loja1/default fails", "loja2/default fails"}


async def test_a_key_gets_its_own_problems_without_the_mutes_of_operators(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await fail(client, "loja1", "loja2")
    (group,) = await listed(client, 2)
    body = {"reason": "The host moves.", "until": "7d"}
    assert (await client.post(f"/problem/mute/{group['id']}", json=body)).status_code == 200
    (muted,) = await listed(client, 2)
    assert muted["mute"]["reason"] == "The host moves."
    assert (await client.get("/audit/list?action=problem.mute")).json()["entries"][0]["details"] == {
        "problem": "127.0.0.1:9 refuses connections",
        "reason": "The host moves.",
    }
    key, ring = new_key(), gateway.authenticator.keyring
    reach = Reach(instances=frozenset({gateway.instances.get("loja1").id}))
    ring.add_global(Key(name="theirs", hash=ring.hash(key), reach=reach, rights=("read",)))
    (theirs,) = await listed(client, 1, headers={"apikey": key})
    assert (theirs["webhooks"], theirs["mute"], theirs["problems"][0]["instance"]) == (1, None, "loja1")
    assert (await client.post(f"/problem/unmute/{group['id']}")).status_code == 200
    (shown,) = await listed(client, 2)
    assert shown["mute"] is None


async def test_two_who_mute_at_once_both_do(client: httpx.AsyncClient) -> None:
    await fail(client, "loja1")
    await fail(client, "loja2", url=REFUSED.replace("127.0.0.1", "127.0.0.2"))
    with trio.fail_after(20):
        while len(groups := (await client.get("/problem/list")).json()["problems"]) < 2:  # noqa: ASYNC110 (an attempt)
            await trio.sleep(0.02)

    async def change(call: str, id_: str) -> None:
        body = {"reason": "Known.", "until": "7d"} if call == "mute" else None
        assert (await client.post(f"/problem/{call}/{id_}", json=body)).status_code == 200

    for call in ("mute", "unmute"):
        async with trio.open_nursery() as nursery:
            for one in groups:
                nursery.start_soon(change, call, one["id"])
        shown = (await client.get("/problem/list")).json()["problems"]
        assert [one["mute"] is not None for one in shown] == [call == "mute"] * 2


async def test_at_the_limit_a_mute_can_be_changed(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.operations.repairs.MOST_MUTES", 1)
    await fail(client, "loja1")
    await fail(client, "loja2", url="http://127.0.0.1:10/hook")
    one, other = await listed(client, 2)
    for group, until, status in ((one, "1d", 200), (one, "7d", 200), (other, "1d", 400)):
        body = {"reason": f"Known for {until}.", "until": until}
        assert (await client.post(f"/problem/mute/{group['id']}", json=body)).status_code == status
    reasons = {shown["mute"] and shown["mute"]["reason"] for shown in await listed(client, 2)}
    assert reasons == {"Known for 7d.", None}


async def test_a_mute_for_ever_is_shown(client: httpx.AsyncClient) -> None:
    await fail(client, "loja1")
    (group,) = await listed(client, 1)
    for until in ("9999-12-31T23:59:59-03:00", "500000w"):
        body = {"reason": "Known.", "until": until}
        assert (await client.post(f"/problem/mute/{group['id']}", json=body)).status_code == 200
        (muted,) = await listed(client, 1)
        assert muted["mute"]["until"] == "9999-12-31T23:59:59.000Z"


@pytest.mark.parametrize("since", ["500000w", "0001-01-01T00:00:00+01:00"])
@pytest.mark.parametrize("call", ["delivery/replay", "delivery/cancel", "webhook/backfill"])
async def test_since_ever(client: httpx.AsyncClient, call: str, since: str) -> None:
    await fail(client, "loja1")
    found = await client.post(f"/{call}/loja1", json={"since": since})
    assert found.status_code in (200, 202), found.text


async def test_what_cannot_be_muted(client: httpx.AsyncClient) -> None:
    await fail(client, "loja1")
    (group,) = await listed(client, 1)
    for body, status in (
        ({"reason": "Known.", "until": "2020-01-01T00:00:00Z"}, 400),
        ({"reason": "Known.", "until": "Monday"}, 400),
        ({"reason": " ", "until": "7d"}, 400),
        ({"until": "7d"}, 400),
    ):
        assert (await client.post(f"/problem/mute/{group['id']}", json=body)).status_code == status, body
    body = {"reason": "Known.", "until": "7d"}
    assert (await client.post("/problem/mute/000000000000", json=body)).status_code == 404
