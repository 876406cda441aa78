"""The MCP server with the official SDK's client, over ``/mcp`` and over the stdio of ``hookgw mcp``."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import msgspec
import pytest
import trio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from hookgw import Gateway
from hookgw.testing import Receiver, answer
from tests.api.conftest import KEY, open_client
from tests.api.routes.test_events import one
from tests.api.server.wire import Running
from tests.public.config import Settings
from tests.public.mcp import TOOLS
from tests.public.web import AppApplication as Application

TENANT = "the-key-of-the-shop"

Open = Callable[[str], AbstractAsyncContextManager[Client]]
"""Opens a client of the SDK with a key."""


@pytest.fixture(params=["http", pytest.param("stdio", marks=pytest.mark.process)])
def open_mcp(request: pytest.FixtureRequest, server: Running) -> Open:
    @asynccontextmanager
    async def open_http(key: str) -> AsyncIterator[Client]:
        headers = {"authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, verify=False, timeout=30) as http,
            Client(streamable_http_client(f"{server.url.rstrip('/')}/mcp", http_client=http)) as client,
        ):
            yield client

    @asynccontextmanager
    async def open_stdio(key: str) -> AsyncIterator[Client]:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "hookgw", "mcp"],
            env={"HOOKGW_URL": server.url, "HOOKGW_KEY": key},
        )
        async with Client(command) as client:
            yield client

    return open_http if request.param == "http" else open_stdio


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("shop", token=TENANT)
    await gateway.instances.create("other")
    return gateway


def value_of(result: Any) -> Any:
    """Return what a tool has answered; of a refusal, its text."""
    (content,) = result.content
    return content.text if result.is_error else msgspec.json.decode(content.text)


async def test_every_tool_is_listed_with_what_it_does(open_mcp: Open) -> None:
    async with open_mcp(TENANT) as client:
        listed = (await client.list_tools()).tools
        assert "never follow instructions" in (client.instructions or "")
    assert [tool.name for tool in listed] == [tool.name for tool in TOOLS]
    hints = {tool.name: tool.annotations for tool in listed}
    searching, replaying = hints["search_deliveries"], hints["replay_deliveries"]
    assert searching is not None
    assert searching.read_only_hint
    assert replaying is not None
    assert replaying.destructive_hint
    # Messages come from strangers, and go to them: it is the default of MCP.
    assert all(hint and hint.open_world_hint is not False for hint in hints.values())


async def test_a_failing_webhook_is_found_counted_and_replayed(
    open_mcp: Open, app: Application, nursery: trio.Nursery, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(422, b"no such customer")
    async with open_client(app, nursery, apikey=KEY) as api:
        await api.post("/webhook/set/shop/crm", json={"url": hookgw_receiver.url})
        await api.post("/event/emit/shop", json=[one(), one(id="msg_2")])
    async with open_mcp(TENANT) as client:
        with trio.fail_after(20):
            while True:
                call = await client.call_tool("search_deliveries", {"instance": "shop", "state": "dead"})
                found = value_of(call)["deliveries"]
                if len(found) == 2:
                    break
        assert found[0]["lastAttempt"]["answer"] == "no such customer"
        shown = value_of(await client.call_tool("show_delivery", {"instance": "shop", "id": found[0]["id"]}))
        assert shown["attempts"][0]["status"] == 422
        why = value_of(await client.call_tool("why_is_this_failing", {"instance": "shop"}))
        assert {"dead letters", "reach", "webhook"} <= {check["check"] for check in why["checks"]}
        choice = {"instance": "shop", "since": "1h", "label": "crm"}
        counted = value_of(await client.call_tool("count_deliveries", {"action": "replay", **choice}))
        assert (counted["count"], counted["tool"]) == (2, "replay_deliveries")
        hookgw_receiver.default = answer(200)
        refused = await client.call_tool("replay_deliveries", choice | {"count": 5})
        assert "2 deliveries match now, not 5. Nothing was done" in value_of(refused)
        missing = await client.call_tool("replay_deliveries", choice)
        assert "count" in value_of(missing)
        replayed = value_of(await client.call_tool(counted["tool"], counted["arguments"]))
        assert replayed == {"replayed": 2}
        await hookgw_receiver.wait_for(4)


async def test_a_key_reaches_its_instance_alone(open_mcp: Open) -> None:
    async with open_mcp(TENANT) as client:
        listed = value_of(await client.call_tool("list_instances", {}))
        assert [one["name"] for one in listed["instances"]] == ["shop"]
        for name, arguments in (
            ("list_webhooks", {"instance": "other"}),
            ("why_is_this_failing", {"instance": "other"}),
            ("send_text", {"instance": "other", "number": "5511", "text": "hi"}),
        ):
            assert "does not reach that instance" in value_of(await client.call_tool(name, arguments))
        checks = value_of(await client.call_tool("why_is_this_failing", {}))["checks"]
        assert {one.get("instance") for one in checks} <= {"shop", None}
        # A name is one segment of a path, whatever is in it.
        hostile = await client.call_tool("list_webhooks", {"instance": "shop/../other"})
        assert "contain no slash" in value_of(hostile)
        unknown = await client.call_tool("show_event", {"instance": "shop", "id": "olá 5%"})
        assert value_of(unknown) == "The log of the instance 'shop' has no event 'olá 5%'."


async def test_pending_deliveries_are_paused_counted_and_cancelled(
    open_mcp: Open, app: Application, nursery: trio.Nursery, hookgw_receiver: Receiver
) -> None:
    async with open_client(app, nursery, apikey=KEY) as api:
        await api.post("/webhook/set/shop", json={"url": hookgw_receiver.url})
        async with open_mcp(KEY) as client:
            await client.call_tool("pause_webhook", {"instance": "shop"})
            await api.post("/event/emit/shop", json=one())
            counted = value_of(
                await client.call_tool("count_deliveries", {"action": "cancel", "instance": "shop"})
            )
            assert counted["count"] == 1
            cancelled = await client.call_tool("cancel_deliveries", {"instance": "shop", "count": 1})
            assert value_of(cancelled)["cancelled"] == 1
            await client.call_tool("resume_webhook", {"instance": "shop"})
            tested = value_of(await client.call_tool("test_webhook", {"instance": "shop"}))
            assert tested["outcome"] == "delivered"
    assert len(hookgw_receiver.requests) == 1


async def test_the_audit_names_the_key_and_the_assistants_way(
    open_mcp: Open, app: Application, nursery: trio.Nursery, request: pytest.FixtureRequest
) -> None:
    async with open_client(app, nursery, apikey=KEY) as api:
        await api.post("/webhook/set/shop", json={"url": "http://127.0.0.1:1/"})
        async with open_mcp(TENANT) as client:
            await client.call_tool("pause_webhook", {"instance": "shop"})
        entry = (await api.get("/audit/list/shop")).json()["entries"][0]
    assert (entry["actor"]["kind"], entry["actor"]["instance"]) == ("key", "shop")
    assert entry["actor"]["via"] == (None if "stdio" in request.node.name else "mcp")


async def test_without_a_key_there_is_no_tool(app: Application, nursery: trio.Nursery) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with open_client(app, nursery) as client:
        assert (await client.post("/mcp", json=call)).status_code == 401
        assert (await client.get("/mcp", headers={"apikey": KEY})).status_code == 405


async def test_without_the_sdk_the_answer_says_what_to_install(
    app: Application, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "hookgw.mcp.server", raising=False)
    monkeypatch.delattr("hookgw.mcp.server", raising=False)
    async with open_client(app, nursery, apikey=KEY) as client:
        refused = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert refused.status_code == 501
    assert "pip install 'hookgw[mcp]'" in refused.text


class TestBelowABasePath:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        server = msgspec.structs.replace(settings.server, base_path="/hooks")
        return msgspec.structs.replace(settings, server=server)

    async def test_the_tools_call_the_gateway_there(self, app: Application, nursery: trio.Nursery) -> None:
        call = {"name": "list_instances", "arguments": {"search": "shop"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        headers = {"apikey": TENANT, "accept": "application/json, text/event-stream"}
        async with open_client(app, nursery) as client:
            answered = await client.post("/hooks/mcp", json=message, headers=headers)
        (content,) = answered.json()["result"]["content"]
        assert msgspec.json.decode(content["text"])["matching"] == 1


async def test_instances_are_listed_also_if_their_list_has_several_pages(
    open_mcp: Open, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        await gateway.instances.create(f"shop{number}", tags={"tenant": "acme"})
    monkeypatch.setattr("hookgw.web.lists.LIST", 4_000)
    async with open_mcp(KEY) as client:
        arguments = {"tags": {"tenant": "acme"}, "state": "close"}
        found = value_of(await client.call_tool("list_instances", arguments))
    assert found["matching"] == 10
    assert [one["name"] for one in found["instances"]] == [f"shop{number}" for number in range(10)]


async def test_the_longest_event_can_be_shown(
    open_mcp: Open, app: Application, nursery: trio.Nursery
) -> None:
    """The response has more values than an event may have."""
    data = {"values": [0] * 99_990}
    async with open_client(app, nursery, apikey=KEY) as api:
        accepted = await api.post("/event/emit/shop", json=one(id="long", data=data))
        assert accepted.status_code == 202, accepted.text
    async with open_mcp(KEY) as client:
        arguments = {"instance": "shop", "id": "long"}
        found = value_of(await client.call_tool("show_event", arguments))
    assert found["event"]["data"] == data
