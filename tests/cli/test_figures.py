"""``hookgw figures``."""

import json
from typing import Any

import pytest

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

COUNTS: dict[str, Any] = {
    "accepted": 3,
    "delivered": 2,
    "dead": 1,
    "dropped": 0,
    "failed": {"500": 4, "unreachable": 1},
    "receiver": {"p50": 10.0, "p95": 20.5, "p99": 30.0},
    "whole": {"p50": 30.0, "p95": 40.0, "p99": 41.0},
    "oldestPending": 7260.5,
}
SERIES: dict[str, Any] = {
    "span": "1h",
    "since": "2026-11-20T12:00:00Z",
    "until": "2026-11-20T13:00:00Z",
    "step": 60,
    "steps": [{"at": "2026-11-20T12:05:00Z", **COUNTS}],
    "total": COUNTS,
    "oldestPending": "2026-11-20T11:00:00Z",
}


async def test_a_table_ends_with_the_sum(invoke: Invoke, server: Receiver) -> None:
    server.default = says(SERIES)
    result = await invoke("figures", "shop", "--webhook", "crm", "--span", "1h")
    assert result.exit_code == 0, result.output
    heading, line, last = result.stdout.splitlines()
    assert heading.lower().split()[:5] == ["since", "accepted", "delivered", "failed", "dead"]
    assert line.split() == [
        "2026-11-20T12:05:00Z",
        "3",
        "2",
        "5",
        "1",
        "10.0",
        "20.5",
        "30.0",
        "40.0",
        "2",
        "h",
    ]
    assert last.split()[:5] == ["all", "3", "2", "5", "1"]
    assert "Failed with 500: 4" in result.stderr
    assert "waiting since 2026-11-20T11:00:00Z" in result.stderr
    assert [one.target for one in server.requests] == ["/figures/find/shop?span=1h&webhook=crm"]


async def test_numbers_are_those_of_the_language(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGW_LANG", "pt")
    server.default = says(SERIES | {"total": COUNTS | {"accepted": 12_345}})
    *_, line, last = (await invoke("figures")).stdout.splitlines()
    assert line.split()[5:9] == ["10,0", "20,5", "30,0", "40,0"]
    assert last.split()[1] == "12.345"


async def test_json_is_the_response(invoke: Invoke, server: Receiver) -> None:
    server.default = says(SERIES)
    result = await invoke("figures", "--tag", "tenant=acme", "--json")
    assert json.loads(result.stdout) == SERIES
    assert server.requests[0].target == "/figures/find?span=24h&tag=tenant%3Dacme"


async def test_a_tag_is_not_for_one_instance(invoke: Invoke, server: Receiver) -> None:
    assert (await invoke("figures", "shop", "--tag", "tenant=acme")).exit_code == 2
    assert server.requests == []
