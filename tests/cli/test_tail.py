"""``hookgw tail``: each delivery's news once, in order, through restarts of the server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from hookgw.cli import tail
from hookgw.cli.failure import Away, Failed
from hookgw.testing.receiver import Receiver
from tests.cli.conftest import Invoke, says

FAILED = {
    "number": 1,
    "at": "2026-11-20T12:00:00.500Z",
    "duration": 12.5,
    "status": 500,
    "error": "The receiver answered 500.",
}


def delivery(number: int, state: str = "delivered", attempts: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": f"dlv_{number}",
        "state": state,
        "reason": None,
        "kind": "CALL",
        "label": "crm",
        "acceptedAt": "2026-11-20T12:00:00.000Z",
        "finishedAt": None,
        "attempts": attempts,
        "lastAttempt": FAILED if attempts else None,
    } | more


class Deliveries:
    """Stands for ``/delivery/list``: holds deliveries and counts what was asked for."""

    def __init__(self, *held: dict[str, Any]) -> None:
        self.held = {one["id"]: one for one in held}
        self.pages: list[tuple[str | None, int]] = []

    def put(self, *changed: dict[str, Any]) -> None:
        self.held |= {one["id"]: one for one in changed}

    def fetch(self, cursor: str | None, limit: int) -> dict[str, Any]:
        self.pages.append((cursor, limit))
        numbers = sorted((int(name[4:]) for name in self.held), reverse=True)
        wanted = [n for n in numbers if cursor is None or n < int(cursor[4:])][:limit]
        last = f"dlv_{wanted[-1]}" if len(wanted) == limit else None
        return {"deliveries": [self.held[f"dlv_{n}"] for n in wanted], "cursor": last}


def told(found: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [(one["id"], one["state"], one["attempts"]) for one in found]


@pytest.mark.parametrize(
    ("lines", "shown"), [(0, []), (1, ["dlv_3"]), (2, ["dlv_2", "dlv_3"]), (10, ["dlv_1", "dlv_2", "dlv_3"])]
)
def test_it_begins_with_the_last_ones(lines: int, shown: list[str]) -> None:
    follower = tail.Follower(Deliveries(delivery(1), delivery(2), delivery(3)).fetch)
    assert [one["id"] for one in follower.begin(lines)] == shown
    assert follower.news() == []


def test_it_begins_with_nothing_where_nothing_is() -> None:
    deliveries = Deliveries()
    follower = tail.Follower(deliveries.fetch)
    assert follower.begin(10) == []
    assert follower.news() == []
    deliveries.put(delivery(1))
    assert told(follower.news()) == [("dlv_1", "delivered", 1)]


def test_each_news_is_told_once_and_in_order() -> None:
    deliveries = Deliveries(delivery(1))
    follower = tail.Follower(deliveries.fetch)
    follower.begin(0)
    deliveries.put(delivery(2), delivery(3, "pending", 0), delivery(4, "pending", 1))
    assert told(follower.news()) == [("dlv_2", "delivered", 1), ("dlv_4", "pending", 1)]
    assert follower.news() == []
    deliveries.put(delivery(3, "dead", 1), delivery(4, "pending", 2), delivery(5))
    assert told(follower.news()) == [("dlv_3", "dead", 1), ("dlv_4", "pending", 2), ("dlv_5", "delivered", 1)]
    deliveries.put(delivery(4, "delivered", 3))
    assert told(follower.news()) == [("dlv_4", "delivered", 3)]
    assert follower.news() == []


def test_what_was_pruned_is_no_longer_waited_for() -> None:
    deliveries = Deliveries(delivery(1, "pending", 0), delivery(2))
    follower = tail.Follower(deliveries.fetch)
    follower.begin(10)
    del deliveries.held["dlv_1"], deliveries.held["dlv_2"]
    assert follower.news() == []
    deliveries.put(delivery(3))
    assert told(follower.news()) == [("dlv_3", "delivered", 1)]


def test_where_little_happens_little_is_asked_for() -> None:
    deliveries = Deliveries(*map(delivery, range(1, 3000)))
    follower = tail.Follower(deliveries.fetch)
    follower.begin(10)
    follower.news()
    deliveries.put(delivery(3000))
    assert len(follower.news()) == 1
    assert deliveries.pages == [(None, 10), (None, tail.FIRST_PAGE), (None, tail.FIRST_PAGE)]


def test_where_much_happens_nothing_is_left_out() -> None:
    deliveries = Deliveries(delivery(1))
    follower = tail.Follower(deliveries.fetch)
    follower.begin(10)
    deliveries.put(*map(delivery, range(2, 2502)))
    assert [one["id"] for one in follower.news()] == [f"dlv_{n}" for n in range(2, 2502)]
    assert [limit for _, limit in deliveries.pages[1:]] == [tail.FIRST_PAGE, tail.PAGE, tail.PAGE, tail.PAGE]


def test_of_many_pending_ones_the_newest_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "WATCHED", 3)
    deliveries = Deliveries(*(delivery(n, "pending", 0) for n in range(1, 6)))
    follower = tail.Follower(deliveries.fetch)
    follower.begin(10)
    deliveries.put(*(delivery(n) for n in range(1, 6)))
    assert [one["id"] for one in follower.news()] == ["dlv_3", "dlv_4", "dlv_5"]
    assert follower.leaves_out


@pytest.mark.parametrize(
    ("oldest", "lines", "leaves_out"),
    [("pending", 3, True), ("pending", 4, True), ("pending", 5, False), ("delivered", 4, False)],
)
def test_that_older_ones_may_be_pending_is_known(oldest: str, lines: int, leaves_out: bool) -> None:
    """The one before those that are shown is looked at by nobody: it is taken for what they are."""
    held = [delivery(1, oldest, 0), *(delivery(n, "pending", 0) for n in range(2, 5))]
    follower = tail.Follower(Deliveries(*held).fetch)
    follower.begin(lines)
    assert follower.leaves_out is leaves_out


# Lines


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (
            delivery(7, "pending", 1),
            "pending  dlv_7  CALL  crm  attempt 1  500  12.5 ms  The receiver answered 500.",
        ),
        (
            delivery(7, finishedAt=FAILED["at"], lastAttempt=FAILED | {"status": 200, "error": None}),
            "delivered  dlv_7  CALL  crm  attempt 1  200  12.5 ms",
        ),
        (
            delivery(7, "dead", 0, label=None, reason="The registration was\x1b deleted."),
            "dead  dlv_7  CALL  attempt 0  The registration was� deleted.",
        ),
    ],
)
def test_a_line_says_how_it_stands(one: dict[str, Any], line: str) -> None:
    clock, said = tail._text_line(one).split("  ", 1)
    assert len(clock) == len("12:00:00.000")
    assert said == line


class Script:
    """Takes the place of a follower and of the waiting: what each look gives; then Ctrl-C."""

    def __init__(self, *looks: list[dict[str, Any]] | Failed, leaves_out: bool = False) -> None:
        self._looks = iter(looks)
        self.leaves_out = leaves_out

    def begin(self, lines: int) -> list[dict[str, Any]]:
        return self.news()

    def news(self) -> list[dict[str, Any]]:
        look = next(self._looks)
        if isinstance(look, Failed):
            raise look
        return look

    def wait(self) -> None:
        if not self._looks.__length_hint__():  # type: ignore[attr-defined]
            raise KeyboardInterrupt


def follow(script: Script) -> None:
    follower: Any = script
    tail._follow(follower, 10, lambda one: str(one["id"]), script.wait)


def test_a_server_that_is_away_is_waited_for_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    away = Away("hookgw does not answer.")
    with pytest.raises(KeyboardInterrupt):
        follow(Script([delivery(1)], away, away, [delivery(2)], [], away, [delivery(3)]))
    out, err = capsys.readouterr()
    assert out.split() == ["dlv_1", "dlv_2", "dlv_3"]
    assert err == "hookgw does not answer.\nWaiting for it …\nIt answers again.\n" * 2


def test_that_older_ones_are_left_out_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        follow(Script([delivery(1)], [delivery(2)], [], leaves_out=True))
    assert capsys.readouterr().err == f"{tail.LEFT_OUT}\n"


@pytest.mark.parametrize(
    "looks", [[Away("Nobody.")], [[], Failed("Send a valid key.")]], ids=["away at first", "refused"]
)
def test_what_waiting_does_not_mend_ends_it(looks: list[Any]) -> None:
    with pytest.raises(Failed):
        follow(Script(*looks))


# The command


async def test_it_fails_where_nobody_is(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKGW_URL", "http://127.0.0.1:9")
    result = await invoke("tail", "loja1")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["--interval", "99ms"], "at least 100ms"),
        (["--interval", "soon"], "a duration such as"),
        (["-n", "1001"], "range"),
    ],
)
async def test_misuse(invoke: Invoke, server: Receiver, args: list[str], wanted: str) -> None:
    result = await invoke("tail", "loja1", *args)
    assert (result.exit_code, server.requests) == (2, [])
    assert wanted in result.stderr


def run_to_ctrl_c(folder: Path) -> tuple[list[Any], str]:
    """What the command prints: the first two lines, and what comes after a Ctrl-C then."""
    command = [sys.executable, "-m", "hookgw", "tail", "loja1", "--json", "--interval", "100ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            assert process.stdout is not None
            lines = [json.loads(process.stdout.readline()) for _ in range(2)]
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
            return lines, process.stdout.read()
        finally:
            process.kill()


async def test_ctrl_c_ends_it_with_0(server: Receiver, tmp_path: Path) -> None:
    server.will(says({"deliveries": [delivery(1, name="é")], "cursor": None}))
    server.default = says({"deliveries": [delivery(2), delivery(1)], "cursor": None})
    lines, rest = await trio.to_thread.run_sync(run_to_ctrl_c, tmp_path)
    assert lines == [delivery(1, name="é"), delivery(2)]
    assert rest == ""
    first, second = server.requests[:2]
    assert first.target == "/delivery/list/loja1?limit=10"
    assert second.target == f"/delivery/list/loja1?limit={tail.FIRST_PAGE}"
    assert first.header("apikey") == "k-1"
