"""``/event/list`` and ``/event/find``."""

from typing import Any

import httpx
import pytest

from hookgw import Gateway
from hookgw.store import searches
from hookgw.testing import Receiver
from tests.api.routes.test_deliveries import emit_to
from tests.api.test_app import shape_of


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
    assert (await client.get("/event/list/nobody")).status_code == 404


async def test_an_erased_person_is_not_in_the_log(client: httpx.AsyncClient) -> None:
    await emit(client, message(1), message(2))
    response = await client.post("/event/erase/loja1", json={"remoteJid": "5511988887701@s.whatsapp.net"})
    assert (response.status_code, response.json()["events"], response.json()["deliveries"]) == (200, 1, 0)
    assert await ids(client) == ["e-2"]
