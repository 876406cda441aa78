"""Three servers, and what each makes of a client's bytes: hookgw's, Node's, and nginx before Node's.

The class of a connection names its responses in order: ``accepted``, ``refused 400``, an interim response by
its status, or ``closed`` if there is none.
"""

import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from tests.http_suites.cases import ACCEPTED, REFUSED
from tests.public.config import ServerSettings
from tests.public.web import serve

PATIENCE = 8.0
"""Seconds for one connection."""
_NODE = """
const http = require('http');
const server = http.createServer((request, response) => {
  request.on('data', () => {});
  request.on('end', () => response.end('ok'));
});
server.on('checkContinue', (request, response) => server.emit('request', request, response));
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit()).resume();
"""
_NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 200; }}
http {{
  access_log off; proxy_ignore_client_abort on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{behind}; }} }}
}}
"""
_STATUS = re.compile(rb"HTTP/1\.[01] (\d\d\d)[^\r\n]*\r\n")


@asynccontextmanager
async def open_servers(folder: Path) -> AsyncIterator[dict[str, int]]:
    """Run the servers that this machine has, and yield their ports by name. ``hookgw`` is the first."""
    ports: dict[str, int] = {}
    async with trio.open_nursery() as nursery:
        settings = ServerSettings(bind=("127.0.0.1:0",), max_connections_per_address=10_000)
        (url,) = await nursery.start(serve, _accept, settings)
        ports["hookgw"] = int(url.rpartition(":")[2])
        running: list[trio.Process] = []
        try:
            if node := shutil.which("node"):
                ports["Node"] = await _start_node(node, nursery, running)
            if "Node" in ports and (
                nginx := shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
            ):
                ports["nginx"] = await _start_nginx(nginx, folder, ports["Node"], nursery, running)
            yield ports
        finally:
            for process in running:
                process.kill()
        nursery.cancel_scope.cancel()


async def _accept(scope: Any, receive: Any, send: Any) -> None:
    """Read the body, as most routes do, and respond (ASGI)."""
    while (message := await receive())["type"] == "http.request":
        if not message["more_body"]:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok", "more_body": False})
            return


async def _start_node(node: str, nursery: trio.Nursery, running: list[trio.Process]) -> int:
    process: trio.Process = await nursery.start(
        partial(
            trio.run_process, [node, "-e", _NODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False
        )
    )
    running.append(process)
    assert process.stdout is not None
    with trio.fail_after(PATIENCE):
        return int(await process.stdout.receive_some())


async def _start_nginx(
    nginx: str, folder: Path, behind: int, nursery: trio.Nursery, running: list[trio.Process]
) -> int:
    with trio.socket.socket() as free:
        await free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, port=port, behind=behind), encoding="ascii")
    command = [nginx, "-c", str(configuration), "-p", str(folder)]
    process: trio.Process = await nursery.start(
        partial(trio.run_process, command, stderr=subprocess.DEVNULL, check=False)
    )
    running.append(process)
    with trio.fail_after(PATIENCE):
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                await trio.sleep(0.05)
            else:
                await stream.aclose()
                return port


async def class_of(sent: bytes, port: int) -> str:
    """Send bytes on a connection of their own, end it, and return the class of what comes back."""
    received = b""
    with trio.move_on_after(PATIENCE) as patience:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(_send, stream, sent)
            try:
                while more := await stream.receive_some():
                    received += more
            except trio.BrokenResourceError:
                pass  # cut off: what came before that counts
            nursery.cancel_scope.cancel()
    if patience.cancelled_caught:
        return "hangs"
    return " ".join(_classes(received)) or "closed"


async def _send(stream: trio.SocketStream, sent: bytes) -> None:
    try:
        await stream.send_all(sent)
        await stream.send_eof()
    except trio.BrokenResourceError:
        pass


def _classes(received: bytes) -> list[str]:
    found = []
    for status in map(int, _STATUS.findall(received)):
        if status < 200:
            found.append(str(status))
        else:
            found.append(ACCEPTED if status < 400 else f"{REFUSED} {status}")
    return found
