"""The hub on real sockets: turns, interruption, cancellation, and what happens without it."""

import select
import socket
from contextlib import AsyncExitStack

import pytest
import trio

from tests.public.concurrency import Hub
from tests.public.delivery import PlainStream
from tests.public.web import ClientStream
from tests.support.watched import READ_SIZE, Full, Kind, World, at_rest, both_kinds, connected, running


@both_kinds
async def test_a_source_that_never_ends_has_no_more_than_its_turn(kind: Kind) -> None:
    seen: list[str] = []
    async with running() as world, AsyncExitStack() as stack:
        (endless, to_endless), (short, to_short) = (stack.enter_context(connected()) for _ in range(2))
        endless.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
        streams = kind(endless, world.hub), kind(short, world.hub)
        ticks = 0

        async def read(name: str, number: int) -> None:
            while await streams[number].receive():
                seen.append(name)
                if name == "short":
                    to_short.send(b"y")  # and again, at once

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                seen.append("task")
                await trio.lowlevel.checkpoint()

        to_endless.setblocking(True)
        to_endless.sendall(b"x" * 20 * READ_SIZE)
        world.go(read, "endless", 0)
        world.go(read, "short", 1)
        await trio.testing.wait_all_tasks_blocked() if not seen else None
        seen.clear()
        to_endless.send(b"x")
        to_short.send(b"y")
        world.nursery.start_soon(tick)
        while ticks < 50:
            await trio.lowlevel.checkpoint()
    assert seen.count("short") >= 5


async def test_more_sockets_than_one_look_takes_are_all_served() -> None:
    seen: set[int] = set()
    async with running() as world, AsyncExitStack() as stack:
        pairs = [stack.enter_context(connected()) for _ in range(150)]

        async def read(number: int, stream: PlainStream) -> None:
            await stream.receive()
            seen.add(number)

        for number, (ours, _) in enumerate(pairs):
            world.go(read, number, PlainStream(ours, world.hub))
        await at_rest()
        for _, theirs in pairs:
            theirs.send(b"x")
        await at_rest()
    assert len(seen) == 150


async def test_nothing_is_read_before_it_is_wanted() -> None:
    """The other side is held up by TCP, and the hub holds no bytes."""
    async with running() as world:
        with connected() as (ours, theirs):
            stream = PlainStream(ours, world.hub)
            sent = received = 0
            while True:
                try:
                    sent += theirs.send(b"x" * 65536)
                except BlockingIOError:
                    await at_rest()
                    try:
                        sent += theirs.send(b"x" * 65536)
                    except BlockingIOError:
                        break
            assert ours.reads == 0

            async def read() -> None:
                nonlocal received
                while received < sent:
                    received += len(await stream.receive())

            world.go(read)
            with trio.fail_after(30):
                while received < sent:
                    await at_rest()
            assert theirs.send(b"y") == 1


# Interruption and cancellation.


async def test_an_interrupted_stream_stays_open() -> None:
    seen: list[object] = []
    async with running() as world:
        with connected() as (ours, theirs):
            stream = PlainStream(ours, world.hub)

            async def read() -> None:
                try:
                    seen.append(await stream.receive())
                except trio.ClosedResourceError:
                    seen.append("interrupted")

            world.go(read)
            await at_rest()
            stream.interrupt_nowait()
            world.go(read)  # until it may be read again
            await at_rest()
            assert seen == ["interrupted", "interrupted"]
            stream.resume_nowait()
            world.go(read)
            await at_rest()
            theirs.send(b"late")
            await at_rest()
    assert seen[2:] == [b"late"]


@pytest.mark.parametrize("is_light", [False, True])
async def test_bytes_that_came_before_an_interruption_are_read(*, is_light: bool) -> None:
    """A response at the deadline: it has come in time, although nobody has read it yet."""
    seen: list[object] = []
    async with running() as world, AsyncExitStack() as stack:
        (first, to_first), (second, to_second) = (stack.enter_context(connected()) for _ in range(2))
        timer, stream = PlainStream(first, world.hub), PlainStream(second, world.hub)

        async def interrupt() -> None:
            await timer.receive()
            stream.interrupt_nowait()

        async def read() -> None:
            try:
                seen.append(await stream.receive())
            except trio.ClosedResourceError:
                seen.append("interrupted")

        world.go(interrupt)
        if is_light:
            world.go(read)
        else:
            world.nursery.start_soon(read)
        await at_rest()
        to_first.send(b"x")
        to_second.send(b"late")  # both in one look, and the timer's step is first
        await at_rest()
        assert seen == [b"late"]
        world.go(read)  # nothing more has come
        await at_rest()
    assert seen == [b"late", "interrupted"]


