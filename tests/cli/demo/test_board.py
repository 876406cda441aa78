"""What the demo displays."""

import io
from collections.abc import Callable
from typing import cast

import pytest
import trio
from rich.console import Console, RenderableType
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import LaneState
from hookgw.demo import board, screens
from tests.public.app import Server
from tests.public.demo import (
    RENEW_AFTER,
    DemoReceiver,
    Invitation,
    Ledger,
    LiveScreen,
    Outage,
    PlainScreen,
    Row,
    Trouble,
    open_demo_receiver,
    open_screen,
    run_outages,
)
from tests.public.records import LaneStatistics, new_link_token


def ledger_of(*ids: str) -> Ledger:
    """Return a ledger of events that were accepted, arrived and are settled."""
    ledger = Ledger()
    for seq, event_id in enumerate(ids, start=1):
        ledger.accept(event_id)
        ledger.arrive(event_id)
        ledger.settle(seq, event_id)
    return ledger


async def test_each_receiver_has_a_row_and_so_has_a_url_of_the_user() -> None:
    async with open_demo_receiver("crm") as crm, open_demo_receiver("n8n") as n8n:
        await n8n.begin(Trouble.FAILS)
        lanes = [
            LaneStatistics(
                lane="reg_1:0",
                registration="reg_1",
                partition=None,
                url="https://example/x",
                state=LaneState.DELIVERING,
                backlog=1,
            ),
            LaneStatistics(
                lane="reg_2:0",
                registration="reg_2",
                partition=None,
                url=n8n.url,
                state=LaneState.WAITING,
                backlog=4,
            ),
        ]
        assert board.rows([crm, n8n], lanes) == [
            Row(name="crm", receiver="is up", lane=LaneState.IDLE, pending=0, ledger=crm.ledger),
            Row(name="n8n", receiver="answers 500", lane=LaneState.WAITING, pending=4, ledger=n8n.ledger),
            Row(name="https://example/x", lane=LaneState.DELIVERING, pending=1),
        ]


async def test_the_verdict_names_every_problem() -> None:
    async with (
        open_demo_receiver("crm") as crm,
        open_demo_receiver("n8n") as n8n,
        open_demo_receiver("bot") as bot,
    ):
        crm.ledger = ledger_of("a", "b")
        n8n.ledger = ledger_of("a", "b")
        n8n.ledger.failed_attempts = 3
        bot.ledger = ledger_of("a")
        bot.ledger.accept("b")
        bot.ledger.accept("c")
        bot.ledger.arrive("c")
        bot.ledger.arrive("c")
        bot.ledger.unverified = 2
        assert board.verdict([crm, n8n, bot]) == [
            " crm: 2 of 2 events arrived once, in order, verified.",
            " n8n: 2 of 2 events arrived once, in order, verified (3 failed attempts).",
            (
                " bot: 2 of 3 events arrived: "
                "1 not delivered yet, 1 not settled yet, 1 repeated, 2 not verified."
            ),
        ]


ROWS = [
    Row(name="crm", receiver="is up", ledger=ledger_of(*map(str, range(80)))),
    Row(
        name="n8n",
        receiver="answers 500",
        lane=LaneState.WAITING,
        pending=20,
        ledger=ledger_of(*map(str, range(60))),
    ),
    Row(name="https://example/[x]", lane=LaneState.DELIVERING, pending=1),
]


def test_a_summary_is_one_line() -> None:
    assert screens.summary(2, ROWS) == (
        "accepted 2 | crm 80 delivered | n8n 60 delivered, 20 pending (waiting) | "
        "https://example/[x] 1 pending (delivering)"
    )


