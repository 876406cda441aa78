"""Whatever the gateway, or a proxy before it, answers: no text from outside can steer the terminal."""

import ast
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import trio

import hookgw
from hookgw.testing import Answer, Received, Receiver
from tests.cli.conftest import Invoke, says
from tests.public.app import open_gateway, request_schemas
from tests.public.command import COMMANDS, complete_kinds, main
from tests.public.config import Settings, StorageSettings
from tests.public.web import OpenApiRoutes
from tests.support.application import create_app

CLI = Path(hookgw.__file__).parent / "cli"
HOSTILE = "[bold]\x1b[31mred\x9b2J\u202eleft\u2066\r\x07\x7f\u2028\u0085\x00\ud83d\nFORGED: line"
AT = "2026-11-25T12:00:00.000Z"

ARGUMENTS = {
    "emit": ["loja1", "CALL", "--data", "{}"],
    "message send": ["loja1", "5511", "Hello"],
    "webhook set": ["loja1", "https://example.com/hook"],
    "webhook update": ["loja1", "--url", "https://example.com/hook"],
    "instance create": ["loja1"],
    "instance list": [],
    "connectors": ["simulator"],
    "key create": ["crm"],
    "key list": [],
    "portal link": ["--tag", "tenant=acme"],
    "export": [],
    "apply": ["-f", "-", "--yes"],
    "key revoke": ["crm"],
    "delivery replay": ["loja1", "--since", "1h"],
    "delivery show": ["loja1", "dlv_1"],
    "delivery resend": ["loja1", "dlv_1"],
    "event find": ["loja1", "evt_1"],
    "webhook backfill": ["loja1", "--since", "1h"],
    "delivery cancel": ["loja1", "--yes"],
    "event erase": ["loja1", "5511", "--yes"],
    "job find": ["job_1"],
    "job list": [],
    "tail": ["loja1", "--interval", "100ms"],
    "lane list": [],
    "node list": [],
    "problem list": [],
    "problem mute": ["0f3c5a7e9b1d", "--reason", "Known."],
    "problem unmute": ["0f3c5a7e9b1d"],
    "health": [],
}
"""Of the commands that need other arguments than an instance."""
ACCOUNTS = "name: ours\ninstances:\n  loja1:\n    webhooks:\n      crm: {url: https://example.com/hook}\n"
"""What `apply` reads from its standard input."""
ELSEWHERE = {"import evolution", "mcp", "connect"}
"""One reads another server, or a file; one speaks a protocol with a program, in JSON; one works for ever."""
PRINTS = {"click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write"}
ENOUGH = 10
DEEP = 20
_documents: list[dict[str, Any]] = []


def has_option(command: click.Command, name: str) -> bool:
    return any(option.name == name for option in command.params)


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command below a command, by the words that call it."""
    if isinstance(command, click.Group):
        names = COMMANDS if command is main else command.commands
        for name in names:
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from leaves(found, (*path, name))
    else:
        yield " ".join(path), command


REMOTE = {
    name: command for name, command in leaves(main) if has_option(command, "server") and name not in ELSEWHERE
}


class HostileGateway:
    """Answers each request with every field that the OpenAPI document has for it, and hostile texts in all.

    Attributes:
        answers: what it has answered.
        error: the status of every further answer, which is an error with hostile messages; 0 for none.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.answers: list[Any] = []
        self.error = 0
        self._schemas = document["components"]["schemas"]
        self._paths = document["paths"]

    def respond(self, request: Received) -> Answer:
        # `tail` asks for ever.
        if self.error or len(self.answers) > ENOUGH:
            refusal = {"message": [HOSTILE, HOSTILE], "code": HOSTILE}
            return says({"status": 400, "error": HOSTILE, "response": refusal}, self.error or 400)
        status, schema = self._success(request)
        self.answers.append(self._value(schema))
        return says(self.answers[-1], status)

    def _success(self, request: Received) -> tuple[int, Any]:
        for path, methods in self._paths.items():
            operation = methods.get(request.method.lower(), {"responses": {}})
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.path):
                for status, response in operation["responses"].items():
                    content = response.get("content", {}).get("application/json")
                    if status.startswith("2") and content is not None:
                        return int(status), content["schema"]
        raise AssertionError(f"not in the document: {request.method} {request.path}")

    def _value(self, schema: Any, name: str = "", depth: int = 0) -> Any:
        """Return a value with every field of a schema."""
        if "$ref" in schema:
            return self._value(self._schemas[schema["$ref"].rpartition("/")[2]], name, depth + 1)
        if choices := schema.get("anyOf"):
            return self._value(next(one for one in choices if one.get("type") != "null"), name, depth + 1)
        if depth > DEEP or (name == "cursor" and self.answers):
            return None
        kinds = schema.get("type", "string")
        kind = kinds if isinstance(kinds, str) else next(one for one in kinds if one != "null")
        if kind == "object":
            fields = schema.get("properties", {}).items()
            value = {field: self._value(inner, field, depth + 1) for field, inner in fields}
            others = schema.get("additionalProperties")
            if isinstance(others, dict) and others:
                return {**value, HOSTILE: self._value(others, name, depth + 1)}
            return value if value and not others else {**value, HOSTILE: HOSTILE}
        if kind == "array":
            return [self._value(schema.get("items", {}), name, depth + 1)] * 2
        if kind in ("integer", "number", "boolean"):
            return kind == "boolean" or 1
        if schema.get("format") == "date-time":
            return AT
        # By these, commands decide what to do.
        return next((one for one in ("done", "equals") if one in schema.get("enum", ())), HOSTILE)


