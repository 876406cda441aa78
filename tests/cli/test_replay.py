"""``hookgw delivery replay``: windows of time, one after the other."""

import json
from itertools import pairwise
from typing import Any

import pytest

from hookgw.deliveries.commands import replay
from hookgw.testing import Receiver, answer
from tests.cli.conftest import Invoke, says
from tests.public.command import Failed
from tests.public.kernel import parse_rfc3339, rfc3339

NOW = 1_800_000_000.0
SINCE, UNTIL = rfc3339(NOW - 3600), rfc3339(NOW - 60)
ERROR = {"status": 409, "error": "Conflict", "response": {"message": ["A replay is under way."]}}


@pytest.mark.parametrize("until", [UNTIL, None])
def test_windows_cover_the_range_without_gap_or_overlap(until: str | None) -> None:
    windows = replay.split_into_windows(SINCE, until, NOW)
    assert len(windows) == replay.WINDOWS
    assert windows[0]["since"] == SINCE
    assert windows[-1].get("until") == until
    for one, next_ in pairwise(windows):
        assert one["until"] == next_["since"]
        assert parse_rfc3339(one["since"]) < parse_rfc3339(one["until"])
    assert parse_rfc3339(windows[-1]["since"]) < (parse_rfc3339(until) if until else NOW)


@pytest.mark.parametrize("since", [rfc3339(NOW), rfc3339(NOW + 5)])
@pytest.mark.parametrize("until", [rfc3339(NOW), None])
def test_an_empty_range_is_one_window(since: str, until: str | None) -> None:
    assert replay.split_into_windows(since, until, NOW) == [
        {"since": since} | ({"until": until} if until else {})
    ]


def test_windows_are_at_least_a_millisecond() -> None:
    windows = replay.split_into_windows(rfc3339(NOW), rfc3339(NOW + 0.003), NOW)
    assert [window["since"][-5:] for window in windows] == [".000Z", ".001Z", ".002Z"]


def test_no_window_begins_before_the_range() -> None:
    since, until = "2026-11-20T12:00:00.0004Z", "2026-11-20T12:00:00.0012Z"
    assert replay.split_into_windows(since, until, NOW) == [
        {"since": since, "until": "2026-11-20T12:00:00.001Z"},
        {"since": "2026-11-20T12:00:00.001Z", "until": until},
    ]


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ([], {"state": "dead"}),
        (
            ["--state", "all", "--kind", "CALL", "--kind", "messages.upsert", "--label", "crm"],
            {"state": "all", "kinds": ["CALL", "messages.upsert"], "label": "crm"},
        ),
    ],
)
async def test_it_requests_one_window_after_the_other(
    invoke: Invoke, server: Receiver, options: list[str], fields: dict[str, Any]
) -> None:
    server.default = says({"replayed": 30}, 202)
    result = await invoke("delivery", "replay", "loja1", "--since", SINCE, "--until", UNTIL, *options)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Replayed 1,500 deliveries.\n", "")
    assert {request.target for request in server.requests} == {"/delivery/replay/loja1"}
    assert [request.json for request in server.requests] == [
        window | fields for window in replay.split_into_windows(SINCE, UNTIL, NOW)
    ]


async def test_json_is_the_sum(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"replayed": 1}, 202)
    result = await invoke("delivery", "replay", "loja1", "--since", "2h", "--json")
    assert json.loads(result.stdout) == {"replayed": replay.WINDOWS}


async def test_a_terminal_shows_a_progress_bar(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    server.default = says({"replayed": 100}, 202)
    result = await invoke("delivery", "replay", "loja1", "--since", "2h")
    assert "Replaying" in result.stderr
    assert result.stdout == "Replayed 5,000 deliveries.\n"


async def test_a_failure_says_how_to_continue(invoke: Invoke, server: Receiver) -> None:
    server.will(says({"replayed": 40}, 202), says({"replayed": 2}, 202))
    server.default = says(ERROR, 409)
    result = await invoke("delivery", "replay", "loja1", "--since", SINCE, "--until", UNTIL)
    third = replay.split_into_windows(SINCE, UNTIL, NOW)[2]["since"]
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: A replay is under way.\nReplayed 42 deliveries. Continue with --since {third}\n"
    )


async def test_an_immediate_failure_has_only_its_message(invoke: Invoke, server: Receiver) -> None:
    server.default = says(ERROR, 409)
    result = await invoke("delivery", "replay", "loja1", "--since", "2h")
    assert (result.exit_code, result.stderr) == (1, "Error: A replay is under way.\n")
    assert [request.target for request in server.requests] == ["/healthz", "/delivery/replay/loja1"]


async def test_a_duration_counts_from_the_time_of_the_gateway(invoke: Invoke, server: Receiver) -> None:
    """The clock of this machine may be hours behind, as after the sleep of a laptop."""
    headers = {"x-hookgw-version": "1.0", "date": "Fri, 20 Nov 2026 12:00:00 GMT"}
    server.default = answer(200, '{"deliveries": [], "cursor": null}', headers=headers)
    await invoke("delivery", "list", "loja1", "--since", "2h", "--until", "30m")
    times = "since=2026-11-20T10%3A00%3A00.000Z&until=2026-11-20T11%3A30%3A00.000Z"
    assert times in server.requests[-1].target


class Interrupted:
    """A fake client: Ctrl-C interrupts its second call."""

    def __init__(self) -> None:
        self.calls = 0

    def call(self, *_: object, **__: object) -> dict[str, int]:
        self.calls += 1
        if self.calls == 2:
            raise KeyboardInterrupt
        return {"replayed": 7}


def test_ctrl_c_says_how_to_continue() -> None:
    client: Any = Interrupted()
    windows = replay.split_into_windows(SINCE, UNTIL, NOW)
    seen: list[int] = []
    with pytest.raises(Failed) as caught:
        replay.replay_windows(client, "loja1", windows, {}, lambda replayed, _: seen.append(replayed))
    assert caught.value.message == (
        f"Stopped.\nReplayed 7 deliveries. Continue with --since {windows[1]['since']}"
    )
    assert seen == [7]


async def test_a_replay_of_several_instances_is_one_call(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"replayed": 7}, 202)
    result = await invoke("delivery", "replay", "--instances", "*", "--since", SINCE, "--person", "5511")
    (request,) = server.requests
    assert (request.target, request.json) == (
        "/delivery/replay",
        {"instances": ["*"], "since": SINCE, "person": "5511", "state": "dead"},
    )
    assert result.stdout == "Replayed 7 deliveries.\n"
    await invoke("delivery", "replay", "loja1", "--failed-since", "dlv_7")
    assert server.requests[-1].json == {"failedSince": "dlv_7", "state": "dead"}
    await invoke("delivery", "replay", "loja1", "--finished-since", SINCE)
    assert server.requests[-1].json == {"finishedSince": SINCE, "state": "dead"}
    server.default = says(
        {"replayed": 0, "matching": 1, "instances": {"loja1": {"crm": 1}}, "complete": False}
    )
    shown = (await invoke("delivery", "replay", "loja1", "--since", SINCE, "--dry-run")).stdout
    assert shown.splitlines()[-1] == "1 or more deliveries would be selected."
    assert (await invoke("delivery", "replay", "loja1")).exit_code == 2
    assert (await invoke("delivery", "replay", "--since", SINCE)).exit_code == 2