@both_kinds
async def test_a_cancelled_read_takes_no_bytes(kind: Kind) -> None:
    seen: list[object] = []
    async with running() as world:
        with connected() as (ours, theirs):
            stream = kind(ours, world.hub)

            async def read() -> None:
                try:
                    seen.append(await stream.receive())
                except trio.Cancelled:
                    seen.append(("cancelled", world.is_light))
                    raise

            with trio.move_on_after(0.01):
                await world.hub.steps.go(read())
            theirs.send(b"one")
            await at_rest()
            world.go(read)
            await at_rest()
    assert seen == [("cancelled", False), b"one"]


@both_kinds
@pytest.mark.parametrize("is_light", [False, True])
async def test_a_read_whose_bytes_are_there_is_not_cancelled(kind: Kind, *, is_light: bool) -> None:
    seen: list[object] = []
    scope = trio.CancelScope()
    async with running() as world, AsyncExitStack() as stack:
        (first, to_first), (second, to_second) = (stack.enter_context(connected()) for _ in range(2))
        timer, stream = kind(first, world.hub), kind(second, world.hub)

        async def cancel() -> None:
            await timer.receive()
            scope.cancel()

        async def read() -> None:
            seen.append(await stream.receive())
            await trio.lowlevel.checkpoint()
            seen.append("not cancelled")

        async def task() -> None:
            with scope:
                await (world.hub.steps.go(read()) if is_light else read())

        world.go(cancel)
        world.nursery.start_soon(task)
        await at_rest()
        to_first.send(b"x")
        to_second.send(b"one")
        await at_rest()
    assert seen == [b"one"]
    assert scope.cancelled_caught


# Without a hub, and after it.


@both_kinds
async def test_a_system_without_epoll_waits_in_the_ordinary_way(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(select, "epoll")
    await _reads_without(kind, Hub())


@both_kinds
async def test_a_hub_that_is_off_waits_in_the_ordinary_way(kind: Kind) -> None:
    await _reads_without(kind, Hub(is_on=False))


async def _reads_without(kind: Kind, hub: Hub) -> None:
    seen: list[bytes] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(hub.run)
        assert not hub.is_running
        with connected() as (ours, theirs):
            stream = kind(ours, hub)

            async def read() -> None:
                while data := await stream.receive():
                    seen.append(data)

            nursery.start_soon(hub.steps.go, read())
            await at_rest()
            theirs.send(b"one")
            await at_rest()
            theirs.close()
            await at_rest()
        nursery.cancel_scope.cancel()
    assert seen == [b"one"]


@both_kinds
async def test_after_the_end_of_the_hub_open_sockets_are_read_on(kind: Kind) -> None:
    seen: list[bytes] = []
    async with running() as world, AsyncExitStack() as stack:
        (first, to_first), (second, to_second) = (stack.enter_context(connected()) for _ in range(2))

        async def read(stream: PlainStream | ClientStream) -> None:
            while data := await stream.receive():
                seen.append(data)
            assert not world.is_light

        watched = kind(first, world.hub)
        world.go(read, watched)
        await at_rest()
        world.scope.cancel()
        to_first.send(b"at the end")
        await at_rest()
        to_first.send(b"after it")
        await at_rest()
        world.go(read, kind(second, world.hub))
        to_second.send(b"a new one")
        await at_rest()
        to_first.close()
        to_second.close()
        await at_rest()
        watched.close_nowait() if isinstance(watched, PlainStream) else watched.abort()
    assert seen == [b"at the end", b"after it", b"a new one"]


async def test_a_socket_from_before_the_hub_runs_is_read() -> None:
    seen: list[bytes] = []
    hub = Hub()
    with connected() as (ours, theirs):
        stream = PlainStream(ours, hub)

        async def read() -> None:
            seen.extend([await stream.receive() for _ in range(2)])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hub.steps.go, read())
            await at_rest()
            await nursery.start(hub.run)
            theirs.send(b"one")
            await at_rest()
            theirs.send(b"two")
            await at_rest()
            nursery.cancel_scope.cancel()
    assert seen == [b"one", b"two"]


async def test_a_socket_that_cannot_be_watched_waits_in_the_ordinary_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(select, "epoll", Full)
    world = World()
    seen: list[bytes] = []
    monkeypatch.undo()
    async with trio.open_nursery() as nursery:
        world.nursery = nursery
        await nursery.start(world.run)
        with connected() as (ours, theirs):
            stream = PlainStream(ours, world.hub)

            async def read() -> None:
                while data := await stream.receive():
                    seen.append(data)

            world.go(read)
            await at_rest()
            theirs.send(b"one")
            await at_rest()
            theirs.close()
            await at_rest()
            stream.close_nowait()
        nursery.cancel_scope.cancel()
    assert seen == [b"one"]