@pytest.fixture
async def hostile(tmp_path: Path, server: Receiver) -> HostileGateway:
    """A gateway whose every answer is hostile."""
    if not _documents:  # it takes a second
        settings = Settings(storage=StorageSettings(path=str(tmp_path / "data" / "hookgw.db")))
        async with open_gateway(settings, base=tmp_path) as gateway:
            _documents.append(OpenApiRoutes(create_app(gateway), gateway, request_schemas).document)
    found = HostileGateway(_documents[0])
    server.default = found.respond
    return found


def is_harmless(text: str) -> bool:
    """Whether a text has no character that steers a terminal, and no line that a text from outside began."""
    kinds = {unicodedata.category(char) for char in text if char != "\n"}
    return not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"} and not re.search("^FORGED", text, re.MULTILINE)


def command_line(name: str) -> list[str]:
    return [*name.split(), *ARGUMENTS.get(name, ["loja1"])]


@pytest.mark.parametrize("name", sorted(REMOTE))
async def test_no_answer_steers_the_terminal(name: str, invoke: Invoke, hostile: HostileGateway) -> None:
    result = await invoke(*command_line(name), env={"COLUMNS": "200"}, input=ACCOUNTS)
    assert isinstance(result.exception, SystemExit | None), result.exc_info
    assert hostile.answers
    assert is_harmless(result.output), ascii(result.output)


@pytest.mark.parametrize("name", sorted(REMOTE))
async def test_no_refusal_steers_the_terminal(name: str, invoke: Invoke, hostile: HostileGateway) -> None:
    for hostile.error in (400, 401, 503):
        result = await invoke(*command_line(name), input=ACCOUNTS)
        # To apply, 400 says that the file is wrong.
        assert result.exit_code == (2 if name == "apply" and hostile.error == 400 else 1)
        assert "red" in result.stderr
        assert is_harmless(result.output), ascii(result.output)


@pytest.mark.parametrize(
    "name", sorted(name for name, command in REMOTE.items() if has_option(command, "as_json"))
)
async def test_programs_read_the_same_text(name: str, invoke: Invoke, hostile: HostileGateway) -> None:
    result = await invoke(*command_line(name), "--json", input=ACCOUNTS)
    assert isinstance(result.exception, SystemExit | None), result.exc_info
    assert is_harmless(result.output), ascii(result.output)
    if HOSTILE in json.dumps(hostile.answers, ensure_ascii=False):
        texts = map(json.loads, [result.stdout] if name != "tail" else result.stdout.splitlines())
        found = [text for value in texts for text in texts_in(value)]
        assert HOSTILE in found or name in {"delivery cancel", "delivery replay"}


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for one in value:
            yield from texts_in(one)
    if isinstance(value, str):
        yield value


@pytest.mark.parametrize("more", [(), ("--apply",), ("--json",)])
async def test_an_import_does_not_steer_the_terminal(
    more: tuple[str, ...], invoke: Invoke, hostile: HostileGateway, tmp_path: Path
) -> None:
    text = HOSTILE.replace("\ud83d", "")  # no JSON of a file has it
    webhook = {"url": text, "events": [text], "enabled": True, "headers": {text: text}}
    named = {"name": text, "integration": text, "token": text}
    found = [{"instance": named, "webhook": webhook, "settings": {text: text}}]
    await trio.Path(tmp_path / "export.json").write_text(json.dumps({"evolution": found}))
    hostile.error = 400 if more == ("--apply",) else 0
    result = await invoke("import", "evolution", "--from", str(tmp_path / "export.json"), *more)
    assert isinstance(result.exception, SystemExit | None), result.exc_info
    assert "red" in result.output
    assert is_harmless(result.output), ascii(result.output)


async def test_the_shell_gets_no_name_that_steers_the_terminal(server: Receiver) -> None:
    server.default = says([{"name": HOSTILE}, {"name": "CALL"}])
    context = click.Context(main)
    found = await trio.to_thread.run_sync(complete_kinds, context, click.Argument(["kind"]), "")
    assert found == ["CALL"]


async def test_an_argument_of_a_script_does_not_steer_the_terminal(invoke: Invoke) -> None:
    for arguments in (
        ["nothing", HOSTILE[:-8]],
        ["health", "a\x1b[2J\u202e"],
        ["serve", "--port", "\x1b[2J"],
    ):
        result = await invoke(*arguments)
        assert result.exit_code == 2
        assert is_harmless(result.output), ascii(result.output)


def test_one_function_prints() -> None:
    found = [
        f"{file.name}:{node.lineno}"
        for file in CLI.rglob("*.py")
        if file.name != "output.py"
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTS
    ]
    assert found == []
