"""A gateway for tests: the real one, on a clock that the test moves.

Only the time is simulated. The store is a file, deliveries cross a loopback socket, and plugins are loaded as
in production.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import structlog
import trio
from trio.testing import MockClock

from hookgw.app.gateway import Gateway
from hookgw.app.open import open_gateway
from hookgw.concurrency.clock import virtual_clock
from hookgw.config.load import load_settings
from hookgw.config.yaml_writer import write_document
from hookgw.delivery.http.resolver import Found
from hookgw.events.requests import EmitLimits, EventReader
from hookgw.kernel.errors import Invalid, PluginFailed, StartError, TooLarge
from hookgw.kernel.json_text import decode_strict, encode_strict
from hookgw.kernel.long_json import finish
from hookgw.operations.watchdog import unended_plugins
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins
from hookgw.records.connectors import IngestRequest, IngestResponse
from hookgw.records.deliveries import LaneState, LaneStatistics
from hookgw.records.events import Event
from hookgw.records.registrations import DEFAULT_LABEL, Registration
from hookgw.webhooks.change import RegistrationChange, body_of, parse_registration

logger = structlog.get_logger("hookgw")

_LOOPBACK = ("127.0.0.0/8", "::1/128")
SETTLE_TIMEOUT = 10.0
"""Real seconds that :meth:`GatewayKit.settled` waits."""
END_WITHIN = 10.0
"""Real seconds after which the clock goes on by itself, if the gateway has not ended."""
_END_RATE = 10.0
_POLL_INTERVAL = 0.002
_KEY = "test-key"


@asynccontextmanager
async def open_kit(
    folder: Path, *, plugins: Mapping[str, object] | None = None, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[GatewayKit]:
    """Run a gateway for the length of the block, without its HTTP API.

    It may deliver to loopback addresses, and resolves no name but ``localhost``.

    Args:
        folder: an empty folder for its data. A second kit on the same folder continues with that data.
        plugins: plugin modules or objects by name, in addition to hookgw's own and entry points.
        settings: the configuration, as in its YAML file: ``{"delivery": {"timeout": "2s"}}``.

    Yields:
        The kit. At the end of the block the gateway shuts down as in production. If that takes more than ten
        real seconds, the clock goes on by itself, and the log names the plugins that do not end.

    Raises:
        StartError: Trio runs without its mock clock, or the gateway cannot start.
        ConfigError: the settings break a rule.
    """
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, MockClock):
        raise StartError(
            "The test gateway needs Trio's mock clock: add the fixture hookgw_clock to the test."
        )
    merged: dict[str, Any] = {"storage": {}, "delivery": {}, "auth": {"global_key": _KEY}, **(settings or {})}
    # A test needs little space, and its clock may jump over days: no look at the disk once a second.
    merged["storage"] = {"path": str(folder / "hookgw.db"), "min_free": 0, **merged["storage"]}
    allowed = [*_LOOPBACK, *merged["delivery"].get("allow_networks", ())]
    merged["delivery"] = {**merged["delivery"], "allow_networks": allowed}
    # A report about a busy machine has no place in a test's log.
    merged["plugins"] = {"block_warning": 0, **merged.get("plugins", {})}
    # Through a file, so that settings of tests follow the same rules as a user's.
    file = folder / "hookgw-test.yaml"
    file.write_text(write_document(merged), encoding="utf-8")
    read = load_settings(file, {})
    # Not left to open_gateway: only here can the test see the failures, and pass plugins as objects.
    failures: list[PluginFailed] = []
    hooks = Hooks(
        load_plugins(read.plugins, base=folder, extra=plugins),
        hook_timeout=read.plugins.hook_timeout,
        on_failure=failures.append,
    )
    rate = clock.rate
    in_trio = trio.lowlevel.current_trio_token().run_sync_soon
    late = threading.Timer(END_WITHIN, in_trio, (_let_it_end, clock, hooks))
    late.daemon = True
    with _plain_tracebacks():
        try:
            async with open_gateway(
                read, base=folder, clock=virtual_clock(), hooks=hooks, resolve=resolve_locally
            ) as gateway:
                try:
                    yield GatewayKit(gateway, clock, failures)
                finally:
                    late.start()
        finally:
            late.cancel()
            clock.rate = rate


def _let_it_end(clock: MockClock, hooks: Hooks) -> None:
    # A plugin may wait for the clock while it ends, which nobody moves any more.
    clock.rate = _END_RATE
    for one in unended_plugins(hooks.modules()):
        logger.warning(
            "the test waits for a plugin that does not end", plugin=one.plugin, hook=one.hook, line=one.line
        )


@contextmanager
def _plain_tracebacks() -> Iterator[None]:
    """Log as structlog does by default, but without the local variables of each frame, unless the test has
    configured structlog itself.

    They hold secrets of registrations, and fill a screen for one failure of a plugin.
    """
    if structlog.is_configured():
        yield
        return
    processors = structlog.get_config()["processors"][:-1]
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    structlog.configure(processors=[*processors, renderer])
    try:
        yield
    finally:
        structlog.reset_defaults()


async def resolve_locally(host: str, port: int, *, holder: str = "", **options: Any) -> Found:
    del holder
    # A name server would make tests slow, and dependent on the network.
    await trio.lowlevel.checkpoint()
    flags = 0 if host == "localhost" else socket.AI_NUMERICHOST
    return socket.getaddrinfo(host, port, flags=flags, **options)


class GatewayKit:
    """A running gateway, with methods for tests; :func:`open_kit` creates it.

    Attributes:
        gateway: the gateway. The part that :class:`~hookgw.PluginGateway` describes is stable.
        clock: Trio's clock, on which the gateway runs.
        plugin_failures: the failures of plugins since the start, in order.
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
        """Register a URL, and create the instance if it does not exist.

        Args:
            url: for example a receiver's.
            instance: the instance's name.
            label: the registration's label; a second call with the same one changes the registration.
            fields: more fields, named as in :class:`~hookgw.records.registrations.Registration`.

        Returns:
            The stored registration, with its secrets.

        Raises:
            Invalid: a field breaks a rule, or a plugin rejects its options.
            TypeError: a field does not exist.
        """
        gateway = self.gateway
        # As the body of a `set`, so that whatever production refuses is refused here.
        try:
            body = encode_strict(body_of(RegistrationChange(url=url, **fields)))
        except ValueError as error:
            raise Invalid(f"The registration {error}.") from None
        change, _ = parse_registration(decode_strict(body), gateway.catalog)
        if len(body) > gateway.settings.server.max_body:
            raise TooLarge(f"The registration has more than {gateway.settings.server.max_body}.")
        return (await gateway.registrations.set(instance, label, change, create=True)).registration

    async def emit(
        self, kind: str, data: Any, *, instance: str = "shop", event_id: str | None = None
    ) -> Event:
        """Accept an event. Returns once it is on disk.

        Args:
            kind: the event kind, in any spelling that the catalog knows.
            data: the payload: what JSON can express.
            instance: the name of an existing instance.
            event_id: the event's id, for deduplication; by default a new one.

        Raises:
            NotFound: there is no such instance.
            Invalid: the kind is unknown, or the payload breaks a rule.
            TooLarge: the payload is larger than a request may be.
        """
        gateway = self.gateway
        gateway.instances.get(instance)
        try:
            # Not Event.encode, which turns NaN into null, and bytes and records into texts and objects.
            body = encode_strict({"event": kind, "data": data, **({"id": event_id} if event_id else {})})
        except ValueError as error:
            raise Invalid(f"The event {error}.") from None
        # As the body of an emit, so that whatever production refuses is refused here.
        reader = EventReader(
            instance,
            gateway.catalog,
            now=gateway.clock.wall(),
            limits=EmitLimits.of(gateway.settings),
            schemas=gateway.events.schemas,
        )
        batch = finish(reader.read(body, lines=False))
        await gateway.events.accept_checked(batch)
        return batch.events[0]

    async def ingest(
        self,
        body: bytes = b"",
        *,
        instance: str = "shop",
        method: str = "POST",
        query: Mapping[str, str] = {},
        headers: Mapping[str, str] = {},
    ) -> IngestResponse:
        """Send a request of the network to an instance, as it arrives at the instance's ``ingestUrl``.

        Args:
            body: of the request.
            instance: the name of a connected instance.
            method: ``GET`` or ``POST``.
            query: the parameters of the URL.
            headers: the names may be in any case.

        Returns:
            The connector's answer. Its events are on disk.

        Raises:
            NotFound: there is no such instance, or its connector takes no requests.
            ProofRefused, Invalid, NotSupported: the connector refuses the request.
            Unavailable: the connector is not connected, failed (see :attr:`plugin_failures`), or took too
                long; or events cannot be stored.
            TooManyRequests: over ``auth.instance_key_rate``.
        """
        ingest = self.gateway.ingest
        ingest.check(instance, self.gateway.instances.get(instance).ingest_token)
        lowered = {name.lower(): value for name, value in headers.items()}
        request = IngestRequest(method=method, query=dict(query), headers=lowered, body=body)
        return await ingest.answer(ingest.session(instance), request)

    async def settled(self) -> None:
        """Wait until every lane is at rest (nothing to deliver, waiting, or paused by a call of
        ``/webhook/pause``) and everything is on disk.

        Operational events are in their lane then, and plugins have observed them.

        A receiver that hangs keeps its lane busy. In that case wait for the request instead
        (``receiver.wait_for``), and move the clock yourself (``kit.clock.jump``).

        Raises:
            TimeoutError: a lane or a plugin was still busy after ten real seconds; the message names it.
        """
        deadline = time.monotonic() + SETTLE_TIMEOUT
        while True:
            # Real time: the store commits in a thread, which a mock clock does not see. For the same reason
            # the kit does not use Trio's autojump: it takes waiting for the disk for idleness.
            await trio.to_thread.run_sync(time.sleep, _POLL_INTERVAL)
            busy = self._what_is_busy()
            if not busy:
                await self.gateway.store.flush()
                busy = self._what_is_busy()  # a commit may raise operational events
            if not busy:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"still busy after {SETTLE_TIMEOUT:g} s: {', '.join(busy)}")

    def _what_is_busy(self) -> list[str]:
        now = self.gateway.clock.steady()
        busy = [
            f"{lane.url} ({lane.state}, {lane.backlog} pending)"
            for lane in self.gateway.lanes()
            if not self._is_at_rest(lane, now)
        ]
        if not self.gateway.operational.is_quiet:
            busy.append("operational events")
        return busy

    def _is_at_rest(self, lane: LaneStatistics, now: float) -> bool:
        if lane.state is LaneState.WAITING:
            if lane.waits_for == "order":  # with another lane, which is at rest or not
                return True
            # A lane can wait until a time in the past: it is due, and its task has not run yet.
            return lane.waiting_until is not None and lane.waiting_until > now
        if lane.state is LaneState.PAUSED:  # a pause of the gateway itself ends soon, its owner's does not
            registration = self.gateway.registrations.by_id(lane.registration)
            return registration is not None and registration.is_paused
        return lane.backlog == 0 and lane.state is LaneState.IDLE

    async def advance(self, seconds: float) -> None:
        """Wait as :meth:`settled` does, move the clock, and wait again.

        Args:
            seconds: how far to move the clock.

        Raises:
            TimeoutError: see :meth:`settled`.
        """
        await self.settled()
        self.clock.jump(seconds)
        await self.settled()
