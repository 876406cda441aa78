"""Plain TCP, and TLS on top of it: the two kinds of connection.

The plain stream is a bare non-blocking socket. It sends first and waits only if the kernel's buffer is full,
which a small request never fills. That halves the cost of an exchange.
"""

from __future__ import annotations

import errno
import fcntl
import re
import select
import socket
import ssl
import struct
import sys
import termios
from contextlib import suppress
from typing import Protocol

import trio

from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.delivery.failed_response import NEEDS_CERTIFICATE
from hookgw.delivery.http.errors import TlsFailed
from hookgw.delivery.http.handshake import Handshake
from hookgw.kernel.target_url import Target
from hookgw.records.tls_identity import NO_IDENTITY, TlsIdentity

STREAM_READ_SIZE = 32 * 2**10
ENCRYPTED_AT_ONCE = 128 * 2**10
"""Bytes that are encrypted before they are sent."""


class StreamBroken(Exception):
    """The other side reset the connection or violated TLS; the message says how."""


class TlsAlert(StreamBroken):
    """The other side ended TLS with an alert, or sent bytes that are not TLS."""


class Stream(Protocol):
    """One connection. At most one task may send and one may receive at a time.

    Sending and receiving raise :class:`StreamBroken` if the connection is broken.
    """

    def has_arrivals(self) -> bool:
        """Whether bytes, the end or a reset may be there to :meth:`receive`. This reads nothing."""

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Send as much as possible without waiting, and return the number of bytes taken."""

    async def send_all(self, data: bytes) -> None: ...

    async def receive(self) -> bytes:
        """Wait for bytes and return at most :data:`STREAM_READ_SIZE` of them; empty at the stream's end."""

    def acknowledge_nowait(self) -> None:
        """Acknowledge at once what has arrived: see :func:`acknowledge`."""

    def close_nowait(self, *, drop: bool = False) -> None:
        """Close at once; tasks that wait on the stream get ``trio.ClosedResourceError``. Idempotent.

        The system goes on sending what the other side has not acknowledged, for minutes if it must; with
        ``drop``, it resets the connection instead.
        """

    def interrupt_nowait(self) -> None:
        """Interrupt tasks as :meth:`close_nowait` does, and leave the connection open.

        A task that waits in :meth:`receive` first gets what has arrived, if anything has.
        """

    def resume_nowait(self) -> None:
        """Allow :meth:`receive` again after :meth:`interrupt_nowait`."""

    @property
    def fileno(self) -> int: ...


