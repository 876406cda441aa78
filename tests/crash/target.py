"""The gateway that is killed, and the load on it."""

import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE

import trio
import trio.testing

ROOT = Path(__file__).parent.parent.parent
DELIVERY = {
    "allow_networks": ["127.0.0.0/8"],
    "schedule": ["20ms"] * 40,
    "unreachable_first_wait": "50ms",
    "unreachable_max_wait": "500ms",
}
_START_PATIENCE = 120.0


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
        """Wait until a doomed process has killed itself, and receivers have read what it had sent.

        Raises:
            AssertionError: it ended otherwise.
        """
        assert await self._running().wait() == -signal.SIGKILL
        await trio.testing.wait_all_tasks_blocked(0.005)

    async def kill(self) -> None:
        """``kill -9``; returns when the process is gone, and receivers have read what it had sent."""
        process = self._running()
        process.kill()
        await process.wait()
        await trio.testing.wait_all_tasks_blocked(0.005)

    def signal(self, number: int) -> None:
        self._running().send_signal(number)

    async def terminate(self) -> int:
        """SIGTERM; gives the exit code."""
        process = self._running()
        process.terminate()
        return await process.wait()

    def _running(self) -> trio.Process:
        assert self._process is not None
        return self._process
