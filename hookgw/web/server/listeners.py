"""Listening sockets: TCP, Unix, or inherited from the parent process (socket activation)."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from hookgw.config.folders import why_not_made
from hookgw.kernel.errors import StartError

_BACKLOG = 1024


@asynccontextmanager
async def open_listeners(addresses: Sequence[str]) -> AsyncIterator[list[trio.SocketListener]]:
    """Listen on every address within the block.

    At the end of the block the sockets are closed. The files of Unix sockets are removed, unless another
    process has replaced them.

    Args:
        addresses: each ``host:port``, ``[ipv6]:port`` (port 0 for any free port), ``unix:/path`` or
            ``fd://number`` (an inherited listening socket).

    Raises:
        StartError: hookgw cannot listen on an address, which the message names. No socket stays open.
    """
    async with contextlib.AsyncExitStack() as stack:
        listeners: list[trio.SocketListener] = []
        for address in addresses:
            for listener in await _listen(address):
                await stack.enter_async_context(listener)
                if address.startswith("unix:"):
                    stack.callback(_remove, *_identity(Path(address.removeprefix("unix:"))))
                listeners.append(listener)
        yield listeners


def url_of(listener: trio.SocketListener, base_path: str = "", scheme: str = "http") -> str:
    """Return the URL of a listener, with its actual port; ``unix:/path`` for a Unix socket."""
    name = listener.socket.getsockname()
    if listener.socket.family == socket.AF_UNIX:
        return f"unix:{name}"
    host = f"[{name[0]}]" if listener.socket.family == socket.AF_INET6 else name[0]
    return f"{scheme}://{host}:{name[1]}{base_path}"


async def _listen(address: str) -> list[trio.SocketListener]:
    try:
        if address.startswith("unix:"):
            return [await _listen_on_path(Path(address.removeprefix("unix:")))]
        if address.startswith("fd://"):
            return [_take_over(int(address.removeprefix("fd://")))]
        name, _, number = address.rpartition(":")
        host, port = name.strip("[]"), _port(number)
        try:
            return await trio.open_tcp_listeners(port, host=host, backlog=_BACKLOG)
        except OSError as error:
            if host != "localhost" or error.errno != errno.EADDRNOTAVAIL:
                raise
            # /etc/hosts often has ::1 for it also where IPv6 is off, as in containers.
            return await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=_BACKLOG)
    except OSError as error:
        raise StartError(f"server.bind: cannot listen on {address}: {_reason(address, error)}.") from error
    except ValueError as error:
        raise StartError(f"server.bind: {address} is not a valid address: {error}.") from error


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:  # the resolver would use it modulo 65536
        raise ValueError("a port must be from 0 to 65535")
    return port


def _reason(address: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "something is listening there already, another process or another address of server.bind"
    if error.errno == errno.EACCES and not address.startswith("unix:"):
        return "this user may not use the port; take one from 1024 on, with a reverse proxy before it"
    return why_not_made(Path(address.removeprefix("unix:")), error)


async def _listen_on_path(path: Path) -> trio.SocketListener:
    # A killed process leaves its socket file behind, and bind would refuse it.
    await _remove_stale(path)
    unix = trio.socket.socket(socket.AF_UNIX)
    try:
        await unix.bind(os.fspath(path))
        unix.listen(_BACKLOG)
        return trio.SocketListener(unix)
    except BaseException:
        unix.close()
        raise


async def _remove_stale(path: Path) -> None:
    """Remove the socket file of a process that has ended.

    Raises:
        OSError: a process still listens there.
    """
    if not await trio.Path(path).is_socket():
        if await trio.Path(path).exists():  # bind says EADDRINUSE of it, as of a socket
            raise FileExistsError(errno.EEXIST, "this file is no socket")
        return
    try:
        stream = await trio.open_unix_socket(path)
    except ConnectionRefusedError:
        await trio.Path(path).unlink(missing_ok=True)
        return
    await stream.aclose()
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _take_over(number: int) -> trio.SocketListener:
    taken = socket.socket(fileno=number)
    try:
        return trio.SocketListener(trio.socket.from_stdlib_socket(taken))
    except BaseException:
        taken.detach()  # the descriptor is the parent's: closing it is not ours to do
        raise


def _identity(path: Path) -> tuple[Path, int]:
    return path, path.stat().st_ino


def _remove(path: Path, inode: int) -> None:
    # A new process may have replaced the file during our shutdown; the inode tells them apart.
    with contextlib.suppress(FileNotFoundError):
        found = path.stat()
        if stat.S_ISSOCK(found.st_mode) and found.st_ino == inode:
            path.unlink()
