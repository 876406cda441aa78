"""The gateway that is killed, and the load on it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE

import httpx
import trio

from tests.support.gateway_process import KEY

ROOT = Path(__file__).parent.parent.parent
_START_PATIENCE = 120.0
_ASK_AGAIN = 0.02


class Target:
    """``hookgw serve``, started and killed again and again on the same data.

    Args:
        nursery: has a task for each process.
        config: the configuration's file.
        launcher: a command that runs the one that follows it.

    Attributes:
        url: where the newest process listens, or the one before listened.
    """

    def __init__(self, nursery: trio.Nursery, config: Path, launcher: Sequence[str] = ()) -> None:
        self.url = ""
        self._launcher = launcher
        self._nursery = nursery
        self._config = config
        self._process: trio.Process | None = None

    async def spawn(self, *, doomed_at: str | None = None) -> None:
        """Start a process without waiting until it is ready. Its log goes to a file beside the data.

        Args:
            doomed_at: the moment at which it kills itself, of :mod:`tests.crash.doomed`.
        """
        program = ["hookgw"] if doomed_at is None else ["tests.crash.doomed", doomed_at]
        command = [*self._launcher, sys.executable, "-m", *program, "serve", "--config", str(self._config)]
        log = await trio.open_file(self._config.with_name("gateway.log"), "ab")
        async with log:
            run = partial(trio.run_process, stdin=DEVNULL, stdout=PIPE, stderr=log.wrapped, check=False)
            self._process = await self._nursery.start(partial(run, cwd=ROOT), command)

    @property
    def pid(self) -> int:
        """Of the newest process."""
        return self._running().pid

    async def ready(self) -> None:
        """Wait until the process says where it listens.

        Raises:
            AssertionError: it ended, or took too long.
        """
        process = self._running()
        assert process.stdout is not None
        output = b""
        with trio.move_on_after(_START_PATIENCE):
            async for piece in process.stdout:
                output += piece
                _, found, rest = output.partition(b" listening on ")
                if found and b"\n" in rest:
                    self.url = rest.split(b"\n")[0].decode()
                    return
        log = self._config.with_name("gateway.log").read_text(encoding="utf-8")
        raise AssertionError(
            f"the gateway did not start; it printed {output!r}; its log ends:\n{log[-3000:]}"
        )

    async def died(self) -> None:
        """Wait until a doomed process has killed itself.

        Raises:
            AssertionError: it ended otherwise.
        """
        assert await self._running().wait() == -signal.SIGKILL

    async def kill(self) -> None:
        """``kill -9``; returns when the process is gone."""
        process = self._running()
        process.kill()
        await process.wait()

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._running().send_signal(number)

    async def terminate(self) -> int:
        """SIGTERM; gives the exit code."""
        process = self._running()
        process.terminate()
        return await process.wait()

    def _running(self) -> trio.Process:
        assert self._process is not None
        return self._process


@dataclass
class Producer:
    """Emits numbered events on one instance, one after the other, at a steady rate.

    What got no 202 is sent again with the same id until it does: so the numbers are the order in which
    events were accepted, and what was accepted is never in doubt.

    Attributes:
        instance: whose events.
        rate: events a second. After an outage it catches up.
        emitted: how many events got their 202.
        refusals: how many requests got something else, or nothing.
    """

    target: Target
    instance: str
    rate: float
    emitted: int = 0
    refusals: int = 0
    enough: trio.Event = field(default_factory=trio.Event)

    async def run(self, at_least: int) -> None:
        """Emit until ``enough`` is set and there were ``at_least`` events."""
        began = trio.current_time()
        async with httpx.AsyncClient(
            headers={"apikey": KEY}, trust_env=False, verify=False, timeout=10
        ) as client:
            while self.emitted < at_least or not self.enough.is_set():
                while not await self._emit(client):
                    self.refusals += 1
                    await trio.sleep(_ASK_AGAIN)
                self.emitted += 1
                await trio.sleep_until(began + self.emitted / self.rate)

    async def _emit(self, client: httpx.AsyncClient) -> bool:
        number = self.emitted
        event = {"event": "CALL", "id": f"{self.instance}-{number}", "data": {"number": number}}
        try:
            answer = await client.post(f"{self.target.url}/event/emit/{self.instance}", json=event)
        except httpx.HTTPError:
            return False
        assert answer.status_code in (202, 503), answer.text
        return answer.status_code == 202
