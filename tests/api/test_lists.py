"""Every list ends with a cursor before it is too long."""

import typing
from typing import Any

import httpx
import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from quart_trio import QuartTrio

from hookgw import Gateway, Invalid
from hookgw.deliveries import responses as delivery_responses
from hookgw.testing import Receiver, answer
from hookgw.web import lists
from hookgw.web.server import response_memory
from tests.api.conftest import open_client
from tests.api.routes.test_deliveries import emit_to
from tests.public.command import CURSOR as FOLLOWED
from tests.public.records import HOOKGW, AuditAction, AuditEntry, JobKind
from tests.public.web import CURSOR, LIST, ShownList, array, first_of, make_cursor, operation_of, read_cursor
from tests.public.web import AppApplication as Application

Entry = tuple[int, int]
"""A place, and how long the entry is."""

entries = st.dictionaries(st.integers(0, 10_000), st.integers(0, 3 * LIST // 8), max_size=40).map(
    lambda found: sorted(found.items())
)


def present(entry: Entry) -> list[Any]:
    return [entry[0], "x" * entry[1]]


@settings(max_examples=50, deadline=None)
@given(entries)
def test_pages_have_every_entry_once_and_are_not_too_long(found: list[Entry]) -> None:
    async def main() -> None:
        seen: list[int] = []
        while len(seen) < len(found):
            page = await first_of(found[len(seen) :], present)
            assert page
            assert len(page) == 1 or len(msgspec.json.encode(page)) <= LIST
            seen += [one[0] for one in msgspec.json.decode(msgspec.json.encode(page))]
        assert seen == [place for place, _ in found]

    trio.run(main)


async def test_an_entry_that_is_too_long_alone_is_a_page() -> None:
    assert len(await first_of([(1, LIST), (2, 1)], present)) == 1


async def test_parts_of_a_list_share_its_room() -> None:
    shown = ShownList()
    half = (1, LIST // 2 - 2000)
    assert await shown.add([half], present) == 1
    assert await shown.add([half, half], present) == 1
    assert await shown.add([half], present) == 0
    assert len(shown.entries) == 2


@settings(max_examples=50, deadline=None)
@given(entries, st.data())
def test_a_list_that_changes_repeats_nothing_and_skips_nothing_that_stays(
    found: list[Entry], data: st.DataObject
) -> None:
    async def main() -> None:
        app, seen, cursor = QuartTrio(__name__), [], ""
        stays = set(data.draw(st.sets(st.sampled_from(found)))) if found else set()
        there = list(found)
        while True:
            async with app.test_request_context(f"/?cursor={cursor}"):
                response = await array(there, lambda one: (-one[0], str(one[0])), present)
            seen += [one[0] for one in msgspec.json.decode(await response.get_data(as_text=False))]
            cursor = response.headers.get(CURSOR, "")
            if not cursor:
                break
            there = [*stays]  # others left, the last one of the page perhaps among them
        assert seen == sorted(set(seen), reverse=True)
        assert {place for place, _ in stays} <= set(seen)

    trio.run(main)


@given(st.lists(st.one_of(st.text(), st.floats(allow_nan=False, allow_infinity=False)), max_size=3))
def test_a_cursor_says_its_place(place: list[str | float]) -> None:
    cursor = make_cursor(place)
    assert read_cursor(cursor) == place
    assert cursor.isascii()
    assert not {*cursor} & {*"/+=&? "}


@pytest.mark.parametrize(
    "cursor",
    ["!", "x", "bnVsbA", make_cursor(["a"]).replace("W", "9"), "é", make_cursor(["~"]).replace("-", "+")],
)
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid):
        read_cursor(cursor)


async def test_a_cursor_of_another_list_is_refused() -> None:
    async with QuartTrio(__name__).test_request_context(f"/?cursor={make_cursor(['a'])}"):
        with pytest.raises(Invalid):
            await array([(1, 1)], lambda one: one, present)


def test_the_client_follows_the_header() -> None:
    assert FOLLOWED == CURSOR


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of at most a few entries."""
    monkeypatch.setattr(lists, "LIST", 4000)


async def pages(client: httpx.AsyncClient, path: str, field: str | None, query: str = "") -> list[list[Any]]:
    found: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        response = await client.get(path + (f"?cursor={cursor}&{query}" if cursor else f"?{query}"))
        assert response.status_code == 200, response.text
        page = response.json()
        found.append(page if field is None else page[field])
        cursor = response.headers.get(CURSOR) if field is None else page["cursor"]
    return found


@pytest.mark.usefixtures("short")
async def test_deliveries_with_long_answers(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(*[answer(422, body=b"\x01" * 150)] * 9)
    await emit_to(client, gateway, hookgw_receiver, 9)
    for query in ("", "limit=7", "limit=1000"):
        found = await pages(client, "/delivery/list/loja1", "deliveries", query)
        assert len(found) > 2
        assert [one["eventId"] for page in found for one in page] == [
            f"e-{number}" for number in range(8, -1, -1)
        ]


@pytest.mark.usefixtures("short")
async def test_a_report_has_the_newest_attempts(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(*[answer(422, body=b"\x01" * 400)] * 4)
    await emit_to(client, gateway, hookgw_receiver, 1)
    for number in range(2, 5):
        await client.post("/delivery/resend/loja1/e-0")
        await hookgw_receiver.wait_for(number)
        while any(lane.backlog for lane in gateway.lanes()):
            await gateway.store.flush()
        await gateway.store.flush()
    report = (await client.get("/delivery/find/loja1/e-0")).json()
    assert [one["number"] for one in report["attempts"]] == [4]
    assert report["lastAttempt"]["number"] == 4


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("size", [1, 700])
async def test_the_audit(size: int, client: httpx.AsyncClient, gateway: Gateway) -> None:
    entries = [
        AuditEntry(
            at=1000.0 + number // 2,
            action=AuditAction.KEY_CREATE,
            actor=HOOKGW,
            subject=f"{number}" + "x" * size,
        )
        for number in range(20)
    ]
    await gateway.store.record_audit(entries)
    found = await pages(client, "/audit/list", "entries", "action=key.create&until=1970-02-01T00:00:00Z")
    assert len(found) > 1
    assert [one["subject"].rstrip("x") for page in found for one in page] == [
        f"{n}" for n in range(19, -1, -1)
    ]


@pytest.mark.usefixtures("short")
async def test_instances(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"loja{number}" for number in range(10, 20)]
    for name in names:
        await gateway.instances.create(name)
    monkeypatch.setattr("hookgw.instances.routes.instances.LIST", 4000)
    # Clients of Evolution API read no cursor.
    (whole,) = await pages(client, "/instance/fetchInstances", None)
    assert [one["name"] for one in whole] == names
    monkeypatch.setattr("hookgw.instances.routes.instances._ENTRY", 1)
    found = await pages(client, "/instance/fetchInstances", None)
    assert len(found) > 2
    assert [one["name"] for page in found for one in page] == names


@pytest.mark.usefixtures("short")
async def test_webhooks_of_an_instance(client: httpx.AsyncClient) -> None:
    labels = [f"l{number}" for number in range(10, 16)]
    for label in labels:
        body = {"url": f"https://crm.example/{'x' * 1500}", "enabled": False}
        assert (await client.post(f"/webhook/set/loja1/{label}", json=body)).is_success
    for path in ("/webhook/list/loja1", "/webhook/list"):
        found = await pages(client, path, "registrations")
        assert len(found) > 2
        assert [one["label"] for page in found for one in page] == labels


@pytest.mark.usefixtures("short")
async def test_lanes(client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver) -> None:
    labels = {f"l{number}" for number in range(16)}
    for label in labels:
        await client.post(f"/webhook/set/loja1/{label}", json={"url": hookgw_receiver.url})
    await client.post("/event/emit/loja1", json={"event": "MESSAGES_UPSERT", "data": {}})
    await hookgw_receiver.wait_for(len(labels))
    found = await pages(client, "/lane/list", None)
    assert len(found) > 1
    assert sorted(one["label"] for page in found for one in page) == sorted(labels)


@pytest.mark.usefixtures("short")
async def test_webhooks_and_lanes_of_instances_with_tags(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    for number in range(12):
        tags = {"tenant": "acme" if number % 2 else "bolt", "plan": "gold" if number < 10 else "free"}
        await gateway.instances.create(f"loja{number:02}", tags=tags)
        url = f"{hookgw_receiver.url}/{'x' * 300}"
        await client.post(f"/webhook/set/loja{number:02}", json={"url": url})
        await client.post(f"/event/emit/loja{number:02}", json={"event": "CALL", "data": {}})
    await hookgw_receiver.wait_for(12)
    query = "tag=tenant=acme&tag=plan=gold"
    wanted = [f"loja{number:02}" for number in range(1, 10, 2)]
    for path, field in (("/webhook/list", "registrations"), ("/lane/list", None)):
        found = await pages(client, path, field, query)
        assert len(found) > 1, path
        assert sorted(one["instance"] for page in found for one in page) == wanted, path
        assert await pages(client, path, field, "tag=tenant=nobody") == [[]], path
        everything = await pages(client, path, field, "tag=")
        assert sum(map(len, everything)) == 12, path
        for wrong in ("tag=tenant", "tag==acme", "tags=tenant=acme"):
            assert (await client.get(f"{path}?{wrong}")).status_code == 400, (path, wrong)


async def test_tags_do_not_widen_the_reach_of_a_key(
    app: Application, client: httpx.AsyncClient, gateway: Gateway, nursery: trio.Nursery
) -> None:
    created = await gateway.instances.create("loja1", tags={"tenant": "acme"})
    await gateway.instances.create("loja2", tags={"tenant": "bolt"})
    for name in ("loja1", "loja2"):
        await client.post(f"/webhook/set/{name}", json={"url": "https://crm.example/x", "enabled": False})
    async with open_client(app, nursery, apikey=created.key) as own:
        for tenant, labels in (("acme", ["loja1"]), ("bolt", [])):
            found = (await own.get(f"/webhook/list?tag=tenant={tenant}")).json()["registrations"]
            assert [one["instance"] for one in found] == labels


@pytest.mark.usefixtures("short")
async def test_jobs(client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        msgspec.structs.replace(gateway.jobs.new(JobKind.ERASE, "loja1"), started=100.0 + number // 3)
        for number in range(30)
    ]
    monkeypatch.setattr(gateway.jobs, "all", lambda: jobs)
    found = await pages(client, "/job/list", None)
    assert len(found) > 1
    seen = [one for page in found for one in page]
    assert sorted(one["id"] for one in seen) == sorted(job.id for job in jobs)
    times = [one["started"] for one in seen]
    assert times == sorted(times, reverse=True)


async def test_chats_beyond_the_room_are_there_without_their_message(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.messages.routes.chats.LIST", 2000)
    await client.post("/webhook/set/loja1", json={"url": hookgw_receiver.url})
    for number in range(5):
        key = {"remoteJid": f"{number}@s.whatsapp.net", "id": f"m{number}"}
        data = {"key": key, "message": {"conversation": "x" * 400}}
        await client.post("/event/emit/loja1", json={"event": "MESSAGES_UPSERT", "data": data})
    await gateway.store.flush()
    found = (await client.post("/chat/findChats/loja1", json={})).json()
    assert [one["remoteJid"][0] for one in found] == ["4", "3", "2", "1", "0"]
    assert [bool(one["lastMessage"]["message"]) for one in found] == [True, True, False, False, False]


async def test_every_list_waits_for_memory_before_it_reads(
    app: Application, client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that does not must be short: it is named here."""
    short = {
        "/connector/list",
        "/connector/find",
        "/node/list",
        "/chat/whatsappNumbers/<instance>",
    }
    short |= {"/webhook/resume/<instance>", "/webhook/resume/<instance>/<label>"}
    # It waits once it knows how much there is: in tests/api/routes/test_pull.py.
    short |= {"/delivery/pull/<instance>", "/delivery/pull/<instance>/<label>"}
    await gateway.instances.create("loja1")
    monkeypatch.setattr(response_memory, "PATIENCE", 0.01)
    app.response_memory.change("others", 0, gateway.settings.server.response_memory)
    seen = set()
    for rule in app.routing.url_map.iter_rules():
        operation = operation_of(app.routing.view_functions[rule.endpoint])
        if operation is None or not is_list(operation.responses.get(200)) or rule.rule in short:
            continue
        path = rule.rule.replace("<instance>", "loja1").replace("<name>", "dlv_1")
        method = "GET" if "GET" in (rule.methods or ()) else "POST"
        response = await client.request(method, path)
        assert response.status_code == 503, path
        assert "server.response_memory" in response.text
        seen.add(rule.rule)
    assert len(seen) >= 10
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/", "/node/list"):
        assert (await client.get(path)).status_code == 200, path
    assert (await client.post("/webhook/set/loja1", json={"url": "https://crm.example/x"})).status_code == 201
    assert (await client.post("/event/emit/loja1", json={"event": "CALL", "data": {}})).status_code == 202


def is_list(response: Any) -> bool:
    return (
        response is delivery_responses.Report
        or typing.get_origin(response) is list
        or "cursor" in getattr(response, "__struct_fields__", ())
    )


async def test_a_short_list_has_room_where_a_long_one_waits(
    app: Application, client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("loja1")
    monkeypatch.setattr(response_memory, "PATIENCE", 0.01)
    total = gateway.settings.server.response_memory
    app.response_memory.change("others", 0, total - LIST // 2)
    for path in ("/delivery/list/loja1", "/audit/list"):
        assert (await client.get(f"{path}?limit=5")).status_code == 200
        assert (await client.get(f"{path}?limit=100")).status_code == 503
