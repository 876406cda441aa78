"""Writes standard output and standard error in threads, so that nothing waits for a reader.

A pipe without a reader, a terminal after Ctrl-S, or a log collector that hangs blocks the ``write`` of a
program for as long as it lasts. In the event loop's thread, this would stop all requests. So a line goes to a
buffer of bounded size, and a thread writes it. A line for which there is no room, or which the system refuses
(a full disk, a reader that has gone), is dropped and counted.

The descriptor keeps its flags: other programs share it, and ``O_NONBLOCK`` would affect them.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

CAPACITY = 2**20
"""Bytes that wait for a reader at most; about 5,000 lines."""

AT_ONCE = 2**16
"""Bytes of a call of ``write``, unless a single line has more."""

FLUSH_WITHIN = 2.0
"""Seconds in which the lines of the end may be written."""

START_AGAIN = 1.0
"""Seconds after which a thread that could not be started is tried again."""

logger = logging.getLogger("hookgw.log")


class LineCount:
    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self.value += count


dropped_lines = LineCount()
"""The lines of this process that could not be written: like its standard output, there is one count."""


class BackgroundOutput(io.TextIOBase):
    """A text stream over a descriptor. Only :meth:`show` and :meth:`drain` wait.

    Args:
        descriptor: open for as long as the process runs.
        dropped: counts dropped lines.
        capacity: the most bytes that wait.
        is_lost: drop everything: the descriptor leads nowhere.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(
        self,
        descriptor: int,
        dropped: LineCount = dropped_lines,
        *,
        capacity: int = CAPACITY,
        is_lost: bool = False,
    ) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._dropped = dropped
        self._capacity = capacity
        self._is_lost = is_lost
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._partial = ""
        self._refused = 0  # how often the system did
        self._is_torn = False  # a line was written in part
        self._unreported = 0
        self._is_writing = False
        self._thread: threading.Thread | None = None
        self._start_at = 0.0
        if not is_lost:
            self._start()

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        """Queue a text. A line is written once it is complete, or with :meth:`flush`."""
        with self._changed:
            whole, newline, rest = (self._partial + text).rpartition("\n")
            self._partial = rest
            if newline:
                self._queue(whole + newline)
            if len(rest) > AT_ONCE:
                self._queue_partial()
        return len(text)

    def flush(self) -> None:
        """Queue the incomplete line."""
        with self._changed:
            self._queue_partial()

    def show(self, text: str, within: float) -> None:
        """Write a text and wait until the system has taken it.

        Raises:
            OSError: it was not taken in time, or refused. It may have been written in part.
        """
        ends = time.monotonic() + within
        with self._changed:
            refused = self._refused
            self.write(text)
            self._queue_partial()
            if self._is_lost or not self._wait_until_drained(ends) or self._refused != refused:
                raise OSError(f"Nothing can be written to descriptor {self._descriptor}.")

    def drain(self, within: float = FLUSH_WITHIN) -> None:
        """Wait until everything is written, or until the time is over."""
        with self._changed:
            self._queue_partial()
            self._wait_until_drained(time.monotonic() + within)

    def _wait_until_drained(self, ends: float) -> bool:
        while self._lines or self._is_writing:
            if (left := ends - time.monotonic()) <= 0:
                return False
            self._changed.wait(left)
        return True

    def _queue_partial(self) -> None:
        if self._partial:
            text, self._partial = self._partial, ""
            self._queue(text)

    def _queue(self, text: str) -> None:
        data = text.encode(self.encoding, self.errors)
        # A traceback that is larger than all of the buffer is written all the same, if nothing else waits.
        if self._is_lost or (self._size and self._size + len(data) > self._capacity):
            self._drop(data)
            return
        self._lines.append(data)
        self._size += len(data)
        if self._thread is None:
            self._start()
        self._changed.notify_all()

    def _drop(self, data: bytes) -> None:
        lines = max(1, data.count(b"\n"))
        self._dropped.add(lines)
        self._unreported += lines

    def _start(self) -> None:
        """Start the thread. If the system has none left, lines wait, and each line tries again."""
        now = time.monotonic()
        if now < self._start_at:
            return
        self._start_at = now + START_AGAIN
        thread = threading.Thread(target=self._run, name=f"output {self._descriptor}", daemon=True)
        # Without a thread, even a line that says so would have to wait.
        with suppress(RuntimeError, MemoryError):
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines:
                    self._changed.wait()
                taken = self._take()
                self._is_writing = True
            # The rest of a torn line is lost: the next one would continue it, and be no JSON either.
            start = b"\n" if self._is_torn else b""
            written = _write_all(self._descriptor, start + taken) - len(start)
            with self._changed:
                self._is_writing = False
                self._size -= len(taken)
                lost = 0
                if written >= 0:
                    self._is_torn = 0 < written < len(taken) and taken[written - 1 : written] != b"\n"
                if written == len(taken):
                    lost, self._unreported = self._unreported, 0
                else:
                    self._refused += 1
                    self._drop(taken[max(0, written) :])
                self._changed.notify_all()
            if lost:  # only now that lines arrive: such a line would be lost, too
                logger.warning(
                    "log lines were dropped: nobody read them in time, or the system refused them",
                    extra={"lines": lost},
                )

    def _take(self) -> bytes:
        taken = [self._lines.popleft()]
        size = len(taken[0])
        while self._lines and size + len(self._lines[0]) <= AT_ONCE:
            taken.append(self._lines.popleft())
            size += len(taken[-1])
        return b"".join(taken)


def _write_all(descriptor: int, data: bytes) -> int:
    """Write in this thread, without a time limit. Return how many bytes the system took."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            # Another program has made the pipe non-blocking.
            time.sleep(0.05)
        except OSError:
            break
    return len(data) - len(view)


@contextmanager
def background_output() -> Iterator[None]:
    """Within the block, ``sys.stdout`` and ``sys.stderr`` never wait for a reader.

    A stream without a descriptor stays as it is. A stream that was closed before the start drops everything.
    """
    former = sys.stdout, sys.stderr
    made: list[BackgroundOutput] = []

    def replaced(stream: TextIO, descriptor: int) -> Any:
        # ``None``, whatever the type says, if the descriptor was closed when Python started.
        is_lost = stream is None
        if not is_lost and not _is_over(stream, descriptor):
            return stream
        made.append(BackgroundOutput(descriptor, is_lost=is_lost))
        return made[-1]

    sys.stdout, sys.stderr = replaced(former[0], 1), replaced(former[1], 2)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = former
        ends = time.monotonic() + FLUSH_WITHIN
        for output in made:
            output.drain(max(0.0, ends - time.monotonic()))


def _is_over(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError, AttributeError):  # a stream in memory
        return False
