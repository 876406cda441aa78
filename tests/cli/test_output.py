"""What the commands print."""

from __future__ import annotations

import pytest

from hookgw.cli.output import printable, show_fields, show_json, show_table


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
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["lane", "state"]
    assert first.split() == [url, "idle"]
    assert second.split() == ["b"]


def test_fields_leave_out_what_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields({"URL": "[bold]x", "state": None, "n": 0})
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["URL", "[bold]x"], ["n", "0"]]


def test_json_keeps_letters_and_big_integers(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"é": 2**70})
    assert capsys.readouterr().out == '{\n  "é": 1180591620717411303424\n}\n'
