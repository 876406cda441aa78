"""Set up the demo, and run its course of events and outages."""

from __future__ import annotations

import itertools
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from hookgw.app.gateway import Gateway
from hookgw.config.settings import (
    AuthSettings,
    DeliverySettings,
    LogSettings,
    PluginsSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from hookgw.demo import board
from hookgw.demo.observer import Observer
from hookgw.demo.receivers import DemoReceiver, Trouble, open_demo_receiver
from hookgw.demo.screens import Screen
from hookgw.kernel.signing_keys import verifying_key
from hookgw.kernel.units import Duration, Size
from hookgw.webhooks.change import RegistrationChange

INSTANCE = "demo"
RECEIVERS = ("crm", "n8n", "bot")
MESSAGES_PER_SECOND = 3
"""Each becomes three deliveries: few enough that people can follow the dashboard's list."""
FAST = 10
"""Messages per second with `--once`."""
EVENTS = 60
"""`--once` ends after this many events."""
LAST_EVENTS_TIMEOUT = 20.0
"""Seconds that `--once` waits for the last events to arrive."""
PORT = 8080


@dataclass(frozen=True)
class Outage:
    """A trouble of one receiver: it begins after ``wait`` seconds and lasts for ``length`` seconds."""

    wait: float
    receiver: str
    trouble: Trouble
    length: float


ONCE = (Outage(1.0, "n8n", Trouble.REFUSES, 1.5), Outage(0.5, "bot", Trouble.FAILS, 1.5))
# Long enough to read the problem on the dashboard, and to follow its link.
FOREVER = (Outage(5.0, "n8n", Trouble.REFUSES, 10.0), Outage(5.0, "bot", Trouble.FAILS, 10.0))


@dataclass(frozen=True)
class Stage:
    """The parts of a running demo."""

    gateway: Gateway
    receivers: Sequence[DemoReceiver]
    observer: Observer
    screen: Screen

    async def register(self, rate: int) -> None:
        """Create the instance, with ``rate`` messages per second, and register every receiver for it."""
        # Before connect(): the first message must go to every receiver, or the ledgers disagree.
        options = {"rate": rate, "connect_delay": "500ms"}
        await self.gateway.instances.create(INSTANCE, integration="simulator", options=options)
        for receiver in self.receivers:
            change = RegistrationChange(url=receiver.url)
            registration = (
                await self.gateway.registrations.set(INSTANCE, receiver.name, change)
            ).registration
            receiver.keys = tuple(verifying_key(secret.value) for secret in registration.secrets)

    async def play(self, *, once: bool) -> None:
        """Produce events and outages and display them. Return only with ``once``."""
        by_name = {receiver.name: receiver for receiver in self.receivers}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.screen.run, self._read_board)
            nursery.start_soon(self._report_sent)
            await self.gateway.instances.connect(INSTANCE)
            outages = ONCE if once else itertools.cycle(FOREVER)
            await run_outages(outages, by_name, self.screen.add_message)
            await self.observer.wait_accepted(EVENTS)
            await self.gateway.instances.logout(INSTANCE)
            # After a timeout, the verdict names the missing deliveries.
            with trio.move_on_after(LAST_EVENTS_TIMEOUT):
                await self.observer.wait_complete()
            nursery.cancel_scope.cancel()  # the other tasks never return

    async def _report_sent(self) -> None:
        for count in itertools.count(1):
            await self.observer.wait_sent(count)
            self.screen.add_message("Your message was sent", "Its event goes to every receiver.")

    def _read_board(self) -> tuple[int, list[board.Row]]:
        return self.observer.accepted, board.rows(self.receivers, self.gateway.lanes())


async def run_outages(
    outages: Iterable[Outage], receivers: Mapping[str, DemoReceiver], add_message: Callable[[str, str], None]
) -> None:
    """Run the outages in turn. There may be no end of them.

    Args:
        add_message: called with a sentence and its explanation at the start and the end of each outage.
    """
    for outage in outages:
        await trio.sleep(outage.wait)
        receiver = receivers[outage.receiver]
        await receiver.begin(outage.trouble)
        add_message(f"{receiver.name} {outage.trouble}", "Its events wait; the others go on.")
        await trio.sleep(outage.length)
        await receiver.recover()
        add_message(f"{receiver.name} is up again", "Its events arrive, in order.")


@asynccontextmanager
async def open_receivers() -> AsyncIterator[list[DemoReceiver]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_demo_receiver(name)) for name in RECEIVERS]


def try_loopback() -> None:
    """Connect to 127.0.0.1, or raise the :class:`OSError` that says why nobody can be reached there."""
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.settimeout(5)
        client.connect(server.getsockname())


def demo_settings(folder: Path) -> Settings:
    """Return settings with all data in a folder, a new key, and short waits between retries."""
    with socket.socket() as probe:
        # As the server does: a port with connections in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
            port = PORT
        except OSError:
            port = 0  # any free port
    return Settings(
        # Ctrl-C ends it within a second, also during an outage: an attempt has so long to finish.
        server=ServerSettings(bind=(f"127.0.0.1:{port}",), shutdown_grace=Duration(0.5)),
        # A new key each time: every user of this machine can reach the port.
        auth=AuthSettings(global_key=f"demo-{secrets.token_hex(8)}"),
        storage=StorageSettings(path=str(folder / "hookgw.db"), min_free=Size(0)),  # it needs little
        delivery=DeliverySettings(
            allow_networks=("127.0.0.0/8",),
            # Long enough for the outage: an event that becomes a dead letter would count as missing.
            schedule=(Duration(0.3),) * 50,
            unreachable_first_wait=Duration(0.2),
            unreachable_max_wait=Duration(1),
        ),
        # Not the plugins of the folder in which the demo happens to be started.
        plugins=PluginsSettings(folders=()),
        # The outages are part of the demo: their warnings would tear the live table apart.
        log=LogSettings(level="error"),
    )
