"""The tools of the MCP server, over an API that is a table."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.public.mcp import TOOLS, Refused, run_tool

REPLAY = {"instance": "shop", "since": "2026-11-20T12:00:00Z", "until": "2026-11-21T12:00:00Z"}


class Answers:
    """Answers calls by method and path, and notes them."""

    def __init__(self, **by_path: Any) -> None:
        self.by_path = by_path
        self.calls: list[tuple[str, Any, Any]] = []

    async def call(
        self,
        method: str,
        *path: str | None,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        shown = "/".join(part for part in path if part)
        self.calls.append((f"{method} {shown}", dict(query) if query else None, body))
        found = self.by_path["_".join(part for part in path[:2] if part)]
        return found(query) if callable(found) else found

    async def now(self) -> float:
        return 1_795_867_200.7  # 2026-11-28T12:00:00.7Z


def test_every_tool_says_what_it_does() -> None:
    for tool in TOOLS:
        assert tool.description.endswith(".")
        assert tool.schema["additionalProperties"] is False
        assert all(property_.get("description") for property_ in tool.schema["properties"].values()), (
            tool.name
        )
        assert not (tool.reads and tool.destroys)


def test_what_cannot_be_taken_back_for_many_needs_a_count() -> None:
    for name in ("replay_deliveries", "cancel_deliveries"):
        (tool,) = (one for one in TOOLS if one.name == name)
        assert tool.destroys
        assert "count" in tool.schema["required"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("replay", {}, "There is no tool 'replay'. The tools: why_is_this_failing, "),
        ("list_webhooks", {}, 'arguments: "instance" is a required property'),
        ("list_webhooks", {"instance": "shop", "Label": "crm"}, "arguments: Additional properties"),
        ("replay_deliveries", {**REPLAY, "count": 0}, "count: it is less than the minimum of 1"),
        ("show_event", {"instance": "shop", "id": "x" * 256}, "id: it is longer than 255 characters"),
        (
            "count_deliveries",
            {"action": "replay", "instance": "shop"},
            "since or finishedSince is missing: a",
        ),
        (
            "count_deliveries",
            {"action": "cancel", "instance": "shop", "finishedSince": "2h"},
            "finishedSince is for a replay",
        ),
    ],
)
async def test_a_wrong_call_reaches_nothing(name: str, arguments: dict[str, Any], said: str) -> None:
    api = Answers()
    with pytest.raises(Refused) as refused:
        await run_tool(api, name, arguments)
    assert refused.value.messages[0].startswith(said)
    assert not api.calls


async def test_a_replay_happens_only_with_the_present_count() -> None:
    api = Answers(delivery_replay={"matching": 2, "replayed": 0, "complete": True})
    with pytest.raises(Refused, match="2 deliveries match now, not 3"):
        await run_tool(api, "replay_deliveries", {**REPLAY, "count": 3})
    sent = {name: value for name, value in REPLAY.items() if name != "instance"}
    assert api.calls == [("POST delivery/replay/shop", None, sent | {"dryRun": True})]
    counted = await run_tool(api, "count_deliveries", {"action": "replay", **REPLAY})
    assert counted == {"count": 2, "tool": "replay_deliveries", "arguments": {**REPLAY, "count": 2}}
    await run_tool(api, counted["tool"], counted["arguments"])
    assert api.calls[-1] == ("POST delivery/replay/shop", None, sent)


async def test_what_finished_lately_is_replayed_however_old_its_events_are() -> None:
    api = Answers(delivery_replay={"matching": 3, "replayed": 0, "complete": True})
    asked = {"action": "replay", "instance": "shop", "finishedSince": "1h"}
    counted = await run_tool(api, "count_deliveries", asked)
    await run_tool(api, counted["tool"], counted["arguments"])
    sent = api.calls[-1][2]
    assert sent["finishedSince"].startswith("2026-11-28T11:00:00")
    assert "since" not in sent


async def test_too_many_to_count_are_too_many_to_replay() -> None:
    api = Answers(delivery_replay={"matching": 100_000, "complete": False})
    with pytest.raises(Refused, match="More than 100,000 deliveries match"):
        await run_tool(api, "count_deliveries", {"action": "replay", **REPLAY})


async def test_events_are_searched_and_shown() -> None:
    api = Answers(event_list={"events": [], "cursor": None}, event_find={"event": {}, "deliveries": []})
    await run_tool(api, "search_events", {"instance": "shop", "sender": "5511", "limit": 5})
    await run_tool(api, "show_event", {"instance": "shop", "id": "msg_1"})
    assert api.calls == [
        ("GET event/list/shop", {"sender": "5511", "limit": 5}, None),
        ("GET event/find/shop/msg_1", None, None),
    ]


async def test_a_cancellation_is_counted_by_the_gateway() -> None:
    api = Answers(delivery_cancel={"matching": 7, "cancelled": 0})
    asked = {"action": "cancel", "instance": "shop", "since": "2h", "state": "all"}
    counted = await run_tool(api, "count_deliveries", asked)
    assert counted["count"] == 7
    await run_tool(api, counted["tool"], counted["arguments"])
    assert not api.calls.pop()[2].get("dryRun")
    assert counted["arguments"]["since"].startswith("2026-11-28T10:00:00")  # by the gateway's clock
    assert counted["arguments"]["until"].startswith("2026-11-28T12:00:01.000")
    with pytest.raises(Refused, match="7 deliveries match now, not 8"):
        await run_tool(api, "cancel_deliveries", {"instance": "shop", "count": 8})
    assert all(body["dryRun"] for _, _, body in api.calls)


async def test_instances_are_chosen_and_short() -> None:
    one = {
        "name": "loja1",
        "connectionStatus": "close",
        "disconnectionReason": "Logged out.",
        "connector": "waha",
        "ownerJid": "5511@s.whatsapp.net",
        "profileName": "Sol",
        "backlog": {"deliveries": 3},
        "token": "secret",
        "tags": {"tenant": "acme"},
    }
    api = Answers(instance_fetchInstances=[one, one | {"name": "loja2", "connectionStatus": "open"}])
    # The gateway searches.
    found = await run_tool(api, "list_instances", {"state": "close", "search": "SOL"})
    assert found["matching"] == 1
    assert api.calls[-1][1]["search"] == "SOL"
    assert found["instances"][0]["reason"] == "Logged out."
    assert found["instances"][0]["tags"] == "tenant=acme"
    assert "secret" not in str(found)
    await run_tool(api, "list_instances", {"tags": {"tenant": "acme", "plan": "gold"}})
    assert api.calls[-1][1] == {"tag": ["tenant=acme", "plan=gold"]}


async def test_problems_come_by_their_cause_with_a_few_of_each() -> None:
    groups = [{"cause": "it refuses connections", "webhooks": 9, "problems": [{"why": "no"}] * 9}]
    found = await run_tool(Answers(problem_list={"problems": groups, "others": 2}), "list_problems", {})
    assert found["matching"] == 3
    assert len(found["problems"][0]["problems"]) == 5
