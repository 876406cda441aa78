"""The victim: a tenant that works at a steady rate, with its receiver, in a process of its own.

What it does is one of :data:`WORK`: it emits events, sends messages through a homeserver, or registers names
that nobody has looked up yet and emits an event for each. Latencies count from the moment at which the work
was due, not from the moment at which it was begun: what waits because the work before it waits is late as
well. Standard input has one word a line: the name of the phase that begins, and at last ``end``. Standard
output has ``ready``, and at the end a :class:`Report`.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable

import msgspec
import trio

from tests.bench.parts import DATA
from tests.bench.results import percentile
from tests.isolation.homeserver import ROOM, serve_homeserver
from tests.isolation.wire import Closed, Connection, render

ADDRESS = "127.0.0.1"
WORK = {"emits": 25.0, "sends": 10.0, "names": 5.0, "reads": 10.0}
"""How often a second the victim does what it does."""
LABELS = 12
"""How many registrations a victim with new names has at a time; an instance may have 16."""
FAST_NAME = "v%d.fast.test"
"""Names that are found at once, if the gateway runs with :data:`tests.isolation.attack.NAME_SERVER`."""
PROBES_PER_SECOND = 10.0
PATIENCE = 30.0
"""Seconds that a client waits for a response, and for its last deliveries at the end."""

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_MESSAGE = re.compile(rb"victim-[0-9]+")
_ID = re.compile(rb"\r\nwebhook-id: ([^\r]+)\r\n")


class Phase(msgspec.Struct):
    """What happened to the events that were due in one phase. Times in seconds.

    Attributes:
        events: how many events were due.
        answered: the p95 from the due time to the 202.
        delivered: the p95 from the due time to the arrival.
        healthz: the longest response of ``/healthz``.
    """

    events: int
    answered: float
    delivered: float
    healthz: float


class Report(msgspec.Struct):
    """What the victim has seen.

    Attributes:
        phases: by name.
        refused: requests without a 202, or probes without a 200, by what came instead.
        lost: accepted events that never arrived.
    """

    phases: dict[str, Phase]
    refused: dict[str, int]
    lost: int


class Victim:
    """The state of the process."""

    def __init__(self, port: int, key: str, work: str, receiver: int) -> None:
        self._port = port
        self.key = key
        self._receiver = receiver
        self._work = {"emits": self.emit, "sends": self.send, "names": self.register, "reads": self.read}[
            work
        ]
        self._idle: list[Connection] = []
        self.phase = ""
        self._due: dict[str, tuple[str, float]] = {}
        self._accepted: set[str] = set()
        self._arrived: dict[str, float] = {}
        self._answered: defaultdict[str, list[float]] = defaultdict(list)
        self._probes: defaultdict[str, list[float]] = defaultdict(list)
        self._refused: Counter[str] = Counter()

    async def receive(self, stream: trio.SocketStream) -> None:
        """Serve one connection of the gateway."""
        data = b""
        try:
            while more := await stream.receive_some(65_536):
                data += more
                while (end := data.find(b"\r\n\r\n") + 4) > 3:
                    length = _LENGTH.search(data, 0, end)
                    size = end + (int(length[1]) if length else 0)
                    if len(data) < size:
                        break
                    if found := _ID.search(data, 0, end):
                        self._note_arrival(found[1].decode(), data[: data.find(b"\r\n")].decode())
                    data = data[size:]
                    await stream.send_all(_OK)
        except trio.BrokenResourceError:
            pass

    def _note_arrival(self, event_id: str, request_line: str) -> None:
        # An event for a new name has a copy for each of the older names.
        place = request_line.split(" ")[1].strip("/")
        if not place or place == str(int(event_id.removeprefix("victim-")) % LABELS):
            self._arrived.setdefault(event_id, trio.current_time())

    async def work(self, number: int, due: float) -> None:
        await self._work(number, due)

    async def emit(self, number: int, due: float) -> None:
        event_id = f"victim-{number}"
        body = b'{"event":"MESSAGES_UPSERT","id":"%b","data":%b}' % (event_id.encode(), DATA)
        self._due[event_id] = (self.phase, due)
        request = render("POST", "/event/emit/victim", body, key=self.key)
        status = await self._exchange(request, 202, "emit", self._answered[self.phase], due)
        if status == 202:
            self._accepted.add(event_id)

    async def send(self, number: int, due: float) -> None:
        name = f"victim-{number}"
        body = msgspec.json.encode({"number": ROOM, "text": f"{name}."})
        self._due[name] = (self.phase, due)
        request = render("POST", "/message/sendText/victim", body, key=self.key)
        if await self._exchange(request, 201, "send", self._answered[self.phase], due) == 201:
            self._accepted.add(name)

    async def message(self, stream: trio.SocketStream, method: str, path: str, body: bytes) -> bool:
        """Note a message that arrives at the homeserver, and leave the request to it."""
        del stream, path
        if method == "PUT" and (found := _MESSAGE.search(body)):
            self._arrived.setdefault(found[0].decode(), trio.current_time())
        return False

    async def register(self, number: int, due: float) -> None:
        """Register a name that nobody has looked up yet, and emit an event for it."""
        place = number % LABELS
        url = f"http://{FAST_NAME % number}:{self._receiver}/{place}"
        request = render(
            "POST", f"/webhook/set/victim/n{place}", msgspec.json.encode({"url": url}), key=self.key
        )
        # Its answer is not measured: hookgw waits some seconds for the name, to warn of refused addresses.
        if await self._exchange(request, 201, "set", [], due) == 201:
            await self.emit(number, due)

    async def read(self, number: int, due: float) -> None:
        """Emit an event, and look at the newest deliveries meanwhile."""
        request = render("GET", "/delivery/list/victim?limit=10", key=self.key)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.emit, number, due)
            await self._exchange(request, 200, "list", self._answered[self.phase], due)

    async def probe(self, due: float) -> None:
        """Ask whether the process is alive."""
        await self._exchange(render("GET", "/healthz"), 200, "healthz", self._probes[self.phase], due)

    async def _exchange(self, request: bytes, right: int, name: str, took: list[float], due: float) -> int:
        connection = self._idle.pop() if self._idle else Connection(self._port, ADDRESS)
        status = 0
        try:
            with trio.fail_after(PATIENCE):
                status, _ = await connection.exchange(request)
        except (Closed, OSError, trio.TooSlowError) as error:
            self._refused[f"{name}: {type(error).__name__}"] += 1
        else:
            self._idle.append(connection)
            if status != right:
                self._refused[f"{name}: {status}"] += 1
        took.append(trio.current_time() - due)
        return status

    async def wait_open(self, call: Callable[[str, str], Awaitable[dict[str, object]]]) -> None:
        """Wait until the instance is connected to its homeserver."""
        with trio.fail_after(PATIENCE):
            while True:
                answer = await call("GET", "/instance/connectionState/victim")
                if "open" in str(answer):
                    return
                await trio.sleep(0.05)

    async def wait_arrived(self) -> None:
        """Wait until all accepted events have arrived, or patience ends."""
        with trio.move_on_after(PATIENCE):
            while not self._accepted <= self._arrived.keys():  # noqa: ASYNC110  (receivers tell nobody)
                await trio.sleep(0.05)

    def report(self) -> Report:
        """What the victim has seen so far."""
        now = trio.current_time()
        delivered: defaultdict[str, list[float]] = defaultdict(list)
        for event_id in self._accepted:
            phase, due = self._due[event_id]
            delivered[phase].append(self._arrived.get(event_id, now) - due)
        phases = {
            name: Phase(
                events=len(took),
                answered=percentile(took, 0.95),
                delivered=percentile(delivered[name], 0.95),
                healthz=max(self._probes[name], default=0.0),
            )
            for name, took in self._answered.items()
        }
        lost = len(self._accepted - self._arrived.keys())
        return Report(phases, dict(self._refused), lost)


async def main(port: int, global_key: str, work: str) -> None:
    """Be the victim of the gateway at that port."""
    async with trio.open_nursery() as nursery, Connection(port, ADDRESS) as admin:

        async def call(method: str, path: str, body: object = None) -> dict[str, object]:
            content = b"" if body is None else msgspec.json.encode(body)
            status, answer = await admin.exchange(render(method, path, content, key=global_key))
            assert status in (200, 201), answer
            return msgspec.json.decode(answer, type=dict[str, object])

        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        assert isinstance(listener, trio.SocketListener)
        receiver = listener.socket.getsockname()[1]
        victim = Victim(port, f"key-of-the-victim-{receiver}", work, receiver)
        nursery.start_soon(trio.serve_listeners, victim.receive, [listener])
        options: dict[str, object] = {"instanceName": "victim", "token": victim.key}
        if work == "sends":
            homeserver = await serve_homeserver(nursery, victim.message)
            options |= {"integration": "matrix", "homeserver": homeserver, "access_token": "t"}
        await call("POST", "/instance/create", options)
        if work == "sends":
            await call("GET", "/instance/connect/victim")
            await victim.wait_open(call)
        if work in ("emits", "reads"):
            await call("POST", "/webhook/set/victim", {"url": f"http://127.0.0.1:{receiver}/"})
        await victim.work(0, trio.current_time())
        await victim.wait_arrived()
        print("ready", flush=True)
        victim.phase = await next_line()
        ticking = trio.CancelScope()
        async with trio.open_nursery() as requests:
            requests.start_soon(tick, ticking, requests, victim, WORK[work])
            requests.start_soon(follow, victim, ticking)
        await victim.wait_arrived()
        print(msgspec.json.encode(victim.report()).decode(), flush=True)
        nursery.cancel_scope.cancel()


async def tick(ticking: trio.CancelScope, requests: trio.Nursery, victim: Victim, rate: float) -> None:
    """Start each piece of work when it is due, however long the ones before it take."""
    started, done, probed = trio.current_time(), 0, 0
    with ticking:
        while True:
            await trio.sleep(0.005)
            now = trio.current_time()
            while (due := started + done / rate) <= now:
                done += 1
                requests.start_soon(victim.work, done, due)
            while (due := started + probed / PROBES_PER_SECOND) <= now:
                probed += 1
                requests.start_soon(victim.probe, due)


async def follow(victim: Victim, ticking: trio.CancelScope) -> None:
    """Change the phase as standard input says, until it says ``end``."""
    while (word := await next_line()) != "end":
        victim.phase = word
    ticking.cancel()


async def next_line() -> str:
    """The next line of standard input."""
    line: str = await trio.to_thread.run_sync(sys.stdin.readline)
    if not line:
        raise SystemExit("nobody listens any more")
    return line.strip()


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), sys.argv[2], sys.argv[3])
