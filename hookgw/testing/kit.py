"""A gateway for tests: the real one, on a clock that the test moves.

Only time is not real: the store is a file, the wire is a loopback socket, plugins are loaded through
the usual door. The clock never moves by itself, since the disk works in a thread that Trio's autojump
does not see; :meth:`GatewayKit.advance` moves it when the gateway has nothing left to do.
"""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio
import yaml
from trio.testing import MockClock

from hookgw.config.load import load_settings
from hookgw.config.settings import Settings
from hookgw.delivery.http.resolver import Found
from hookgw.gateway.gateway import Gateway
from hookgw.gateway.open import open_gateway
from hookgw.models.clock import virtual_clock
from hookgw.models.deliveries import LaneState, LaneStatistics
from hookgw.models.errors import PluginFailed, StartError
from hookgw.models.events import Event, new_event_id
from hookgw.models.registrations import DEFAULT_LABEL, Registration, RegistrationChange
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins

_LOOPBACK = ("127.0.0.0/8", "::1/128")
_PATIENCE = 10.0
"""Real seconds that the gateway may take to come to rest."""
_LOOK_AGAIN = 0.002
_KEY = "test-key"


@asynccontextmanager
async def open_kit(
    folder: Path, *, plugins: Mapping[str, object] | None = None, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[GatewayKit]:
    """Run a gateway for the length of the block, without its HTTP interface.

    Loopback receivers are allowed, no name but ``localhost`` is known, and events of unknown instances may
    be registered for.

    Args:
        folder: an empty one, for its data; a second kit on it continues where the first ended.
        plugins: plugin modules or objects by name, beside hookgw's own and those of entry points.
        settings: the configuration, as in its YAML file: ``{"delivery": {"timeout": "2s"}}``.

    Raises:
        StartError: the run is not on Trio's mock clock, or the gateway does not start so.
        ConfigError: the settings break a rule.
    """
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, MockClock):
        raise StartError(
            "The test gateway needs Trio's mock clock: name hookgw_clock among the test's own arguments."
        )
    read = _read_settings(folder, settings or {})
    failures: list[PluginFailed] = []
    hooks = Hooks(
        load_plugins(read.plugins, base=folder, extra=plugins),
        hook_timeout=read.plugins.hook_timeout,
        on_failure=failures.append,
    )
    async with open_gateway(
        read, base=folder, clock=virtual_clock(), hooks=hooks, resolve=_local_names
    ) as gateway:
        yield GatewayKit(gateway, clock, failures)


class GatewayKit:
    """A running gateway and what a test does with it; :func:`open_kit` makes it.

    Attributes:
        gateway: the gateway itself.
        clock: the clock that everything here runs on.
        plugin_failures: what plugins raised since the start, in order.
    """

    key = _KEY
    """The global key."""

    def __init__(self, gateway: Gateway, clock: MockClock, plugin_failures: list[PluginFailed]) -> None:
        self.gateway = gateway
        self.clock = clock
        self.plugin_failures = plugin_failures

    async def register(
        self, url: str, *, instance: str = "shop", label: str = DEFAULT_LABEL, **fields: Any
    ) -> Registration:
        """Register a URL, making the instance if need be.

        Args:
            url: for example a receiver's.
            fields: further ones of :class:`~hookgw.models.registrations.RegistrationChange`.

        Raises:
            Invalid: a field breaks a rule, or a plugin refuses its options.
        """
        change = RegistrationChange(url=url, **fields)
        registration, _ = await self.gateway.registrations.set(instance, label, change, create=True)
        return registration

    async def emit(
        self, kind: str, data: Any, *, instance: str = "shop", event_id: str | None = None
    ) -> Event:
        """Accept an event; returns once it is on disk.

        Raises:
            NotFound: there is no such instance.
            Invalid: the kind is unknown, or the payload breaks a rule.
        """
        event = Event(
            id=event_id or new_event_id(),
            kind=self.gateway.catalog.resolve(kind, "kind").name,
            instance=instance,
            data_json=msgspec.json.encode(data),
            time=self.gateway.clock.wall(),
        )
        await self.gateway.events.accept([event])
        return event

    async def settled(self) -> None:
        """Wait until every lane is at rest (out of deliveries, or waiting) and all is on disk.

        Operational events are then in their lane, and plugins have heard of them.

        A receiver that hangs keeps its lane busy: then wait for the request instead
        (``receiver.wait_for``) and jump the clock yourself.

        Raises:
            TimeoutError: something was still busy after ten real seconds; the message names it.
        """
        give_up_at = time.monotonic() + _PATIENCE
        while busy := await self._busy():
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"still busy after {_PATIENCE:g} s: {', '.join(busy)}")
        await self.gateway.store.flush()

    async def advance(self, seconds: float) -> None:
        """Let that much time pass, and what it brings about happen.

        Raises:
            TimeoutError: see :meth:`settled`.
        """
        await self.settled()
        self.clock.jump(seconds)
        await self.settled()

    async def _busy(self) -> list[str]:
        """What is not at rest, after a moment of real time for others to go on."""
        await trio.to_thread.run_sync(time.sleep, _LOOK_AGAIN)
        now = self.gateway.clock.steady()
        lanes = [_describe(lane) for lane in self.gateway.lanes() if not _rests(lane, now)]
        return [*lanes, "operational events"] if not self.gateway.operational.is_quiet else lanes


async def _local_names(host: str, port: int, **options: Any) -> Found:
    """A test asks no name server: it would be slow, and answer tomorrow what it did not today."""
    await trio.lowlevel.checkpoint()
    flags = 0 if host == "localhost" else socket.AI_NUMERICHOST
    return socket.getaddrinfo(host, port, flags=flags, **options)


def _rests(lane: LaneStatistics, now: float) -> bool:
    if lane.state is LaneState.WAITING:
        return lane.waiting_until is not None and lane.waiting_until > now
    return lane.backlog == 0 and lane.state is LaneState.IDLE


def _describe(lane: LaneStatistics) -> str:
    return f"{lane.lane} ({lane.state}, {lane.backlog} pending)"


def _read_settings(folder: Path, given: Mapping[str, Any]) -> Settings:
    """The settings, read by the same rules as a configuration file."""
    merged: dict[str, Any] = {"storage": {}, "delivery": {}, "auth": {"global_key": _KEY}, **given}
    merged["storage"] = {"path": str(folder / "hookgw.db"), **merged["storage"]}
    allowed = [*_LOOPBACK, *merged["delivery"].get("allow_networks", ())]
    merged["delivery"] = {**merged["delivery"], "allow_networks": allowed}
    file = folder / "hookgw-test.yaml"
    file.write_text(yaml.safe_dump(merged), encoding="utf-8")
    return load_settings(file, {})
