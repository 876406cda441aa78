import json
from typing import Any

import pytest

from hookgw.testing import Receiver, answer
from tests.cli.conftest import Invoke, says

WAITING: dict[str, Any] = {
    "lane": "reg_1:0:3",
    "registration": "reg_1",
    "partition": "3",
    "url": "https://x/hook",
    "instance": "loja1",
    "label": "crm",
    "state": "waiting",
    "backlog": 3,
    "head": "dlv_17",
    "headAge": 4.25,
    "waitingUntil": "2026-11-20T12:00:05.000Z",
    "lastOutcome": "unreachable",
    "lastError": "Connection refused.",
}
IDLE = WAITING | {
    "lane": "reg_2:0",
    "registration": "reg_2",
    "partition": None,
    "instance": None,
    "label": "global",
    "state": "idle",
    "backlog": 0,
    "head": None,
    "headAge": None,
    "waitingUntil": None,
    "waitsFor": None,
    "lastError": None,
    "lastOutcome": "delivered",
}
DELETED = IDLE | {"url": None, "label": None}


async def test_lanes_are_a_table(invoke: Invoke, server: Receiver) -> None:
    server.default = says([WAITING, IDLE, DELETED])
    result = await invoke("lane", "list")
    assert server.requests[0].target == "/lane/list"
    head, waiting, deleted, idle = (line.split() for line in result.stdout.splitlines())
    assert head[:8] == ["instance", "label", "URL", "partition", "state", "backlog", "age", "head"]
    assert waiting[:8] == ["loja1", "crm", "https://x/hook", "3", "waiting", "3", "4.2", "s"]
    assert waiting[8:] == ["dlv_17", "2026-11-20T12:00:05.000Z", "Connection", "refused."]
    assert idle == ["global", "https://x/hook", "idle", "0", "delivered"]
    assert deleted == ["reg_2", "idle", "0", "delivered"]


async def test_lanes_are_told_in_the_language_of_the_reader(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGW_LANG", "pt")
    server.default = says([WAITING | {"waitsFor": "memory", "backlog": 3_000}])
    line = (await invoke("lane", "list")).stdout.splitlines()[1]
    assert "esperando, espera por: memória para lê-la" in line
    assert " 3.000 " in line


async def test_lanes_are_by_the_name_of_their_webhook(invoke: Invoke, server: Receiver) -> None:
    names = [("loja2", "n8n"), (None, "global"), ("loja1", "n8n"), ("loja2", "crm"), ("loja1", "crm")]
    server.default = says([WAITING | {"instance": one, "label": label} for one, label in names])
    rows = (await invoke("lane", "list")).stdout.splitlines()[1:]
    assert [row.split("https:")[0].split() for row in rows] == [
        ["loja1", "crm"],
        ["loja1", "n8n"],
        ["loja2", "crm"],
        ["loja2", "n8n"],
        ["global"],
    ]


async def test_what_the_database_holds_back_is_a_column_while_there_is_some(
    invoke: Invoke, server: Receiver
) -> None:
    server.default = says([WAITING | {"held": 0}, IDLE | {"held": 1200}])
    head, waiting, idle = (await invoke("lane", "list")).stdout.splitlines()
    assert head.split()[-2:] == ["held", "back"]
    assert waiting.split()[-1] == "0"
    assert idle.split()[-1] == "1,200"


async def test_what_holds_a_lane_up_is_said_below_the_table(invoke: Invoke, server: Receiver) -> None:
    server.default = says([WAITING | {"advice": "Skip it: hookgw delivery cancel loja1 dlv_17."}, IDLE])
    result = await invoke("lane", "list")
    assert len(result.stdout.splitlines()) == 3
    assert result.stderr == "\nSkip it: hookgw delivery cancel loja1 dlv_17.\n"


async def test_json_is_the_response_itself(invoke: Invoke, server: Receiver) -> None:
    server.default = says([WAITING])
    assert json.loads((await invoke("lane", "list", "--json")).stdout) == [WAITING]


@pytest.mark.parametrize(("age", "shown"), [(119.9, "119.9 s"), (120, "2 m"), (7200, "2 h"), (260000, "3 d")])
async def test_the_age_is_short(invoke: Invoke, server: Receiver, age: float, shown: str) -> None:
    server.default = says([WAITING | {"headAge": age, "backlog": 12345}])
    assert f" 12,345 {shown} " in " ".join((await invoke("lane", "list")).stdout.split())


async def test_in_a_fleet_a_lane_has_a_node_and_silent_ones_are_named(
    invoke: Invoke, server: Receiver
) -> None:
    headers = {"x-hookgw-version": "1.0", "hookgw-silent-nodes": "b, c"}
    server.default = answer(200, json.dumps([WAITING | {"node": "a"}]), headers=headers)
    result = await invoke("lane", "list")
    head, waiting = (line.split() for line in result.stdout.splitlines())
    assert (head[-1], waiting[-1]) == ("node", "a")
    assert result.stderr == "Warning: these nodes do not answer: b, c\n"
