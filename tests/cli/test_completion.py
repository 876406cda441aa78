"""Completion in shells."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from click.shell_completion import ShellComplete

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says
from tests.public.command import COMPLETE, main

KINDS = [{"name": "CALL"}, {"name": "CONNECTION_UPDATE"}, {"name": "MESSAGES_UPSERT"}]


def completions(*args: str, incomplete: str = "") -> list[str]:
    found = ShellComplete(main, {}, "hookgw", COMPLETE).get_completions(list(args), incomplete)
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("args", "incomplete", "found"),
    [
        ([], "we", ["webhook"]),
        (["delivery"], "re", ["replay", "resend"]),
        (["delivery", "list", "loja1"], "--wi", ["--wide"]),
        (["delivery", "list", "loja1", "--state"], "d", ["delivered", "dead", "dropped"]),
        (["completion"], "", ["bash", "zsh", "fish"]),
    ],
)
def test_commands_options_and_choices(args: list[str], incomplete: str, found: list[str]) -> None:
    assert completions(*args, incomplete=incomplete) == found


@pytest.mark.parametrize(
    "args",
    [
        ["backup"],
        ["apply", "-f"],
        ["storage", "copy"],
        ["storage", "copy", "hookgw.db"],
        ["import", "evolution", "--from"],
        ["webhook", "set", "loja1", "--tls-ca"],
        ["webhook", "update", "loja1", "--tls-key"],
    ],
    ids=" ".join,
)
def test_the_shell_completes_names_of_files(args: list[str]) -> None:
    [found] = ShellComplete(main, {}, "hookgw", COMPLETE).get_completions(args, "")
    assert found.type == "file"


def test_pressing_tab_runs_no_plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "loud.py").write_text("raise SystemExit('loaded')\n")
    monkeypatch.setenv(COMPLETE, "bash_complete")
    assert "webhook" in completions()


async def test_names_are_those_of_the_gateway(server: Receiver) -> None:
    answers = {
        "/instance/fetchInstances": [
            {"name": "loja2", "tags": {"tenant": "acme"}},
            {"name": "loja1", "tags": {"plan": "x"}},
            {"name": "bot"},
            {"id": 1},
            "x",
        ],
        "/webhook/list/loja1": {"registrations": [{"label": "default"}, {"label": "n8n"}]},
        "/event/kinds": KINDS,
    }
    server.default = lambda request: says(answers[request.target])

    async def ask(*args: str, incomplete: str = "") -> list[str]:
        return await trio.to_thread.run_sync(lambda: completions(*args, incomplete=incomplete))

    assert await ask("webhook", "find", incomplete="lo") == ["loja1", "loja2"]
    assert await ask("instance", "delete", incomplete="b") == ["bot"]
    assert await ask("webhook", "find", "loja1", "--label", incomplete="n") == ["n8n"]
    assert await ask("delivery", "list", "loja1", "--kind", incomplete="c") == ["CALL", "CONNECTION_UPDATE"]
    assert await ask("instance", "list", "--tag", incomplete="ten") == ["tenant=acme"]
    assert await ask("emit", "loja1", incomplete="MES") == ["MESSAGES_UPSERT"]
    assert {request.header("apikey") for request in server.requests} == {"k-1"}


async def test_without_a_gateway_nothing_is_completed_and_nothing_printed(
    server: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    server.default = says({"detail": "a proxy"}, 502)
    assert await trio.to_thread.run_sync(lambda: completions("webhook", "find")) == []
    server.default = says({"not": "a list"})
    assert await trio.to_thread.run_sync(lambda: completions("webhook", "find")) == []
    assert await trio.to_thread.run_sync(lambda: completions("webhook", "find", "--label")) == []
    await server.stop_listening()
    assert await trio.to_thread.run_sync(lambda: completions("webhook", "find")) == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_the_script_of_each_shell(invoke: Invoke, shell: str) -> None:
    script = (await invoke("completion", shell)).stdout
    assert f"{COMPLETE}={shell}_complete" in script
    assert "hookgw" in script


BASH = """
eval "$(hookgw completion bash)"
COMP_WORDS=(hookgw delivery li) COMP_CWORD=2
_hookgw_completion hookgw
echo "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_a_command(tmp_path: Path) -> None:
    program = tmp_path / "hookgw"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hookgw "$@"\n')
    program.chmod(0o755)
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", BASH], env=environ, capture_output=True, text=True, timeout=60)
    assert done.stdout == "list\n", done.stderr


INTERRUPTED = "import hookgw.__main__, signal; signal.raise_signal(signal.SIGINT)"


def test_ctrl_c_ends_a_completion_without_a_word() -> None:
    environ = os.environ | {COMPLETE: "bash_complete"}
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], env=environ, capture_output=True)
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", -signal.SIGINT)
