"""What the measures are put together from: gateways, receivers, events."""

import json
import resource
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Literal
from urllib.request import urlopen

import msgspec
import trio

from hookgw import Event, Gateway
from tests.public.app import open_gateway
from tests.public.command import configure_logging, tune_garbage_collector
from tests.public.config import DeliverySettings, EventsSettings, LogSettings, Settings, StorageSettings
from tests.public.webhooks import RegistrationChange

ROOT = Path(__file__).parents[2]
ENVELOPE = (ROOT / "tests" / "payloads" / "messages-upsert.text.json").read_bytes()
DATA = bytes(msgspec.json.decode(ENVELOPE, type=dict[str, msgspec.Raw])["data"])


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder on the machine's disk, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="hookgw-bench-") as name:
        yield Path(name)


class FastReceiver:
    """A receiver in a process of its own; see :mod:`tests.bench.receiver`."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, path: object, address: str = "127.0.0.1") -> str:
        """The URL of a path, on an address on which it listens."""
        return f"http://{address}:{self.port}/{path}"

    def take(self) -> tuple[int, dict[str, int]]:
        """How many requests came since the last call, and when each id came first (monotonic ns)."""
        with urlopen(self.url("")) as answer:
            counts = json.load(answer)
        return counts["requests"], counts["arrivals"]


@contextmanager
def receiving(*arguments: str, module: str = "tests.bench.receiver") -> Iterator[FastReceiver]:
    """Run the receiver's process, with these arguments, until the end of the block."""
    command = [sys.executable, "-m", module, *arguments]
    with Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        yield FastReceiver(int(process.stdout.readline()))
        assert process.stdin is not None
        process.stdin.close()


@asynccontextmanager
async def gateway(folder: Path, keep: Literal["all", "wanted"] = "all") -> AsyncIterator[Gateway]:
    """A gateway in this process as ``hookgw serve`` runs it, except that loopback receivers are allowed."""
    tune_garbage_collector()
    configure_logging(LogSettings(level="error"))
    settings = Settings(
        storage=StorageSettings(path=str(folder / "hookgw.db")),
        delivery=DeliverySettings(allow_networks=("127.0.0.0/8",)),
        events=EventsSettings(keep=keep),
    )
    async with open_gateway(settings, base=folder) as opened:
        yield opened


async def register(opened: Gateway, urls: Sequence[str], prefix: str = "bench") -> list[str]:
    """Register each URL for an instance of its own; gives the instances."""
    names = [f"{prefix}{number}" for number in range(len(urls))]
    todo = iter(zip(names, urls, strict=True))

    async def some() -> None:
        for name, url in todo:
            await opened.registrations.set(name, "default", RegistrationChange(url=url), create=True)

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(some)
    return names


def make_events(instance: str, count: int, tag: str) -> list[Event]:
    """That many events of an instance, with distinct ids."""
    now = time.time()
    return [
        Event(
            id=f"{tag}-{instance}-{number}",
            kind="MESSAGES_UPSERT",
            instance=instance,
            data_json=DATA,
            time=now,
        )
        for number in range(count)
    ]


async def drained(opened: Gateway) -> None:
    """Wait until nothing is pending and all is on disk; put a cancel scope round it."""
    while opened.backlog.count:  # noqa: ASYNC110  (the store tells nobody)
        await trio.sleep(0.01)  # looking more often would be a part of what is measured
    await opened.store.flush()


def resident_mib() -> float:
    """The memory of this process that is in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@contextmanager
def silent_port() -> Iterator[int]:
    """A port of 127.0.0.1 where connections are made and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        yield listener.getsockname()[1]


@contextmanager
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 where connections are refused, until a receiver is told to listen there."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def raise_file_limit(wanted: int) -> None:
    """Let this process and those it starts open that many files.

    Raises:
        AssertionError: the machine does not allow that many; the message says what to change.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard >= wanted, f"{wanted} open files are needed and {hard} allowed; raise it with ulimit -n"
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
