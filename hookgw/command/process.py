"""The process around a Trio program: its end, and its limits."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import Any, NoReturn, TypeVar

import structlog
import trio

from hookgw.command.failure import Failed, ReaderGone
from hookgw.command.logging_setup import log_beside_output
from hookgw.concurrency.threads import is_refusal
from hookgw.kernel.errors import HookgwError
from hookgw.kernel.language import gettext as _

T = TypeVar("T")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
ONE_SIGNAL = 0.5
"""Seconds after the first signal in which further ones are that one."""
RECOMMENDED_OPEN_FILES = 16_384
"""Enough for 10,000 lanes with connections, and for the requests of a busy server."""
MAX_OPEN_FILES = 2**20
STARTED_FILES = 24
STARTED_THREADS = 8
STARTED_MEMORY = 80 * 2**20
"""What a start takes, beside its output: without a client or a receiver, and without the stacks."""
THREADS_WITHIN = 3.0
"""Seconds in which threads of plugins may end."""

logger = structlog.get_logger("hookgw")


class StoppedEarly(Exception):
    """A signal arrived before the program was ready."""


def run_to_end(main: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run a Trio program and return its result.

    Raises:
        Failed: with all messages, if the program raises a :class:`HookgwError`, :class:`Failed` or a group of
            them.
        ReaderGone: if the program raises that.
        SystemExit: 0, if it raises :class:`StoppedEarly`. 1, if it raises anything else: that is a bug and is
            logged with its traceback.
    """
    log_beside_output()
    # trio.run may raise a group even for one error, because every error passes through nurseries.
    try:
        return trio.run(main, *args)
    except Exception as error:
        if ExceptionGroup("", [error]).split(StoppedEarly)[1] is None:
            raise SystemExit(0) from error
        if ExceptionGroup("", [error]).split(ReaderGone)[1] is None:
            raise ReaderGone(errno.EPIPE, os.strerror(errno.EPIPE)) from error
        messages = messages_of(error)
        if messages is None:
            logger.critical("crashed", exc_info=error)
            raise SystemExit(1) from error
        raise Failed(*messages) from error


def messages_of(error: Exception) -> list[str] | None:
    """Return the messages of every error in a group, each once, or ``None`` if one of the errors is a bug."""
    if isinstance(error, HookgwError | Failed):
        return list(error.messages)
    if is_refusal(error) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return list(scarcity(error))
    if not isinstance(error, ExceptionGroup):
        return None
    found = [messages_of(inner) for inner in error.exceptions]
    # One bug among expected errors makes the whole group a bug: its traceback must not get lost.
    if None in found:
        return None
    return list(dict.fromkeys(line for lines in found if lines for line in lines))


