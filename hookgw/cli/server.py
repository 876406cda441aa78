"""The gateway and its HTTP interface as one, for the commands that run them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from hookgw.api.app import create_app
from hookgw.api.server.certificates import Certificates
from hookgw.api.server.serve import serve
from hookgw.cli.running import cancel_on_signal, renew_on_hangup
from hookgw.config.settings import Settings
from hookgw.gateway.gateway import Gateway
from hookgw.gateway.open import open_gateway
from hookgw.plugins.hooks import Hooks


@dataclass(frozen=True)
class Server:
    """A gateway that listens.

    Attributes:
        gateway: it.
        urls: where it listens.
    """

    gateway: Gateway
    urls: list[str]


@asynccontextmanager
async def open_server(
    settings: Settings,
    *,
    base: Path,
    hooks: Hooks | None = None,
    show_key: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Server]:
    """Run a gateway with its HTTP interface for the length of the block, or until a signal.

    SIGINT or SIGTERM ends the block silently; a second one ends the process. SIGHUP has the certificate
    read again, where there is one. At the end the server takes
    no more requests, then the gateway drains.

    Args:
        settings: everything that can be set.
        base: the folder that relative plugin folders are below.
        hooks: plugins that are loaded already; by default the settings say which.
        show_key: called with the global key, where it is made just now.

    Yields:
        the server, ready.

    Raises:
        StartError: it cannot start; where a task of the gateway crashes, the block is cancelled and the
            crash is raised. Both come in an exception group.
    """
    stop = trio.CancelScope()
    tls = settings.server.tls
    certificates = await trio.to_thread.run_sync(Certificates, tls) if tls.certificate else None
    async with trio.open_nursery() as nursery:
        await nursery.start(cancel_on_signal, stop)
        if certificates is not None:
            nursery.start_soon(certificates.watch)
            await nursery.start(renew_on_hangup, certificates)
        async with open_gateway(settings, base=base, hooks=hooks, show_key=show_key) as gateway:
            with stop:
                async with trio.open_nursery() as serving:
                    watch = gateway.metrics.watch_connections
                    urls = await serving.start(
                        serve, create_app(gateway), settings.server, certificates, watch
                    )
                    gateway.outbound.listens_on(urls)
                    yield Server(gateway, urls)
                    serving.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
