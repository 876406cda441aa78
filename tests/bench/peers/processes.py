"""Processes that the comparison starts, with what they and their descendants use."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

STOP_PATIENCE = 20.0
"""How long a process may take to end after SIGTERM, in seconds."""
_TICK = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """What some processes have used.

    Attributes:
        cpu: seconds since they started, in user and kernel mode.
        memory: resident MiB. A page that several processes share counts once, by its parts.
    """

    cpu: float
    memory: float


class Child:
    """A process of our own, with its log in a file beside its data."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self.name, self._log = name, folder / f"{name}.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=user,
            )

    def check(self) -> None:
        """Raise RuntimeError, with the end of the log, if the process has ended."""
        if self._process.poll() is not None:
            log = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}:\n{log}")

    def tree(self) -> list[int]:
        """The ids of the process and its descendants."""
        return tree_of(self._process.pid)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process, and kill what is left of its descendants."""
        tree = self.tree()
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        parents = dict(_parents())
        for pid in tree[1:]:
            if pid in parents:
                _kill(pid)

    def kill(self) -> None:
        """Send SIGKILL to the process and its descendants at once."""
        for pid in self.tree():
            _kill(pid)
        self._process.wait()


def usage(children: Sequence[Child]) -> Usage:
    """Return what the processes and their descendants have used."""
    return usage_of([pid for child in children for pid in child.tree()])


def tree_of(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    parents = dict(_parents())
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def usage_of(pids: Sequence[int]) -> Usage:
    """Return what processes have used, with their descendants that have ended."""
    cpu = memory = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has just ended; its parent has its processor time
            continue
        # utime, stime, and those of descendants that have ended.
        cpu += sum(int(field) for field in fields[11:15]) / _TICK
        memory += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return Usage(cpu, memory)


def run(
    command: Sequence[str | Path], *, user: str | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a command to its end and return its output.

    Raises:
        RuntimeError: it failed; the message has its output.
    """
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        user=user,
        timeout=120,
        check=False,
        cwd="/",
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def wait_until(ready: Callable[[], bool], child: Child, seconds: float = 60.0) -> None:
    """Wait until a process is ready.

    Raises:
        RuntimeError: the process has ended.
        TimeoutError: it is not ready in time.
    """
    end = time.monotonic() + seconds
    while not ready():
        child.check()
        if time.monotonic() > end:
            raise TimeoutError(f"{child.name} is not ready after {seconds:.0f} s.")
        time.sleep(0.02)


def exchange(port: int, request: bytes = b"") -> bytes | None:
    """Connect to a port of 127.0.0.1, send a request, and return the start of its answer.

    Returns:
        None if nothing listens. Nothing is awaited if nothing is sent.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(request)
            return client.recv(100) if request else b""
    except OSError:
        return None


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            yield int(folder.name), int(stat.rpartition(") ")[2].split()[1])


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
