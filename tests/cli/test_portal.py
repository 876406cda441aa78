import json

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

MADE = {"url": "https://h.example/dashboard/portal#the-token", "expiresAt": "2026-12-20T12:00:00.000Z"}


async def test_a_link_is_printed_alone(invoke: Invoke, server: Receiver) -> None:
    server.default = says(MADE, 201)
    result = await invoke("portal", "link", "--tag", "tenant=acme", "--expires", "15m")
    assert result.stdout == f"{MADE['url']}\n"
    assert "It opens once, until 2026-12-20T12:00:00.000Z." in result.stderr
    [request] = server.requests
    assert (request.method, request.target) == ("POST", "/portal/link")
    assert request.json == {"tags": {"tenant": "acme"}, "expires": "15m"}


async def test_instances_rights_and_where_it_leads_back(invoke: Invoke, server: Receiver) -> None:
    server.default = says(MADE, 201)
    given = (
        "--instance",
        "loja1",
        "--instance",
        "loja2",
        "--can",
        "read, replay,",
        "--can",
        "webhooks",
        "--return-url",
        "https://a.example/x",
    )
    result = await invoke("portal", "link", *given, "--json")
    assert json.loads(result.stdout) == MADE
    assert server.requests[0].json == {
        "instances": ["loja1", "loja2"],
        "rights": ["read", "replay", "webhooks"],
        "returnUrl": "https://a.example/x",
    }


async def test_a_mistyped_tag_is_refused_here(invoke: Invoke, server: Receiver) -> None:
    for tags in (("tenant",), ("tenant=acme", "tenant=zoo")):
        result = await invoke("portal", "link", *(part for tag in tags for part in ("--tag", tag)))
        assert result.exit_code == 2
    assert server.requests == []
