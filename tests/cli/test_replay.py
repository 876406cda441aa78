"""``hookgw delivery replay``."""

import json
from typing import Any

import pytest

from hookgw.command import job
from hookgw.testing import Receiver, answer
from tests.cli.conftest import Invoke, says
from tests.public.kernel import rfc3339

NOW = 1_800_000_000.0
SINCE, UNTIL = rfc3339(NOW - 3600), rfc3339(NOW - 60)
ERROR = {"status": 409, "error": "Conflict", "response": {"message": ["A replay is under way."]}}


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
async def test_a_replay_is_one_call(
    invoke: Invoke, server: Receiver, options: list[str], fields: dict[str, Any]
) -> None:
    server.default = says({"replayed": 1500}, 202)
    result = await invoke("delivery", "replay", "loja1", "--since", SINCE, "--until", UNTIL, *options)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Replayed 1,500 deliveries.\n", "")
    (request,) = server.requests
    assert request.target == "/delivery/replay/loja1"
    assert request.json == {"since": SINCE, "until": UNTIL} | fields


async def test_a_long_one_is_a_job_whose_end_is_waited_for(invoke: Invoke, server: Receiver) -> None:
    server.will(says({"replayed": 40, "job": "job_1"}, 202))
    server.default = says({"id": "job_1", "state": "done", "done": 5000})
    result = await invoke("delivery", "replay", "loja1", "--since", SINCE, "--json")
    assert json.loads(result.stdout) == {"replayed": 5000}
    assert [request.target for request in server.requests] == ["/delivery/replay/loja1", "/job/find/job_1"]


async def test_a_refusal_has_only_its_message(invoke: Invoke, server: Receiver) -> None:
    server.default = says(ERROR, 409)
    result = await invoke("delivery", "replay", "loja1", "--since", "2h")
    assert (result.exit_code, result.stderr) == (1, "Error: A replay is under way.\n")
    assert [request.target for request in server.requests] == ["/healthz", "/delivery/replay/loja1"]


@pytest.fixture
def interrupted(server: Receiver, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """A gateway that begins a replay; Ctrl-C comes while the command follows it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "follow", interrupt)
    server.will(says({"replayed": 40, "job": "job_1"}, 202))
    return server


async def test_ctrl_c_pauses_it_and_says_how_to_resume_it(invoke: Invoke, interrupted: Receiver) -> None:
    interrupted.default = says({"id": "job_1", "state": "running", "done": 40})
    result = await invoke("delivery", "replay", "loja1", "--since", SINCE)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: Paused. To go on: hookgw job resume job_1\n"
    assert interrupted.requests[-1].target == "/job/pause/job_1"


async def test_ctrl_c_while_hookgw_is_away_says_that_the_replay_goes_on(
    invoke: Invoke, interrupted: Receiver
) -> None:
    """It said only that there was no connection, and named no job."""
    interrupted.default = says({"status": 503, "response": {"message": ["hookgw is shutting down."]}}, 503)
    result = await invoke("delivery", "replay", "loja1", "--since", SINCE)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "hookgw is shutting down." in result.stderr
    assert "hookgw goes on; see: hookgw job find job_1" in result.stderr


@pytest.mark.parametrize("state", ["done", "cancelled"])
async def test_ctrl_c_at_the_end_of_a_replay_pauses_nothing(
    invoke: Invoke, interrupted: Receiver, state: str
) -> None:
    interrupted.default = says({"id": "job_1", "state": state, "done": 41})
    result = await invoke("delivery", "replay", "loja1", "--since", SINCE)
    assert (result.exit_code, result.stdout) == (0, "Replayed 41 deliveries.\n")


async def test_a_duration_counts_from_the_time_of_the_gateway(invoke: Invoke, server: Receiver) -> None:
    """The clock of this machine may be hours behind, as after the sleep of a laptop."""
    headers = {"x-hookgw-version": "1.0", "date": "Fri, 20 Nov 2026 12:00:00 GMT"}
    server.default = answer(200, '{"deliveries": [], "cursor": null}', headers=headers)
    await invoke("delivery", "list", "loja1", "--since", "2h", "--until", "30m")
    times = "since=2026-11-20T10%3A00%3A00.000Z&until=2026-11-20T11%3A30%3A00.000Z"
    assert times in server.requests[-1].target


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
