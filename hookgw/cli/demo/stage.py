"""Setting up and playing the demo."""

from __future__ import annotations

import itertools
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from hookgw.cli.demo import board
from hookgw.cli.demo.observer import Observer
from hookgw.cli.demo.receivers import DemoReceiver, open_demo_receiver
from hookgw.cli.demo.scene import FOREVER, ONCE, play
from hookgw.cli.demo.screens import Screen
from hookgw.config.settings import (
    AuthSettings,
    DeliverySettings,
    LogSettings,
    PluginsSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from hookgw.gateway.gateway import Gateway
from hookgw.models.registrations import RegistrationChange
from hookgw.models.signing_keys import verifying_key
from hookgw.models.units import Duration

INSTANCE = "demo"
RECEIVERS = ("crm", "n8n", "bot")
MESSAGES_PER_SECOND = 10
EVENTS = 60
"""After how many `--once` ends."""
PATIENCE = 20.0
"""Seconds that `--once` waits for the last events to arrive."""
PORT = 8080


@dataclass(frozen=True)
class Stage:
    """What the demo is played with.

    Attributes:
        gateway: open and listening.
        receivers: registered at it.
        observer: sees what the gateway does.
        screen: shows it.
    """

    gateway: Gateway
    receivers: Sequence[DemoReceiver]
    observer: Observer
    screen: Screen

    async def register(self) -> None:
        """Create the instance and have its events posted to every receiver, signed."""
        options = {"rate": MESSAGES_PER_SECOND, "connect_delay": "500ms"}
        await self.gateway.instances.create(INSTANCE, integration="simulator", options=options)
        for receiver in self.receivers:
            change = RegistrationChange(url=receiver.url)
            registration, _ = await self.gateway.registrations.set(INSTANCE, receiver.name, change)
            receiver.keys = tuple(verifying_key(secret.value) for secret in registration.secrets)

    async def play(self, *, once: bool) -> None:
        """Have events, troubles and a picture of them; without ``once``, until cancelled."""
        by_name = {receiver.name: receiver for receiver in self.receivers}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.screen.keep_showing, self._look)
            await self.gateway.instances.connect(INSTANCE)
            await play(ONCE if once else itertools.cycle(FOREVER), by_name, self.screen.tell)
            await self._finish()
            nursery.cancel_scope.cancel()

    async def _finish(self) -> None:
        await self.observer.wait_accepted(EVENTS)
        await self.gateway.instances.logout(INSTANCE)
        with trio.move_on_after(PATIENCE):
            await self.observer.wait_complete()

    def _look(self) -> tuple[int, list[board.Row]]:
        return self.observer.accepted, board.rows(self.receivers, self.gateway.lanes())


@asynccontextmanager
async def open_receivers() -> AsyncIterator[list[DemoReceiver]]:
    """The demo's receivers, up, for the length of the block."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_demo_receiver(name)) for name in RECEIVERS]


def demo_settings(folder: Path) -> Settings:
    """Settings for a demo: data in that folder, a key of its own, and retries that one need not wait for."""
    return Settings(
        server=ServerSettings(bind=(f"127.0.0.1:{_free_port()}",), shutdown_grace=Duration(3)),
        auth=AuthSettings(global_key=f"demo-{secrets.token_hex(8)}"),
        storage=StorageSettings(path=str(folder / "hookgw.db")),
        delivery=DeliverySettings(
            allow_networks=("127.0.0.0/8",),
            schedule=(Duration(0.3),) * 50,
            unreachable_first_wait=Duration(0.2),
            unreachable_max_wait=Duration(1),
        ),
        plugins=PluginsSettings(folders=()),
        log=LogSettings(level="error"),
    )


def _free_port() -> int:
    """The usual port, or 0 (any) where somebody has it."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT
