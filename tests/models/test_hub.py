"""The hub on real sockets: edges, ends, numbers that are used again, turns, and what happens without it."""

import os
import select
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
from trio.lowlevel import current_task
from trio.testing import wait_all_tasks_blocked

from hookgw.concurrency import Hub
from hookgw.delivery import PlainStream, StreamBroken
from hookgw.delivery.http.stream import READ_SIZE
from hookgw.web.server.streams import ClientStream

Kind = type[PlainStream] | type[ClientStream]
both_kinds = pytest.mark.parametrize("kind", [PlainStream, ClientStream])


class Counted(socket.socket):
    """Counts how often it is read, and how often it has nothing."""

    reads = blocked = 0

    def recv(self, *arguments: int) -> bytes:
        self.reads += 1
        try:
            return super().recv(*arguments)
        except BlockingIOError:
            self.blocked += 1
            raise


def connect() -> tuple[Counted, socket.socket]:
    """Return the two ends of a connection over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    ours = Counted(fileno=accepted.detach())
    ours.setblocking(False)
    theirs.setblocking(False)
    theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


@contextmanager
def connected() -> Iterator[tuple[Counted, socket.socket]]:
    ours, theirs = connect()
    with ours, theirs:
        yield ours, theirs


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


async def at_rest() -> None:
    """Wait until what has been sent has arrived, and the hub has looked."""
    for _ in range(3):
        await trio.sleep(0.002)
        await wait_all_tasks_blocked()


class World:
    """A hub that runs."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.scope = trio.CancelScope()
        self.nursery: trio.Nursery
        self._makers: list[object] = []

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._makers.append(current_task())
        with self.scope:
            await self.hub.run(task_status=task_status)

    @property
    def is_light(self) -> bool:
        """Whether the caller runs in a step that the hub makes."""
        return current_task() in self._makers

    def go(self, function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Start a task that runs a function in light steps."""

        async def run() -> None:
            await self.hub.steps.go(function(*arguments))  # type: ignore[arg-type]

        self.nursery.start_soon(run)


@asynccontextmanager
async def running() -> AsyncIterator[World]:
    world = World()
    async with trio.open_nursery() as nursery:
        world.nursery = nursery
        await nursery.start(world.run)
        yield world
        nursery.cancel_scope.cancel()


# Edges.


@both_kinds
async def test_a_reader_goes_on_in_light_steps(kind: Kind) -> None:
    seen: list[tuple[bytes, bool]] = []
    async with running() as world:
        with connected() as (ours, theirs):
            stream = kind(ours, world.hub)

            async def read() -> None:
                while data := await stream.receive():
                    seen.append((data, world.is_light))
                seen.append((b"", world.is_light))

            world.go(read)
            for data in (b"one", b"two"):
                await at_rest()
                theirs.send(data)
            await at_rest()
            theirs.close()
            await at_rest()
    assert seen == [(b"one", True), (b"two", True), (b"", True)]


@both_kinds
@pytest.mark.parametrize("is_light", [False, True])
async def test_bytes_that_come_while_nobody_waits_are_read(kind: Kind, *, is_light: bool) -> None:
    seen: list[bytes] = []
    is_next = trio.Event()
    async with running() as world:
        with connected() as (ours, theirs):
            stream = kind(ours, world.hub)

            async def read() -> None:
                seen.append(await stream.receive())

            async def start() -> None:
                await (world.hub.steps.go(read()) if is_light else read())
                is_next.set()

            for data in (b"one", b"two", b"three"):
                theirs.send(data)
                await at_rest()  # the hub takes the edge
                world.nursery.start_soon(start)
                with trio.fail_after(10):
                    await is_next.wait()
                is_next = trio.Event()
    assert seen == [b"one", b"two", b"three"]


@both_kinds
async def test_bytes_between_a_read_and_the_next_wait_are_read(kind: Kind) -> None:
    seen: list[bytes] = []
    async with running() as world:
        with connected() as (ours, theirs):
            stream = kind(ours, world.hub)

            async def read() -> None:
                seen.append(await stream.receive())
                theirs.send(b"two")  # within the light step
                seen.append(await stream.receive())

            world.go(read)
            await at_rest()
            theirs.send(b"one")
            await at_rest()
    assert seen == [b"one", b"two"]


@both_kinds
@pytest.mark.parametrize("more", [0, 1, READ_SIZE, 5 * READ_SIZE + 7])
async def test_a_read_that_got_all_it_asked_for_is_followed_by_another(kind: Kind, more: int) -> None:
    """No other edge comes for what is there already."""
    data, received = os.urandom(2 * READ_SIZE + more), b""
    async with running() as world:
        with connected() as (ours, theirs):
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
            stream = kind(ours, world.hub)

            async def read() -> None:
                nonlocal received
                while len(received) < len(data):
                    received += await stream.receive()

            theirs.setblocking(True)
            theirs.sendall(data)
            await at_rest()
            world.go(read)
            await at_rest()
            assert received == data
            theirs.send(b"last")
            data += b"last"
            world.go(read)
            await at_rest()
    assert received == data


@both_kinds
@pytest.mark.parametrize("waits_first", [False, True])
async def test_the_end_may_come_in_one_edge_with_the_last_bytes(kind: Kind, *, waits_first: bool) -> None:
    seen: list[bytes] = []
    async with running() as world:
        with connected() as (ours, theirs):
            stream = kind(ours, world.hub)

            async def read() -> None:
                seen.extend([await stream.receive() for _ in range(3)])

            if waits_first:
                world.go(read)
                await at_rest()
            theirs.send(b"last")
            theirs.shutdown(socket.SHUT_WR)
            if not waits_first:
                await at_rest()
                world.go(read)
            await at_rest()
            assert seen == [b"last", b"", b""]  # the end stays true
            stream.send_nowait(b"the response")  # the client has ended only its side
            await at_rest()
            assert theirs.recv(100) == b"the response"


async def test_a_reset_between_two_reads_breaks_the_stream_of_a_receiver() -> None:
    seen: list[object] = []
    async with running() as world:
        with connected() as (ours, theirs):
            stream = PlainStream(ours, world.hub)

            async def read() -> None:
                seen.append(await stream.receive())
                try:
                    await stream.receive()
                except StreamBroken as error:
                    seen.append(str(error))
                seen.append(await stream.receive())

            world.go(read)
            await at_rest()
            theirs.send(b"one")
            reset(theirs)
            await at_rest()
    assert seen == [b"one", "Connection reset by peer", b""]


async def test_a_reset_between_two_reads_ends_the_stream_of_a_client() -> None:
    seen: list[object] = []
    async with running() as world:
        with connected() as (ours, theirs):
            stream = ClientStream(ours, world.hub)

            async def read() -> None:
                seen.extend([await stream.receive() for _ in range(3)])

            world.go(read)
            await at_rest()
            theirs.send(b"one")
            await at_rest()
            reset(theirs)
            await at_rest()
    assert seen == [b"one", b"", b""]


async def test_stop_receiving_ends_a_wait_and_later_ones() -> None:
    seen: list[bytes] = []
    async with running() as world:
        with connected() as (ours, theirs):
            stream = ClientStream(ours, world.hub)

            async def read() -> None:
                seen.extend([await stream.receive() for _ in range(2)])

            world.go(read)
            await at_rest()
            stream.stop_receiving()
            await at_rest()
            assert seen == [b"", b""]
            stream.send_nowait(b"too late")
            await at_rest()
            assert theirs.recv(100) == b"too late"


async def test_a_reader_that_finds_nothing_waits_for_the_next_edge() -> None:
    """What an edge announced was read before it was noted."""
    seen: list[bytes] = []
    async with running() as world:
        with connected() as (ours, theirs):
            stream = PlainStream(ours, world.hub)
            theirs.send(b"one")
            await at_rest()  # the edge is kept
            assert socket.socket.recv(ours, 100) == b"one"

            async def read() -> None:
                seen.append(await stream.receive())

            world.go(read)
            await at_rest()
            assert (seen, ours.blocked) == ([], 1)
            theirs.send(b"two")
            await at_rest()
            assert (seen, ours.blocked) == ([b"two"], 1)


# Numbers of sockets.


@both_kinds
async def test_a_number_that_is_used_again_within_one_look_means_the_new_socket(kind: Kind) -> None:
    seen: list[tuple[str, bytes]] = []
    async with running() as world, AsyncExitStack() as stack:
        (first, to_first), (second, to_second), (third, to_third) = (
            stack.enter_context(connected()) for _ in range(3)
        )
        streams = [kind(first, world.hub), kind(second, world.hub)]
        number = second.fileno()

        async def read(name: str, stream: PlainStream | ClientStream) -> None:
            try:
                data = await stream.receive()
            except trio.ClosedResourceError:
                data = b""
            seen.append((name, data))

        async def replace() -> None:
            await streams[0].receive()
            streams[1].close_nowait() if isinstance(streams[1], PlainStream) else streams[1].abort()
            os.dup2(third.fileno(), number)
            again = Counted(fileno=number)
            again.setblocking(False)
            stack.enter_context(again)
            seen.append(("replaced", b""))
            streams.append(kind(again, world.hub))
            world.go(read, "third", streams[2])

        world.go(replace)
        world.go(read, "second", streams[1])
        await at_rest()
        to_first.send(b"x")
        to_second.send(b"x")
        await at_rest()
        assert sorted(seen) == [("replaced", b""), ("second", b"")]
        assert streams[2]._sock.reads == 0 if kind is PlainStream else streams[2].socket.reads == 0
        to_third.send(b"for the third")
        await at_rest()
        assert ("third", b"for the third") in seen


@both_kinds
async def test_a_socket_that_is_closed_within_one_look_is_not_woken(kind: Kind) -> None:
    seen: list[bytes] = []
    async with running() as world, AsyncExitStack() as stack:
        (first, to_first), (second, to_second) = (stack.enter_context(connected()) for _ in range(2))
        streams = [kind(first, world.hub), kind(second, world.hub)]

        async def close(mine: int, other: int) -> None:
            seen.append(await streams[mine].receive())
            stream = streams[other]
            stream.close_nowait() if isinstance(stream, PlainStream) else stream.abort()

        world.go(close, 0, 1)
        await at_rest()
        to_first.send(b"x")
        to_second.send(b"x")
        await at_rest()
        to_first.send(b"y")
        world.go(close, 0, 1)
        await at_rest()
    assert seen == [b"x", b"y"]


async def test_a_closed_socket_of_which_there_is_a_copy_wakes_nobody() -> None:
    """A process that is started at the same moment may hold one for a while."""
    seen: list[bytes] = []
    async with running() as world, AsyncExitStack() as stack:
        (former, to_former), (new, to_new) = (stack.enter_context(connected()) for _ in range(2))
        number, copy = former.fileno(), former.dup()
        stack.enter_context(copy)
        PlainStream(former, world.hub).close_nowait()
        os.dup2(new.fileno(), number)
        again = stack.enter_context(Counted(fileno=number))
        again.setblocking(False)
        stream = PlainStream(again, world.hub)

        async def read() -> None:
            seen.append(await stream.receive())

        world.go(read)
        await at_rest()
        to_former.send(b"for nobody")
        await at_rest()
        assert (seen, again.reads) == ([], 0)
        to_new.send(b"for the new one")
        await at_rest()
    assert seen == [b"for the new one"]


@both_kinds
async def test_closing_ends_a_wait(kind: Kind) -> None:
    seen: list[object] = []
    async with running() as world:
        with connected() as (ours, _):
            stream = kind(ours, world.hub)

            async def read() -> None:
                try:
                    seen.append(await stream.receive())
                except trio.ClosedResourceError:
                    seen.append(b"")

            world.go(read)
            await at_rest()
            for _ in range(2):
                stream.close_nowait() if isinstance(stream, PlainStream) else stream.abort()
            await at_rest()
    assert seen == [b""]


# Turns.


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
                    await trio.sleep(0.001)
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
async def test_bytes_that_come_with_an_interruption_are_read_afterwards(*, is_light: bool) -> None:
    """A response at the deadline: the edge has been noted, and no other one comes."""
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
        assert seen == ["interrupted"]
        stream.resume_nowait()
        world.go(read)
        await at_rest()
    assert seen == ["interrupted", b"late"]


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


class Full:
    """An epoll of a user who may watch no more sockets."""

    def __init__(self) -> None:
        self._epoll = select_epoll()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)

    def register(self, fileno: int, events: int) -> None:
        raise OSError(28, "No space left on device")


select_epoll = select.epoll


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
