"""The headers of a request to emit that plugins see."""

import httpx
import pytest

import hookgw

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
def plugins(plugin: Plugin) -> dict[str, object]:
    return {"mine": plugin}


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
