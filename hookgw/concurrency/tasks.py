"""Tasks that must not end unnoticed. No I/O.

A Trio nursery accepts any ``Cancelled``: if a task raises the ``Cancelled`` of another scope, its siblings
are cancelled, and the nursery ends as if all work were done. The gateway would go on without its lanes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from hookgw.kernel.errors import HookgwError

RETRY_WAITS = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds before something is tried again after an error in hookgw; the last one for each further time."""

T = TypeVar("T")


class TaskFailed(Exception):
    """A task raised, or ended though its work was not done. The cause is its exception, if there is one."""


def is_cancelled() -> bool:
    """Return whether the running task is cancelled, so that its next checkpoint raises ``Cancelled``."""
    return trio.current_effective_deadline() == -float("inf")


async def run_contained(run: Callable[[], Awaitable[T]]) -> T:
    """Run a function and return its result.

    Raises:
        TaskFailed: it raised anything else. If the caller is cancelled too, its next checkpoint raises that.
        trio.Cancelled: the caller is cancelled; alone, or in a group.
        KeyboardInterrupt: the user pressed Ctrl-C; alone, or in a group.
    """
    try:
        return await run()
    except BaseException as error:
        if _has(KeyboardInterrupt, error):
            raise
        cause: BaseException | None = None if isinstance(error, trio.Cancelled) else error
        if isinstance(error, BaseExceptionGroup):
            # A nursery's cancellation is the consequence of what its tasks raised.
            cause = error.split(trio.Cancelled)[1]
        if cause is None and is_cancelled():
            raise
        cause = cause or error
        raise TaskFailed(f"{type(cause).__name__}: {cause}") from cause  # noqa: ASYNC104 -- not ours: nobody cancelled the caller


async def retry_contained(run: Callable[[], Awaitable[T]], failed: Callable[[TaskFailed], None]) -> T:
    """Run a function again until it ends without an error in hookgw, and return its result.

    Args:
        run: continues where it stopped.
        failed: called before each wait of :data:`RETRY_WAITS`. It may raise, to end this.

    Raises:
        HookgwError: the function raised it, because it cannot do its work.
        trio.Cancelled, KeyboardInterrupt: see :func:`run_contained`.
    """
    waits = iter(RETRY_WAITS)
    while True:
        try:
            return await run_contained(run)
        except TaskFailed as failure:
            if isinstance(failure.__cause__, HookgwError):
                raise failure.__cause__ from None
            failed(failure)
        await trio.sleep(next(waits, RETRY_WAITS[-1]))


async def run_essential(  # noqa: ASYNC128 -- it hands its task_status on
    name: str,
    is_over: Callable[[], bool] | None,
    run: Callable[..., Awaitable[object]],
    *arguments: object,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a function that must not end before its work is over.

    Args:
        name: of the task, for the error.
        is_over: returns whether the function may end by now; ``None`` if it ends only when cancelled.
        run: the function. If this is called by ``nursery.start``, it takes a ``task_status``.

    Raises:
        TaskFailed: it ended too early, or by a ``Cancelled`` without a cancellation.
        Exception: as the function raised it.
    """
    if task_status is not trio.TASK_STATUS_IGNORED:
        run = partial(run, task_status=task_status)
    try:
        await run(*arguments)
    except BaseException as error:
        if not is_cancelled() and _has(trio.Cancelled, error):
            raise TaskFailed(f"{name} ended by a stray Cancelled") from error  # noqa: ASYNC104 -- not ours
        raise
    if not is_cancelled() and (is_over is None or not is_over()):
        raise TaskFailed(f"{name} ended while hookgw was running")


def _has(wanted: type[BaseException], error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(wanted) is not None
    return isinstance(error, wanted)
