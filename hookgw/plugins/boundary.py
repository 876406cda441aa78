"""The boundary around plugins: all calls of their code go through here.

Whatever that code raises, and whatever is wrong with its result, ends here as a
:class:`~hookgw.kernel.errors.PluginFailed` that names the plugin and the function. Two things pass through:
the cancellation of the code that called the plugin, and the user's Ctrl-C.

A plugin can raise both itself. A ``trio.Cancelled`` from the plugin's own scope would silently end the
nursery that it reaches, and a ``KeyboardInterrupt`` or ``SystemExit`` would end the process. Therefore both
are checked:

- The code around the call is cancelled if, and only if, Trio says so. Then Trio raises a new ``Cancelled``.
  In any other case, a ``Cancelled`` is a failure of the plugin.
- A Ctrl-C was raised by a signal handler (Trio's, or the one below). Any other ``KeyboardInterrupt`` was
  raised by the plugin.
"""

from __future__ import annotations

import logging
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from types import CodeType, FrameType
from typing import Any

import structlog
import trio

from hookgw.concurrency.light import in_task
from hookgw.kernel.errors import PluginFailed
from hookgw.kernel.sentences import Sentence, sentence_of
from hookgw.plugins.hook_implementation import HookImplementation

Check = Callable[[Any], Any]
"""Checks a result, and returns the value for the caller. Raises :class:`WrongResult`, or anything else."""

_LONGEST_REASON = 500
"""Characters of a reason: it is kept in each attempt, and a plugin may put a whole event into its message."""
_LONGEST_TRACEBACK = 16_384

_log = structlog.get_logger("hookgw.plugins")


class WrongResult(Exception):
    """A plugin's result breaks a rule. The message says what is wrong, and what would be right."""


