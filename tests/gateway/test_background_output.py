"""Lines that threads write: over real pipes, with and without a reader."""

import logging
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from hookgw.core import background_output as module
from hookgw.core.background_output import background_output
from tests.public.core import BackgroundOutput, LineCount


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    # Whoever still writes gets an error, and its thread ends with the process.
    os.close(reader)


def read(reader: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += os.read(reader, size - len(found))
    return found


def test_lines_arrive_whole_and_in_order(pipe: tuple[int, int]) -> None:
    output = BackgroundOutput(pipe[1])
    print("one", "line", file=output)
    output.write("two\nthr")
    output.write("ee\nfo")
    output.flush()
    output.write("ur \udcff\n")
    output.drain()
    expected = b"one line\ntwo\nthree\nfour \\udcff\n"
    assert read(pipe[0], len(expected)) == expected
    assert (output.fileno(), output.isatty(), output.writable()) == (pipe[1], False, True)


def test_a_line_without_room_is_dropped_and_counted_and_said_later(
    pipe: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    dropped = LineCount()
    output = BackgroundOutput(pipe[1], dropped, capacity=200_000)
    line = "x" * 99_999 + "\n"
    for _ in range(5):
        output.write(line)
    output.write("a\nb\n" * 100_000)
    assert dropped.value >= 200_000
    with caplog.at_level(logging.WARNING):
        lost = dropped.value
        kept = 5 + 200_000 - lost
        read(pipe[0], kept * len(line))
        output.drain()
    [record] = caplog.records
    assert record.getMessage().startswith("log lines were dropped: nobody read them in time, or ")
    assert record.__dict__["lines"] == lost


def test_a_line_larger_than_the_buffer_is_written_if_nothing_waits(pipe: tuple[int, int]) -> None:
    dropped = LineCount()
    output = BackgroundOutput(pipe[1], dropped, capacity=10)
    output.write("longer than ten bytes\n")
    assert read(pipe[0], 22) == b"longer than ten bytes\n"
    assert dropped.value == 0


def test_what_the_system_refuses_is_dropped(pipe: tuple[int, int]) -> None:
    dropped = LineCount()
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        output = BackgroundOutput(full.fileno(), dropped)
        output.write("a\nb\n")
        output.drain()
        assert dropped.value == 2
        with pytest.raises(OSError, match="Nothing can be written"):
            output.show("key\n", within=5.0)


@contextmanager
def full_from(size: int) -> Iterator[None]:
    """Let no file become longer, as on a full disk: what fits is written."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


def test_a_line_that_a_full_disk_has_cut_off_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    dropped = LineCount()
    with (tmp_path / "log").open("ab") as log:
        output = BackgroundOutput(log.fileno(), dropped)
        with full_from(12):
            output.write("one\ntwo\nthree\nfour\n")
            output.drain()
            output.write("five\n")
            output.drain()
        assert (tmp_path / "log").read_text() == "one\ntwo\nthre"
        assert dropped.value == 3
        output.write("six\n")
        output.drain()
        with full_from(23):  # at the end of a line
            output.write("seven\neight\n")
            output.drain()
        output.write("nine\n")
        output.drain()
    assert (tmp_path / "log").read_text() == "one\ntwo\nthre\nsix\nseven\nnine\n"


def test_showing_waits_for_the_system_and_no_longer_than_it_may(pipe: tuple[int, int]) -> None:
    output = BackgroundOutput(pipe[1])
    output.show("a key\n", within=30.0)
    assert read(pipe[0], 6) == b"a key\n"
    output.write("x" * 2**20)
    with pytest.raises(OSError, match="Nothing can be written"):
        output.show("a key\n", within=0.01)
    output.drain(within=0.01)


def test_a_thread_that_cannot_start_is_tried_again(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "START_AGAIN", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        output = BackgroundOutput(pipe[1])
        output.write("first\n")
    output.write("second\n")
    assert read(pipe[0], 13) == b"first\nsecond\n"


def test_streams_in_memory_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    former = sys.stdout, sys.stderr
    with background_output():
        assert (sys.stdout, sys.stderr) == former
        print("a line")
    assert capsys.readouterr().out == "a line\n"


def test_a_stream_that_was_closed_drops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    before = module.dropped_lines.value
    with background_output():
        print("nobody sees this")
        with pytest.raises(OSError, match="Nothing can be written"):
            cast("BackgroundOutput", sys.stdout).show("a key\n", within=5.0)
    assert module.dropped_lines.value == before + 2
    assert sys.stdout is None
