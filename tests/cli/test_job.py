"""``hookgw job``, and commands that wait for a job."""

import json
from typing import Any

import pytest

from hookgw.command import job
from hookgw.testing import Receiver, answer
from tests.cli.conftest import Invoke, says
from tests.public.command import Failed

RUNNING: dict[str, Any] = {
    "id": "job_1",
    "kind": "delete_instance",
    "instance": "loja1",
    "state": "running",
    "done": 2_500,
    "started": "2026-11-20T12:00:00.000Z",
    "finished": None,
    "error": None,
}
DONE = RUNNING | {"state": "done", "done": 5_000, "finished": "2026-11-20T12:00:05.000Z"}
FAILED = RUNNING | {"state": "failed", "error": "The instance was deleted."}


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "INTERVAL", 0.0)


async def test_find_shows_the_progress(invoke: Invoke, server: Receiver) -> None:
    server.default = says(RUNNING)
    shown = (await invoke("job", "find", "job_1")).stdout
    assert "running" in shown
    assert "2,500" in shown
    assert server.requests[0].target == "/job/find/job_1"
    assert json.loads((await invoke("job", "find", "job_1", "--json")).stdout) == RUNNING


async def test_find_waits_for_the_end_also_over_a_restart(invoke: Invoke, server: Receiver) -> None:
    server.will(says(RUNNING), answer(503), answer(503), says(RUNNING), says(DONE))
    result = await invoke("job", "find", "job_1", "--wait", "--json")
    assert json.loads(result.stdout) == DONE
    assert result.stderr.count("Waiting until hookgw responds") == 1
    assert len(server.requests) == 5


async def test_a_failed_job_fails_the_command(invoke: Invoke, server: Receiver) -> None:
    server.default = says(FAILED)
    result = await invoke("job", "find", "job_1", "--wait")
    assert result.exit_code == 1
    assert result.stderr == "Error: job_1 failed after 2,500 deliveries: The instance was deleted.\n"


async def test_a_job_is_told_in_the_language_of_the_reader(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGW_LANG", "pt")
    server.default = says(FAILED)
    result = await invoke("job", "find", "job_1", "--wait")
    assert result.stderr.endswith("job_1 falhou após 2.500 entregas: A instância foi excluída.\n")
    server.default = says(RUNNING | {"state": "paused"})
    assert (
        await invoke("job", "pause", "job_1")
    ).stdout == "job_1 está em pausa; 2.500 entregas até agora.\n"
    server.default = says(RUNNING | {"kind": "backup", "done": 1_024, "total": 4_096})
    assert "1.024/4.096 páginas" in (await invoke("job", "find", "job_1")).stdout


async def test_list_is_a_table(invoke: Invoke, server: Receiver) -> None:
    server.default = says([DONE])
    lines = (await invoke("job", "list")).stdout.splitlines()
    assert lines[-1].split()[:4] == ["job_1", "delete_instance", "loja1", "done"]
    assert json.loads((await invoke("job", "list", "--json")).stdout) == [DONE]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("instance", "delete", "loja1"), "Deleted 'loja1'.\n"),
        (("webhook", "delete", "loja1"), "Deleted the registration of 'loja1'.\n"),
    ],
)
async def test_a_deletion_waits_for_its_job(
    arguments: tuple[str, ...], said: str, invoke: Invoke, server: Receiver
) -> None:
    server.will(says({"status": "PENDING", "job": "job_1"}, 202), says(RUNNING), says(DONE))
    assert (await invoke(*arguments)).stdout == said
    assert [request.target for request in server.requests[1:]] == ["/job/find/job_1"] * 2


async def test_a_replay_waits_for_the_job_of_a_large_window(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"replayed": 0}, 202)
    server.will(says({"replayed": 10, "job": "job_1"}, 202), says(RUNNING), says(DONE))
    result = await invoke("delivery", "replay", "loja1", "--since", "2026-11-20T12:00:00Z")
    assert result.stdout == "Replayed 5,000 deliveries.\n"


def test_ctrl_c_leaves_the_job_to_the_gateway() -> None:
    class Client:
        def call(self, *_: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(Failed, match="hookgw goes on; see: hookgw job find job_1"):
        job.follow_aloud(Client(), "job_1", "Dead letters")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("order", "state", "said"),
    [
        ("pause", "paused", "job_1 is paused; 2,500 deliveries so far."),
        ("resume", "running", "job_1 is running; 2,500 deliveries so far."),
        ("cancel", "cancelled", "job_1 is cancelled; 2,500 deliveries so far."),
        ("cancel", "running", "job_1 is running: it obeys after its present step."),
    ],
)
async def test_orders(order: str, state: str, said: str, invoke: Invoke, server: Receiver) -> None:
    server.default = says(RUNNING | {"state": state})
    assert (await invoke("job", order, "job_1")).stdout == f"{said}\n"
    assert (server.requests[0].method, server.requests[0].target) == ("POST", f"/job/{order}/job_1")


async def test_a_cancelled_job_has_ended(invoke: Invoke, server: Receiver) -> None:
    server.default = says(RUNNING | {"state": "cancelled"})
    assert "cancelled" in (await invoke("job", "find", "job_1", "--wait")).stdout
