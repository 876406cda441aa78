"""Tables, summaries and errors in the language of HOOKGW_LANG; JSON never changes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from hookgw.testing import answer, open_receiver
from tests.public.command import Client, Failed, printable, show_fields, show_table
from tests.public.kernel import Invalid, Sentence
from tests.public.web import response_to

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def portuguese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKGW_LANG", "pt_BR.UTF-8")


def test_headings_and_states_are_translated_and_data_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(["instance", "state"], [["pending", "pending"], ["loja1", "delivered"]])
    assert capsys.readouterr().out.split() == [
        *("instância", "estado"),
        *("pending", "pendente"),
        *("loja1", "entregue"),
    ]
    show_table(["id", "loss"], [["events", "events"]])
    assert capsys.readouterr().out.split() == ["id", "perda", "events", "eventos"]
    assert printable(True) == "sim"


def test_sentences_of_the_gateway_are_translated_where_a_table_has_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for heading in ("error", "found", "last outcome", "problem", "reason"):
        show_table(["URL", heading], [["The registration was deleted.", "The registration was deleted."]])
        _, row = capsys.readouterr().out.splitlines()
        assert row.split("  ") == ["The registration was deleted.", "O cadastro foi excluído."]
    show_table(["last outcome"], [["delivered"]])
    assert capsys.readouterr().out.split() == ["último", "resultado", "entregue"]


def test_names_and_values_that_are_data_are_not_translated(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields({"state": "pending"})
    show_fields({"state": "pending"}, are_data=True)
    assert capsys.readouterr().out.split() == ["estado", "pendente", "state", "pending"]


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("pt", "events[1].data está faltando."),
        ("es", "falta events[1].data."),
        ("fr", "events[1].data is missing."),
    ],
)
async def test_an_error_of_the_server_is_translated_by_its_id(
    language: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGW_LANG", language)
    error = Invalid(Sentence("field.missing", "{where} is missing.", where="data").at("events[1]."), "Own.")
    body = response_to(error, "POST", "/").body
    async with open_receiver(default=answer(400, body, headers={"x-hookgw-version": "1.0"})) as receiver:

        def call() -> None:
            with Client(receiver.url, None) as client:
                client.call("GET", "key", "list")

        with pytest.raises(Failed) as failed:
            await trio.to_thread.run_sync(call)
    assert failed.value.messages == (said, "Own.")


async def test_values_of_another_version_leave_a_sentence_english() -> None:
    body = b'{"status":400,"error":"Bad Request","response":{"message":["x is missing."],"errors":[%b]}}'
    for part in (b'{"id":"field.missing","values":{}}', b'{"id":"field.new","values":{}}', b"1"):
        refused = answer(400, body % part, headers={"x-hookgw-version": "1.0"})
        async with open_receiver(default=refused) as receiver:

            def call(url: str = receiver.url) -> None:
                with Client(url, None) as client:
                    client.call("GET", "key", "list")

            with pytest.raises(Failed, match="x is missing"):
                await trio.to_thread.run_sync(call)


_SAYING = {
    "say",
    "show_progress",
    "confirm",
    "prompt",
    "Failed",
    "UsageError",
    "BadParameter",
    "ClickException",
}
_MARKING = {"_", "N_", "ngettext", "pgettext"}


def _bare_words(node: ast.AST) -> Iterator[str]:
    """Yield the English words in what a command says that no mark translates."""
    name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
    if name in _MARKING | {"join", "get"} or isinstance(node, ast.Subscript):
        return
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.search("[A-Za-z]{3}", node.value)
    ):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from _bare_words(child)


def test_commands_say_nothing_that_is_not_translated() -> None:
    found = []
    for file in sorted((ROOT / "hookgw").rglob("*.py")):
        parts = file.relative_to(ROOT / "hookgw").parts
        if parts[0] != "command" and not any(part.startswith("commands") for part in parts):
            continue  # such as app: what serve and init print is English
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            name = (
                getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            )
            if name in _SAYING and isinstance(node, ast.Call):
                found += [f"{file}:{node.lineno}: {text}" for one in node.args for text in _bare_words(one)]
    assert found == [], "mark the text with _, as hookgw/kernel/language.py says"
