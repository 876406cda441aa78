"""Light steps: a coroutine goes on by a call, and not by a step of Trio's scheduler.

A request or a delivery waits a few times, and always for one call: bytes have arrived, a commit is on disk,
another delivery is there. For each wait Trio parks a task, makes it runnable and switches to it, which costs
as much as the work between two waits. So the task of a coroutine that waits for a :class:`Waiter` stays
parked: the call that the coroutine waits for puts it in line, and :class:`LightSteps` runs it until its next
wait.

The same functions run both ways. A function that needs more than a :class:`Waiter` (a lock, a nursery, a
cancel scope with a wait inside, a sleep, a thread) says so first::

    await in_task()

From there on the coroutine runs in its own task, as if there were no light steps, until it says
:func:`may_leave_task` and waits for a :class:`Waiter` again. Outside of light steps both do nothing.

::

               waits for a Waiter            wake()               its turn
    IN ITS TASK ─────────────────> WAITING ──────────> IN LINE ──────────────> A LIGHT STEP
        ^                             │ ^                                       │   │
        │ cancelled: the wait raises  │ │        waits for a Waiter             │   │
        ├─────────────────────────────┘ └───────────────────────────────────────┘   │
        └───────────────────────────────────────────────────────────────────────────┘
                             in_task(), a checkpoint, the end, or an exception

Cancellation is the task's, as ever.
"""

from __future__ import annotations

import threading
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar, final

import outcome
import trio
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

_T = TypeVar("_T")

MOST_STEPS = 128
"""Light steps that are made before tasks have their turn."""

PASSES = 3
"""How many light steps may follow from one another before tasks have their turn: a request is read, its event
is committed, and both the client and the lanes hear of that."""

_IN_TASK = object()
_LATER = object()
_CHECKPOINT = type(next(trio.lowlevel.cancel_shielded_checkpoint().__await__()))  # noqa: ASYNC105
"""What a checkpoint asks of Trio: nothing that depends on the task."""
_TRIO_WAIT = type(next(wait_task_rescheduled(lambda _: Abort.SUCCEEDED).__await__()))  # noqa: ASYNC105
"""What any other wait asks of Trio."""
_NEEDS_TASK = "A light step waited for more than a Waiter: call in_task() before."


class _Running(threading.local):
    # Of this thread: an event loop in another thread has its own.
    light: LightTask | None = None


_running = _Running()


