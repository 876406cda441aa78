import json

import pytest

from hookgw.records.events import new_event_id
from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

JID = "5511988887777@s.whatsapp.net"


async def test_erase_asks_first(invoke: Invoke, server: Receiver) -> None:
    result = await invoke("event", "erase", "loja1", JID)
    assert (result.exit_code, server.requests) == (1, [])
    assert f"Erase everything about {JID!r} from 'loja1'? This cannot be undone." in result.stderr


async def test_erase_shows_how_much_it_removed(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"events": 3, "deliveries": 1200})
    result = await invoke("event", "erase", "loja1", JID, "--yes")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/event/erase/loja1")
    assert request.json == {"remoteJid": JID}
    assert result.stdout == "Erased 3 events with 1,200 deliveries.\n"
    result = await invoke("event", "erase", "loja1", JID, "--yes", "--json")
    assert json.loads(result.stdout) == {"events": 3, "deliveries": 1200}


async def test_erase_shows_warnings(invoke: Invoke, server: Receiver) -> None:
    erased = {"events": 1, "deliveries": 1, "warnings": ["Run: hookgw storage compact"]}
    job = {
        "id": "job_1",
        "state": "done",
        "done": 1,
        "events": 1,
        "error": None,
        "warning": "Run: hookgw storage compact",
    }
    for answers in ([says(erased)], [says({"events": 0, "deliveries": 0, "job": "job_1"}, 202), says(job)]):
        server.will(*answers)
        result = await invoke("event", "erase", "loja1", JID, "--yes")
        assert result.stderr == "Warning: Run: hookgw storage compact\n"
        server.will(*answers)
        result = await invoke("event", "erase", "loja1", JID, "--yes", "--json")
        assert json.loads(result.stdout) == erased


async def test_one_event_is_singular(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"events": 1, "deliveries": 1})
    result = await invoke("event", "erase", "loja1", JID, "--yes")
    assert result.stdout == "Erased 1 event with 1 delivery.\n"


async def test_a_long_erasure_is_followed(invoke: Invoke, server: Receiver) -> None:
    found = {"id": "job_1", "state": "done", "done": 9, "events": 8, "error": None}
    server.will(says({"events": 1, "deliveries": 2, "job": "job_1"}, 202), says(found))
    result = await invoke("event", "erase", "loja1", JID, "--yes")
    assert result.stdout == "Erased 8 events with 9 deliveries.\n"


EVENT = {
    "id": "e-1",
    "event": "CALL",
    "instance": "loja1",
    "data": {"from": "é"},
    "date_time": "2026-11-20T12:00:00.000Z",
    "acceptedAt": "2026-11-20T12:00:01.000Z",
    "sender": None,
    "server_url": None,
}


async def test_list_shows_events(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"events": [EVENT], "cursor": None, "from": "2026-11-19T00:00:00.000Z"})
    result = await invoke("event", "list", "loja1", "--chat", "5511", "--id", "M1", "--order", "oldest")
    (request,) = server.requests
    assert (request.method, request.target) == (
        "GET",
        "/event/list/loja1?chat=5511&id=M1&order=oldest",
    )
    assert "e-1" in result.stdout
    assert '{"from": "é"}' in result.stdout
    assert result.stderr == "The log is complete since 2026-11-19T00:00:00.000Z.\n"


async def test_list_of_several_instances(invoke: Invoke, server: Receiver) -> None:
    page = {"events": [EVENT], "cursor": None, "from": "2026-11-19T00:00:00.000Z"}
    server.default = says(page)
    result = await invoke("event", "list", "--instances", "loja*,shop", "--kind", "CALL")
    assert server.requests[0].target == "/event/list?instances=loja%2A%2Cshop&kind=CALL"
    assert "loja1" in result.stdout
    await invoke("event", "list")
    assert server.requests[1].target == "/event/list"
    result = await invoke("event", "list", "loja1", "--instances", "shop")
    assert (result.exit_code, len(server.requests)) == (2, 2)
    assert "Name an INSTANCE, or several with --instances or --tag." in result.stderr


@pytest.mark.parametrize("names", [("loja1",), ()])
async def test_a_list_fits_80_columns_with_whole_ids(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    event_id = new_event_id(1e9)
    found = {**EVENT, "id": event_id, "event": "GROUP_PARTICIPANTS_UPDATE", "data": ["x" * 80]}
    server.default = says({"events": [found], "cursor": None, "from": "2026-11-19T00:00:00.000Z"})
    result = await invoke("event", "list", *names)
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert event_id in result.stdout


async def test_list_says_what_is_missing(invoke: Invoke, server: Receiver) -> None:
    page = {
        "events": [],
        "cursor": "c.1.2",
        "from": "2026-11-19T00:00:00.000Z",
        "indexedUntil": "2026-11-20T12:00:00.000Z",
        "searchedUntil": "2026-11-20T11:00:00.000Z",
    }
    server.default = says(page)
    result = await invoke("event", "list", "loja1", "--text", "x")
    assert result.stderr.splitlines() == [
        "Events accepted after 2026-11-20T12:00:00.000Z are not listed yet. Try again soon.",
        "The search came to events of 2026-11-20T11:00:00.000Z.",
        "This is not the end. For the next page, add: --cursor c.1.2",
    ]
    result = await invoke("event", "list", "loja1", "--json")
    assert json.loads(result.stdout) == page


async def test_find_shows_an_event_and_its_deliveries(invoke: Invoke, server: Receiver) -> None:
    delivery = {
        "id": "dlv_7",
        "state": "dead",
        "label": "crm",
        "finishedAt": "2026-11-20T12:00:02.000Z",
        "reason": "gone",
    }
    server.default = says({"event": EVENT, "deliveries": [delivery]})
    result = await invoke("event", "find", "loja1", "e-1")
    assert "dlv_7" in result.stdout
    assert '{"from": "é"}' in result.stdout
    server.default = says({"event": EVENT, "deliveries": [], "note": "No webhook wanted it."})
    result = await invoke("event", "find", "loja1", "e-1")
    assert result.stdout.endswith("No webhook wanted it.\n")
