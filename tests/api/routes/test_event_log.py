"""``/event/list`` and ``/event/find``."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio

from hookgw import Gateway
from hookgw.store import searches
from hookgw.testing import Receiver
from tests.api.conftest import KEY, open_client
from tests.api.routes.test_deliveries import emit_to
from tests.api.test_app import shape_of
from tests.public.web import AppApplication as Application
from tests.support.stores import index_log


@pytest.fixture
async def client(client: httpx.AsyncClient, gateway: Gateway) -> httpx.AsyncClient:
    await gateway.instances.create("loja1")
    return client


LIST = "/event/list/loja1"
EMIT = "/event/emit/loja1"


def message(number: int) -> dict[str, Any]:
    key = {"remoteJid": f"55119888877{number:02}@s.whatsapp.net", "fromMe": False, "id": f"M{number}"}
    data = {"key": key, "message": {"conversation": f"text {number}"}}
    return {"event": "MESSAGES_UPSERT", "id": f"e-{number}", "data": data}


async def emit(client: httpx.AsyncClient, *events: dict[str, Any]) -> None:
    response = await client.post(EMIT, json=list(events))
    assert response.status_code == 202, response.text


async def ids(client: httpx.AsyncClient, query: str = "") -> list[str]:
    """Return the ids of all events, page by page."""
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        response = await client.get(f"{LIST}?{query}&cursor={cursor}")
        assert response.status_code == 200, response.text
        page = response.json()
        found += [one["id"] for one in page["events"]]
        cursor = page["cursor"]
    return found


async def test_events_that_nobody_wants_are_listed(client: httpx.AsyncClient) -> None:
    await emit(client, message(1))
    page = (await client.get(LIST)).json()
    (one,) = page["events"]
    assert {**one, "date_time": "", "acceptedAt": ""} == {
        **message(1),
        "instance": "loja1",
        "date_time": "",
        "acceptedAt": "",
        "sender": None,
        "server_url": None,
    }
    assert page["cursor"] is None
    assert page["from"] <= one["acceptedAt"]
    assert set(page) == {"events", "cursor", "from"}


async def test_pages_and_orders(client: httpx.AsyncClient) -> None:
    await emit(client, *(message(number) for number in range(5)))
    oldest_first = [f"e-{number}" for number in range(5)]
    for limit in (1, 2, 5):
        assert await ids(client, f"limit={limit}") == oldest_first[::-1]
        assert await ids(client, f"limit={limit}&order=oldest") == oldest_first


@pytest.fixture
async def three(
    app: Application, nursery: trio.Nursery, gateway: Gateway
) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the global key, and three instances with two events each, which no webhook wants."""
    async with open_client(app, nursery, apikey=KEY) as client:
        for name in ("loja1", "loja2", "shop"):
            await gateway.instances.create(name, token=TENANT["apikey"] if name == "shop" else None)
        for number in (1, 2):
            for name in ("loja1", "loja2", "shop"):
                response = await client.post(f"/event/emit/{name}", json=message(number))
                assert response.status_code == 202
        yield client


TENANT = {"apikey": "the-key-of-the-shop"}
IN_ORDER = [(name, f"e-{number}") for number in (1, 2) for name in ("loja1", "loja2", "shop")]


async def listed(client: httpx.AsyncClient, query: str, **headers: str) -> list[tuple[str, str]]:
    """Return the instances and ids of all events, page by page."""
    found: list[tuple[str, str]] = []
    cursor = ""
    while cursor is not None:
        response = await client.get(f"/event/list?{query}&cursor={cursor}", headers=headers)
        assert response.status_code == 200, response.text
        page = response.json()
        found += [(one["instance"], one["id"]) for one in page["events"]]
        cursor = page["cursor"]
    return found


@pytest.mark.parametrize("is_indexed", [False, True])
async def test_a_list_of_several_instances(
    three: httpx.AsyncClient, gateway: Gateway, is_indexed: bool
) -> None:
    if is_indexed:
        await index_log(gateway.store)
    for limit in (1, 4, 100):
        assert await listed(three, f"limit={limit}") == IN_ORDER[::-1]
        assert await listed(three, f"limit={limit}&order=oldest") == IN_ORDER
    for query, names, ids in (
        ("instances=loja*", ("loja1", "loja2"), ("e-1", "e-2")),
        ("instances=loja2,shop", ("loja2", "shop"), ("e-1", "e-2")),
        ("instances=shop", ("shop",), ("e-1", "e-2")),
        ("instances=x*", (), ()),
        ("id=M2", ("loja1", "loja2", "shop"), ("e-2",)),
        ("instances=loja*&chat=5511988887701", ("loja1", "loja2"), ("e-1",)),
        ("text=text%202&kind=messages.upsert", ("loja1", "loja2", "shop"), ("e-2",)),
        ("since=2999-01-01T00:00:00Z", (), ()),
        ("until=2999-01-01T00:00:00Z&instances=", ("loja1", "loja2", "shop"), ("e-1", "e-2")),
    ):
        wanted = [one for one in IN_ORDER if one[0] in names and one[1] in ids]
        assert await listed(three, f"{query}&order=oldest&limit=1") == wanted, query
        assert await listed(three, query) == wanted[::-1], query


