"""What the commands print."""

import io
import os
import subprocess
import sys
import termios
from functools import partial
from pathlib import Path

import click
import pytest
from rich.cells import cell_len

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says
from tests.public.command import (
    Column,
    Failed,
    fit,
    printable,
    short_time,
    show_fields,
    show_json,
    show_table,
    table_options,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (["a", None, True], "a, , yes"),
        ("Olá 😀", "Olá 😀"),
        ("\x1b[2Jgone\r\n\x9b", "�[2Jgone���"),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_a_value_is_printed_in_words_and_cannot_steer_the_terminal(value: object, shown: str) -> None:
    assert printable(value) == shown


def test_a_table_keeps_brackets_and_long_cells_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    url = "http://[::1]:9000/" + "x" * 80
    show_table(("lane", "state"), [(url, "idle"), ("b", None)])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["lane", "state"]
    assert first.split() == [url, "idle"]
    assert second.split() == ["b"]


def test_fields_leave_out_what_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields({"URL": "[bold]x", "state": None, "n": 0})
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["URL", "[bold]x"], ["n", "0"]]


def test_json_keeps_letters_and_big_integers(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"é": 2**70})
    assert capsys.readouterr().out == '{\n  "é": 1180591620717411303424\n}\n'


def test_a_full_disk_below_standard_output_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for show in (show_fields, show_json):
        # Each has a standard output of its own, because it leads to nowhere afterwards.
        with Path("/dev/full").open("w", encoding="utf-8") as output:
            monkeypatch.setattr("sys.stdout", output)
            with pytest.raises(Failed, match="Standard output cannot be written: No space left on device"):
                show({"name": "loja1"})


@pytest.mark.process
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_becomes_full_within_a_text_is_said(tmp_path: Path, unbuffered: str) -> None:
    run = """
import resource, signal, sys
from hookgw.command.group import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
main(["apply", "--schema"])
"""
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"}
    with (tmp_path / "schema.json").open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", run], stdout=file, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"Error: Standard output cannot be written: File too large.\n"


@pytest.mark.process
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_tables_are_as_wide_as_the_terminal_also_without_buffers(unbuffered: str) -> None:
    run = """
from hookgw.command.group import main
from hookgw.command.output import available_width
main(["--version"], standalone_mode=False)
print(available_width())
"""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    terminal, end = os.openpty()
    termios.tcsetwinsize(end, (24, 132))
    with os.fdopen(terminal, "rb") as shown:
        subprocess.run(
            [sys.executable, "-c", run],
            stdout=end,
            env={**environment, "PYTHONUNBUFFERED": unbuffered},
            check=True,
        )
        assert [shown.readline().split()[-1:] for _ in range(2)][1] == [b"132"]
        os.close(end)


def test_a_closed_standard_output_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)  # as Python has it if it is closed
    for show in (partial(show_table, ["name"], [["loja1"]]), partial(show_json, {"é": 1})):
        with pytest.raises(Failed, match="Standard output cannot be written: Bad file descriptor"):
            show()


COLUMNS = (
    Column("id", least=None),
    Column("name", least=8),
    Column("URL", least=12, drop=1),
    Column("at", least=None, drop=2, is_time=True),
    Column("reason", least=10, wraps=True),
)
ROWS = [
    (
        "dlv_1",
        "loja 東京 店舗 one of many names",
        "https://crm.example/" + "h" * 60,
        None,
        "It answered 404 twice.",
    ),
    ("dlv_123456", "b", "https://n8n.example/" + "w" * 40, "2026-11-20T12:00:00Z", None),
]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 160])
def test_a_table_fits_the_terminal_and_cuts_no_id(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    show_table(COLUMNS, ROWS)
    text = capsys.readouterr().out
    assert max(map(cell_len, text.splitlines())) <= width
    assert "dlv_123456" in text
    words = text.split()
    assert {"404", "twice."} <= set(words)  # wrapped, not cut
    assert ("URL" in words, "at" in words) == (width >= 80, width >= 80)


def test_a_wide_table_has_everything(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    command = click.Command("list", callback=partial(show_table, COLUMNS, ROWS))
    table_options(command)(["--wide"], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(str(cell or "") in line for row, line in zip(ROWS, lines[1:], strict=True) for cell in row)


def test_a_column_without_values_is_left_out_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("dlv_1", "a", None, None, "why")]
    show_table(COLUMNS, rows)
    assert capsys.readouterr().out.splitlines()[0].split() == ["id", "name", "URL", "at", "reason"]
    monkeypatch.setenv("COLUMNS", "80")
    show_table(COLUMNS, rows)
    assert capsys.readouterr().out.splitlines()[0].split() == ["id", "name", "reason"]


def test_what_is_left_of_the_width_is_used() -> None:
    columns = (Column("a", least=10), Column("b", least=10), Column("c", least=None))
    widths = fit(columns, [100, 30, 5], [False] * 3, 80)
    assert widths == {0: 41, 1: 30, 2: 5}
    # Not even what always stays fits: it is cut as far as it may be.
    assert fit(columns, [100, 30, 5], [False] * 3, 10) == {0: 10, 1: 10, 2: 5}


def test_a_time_that_is_none_is_shown_as_it_is() -> None:
    assert short_time("soon\x1b") == "soon�"
    assert len(short_time("2026-11-20T12:00:00.123Z")) == len("11-20 12:00:00")


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "command", [("instance", "delete", "loja1"), ("webhook", "delete", "loja1"), ("key", "revoke", "crm")]
)
async def test_what_cannot_be_had_back_is_asked_for_on_a_terminal_alone(
    invoke: Invoke, server: Receiver, command: tuple[str, ...]
) -> None:
    server.default = says({"status": "SUCCESS"})
    for answer in (b"\n", b"n\n", b""):
        result = await invoke(*command, input=Terminal(answer))
        assert (result.exit_code, server.requests) == (1, [])
        assert "? " in result.stderr
    done = [await invoke(*command, input=Terminal(b"y\n"))]
    done += [await invoke(*command, "--yes", input=Terminal()), await invoke(*command, input=b"")]
    assert [one.exit_code for one in done] == [0, 0, 0]
    assert len(server.requests) == 3
    assert "? " not in done[1].stderr + done[2].stderr
