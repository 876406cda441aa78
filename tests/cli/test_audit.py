import json
from typing import Any

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

ACTOR = {
    "kind": "key",
    "name": "crm",
    "instance": "loja1",
    "address": "10.0.0.7",
    "via": None,
    "person": None,
}
ENTRY: dict[str, Any] = {
    "at": "2026-11-20T12:00:00.123Z",
    "action": "registration.change",
    "instance": "loja1",
    "subject": "default",
    "actor": ACTOR,
    "changes": [
        {"field": "url", "before": "http://a.example/", "after": "http://b.example/"},
        {"field": "timeout", "before": None, "after": "5.0"},
        {"field": "headers.x", "before": None, "after": None},
    ],
    "details": {},
}
OF_HOOKGW = {
    **ENTRY,
    "action": "key.revoke",
    "instance": None,
    "actor": {"kind": "hookgw", "name": None, "instance": None, "address": None, "via": None, "person": None},
    "changes": [],
    "details": {"reason": "It had expired."},
}
OF_AN_OPERATOR = {**ENTRY, "actor": {**ACTOR, "instance": None, "via": "dashboard"}, "subject": None}


async def test_a_list_shows_who_changed_what(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"entries": [ENTRY, OF_HOOKGW, OF_AN_OPERATOR], "cursor": "17-1"})
    result = await invoke("audit", "list", "loja1", "--action", "key", "--limit", "3")
    assert server.requests[0].target == "/audit/list/loja1?action=key&limit=3"
    text = " ".join(result.stdout.split())
    assert "2026-11-20T12:00:00.123Z key crm of loja1 10.0.0.7 registration.change loja1/default" in text
    assert "url: http://a.example/ → http://b.example/, timeout: – → 5.0, headers.x" in text
    assert "hookgw key.revoke default reason: It had expired." in text
    assert " key crm, dashboard 10.0.0.7 registration.change loja1 " in text
    assert "add: --cursor 17-1" in result.stderr


async def test_json(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"entries": [ENTRY], "cursor": None})
    result = await invoke("audit", "list", "--json", "--since", "2026-11-20T12:00:00Z")
    assert server.requests[0].target.startswith("/audit/list?since=2026-11-20T12")
    assert json.loads(result.stdout)["entries"] == [ENTRY]
    assert result.stderr == ""