def drawn(picture: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(picture)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_table_at_80_columns() -> None:
    assert drawn(screens.table(ROWS, 80), 80) == [
        "receiver                  last 60 events                  arrived  pending",
        "crm          is up        ██████████████████████████████       80        0",
        "n8n          answers 500  ████████████████████░░░░░░░░░░       60       20",
        "example/[x]                                                     -        1",
    ]


def test_the_table_at_60_columns() -> None:
    rows = [*ROWS, Row(name="bot", receiver="is down", pending=99999, ledger=ledger_of("a"))]
    assert drawn(screens.table(rows, 60), 60) == [
        "receiver                  last 60 events   arrived  pending",
        "crm          is up        ███████████████       80        0",
        "n8n          answers 500  ██████████░░░░░       60       20",
        "example/[x]                                      -        1",
        "bot          is down      ░░░░░░░░░░░░░░░        1    99999",
    ]


def test_a_fault_takes_the_place_of_the_state() -> None:
    ledger = ledger_of("a")
    ledger.arrive("a")
    row = Row(name="https://example/" + "x" * 99 + "\x1b", receiver="is up", ledger=ledger)
    _, line = drawn(screens.table([row], 80), 80)
    assert line.split() == ["example/xxx…", "1", "repeated", "1", "0"]


def test_many_urls_of_the_user_leave_room_for_the_rest() -> None:
    rows = ROWS + [Row(name=f"https://example/{number}") for number in range(20)]
    lines = drawn(screens.table(rows, 60), 60)
    assert len(lines) == 1 + screens.MAX_ROWS + 1
    assert lines[-1] == f"and {len(rows) - screens.MAX_ROWS} more"


@pytest.mark.parametrize(
    ("arrived", "pending", "shown"),
    [
        (0, 0, ""),
        (4, 0, "█"),
        (28, 0, "███████"),
        (30, 30, "███████░░░░░░░░"),
        (200, 2, "███████████████"),
        (9, 100, "░" * 15),
    ],
)
def test_a_bar(arrived: int, pending: int, shown: str) -> None:
    row = Row(name="crm", pending=pending, ledger=ledger_of(*map(str, range(arrived))))
    assert screens.bar(row, 15).plain == shown


async def test_a_line_is_printed_only_after_a_change(
    mock_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = iter((1, 1, 2, 3))
    screen = PlainScreen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.run, lambda: (next(counts), []))
        for _ in range(3):
            await wait_all_tasks_blocked()
            mock_clock.jump(1)
        await wait_all_tasks_blocked()
        screen.add_message("n8n is up again")
        nursery.cancel_scope.cancel()
    lines = [line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["accepted 1", "accepted 2", "accepted 3", "-- n8n is up again"]


class FakeServer:
    """Issues links, and says when one is used."""

    def __init__(self, port: int = 8080) -> None:
        self.urls = [f"http://127.0.0.1:{port}"]
        self.issued = 0

    def login_link(self, key: str, note_use: Callable[[], None]) -> str | None:
        assert key == KEY
        self.issued += 1
        self.use = note_use
        return f"{self.urls[0]}/dashboard/enter/{self.issued:020}"


KEY = "demo-0123456789abcdef"


def invitation_of(server: FakeServer, program: str = ".venv/bin/hookgw") -> Invitation:
    return Invitation(cast("Server", server), KEY, program)


@pytest.mark.parametrize("width", [60, 80])
async def test_a_picture_fits_a_small_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=24)
    screen = LiveScreen(console, invitation_of(FakeServer(port=54321)))
    for trouble in (Trouble.REFUSES, Trouble.FAILS):
        await run_outages([Outage(0, "n8n", trouble, 0)], {"n8n": FakeReceiver("n8n")}, screen.add_message)
    rows = ROWS + [Row(name=f"https://example/{number}") for number in range(20)]
    lines = drawn(screen.picture(lambda: (7, rows)), width)
    assert len(lines) < 24
    assert max(map(len, lines)) <= width
    link = "http://127.0.0.1:54321/dashboard/enter/00000000000000000001"
    assert lines[:3] == ["Watch it in a browser. This link logs in once:", link, ""]
    assert "n8n is up again. Its events arrive, in order." in lines
    assert lines[-1] == "Ctrl-C ends the demo."
    command = " ".join(
        line.removesuffix("\\").strip()
        for line in lines[lines.index("Join in from another terminal:") + 1 : -2]
    )
    assert command == (
        f"HOOKGW_URL=http://127.0.0.1:54321 HOOKGW_KEY={KEY} "
        ".venv/bin/hookgw message send demo 5511999999999 Hello"
    )


class FakeReceiver(DemoReceiver):
    """A receiver without a port."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def begin(self, trouble: Trouble) -> None:
        self.trouble = trouble

    async def recover(self) -> None:
        self.trouble = Trouble.NONE


async def test_another_link_follows_one_that_was_used_or_expires(mock_clock: MockClock) -> None:
    server = FakeServer()
    invitation = invitation_of(server)
    first = invitation.link()
    assert invitation.link() == first
    server.use()
    second = invitation.link()
    assert invitation.link() == second != first
    mock_clock.jump(RENEW_AFTER - 1)
    assert invitation.link() == second
    mock_clock.jump(1)
    assert invitation.link() not in (first, second)
    assert server.issued == 3


def test_a_link_fits_60_columns() -> None:
    assert len("http://127.0.0.1:65535/dashboard/enter/" + new_link_token()) <= 60


async def test_a_terminal_shows_the_latest_message_and_no_dead_link(mock_clock: MockClock) -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=80, height=24)
    with open_screen(console, invitation_of(FakeServer())) as screen:
        assert isinstance(screen, LiveScreen)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(screen.run, lambda: (7, ROWS))
            await wait_all_tasks_blocked()
            screen.add_message("n8n is down")
            mock_clock.jump(1)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    before, last = terminal.getvalue().rsplit("\x1b[J", 1)
    assert "n8n is down" in before
    assert "dashboard" in before
    assert "answers 500" in last
    assert "dashboard" not in last
    assert last.endswith("\x1b[?25h")


@pytest.mark.parametrize("terminal", [False, True])
async def test_elsewhere_lines_are_printed(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with open_screen(console, invitation_of(FakeServer(), "hookgw")) as screen:
        assert isinstance(screen, PlainScreen)
    link = "http://127.0.0.1:8080/dashboard/enter/00000000000000000001"
    assert capsys.readouterr().out.splitlines() == [
        "hookgw listens on http://127.0.0.1:8080.",
        f"Dashboard (this link logs in once, within 5 minutes): {link}",
        "Join in from another terminal:",
        f"HOOKGW_URL=http://127.0.0.1:8080 HOOKGW_KEY={KEY} \\",
        "  hookgw message send demo 5511999999999 Hello",
    ]


def test_a_demo_that_is_over_at_once_invites_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    with open_screen(Console(file=io.StringIO()), None):
        pass
    assert capsys.readouterr().out == ""
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    lines = drawn(LiveScreen(console, None).picture(lambda: (7, ROWS)), 80)
    assert lines[0].startswith("receiver ")
    assert lines[-1] == "Ctrl-C ends the demo."
