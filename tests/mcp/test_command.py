"""``hookgw mcp`` as a process: how it ends."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.processes import PATIENCE

pytestmark = pytest.mark.process

CLIENT = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}).encode() + b"\n"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """The command, which has answered once."""
    pytest.importorskip("mcp")
    # Garbage is collected at every moment at which it may be.
    start = "import gc; from hookgw.__main__ import main; gc.set_threshold(1, 1, 1); main()"
    command = [sys.executable, "-c", start, "mcp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HELLO)
        assert b'"serverInfo"' in process.stdout.readline()
        yield process
        process.kill()


def test_an_interrupt_ends_it_although_standard_input_is_open(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == -signal.SIGINT
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_a_closed_standard_output_is_said() -> None:
    pytest.importorskip("mcp")
    code = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'hookgw', 'mcp'])"
    ended = subprocess.run(
        [sys.executable, "-c", code], input=HELLO, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == b"Error: Standard output cannot be written: Bad file descriptor.\n"


def test_it_ends_without_a_word_if_nobody_reads_any_more(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.close()
    assert process.communicate(HELLO, PATIENCE)[1] == b""
    assert process.returncode == 1