class PlainStream:
    """A connection over TCP. It owns the socket, which is connected and non-blocking."""

    __slots__ = ("_is_interrupted", "_poll", "_readable", "_sock", "fileno")

    def __init__(self, sock: socket.socket, hub: Hub = NO_HUB) -> None:
        self._sock = sock
        self._readable = hub.watch(sock.fileno())
        self._is_interrupted = False
        self.fileno = sock.fileno()
        self._poll = _poll_of(self.fileno)

    def has_arrivals(self) -> bool:
        return bool(self._poll.poll(0))

    def send_nowait(self, data: bytes | memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise _stream_broken(error) from error

    async def send_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if self._is_interrupted:
                raise trio.ClosedResourceError
            await trio.lowlevel.wait_writable(self.fileno)
            rest = rest[self.send_nowait(rest) :]

    async def receive(self) -> bytes:
        while True:
            # A task that is about to run is not waiting, and an interruption would miss it.
            if self._is_interrupted:
                raise trio.ClosedResourceError
            # Waiting first: the response has not arrived yet when the request has just been sent, so trying
            # recv first would cost a system call for nothing.
            await self._readable.wait()
            try:
                received = self._sock.recv(STREAM_READ_SIZE)
            except BlockingIOError:
                self._readable.note_nothing()
                continue  # select(2): a socket may be reported as readable and then block
            except OSError as error:
                raise _stream_broken(error) from error
            if len(received) == STREAM_READ_SIZE:
                self._readable.note_more()
            return received

    def acknowledge_nowait(self) -> None:
        acknowledge(self._sock)

    def close_nowait(self, *, drop: bool = False) -> None:
        if self._sock.fileno() >= 0:
            self._readable.close()
            if drop:
                drop_unacknowledged(self._sock)
            self._sock.close()

    def interrupt_nowait(self) -> None:
        if self._sock.fileno() >= 0:
            self._is_interrupted = True
            self._readable.interrupt()

    def resume_nowait(self) -> None:
        self._is_interrupted = False


class TlsStream:
    """A connection over TLS, made by :func:`open_tls`."""

    def __init__(self, stream: trio.SSLStream[_PollableTcpStream], *, has_certificate: bool) -> None:
        self._stream = stream
        self._tcp = stream.transport_stream
        self._has_certificate = has_certificate

    def certificate_expires(self) -> float | None:
        """Return the end of the other side's certificate, in seconds since the epoch."""
        found = self._stream.getpeercert() or {}
        ends = found.get("notAfter")
        return ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else None

    async def is_quiet(self) -> bool:
        """Return whether nothing arrived since the last response: no bytes, no end, no reset."""
        # Reading, not polling the socket: records without data for us (TLS 1.3 session tickets) may have
        # arrived, and a surplus response may already be in the TLS buffer, where no poll sees it.
        self._tcp.waits = False
        try:
            await self._stream.receive_some(1)
        except trio.WouldBlock:
            return True
        except trio.BrokenResourceError:
            return False
        finally:
            self._tcp.waits = True
        return False

    def has_arrivals(self) -> bool:
        return self._tcp.has_arrivals()

    def send_nowait(self, data: bytes | memoryview) -> int:  # noqa: ARG002
        return 0  # SSLStream encrypts only in send_all, which may wait

    async def send_all(self, data: bytes) -> None:
        # In pieces: SSLStream would hold all of a large body a second and third time, encrypted.
        rest = memoryview(data)
        try:
            while rest:
                await self._stream.send_all(rest[:ENCRYPTED_AT_ONCE])
                rest = rest[ENCRYPTED_AT_ONCE:]
                if (error := self._tcp.send_error) is not None:
                    raise error
        except trio.BrokenResourceError as error:
            raise _stream_broken(error.__cause__ or error) from error

    async def receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(STREAM_READ_SIZE))
        except trio.BrokenResourceError as error:
            cause = error.__cause__ or error
            if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
                # In TLS 1.3 a server judges the client's certificate when the client's handshake is over.
                hint = _certificate_hint(cause, self._has_certificate)
                if _reason(cause).endswith("HANDSHAKE_FAILURE") and self._stream.cipher()[1] != "TLSv1.3":
                    # Apache and IIS do so where only some of their paths want a certificate.
                    hint = f" It asked for a second handshake, which hookgw refuses: {_FIRST_ONLY}."
                raise TlsAlert(f"{_reason(cause)}.{hint}".removesuffix(".")) from error
            raise _stream_broken(cause) from error

    def acknowledge_nowait(self) -> None:
        acknowledge(self._tcp.socket)

    def close_nowait(self, *, drop: bool = False) -> None:
        # Without close_notify, which could wait. The receiver loses nothing: our requests carry a
        # content-length, so it cannot mistake this for the end of a body.
        if drop:
            drop_unacknowledged(self._tcp.socket)
        self._tcp.close_nowait()

    def interrupt_nowait(self) -> None:
        self._tcp.is_interrupted = True
        trio.lowlevel.notify_closing(self.fileno)

    def resume_nowait(self) -> None:
        self._tcp.is_interrupted = False

    @property
    def fileno(self) -> int:
        return self._tcp.fileno


