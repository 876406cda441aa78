"""``/webhook/backfill``, and what enabling a webhook says of what it has missed."""

from typing import Any

import httpx
import pytest

from hookgw import Gateway
from hookgw.testing import Receiver

EVER = {"since": "2020-01-01T00:00:00Z"}


async def emit(client: httpx.AsyncClient, *ids: str) -> None:
    events = [{"event": "CALL", "id": one, "data": {"n": one}} for one in ids]
    response = await client.post("/event/emit/loja1", json=events)
    assert response.status_code == 202, response.text


@pytest.fixture
async def disabled(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> str:
    """The path of a webhook that is disabled, and has missed two events."""
    stored = await client.post("/webhook/set/loja1/crm", json={"url": hookgw_receiver.url})
    assert stored.status_code == 201
    assert "missed" not in stored.json()
    await client.patch("/webhook/set/loja1/crm", json={"enabled": False})
    await emit(client, "e1", "e2")
    return "loja1/crm"


async def test_what_it_would_be_and_what_it_is(
    client: httpx.AsyncClient, disabled: str, hookgw_receiver: Receiver
) -> None:
    await client.patch(f"/webhook/set/{disabled}", json={"enabled": True})
    response = await client.post(f"/webhook/backfill/{disabled}", json=EVER | {"dryRun": True})
    found = response.json()
    assert (response.status_code, found["count"]) == (200, 2)
    assert [found["first"]["id"], found["last"]["id"]] == ["e1", "e2"]
    some = EVER | {"events": ["call"], "filter": [{"pointer": "/data/n", "op": "equals", "value": "e2"}]}
    counted = await client.post(f"/webhook/backfill/{disabled}", json=some | {"dryRun": True})
    assert counted.json()["count"] == 1
    response = await client.post(f"/webhook/backfill/{disabled}", json=EVER)
    assert (response.status_code, response.json()) == (202, {"backfilled": 2})
    await hookgw_receiver.wait_for(2)
    assert hookgw_receiver.ids == ["e1", "e2"]
    response = await client.post(f"/webhook/backfill/{disabled}", json=EVER | {"dryRun": True})
    assert response.json() == {"count": 0, "first": None, "last": None}


async def test_enabling_says_what_was_missed(client: httpx.AsyncClient, disabled: str) -> None:
    response = await client.patch(f"/webhook/set/{disabled}", json={"enabled": True})
    missed = response.json()["missed"]
    assert (missed["count"], missed["complete"]) == (2, True)
    again = await client.patch(f"/webhook/set/{disabled}", json={"enabled": True})
    assert "missed" not in again.json()
    since = await client.post(
        f"/webhook/backfill/{disabled}", json={"since": missed["since"], "dryRun": True}
    )
    assert since.json()["count"] == 2


async def test_a_set_says_it_too(client: httpx.AsyncClient, disabled: str, hookgw_receiver: Receiver) -> None:
    response = await client.post(f"/webhook/set/{disabled}", json={"url": hookgw_receiver.url})
    assert response.json()["missed"]["count"] == 2


@pytest.mark.parametrize("nested", [False, True])
async def test_enabling_with_a_backfill(
    client: httpx.AsyncClient, disabled: str, hookgw_receiver: Receiver, nested: bool
) -> None:
    body: dict[str, Any] = {"enabled": True, "backfill": True}
    response = await client.patch(f"/webhook/set/{disabled}", json={"webhook": body} if nested else body)
    assert response.status_code in (200, 202)
    assert (response.json()["missed"]["count"], response.json()["warnings"]) == (2, [])
    await emit(client, "e3")
    await hookgw_receiver.wait_for(3)
    assert hookgw_receiver.ids == ["e1", "e2", "e3"]
    response = await client.patch(f"/webhook/set/{disabled}", json=body)
    assert (response.status_code, response.json()["response"]["message"][0][:14]) == (400, "backfill needs")


async def test_a_backfill_of_a_disabled_webhook_and_none_to_end(
    client: httpx.AsyncClient, disabled: str
) -> None:
    response = await client.post(f"/webhook/backfill/{disabled}", json=EVER)
    assert response.status_code == 409
    response = await client.delete(f"/webhook/backfill/{disabled}")
    assert response.status_code == 409


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "since is missing."),
        ({"since": 5}, "since must be an RFC 3339 time"),
        ({"since": "2h", "until": "3h"}, "since must be before until."),
        ({"since": "2h", "event": ["CALL"]}, "event is not a field of a backfill"),
        ({"since": "2h", "events": ["NOPE"]}, "events[0]"),
        ({"since": "2h", "dead": 1}, "dead must be true or false"),
        ({"since": "2h", "filter": [{"pointer": "x"}]}, "filter[0]"),
    ],
)
async def test_a_wrong_body(
    client: httpx.AsyncClient, disabled: str, body: dict[str, Any], said: str
) -> None:
    response = await client.post(f"/webhook/backfill/{disabled}", json=body)
    assert response.status_code == 400
    assert said in " ".join(response.json()["response"]["message"])


async def test_backfill_of_a_patch_must_be_true_or_false(client: httpx.AsyncClient, disabled: str) -> None:
    response = await client.patch(f"/webhook/set/{disabled}", json={"enabled": True, "backfill": "yes"})
    assert response.status_code == 400
    assert response.json()["response"]["message"] == ["backfill must be true or false, not a string."]


async def test_what_does_not_exist(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja2")
    assert (await client.post("/webhook/backfill/loja2", json={})).status_code == 404
    assert (await client.delete("/webhook/backfill/loja2")).status_code == 404


async def test_the_audit_has_it(client: httpx.AsyncClient, disabled: str) -> None:
    body = {"enabled": True, "backfill": True}
    await client.patch(f"/webhook/set/{disabled}", json=body)
    person = {"pointer": "/data/key/remoteJid", "op": "equals", "value": "5511@c"}
    await client.post(f"/webhook/backfill/{disabled}", json=EVER | {"filter": [person], "dead": True})
    entries = (await client.get("/audit/list/loja1", params={"action": "registration"})).json()["entries"]
    first, second = (one for one in entries if one["action"] == "registration.backfill")
    change = next(one for one in entries if one["action"] == "registration.change")
    assert (first["subject"], first["details"]["filter"]) == ("crm", "/data/key/remoteJid equals")
    assert "5511@c" not in str(first)
    assert second["details"].keys() == {"job", "since"}
    assert [one["field"] for one in change["changes"]] == ["enabled"]
