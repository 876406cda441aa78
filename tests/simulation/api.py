"""The HTTP API of a run: hookgw's server and application at one end of a pair of sockets, clients at the
other.

Clients drip, leave in the middle, send several requests at once, and keep connections that the server has
closed. What they do not know then is whether a request had effect.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from hookgw import Event, HookgwError
from tests.public.web import AppApplication as Application
from tests.public.web import Server

if TYPE_CHECKING:
    from tests.simulation.world import World

_COUNTED = "counted by the simulator"
PATIENCE = 100.0
"""Seconds for which a client waits for an answer."""
ALIKE = 1024
"""Single events are filled up to a multiple of so many bytes: their heads come again, as a producer's do."""


class NoAnswer(HookgwError):
    """The connection ended before the status line of the response: the request may have had effect."""


class Declined(HookgwError):
    """The response is no 2xx."""


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes

    def json(self) -> Any:
        """Return the decoded body; raise ``Declined`` if the status is no 2xx.

        Raises:
            RuntimeError: the status tells of a bug.
        """
        # Clients send nothing that is wrong, and no other instance's key.
        if self.status in (400, 403) or (self.status >= 500 and self.status != 503):
            raise RuntimeError(f"The API answered {self.status}: {self.body[:500]!r}")
        if self.status >= 300:
            raise Declined(f"{self.status} {self.body[:200].decode()}")
        return msgspec.json.decode(self.body)


class _Connection:
    """A client's end."""

    def __init__(self, sock: socket.socket) -> None:
        self.raw = sock
        self.stream = trio.socket.from_stdlib_socket(sock)
        self.buffer = b""

    async def read(self) -> Answer:
        while b"\r\n\r\n" not in self.buffer:
            await self._fill()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(fields["content-length"])
        while len(self.buffer) < length:
            await self._fill()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return Answer(int(first.split(" ")[1]), body)

    async def _fill(self) -> None:
        data = b""
        with suppress(OSError):
            data = await self.stream.recv(65_536)
        if not data:
            raise NoAnswer("The connection ended.")
        self.buffer += data

    async def send(self, data: bytes) -> None:
        """Send bytes; a server that has closed takes none."""
        with suppress(OSError, trio.ClosedResourceError):
            while data:
                data = data[await self.stream.send(data) :]

    def close(self) -> None:
        self.stream.close()