class _PollableTcpStream(trio.abc.Stream):
    """The TCP stream below TLS. With ``waits`` off, reading raises ``trio.WouldBlock`` instead of waiting.

    Trio's SSLStream cannot say whether it holds decrypted bytes back. Without this switch a surplus response
    that came in one segment with the last one would be taken for the response to the next request.

    Sending never raises ``trio.BrokenResourceError``. Otherwise SSLStream would refuse to read the bytes that
    the other side sent before it closed, such as the alert for a refused certificate, or a 413.

    Attributes:
        send_error: why the last bytes could not be sent.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.fileno = sock.fileno()
        self._poll = _poll_of(self.fileno)
        self.socket = trio.socket.from_stdlib_socket(sock)
        self._stream = trio.SocketStream(self.socket)
        self.waits = True
        self.is_interrupted = False
        self.send_error: trio.BrokenResourceError | None = None

    def has_arrivals(self) -> bool:
        return bool(self._poll.poll(0))

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if not self.waits and not self.has_arrivals():
            raise trio.WouldBlock
        if self.is_interrupted:
            raise trio.ClosedResourceError
        return await self._stream.receive_some(max_bytes)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_interrupted:
            raise trio.ClosedResourceError
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError as error:
            self.send_error = error

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        self.close_nowait()
        await trio.lowlevel.checkpoint()

    def close_nowait(self) -> None:
        self.socket.close()


async def open_tls(
    sock: socket.socket,
    context: ssl.SSLContext,
    target: Target,
    identity: TlsIdentity = NO_IDENTITY,
    holder: str = "",
) -> TlsStream:
    """Do the TLS handshake on a connected, non-blocking socket, on behalf of an instance.

    The stream owns the socket, which is closed after a failure or cancellation. The certificate must be valid
    for the target's host, unless the identity names another.

    Raises:
        TlsFailed: the message says what is wrong with the certificate or the handshake.
    """
    handshake = Handshake(
        _PollableTcpStream(sock), context, server_hostname=identity.server_name or target.server_hostname
    )
    has_certificate = identity.client_certificate is not None
    tls = TlsStream(handshake.stream, has_certificate=has_certificate)
    try:
        await handshake.run(holder)
    except trio.BrokenResourceError as error:
        tls.close_nowait()
        cause = error.__cause__ or error
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = f"The certificate of {target.place} was refused: {cause.verify_message.rstrip('.')}."
            if cause.verify_code in _UNKNOWN_AUTHORITY:
                # Requests of plugins and connectors belong to no registration.
                reason += (
                    " To trust a private authority, set tls.ca of the registration, "
                    "or delivery.ca_file for all requests."
                )
            elif cause.verify_code in _OTHER_NAME:
                reason += " If its certificate is for another name, set tls.serverName of the registration."
        elif isinstance(cause, ssl.SSLEOFError | OSError) and not isinstance(cause, ssl.SSLError):
            # ssl.SSLError is an OSError too; only the others say that the connection itself broke.
            reason = f"{target.place} broke the connection during the TLS handshake: {_stream_broken(cause)}."
        else:
            reason = f"The TLS handshake with {target.place} failed: {_reason(cause)}."
            reason += next((f" {hint}" for ends, hint in _HINTS if _reason(cause).endswith(ends)), "")
            if _reason(cause).endswith(_NO_SUCH_NAME) and not has_certificate:
                reason += (
                    " If it has no certificate for this name, correct the host in the URL, "
                    "or set tls.serverName of the registration."
                )
            reason += _certificate_hint(cause, has_certificate)
        raise TlsFailed(reason) from error
    except BaseException:
        tls.close_nowait()
        raise
    return tls


def unacknowledged(fileno: int) -> int:
    """Return how many bytes sent the other side has not acknowledged; 0 if the system cannot tell."""
    try:
        found = fcntl.ioctl(fileno, termios.TIOCOUTQ, struct.pack("i", 0))
    except (OSError, ValueError):
        return 0
    (count,) = struct.unpack("i", found)
    return max(0, int(count))


def drop_unacknowledged(sock: socket.socket | trio.socket.SocketType) -> None:
    """Have the close of a socket reset the connection if the other side has not acknowledged all bytes."""
    if unacknowledged(sock.fileno()):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


_HINTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        # What OpenSSL calls bytes that are no record of TLS, by its version and by what the bytes are.
        ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"),
        "This was no TLS: if the receiver speaks plain HTTP, use http:// in the URL.",
    ),
    (
        # The alert of a server, and what OpenSSL says of a server that chose an older version.
        ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"),
        "The receiver speaks neither TLS 1.2 nor 1.3, and hookgw nothing older.",
    ),
    (("NO_APPLICATION_PROTOCOL",), "The receiver speaks HTTP/2 alone. Let it accept HTTP/1.1, too."),
)

# What servers send that have no certificate for the name: nginx and Apache the first, Caddy and others in Go
# the second, Cloudflare and HAProxy the third.
_NO_SUCH_NAME = ("UNRECOGNIZED_NAME", "INTERNAL_ERROR", "HANDSHAKE_FAILURE")

# Servers that want a certificate and get none send: in TLS 1.3 a specific alert; before that BAD_CERTIFICATE
# (Go), or HANDSHAKE_FAILURE (OpenSSL), which may mean other things.
_ASKS = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE")
_MAY_ASK = ("HANDSHAKE_FAILURE", "CERTIFICATE_UNKNOWN", "ACCESS_DENIED")
_REFUSES = (*_ASKS, *_MAY_ASK, "UNKNOWN_CA", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED", "DECRYPT_ERROR")
_FIRST_ONLY = "a receiver must ask for a client certificate when the connection opens"
_MAY_NEED_CERTIFICATE = (
    "If it requires a client certificate, set tls.clientCertificate and tls.clientKey of the registration."
)

_UNNAMED = re.compile(r"\[SSL\] ([a-z0-9 ]+) \(_ssl\.c:\d+\)")

# X509_V_ERR_… of OpenSSL, which Python's ssl has no names for.
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
_OTHER_NAME = (62, 64)


def _certificate_hint(error: BaseException, has_certificate: bool) -> str:
    """Return a sentence about the client certificate if an alert may concern it; else an empty text."""
    reason = _reason(error)
    if not isinstance(error, ssl.SSLError) or "ALERT" not in reason:
        return ""
    if has_certificate:
        is_about_it = reason.endswith((*_REFUSES, "UNSUPPORTED_CERTIFICATE"))
        return " It refused the certificate in tls.clientCertificate." if is_about_it else ""
    if reason.endswith(_ASKS):
        return f" {NEEDS_CERTIFICATE}"
    return f" {_MAY_NEED_CERTIFICATE}" if reason.endswith(_MAY_ASK) else ""


def _reason(error: BaseException) -> str:
    """Return OpenSSL's name of what went wrong; or what else the error says."""
    found = str(getattr(error, "reason", None) or error)
    # Python has no names for newer alerts, only OpenSSL's text.
    unnamed = _UNNAMED.fullmatch(found)
    return unnamed[1].upper().replace(" ", "_") if unnamed else found


def _poll_of(fileno: int) -> select.poll:
    """Return a poll object for arrivals: unlike a non-blocking recv, it consumes nothing."""
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return poll


def acknowledge(sock: socket.socket | trio.socket.SocketType) -> None:
    """Acknowledge at once what has arrived, where the system can (Linux).

    Many programs, such as the HTTP servers of the JDK and of Python, and HTTP::Tiny of Perl, send a head and
    then, by Nagle's algorithm, hold the body back until the head is acknowledged: 40 ms later, by itself.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # reading says how the connection broke
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _stream_broken(error: BaseException) -> StreamBroken:
    # Another task closed the socket between the wake-up and the system call: not the receiver's doing.
    if getattr(error, "errno", None) == errno.EBADF:
        raise trio.ClosedResourceError from error
    return StreamBroken(getattr(error, "strerror", None) or str(error) or type(error).__name__)
