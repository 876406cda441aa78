"""The examples of the manual: every one that can run does, and the others say what exists."""

import base64
import hmac
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import httpx
import pytest
import yaml

from hookgw import Gateway
from hookgw.manual.curl import Call, calls_of, in_javascript, in_python
from tests.manual.conftest import ROOT
from tests.public.app import open_gateway, request_schemas
from tests.public.command import main
from tests.public.config import Settings, StorageSettings, load_settings
from tests.public.kernel import Size
from tests.public.web import OpenApiRoutes
from tests.support.application import create_app
from tests.support.gateway_process import KEY, ReceiverProcess, Server, receiving, serving
from tests.support.ports import free_port

NODE = shutil.which("node")
IN_FUNCTIONS = ("connectors.md", "testing.md")
"""Pages that show lines from the middle of a function."""


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference"]
    for path in (*sorted(pages), ROOT / "README.md", ROOT / "plugins" / "README.md"):
        page = path.read_text("utf-8")
        for found in re.finditer(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL):
            line = page.count("\n", 0, found.start()) + 1
            name = path.relative_to(ROOT).as_posix()
            yield Block(name, line, found[1], textwrap.dedent(found[2]))


BLOCKS = list(blocks())


def of(*languages: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", [one for one in BLOCKS if one.language in languages], ids=str)


@of("sh", "bash")
def test_a_shell_can_read_every_command(block: Block) -> None:
    shell = "bash" if block.language == "bash" else "sh"
    done = subprocess.run([shell, "-n"], input=block.text, text=True, capture_output=True, check=False)
    assert done.stderr == ""


def as_json(block: Block) -> Any:
    """Return the value of a block, whose ``…`` stand for what it leaves out."""
    text = block.text.replace("{…}", "{}").replace("[…]", "[]").replace(", …}", "}")
    return json.loads(text if text.startswith(("{", "[")) else f"{{{text}}}")


@of("json")
def test_json_is_json(block: Block) -> None:
    as_json(block)


@of("python")
def test_python_is_python(block: Block) -> None:
    text = block.text.replace("…", "...")
    if block.page.endswith(IN_FUNCTIONS):
        text = f"async def example():\n{textwrap.indent(text, '    ')}"
    compile(text, str(block), "exec")


@of("js", "javascript")
@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.process
def test_javascript_is_javascript(block: Block, tmp_path: Path) -> None:
    file = tmp_path / ("example.mjs" if "import " in block.text else "example.cjs")
    # A Code node of n8n is the inside of a function.
    file.write_text(f"(async () => {{\n{block.text}}})" if "$input" in block.text else block.text)
    done = subprocess.run([str(NODE), "--check", str(file)], text=True, capture_output=True, check=False)
    assert done.stderr == ""


@of("yaml")
def test_settings_are_settings(block: Block, tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(block.text))
    sections = set(Settings.__struct_fields__)
    if len(documents) == 1 and isinstance(documents[0], dict) and documents[0].keys() <= sections:
        file = tmp_path / "config.yaml"
        file.write_text(block.text)
        named = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "a-value-of-the-environment-01")
        named |= {"DATABASE_URL": "postgresql://hookgw@db/hookgw", "NODE_URL": "http://10.0.0.1:8080"}
        load_settings(file, named)


def commands_of(text: str) -> Iterator[list[str]]:
    """Yield the arguments of every command of hookgw in a block."""
    text = re.sub(r"(?m)(^|\s)#\s.*$", "", text).replace("\\\n", " ")
    for line in re.split(r"\n|&&|\|\||;|\||\$\(|\)", text):
        try:
            words = shlex.split(line)
        except ValueError:
            continue  # a text over several lines
        while words and (re.match(r"\w+=", words[0]) or words[0] in ("exec", "sudo", "export")):
            words.pop(0)
        if words and words[0].rpartition("/")[2] == "hookgw":
            yield words[1:]


COMMANDS = [
    (str(block), words)
    for block in BLOCKS
    if block.language in ("sh", "bash")
    for words in commands_of(block.text)
]
COMMANDS += [
    (name, words)
    for name in sorted({block.page for block in BLOCKS})
    for text in re.findall(r"`((?:[A-Z_]+=\S+ )?hookgw [a-z][^`]*)`", (ROOT / name).read_text("utf-8"))
    for words in commands_of(text.replace("\n", " "))
]


def test_every_command_and_option_exists() -> None:
    unknown = [(place, words, word) for place, words in COMMANDS for word in unknown_in(words)]
    assert unknown == []