class Waiter:
    """A place at which one coroutine at a time waits for a call of :meth:`wake`: ``await waiter``.

    It does not notice an earlier call.
    """

    __slots__ = ("_waiting",)

    is_cancellable = True
    """Whether a cancellation ends the wait. If not, the next checkpoint raises it."""

    def __init__(self) -> None:
        self._waiting: Task | LightTask | None = None

    def __await__(self) -> Generator[Any, Any, None]:
        if _running.light is None:
            return self._wait_in_task()
        # What gives itself to the light task once. A generator would be one more that goes on at each wait.
        return iter((self,))  # type: ignore[return-value]

    def _wait_in_task(self) -> Generator[Any, Any, None]:
        self._waiting = current_task()
        yield from wait_task_rescheduled(self._abort).__await__()  # noqa: ASYNC105

    def _abort(self, _: object) -> Abort:
        if not self.is_cancellable:
            return Abort.FAILED
        self._waiting = None
        return Abort.SUCCEEDED

    def wake(self) -> bool:
        """Let the coroutine that waits go on, soon; return whether one waited."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return False
        if type(waiting) is LightTask:
            steps = waiting.steps
            steps.line.append(waiting)
            if steps.are_asleep:
                steps.wake()
        else:
            reschedule(waiting)
        return True


@final
class LightTask:
    """A coroutine, and the task in which it runs or which is parked for it."""

    __slots__ = (
        "_after",
        "_coroutine",
        "_is_recalled",
        "_task",
        "_waiter",
        "is_in_task",
        "is_pinned",
        "steps",
    )

    def __init__(self, coroutine: Coroutine[Any, Any, Any], steps: LightSteps) -> None:
        self._coroutine = coroutine
        self._task: Task
        self._waiter: Waiter | None = None
        # What the last light step left to the task: what it asks of Trio, or its end.
        self._after: Any = None
        self._is_recalled = False
        self.steps = steps
        self.is_in_task = True
        self.is_pinned = False

    @types.coroutine
    def run(self) -> Generator[Any, Any, Any]:
        """Run the coroutine to its end, in the present task."""
        coroutine, self._task = self._coroutine, current_task()
        error: BaseException | None = None
        value: Any = None
        while True:
            _running.light = self
            try:
                trap = coroutine.send(value) if error is None else coroutine.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                _running.light = None
                value = error = after = None  # an error must not keep this frame, which has it
            try:
                if not isinstance(trap, Waiter):
                    value = yield trap
                elif self.is_pinned or not self.steps.are_running:
                    yield from trap._wait_in_task()  # noqa: SLF001 -- the two are one mechanism
                else:
                    after = yield from self._leave_task(trap)
                    if type(after) is _CHECKPOINT:
                        value = yield after
                    elif isinstance(after, Waiter):
                        yield from after._wait_in_task()  # noqa: SLF001 -- the two are one mechanism
            except BaseException as raised:  # noqa: BLE001 -- it is the coroutine's
                error = raised
            if isinstance(after, outcome.Value | outcome.Error):
                try:
                    return after.unwrap()
                finally:
                    del after

    def _leave_task(self, waiter: Waiter) -> Generator[Any, Any, Any]:
        """Go on in light steps; return what they left to the task."""
        self._waiter, waiter._waiting = waiter, self  # noqa: SLF001 -- the two are one mechanism
        self.is_in_task, self._after = False, None
        try:
            yield from wait_task_rescheduled(self._abort).__await__()  # noqa: ASYNC105
        finally:
            self.is_in_task, self._is_recalled = True, False
        after, self._after = self._after, None
        return after

    def _abort(self, _: object) -> Abort:
        waiter = self._waiter
        if waiter is not None and waiter._waiting is self and waiter.is_cancellable:  # noqa: SLF001
            waiter._waiting = None  # noqa: SLF001
            return Abort.SUCCEEDED
        self._is_recalled = True  # it goes on in the task, whose next checkpoint raises
        return Abort.FAILED

    def step(self) -> None:
        """Go on behind the wait that has ended, until the next one."""
        self._waiter = None
        if not self._is_recalled and self.steps.are_running:
            _running.light = self
            try:
                trap = self._coroutine.send(None)
                while type(trap) is _TRIO_WAIT:
                    # It waits as the task that makes the steps. As Trio does at a cancellation, take it out
                    # of the place where it waits. The error must pass its cancel scopes here: they are that
                    # task's, too.
                    trap.abort_func(_no_cancellation)
                    trap = self._coroutine.throw(RuntimeError(_NEEDS_TASK))
            except StopIteration as end:
                self._after = outcome.Value(end.value)
            except BaseException as error:  # noqa: BLE001 -- the task raises it
                self._after = outcome.Error(error)
            else:
                if isinstance(trap, Waiter):
                    if not self._is_recalled:
                        self._waiter, trap._waiting = trap, self  # noqa: SLF001
                        return
                    self._after = trap  # this step has cancelled its own task, which must not wait
                elif trap is _LATER:
                    self.steps.line.append(self)
                    return
                elif type(trap) is _CHECKPOINT:
                    self._after = trap
            finally:
                _running.light = None
        reschedule(self._task)


class LightSteps:
    """Makes the light steps of one gateway.

    Without :meth:`run`, every coroutine runs in its task alone.

    Attributes:
        line: the light tasks whose wait has ended. After adding one, call :meth:`wake` if
            :attr:`are_asleep`.
        are_asleep: whether nothing makes the steps of new light tasks in the line.
    """

    def __init__(self) -> None:
        self.line: deque[LightTask] = deque()
        self._task: Task | None = None  # while it waits
        self.are_asleep = True
        self.are_running = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Make light steps until cancelled. What waits then goes on in its task."""
        self.are_running, self.are_asleep = True, False
        try:
            task_status.started()
            while True:
                if self.line:
                    await trio.lowlevel.checkpoint()
                else:
                    self._task, self.are_asleep = current_task(), True
                    await wait_task_rescheduled(self._abort)
                self._make()
        finally:
            self.are_running, self.are_asleep = False, True
            self.wake()

    def _abort(self, _: object) -> Abort:
        self._task, self.are_asleep = None, False
        return Abort.SUCCEEDED

    def wake(self) -> None:
        """Have the steps in line made, soon. Without :meth:`run`, all of them go on in their tasks."""
        task, self._task = self._task, None
        if task is not None:
            self.are_asleep = False
            reschedule(task)
            return
        while self.line:
            self._make()

    def make_after(self, wake: Callable[[], object]) -> None:
        """Call a function that wakes several, and make the steps in line at once: no other task has to.

        Not within a light step.
        """
        self.are_asleep = False
        try:
            wake()
            self._make()
        finally:
            # If a step has cancelled the task that makes steps, it is about to run.
            self.are_asleep = self._task is not None or not self.are_running
            if self.line and self.are_asleep:
                self.wake()

    def _make(self) -> None:
        line, left = self.line, MOST_STEPS
        # What a step wakes comes behind all that are in line, into the next pass.
        for _ in range(PASSES):
            count = min(len(line), left)
            left -= count
            for _ in range(count):
                line.popleft().step()

    async def go(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the present task, and in light steps where it can.

        It must not leave a cancel scope or a nursery that it has entered before :func:`in_task`.
        """
        if _running.light is not None or not self.are_running:
            return await coroutine
        result: _T = await LightTask(coroutine, self).run()
        return result


@types.coroutine
def in_task() -> Generator[Any, Any, bool]:
    """Go on in the task, and stay there until :func:`may_leave_task`; return whether that took a wait."""
    light = _running.light
    if light is None:
        return False
    light.is_pinned = True
    if light.is_in_task:
        return False
    yield _IN_TASK
    return True


def may_leave_task() -> None:
    """Take :func:`in_task` back: the next wait for a :class:`Waiter` may be followed by a light step."""
    light = _running.light
    if light is not None:
        light.is_pinned = False


@types.coroutine
def let_others_go_on() -> Generator[Any, Any, None]:
    """Let the others that can go on do so first: a checkpoint, or the end of the line of light steps."""
    light = _running.light
    if light is None or light.is_in_task:
        yield from trio.lowlevel.checkpoint().__await__()  # noqa: ASYNC105
    else:
        yield _LATER


def _no_cancellation() -> None:
    """Be what Trio gives to a function that ends a wait: it raises ``Cancelled``, which nobody here is."""


def frames_of(task: Task) -> list[types.FrameType]:
    """Return the frames for which a task waits, the innermost last, also of a light coroutine in its task."""
    frames = [frame for frame, _ in task.iter_await_frames()]
    coroutine: Any = None
    if frames and frames[-1].f_code is LightTask.run.__code__:
        coroutine = frames[-1].f_locals["coroutine"]
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        frames.append(frame)
        coroutine = coroutine.cr_await
    return frames
