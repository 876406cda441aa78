"""The two kinds of connection that a transport talks over: plain TCP, and TLS on top of it.

The plain one is a bare non-blocking socket: it sends first and waits only where the kernel's buffer is
full, because a small request never fills it. That halves the cost of an exchange.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
from functools import cache
from typing import Protocol

import httpx
import trio

from hookgw.delivery.http.errors import TlsFailed
from hookgw.models.target_url import Target

READ_SIZE = 32 * 2**10


class StreamBroken(Exception):
    """The other side reset the connection, or broke the rules of TLS; the message says how."""


class Stream(Protocol):
    """One connection. Only one task may send and one receive at a time."""

    async def is_quiet(self) -> bool:
        """Whether nothing came since the last answer: no bytes, no end, no reset."""

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Send what can be sent without waiting; gives the number of bytes that were taken.

        Raises:
            StreamBroken: the connection is broken.
        """

    async def send_all(self, data: bytes) -> None:
        """Send everything.

        Raises:
            StreamBroken: the connection is broken.
        """

    async def receive(self) -> bytes:
        """What came, at most :data:`READ_SIZE` bytes; empty at the end of the stream.

        Raises:
            StreamBroken: the connection is broken.
        """

    def close_nowait(self) -> None:
        """Close at once; a task that waits gets ``trio.ClosedResourceError``. Idempotent."""

    @property
    def fileno(self) -> int:
        """The number of its socket."""


class PlainStream:
    """A connection over TCP.

    Args:
        sock: connected and non-blocking; the wire owns it.
    """

    __slots__ = ("_sock", "fileno")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fileno = sock.fileno()

    async def is_quiet(self) -> bool:
        return _is_quiet(self.fileno)

    def send_nowait(self, data: bytes | memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise _broken(error) from error

    async def send_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            await trio.lowlevel.wait_writable(self.fileno)
            rest = rest[self.send_nowait(rest) :]

    async def receive(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self.fileno)
            try:
                return self._sock.recv(READ_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise _broken(error) from error

    def close_nowait(self) -> None:
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self.fileno)
            self._sock.close()


class TlsStream:
    """A connection over TLS. Made by :func:`open_tls`."""

    def __init__(self, stream: trio.SSLStream[_Source]) -> None:
        self._stream = stream
        self._source = stream.transport_stream

    async def is_quiet(self) -> bool:
        """Records that hold nothing for us (session tickets) are taken in on the way."""
        self._source.waits = False
        try:
            await self._stream.receive_some(1)
        except trio.WouldBlock:
            return True
        except trio.BrokenResourceError:
            return False
        finally:
            self._source.waits = True
        return False

    def send_nowait(self, data: bytes | memoryview) -> int:  # noqa: ARG002
        return 0  # the records of TLS are made by the stream, which may wait

    async def send_all(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError as error:
            raise _broken(error.__cause__ or error) from error

    async def receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(READ_SIZE))
        except trio.BrokenResourceError as error:
            raise _broken(error.__cause__ or error) from error

    def close_nowait(self) -> None:
        self._source.close_nowait()

    @property
    def fileno(self) -> int:
        return self._source.fileno


class _Source(trio.abc.Stream):
    """The TCP stream below TLS, which can be told not to wait for bytes but to say that there are none.

    Without that nobody could tell whether TLS holds bytes back: a surplus answer that came in one
    segment with the last one would be taken for the answer to the next request.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.fileno = sock.fileno()
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self.waits = True

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if not self.waits and _is_quiet(self.fileno):
            raise trio.WouldBlock
        return await self._stream.receive_some(max_bytes)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        self.close_nowait()
        await trio.lowlevel.checkpoint()

    def close_nowait(self) -> None:
        self._stream.socket.close()


async def open_tls(sock: socket.socket, context: ssl.SSLContext, target: Target) -> TlsStream:
    """Do the TLS handshake on a connected socket.

    Args:
        sock: connected and non-blocking; it is closed if this fails, else the wire owns it.
        context: as a client's.
        target: names the host that the certificate must be for.

    Raises:
        TlsFailed: the message names what is wrong with the certificate or the handshake.
    """
    stream = trio.SSLStream(
        _Source(sock),
        context,
        server_hostname=target.server_hostname,
        https_compatible=True,
    )
    wire = TlsStream(stream)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        wire.close_nowait()
        raise TlsFailed(_tls_reason(error.__cause__ or error, target)) from error
    except BaseException:
        wire.close_nowait()
        raise
    return wire


def _is_quiet(fileno: int) -> bool:
    """Ask the kernel whether a socket has nothing to say, for the price of one system call."""
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return not poll.poll(0)


@cache
def default_ssl_context() -> ssl.SSLContext:
    """The context that all transports share; making it costs up to 100 ms, so it is made once.

    It trusts what the system trusts (also ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``); where the system has
    no such list, that of certifi.
    """
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is None:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.create_default_context()


def _broken(error: BaseException) -> StreamBroken:
    if getattr(error, "errno", None) == errno.EBADF:
        raise trio.ClosedResourceError from error
    return StreamBroken(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _tls_reason(error: BaseException, target: Target) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The certificate of {target.place} was refused: {error.verify_message.rstrip('.')}."
    if isinstance(error, ssl.SSLEOFError | OSError) and not isinstance(error, ssl.SSLError):
        return f"{target.place} broke the connection during the TLS handshake: {_broken(error)}."
    reason = getattr(error, "reason", None) or str(error)
    return f"The TLS handshake with {target.place} failed: {reason}."
