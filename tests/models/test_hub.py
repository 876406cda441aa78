"""The hub on real sockets: edges, ends, and numbers that are used again."""

import os
import socket
from contextlib import AsyncExitStack

import pytest
import trio

from tests.public.delivery import PlainStream, StreamBroken
from tests.public.web import ClientStream
from tests.support.watched import READ_SIZE, Counted, Kind, at_rest, both_kinds, connected, reset, running


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
async def test_a_cancelled_wait_takes_no_edge(kind: Kind) -> None:
    async with running() as world:
        with connected() as (ours, theirs):
            stream = kind(ours, world.hub)
            theirs.send(b"here")
            await at_rest()  # the hub takes the edge
            with trio.CancelScope() as scope:
                scope.cancel()
                await stream.receive()
            assert scope.cancelled_caught
            with trio.fail_after(10):
                assert await stream.receive() == b"here"


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
        number, replacements = second.fileno(), list[Counted]()

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
            replacements.append(stack.enter_context(again))
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
        assert replacements[0].reads == 0
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


@both_kinds
@pytest.mark.parametrize("is_light", [False, True])
async def test_a_closed_socket_is_waited_for_no_more(kind: Kind, *, is_light: bool) -> None:
    """Its number may be another one's by now, and no edge would come."""
    async with running() as world:
        with connected() as (ours, _):
            stream = kind(ours, world.hub)
            close = stream.close_nowait if isinstance(stream, PlainStream) else stream.abort
            close()
            seen = b"none"
            with trio.fail_after(10):
                try:
                    seen = await (world.hub.steps.go(stream.receive()) if is_light else stream.receive())
                except trio.ClosedResourceError:
                    seen = b""
            assert seen == b""
