from __future__ import annotations

import json

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
