"""The measures: what one system does in each cell of the table."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from urllib.request import urlopen

import msgspec

from tests.bench.parts import DATA
from tests.bench.peers.account import Account, Arrival, account
from tests.bench.peers.marks import PLACE
from tests.bench.peers.processes import Usage
from tests.bench.peers.publish import Published, publish
from tests.bench.peers.system import LocalSystem, System

DESTINATIONS = 64
DRAIN = 20.0
"""How long the receiver waits for the last event of a load, in seconds."""
RECOVERY = 75
"""How long a system may take to deliver everything after it was killed, in seconds."""
CATCH_UP = 60.0
"""How long a system that is behind may take before its next cell, in seconds."""

PAYLOAD = DATA[:-1] + b',"mark":"' + PLACE + b'"}'


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of one system.

    Attributes:
        account: of its events.
        cpu: seconds of processor time, of the system with its servers; None if they run elsewhere.
        memory: resident MiB of the system's own processes at the end, and of its servers.
    """

    account: Account
    cpu: float | None = None
    memory: tuple[float, float] | None = None


class Receiver:
    """The receiver's process; see :mod:`tests.bench.peers.receiver`."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}"

    def url(self, destination: int) -> str:
        """The URL of a destination."""
        return f"{self._root}/destination/{destination}"

    def take(self) -> list[Arrival]:
        """What arrived since the last call."""
        with urlopen(f"{self._root}/arrivals") as answer:
            return msgspec.json.decode(answer.read(), type=list[Arrival])

    def fail(self, percent: int) -> None:
        """Answer 503 to that share of all later requests."""
        with urlopen(f"{self._root}/fail/{percent}"):
            pass


class Bench:
    """One system beside the receiver, cell after cell."""

    def __init__(self, system: System, local: LocalSystem | None, receiver: Receiver) -> None:
        """Take a system that runs, on this machine if ``local`` is given, else anywhere."""
        self._system, self._local, self._receiver = system, local, receiver
        self._first = count(0, 1000)
        self._behind = False

    def create_destinations(self) -> None:
        for number in range(DESTINATIONS):
            self._system.create_destination(number, self._receiver.url(number))

    def throughput(self, destinations: int, publishers: int, seconds: float, most: int) -> Cell:
        """Publish as fast as the system answers, at most so many events; wait until all have arrived."""
        before = self._before()
        published = self._publish(destinations, publishers, seconds, most=most)
        result = self._settle(published, DRAIN)
        return self._cell(result, before)

    def latency(self, rate: float, seconds: float) -> Cell:
        """Publish at a steady rate over all destinations, whether the system keeps up or not."""
        before = self._before()
        published = self._publish(DESTINATIONS, DESTINATIONS, seconds, rate=rate)
        return self._cell(self._settle(published, DRAIN), before)

    def killed(self, rate: float, seconds: float, *, failing: int) -> Cell:
        """Kill the system after a third of the time, start it again at once, and count what arrives."""
        local = self._local
        assert local is not None

        def kill() -> None:
            time.sleep(seconds / 3)
            local.kill()
            local.restart()

        self._before()
        self._receiver.fail(failing)
        with ThreadPoolExecutor(1) as pool:
            killing = pool.submit(kill)
            published = self._publish(DESTINATIONS, DESTINATIONS, seconds, rate=rate)
            killing.result()
        result = self._settle(published, RECOVERY)
        self._receiver.fail(0)
        return Cell(account=result)

    def _before(self) -> tuple[Usage, Usage] | None:
        """Wait for what is left of the cell before, and return what the system has used until now."""
        end = time.monotonic() + CATCH_UP
        while self._behind and time.monotonic() < end:
            self._receiver.take()
            time.sleep(2)
            self._behind = bool(self._receiver.take())
        return self._local.usage() if self._local else None

    def _publish(
        self,
        destinations: int,
        publishers: int,
        seconds: float,
        *,
        rate: float | None = None,
        most: int | None = None,
    ) -> Published:
        requests = [self._system.publish_request(number, PAYLOAD) for number in range(destinations)]
        return publish(
            self._system.publish_port,
            # A publisher sends to one destination, unless there are more destinations than publishers.
            [requests[number % destinations :: publishers] for number in range(publishers)],
            first=next(self._first) % 100_000,
            seconds=seconds,
            rate=rate,
            most=most,
        )

    def _settle(self, published: Published, patience: float) -> Account:
        """Wait until every accepted event has arrived, and a little longer for repeated ones."""
        end = time.monotonic() + patience
        arrivals = self._receiver.take()
        while account(published, arrivals).lost and time.monotonic() < end:
            time.sleep(0.1)
            arrivals += self._receiver.take()
        time.sleep(0.5)
        result = account(published, arrivals + self._receiver.take())
        self._behind = bool(result.lost)
        return result

    def _cell(self, result: Account, before: tuple[Usage, Usage] | None) -> Cell:
        if self._local is None or before is None:
            return Cell(account=result)
        after = self._local.usage()
        cpu = sum(end.cpu - start.cpu for start, end in zip(before, after, strict=True))
        return Cell(account=result, cpu=cpu, memory=(after[0].memory, after[1].memory))
