"""What the demo displays."""

from __future__ import annotations

import io

import pytest
import trio
from rich.console import Console
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw.cli.demo import board, screens
from hookgw.cli.demo.board import Row
from hookgw.cli.demo.ledger import Ledger
from hookgw.cli.demo.receivers import Trouble, open_demo_receiver
from hookgw.cli.demo.screens import LiveScreen, PlainScreen, open_screen
from hookgw.models.deliveries import LaneState, LaneStatistics


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
    Row(name="crm", receiver="is up", ledger=ledger_of("a", "b"), last="Olá\x1b"),
    Row(name="n8n", receiver="is down", lane=LaneState.WAITING, pending=2, ledger=ledger_of()),
    Row(name="https://example/[x]", lane=LaneState.DELIVERING, pending=1),
]


def test_a_summary_is_one_line() -> None:
    assert screens.summary(2, ROWS) == (
        "accepted 2 | crm 2 delivered | n8n 0 delivered, 2 pending (waiting) | "
        "https://example/[x] 1 pending (delivering)"
    )


def drawn(rows: list[Row], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(screens.table(rows, width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_table_fits_a_small_terminal() -> None:
    head, crm, n8n, user = drawn(ROWS, 80)
    assert head == "receiver          state    lane        pending  delivered  failed  faults"
    assert crm.split() == ["crm", "is", "up", "idle", "0", "2", "0", "none"]
    assert n8n.split() == ["n8n", "is", "down", "waiting", "2", "0", "0", "none"]
    assert user.split() == ["https://example…", "delivering", "1", "-", "-", "-"]


def test_the_table_fits_60_columns() -> None:
    lines = drawn([*ROWS, Row(name="bot", receiver="answers 500", pending=99999, ledger=ledger_of("a"))], 60)
    assert max(map(len, lines)) <= 60
    assert lines[0] == "receiver  state        pending  delivered  failed  faults"
    assert lines[3].split() == ["https:/…", "1", "-", "-", "-"]


def test_a_wide_terminal_shows_what_arrived_last() -> None:
    ledger = ledger_of("a")
    ledger.arrive("a")
    row = Row(name="https://example/" + "x" * 99, receiver="is up", ledger=ledger, last="Olá\x1b" + "y" * 99)
    _, line = drawn([row], screens.WIDE)
    assert line.split() == [
        *("https://example…", "is", "up", "idle", "0", "1", "0", "1", "repeated"),
        "Olá�" + "y" * 23 + "…",
    ]


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


async def test_a_terminal_shows_a_table_and_the_latest_messages(mock_clock: MockClock) -> None:
    terminal = io.StringIO()
    with open_screen(Console(file=terminal, force_terminal=True, width=140, height=40)) as screen:
        assert isinstance(screen, LiveScreen)
        for number in range(screens.MAX_MESSAGES + 1):
            screen.add_message(f"message {number}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(screen.run, lambda: (7, ROWS))
            await wait_all_tasks_blocked()
            mock_clock.jump(1)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    shown = terminal.getvalue()
    assert "7 events accepted" in shown
    assert "is down" in shown
    assert "message 0" not in shown
    assert f"message {screens.MAX_MESSAGES}" in shown


def test_without_a_terminal_lines_are_printed() -> None:
    with open_screen(Console(file=io.StringIO())) as screen:
        assert isinstance(screen, PlainScreen)
