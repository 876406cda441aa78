"""``/key``: requests and responses; ``tests/gateway/test_keys.py`` tests the rules."""

from typing import Any

import httpx
import pytest

from hookgw import Gateway
from tests.api.test_app import shape_of
from tests.public.kernel import parse_rfc3339
from tests.public.web import CURSOR


@pytest.fixture
async def client(client: httpx.AsyncClient, gateway: Gateway) -> httpx.AsyncClient:
    """With an instance."""
    await gateway.instances.create("loja1", token="the-key-of-loja1")
    return client


OWN = {"apikey": "the-key-of-loja1"}


async def test_a_key_is_made_and_shown_once(client: httpx.AsyncClient, gateway: Gateway) -> None:
    response = await client.post("/key/create/loja1", json={"name": "crm", "expiresIn": "30d"})
    assert response.status_code == 201
    answer = response.json()
    key = answer.pop("key")
    life = parse_rfc3339(answer["expiresAt"]) - parse_rfc3339(answer["createdAt"])
    assert life == pytest.approx(30 * 86400, abs=5)
    (_, listed) = (await client.get("/key/list/loja1")).json()
    assert listed == answer
    assert key not in (await client.get("/key/list/loja1")).text
    assert (await client.get("/webhook/find/loja1", headers={"apikey": key})).status_code == 200


async def test_the_list(client: httpx.AsyncClient) -> None:
    await client.post("/key/create/loja1", json={"name": "crm"}, headers=OWN)
    (default, crm) = (await client.get("/key/list/loja1", headers=OWN)).json()
    assert list(crm) == [
        *("name", "instance", "state", "createdAt", "tags", "instances", "rights", "expiresAt", "origin"),
        "current",
    ]
    assert (crm["tags"], crm["instances"], "operate" in crm["rights"]) == ({}, ["loja1"], False)
    assert (default["name"], default["origin"], default["current"]) == ("default", None, True)
    assert (crm["name"], crm["origin"], crm["current"]) == ("crm", "default", False)
    assert (crm["instance"], crm["state"], crm["expiresAt"]) == ("loja1", "active", None)


@pytest.mark.parametrize("headers", [{}, OWN])
async def test_a_right_that_no_key_of_an_instance_has_is_refused(
    headers: dict[str, str], client: httpx.AsyncClient
) -> None:
    body = {"name": "ops", "rights": ["read", "operate"]}
    response = await client.post("/key/create/loja1", json=body, headers=headers)
    assert response.status_code == 400
    assert shape_of(response)[0].startswith("rights: a key of an instance cannot have operate.")
    assert [one["name"] for one in (await client.get("/key/list/loja1")).json()] == ["default"]


async def test_an_instance_rotates_its_own_key(client: httpx.AsyncClient) -> None:
    fresh = (await client.post("/key/create/loja1", json={"name": "fresh"}, headers=OWN)).json()["key"]
    response = await client.delete("/key/delete/loja1/default", headers={"apikey": fresh})
    assert (response.status_code, response.json()["response"]) == (200, {"message": "Key deleted"})
    assert (await client.get("/key/list/loja1", headers=OWN)).status_code == 401
    response = await client.delete("/key/delete/loja1/fresh", headers={"apikey": fresh})
    assert response.status_code == 403
    assert "last key" in shape_of(response)[0]


async def test_global_keys_are_rotated_without_a_restart(client: httpx.AsyncClient) -> None:
    key = (await client.post("/key/create", json={"name": "ops"})).json()["key"]
    (configured, ops) = (await client.get("/key/list", headers={"apikey": key})).json()
    assert (configured["name"], configured["createdAt"], configured["current"]) == (
        "configuration",
        None,
        False,
    )
    assert (ops["name"], ops["instance"], ops["current"]) == ("ops", None, True)
    response = await client.delete("/key/delete/configuration")
    assert response.status_code == 409
    assert "auth.global_key" in shape_of(response)[0]
    assert (await client.delete("/key/delete/ops")).status_code == 200
    assert (await client.get("/key/list", headers={"apikey": key})).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "a b"}, 400),
        ({"name": "x" * 129}, 400),
        ({}, 400),
        ({"name": "a", "expiresAt": "2020-01-01T00:00:00Z"}, 400),
        ({"name": "a", "expiresIn": "1d", "expiresAt": "2036-01-01T00:00:00Z"}, 400),
        ({"name": "default"}, 409),
        ({"name": "x" * 128, "expiresIn": "3650d"}, 201),
    ],
)
async def test_what_can_be_asked_for(body: dict[str, Any], status: int, client: httpx.AsyncClient) -> None:
    response = await client.post("/key/create/loja1", json=body)
    assert response.status_code == status
    assert status == 201 or shape_of(response)


@pytest.mark.parametrize("path", ["/key/create/loja1", "/key/create"])
async def test_a_misspelt_limit_makes_no_key_without_it(path: str, client: httpx.AsyncClient) -> None:
    response = await client.post(path, json={"name": "a", "can": ["read"], "right": ["read"]})
    assert (response.status_code, shape_of(response)) == (
        400,
        [
            "can is not a field of a key.",
            "right is not a field of a key. Did you mean rights?",
        ],
    )
    assert (await client.post(f"{path}?rights=read", json={"name": "a"})).status_code == 400
    assert "a" not in [key["name"] for key in (await client.get(path.replace("create", "list"))).json()]


@pytest.mark.parametrize("scope", ["", "/loja1"])
async def test_a_list_that_ends_early_has_a_cursor(
    scope: str, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"tenant-{number}" for number in (3, 1, 2)]
    for name in names:
        assert (await client.post(f"/key/create{scope}", json={"name": name})).status_code == 201
    whole = (await client.get(f"/key/list{scope}")).json()
    assert [key["name"] for key in whole][1:] == names
    monkeypatch.setattr("hookgw.web.lists.LIST", 1_500)  # with room for one key or two
    found: list[Any] = []
    query: dict[str, str] = {}
    while True:
        response = await client.get(f"/key/list{scope}", params=query)
        found += response.json()
        if CURSOR not in response.headers:
            break
        query = {"cursor": response.headers[CURSOR]}
    assert (found, bool(query)) == (whole, True)


@pytest.mark.parametrize("path", ["/key/delete/loja1/a%20b", "/key/delete/a%20b"])
async def test_names_that_no_key_can_have(path: str, client: httpx.AsyncClient) -> None:
    response = await client.delete(path)
    assert response.status_code == 400
    assert shape_of(response)[0].startswith("The name of the key must be 1 to 128")


async def test_a_key_chosen_short_is_worth_a_warning(client: httpx.AsyncClient) -> None:
    for token, warned in (("x" * 15, True), ("y" * 16, False)):
        body = {"instanceName": f"of-{token}", "token": token}
        answer = (await client.post("/instance/create", json=body)).json()
        assert (answer["hash"], "warnings" in answer) == (token, warned)
        assert token not in repr(answer.get("warnings"))