def unknown_in(words: list[str]) -> Iterator[str]:
    """Yield the words of a command that hookgw does not know, up to a command that does not exist."""
    command: click.Command = main
    context = click.Context(main, info_name="hookgw")
    options = {name for parameter in command.params for name in parameter.opts}
    options |= {"--help", "--version"}
    for word in words:
        if word.startswith("--"):
            if word.partition("=")[0] not in options:
                yield word
        elif isinstance(command, click.Group) and not word.startswith("-") and word != "COMMAND":
            if command is main and word == "help":
                continue  # it is the --help of what follows
            found = command.get_command(context, word)
            if found is None:
                yield word
                return
            command, context = found, click.Context(found, context, info_name=word)
            options |= {
                name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)
            }


def test_every_command_is_in_the_tables_of_the_page_of_commands() -> None:
    tables = (ROOT / "docs" / "cli.md").read_text("utf-8").partition("\n## ")[0]
    shown = {
        name: {*re.findall(r"`([\w-]+)`", parts)}
        for names, parts in re.findall(r"^\| \[(.+?)\]\(\S+\)(.*?) \|", tables, re.MULTILINE)
        for name in re.findall(r"`([\w-]+)`", names)
    }
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        if not command.hidden:
            assert {*getattr(command, "commands", ())} <= shown[name], name


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 100


@pytest.fixture
async def gateway(tmp_path: Path) -> Any:
    storage = StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0))
    async with open_gateway(Settings(storage=storage), base=tmp_path) as gateway:
        yield gateway


async def test_every_call_is_of_the_interface(gateway: Gateway) -> None:
    document = OpenApiRoutes(create_app(gateway), gateway, request_schemas).document
    patterns = [
        (re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))), operations)
        for path, operations in document["paths"].items()
    ]
    calls = [(block, call) for block in BLOCKS if block.language == "sh" for call in calls_of(block.text)]
    assert len(calls) > 40
    for block, call in calls:
        path, _, query = call.path.partition("?")
        found = [operations for pattern, operations in patterns if pattern.fullmatch(path)]
        operation = next((one[call.method.lower()] for one in found if call.method.lower() in one), None)
        assert operation is not None, f"{block}: {call.method} {path}"
        known = {one["name"] for one in operation.get("parameters", ())}
        assert {one.partition("=")[0] for one in query.split("&") if one} <= known, str(block)
        if call.headers.get("content-type") == "application/json":
            assert call.as_json is not None, str(block)


async def test_every_example_of_json_has_the_fields_of_a_schema(gateway: Gateway) -> None:
    document = OpenApiRoutes(create_app(gateway), gateway, request_schemas).document
    schemas = [one for one in document["components"]["schemas"].values() if "properties" in one]
    for block in BLOCKS:
        if (block.page, block.language) == ("docs/http.md", "json"):
            fields = as_json(block).keys()
            assert any(
                (fields <= schema["properties"].keys() or schema.get("additionalProperties") is True)
                and fields >= {*schema.get("required", ())}
                for schema in schemas
            ), str(block)


# What runs as it is written: the first delivery, and the guides.
PAGES = ("docs/start.md", *(f"docs/guides/{name}.md" for name in ("verify", "filter", "missing", "outage")))
LANGUAGES: dict[str, Callable[[list[Call]], str]] = {
    "curl": lambda _: "",
    "python": in_python,
    "js": in_javascript,
}
PROGRAMS = {"curl": ("sh", ".sh"), "python": (sys.executable, ".py"), "js": (NODE or "node", ".mjs")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("gateway")) as server:
        yield server


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReceiverProcess]:
    with receiving(tmp_path_factory.mktemp("receiver")) as receiver:
        yield receiver


@pytest.mark.process
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_pages_run(
    server: Server, receiver: ReceiverProcess, language: str, tmp_path: Path
) -> None:
    """All their calls, one after the other, in each language that the manual shows."""
    program, suffix = PROGRAMS[language]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    ran = 0
    for page in PAGES:
        for block in BLOCKS:
            calls = calls_of(block.text) if (block.page, block.language) == (page, "sh") else []
            if not calls:
                continue
            text = LANGUAGES[language](calls) or block.text.replace(
                "curl ", "curl -sS -w ' %{http_code}\\n' "
            )
            text = text.replace("http://127.0.0.1:8080", server.url)
            file = tmp_path / f"example{suffix}"
            file.write_text(text.replace("http://127.0.0.1:9000", receiver.root))
            env = {**os.environ, "KEY": KEY, "NO_PROXY": "*"}
            done = subprocess.run(
                [program, str(file)], env=env, text=True, capture_output=True, check=False, timeout=60
            )
            assert done.returncode == 0, f"{block}: {done.stderr}"
            statuses = re.findall(
                r" (2\d\d)$" if language == "curl" else r"^(2\d\d) ", done.stdout, re.MULTILINE
            )
            assert len(statuses) == len(calls), f"{block}: {done.stdout}"
            ran += len(calls)
    assert ran >= 15
    assert receiver.next("/hook").json["event"] == "MESSAGES_UPSERT"
    server.http.delete("/instance/delete/loja1")