class Boundary:
    """Calls the code of plugins.

    Every failure is logged with its traceback and counted before it is raised, unless the caller does that.

    Args:
        on_failure: called with every failure, for counting.
        mask: masks secrets in a plugin's exception, given the arguments of the call.
    """

    def __init__(
        self,
        on_failure: Callable[[PluginFailed], None] | None = None,
        *,
        mask: Callable[[str, tuple[object, ...]], str] = lambda text, _: text,
    ) -> None:
        self._on_failure = on_failure
        self._mask = mask

    def call(
        self,
        function: HookImplementation,
        *arguments: Any,
        check: Check | None = None,
        passes: tuple[type[BaseException], ...] = (),
        reports: bool = True,
    ) -> Any:
        """Call a plain function. Any code of a plugin will do, not only a hook.

        Args:
            check: applied to the result.
            passes: the exceptions of the function's contract, raised unchanged.
            reports: whether to report a failure before it is raised. Otherwise the caller does.

        Raises:
            PluginFailed: the function or the check raised, or the function returned an awaitable.
            KeyboardInterrupt: the user pressed Ctrl-C.
        """
        try:
            with nullcontext() if KeyboardInterrupt in passes else _ctrl_c():
                answer = _call(function, arguments)
                if _is_awaitable(answer):
                    if isinstance(answer, Coroutine):
                        # Python warns about a coroutine that was never awaited; closing it prevents that.
                        answer.close()
                    raise WrongResult("it returned an awaitable, but this hook cannot be async")
                return answer if check is None else check(answer)
        except BaseException as error:
            raise self._judged(function, arguments, error, passes, reports)  # noqa: B904, ASYNC104 -- judged above

    async def run(
        self,
        function: HookImplementation,
        *arguments: Any,
        timeout: float = float("inf"),  # noqa: ASYNC109 -- the plugin's limit, named in its failure
        check: Check | None = None,
        passes: tuple[type[BaseException], ...] = (),
    ) -> Any:
        """Call a plain or async function; see :meth:`call`. This is a checkpoint only if the function makes
        one.

        Args:
            timeout: seconds that an async function may take.

        Raises:
            PluginFailed: the function or the check raised, or the function took too long.
            KeyboardInterrupt: the user pressed Ctrl-C.
            trio.Cancelled: the caller is cancelled. Other exceptions of the plugin are logged.
        """
        try:
            answer = _call(function, arguments)
            if _is_awaitable(answer):
                await in_task()
                # The scope also repairs Trio's stack of scopes if the function left one open.
                with trio.move_on_after(timeout) as limit:
                    answer = await answer
                if limit.cancelled_caught:
                    raise WrongResult(f"it took longer than {timeout:g}s (plugins.hook_timeout)")
            return answer if check is None else check(answer)
        except BaseException as error:
            if _is_ctrl_c(error):
                raise KeyboardInterrupt from None  # noqa: ASYNC104
            if trio.current_effective_deadline() == -float("inf"):
                # A cancelled nursery raises its cancellation, and the failures of its tasks' cleanup, as one.
                if not all(issubclass(type(leaf), trio.Cancelled) for leaf in _leaves(error)):
                    self.report(self._failure(function, arguments, error), arguments)
                # Not the plugin's own Cancelled, which may come from another scope.
                await trio.lowlevel.checkpoint_if_cancelled()  # noqa: ASYNC102 -- it raises at once, or not at all
            raise self._judged(function, arguments, error, passes)  # noqa: B904, ASYNC104 -- judged above

    def report(
        self, failure: PluginFailed, arguments: tuple[object, ...] = (), *, level: int = logging.WARNING
    ) -> None:
        """Log a failure of :meth:`call` with the traceback of its cause, and count it."""
        fields = {"plugin": failure.plugin, "hook": failure.hook, "reason": failure.reason}
        if failure.__cause__ is not None:
            fields["exception"] = _traceback_of(failure.__cause__, partial(self.masked, arguments))
        _log.log(level, "plugin failed", **fields)
        if self._on_failure is not None:
            self._on_failure(failure)

    def masked(self, arguments: tuple[object, ...], text: str) -> str:
        """Mask the secrets in a plugin's text that a call with these arguments may know."""
        try:
            return self._mask(text, arguments)
        except BaseException:  # noqa: ASYNC103 -- the plugin may have put something odd into the options
            return "(its message cannot be shown)"  # noqa: ASYNC104

    def _judged(
        self,
        function: HookImplementation,
        arguments: tuple[object, ...],
        error: BaseException,
        passes: tuple[type[BaseException], ...],
        reports: bool = True,
    ) -> BaseException:
        """Return the exception that the caller gets for a plugin's exception."""
        if _is_ctrl_c(error):
            return KeyboardInterrupt()
        # A plugin's own nursery wraps what it raises.
        single = error
        while _is_group(single) and len(_members(single)) == 1:
            single = _members(single)[0]
        if issubclass(type(single), passes):
            return single
        failure = self._failure(function, arguments, error)
        if reports:
            self.report(failure, arguments)
        return failure

    def _failure(
        self, function: HookImplementation, arguments: tuple[object, ...], error: BaseException
    ) -> PluginFailed:
        mask = partial(self.masked, arguments)
        if type(error) is WrongResult:
            return function.failure(message_of(error, mask))
        return function.failure(describe(error, mask), error)


def describe(error: BaseException, mask: Callable[[str], str] = str) -> str:
    """Return an exception's type and message, at most :data:`_LONGEST_REASON` characters of valid Unicode.

    Never raises, whatever the exception's class does. A group is described by its exceptions. The message is
    masked before it is cut.
    """
    leaves = list(_leaves(error))
    # Where a nursery raises both, the cancellation is the consequence of the others.
    failures = [leaf for leaf in leaves if not issubclass(type(leaf), trio.Cancelled)]
    described = []
    for leaf in (failures or leaves)[:3]:
        name, message = _name_of(leaf), message_of(leaf, mask)
        described.append(f"{name}: {message}" if message else name)
    return _shortened("; ".join(described))


def message_of(error: BaseException, mask: Callable[[str], str] = str) -> str:
    """Return an exception's message, as :func:`describe` does."""
    try:
        return _shortened(mask(str.__str__(str(error))))
    except BaseException:  # noqa: ASYNC103 -- no await, so no cancellation of ours
        return "(its message cannot be shown)"  # noqa: ASYNC104


