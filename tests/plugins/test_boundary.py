"""The boundary around plugins, against everything that a plugin's code can raise and return."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, NoReturn

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Invalid
from tests.public.kernel import PluginFailed
from tests.public.plugins import Boundary, HookImplementation, WrongResult, called_function
from tests.public.plugins import describe_plugin_error as describe
from tests.support.exceptions import stray_cancelled


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit(9)

    __repr__ = __str__


class Own(BaseException):
    pass


class OwnGroup(BaseExceptionGroup[BaseException]):
    def derive(self, excs: object, /) -> NoReturn:
        raise SystemExit(8)


RAISED: list[Callable[[], BaseException]] = [
    lambda: ValueError("boom"),
    lambda: SystemExit(3),
    lambda: KeyboardInterrupt(),
    lambda: GeneratorExit(),
    lambda: StopIteration(1),
    lambda: asyncio.CancelledError(),
    lambda: Own("boom"),
    lambda: BaseExceptionGroup("all", [Own(), SystemExit(1), KeyboardInterrupt(), ValueError()]),
    lambda: OwnGroup("own", [Own(), ValueError()]),
    Unprintable,
    lambda: ExceptionGroup("one", [ExceptionGroup("two", [Unprintable()])]),
    lambda: ValueError("x" * 1_000_000),
    lambda: ValueError("half of a surrogate pair \ud800"),
]


def function(call: Callable[..., Any], hook: str = "hookgw_filter") -> HookImplementation:
    return HookImplementation(plugin="mine", hook=hook, call=call)


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def plain() -> NoReturn:
        raise error

    return plain


def raising_later(error: BaseException) -> Callable[[], Awaitable[NoReturn]]:
    async def later() -> NoReturn:
        await trio.lowlevel.checkpoint()
        raise error

    return later


def raising_in_a_nursery(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def in_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(raising_later(error))

    return in_a_nursery


@pytest.fixture
def failures() -> list[PluginFailed]:
    return []


@pytest.fixture
def boundary(failures: list[PluginFailed]) -> Boundary:
    return Boundary(failures.append)


@pytest.mark.parametrize("form", [raising, raising_later])
@pytest.mark.parametrize("make", RAISED)
async def test_whatever_is_raised_is_the_plugins_failure(
    boundary: Boundary, failures: list[PluginFailed], form: Any, make: Callable[[], BaseException]
) -> None:
    with structlog.testing.capture_logs() as logs, pytest.raises(PluginFailed) as caught:
        await boundary.run(function(form(make())))
    assert failures == [caught.value]
    assert (caught.value.plugin, caught.value.hook) == ("mine", "hookgw_filter")
    assert [(entry["plugin"], entry["hook"]) for entry in logs] == [("mine", "hookgw_filter")]
    assert len(caught.value.reason) < 600
    assert len(logs[0]["exception"]) < 20_000
    caught.value.reason.encode()


@pytest.mark.parametrize("make", RAISED)
def test_plain_calls_outside_of_trio_contain_the_same(
    boundary: Boundary, failures: list[PluginFailed], make: Callable[[], BaseException]
) -> None:
    with pytest.raises(PluginFailed) as caught:
        boundary.call(function(raising(make())))
    assert failures == [caught.value]


def test_the_traceback_of_a_call_outside_of_trio_is_the_plugins_alone(boundary: Boundary) -> None:
    error = ValueError("boom")
    with pytest.raises(PluginFailed):
        boundary.call(function(raising(error)))
    assert error.__context__ is None


async def test_a_failure_is_described_without_the_nursery_around_it(boundary: Boundary) -> None:
    with pytest.raises(PluginFailed, match=r"hookgw_filter: ValueError: boom$"):
        await boundary.run(function(raising_in_a_nursery(ValueError("boom"))))


@pytest.mark.parametrize("form", [raising, raising_later])
@pytest.mark.parametrize("in_a_group", [False, True])
async def test_a_stray_cancelled_is_the_plugins_failure(
    boundary: Boundary, form: Any, in_a_group: bool
) -> None:
    error = await stray_cancelled()
    if in_a_group:
        error = BaseExceptionGroup("both", [error, ValueError("boom")])
    with pytest.raises(PluginFailed, match="ValueError: boom$" if in_a_group else "Cancelled"):
        await boundary.run(function(form(error)))
    await trio.lowlevel.checkpoint()


async def test_a_nursery_that_ends_by_a_stray_cancelled_is_the_plugins_own(boundary: Boundary) -> None:
    # Trio's nursery takes the Cancelled of a child for its own cancellation, and ends without an error.
    await boundary.run(function(raising_in_a_nursery(await stray_cancelled())))


async def test_a_timeout_ends_the_call_and_is_a_failure(
    boundary: Boundary, autojump_clock: MockClock
) -> None:
    with pytest.raises(PluginFailed, match=r"it took longer than 3s \(plugins.hook_timeout\)"):
        await boundary.run(function(trio.sleep_forever), timeout=3)
    assert trio.current_time() == 3


async def test_cancellation_from_outside_passes_through(
    boundary: Boundary, failures: list[PluginFailed]
) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(boundary.run, function(trio.sleep_forever))
            await wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert failures == []


@pytest.mark.parametrize("make", RAISED)
async def test_what_is_raised_during_cancellation_is_reported_and_does_not_replace_it(
    boundary: Boundary, failures: list[PluginFailed], make: Callable[[], BaseException]
) -> None:
    async def fail_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise make()

    after = False
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(boundary.run, function(fail_at_the_end))
            await wait_all_tasks_blocked()
            scope.cancel()
        after = True
    assert scope.cancelled_caught
    assert not after
    assert [failure.plugin for failure in failures] == ["mine"]


async def test_a_cancelled_of_another_scope_does_not_leave_with_the_real_one(boundary: Boundary) -> None:
    stray = await stray_cancelled()

    async def replace() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise stray

    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(trio.Cancelled) as caught:
            await boundary.run(function(replace))
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert caught.value is not stray


async def test_a_scope_that_a_plugin_leaves_open_cancels_nobody_else(boundary: Boundary) -> None:
    async def leave_a_scope() -> None:
        trio.CancelScope(deadline=trio.current_time()).__enter__()
        await trio.lowlevel.cancel_shielded_checkpoint()

    with pytest.raises(PluginFailed, match="Cancel scope stack corrupted"):
        await boundary.run(function(leave_a_scope))
    await trio.lowlevel.checkpoint()


async def called(boundary: Boundary, call: str, code: Callable[[], Any]) -> Any:
    return await boundary.run(function(code)) if call == "run" else boundary.call(function(code))


@pytest.mark.parametrize("call", ["run", "call"])
async def test_a_scope_that_a_plain_function_leaves_open_cancels_nobody_else(
    boundary: Boundary, call: str
) -> None:
    def leave_a_scope() -> None:
        trio.CancelScope(deadline=trio.current_time()).__enter__()

    with pytest.raises(PluginFailed, match="Cancel scope stack corrupted"):
        await called(boundary, call, leave_a_scope)
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("call", ["run", "call"])
async def test_what_a_plain_function_sets_in_its_context_stays_there(boundary: Boundary, call: str) -> None:
    """Light steps share one context: the name of one tenant would appear in the work of another."""
    variable = ContextVar("variable", default="")

    def note() -> str:
        found = variable.get()
        variable.set("seen")
        return found

    for _ in range(2):
        assert await called(boundary, call, note) == ""
    assert variable.get() == ""


async def test_an_awaitable_of_another_library_is_a_failure(boundary: Boundary) -> None:
    class Foreign:
        def __await__(self) -> Any:
            yield "not Trio's"

    async def wait() -> None:
        await Foreign()

    with pytest.raises(PluginFailed, match="TypeError"):
        await boundary.run(function(wait))


async def test_a_check_runs_inside_of_the_boundary(boundary: Boundary) -> None:
    class Hostile:
        def __eq__(self, other: object) -> bool:
            raise KeyboardInterrupt

        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(PluginFailed, match="KeyboardInterrupt"):
        await boundary.run(function(Hostile), check=lambda answer: answer == 1)
    with pytest.raises(PluginFailed, match=r"hookgw_filter: it is 2$"):
        await boundary.run(function(lambda: 2), check=raise_wrong)
    assert await boundary.run(function(lambda: 2), check=lambda answer: answer + 1) == 3


def raise_wrong(answer: object) -> NoReturn:
    raise WrongResult(f"it is {answer}")


async def test_exceptions_of_the_contract_pass_also_out_of_a_nursery(
    boundary: Boundary, failures: list[PluginFailed]
) -> None:
    refusal = Invalid("no")
    for form in (raising, raising_later, raising_in_a_nursery):
        with pytest.raises(Invalid) as caught:
            await boundary.run(function(form(refusal)), passes=(Invalid,))
        assert caught.value is refusal
    with pytest.raises(Invalid):
        boundary.call(function(raising(refusal)), passes=(Invalid,))
    assert failures == []


def test_a_plain_call_refuses_an_awaitable(boundary: Boundary) -> None:
    with pytest.raises(PluginFailed, match="cannot be async"):
        boundary.call(function(trio.sleep_forever))


async def test_ctrl_c_inside_of_trio_passes_through(boundary: Boundary, failures: list[PluginFailed]) -> None:
    with pytest.raises(KeyboardInterrupt):
        await boundary.run(function(lambda: signal.raise_signal(signal.SIGINT)))
    assert failures == []


def test_ctrl_c_outside_of_trio_passes_through(boundary: Boundary, failures: list[PluginFailed]) -> None:
    with pytest.raises(KeyboardInterrupt):
        boundary.call(function(lambda: signal.raise_signal(signal.SIGINT)))
    assert failures == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_that_a_plugin_installs_stays(boundary: Boundary) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        boundary.call(function(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN) and None))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_process_in_which_a_plugin_waits() -> None:
    program = (
        "import time\n"
        "from hookgw.plugins.boundary import Boundary\n"
        "from hookgw.plugins.hook_implementation import HookImplementation\n"
        "def wait():\n"
        "    print('waiting', flush=True)\n"
        "    while True:\n"
        "        time.sleep(0.1)\n"  # one long sleep does not see a signal that comes right before it
        "Boundary().call(HookImplementation(plugin='slow', hook='import', call=wait))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT


def test_descriptions() -> None:
    assert describe(ValueError("boom")) == "ValueError: boom"
    assert describe(ExceptionGroup("two", [KeyError("k"), ExceptionGroup("", [OSError("no")])])) == (
        "KeyError: 'k'; OSError: no"
    )
    assert describe(Unprintable()) == "Unprintable: (its message cannot be shown)"
    assert describe(ValueError("\ud800")) == "ValueError: \\ud800"


async def test_the_stack_tells_which_function_runs(boundary: Boundary) -> None:
    seen: list[HookImplementation | None] = []

    def look() -> None:
        frame: FrameType | None = sys._getframe()
        while frame is not None and called_function(frame) is None:
            frame = frame.f_back
        seen.append(frame and called_function(frame))

    async def look_later() -> None:
        await trio.lowlevel.checkpoint()
        look()

    plain, later = function(look), function(look_later, "hookgw_transform")
    await boundary.run(plain)
    await boundary.run(later)
    boundary.call(plain)
    look()
    assert seen == [plain, later, plain, None]
