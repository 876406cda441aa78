"""Running something until a signal ends it."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog
import trio

from hookgw.api.server.certificates import Certificates
from hookgw.cli.failure import Failed
from hookgw.models.errors import HookgwError

T = TypeVar("T")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def cancel_on_signal(
    scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Cancel the scope at SIGINT or SIGTERM, then return. A second signal ends the process at once.

    Nothing accepted is lost by that: the outbox is on disk.
    """
    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        task_status.started()
        await anext(signals)
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    scope.cancel()


async def renew_on_hangup(
    certificates: Certificates, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Renew certificates at each SIGHUP, until cancelled."""
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            await certificates.renew()


def run_to_end(main: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run a Trio program and give what it returns; what it raises ends the command with exit code 1.

    Raises:
        Failed: with the messages, where every error is one that has a reader.
        SystemExit: 1, after any other error was logged with its traceback: it is a bug.
    """
    try:
        return trio.run(main, *args)
    except Exception as error:
        messages = _messages(error)
        if messages is not None:
            raise Failed(*messages) from error
        structlog.get_logger("hookgw").critical("crashed", exc_info=error)
        raise SystemExit(1) from error


def _messages(error: Exception) -> list[str] | None:
    """The messages of all errors in a group; ``None`` where one of them is a bug."""
    if isinstance(error, HookgwError):
        return list(error.messages)
    if not isinstance(error, ExceptionGroup):
        return None
    found = [_messages(inner) for inner in error.exceptions]
    return None if None in found else [line for lines in found if lines for line in lines]
