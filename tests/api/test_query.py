"""What lists do with parameters that they do not know."""

import httpx
import pytest

from hookgw import Gateway
from tests.api.test_app import shape_of
from tests.public.web import operation_of
from tests.support.application import create_app

FILTERS = ["state", "label", "host", "status", "error", "finishedSince", "failedSince"]
FILTERS += ["events", "person", "kind", "text", "since", "until"]
FILTERS += ["cursor", "limit"]


async def test_every_list_declares_its_parameters_and_refuses_others(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    app, lists = create_app(gateway), []
    for rule in app.routing.url_map.iter_rules():
        if not rule.rule.endswith(("/list", "/list/<instance>", "/figures/find", "/figures/find/<instance>")):
            continue
        lists.append(rule.rule)
        operation = operation_of(app.routing.view_functions[rule.endpoint])
        assert operation is not None, rule
        path = rule.rule.replace("<instance>", "loja1")
        if path == "/node/list" and gateway.fleet is None:
            continue
        assert (await client.get(path)).status_code == 200, path
        assert (
            await client.get(f"{path}?{'&'.join(f'{one.name}=' for one in operation.query)}")
        ).status_code == 200
        for query in ("lable=x", "colour=", "instanzen=x&limit=1"):
            response = await client.get(f"{path}?{query}")
            assert response.status_code == 400, (path, query)
            assert "in the query is not known" in shape_of(response)[0]
    assert {
        "/delivery/list/<instance>",
        "/webhook/list",
        "/audit/list/<instance>",
        "/lane/list",
        "/figures/find",
    } <= set(lists)


@pytest.mark.parametrize(
    ("query", "messages"),
    [
        ("lable=crm", ["'lable' in the query is not known. Did you mean label?"]),
        ("stat=dead", ["'stat' in the query is not known. Did you mean state?"]),
        ("finished_since=2h", ["'finished_since' in the query is not known. Did you mean finishedSince?"]),
        ("LIMIT=5", ["'LIMIT' in the query is not known. Did you mean limit?"]),
        ("state=dead&state=pending", ["state is given 2 times in the query; give it once."]),
        (
            "q=1&limit=0",
            [f"'q' in the query is not known; this list has {', '.join(FILTERS)}."],
        ),
    ],
)
async def test_the_message_says_what_to_write(
    query: str, messages: list[str], client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    response = await client.get(f"/delivery/list/loja1?{query}")
    assert (response.status_code, shape_of(response)) == (400, messages)


async def test_a_list_without_parameters_says_so(client: httpx.AsyncClient) -> None:
    response = await client.get(f"/key/list?{'x' * 5000}=1")
    assert shape_of(response) == [f"{'x' * 64!r} in the query is not known; this list has no parameters."]
    assert len(shape_of(await client.get("/key/list?" + "&".join(f"p{n}" for n in range(50))))) == 10


async def test_the_key_comes_first(client: httpx.AsyncClient) -> None:
    response = await client.get("/key/list?colour=red", headers={"apikey": "wrong"})
    assert response.status_code == 401
