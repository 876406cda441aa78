"""A name that leads to another database server while nodes run: a restored or replicated one."""

import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from hookgw import Event, Gateway
from hookgw.testing import Receiver, open_receiver
from tests.gateway.fleet.test_two_nodes import settings_of
from tests.public.app import open_gateway
from tests.public.config import Settings
from tests.public.kernel import StorageUnavailable
from tests.public.webhooks import parse_registration
from tests.support.postgres import PostgresServer, find_binaries, run_postgres
from tests.support.waits import until

pytestmark = pytest.mark.process
SCHEMA = "switched"


@pytest.fixture
def blue() -> Iterator[PostgresServer]:
    with run_postgres() as server:
        yield server


@pytest.fixture
def green() -> Iterator[PostgresServer]:
    with run_postgres() as server:
        server.execute("CREATE ROLE writer")
        yield server


def settings_for(blue: PostgresServer, green: PostgresServer) -> Settings:
    """Both servers are behind one URL, as behind one name: the one that answers is used."""
    settings = settings_of(blue, SCHEMA, "a", None)
    url = (
        f"postgresql:///postgres?host={blue.folder},{green.folder}&port={blue.port},{green.port}&user=hookgw"
    )
    return msgspec.structs.replace(settings, storage=msgspec.structs.replace(settings.storage, url=url))


def copy(source: PostgresServer, target: PostgresServer, *, sequences: bool) -> None:
    """Copy the tables, as a dump does, or without the positions of sequences, as logical replication does."""
    binaries = find_binaries()
    assert binaries is not None
    dumped = subprocess.run(
        [binaries / "pg_dump", "--schema", SCHEMA, source.url()], capture_output=True, text=True, check=True
    ).stdout
    if not sequences:
        lines = dumped.splitlines(keepends=True)
        dumped = "".join(line for line in lines if not line.startswith("SELECT pg_catalog.setval("))
    loaded = subprocess.run(
        [binaries / "psql", "-q", "-v", "ON_ERROR_STOP=1", target.url()],
        input=dumped,
        text=True,
        capture_output=True,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr


async def retried(call: Callable[[], Awaitable[object]]) -> None:
    """Make a call, and make it again while the storage refuses, or the instance moves."""
    with trio.fail_after(40):
        while True:
            try:
                await call()
            except StorageUnavailable:
                await trio.sleep(0.1)
            else:
                return


async def register(gateway: Gateway, instance: str, url: str) -> None:
    change, _ = parse_registration({"url": url}, gateway.catalog)
    await retried(lambda: gateway.instances.create(instance))
    await retried(lambda: gateway.registrations.set(instance, "default", change))


async def emit(gateway: Gateway, name: str, instance: str = "shop") -> None:
    data, now = b'{"state":"open"}', gateway.clock.wall()
    event = Event(id=name, kind="CONNECTION_UPDATE", instance=instance, data_json=data, time=now)
    await retried(lambda: gateway.events.accept([event]))


async def arrivals(receiver: Receiver, *expected: str) -> None:
    """Wait until exactly these events have arrived, in this order."""
    with trio.fail_after(40):
        await receiver.wait_for(len(expected))
    assert receiver.ids == list(expected)


@pytest.mark.parametrize("sequences", [True, False])
async def test_a_node_goes_on_with_the_copy_that_its_connections_lead_to(
    blue: PostgresServer, green: PostgresServer, tmp_path: Path, sequences: bool
) -> None:
    """Its transactions have lower numbers: lanes would wait for numbers that come in months."""
    for _ in range(50):
        blue.execute("SELECT pg_current_xact_id()")
    async with open_receiver() as receiver, open_gateway(settings_for(blue, green), base=tmp_path) as gateway:
        await register(gateway, "shop", receiver.url)
        await emit(gateway, "before")
        await arrivals(receiver, "before")
        await gateway.registrations.pause("shop", "default")
        await emit(gateway, "waits")
        await trio.to_thread.run_sync(lambda: copy(blue, green, sequences=sequences))
        await trio.to_thread.run_sync(blue.stop)
        await emit(gateway, "first")
        await emit(gateway, "second")
        await retried(lambda: gateway.registrations.resume("shop", "default"))
        await arrivals(receiver, "before", "waits", "first", "second")
        await emit(gateway, "third")
        await arrivals(receiver, "before", "waits", "first", "second", "third")
        await until(lambda: not gateway.backlog.count)


async def test_a_node_forgets_what_an_earlier_state_lacks(
    blue: PostgresServer, green: PostgresServer, tmp_path: Path
) -> None:
    async with open_receiver() as receiver, open_gateway(settings_for(blue, green), base=tmp_path) as gateway:
        await register(gateway, "shop", receiver.url)
        await trio.to_thread.run_sync(lambda: copy(blue, green, sequences=True))
        # Not in the copy.
        await register(gateway, "later", receiver.url + "/later")
        await gateway.registrations.pause("shop", "default")
        await emit(gateway, "lost")
        await trio.to_thread.run_sync(blue.stop)
        await emit(gateway, "kept")
        await arrivals(receiver, "kept")
        await until(lambda: [one.name for one in gateway.instances.all()] == ["shop"])
