"""Processes under test: started, read line by line with a deadline, and always ended."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PATIENCE = 60.0
"""Seconds that a process under test may take for anything that a test waits for."""


class Process:
    """A running process whose output is read by threads. Made by :func:`started`.

    Attributes:
        errors: the lines of its standard error so far.
    """

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen
        self.errors: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        assert popen.stdout is not None
        assert popen.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_output, args=(popen.stdout,)),
            threading.Thread(target=self._read_errors, args=(popen.stderr,)),
        ]
        for reader in self._readers:
            reader.start()

    def line(self, patience: float = PATIENCE) -> str:
        """The next line of its output.

        Raises:
            AssertionError: it ended instead, or said nothing for too long.
        """
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            raise AssertionError(f"no output for {patience:g} s; {self._story()}") from None
        assert line is not None, f"it ended; {self._story()}"
        return line

    def line_with(self, text: str, patience: float = PATIENCE) -> str:
        """The next line that contains the text; lines before it are dropped."""
        while text not in (line := self.line(patience)):
            pass
        return line

    def rest(self) -> list[str]:
        """All lines of its output that are left; it must have ended, or be about to."""
        lines = []
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            lines.append(line)
        return lines

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and wait for the end.

        Returns:
            the exit code; negative for the number of a signal.
        """
        self.popen.send_signal(number)
        return self.exit_code()

    def exit_code(self) -> int:
        """Wait for the end.

        Raises:
            AssertionError: it took too long.
        """
        try:
            return self.popen.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {PATIENCE:g} s; {self._story()}") from None

    def close(self) -> None:
        """Kill it where it still runs, with the processes that it has started, and wait for its end and that
        of the readers.

        The single binary is two processes. The second has the pipes, too: the readers would wait for its end.
        """
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):  # macOS: of one that has ended
                os.killpg(self.popen.pid, signal.SIGKILL)
        elif self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(timeout=PATIENCE)
        for reader in self._readers:
            reader.join(timeout=PATIENCE)
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                stream.close()

    def _read_output(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _read_errors(self, stream: IO[str]) -> None:
        self.errors.extend(stream)

    def _story(self) -> str:
        return f"exit code {self.popen.poll()}, standard error:\n{''.join(self.errors[-40:])}"


@contextmanager
def started(
    arguments: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    program: str = sys.executable,
) -> Iterator[Process]:
    """Run a program for the length of the block; at its end the process is killed if need be.

    Args:
        arguments: after the name of the program.
        cwd: where it runs.
        env: added to the environment; no ``HOOKGW_`` variable of the outside gets in.
        program: this very Python, unless another one is named.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOOKGW_")}
    popen = subprocess.Popen(
        [program, *map(str, arguments)],
        cwd=cwd,
        env={**inherited, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        process_group=0,  # its own, so that its end is that of all its processes
    )
    process = Process(popen)
    try:
        yield process
    finally:
        process.close()


def run(
    arguments: Sequence[str | Path],
    *,
    cwd: Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
) -> subprocess.CompletedProcess[str]:
    """Run ``python …`` to its end and give what it said."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOOKGW_")}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**inherited, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=patience,
        check=False,
    )
