"""The simulated clock: it moves to whatever is due next, once no task can run."""

import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.lowlevel

from tests.simulation.clock import SimulatedClock

Body = Callable[[SimulatedClock, list[str]], Awaitable[None]]


def run(body: Body) -> list[str]:
    """Run a function on a simulated clock; return what it has written down."""
    clock, lines = SimulatedClock(), list[str]()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clock.run)
            await body(clock, lines)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)
    return lines


def test_sleeps_and_deadlines_end_in_their_order() -> None:
    async def body(clock: SimulatedClock, lines: list[str]) -> None:
        async def note(name: str, sleep: Callable[[float], Awaitable[None]], seconds: float) -> None:
            await sleep(seconds)
            lines.append(f"{name} {clock.current_time():.3f}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, "sleep", clock.sleep, 3.0)
            nursery.start_soon(note, "deadline", trio.sleep, 2.0)
            nursery.start_soon(note, "pause", clock.pause, 1.0)
            nursery.start_soon(note, "checkpoint", clock.sleep, 0.0)
            nursery.start_soon(note, "instant", clock.sleep, 1e-30)

    assert run(body) == ["checkpoint 0.000", "instant 0.000", "pause 1.000", "deadline 2.000", "sleep 3.000"]


def test_a_cancelled_sleep_moves_nothing() -> None:
    async def body(clock: SimulatedClock, lines: list[str]) -> None:
        with trio.move_on_after(1):
            await clock.sleep(100)
        await clock.sleep(2)
        with trio.move_on_after(1):
            await clock.pause(10)
        lines.append(f"{clock.current_time():.3f}")

    assert run(body) == ["13.000"]


def test_sockets_come_first() -> None:
    async def body(clock: SimulatedClock, lines: list[str]) -> None:
        left, right = socket.socketpair()

        async def read() -> None:
            await trio.lowlevel.wait_readable(right)
            lines.append(f"{right.recv(1).decode()} {clock.current_time():.3f}")

        with left, right:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await clock.sleep(1)  # the other task waits for the socket now
                left.send(b"x")  # without a round of the event loop, in which Trio would see it
                await clock.sleep(5)

    assert run(body) == ["x 1.000"]


def test_a_night_passes_in_long_moves() -> None:
    async def body(clock: SimulatedClock, lines: list[str]) -> None:
        clock.stride, clock.until = 60.0, 100.0
        for _ in range(3):
            await clock.sleep(1)
            lines.append(f"{clock.current_time():.3f}")

    assert run(body) == ["60.000", "100.000", "101.000"]


def test_a_task_that_asks_how_long_it_would_sleep_moves_nothing() -> None:
    async def body(clock: SimulatedClock, lines: list[str]) -> None:
        await clock.sleep(1)
        lines.append(f"{clock.deadline_to_sleep_time(clock.current_time() + 5):.3f}")
        lines.append(f"{clock.current_time():.3f}")

    assert run(body) == ["5.000", "1.000"]


def test_a_run_in_which_all_tasks_wait_for_one_another_ends() -> None:
    async def body(_clock: SimulatedClock, _lines: list[str]) -> None:
        await trio.sleep_forever()

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="all tasks wait for one another")):
        run(body)


def test_nobody_sleeps_for_less_than_no_time() -> None:
    async def body(clock: SimulatedClock, _lines: list[str]) -> None:
        await clock.sleep(float("nan"))

    with pytest.RaisesGroup(ValueError):
        run(body)
