"""The gateway together with its HTTP API, for the commands that run both."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import msgspec
import structlog
import trio

from hookgw.app.gateway import Gateway
from hookgw.app.open import open_gateway
from hookgw.app.reload import LEVEL
from hookgw.app.stopping import STOP_WITHIN
from hookgw.auth.keyring import KeyHolder
from hookgw.command.logging_setup import configure_logging
from hookgw.command.process import StoppedEarly, cancel_on_signal, end_now
from hookgw.concurrency.free_memory import give_back_memory
from hookgw.concurrency.tasks import TaskFailed
from hookgw.concurrency.threads import SYSTEM_THREADS
from hookgw.config.settings import Settings
from hookgw.core.long_work import run_in_slices
from hookgw.events.emit import EmitEndpoint
from hookgw.instances.routes.fast_ingest import FastIngest
from hookgw.instances.routes.ingest_endpoint import IngestEndpoint
from hookgw.kernel.errors import HookgwError
from hookgw.kernel.long_json import finish
from hookgw.operations.watchdog import unended_plugins
from hookgw.plugins.hooks import Hooks
from hookgw.web.app import Application
from hookgw.web.server.certificates import Certificates
from hookgw.web.server.serve import serve

if TYPE_CHECKING:
    from hookgw.app.dashboard import Dashboard

logger = structlog.get_logger("hookgw")

PLUGINS_WITHIN = 3.0
"""Seconds that plugins have after everything else has stopped."""
_SWITCH_INTERVAL = 0.0005
"""Seconds for which a thread that imports may keep the event loop from running; Python's default is 5 ms,
at each call to the system."""


def application_of(gateway: Gateway) -> Application:
    """Return an application with its fast paths, which need no Quart, and without routes."""
    return Application(gateway, EmitEndpoint(gateway), FastIngest(IngestEndpoint(gateway), gateway.node))


class Server(msgspec.Struct, frozen=True, eq=False):
    """
    Attributes:
        routed: set once routes and pages respond, too. Until then, their requests wait.
    """

    gateway: Gateway
    urls: list[str]
    routed: trio.Event

    def login_link(self, key: str, note_use: Callable[[], None] = lambda: None) -> str | None:
        """Return a link that logs a browser on this machine in to the dashboard, once.

        ``None`` if there is no dashboard, or no address of hookgw that such a browser can open. ``note_use``
        is called when a browser uses the link.
        """
        root = next(filter(None, map(_local_url, self.urls)), None)
        if root is None or not self.gateway.settings.dashboard.enabled:
            return None

        def holder() -> KeyHolder | None:
            note_use()
            return self.gateway.keys.holder_of(key)

        token = self.gateway.sessions.issue_link(holder)
        return f"{root}/dashboard/enter/{token}"


class Api:
    """A gateway and its HTTP API, which a server has yet to serve.

    Attributes:
        app: the API (ASGI). It accepts events from the start; :meth:`run` loads the rest.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.app = application_of(gateway)
        self._dashboard: Dashboard | None = None

    def load(self) -> None:
        """Load all routes and pages at once.

        Raises:
            StartError: a plugin failed, or the logo is not valid.
        """
        self._dashboard = finish(_import_surfaces().load_surfaces(self.app, self.gateway))

    async def run(self) -> None:
        """Load what :meth:`load` has not loaded; do the work beside the requests, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.app.hold_streams)
            nursery.start_soon(self.gateway.pulls.hold_open)
            nursery.start_soon(_limit_observers, self.gateway, self.gateway.settings.server.shutdown_grace)
            nursery.start_soon(self._run_dashboard)
            nursery.start_soon(give_back_memory)

    async def _run_dashboard(self) -> None:
        if not self.app.routed.is_set():
            # Shielded: a shutdown, too, answers the requests that wait for this. It takes half a second.
            with trio.CancelScope(shield=True):
                surfaces = await SYSTEM_THREADS.run(_import_surfaces)
                steps = surfaces.load_surfaces(self.app, self.gateway)
                self._dashboard = await run_in_slices("", steps)
        if self._dashboard is not None:
            await self._dashboard.run()


def _import_surfaces() -> ModuleType:
    """Import Quart, Jinja, and all routes and pages. This blocks."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        return import_module("hookgw.app.surfaces")
    finally:
        sys.setswitchinterval(before)


