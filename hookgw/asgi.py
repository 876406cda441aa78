"""The gateway as an ASGI application: ``hypercorn --worker-class trio hookgw.asgi:app``.

For HTTP/2, which ``hookgw serve`` does not speak. The gateway and its configuration are the same;
docs/install.md says which promises of hookgw's own server do not hold.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
import trio

from hookgw.app.serve import prepare_process, show_global_key
from hookgw.app.server import Api, open_api
from hookgw.command.configuration import read_settings
from hookgw.command.descriptors import fill_descriptors
from hookgw.command.process import end_without_threads, exempt_started_objects, messages_of
from hookgw.config.service_manager import SERVICE_READY, SERVICE_STOPPING, notify
from hookgw.core.background_output import background_output
from hookgw.kernel.errors import StartError
from hookgw.web.server.asgi_client import AsgiClient

logger = structlog.get_logger("hookgw")

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class App:
    """The application: the server's lifespan is the gateway's.

    The environment variable ``HOOKGW_CONFIG`` names the configuration; without it, ``config.yaml`` in the
    working directory is used if it exists.
    """

    def __init__(self) -> None:
        self._api: Api | None = None
        self._addresses: set[tuple[str, int]] = set()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Run the gateway, or respond to one request (ASGI)."""
        if scope["type"] == "lifespan":
            await self._run(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif self._api is None:
            raise RuntimeError("The gateway is not running: hookgw needs a server with ASGI's lifespan.")
        else:
            self._note_address(self._api, scope.get("server"))
            await AsgiClient(scope, receive, send).run(self._api.app)

    async def _run(self, receive: Receive, send: Send) -> None:
        await receive()
        end = "startup.failed"
        messages: list[str] = []
        try:
            fill_descriptors()
            with background_output():
                async with self._open():
                    end = "shutdown.failed"  # also of a crash before the stop: hypercorn ends then, too
                    await send({"type": "lifespan.startup.complete"})
                    await receive()
            end = "shutdown.complete"
        except Exception as error:
            expected = messages_of(error)
            if expected is None:
                logger.critical("crashed", exc_info=error)
            messages = ["hookgw crashed; see its log."] if expected is None else expected
        end_without_threads(int(end != "shutdown.complete"))
        await send({"type": f"lifespan.{end}", "message": " ".join(messages)})

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        try:
            trio.lowlevel.current_task()
        except RuntimeError:
            raise StartError("hookgw runs on Trio: start hypercorn with --worker-class trio.") from None
        given = os.environ.get("HOOKGW_CONFIG")
        config = Path(given) if given else None
        settings, base = read_settings(config)
        prepare_process(settings, config)
        logging.getLogger("hypercorn.error").addFilter(remove_handlers)
        if settings.server.tls.certificate:
            logger.warning(
                "server.tls is not used", fix="Give hypercorn the files: --certfile and --keyfile."
            )
        async with open_api(settings, base=base) as api, trio.open_nursery() as nursery:
            nursery.start_soon(api.run)
            await api.gateway.keys.ensure_lasting_global_key(show_global_key)
            await api.app.routed.wait()
            exempt_started_objects()
            self._api = api
            notify(SERVICE_READY)
            try:
                yield
            finally:
                notify(SERVICE_STOPPING)
                self._api = None
                nursery.cancel_scope.cancel()

    def _note_address(self, api: Api, server: tuple[str, int | None] | None) -> None:
        # hypercorn's addresses are in none of hookgw's settings. What would call hookgw in circles comes
        # through one of them, and from its second round on, the address guard refuses it.
        if server is None or server[1] is None or (server[0], server[1]) in self._addresses:
            return
        self._addresses.add((server[0], server[1]))
        hosts = ((f"[{host}]" if ":" in host else host, port) for host, port in self._addresses)
        api.gateway.outbound.own_addresses.listen_on([f"http://{host}:{port}" for host, port in hosts])


def remove_handlers(_record: logging.LogRecord) -> bool:
    # hypercorn adds a handler to this logger when it writes its first line, and passes the line on, too.
    hypercorn = logging.getLogger("hypercorn.error")
    for handler in tuple(hypercorn.handlers):
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            hypercorn.removeHandler(handler)
    return True


app = App()