class Api:
    """The HTTP API of one start of the gateway.

    Args:
        world: what it lives in; its gateway runs.
        app: of that gateway.
        chance: the seed's.
    """

    def __init__(self, world: World, app: Application, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._count = app.limits.report_status
        app.limits = app.limits._replace(report_status=self._note_response)
        self._server = Server(app, world.scenario.settings.server, None, world.gateway.hub)
        self._serving: trio.Nursery
        self._idle: list[_Connection] = []
        self._all: dict[_Connection, None] = {}  # in this order: that of a set differs
        self._served: dict[_Connection, None] = {}
        self._ended = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, as :func:`hookgw.web.server.serve.serve` does on listeners."""
        self._world.gateway.metrics.watch_connections(self._server.count)
        async with trio.open_nursery() as nursery:
            try:
                self._serving = await nursery.start(self._server.hold)
                task_status.started()
                await trio.sleep_forever()
            finally:
                # As the command does it: a plugin that hangs holds up no stop.
                grace = self._world.scenario.settings.server.shutdown_grace
                self._world.gateway.events.limit_observers(trio.current_time() + grace)
                self._server.stop()

    def _note_response(self, exchange: Any, status: int) -> None:
        """Count the emits whose head the connection remembered: they take the shortest way."""
        if exchange.route == "/event/emit/<instance>" and status == 202:
            self._world.history.short_emits += _COUNTED in exchange.notes
            exchange.notes[_COUNTED] = True
        self._count(exchange, status)

    def cut(self) -> None:
        """Break every connection: the process is gone."""
        for one in self._all:
            with suppress(OSError):
                one.raw.shutdown(socket.SHUT_RDWR)

    def end(self) -> int:
        """Close the clients' ends, after the server has ended; return how many connections it left open."""
        count = 0
        for one in self._all:
            one.raw.setblocking(False)
            with suppress(OSError):
                try:
                    while one.raw.recv(65_536):
                        pass
                except BlockingIOError:
                    count += 1
            one.close()
        self._all.clear()
        return count

    async def settle(self) -> None:
        """Wait until no request of a client that has left is carried out any more."""
        while any(one not in self._all for one in self._served):
            self._ended = trio.Event()
            await self._ended.wait()

    def _connect(self) -> _Connection:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        connection = _Connection(ours)
        self._serving.start_soon(self._serve, connection, stream)
        self._all[connection] = None
        return connection

    async def _serve(self, connection: _Connection, stream: trio.SocketStream) -> None:
        self._served[connection] = None
        try:
            await self._server.handle(stream)
        finally:
            del self._served[connection]
            self._ended.set()

    def _close(self, connection: _Connection) -> None:
        self._all.pop(connection, None)
        connection.close()

    async def call(self, method: str, path: str, body: object = None, *, key: str) -> Any:
        """Make a call and return the decoded body of its response.

        Raises:
            NoAnswer: the connection ended before.
            Declined: the response is no 2xx.
        """
        [answer] = await self.exchange([request(method, path, body, key)])
        if answer is None:
            raise NoAnswer("The connection ended.")
        return answer.json()

    async def exchange(self, requests: Sequence[bytes]) -> list[Answer | None]:
        """Send requests on one connection, without waiting in between; return the answer to each.

        ``None`` stands for one that was not answered, or whose client left.
        """
        if self._world.is_over:  # killed in this very moment: the server takes no connection any more
            return [None] * len(requests)
        chance = self._chance
        is_used = bool(self._idle) and chance.random() < 0.7
        connection = self._idle.pop() if is_used else self._connect()
        answers: list[Answer | None] = []
        data = b"".join(requests)
        manner = chance.choice(("plain", "plain", "plain", "drip", "leave", "cut"))
        try:
            if manner == "cut":  # and leave before the end
                await connection.send(data[: chance.randrange(1, len(data))])
                await trio.sleep(chance.choice((0.0, 0.0, 12.0)))
                return [None] * len(requests)
            if manner == "drip":
                places = sorted(chance.randrange(len(data)) for _ in range(3))
                for first, last in zip((0, *places), (*places, len(data)), strict=True):
                    await connection.send(data[first:last])
                    await trio.sleep(chance.choice((0.0, 0.5, 4.0)))
            else:
                await connection.send(data)
            if manner == "leave":
                await trio.sleep(chance.choice((0.0, 0.0, 0.001, 0.1)))
                return [None] * len(requests)
            with trio.move_on_after(PATIENCE), suppress(NoAnswer):
                while len(answers) < len(requests):
                    answers.append(await connection.read())
            # A used connection may end at any time, and an error ends one with the requests that follow.
            if not answers and not is_used:
                self._world.unanswered(set(), is_owed=True)
        finally:
            if len(answers) < len(requests) or chance.random() < 0.2:
                self._close(connection)
            else:
                self._idle.append(connection)
        return answers + [None] * (len(requests) - len(answers))

    async def emit(
        self, instance: str, events: Sequence[Event], *, key: str, is_repeated: bool
    ) -> tuple[list[bool], list[str], bool]:
        """Emit events, and send what was not answered again, a few times.

        Args:
            instance: the path has it.
            events: as a batch, or in requests of their own.
            key: of the caller.
            is_repeated: whether they may be known from an earlier call.

        Returns:
            Which events this call stored, why requests were declined, and whether what it stored is in order.
            Of several requests that were sent again, one may have been declined before, unseen, and then
            follows those that were not.
        """
        is_batch = len(events) > 1 and self._chance.random() < 0.5
        groups = [list(events)] if is_batch or len(events) == 1 else [[event] for event in events]
        path, refusals = f"/event/emit/{instance}", list[str]()
        stored: set[str] = set()
        lost: set[str] = set()
        for _ in range(3):
            bodies = [[_envelope(event) for event in group] for group in groups]
            sent = [
                request("POST", path, body, key)
                if is_batch
                else request("POST", path, body[0], key, multiple=ALIKE)
                for body in bodies
            ]
            missed = []
            for group, answer in zip(groups, await self.exchange(sent), strict=True):
                ids = {event.id for event in group}
                if answer is None:
                    self._world.unanswered(ids)
                    missed.append(group)
                    lost |= ids
                    continue
                try:
                    found = answer.json()
                except Declined as declined:
                    refusals.append(str(declined))
                    continue
                if found["accepted"] == len(ids) or (ids <= lost and not is_repeated):
                    stored |= ids
                elif not is_repeated:
                    raise RuntimeError(f"New events are answered as {found}")
            groups = missed
            if not groups or self._world.is_over:
                break
            await trio.sleep(self._chance.choice((0.0, 0.5, 20.0)))
        return [event.id in stored for event in events], refusals, is_batch or not lost

    async def change(self, method: str, path: str, body: object, *, key: str) -> None:
        """Change something. If there is no answer, wait until the call has had its effect, or none.

        Raises:
            NoAnswer: it may have had effect.
            Declined: it has had none.
        """
        try:
            await self.call(method, path, body, key=key)
        except NoAnswer:
            await trio.sleep(60)
            raise

    async def look(self, path: str, *, key: str) -> None:
        """Read something, and look for secrets in it."""
        [answer] = await self.exchange([request("GET", path, None, key)])
        if answer is not None:
            self._world.read(f"the answer of {path}", answer.body.decode())

    async def linger(self) -> None:
        """Begin a request, and never end it."""
        if self._world.is_over:
            return
        data = request("POST", "/event/emit/shop", {"event": "SEND_MESSAGE", "data": {}}, "no key")
        await self._connect().send(data[: self._chance.randrange(1, len(data))])


def _envelope(event: Event) -> dict[str, object]:
    return {"id": event.id, "event": event.kind, "data": msgspec.Raw(event.data_json)}


def request(method: str, path: str, body: object, key: str, *, multiple: int = 1) -> bytes:
    """Return the bytes of a request. Spaces fill its body up to a multiple of so many bytes."""
    content = b"" if body is None else msgspec.json.encode(body)
    content += b" " * (-len(content) % multiple)
    kind = "content-type: application/json\r\n" if content else ""
    head = f"{method} {path} HTTP/1.1\r\nhost: hookgw\r\napikey: {key}\r\n{kind}"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content