@asynccontextmanager
async def open_api(
    settings: Settings, *, base: Path, hooks: Hooks | None = None, hub: bool = True
) -> AsyncIterator[Api]:
    """Run a gateway within the block, with the application for its HTTP API.

    Raises:
        ExceptionGroup: with what :func:`hookgw.app.open.open_gateway` raises.
    """
    made: list[Api] = []

    def prepare(gateway: Gateway) -> None:
        api = Api(gateway)
        # What can stop the start is loaded before anything runs: an optional plugin that fails in its routes
        # has done nothing. The rest would only delay the start.
        if gateway.hooks.may_refuse_routes() or settings.dashboard.brand.logo:
            api.load()
        made.append(api)

    async with trio.open_nursery() as nursery:
        async with open_gateway(settings, base=base, hooks=hooks, hub=hub, prepare=prepare) as gateway:
            crash: BaseException | None = None
            try:
                yield made[0]
            except BaseException as error:
                crash = error
                raise
            finally:
                nursery.start_soon(_end_without_plugins, gateway, crash)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_server(
    settings: Settings,
    *,
    base: Path,
    hooks: Hooks | None = None,
    show_key: Callable[[str], None] = lambda _: None,
    read_again: Callable[[], Settings] | None = None,
    hub: bool = True,
) -> AsyncIterator[Server]:
    """Run a gateway with its HTTP API until the block ends or a signal arrives.

    SIGINT or SIGTERM cancels the block; a second signal kills the process. SIGHUP reloads the TLS
    certificate, and the changeable parts of the configuration. At the end the API stops accepting requests
    first, then the gateway drains.

    Args:
        base: the folder to which relative plugin folders refer.
        hooks: plugins that are already loaded; by default, load those that the settings name.
        show_key: called with the global key if the start generates one, once the API listens.
        read_again: reads the configuration again, in a thread; by default SIGHUP leaves it alone.
        hub: see :func:`hookgw.app.open.open_gateway`.

    Yields:
        The server, ready for requests.

    Raises:
        StartError: the certificate cannot be loaded.
        StoppedEarly: a signal arrived before the server was ready.
        ExceptionGroup: with a ``StartError`` if the gateway or the API cannot start, or with the exception of
            a task that crashed. A crash cancels the block.
    """
    stop = trio.CancelScope()
    is_ready = is_done = False
    tls = settings.server.tls
    # It reads files and imports cryptography, which would block the event loop.
    certificates = await SYSTEM_THREADS.run(partial(Certificates, tls)) if tls.certificate else None
    async with trio.open_nursery() as nursery:
        # Before the gateway starts, so that a signal during the start also leads to exit code 0.
        await nursery.start(cancel_on_signal, stop)
        # As early: by default, SIGHUP kills a process. One during the start is served once it is done.
        hangups, hung_up = trio.open_memory_channel[None](1)
        await nursery.start(_note_hangups, hangups)
        if certificates is not None:
            nursery.start_soon(certificates.watch)
        async with open_api(settings, base=base, hooks=hooks, hub=hub) as api:
            gateway = api.gateway
            # Inside open_api, so that the server has ended before the gateway drains.
            with stop:
                async with trio.open_nursery() as serving:
                    watch = gateway.metrics.watch_connections
                    listen = partial(serve, hub=gateway.hub)
                    urls = await serving.start(listen, api.app, settings.server, certificates, watch)
                    serving.start_soon(api.run)
                    # The address guard must refuse deliveries to this server: they would go round in circles.
                    gateway.outbound.own_addresses.listen_on(urls)
                    # Last: nothing after it can fail, so the key is shown by a start that succeeds.
                    await gateway.keys.ensure_lasting_global_key(show_key)
                    await trio.lowlevel.checkpoint_if_cancelled()  # a signal may have arrived meanwhile
                    is_ready = True
                    serving.start_soon(_reload_on_hangup, hung_up, certificates, gateway, read_again)
                    crash: BaseException | None = None
                    try:
                        yield Server(gateway, urls, api.app.routed)
                        is_done = True
                    except BaseException as error:
                        crash = None if stop.cancel_called else error
                        raise
                    finally:
                        # A request may be at a plugin.
                        nursery.start_soon(_end_without_plugins, gateway, crash, serving)
                    serving.cancel_scope.cancel()  # only reached if the block ends without a signal
        nursery.cancel_scope.cancel()
    # A nursery that a stray Cancelled ended looks as if its work were done: without a signal, this is a
    # crash, and must not end with exit code 0.
    if not is_done and not stop.cancel_called:
        raise TaskFailed("hookgw ended without a signal")
    # A generator that ends without a yield is a RuntimeError, which looked like a crash of the gateway.
    if not is_ready:
        raise StoppedEarly