async def cancel_on_signal(
    scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Cancel the scope at the first SIGINT or SIGTERM and return. A later one kills the process."""
    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        task_status.started()
        await anext(signals)
    first = time.monotonic()

    def end_process(number: int, _frame: object) -> None:
        # A terminal sends Ctrl-C to both processes of the single binary, and the first one passes it on.
        if time.monotonic() - first < ONE_SIGNAL:
            return
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        # The kernel ignores the default action for the first process of a container.
        os._exit(128 + number)  # as a shell shows a process that the signal has killed

    # Otherwise a second SIGINT would raise KeyboardInterrupt in the middle of the drain. To end the process
    # at once loses no accepted event: the outbox is on disk.
    for stop in STOP_SIGNALS:
        signal.signal(stop, end_process)
    scope.cancel()


def end_now(code: int) -> NoReturn:
    """End the process with this exit code, whatever goes on in it, and with what it has written."""
    with suppress(AttributeError, OSError, ValueError):  # closed, or a reader that has gone
        sys.stdout.flush()
    time.sleep(1.0)  # the log may be written by a thread
    os._exit(code)


def end_without_threads(code: int) -> None:
    """Let the process end with this exit code soon after its program, although threads of plugins go on.

    Call this last. Python waits for such threads without end and says nothing: systemd would kill the process
    half a minute later, and never restart it after a crash.
    """
    left = {thread for thread in threading.enumerate() if not thread.daemon} - {threading.main_thread()}

    def end() -> None:
        threading.main_thread().join()  # it ends before Python waits for the others
        ends = time.monotonic() + THREADS_WITHIN
        for thread in left:
            thread.join(max(0.0, ends - time.monotonic()))
        if names := [thread.name for thread in left if thread.is_alive()]:
            logger.warning("threads of plugins did not end", threads=names)
            end_now(code)

    if left:
        threading.Thread(target=end, daemon=True).start()


def try_resources() -> None:
    """Take what a start takes of the system, and give it back.

    Raises:
        Failed: the system refuses it. A start would wait for a thread without end, in silence if that of the
            output is missing, or take a lack of descriptors or memory for a fault of a file or a plugin.
            Without the calls that wait for sockets, it would end in a traceback of Trio.
    """
    is_tried = threading.Event()
    threads = [threading.Thread(target=is_tried.wait, daemon=True) for _ in range(STARTED_THREADS)]
    with ExitStack() as stack:
        try:
            for _pipe in range(STARTED_FILES // 2):
                for descriptor in os.pipe():  # no file, which may be missing
                    stack.callback(os.close, descriptor)
            stack.enter_context(mmap.mmap(-1, STARTED_MEMORY))
            for thread in threads:
                thread.start()
                stack.callback(thread.join)
        except (OSError, RuntimeError, MemoryError) as error:
            raise Failed(*scarcity(error)) from error
        finally:
            is_tried.set()
    if hasattr(select, "epoll") and hasattr(os, "eventfd"):
        try:
            with select.epoll() as epoll, os.fdopen(os.eventfd(0), "rb", buffering=0) as signal_of_threads:
                epoll.register(signal_of_threads)
                epoll.poll(0)
        except OSError as error:
            raise Failed(
                _("The system does not let hookgw wait for sockets: {error}.", error=error),
                _(
                    "Permit the calls epoll_create1, epoll_ctl, epoll_wait and eventfd2 in the seccomp "
                    "profile of the container, or in SystemCallFilter= of the systemd unit."
                ),
            ) from error


def scarcity(error: Exception) -> tuple[str, ...]:
    what = f"The system refuses hookgw memory, a thread or an open file: {str(error) or 'out of memory'}."
    fix = (
        "Raise the limits of the process: memory (ulimit -v, ulimit -d; LimitAS=, LimitDATA= in systemd), "
        "threads (ulimit -u; LimitNPROC=, TasksMax= in systemd; podPidsLimit in Kubernetes) and open files "
        "(ulimit -Hn; LimitNOFILE= in systemd)."
    )
    return what, fix


def raise_file_limit() -> int:
    """Raise this process's limit on open files as far as the system allows, and return the new limit.

    Log a warning if the limit stays below :data:`RECOMMENDED_OPEN_FILES`.
    """
    import resource  # systems without it have no server, but they have the other users of this module

    # The usual soft limit of 1,024 protects programs that call select(), which cannot handle more. hookgw
    # does not call it. At the limit every new connection fails, as if its receiver were unreachable.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems report an infinite hard limit but refuse it.
    highest = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < highest:
        with suppress(OSError, ValueError):  # some systems allow less than the hard limit they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
            soft = highest
    allowed = MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
    if allowed < RECOMMENDED_OPEN_FILES:
        logger.warning(
            "the limit on open files is low",
            limit=allowed,
            recommended=RECOMMENDED_OPEN_FILES,
            fix="Each connection needs a file. Raise the limit with ulimit -Hn, or LimitNOFILE= in systemd.",
        )
    return allowed


def exempt_started_objects() -> None:
    """Exempt all objects that exist now from garbage collection. Call this once, at the end of the start."""
    # Modules, classes, schemas and certificates live as long as the process. Each full run walks them, which
    # blocks the event loop for 50 ms; without them, it walks only what connections and lanes have made.
    gc.collect()
    gc.freeze()
