import json

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

MADE = {
    "name": "crm",
    "instance": "loja1",
    "key": "the-key",
    "tags": None,
    "instances": ["loja1"],
    "rights": ["read"],
    "expiresAt": "2026-12-20T12:00:00.000Z",
}
LISTED = {
    "name": "crm",
    "instance": "loja1",
    "state": "active",
    "createdAt": "2026-11-20T12:00:00.000Z",
    "tags": None,
    "instances": ["loja1"],
    "rights": ["read"],
    "expiresAt": None,
    "origin": "default",
    "current": True,
}


async def test_create_prints_the_key(invoke: Invoke, server: Receiver) -> None:
    server.default = says(MADE, 201)
    result = await invoke("key", "create", "crm", "--instance", "loja1", "--expires-in", "30d")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/key/create/loja1")
    assert request.json == {"name": "crm", "expiresIn": "30d"}
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["name", "crm"],
        ["key", "the-key"],
        ["reach", "loja1"],
        ["can", "read"],
        ["expires", "2026-12-20T12:00:00.000Z"],
    ]


async def test_create_a_global_key(invoke: Invoke, server: Receiver) -> None:
    server.default = says(MADE, 201)
    result = await invoke("key", "create", "ops", "--expires-at", "2026-12-20T12:00:00Z", "--json")
    assert server.requests[0].target == "/key/create"
    assert server.requests[0].json == {"name": "ops", "expiresAt": "2026-12-20T12:00:00.000Z"}
    assert json.loads(result.stdout) == MADE


async def test_list_is_a_table(invoke: Invoke, server: Receiver) -> None:
    server.default = says([LISTED])
    result = await invoke("key", "list", "--instance", "loja1")
    assert server.requests[0].target == "/key/list/loja1"
    row = result.stdout.splitlines()[-1].split()
    assert row == ["crm", "active", "loja1", "read", "2026-11-20T12:00:00.000Z", "default", "yes"]
    assert json.loads((await invoke("key", "list", "--json")).stdout) == [LISTED]
    assert server.requests[1].target == "/key/list"


async def test_revoke(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"status": "SUCCESS"})
    assert (await invoke("key", "revoke", "crm", "--instance", "loja1")).stdout == "Revoked 'crm'.\n"
    await invoke("key", "revoke", "a?b")
    assert [(one.method, one.target) for one in server.requests] == [
        ("DELETE", "/key/delete/loja1/crm"),
        ("DELETE", "/key/delete/a%3Fb"),
    ]


async def test_create_a_key_of_a_customer(invoke: Invoke, server: Receiver) -> None:
    made = {
        **MADE,
        "instance": None,
        "tags": {"tenant": "acme"},
        "instances": None,
        "rights": ["read", "send"],
    }
    server.default = says(made, 201)
    result = await invoke(
        *("key", "create", "acme", "--tag", "tenant=acme", "--can", "read,replay", "--can", "webhooks"),
        *("--expires", "90d"),
    )
    assert server.requests[0].target == "/key/create"
    assert server.requests[0].json == {
        "name": "acme",
        "tags": {"tenant": "acme"},
        "rights": ["read", "replay", "webhooks"],
        "expiresIn": "90d",
    }
    assert [line.split(maxsplit=1) for line in result.stdout.splitlines()][:4] == [
        ["name", "crm"],
        ["key", "the-key"],
        ["reach", "tenant=acme"],
        ["can", "read, send"],
    ]


async def test_a_repeated_instance_is_a_list(invoke: Invoke, server: Receiver) -> None:
    server.default = says(MADE, 201)
    await invoke("key", "create", "crm", "--instance", "loja1", "--instance", "loja2")
    assert server.requests[0].target == "/key/create"
    assert server.requests[0].json == {"name": "crm", "instances": ["loja1", "loja2"]}


async def test_reach_is_by_instances_or_tags(invoke: Invoke, server: Receiver) -> None:
    result = await invoke("key", "create", "crm", "--instance", "loja1", "--tag", "a=b")
    assert (result.exit_code, "not both" in result.stderr) == (2, True)
    result = await invoke("key", "create", "crm", "--tag", "a=b", "--tag", "a=c")
    assert (result.exit_code, "--tag a has two values: b and c." in result.stderr) == (2, True)
    result = await invoke("key", "create", "crm", "--tag", "tenant")
    assert (result.exit_code, "must be NAME=VALUE" in result.stderr) == (2, True)
    assert not server.requests
