"""TLS handshakes: computed in threads, which holders share."""

import ssl
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import trio
import trio.testing
import trustme

from tests.public.concurrency import SystemThreads
from tests.public.delivery import HandshakeHandshake as Handshake
from tests.support.waits import until

T = TypeVar("T")
AUTHORITY = trustme.CA()
Ends = tuple[Handshake[Any], Handshake[Any]]


class HeldThreads(SystemThreads):
    """Threads in which a call waits until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.waiting: list[trio.Event] = []

    async def run(self, call: Callable[[], T], **options: Any) -> T:
        self.waiting.append(trio.Event())
        await self.waiting[-1].wait()

        def noted() -> T:
            self.names.append(threading.current_thread().name)
            return call()

        return await super().run(noted, **options)


def ends(*, trusted: bool = True, threads: Any = None, oldest: ssl.TLSVersion | None = None) -> Ends:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("here.example").configure_cert(server)
    client = ssl.create_default_context()
    if oldest is not None:
        server.minimum_version, client.maximum_version = oldest, ssl.TLSVersion.TLSv1_2
    if trusted:
        AUTHORITY.configure_trust(client)
    left, right = trio.testing.memory_stream_pair()
    more = {} if threads is None else {"threads": threads}
    return (
        Handshake(left, client, server_hostname="here.example", **more),
        Handshake(right, server, server_side=True, **more),
    )


async def connect(client: Handshake[Any], server: Handshake[Any], holder: str = "") -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, holder)
        nursery.start_soon(server.run, "client")


async def test_both_ends_can_talk() -> None:
    client, server = ends()
    await connect(client, server)
    await client.stream.send_all(b"hello")
    assert await server.stream.receive_some(10) == b"hello"
    assert client.stream.version() == "TLSv1.3"


async def test_a_certificate_that_is_refused_is_the_cause_of_the_failure() -> None:
    client, server = ends(trusted=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run, "client")
        with pytest.raises(trio.BrokenResourceError) as failed:
            await client.run("shop")
        nursery.cancel_scope.cancel()
    assert isinstance(failed.value.__cause__, ssl.SSLCertVerificationError)


async def fail(both: Ends, end: int) -> str | None:
    """Do a handshake that fails, and return why, as one of its ends has it."""
    causes: dict[int, BaseException | None] = {}

    async def run(number: int) -> None:
        with pytest.raises(trio.BrokenResourceError) as failed:
            await both[number].run("shop")
        causes[number] = failed.value.__cause__
        await both[number].stream.transport_stream.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, 0)
        nursery.start_soon(run, 1)
    return getattr(causes[end], "reason", None)


async def test_the_server_learns_why_the_client_refused_it() -> None:
    assert await fail(ends(trusted=False), 1) == "TLSV1_ALERT_UNKNOWN_CA"


async def test_the_client_learns_why_the_server_refused_it() -> None:
    assert await fail(ends(oldest=ssl.TLSVersion.TLSv1_3), 0) == "TLSV1_ALERT_PROTOCOL_VERSION"


@pytest.mark.parametrize("end", [0, 1])
async def test_an_end_in_the_middle_is_a_failure(end: int) -> None:
    both = ends()
    await both[1 - end].stream.transport_stream.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await both[end].run("shop")


async def test_what_the_other_side_chooses_is_computed_in_threads() -> None:
    threads = HeldThreads()
    client, server = ends(threads=threads)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect, client, server)
        for _ in range(3):  # two steps of the server, and one of the client
            with trio.fail_after(10):
                while not (waiting := [one for one in threads.waiting if not one.is_set()]):  # noqa: ASYNC110
                    await trio.sleep(0.001)
                waiting[0].set()
                await until(lambda: len(threads.names) >= sum(one.is_set() for one in threads.waiting))
    assert len(threads.names) == 3
    assert threading.current_thread().name not in threads.names


async def test_one_holder_leaves_a_thread_to_others() -> None:
    threads = HeldThreads()
    async with trio.open_nursery() as nursery:
        servers = []
        for _ in range(5):
            client, server = ends(threads=threads)
            nursery.start_soon(client.run, "shop")
            servers.append(server)
            nursery.start_soon(server.run, "greedy")
        await trio.testing.wait_all_tasks_blocked()
        assert len(threads.waiting) == 1
        client, server = ends(threads=threads)
        nursery.start_soon(client.run, "shop")
        nursery.start_soon(server.run, "quiet")
        await trio.testing.wait_all_tasks_blocked()
        assert len(threads.waiting) == 2
        nursery.cancel_scope.cancel()
    # Whoever was cancelled has given its place back.
    await connect(*ends())
