"""``hookgw mcp``: the tools over stdio, for an assistant on this machine."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import click
import trio

from hookgw.command.client import Client, server_options
from hookgw.command.failure import Failed, ReaderGone
from hookgw.command.output import check_output
from hookgw.kernel.errors import NotSupported
from hookgw.mcp.loading import load_server
from hookgw.mcp.tools import Refused

T = TypeVar("T")


@click.command()
@server_options
def mcp(client: Client) -> None:
    """Serve tools for assistants on standard input and output (MCP).

    An assistant starts this command itself, and calls hookgw with the rights of the key: why is this failing,
    search and show deliveries, count and replay, send, pause. It needs `pip install 'hookgw[mcp]'`.

    \b
        claude mcp add hookgw -- hookgw mcp --profile prod
    """
    check_output()
    try:
        server = load_server()
    except NotSupported as error:
        raise Failed(*error.messages) from error
    # By default, Ctrl-C would wait for the thread that reads standard input, and show a traceback then.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The SDK's stream keeps the answer that nobody read, and fails once more when it is collected: from
    # Python 3.13 on, with lines on standard error.
    sys.unraisablehook = _report_unless_reader_gone
    try:
        trio.run(server.serve_stdio, ClientApi(client))
    except BaseExceptionGroup as error:
        if error.split(BrokenPipeError)[1] is None:
            raise ReaderGone(errno.EPIPE, os.strerror(errno.EPIPE)) from None
        raise


def _report_unless_reader_gone(unraisable: sys.UnraisableHookArgs) -> None:
    if not isinstance(unraisable.exc_value, BrokenPipeError):
        sys.__unraisablehook__(unraisable)


class ClientApi:
    """Calls a gateway in threads, one call at a time: the client has one connection."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = trio.Lock()

    async def call(
        self,
        method: str,
        *path: str | None,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        return await self._run(partial(self._client.call, method, *path, query=query, body=body))

    async def now(self) -> float:
        return await self._run(self._client.now)

    async def _run(self, call: Callable[[], T]) -> T:
        async with self._turn:
            try:
                return await trio.to_thread.run_sync(call)
            except Failed as error:
                raise Refused(*error.messages) from error