def sentence_from(error: BaseException, mask: Callable[[str], str] = str) -> Sentence:
    """Return an exception's message, with the id and values that the plugin gave it if it is one sentence.

    Never raises; every text is masked, as in :func:`message_of`.
    """
    text = message_of(error, mask)
    try:
        messages = object.__getattribute__(error, "__dict__").get("messages", ())
        given = messages[0] if type(messages) is tuple and len(messages) == 1 else None
        if type(given) is Sentence and type(given.values) is dict:
            values = {
                mask(name): mask(value) if type(value) is str else value
                for name, value in given.values.items()
            }
            sentence = Sentence(mask(given.id), mask(given.template), **values)
            if sentence == text:
                return sentence
    except BaseException:  # noqa: ASYNC103 -- no await, so no cancellation of ours
        return sentence_of(text)  # noqa: ASYNC104
    return sentence_of(text)


def called_function(frame: FrameType) -> HookImplementation | None:
    """Return the plugin's function that a frame of the boundary calls; ``None`` for another frame.

    Calls are not recorded otherwise, because they happen for every delivery. A thread can inspect another
    thread's stack.
    """
    if frame.f_code not in _CALLS:
        return None
    found: HookImplementation | None = frame.f_locals.get("function")
    return found


_CALLS: frozenset[CodeType] = frozenset((Boundary.call.__code__, Boundary.run.__code__))


def _call(function: HookImplementation, arguments: tuple[object, ...]) -> Any:
    # The task, its cancel scopes and its context are those of all light steps. The scope repairs Trio's stack
    # of scopes if the function left one open.
    try:
        trio.lowlevel.current_task()
    except RuntimeError:  # a command, the start, or a thread
        scope: AbstractContextManager[object] = nullcontext()
    else:
        scope = trio.CancelScope()
    with scope:
        return copy_context().run(function.call, *arguments)


def _is_awaitable(answer: object) -> bool:
    # The usual answers first: the look at the abstract class costs more than many a hook.
    return (
        answer is not None
        and answer is not True
        and answer is not False
        and type(answer) is not bytes
        and isinstance(answer, Awaitable)
    )


# Exceptions. Everything about one is the plugin's code: its class, its attributes, its __str__. So these
# functions ask types, and go round what a class may override.

_members: Callable[[BaseException], tuple[BaseException, ...]] = BaseExceptionGroup.exceptions.__get__


def _is_group(error: BaseException) -> bool:
    return issubclass(type(error), BaseExceptionGroup)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    found = [error]
    while found:
        one = found.pop()
        if _is_group(one):
            found += reversed(_members(one))
        else:
            yield one


# Ctrl-C. Trio's handler, and the one below, raise KeyboardInterrupt in their own frame, which is the
# innermost one of its traceback.


def _is_ctrl_c(error: BaseException) -> bool:
    return any(type(leaf) is KeyboardInterrupt and _is_of_a_handler(leaf) for leaf in _leaves(error))


def _is_of_a_handler(interrupt: KeyboardInterrupt) -> bool:
    innermost = interrupt.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return False
    frame = innermost.tb_frame
    return (
        frame.f_code is _raise_interrupt.__code__
        or str(frame.f_globals.get("__name__")).partition(".")[0] == "trio"
    )


def _raise_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _ctrl_c() -> Iterator[None]:
    """Mark the user's Ctrl-C in a block, unless a handler other than Python's own handles it."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, _raise_interrupt)
    try:
        yield
    finally:
        # A plugin may have installed its own.
        if signal.getsignal(signal.SIGINT) is _raise_interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


# Texts.


def _name_of(error: BaseException) -> str:
    return str.__str__(type.__dict__["__name__"].__get__(type(error)))


def _shortened(text: str) -> str:
    if len(text) > _LONGEST_REASON:
        text = f"{text[:_LONGEST_REASON]}…"
    # A lone surrogate could be written neither to the store nor to a response.
    return text.encode("utf-8", "backslashreplace").decode()


def _traceback_of(error: BaseException, mask: Callable[[str], str]) -> str:
    try:
        text = mask("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    except BaseException:  # noqa: ASYNC103 -- as above
        return "(its traceback cannot be shown)"  # noqa: ASYNC104
    if len(text) > _LONGEST_TRACEBACK:
        half = _LONGEST_TRACEBACK // 2
        text = f"{text[:half]}\n…\n{text[-half:]}"
    return text
