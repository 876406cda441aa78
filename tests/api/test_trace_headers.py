"""The headers of a request to emit that plugins see."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

import hookgw
from hookgw import Gateway
from tests.public.app import open_gateway
from tests.public.config import Settings
from tests.public.plugins import Hooks, load_plugins

EVENT = {"event": "CALL", "data": {}}


class Plugin:
    def __init__(self) -> None:
        self.seen: list[tuple[int, dict[str, str]]] = []
        self.accepted = 0

    @hookgw.hookimpl
    def hookgw_accept(self, events: list[hookgw.Event], headers: dict[str, str]) -> None:
        assert all(type(event) is hookgw.Event for event in events)
        self.seen.append((len(events), dict(headers)))
        headers.clear()  # a copy

    @hookgw.hookimpl
    def hookgw_event_accepted(self) -> None:
        self.accepted += 1


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


@pytest.fixture
async def gateway(settings: Settings, tmp_path: Path, plugin: Plugin) -> AsyncIterator[Gateway]:
    hooks = Hooks(load_plugins(settings.plugins, base=tmp_path, extra={"mine": plugin}))
    async with open_gateway(settings, base=tmp_path, hooks=hooks) as gateway:
        yield gateway


async def test_only_those_of_traces(client: httpx.AsyncClient, plugin: Plugin) -> None:
    await client.post("/instance/create", json={"instanceName": "loja1"})
    trace = {"traceparent": "00-a-b-01", "tracestate": "v=1", "baggage": "user=7"}
    given = {**trace, "cookie": "secret", "x-other": "1", "TraceParent-More": "x"}
    for path in ("/event/emit/loja1", "/event/emit/loja1/call"):
        answer = await client.post(path, json=EVENT, headers=given)
        assert answer.status_code == 202
    await client.post("/event/emit/loja1", json=[EVENT, EVENT])
    assert plugin.seen == [(1, trace), (1, trace), (2, {})]
    assert plugin.accepted == 4


async def test_a_refused_request_calls_no_hook(client: httpx.AsyncClient, plugin: Plugin) -> None:
    await client.post("/instance/create", json={"instanceName": "loja1"})
    assert (await client.post("/event/emit/loja1", json={"event": "NO_SUCH"})).status_code == 400
    assert plugin.seen == []
