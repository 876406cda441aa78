"""The snippets of README.md do what it says they do."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.public.delivery import sign
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SECRET = "whsec_" + "A" * 32
KEY = b"\0" * 24
BODY = b'{"event": "CALL", "data": {"text": "\xc3\xa9"}}'


def snippet(language: str) -> str:
    """The one block of that language, or with that word behind it."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return str(found)


def signed(**changed: str) -> dict[str, str]:
    """The headers of a delivery."""
    now = int(time.time())
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(now),
        "webhook-signature": sign([b"old" * 8, KEY], "msg_1", now, BODY),
    }
    return headers | {name.replace("_", "-"): value for name, value in changed.items()}


def cases() -> dict[str, tuple[dict[str, str], bytes, bool]]:
    """Headers, a body, and whether they are genuine, by what is special about them.

    Made inside each test: the README's code rejects what was signed five minutes ago, and a test may run
    longer than that after this module is imported.
    """
    stale = int(time.time()) - 301
    too_old = signed(webhook_timestamp=str(stale), webhook_signature=sign([KEY], "msg_1", stale, BODY))
    return {
        "genuine": (signed(), BODY, True),
        "another body": (signed(), BODY + b" ", False),
        "another id": (signed(webhook_id="msg_2"), BODY, False),
        "no signature of ours": (signed(webhook_signature="v1,AAAA v2,x"), BODY, False),
        "too old": (too_old, BODY, False),
        "no headers": ({}, BODY, False),
        "a timestamp that is no number": (signed(webhook_timestamp="\xb2"), BODY, False),
        "a signature beyond ASCII": (signed(webhook_signature="v1,\xe9"), BODY, False),
    }


@pytest.mark.parametrize("case", cases())
def test_verifying_in_python(case: str) -> None:
    headers, body, genuine = cases()[case]
    names: dict[str, object] = {}
    exec(snippet("python"), names)  # the README's own text
    verify = names["verify"]
    assert callable(verify)
    assert verify(SECRET, headers, body) is genuine


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_verifying_in_javascript() -> None:
    made = cases().values()
    given = json.dumps([[headers, body.decode()] for headers, body, _ in made])
    call = f"{given}.map(([headers, body]) => verify('{SECRET}', headers, Buffer.from(body)))"
    script = f"{snippet('js')}\nconsole.log(JSON.stringify({call}));"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [genuine for *_, genuine in made]


class Shell:
    """Runs the README's commands, with the ports and the environment of this test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {"8080": str(free_port()), "9000": str(free_port())}
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOOKGW_SERVER__BIND": f"127.0.0.1:{self._ports['8080']}",
            "HOOKGW_URL": f"http://127.0.0.1:{self._ports['8080']}",
        }
        (folder / ".venv" / "bin").mkdir(parents=True)
        program = folder / ".venv" / "bin" / "hookgw"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hookgw "$@"\n')
        program.chmod(0o755)

    def run(self, name: str) -> str:
        """Run a block to its end; what it prints."""
        done = subprocess.run(
            ["bash", "-euc", self._text(name)],
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def start(self, name: str) -> Iterator[subprocess.Popen[str]]:
        """Run a block that goes on, for the length of the with block."""
        process = subprocess.Popen(
            ["bash", "-euc", f"exec env {self._text(name)}"],
            cwd=self._folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with process:
            try:
                yield process
                process.terminate()
                assert process.wait(30) == 0
            finally:
                process.kill()

    def _text(self, name: str) -> str:
        text = snippet(f"sh {name}")
        for usual, free in self._ports.items():
            text = text.replace(usual, free)
        return text


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_job_by_hand(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with shell.start("start") as server:
        assert server.stdout is not None
        assert "listening on http://127.0.0.1:" in server.stdout.readline()
        answers = shell.run("set")
        assert '"whsec_' in answers
        with shell.start("receive") as receiver:
            assert receiver.stdout is not None
            assert "Listening on" in receiver.stdout.readline()
            assert '"accepted":1' in shell.run("emit").replace(" ", "")
            line = receiver.stdout.readline()
    assert "200  MESSAGES_UPSERT  loja1  attempt 1  verified" in line
    assert '"Hello"' in line


def test_the_command_of_the_tests_is_the_one_that_ci_runs() -> None:
    (command,) = re.findall(r"^python3 -m venv .*nox -t ci$", README, re.MULTILINE)
    assert command in (ROOT / ".ci" / "run").read_text()


def test_the_first_screen_leads_from_what_people_have_to_every_network() -> None:
    screen = README.split("## Two commands")[0].splitlines()[:30]
    table = "\n".join(line for line in screen if line.startswith("|"))
    assert table.startswith("| I have … | do this |")
    networks = {page.stem for page in (ROOT / "docs" / "networks").glob("*.md")} - {"README"}
    assert {name for name in networks if f"docs/networks/{name}.md" in table} == networks
