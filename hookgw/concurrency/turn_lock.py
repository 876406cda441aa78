"""A lock that holders get in turn, however many tasks of a holder wait for it."""

from __future__ import annotations

from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from hookgw.fair import Turns


class TurnLock:
    """One task at a time has it. When it is released, holders that wait get it in turn."""

    __slots__ = ("_is_taken", "_waiting")

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting = Turns[str, Task]()

    async def acquire(self, holder: str) -> None:
        """Wait for the lock; :meth:`release` must follow. This is a checkpoint only if it waits."""
        if not self._is_taken:
            self._is_taken = True
            return
        task = current_task()
        self._waiting.add(holder, task)

        def abort(_: object) -> Abort:
            self._waiting.remove(holder, task)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)  # release() hands the lock over

    def release(self, holder: str) -> None:
        """Hand the lock to the next holder. Other tasks of this holder come after all other holders."""
        self._waiting.skip(holder)
        if self._waiting:
            reschedule(self._waiting.pop())
        else:
            self._is_taken = False
