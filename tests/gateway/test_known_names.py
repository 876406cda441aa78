"""The names of receivers that were fast are known after a restart, and forgotten with their registrations."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Gateway, Registration
from hookgw.testing import open_receiver
from tests.public.app import open_gateway
from tests.public.concurrency import virtual_clock
from tests.public.config import DeliverySettings, Settings, StorageSettings
from tests.public.core import KEEP_EVERY, KEY, KnownNames
from tests.public.delivery import SystemResolver
from tests.public.kernel import Size, StorageUnavailable
from tests.public.webhooks import RegistrationChange


class Registrations:
    """Has the part of the registry that is asked for."""

    def __init__(self, *hosts: str) -> None:
        self.hosts: Sequence[str] = hosts

    def registrations(self) -> list[Registration]:
        found = [Registration(id=host, instance="a", url=f"https://{host}/") for host in self.hosts]
        return [Registration(id="any", instance="a", url="any text", enabled=False), *found]


class Records:
    """Has the part of the store that keeps values."""

    def __init__(self, stored: Any = None) -> None:
        self.values = [stored]
        self.refuses = False

    async def get_value(self, key: str) -> Any:
        assert key == KEY
        if self.refuses:
            raise StorageUnavailable("The disk is full.")
        return self.values[-1]

    async def put_value(self, key: str, value: Any) -> None:
        assert key == KEY
        self.values.append(value)


def resolver_that_knows(speeds: dict[str, bool], expected: Sequence[str] = ()) -> SystemResolver:
    resolver = SystemResolver()
    resolver.expected = frozenset(expected)
    resolver.was_fast.update(speeds)
    return resolver


async def kept(resolver: SystemResolver, records: Any, registrations: Any, clock: MockClock) -> None:
    """Let the names be stored once."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(KnownNames(resolver, records, registrations).run)
        await wait_all_tasks_blocked()
        clock.jump(KEEP_EVERY)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_fast_names_of_registrations_are_kept_and_written_if_they_change(mock_clock: MockClock) -> None:
    registrations = Registrations("fast.example", "slow.example", "new.example")
    resolver = resolver_that_knows({"fast.example": True, "slow.example": False, "homeserver.example": True})
    records = Records()
    await kept(resolver, records, registrations, mock_clock)
    assert records.values == [None, ["fast.example"]]
    assert resolver.expected == {"fast.example"}


async def test_a_name_goes_with_its_last_registration_or_if_it_is_slow(mock_clock: MockClock) -> None:
    registrations, records = Registrations("b.example", "c.example"), Records(["a.example", "b.example"])
    resolver = resolver_that_knows({"a.example": True, "c.example": True})
    await kept(resolver, records, registrations, mock_clock)
    # Of b.example nothing was heard in this run.
    assert records.values[1:] == [["b.example", "c.example"]]
    await kept(resolver_that_knows({"b.example": False}), records, registrations, mock_clock)
    assert records.values[2:] == [["c.example"]]


async def test_no_more_names_are_kept_than_the_limit(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.core.known_names.MOST_KEPT", 2)
    registrations, records = Registrations("a.example", "b.example", "c.example"), Records(["a.example"])
    await kept(
        resolver_that_knows({"b.example": True, "c.example": True}), records, registrations, mock_clock
    )
    assert records.values[1:] == [["b.example", "c.example"]]


@pytest.mark.parametrize("stored", [None, ["a.example"], {"another": "version"}])
async def test_what_is_stored_is_expected(stored: Any) -> None:
    resolver, records = SystemResolver(), Records(stored)
    unused: Any = None
    anything: Any = records
    await KnownNames(resolver, anything, unused).load()
    assert resolver.expected == (frozenset(stored) if isinstance(stored, list) else frozenset())


async def test_a_storage_that_refuses_is_logged(mock_clock: MockClock) -> None:
    records = Records()
    records.refuses = True
    with capture_logs() as log:
        await kept(SystemResolver(), records, Registrations(), mock_clock)
    assert {entry["event"] for entry in log} == {"known names not stored"}


@asynccontextmanager
async def running(folder: Path, asked: list[str]) -> AsyncIterator[Gateway]:
    def getaddrinfo(host: str, port: int, **options: Any) -> Any:
        asked.append(host)
        return [(socket.AF_INET, options["type"], 6, "", ("127.0.0.1", port))]

    settings = Settings(
        storage=StorageSettings(path=str(folder / "hookgw.db"), min_free=Size(0)),
        delivery=DeliverySettings(allow_networks=("127.0.0.0/8",)),
    )
    async with open_gateway(
        settings, base=folder, clock=virtual_clock(), resolve=SystemResolver(getaddrinfo)
    ) as gateway:
        yield gateway


async def test_a_restart_knows_the_names_of_before(tmp_path: Path) -> None:
    asked: list[str] = []
    async with open_receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "shop.example")
        async with running(tmp_path, asked) as gateway:
            await gateway.instances.create("shop")
            change = RegistrationChange(url=url, enabled=True, events=())
            await gateway.registrations.set("shop", "default", change)  # it looks the name up
    assert asked == ["shop.example"]
    async with running(tmp_path, asked) as gateway:
        assert gateway.outbound.names is not None
        assert gateway.outbound.names.expected == {"shop.example"}
        await gateway.registrations.delete("shop", "default")
    async with running(tmp_path, asked) as gateway:
        assert gateway.outbound.names is not None
        assert gateway.outbound.names.expected == frozenset()
        assert await gateway.store.get_value(KEY) == []
