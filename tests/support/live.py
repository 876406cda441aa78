"""A gateway with its HTTP interface, and receivers, in a thread of their own: for tests that are not async.

Hypothesis runs its examples one after the other in a plain function, and starting a gateway costs more than
a hundred examples do. So one gateway serves them all: the test calls it over HTTP as anybody would, moves
its clock, and restarts it on its data file. Sockets and disk are real, time is not (see ``docs/testing.md``).
"""

from __future__ import annotations

import http.client
import queue
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import trio
from trio.testing import MockClock

from hookgw.testing import GatewayKit, Receiver, open_kit, open_receiver
from tests.public.config import ServerSettings
from tests.public.web import AppApplication as Application
from tests.public.web import serve
from tests.support.application import create_app

T = TypeVar("T")

JSON = "application/json"
LINES = "application/x-ndjson"
PATIENCE = 30.0
"""Real seconds that an answer, a start and an end may take."""


@dataclass(frozen=True)
class Reply:
    """An answer: its status, headers (names in lower case) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.body)

    @property
    def messages(self) -> list[str]:
        """The sentences of an error, whose one shape is checked."""
        body = self.json
        assert body["status"] == self.status >= 400, body
        messages = body["response"]["message"]
        assert messages, body
        assert all(isinstance(message, str) and message for message in messages), body
        return list(messages)


class Live:
    """What :func:`running` gives. All of it is called from outside of the thread.

    Attributes:
        app: the application that is served now.
        receivers: running, in the gateway's thread.
        port: where the HTTP interface listens; another one after each restart.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.receivers: list[Receiver] = []
        self.port = 0
        self.app: Application
        self._folder = folder
        self._settings = settings
        self._kit: GatewayKit
        self._nursery: trio.Nursery
        self._stop = trio.Event()
        self._stopped = trio.Event()
        self._over = trio.Event()
        self._token: trio.lowlevel.TrioToken

    @property
    def key(self) -> str:
        return self._kit.key

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Call an async function in the gateway's thread, and wait for it."""
        return trio.from_thread.run(function, *args, trio_token=self._token)

    def settled(self) -> None:
        """Wait until every lane is at rest; see :meth:`hookgw.testing.GatewayKit.settled`."""
        self.run(self._kit.settled)

    def advance(self, seconds: float) -> None:
        """Let time pass, and what it brings about happen."""
        self.run(self._kit.advance, seconds)

    def restart(self) -> None:
        """Close the gateway in good order, and open it again on the same data."""
        self.run(self._restart)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | None = None,
        content_type: str = JSON,
        key: str | Literal[False] | None = None,
        headers: Mapping[str, str] = {},
    ) -> Reply:
        """One request on a connection of its own.

        Args:
            body: encoded as JSON; nothing is sent for ``None``.
            content: the bytes of the body, in place of ``body``.
            content_type: of the body, where there is one.
            key: by default the global one; ``False`` sends none.
            headers: further ones.
        """
        given = {"connection": "close", **headers}
        if key is not False:
            given["apikey"] = self.key if key is None else key
        if content is None and body is not None:
            content = msgspec.json.encode(body)
        if content is not None:
            given = {"content-type": content_type, **given}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, content, given)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, names, answer.read())
        finally:
            connection.close()

    def send(self, data: bytes, *, ends: bool = True) -> bytes:
        """Send bytes on a connection of their own.

        Args:
            data: what to send.
            ends: say that nothing more comes, and read to the end; else read the first part of an answer.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            received = b""
            try:
                self._send_all(connection, data)
                if not ends:
                    return connection.recv(2**16)
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                while more := connection.recv(2**16):
                    received += more
            except ConnectionError:
                pass  # cut off: what came before that counts
            return received

    def _send_all(self, connection: socket.socket, data: bytes) -> None:
        """Send bytes until hookgw closes. It waits on its own clock until a response is acknowledged."""
        rest = memoryview(data)
        connection.settimeout(0.5)
        for _ in range(60):
            try:
                while rest:
                    rest = rest[connection.send(rest) :]
            except TimeoutError:
                self.advance(1)
            except ConnectionError:  # the response may have come before
                break
            else:
                break
        connection.settimeout(PATIENCE)

    async def main(self, receivers: int, ready: Callable[[Live], None]) -> None:
        """All that happens in the thread."""
        self._token = trio.lowlevel.current_trio_token()
        async with AsyncExitStack() as stack:
            for _ in range(receivers):
                self.receivers.append(await stack.enter_async_context(open_receiver()))
            async with trio.open_nursery() as self._nursery:
                await self._nursery.start(self._live)
                ready(self)
                await self._over.wait()
                self._stop.set()

    async def _live(self, *, task_status: trio.TaskStatus[None]) -> None:
        """The gateway, from its start to its end."""
        settings = ServerSettings(bind=("127.0.0.1:0",))
        self._stop, self._stopped = trio.Event(), trio.Event()
        async with (
            open_kit(self._folder, settings=self._settings) as self._kit,
            trio.open_nursery() as nursery,
        ):
            self.app = create_app(self._kit.gateway)
            [url] = await nursery.start(serve, self.app, settings)
            self.port = int(url.rpartition(":")[2])
            self._kit.gateway.outbound.own_addresses.listen_on([url])
            task_status.started()
            await self._stop.wait()
            nursery.cancel_scope.cancel()
        self._stopped.set()

    async def _restart(self) -> None:
        self._stop.set()
        await self._stopped.wait()
        await self._nursery.start(self._live)

    @property
    def clock(self) -> MockClock:
        """The clock that everything runs on."""
        return self._kit.clock

    async def end(self) -> None:
        """Let the thread end."""
        self._over.set()


@contextmanager
def running(folder: Path, *, receivers: int = 1, settings: Mapping[str, Any] | None = None) -> Iterator[Live]:
    """Run a gateway with its HTTP interface, and receivers on loopback, for the length of the block.

    Args:
        folder: an empty one, for its data.
        receivers: how many.
        settings: as in the configuration file; loopback receivers are allowed.
    """
    outcome: queue.Queue[Live | BaseException] = queue.Queue()
    live = Live(folder, settings or {})

    def work() -> None:
        try:
            trio.run(live.main, receivers, outcome.put, clock=MockClock())
        except BaseException as error:  # noqa: BLE001 -- raised again below, in the thread of the test
            outcome.put(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        started = outcome.get(timeout=PATIENCE)
        if isinstance(started, BaseException):
            raise started
        try:
            yield live
        finally:
            if thread.is_alive():
                live.run(live.end)
    finally:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the gateway did not end"
    if not outcome.empty():
        failed = outcome.get()
        assert isinstance(failed, BaseException)
        raise failed