def receivers(language: str) -> str:
    (found,) = [one for one in BLOCKS if one.page == "docs/guides/verify.md" and one.language == language]
    return found.text


@pytest.mark.process
@pytest.mark.parametrize("language", ["python", "js"])
def test_the_receivers_verify_signatures(server: Server, language: str, tmp_path: Path) -> None:
    if language == "js" and NODE is None:
        pytest.skip("node is not installed")
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook"
    name = f"verify-{language}"
    secret = server.set(name, url)
    file = tmp_path / {"python": "receiver.py", "js": "receiver.cjs"}[language]
    file.write_text(receivers(language))
    env = {"SECRET": secret, "PORT": str(port)}
    program = [sys.executable, str(file)] if language == "python" else [str(NODE), str(file)]
    with subprocess.Popen(program, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True) as process:
        try:
            event_id = server.emit(name, "CALL", {"text": "é"})
            assert process.stdout is not None
            word, seen, body = process.stdout.readline().split(" ", 2)
            assert (word, seen, json.loads(body)["data"]) == ("genuine", event_id, {"text": "é"})
            for sent in (b"1", b"\xb2"):  # a digit for Python's isdigit(), and none for its int()
                forged = {b"webhook-id": b"a", b"webhook-timestamp": sent, b"webhook-signature": b"v1,AAAA"}
                assert (
                    httpx.post(url, content=b"{}", headers=forged, trust_env=False, timeout=30).status_code
                    == 401
                )
            assert httpx.post(url, content=b"{}", trust_env=False, timeout=30).status_code == 401
        finally:
            process.kill()


@pytest.mark.process
@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("is_genuine", [True, False])
def test_the_code_node_of_n8n_verifies_signatures(is_genuine: bool, tmp_path: Path) -> None:
    secret, body = (
        "whsec_" + base64.b64encode(bytes(24)).decode(),
        b'{"event": "CALL", "data": {"text": "\xc3\xa9"}}',
    )
    now = str(int(time.time()))
    signed = b"msg_1." + now.encode() + b"." + (body if is_genuine else b"{}")
    signature = base64.b64encode(hmac.digest(bytes(24), signed, "sha256")).decode()
    headers = {"webhook-id": "msg_1", "webhook-timestamp": now, "webhook-signature": f"v1,b v1,{signature}"}
    helpers = f"{{getBinaryDataBuffer: async () => Buffer.from('{body.hex()}', 'hex')}}"
    file = tmp_path / "code.cjs"
    file.write_text(
        f"const $input = {{first: () => ({{json: {{headers: {json.dumps(headers)}}}}})}};\n"
        f"(async function () {{\n{receivers('javascript').replace('whsec_…', secret)}\n}})"
        f".call({{helpers: {helpers}}}).then((items) => console.log(JSON.stringify(items)));\n"
    )
    done = subprocess.run([str(NODE), str(file)], capture_output=True, text=True, check=False, timeout=60)
    if is_genuine:
        assert json.loads(done.stdout) == [{"json": json.loads(body)}]
    else:
        assert "Error: The signature is wrong." in done.stderr


def test_an_event_that_comes_again_is_worked_on_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = [one for one in BLOCKS if one.page == "docs/guides/once.md"]
    names: dict[str, Any] = {}
    exec(block.text, names)
    event = {"data": {"key": {"remoteJid": "551@s.whatsapp.net"}, "message": {"conversation": "Hello"}}}
    body = json.dumps(event).encode()
    assert [names["receive"](one, body) for one in ("msg_1", "msg_1", "msg_2")] == [True, False, True]
    with pytest.raises(KeyError):
        names["receive"]("msg_3", b"{}")
    assert (
        names["database"].execute("SELECT * FROM messages").fetchall()
        == [("551@s.whatsapp.net", "Hello")] * 2
    )
    # What failed is not remembered.
    assert names["database"].execute("SELECT id FROM seen").fetchall() == [("msg_1",), ("msg_2",)]
    names["database"].close()
