"""Fixtures for the tests of commands: a fake gateway, and a way to run a command."""

import json
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest
import structlog
import trio

from hookgw.testing import Answer, Receiver, answer, open_receiver
from tests.public.command import STOP_SIGNALS, main
from tests.support.logs import log_kept

Invoke = Callable[..., Awaitable[click.testing.Result]]


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Hide the configuration of this machine from commands, and restore the log afterwards.

    Nobody has configured the log yet, as in a process of their own: a gateway of an earlier test has, here.
    """
    for name in os.environ:
        if name.startswith("HOOKGW_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("COLUMNS", raising=False)
    structlog.reset_defaults()
    with log_kept():
        yield


@pytest.fixture
def invoke() -> Invoke:
    """Run ``hookgw`` with arguments in a thread, because commands block; ``charset`` is its terminal's."""

    async def run(*args: str, charset: str = "utf-8", **options: Any) -> click.testing.Result:
        runner = click.testing.CliRunner(charset=charset)
        return await trio.to_thread.run_sync(lambda: runner.invoke(main, args, prog_name="hookgw", **options))

    return run


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    """A fake gateway: it records the requests of commands and responds as the test says."""
    async with open_receiver() as receiver:
        monkeypatch.setenv("HOOKGW_URL", receiver.url)
        monkeypatch.setenv("HOOKGW_KEY", "k-1")
        yield receiver


class Echoes:
    """Collects what a command prints in this process."""

    def __init__(self) -> None:
        self.text = ""
        self._more = trio.Event()

    def echo(self, message: object = "", **_: object) -> None:
        """Replace :func:`click.echo`."""
        self.text += f"{message}\n"
        self._more.set()
        self._more = trio.Event()

    async def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the printed text matches the pattern."""
        while (found := re.search(pattern, self.text)) is None:
            await self._more.wait()
        return found


@pytest.fixture
def echoes(monkeypatch: pytest.MonkeyPatch) -> Echoes:
    """Collect what commands print."""
    found = Echoes()
    monkeypatch.setattr("click.echo", found.echo)
    return found


@pytest.fixture
def _signals_kept() -> Iterator[None]:
    """Restore signal handlers: a stopped command leaves the default actions."""
    kept = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def says(value: Any, status: int = 200) -> Answer:
    """Return a JSON response."""
    headers = {"content-type": "application/json", "x-hookgw-version": "1.0"}
    return answer(status, json.dumps(value), headers=headers)
