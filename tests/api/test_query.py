"""What lists and deletions do with parameters that they do not know."""

import httpx
import pytest

from hookgw import Gateway
from tests.api.test_app import shape_of
from tests.public.web import operation_of
from tests.support.application import create_app

FILTERS = ["state", "label", "host", "status", "error", "failedSince", "finishedSince"]
FILTERS += ["events", "kind", "person", "text", "since", "until"]
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
        ("SINCE=2h", ["'SINCE' in the query is not known. Did you mean since?"]),
        ("finished=2h", ["'finished' in the query is not known. Did you mean finishedSince?"]),
        ("state=dead&state=pending", ["state is given 2 times in the query; give it once."]),
        (
            "q=1&limit=0",
            [f"'q' in the query is not known; this call has {', '.join(FILTERS)}."],
        ),
    ],
)
async def test_the_message_says_what_to_write(
    query: str, messages: list[str], client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    response = await client.get(f"/delivery/list/loja1?{query}")
    assert (response.status_code, shape_of(response)) == (400, messages)


async def test_a_list_without_filters_says_so(client: httpx.AsyncClient) -> None:
    response = await client.get(f"/key/list?{'x' * 5000}=1")
    assert shape_of(response) == [f"{'x' * 64!r} in the query is not known; this call has cursor."]
    assert len(shape_of(await client.get("/key/list?" + "&".join(f"p{n}" for n in range(50))))) == 10


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        (
            "/instance/delete/loja1?webhook=crm",
            "'webhook' in the query is not known; this call has no parameters.",
        ),
        (
            "/instance/logout/loja1?label=crm",
            "'label' in the query is not known; this call has no parameters.",
        ),
        ("/webhook/delete/loja1?name=crm", "'name' in the query is not known; this call has no parameters."),
        (
            "/key/delete/loja1/crm?name=other",
            "'name' in the query is not known; this call has no parameters.",
        ),
    ],
)
async def test_a_deletion_takes_nothing_from_the_query(
    client: httpx.AsyncClient, path: str, refused: str
) -> None:
    await client.post("/webhook/set/loja1", json={"url": "https://example.com/hook"})
    response = await client.delete(path)
    assert (response.status_code, shape_of(response)) == (400, [refused])
    assert (await client.get("/webhook/find/loja1")).json()["url"] == "https://example.com/hook"


async def test_other_calls_refuse_what_looks_like_one_of_their_parameters(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    for query, meant in {
        "tags=tenant=acme": "tag",
        "instancename=loja2": "instanceName",
        "Search=padaria": "search",
        "name=loja2": "instanceName",
    }.items():
        refused = await client.get(f"/instance/fetchInstances?{query}")
        assert refused.status_code == 400, query
        assert shape_of(refused)[0].endswith(f"in the query is not known. Did you mean {meant}?")
    event = {"event": "CALL", "data": {}}
    refused = await client.post("/event/emit/loja1?dedup=message", json=event)
    assert shape_of(refused) == ["'dedup' in the query is not known. Did you mean dedupe?"]
    # Clients add parameters of their own, for caches and for their own logs.
    assert (await client.get("/instance/fetchInstances?_=1796003966")).status_code == 200
    assert (await client.post("/event/emit/loja1?source=crm", json=event)).status_code == 202


async def test_the_key_comes_first(client: httpx.AsyncClient) -> None:
    response = await client.get("/key/list?colour=red", headers={"apikey": "wrong"})
    assert response.status_code == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/webhook/delete/loja1"),
        ("PATCH", "/webhook/set/loja1"),
        ("POST", "/webhook/set/loja1"),
        ("POST", "/webhook/pause/loja1"),
        ("GET", "/webhook/find/loja1"),
        ("POST", "/delivery/pull/loja1"),
        ("POST", "/delivery/ack/loja1"),
    ],
)
async def test_a_label_in_the_query_changes_no_other_webhook(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    await client.post("/webhook/set/loja1", json={"url": "https://example.com/hook"})
    for place in (path, f"{path}/other"):
        response = await client.request(method, f"{place}?label=crm", json={"url": "https://example.com/new"})
        assert response.status_code == 400
        assert shape_of(response) == [f"A label belongs in the path, not in the query: {path}/<label>."]
    found = await client.get("/webhook/find/loja1")
    assert found.json()["url"] == "https://example.com/hook"


@pytest.mark.parametrize(
    "path",
    [
        "/delivery/replay?tag=tenant=acme",
        "/delivery/cancel?tag=tenant=acme",
        "/delivery/replay/loja1?state=dead",
        "/delivery/cancel/loja1?label=crm",
        "/delivery/cancel/loja1/dlv_1?state=dead",
        "/delivery/resend/loja1/dlv_1?url=https://example.com",
        "/event/erase/loja1?remoteJid=1",
        "/webhook/backfill/loja1?since=2h",
        "/webhook/test/loja1/crm?event=CALL",
        "/webhook/rotateSecret/loja1?grace=0s",
    ],
)
async def test_a_call_that_selects_in_its_body_takes_nothing_from_the_query(
    client: httpx.AsyncClient, path: str
) -> None:
    response = await client.post(path, json={})
    assert response.status_code == 400
    name = path.partition("?")[2].partition("=")[0]
    said = f"'{name}' in the query is not known: the fields of this call are in its body."
    assert shape_of(response) == [said]
