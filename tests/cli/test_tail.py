"""``hookgw tail``: each change of a delivery once, in order, also across restarts of the server."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from rich.cells import cell_len

from hookgw.deliveries.commands import tail
from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says
from tests.public.command import Failed, ServerUnavailable
from tests.public.kernel import parse_rfc3339, rfc3339

NOW = parse_rfc3339("2026-11-20T12:00:00Z")
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
    """A fake of ``/delivery/list``: returns deliveries and records which pages were requested."""

    def __init__(self, *held: dict[str, Any]) -> None:
        self.held = {one["id"]: one for one in held}
        self.pages: list[tuple[str | None, int]] = []
        self.finished_pages: list[tuple[str | None, float]] = []

    def put(self, *changed: dict[str, Any]) -> None:
        self.held |= {one["id"]: one for one in changed}

    def fetch(self, cursor: str | None, limit: int, finished_since: float | None) -> dict[str, Any]:
        held = self.held
        if finished_since is None:
            self.pages.append((cursor, limit))
        else:
            self.finished_pages.append((cursor, finished_since))
            held = {
                name: one
                for name, one in held.items()
                if one["finishedAt"] and parse_rfc3339(one["finishedAt"]) >= finished_since
            }
        numbers = sorted((int(name[4:]) for name in held), reverse=True)
        wanted = [n for n in numbers if cursor is None or n < int(cursor[4:])][:limit]
        last = f"dlv_{wanted[-1]}" if len(wanted) == limit else None
        return {"deliveries": [self.held[f"dlv_{n}"] for n in wanted], "cursor": last}


def changes(found: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [(one["id"], one["state"], one["attempts"]) for one in found]


@pytest.mark.parametrize(
    ("lines", "shown"), [(0, []), (1, ["dlv_3"]), (2, ["dlv_2", "dlv_3"]), (10, ["dlv_1", "dlv_2", "dlv_3"])]
)
def test_it_starts_with_the_newest(lines: int, shown: list[str]) -> None:
    feed = tail.DeliveryFeed(Deliveries(delivery(1), delivery(2), delivery(3)).fetch)
    assert [one["id"] for one in feed.start(lines)] == shown
    assert feed.poll() == []


def test_it_starts_without_deliveries() -> None:
    deliveries = Deliveries()
    feed = tail.DeliveryFeed(deliveries.fetch)
    assert feed.start(10) == []
    assert feed.poll() == []
    deliveries.put(delivery(1))
    assert changes(feed.poll()) == [("dlv_1", "delivered", 1)]


def test_each_change_is_returned_once_and_in_order() -> None:
    deliveries = Deliveries(delivery(1))
    feed = tail.DeliveryFeed(deliveries.fetch)
    feed.start(0)
    deliveries.put(delivery(2), delivery(3, "pending", 0), delivery(4, "pending", 1))
    assert changes(feed.poll()) == [("dlv_2", "delivered", 1), ("dlv_4", "pending", 1)]
    assert feed.poll() == []
    deliveries.put(delivery(3, "dead", 1), delivery(4, "pending", 2), delivery(5))
    assert changes(feed.poll()) == [("dlv_3", "dead", 1), ("dlv_4", "pending", 2), ("dlv_5", "delivered", 1)]
    deliveries.put(delivery(4, "delivered", 3))
    assert changes(feed.poll()) == [("dlv_4", "delivered", 3)]
    assert feed.poll() == []


def test_a_pruned_delivery_is_no_longer_followed() -> None:
    deliveries = Deliveries(delivery(1, "pending", 0), delivery(2))
    feed = tail.DeliveryFeed(deliveries.fetch)
    feed.start(10)
    del deliveries.held["dlv_1"], deliveries.held["dlv_2"]
    assert feed.poll() == []
    deliveries.put(delivery(3))
    assert changes(feed.poll()) == [("dlv_3", "delivered", 1)]


def test_a_quiet_instance_needs_small_pages() -> None:
    deliveries = Deliveries(*map(delivery, range(1, 3000)))
    feed = tail.DeliveryFeed(deliveries.fetch)
    feed.start(10)
    feed.poll()
    deliveries.put(delivery(3000))
    assert len(feed.poll()) == 1
    assert deliveries.pages == [(None, 10), (None, tail.FIRST_PAGE), (None, tail.FIRST_PAGE)]


def test_a_busy_instance_loses_no_delivery() -> None:
    deliveries = Deliveries(delivery(1))
    feed = tail.DeliveryFeed(deliveries.fetch)
    feed.start(10)
    deliveries.put(*map(delivery, range(2, 2502)))
    assert [one["id"] for one in feed.poll()] == [f"dlv_{n}" for n in range(2, 2502)]
    assert [limit for _, limit in deliveries.pages[1:]] == [tail.FIRST_PAGE, tail.PAGE, tail.PAGE, tail.PAGE]


def done(number: int, at: float, state: str = "delivered", attempts: int = 1) -> dict[str, Any]:
    """A delivery that finished at a time."""
    return delivery(number, state, attempts, finishedAt=rfc3339(at))


def test_of_many_pending_deliveries_the_newest_are_followed_and_each_end_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail, "MAX_FOLLOWED", 3)
    monkeypatch.setattr(tail, "PAGE", 2)
    clock = [NOW]
    deliveries = Deliveries(*(delivery(n, "pending", 0) for n in range(1, 6)))
    feed = tail.DeliveryFeed(deliveries.fetch, now=lambda: clock[0])
    feed.start(10)
    assert feed.is_incomplete
    deliveries.put(*(delivery(n, "pending", 1) for n in range(1, 6)))
    assert [one["id"] for one in feed.poll()] == ["dlv_3", "dlv_4", "dlv_5"]
    clock[0] += 5
    deliveries.put(*(done(n, NOW + n) for n in (1, 2, 4)))
    assert [one["id"] for one in feed.poll()] == ["dlv_1", "dlv_2", "dlv_4"]
    for _ in range(30):
        assert feed.poll() == []
        clock[0] += 1
    # A time that became visible late, a resent one, and an end across a long gap.
    deliveries.put(done(3, clock[0] - 4), delivery(1, "pending", 1))
    assert [one["id"] for one in feed.poll()] == ["dlv_3"]
    clock[0] += 3600
    deliveries.put(done(1, clock[0] - 3000, attempts=2), done(5, clock[0] - 3000, "dead"))
    assert changes(feed.poll()) == [("dlv_1", "delivered", 2), ("dlv_5", "dead", 1)]
    assert feed.poll() == []


def test_what_finished_before_the_start_is_not_shown() -> None:
    deliveries = Deliveries(done(1, NOW - 1), done(2, NOW), delivery(3))
    feed = tail.DeliveryFeed(deliveries.fetch, now=lambda: NOW + 0.9)
    assert len(feed.start(2)) == 2
    assert feed.poll() == []


def test_a_delivery_that_arrives_between_two_pages_is_neither_lost_nor_repeated() -> None:
    deliveries = Deliveries(delivery(1))
    fetch = deliveries.fetch
    feed = tail.DeliveryFeed(lambda *asked: fetching(*asked), now=lambda: NOW)
    fetching = fetch
    feed.start(1)

    def fetch_and_append(cursor: str | None, limit: int, finished_since: float | None) -> dict[str, Any]:
        if finished_since is not None and "dlv_3" not in deliveries.held:
            # It finished after the list of new ones was read, and an older one waits for its attempt.
            deliveries.put(delivery(2, "pending", 0), done(3, NOW))
        return fetch(cursor, limit, finished_since)

    fetching = fetch_and_append
    assert changes(feed.poll()) == [("dlv_3", "delivered", 1)]
    deliveries.put(done(2, NOW + 1))
    assert changes(feed.poll()) == [("dlv_2", "delivered", 1)]
    assert feed.poll() == []


def test_a_poll_that_failed_is_made_up_for() -> None:
    deliveries = Deliveries(delivery(1))
    fetch = deliveries.fetch
    feed = tail.DeliveryFeed(lambda *asked: fetching(*asked), now=lambda: NOW)
    fetching = fetch
    feed.start(1)
    deliveries.put(delivery(2))

    def refuse(cursor: str | None, limit: int, finished_since: float | None) -> dict[str, Any]:
        if finished_since is not None:
            raise ServerUnavailable("Gone.")
        return fetch(cursor, limit, None)

    fetching = refuse
    with pytest.raises(ServerUnavailable):
        feed.poll()
    fetching = fetch
    assert changes(feed.poll()) == [("dlv_2", "delivered", 1)]


@pytest.mark.parametrize(
    ("filters", "shown"),
    [
        ({}, [1, 2, 3, 4]),
        ({"kinds": ("CALL",)}, [1, 2, 3]),
        ({"states": ("dead", "dropped")}, [3]),
        ({"labels": ("n8n",)}, [2]),
        ({"error": "ANSWERED 500"}, [1, 2, 3]),
        ({"error": "deleted"}, [4]),
        ({"kinds": ("CALL",), "states": ("delivered",), "labels": ("crm",), "error": "500"}, [1]),
    ],
)
def test_filters(filters: dict[str, Any], shown: list[int]) -> None:
    held = [
        delivery(1),
        delivery(2, label="n8n"),
        delivery(3, "dead"),
        delivery(4, kind="CHATS_SET", lastAttempt=None, reason="It was deleted."),
    ]
    matches = tail.Filters(**filters).match
    deliveries = Deliveries(*held)
    feed = tail.DeliveryFeed(deliveries.fetch, matches)
    assert [one["id"] for one in feed.start(10)] == [f"dlv_{n}" for n in shown]
    fresh = [{**one, "id": f"dlv_{number + 10}"} for number, one in enumerate(held, 1)]
    deliveries.put(*fresh)
    assert [one["id"] for one in feed.poll()] == [f"dlv_{n + 10}" for n in shown]


def test_a_start_looks_for_as_many_matches_as_wanted_but_not_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MAX_SEARCHED", 100)
    monkeypatch.setattr(tail, "PAGE", 30)
    deliveries = Deliveries(*(delivery(n, "dead" if n % 10 == 0 else "delivered") for n in range(1, 1000)))
    matches = tail.Filters(states=("dead",)).match
    feed = tail.DeliveryFeed(deliveries.fetch, matches)
    assert [one["id"] for one in feed.start(3)] == ["dlv_970", "dlv_980", "dlv_990"]
    rare = tail.DeliveryFeed(deliveries.fetch, tail.Filters(error="never").match)
    deliveries.pages.clear()
    assert rare.start(3) == []
    assert sum(limit for _, limit in deliveries.pages) < 150


@pytest.mark.parametrize(
    ("oldest", "lines", "incomplete"),
    [("pending", 3, True), ("pending", 4, True), ("pending", 5, False), ("delivered", 4, False)],
)
def test_older_deliveries_may_be_pending_too(oldest: str, lines: int, incomplete: bool) -> None:
    held = [delivery(1, oldest, 0), *(delivery(n, "pending", 0) for n in range(2, 5))]
    feed = tail.DeliveryFeed(Deliveries(*held).fetch)
    feed.start(lines)
    assert feed.is_incomplete is incomplete


# Lines


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (
            delivery(7, "pending", 1),
            "pending    dlv_7  CALL  crm  500  The receiver answered 500.",
        ),
        (
            delivery(7, finishedAt=FAILED["at"], lastAttempt=FAILED | {"status": 200, "error": None}),
            "delivered  dlv_7  CALL  crm  200  12 ms",
        ),
        (
            delivery(7, "dead", 0, label=None, reason="The registration was\x1b deleted."),
            "dead       dlv_7  CALL  The registration was� deleted.",
        ),
    ],
)
def test_a_line_describes_the_latest_attempt(one: dict[str, Any], line: str) -> None:
    clock, text = tail.text_line(one).split("  ", 1)
    assert len(clock) == len("12:00:00")
    assert text == line


def test_a_start_reads_on_behind_pages_of_a_search_that_took_long() -> None:
    pages: dict[str | None, dict[str, Any]] = {
        None: {"deliveries": [delivery(9)], "cursor": "dlv_8"},
        "dlv_8": {"deliveries": [], "cursor": "dlv_4"},
        "dlv_4": {"deliveries": [delivery(2, "pending")], "cursor": "dlv_2"},
    }
    feed = tail.DeliveryFeed(lambda cursor, limit, since: pages[cursor])
    assert [one["id"] for one in feed.start(2)] == ["dlv_2", "dlv_9"]
    assert feed.is_incomplete


class Script:
    """A fake feed: returns or raises one result per poll; then Ctrl-C."""

    def __init__(self, *results: list[dict[str, Any]] | Failed, is_incomplete: bool = False) -> None:
        self._results = iter(results)
        self.is_incomplete = is_incomplete

    def start(self, lines: int) -> list[dict[str, Any]]:
        return self.poll()

    def poll(self) -> list[dict[str, Any]]:
        result = next(self._results)
        if isinstance(result, Failed):
            raise result
        return result

    def wait(self) -> None:
        if not self._results.__length_hint__():  # type: ignore[attr-defined]
            raise KeyboardInterrupt


def follow(script: Script, **others: Script) -> None:
    feeds: Any = {"x": script, **others}
    tail.follow(feeds, 10, lambda _, found: print(*(one["id"] for one in found)), script.wait)


def test_an_unavailable_server_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    down = ServerUnavailable("No connection.")
    with pytest.raises(KeyboardInterrupt):
        follow(Script([delivery(1)], down, down, [delivery(2)], [], down, [delivery(3)]))
    out, err = capsys.readouterr()
    assert out.split() == ["dlv_1", "dlv_2", "dlv_3"]
    assert err == "No connection.\nWaiting until hookgw responds …\nhookgw responds again.\n" * 2


def test_the_incomplete_warning_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        follow(Script([delivery(1)], [delivery(2)], [], is_incomplete=True))
    assert capsys.readouterr().err == "\n".join([*tail.INCOMPLETE, ""])


@pytest.mark.parametrize(
    "results",
    [[ServerUnavailable("Nobody.")], [[], Failed("Send a valid key.")]],
    ids=["unavailable at first", "refused"],
)
def test_errors_that_waiting_does_not_fix_end_it(results: list[Any]) -> None:
    with pytest.raises(Failed):
        follow(Script(*results))


def test_an_instance_that_is_gone_ends_only_its_own_lines(capsys: pytest.CaptureFixture[str]) -> None:
    gone = Failed("There is no such instance.")
    gone.status = 404
    with pytest.raises(KeyboardInterrupt):
        follow(Script([], [delivery(1)], [delivery(2)]), deleted=Script([], gone))
    out, err = capsys.readouterr()
    assert (out.split(), err) == (["dlv_1", "dlv_2"], "There is no such instance.\n")
    with pytest.raises(Failed, match="no such instance"):
        follow(Script([], gone))


# The command


async def test_it_fails_if_nothing_listens(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKGW_URL", "http://127.0.0.1:9")
    result = await invoke("tail", "loja1")
    assert result.exit_code == 1
    assert "Cannot connect to hookgw" in result.stderr


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["--interval", "99ms"], "at least 100ms"),
        (["--interval", "soon"], "a duration such as"),
        (["-n", "-1"], "range"),
        (["--state", "lost"], "is not one of"),
    ],
)
async def test_usage_errors_exit_with_2(
    invoke: Invoke, server: Receiver, args: list[str], wanted: str
) -> None:
    result = await invoke("tail", "loja1", *args)
    assert (result.exit_code, server.requests) == (2, [])
    assert wanted in result.stderr


def run_to_ctrl_c(folder: Path) -> tuple[list[Any], str]:
    """Run the command, send Ctrl-C after two lines, and return these lines and the rest of the output."""
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
    assert lines == [{"instance": "loja1"} | delivery(1, name="é"), {"instance": "loja1"} | delivery(2)]
    assert rest == ""
    first, second, third = server.requests[:3]
    assert first.target == "/delivery/list/loja1?limit=10"
    assert second.target == f"/delivery/list/loja1?limit={tail.FIRST_PAGE}"
    assert third.target.startswith(f"/delivery/list/loja1?limit={tail.PAGE}&finishedSince=20")
    assert first.header("apikey") == "k-1"


def run_until_interrupted(monkeypatch: pytest.MonkeyPatch, polls: int = 1) -> None:
    """Let the command end after so many polls."""
    left = [polls]

    def wait(_seconds: float) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    monkeypatch.setattr("hookgw.deliveries.commands.tail.time.sleep", wait)


async def test_several_instances_are_followed_and_named(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_until_interrupted(monkeypatch)
    server.default = lambda request: says(
        [{"name": "loja1"}, {"name": "loja2"}]
        if request.path == "/instance/fetchInstances"
        else {"deliveries": [delivery(1)], "cursor": None}
    )
    result = await invoke("tail", "-n", "1")
    assert [line.split("  ")[3] for line in result.stdout.splitlines()] == ["loja1", "loja2"]
    assert {request.path for request in server.requests[1:]} == {
        "/delivery/list/loja1",
        "/delivery/list/loja2",
    }


async def test_an_instance_that_is_created_later_is_followed(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_until_interrupted(monkeypatch, polls=2)
    monkeypatch.setattr(tail, "LOOK_EVERY", 0.0)
    found = iter([["loja1"], ["loja1", "loja2"], ["loja1", "loja2"]])
    server.default = lambda request: says(
        [{"name": name} for name in next(found)]
        if request.path == "/instance/fetchInstances"
        else {"deliveries": [delivery(1)], "cursor": None}
    )
    result = await invoke("tail", "-n", "1")
    assert [line.split("  ")[3] for line in result.stdout.splitlines()] == ["CALL", "loja2"]


@pytest.mark.parametrize(
    ("names", "said"), [([], "no instance to follow"), (range(51), "There are 51 instances")]
)
async def test_too_many_or_no_instances(invoke: Invoke, server: Receiver, names: Any, said: str) -> None:
    server.default = says([{"name": f"i{n}"} for n in names])
    result = await invoke("tail")
    assert result.exit_code == 1
    assert said in result.stderr


async def test_a_line_fits_the_terminal_unless_it_is_wide(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    reason = "O receptor não respondeu 東京 " * 5
    server.default = says({"deliveries": [delivery(1, "dead", reason=reason)], "cursor": None})
    run_until_interrupted(monkeypatch)
    (line,) = (await invoke("tail", "loja1")).stdout.splitlines()
    assert cell_len(line) <= 60
    assert line.endswith("…")
    run_until_interrupted(monkeypatch)
    (line,) = (await invoke("tail", "loja1", "--wide", "--limit", "1")).stdout.splitlines()
    assert line.endswith(reason)


async def test_one_kind_is_asked_for(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_until_interrupted(monkeypatch)
    server.default = says({"deliveries": [], "cursor": None})
    assert (await invoke("tail", "loja1", "--kind", "messages.upsert")).exit_code == 0
    assert all("kind=MESSAGES_UPSERT" in request.target for request in server.requests)


async def test_the_instances_of_a_tag_are_followed(invoke: Invoke, server: Receiver) -> None:
    server.default = says([])
    result = await invoke("tail", "--tag", "tenant=acme")
    assert server.requests[-1].target == "/instance/fetchInstances?tag=tenant%3Dacme"
    assert result.stderr == "Error: There is no instance to follow.\n"
    refused = await invoke("tail", "loja1", "--tag", "tenant=acme")
    assert refused.exit_code == 2
    assert "Name instances, or choose them with --tag, not both." in refused.stderr