async def test_an_instances_key_lists_its_own_alone(three: httpx.AsyncClient) -> None:
    own = [one for one in IN_ORDER[::-1] if one[0] == "shop"]
    assert await listed(three, "", **TENANT) == own
    assert await listed(three, "instances=*", **TENANT) == own
    assert await listed(three, "instances=loja*", **TENANT) == []
    for name in ("loja1", "nobody"):
        assert (await three.get(f"/event/list?instances={name}", headers=TENANT)).status_code == 403


async def test_a_bad_query_of_several_instances(three: httpx.AsyncClient) -> None:
    for query, status in (("instances=nobody", 404), ("instances=x y", 400), ("instance=shop", 400)):
        assert (await three.get(f"/event/list?{query}")).status_code == status, query
    assert (await three.get("/event/list?cursor=0123456789ab.0.1")).status_code == 409


async def test_the_events_of_a_deleted_instance_are_not_listed(
    three: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.delete("loja2")
    assert await listed(three, "") == [one for one in IN_ORDER[::-1] if one[0] != "loja2"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("kind=messages.upsert", ["e-2", "e-1"]),
        ("kind=CALL", ["call"]),
        ("chat=5511988887701", ["e-1"]),
        ("chat=5511988887701:7%40s.whatsapp.net", ["e-1"]),
        ("sender=5511988887702%40c.us", ["e-2"]),
        ("id=M2", ["e-2"]),
        ("text=text%201", ["e-1"]),
        ("since=2999-01-01T00:00:00Z", []),
        ("until=2999-01-01T00:00:00Z", ["call", "e-2", "e-1"]),
    ],
)
async def test_filters(client: httpx.AsyncClient, query: str, found: list[str]) -> None:
    await emit(client, message(1), message(2), {"event": "CALL", "id": "call", "data": {"from": "x"}})
    assert await ids(client, query) == found


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("order=random", "order must be one of newest, oldest, not 'random'."),
        ("limit=0", "limit must be a whole number from 1 to 1000."),
        (f"text={'x' * 257}", "text must have at most 256 characters."),
        ("cursor=x", "cursor must be that of the previous page; leave it out for the first page."),
        ("kinds=CALL", "'kinds' in the query is not known. Did you mean kind?"),
    ],
)
async def test_a_bad_query(client: httpx.AsyncClient, query: str, said: str) -> None:
    response = await client.get(f"{LIST}?{query}")
    assert (response.status_code, shape_of(response)) == (400, [said])


async def test_a_cursor_from_before_a_restore(client: httpx.AsyncClient) -> None:
    response = await client.get(f"{LIST}?cursor=0123456789ab.0.1")
    assert response.status_code == 409
    assert "before a backup was restored" in shape_of(response)[0]


async def test_a_search_that_takes_long_says_how_far_it_came(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "LIST_SECONDS", 0)
    monkeypatch.setattr(searches, "LEAST_ROWS", 2)
    await emit(client, *(message(number) for number in range(5)))
    page = (await client.get(f"{LIST}?text=nowhere")).json()
    assert page["events"] == []
    assert page["cursor"] is not None
    assert page["searchedUntil"] >= page["from"]
    assert await ids(client, "text=text%200") == ["e-0"]


async def test_an_event_with_its_deliveries(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await emit_to(client, gateway, hookgw_receiver, 1)
    found = (await client.get("/event/find/loja1/e-0")).json()
    assert found["event"]["id"] == "e-0"
    assert [(one["eventId"], one["state"]) for one in found["deliveries"]] == [("e-0", "delivered")]
    assert "note" not in found


async def test_an_event_that_no_webhook_wanted(client: httpx.AsyncClient) -> None:
    await emit(client, message(1))
    found = (await client.get("/event/find/loja1/e-1")).json()
    assert (found["deliveries"], found["note"]) == ([], "No webhook wanted it.")


async def test_an_event_that_is_not_there(client: httpx.AsyncClient) -> None:
    response = await client.get("/event/find/loja1/e-9")
    assert (response.status_code, shape_of(response)) == (
        404,
        ["The log of the instance 'loja1' has no event 'e-9'."],
    )


async def test_an_erased_person_is_not_in_the_log(client: httpx.AsyncClient) -> None:
    await emit(client, message(1), message(2))
    response = await client.post("/event/erase/loja1", json={"remoteJid": "5511988887701@s.whatsapp.net"})
    assert (response.status_code, response.json()["events"], response.json()["deliveries"]) == (200, 1, 0)
    assert await ids(client) == ["e-2"]