async def _end_without_plugins(
    gateway: Gateway, crash: BaseException | None, within: trio.Nursery | None = None
) -> None:
    """End the process if plugins do not end: they ignore a cancellation, or wait for a thread.

    Args:
        crash: what ended the gateway, if anything did. Where a task failed, it is a cancellation with its
            error as the reason: Trio raises the error itself when all tasks have ended.
        within: what the plugins keep from its end, if it is not the gateway.
    """
    await trio.sleep(gateway.settings.server.shutdown_grace + STOP_WITHIN)
    while True:
        await trio.sleep(PLUGINS_WITHIN)
        if unended := unended_plugins(gateway.hooks.modules(), within):
            for one in unended:
                logger.warning(
                    "a plugin did not end: hookgw ends without it",
                    plugin=one.plugin,
                    hook=one.hook,
                    line=one.line,
                )
            if crash is not None:
                logger.critical("crashed", exc_info=crash)
            end_now(int(crash is not None))


def _local_url(url: str) -> str | None:
    """Return a URL as a browser on this machine can open it; ``None`` if it cannot."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        return None
    address = ip_address(parts.hostname)
    if address.is_unspecified:
        host = "127.0.0.1" if address.version == 4 else "[::1]"
        return urlunsplit(parts._replace(netloc=f"{host}:{parts.port}"))
    return url if address.is_loopback else None


async def _note_hangups(
    hangups: trio.MemorySendChannel[None], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Pass on SIGHUP until cancelled. A waiting one stands for all: each reload reads the present files."""
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            with suppress(trio.WouldBlock):
                hangups.send_nowait(None)


async def _limit_observers(gateway: Gateway, grace: float) -> None:
    """When cancelled, let plugins hear of events only for as long as open requests may take."""
    try:
        await trio.sleep_forever()
    finally:
        gateway.events.limit_observers(trio.current_time() + grace)


async def _reload_on_hangup(
    hung_up: trio.MemoryReceiveChannel[None],
    certificates: Certificates | None,
    gateway: Gateway,
    read_again: Callable[[], Settings] | None,
) -> None:
    async for _ in hung_up:
        if certificates is not None:
            await certificates.renew()
        if read_again is None:
            continue
        try:
            settings = await SYSTEM_THREADS.run(read_again)
            done = await gateway.configuration.apply(settings)
        except HookgwError as error:
            for message in error.messages:
                logger.error("configuration not reloaded", reason=message)  # noqa: TRY400 -- the message says enough
            continue
        except Exception:
            # A bug here must not end a gateway that works.
            logger.exception("configuration not reloaded")
            continue
        if LEVEL in done.changed:
            configure_logging(settings.log, sys.stderr)
        log = logger.warning if done.needs_restart else logger.info
        log("configuration reloaded", changed=done.changed, needs_restart=done.needs_restart)
        await gateway.outbound.log_refused_urls(done.webhooks)
