"""``hookgw serve`` in surroundings that a test makes: its streams, its limits, its user, its environment."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx

from tests.support.gateway_process import KEY, write_config
from tests.support.ports import free_port
from tests.support.processes import PATIENCE

Stream = int | IO[Any] | None


class Surrounded:
    """A running gateway, of which nothing is known but its port.

    Attributes:
        http: a client with the global key, that waits for 5 s at most.
        popen: the process.
    """

    def __init__(self, popen: subprocess.Popen[bytes], http: httpx.Client) -> None:
        self.popen = popen
        self.http = http

    def wait_ready(self) -> None:
        """Wait until it answers; raise ``AssertionError`` if it ends instead."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            assert self.popen.poll() is None, f"it ended with {self.popen.returncode}"
            try:
                if self.http.get("/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError("it is not ready")

    def metric(self, name: str) -> float:
        """Return the value of a metric without labels."""
        lines = self.http.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def register(self, instance: str, url: str, **more: Any) -> None:
        answer = self.http.post(f"/webhook/set/{instance}", json={"url": url, **more})
        assert answer.status_code == 201, answer.text

    def emit(self, instance: str, **more: Any) -> None:
        body = {"event": "CALL", "data": {}, **more}
        answer = self.http.post(f"/event/emit/{instance}", json=body)
        assert answer.status_code == 202, answer.text

    def stop(self, number: signal.Signals = signal.SIGTERM, within: float = 15.0) -> int:
        """Send a signal, and return the exit code."""
        self.popen.send_signal(number)
        return self.popen.wait(timeout=within)


@contextmanager
def surrounded(
    folder: Path,
    *,
    stdout: Stream = subprocess.DEVNULL,
    stderr: Stream = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    before: Callable[[], None] | None = None,
    auth: Mapping[str, Any] | None = None,
    **blocks: Mapping[str, Any],
) -> Iterator[Surrounded]:
    """Start ``hookgw serve`` in a folder; it is killed at the end of the block, if it runs still.

    Args:
        folder: for the configuration and the data.
        stdout, stderr: as for ``subprocess.Popen``; nobody reads them but the test.
        env: added to the environment.
        prefix: a command that runs it.
        before: called in the new process, before the program begins.
        auth: replaces the configured key.
        blocks: of the configuration.
    """
    port = free_port()
    config = write_config(
        folder, **{**blocks, "server": {"bind": [f"127.0.0.1:{port}"], **blocks.get("server", {})}}
    )
    if auth is not None:
        without_key = config.read_text(encoding="utf-8").replace(f"  global_key: {KEY}\n", "")
        config.write_text(without_key.replace("auth:\n", ""), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOOKGW_")}
    popen = subprocess.Popen(
        [*prefix, sys.executable, "-m", "hookgw", "serve", "--config", str(config)],
        cwd=folder,
        env={**inherited, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        preexec_fn=before,
    )
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"apikey": KEY},
            trust_env=False,
            verify=False,
            timeout=5,
        ) as http:
            yield Surrounded(popen, http)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait(timeout=PATIENCE)
        for stream in (popen.stdout, popen.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def pipe_that_nobody_reads(*, full: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the ends of a pipe: to read from, and to write to.

    Args:
        full: whether nothing more fits into it.
    """
    reader, writer = os.pipe()
    try:
        if full:
            os.set_blocking(writer, False)
            try:
                while True:
                    os.write(writer, b"x" * 4096)
            except BlockingIOError:
                os.set_blocking(writer, True)
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)
