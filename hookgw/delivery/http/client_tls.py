"""TLS as a client: the certificates that hookgw accepts, and those that it presents.

Every context that hookgw makes for connections to others comes from here, so that all of them accept the same
certificates, on every Python.

A registration may have an identity (:class:`~hookgw.records.tls_identity.TlsIdentity`): authorities, a
certificate and its key. OpenSSL's interface in Python reads certificates and keys from files only. A key must
never be in a named file, because a crash would leave that behind: the key is passed through memory that only
this process can open.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, partial
from pathlib import Path

import httpx
import trio

from hookgw.concurrency.share_line import WaitingClaim, take_in_line
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.delivery.http.errors import TlsFailed
from hookgw.fair import Share
from hookgw.kernel.errors import StartError
from hookgw.records.tls_identity import NO_IDENTITY, TlsIdentity

MOST_KEPT = 64
"""Contexts of identities that are kept. One takes 0.8 MB for the usual authorities, or 60 KB with its own."""

AT_A_TIME = 2
"""Contexts that are built at a time: each takes up to 100 ms of CPU. No instance has both places."""


def with_hookgws_rules(context: ssl.SSLContext) -> ssl.SSLContext:
    """Give the context of a client of HTTP the rules that hold for all of hookgw's clients."""
    _set_rules(context)
    # RFC 7301, as browsers and curl say it: proxies may choose by it, and firewalls take who says nothing for
    # a robot.
    context.set_alpn_protocols(["http/1.1"])
    return context


def mail_ssl_context() -> ssl.SSLContext:
    """Return a new context for a mail server, some of which refuse a client that says it speaks HTTP."""
    context = _usual_context()
    _set_rules(context)
    return context


def _set_rules(context: ssl.SSLContext) -> None:
    # Python 3.13 turns both flags on, and earlier versions neither: an update of Python would change which
    # receivers can be reached. Strict (RFC 5280 to the letter) refuses the certificates of many private
    # authorities, for a missing key identifier, and what they protect is not safer for it. With partial
    # chains, a listed certificate is trusted although its issuer is not listed.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # The default of Python; distributions change it.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # By renegotiating, a server makes the event loop compute as many handshakes as it likes.
    context.options |= ssl.OP_NO_RENEGOTIATION
    # The server chooses the numbers of a Diffie-Hellman key exchange without curves: with 10,000 bits, one
    # handshake blocks the process for two seconds. Browsers have not offered it for years.
    names = [str(cipher["name"]) for cipher in context.get_ciphers()]
    context.set_ciphers(":".join(name for name in names if not name.startswith("DHE-")))


@cache
def default_ssl_context() -> ssl.SSLContext:
    """Return the context that all clients share; loading the certificates takes up to 100 ms.

    It trusts the system's certificates (or ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``), else certifi's.
    """
    return _with_usual_authorities()


def _with_usual_authorities() -> ssl.SSLContext:
    return with_hookgws_rules(_usual_context())


def _usual_context() -> ssl.SSLContext:
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is None:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.create_default_context()


def read_ca_file(name: str | None) -> str:
    """Return the content of ``delivery.ca_file``; empty if it is not set.

    Raises:
        StartError: the file cannot be read, or has no certificate.
    """
    if not name:
        return ""
    file = Path(name)
    try:
        text = file.read_text("utf-8", "replace")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=_ascii(text))
    except (ssl.SSLError, ValueError) as error:
        raise StartError(f"delivery.ca_file: {file} contains no PEM certificate.") from error
    except OSError as error:
        reason = error.strerror or error
        raise StartError(f"delivery.ca_file: {file} cannot be read: {reason}.") from error
    return text


class ClientContexts:
    """The TLS contexts of one gateway: a common one, and one for each TLS identity in use.

    Args:
        extra_authorities: trusted beside the usual ones, in PEM; see :func:`read_ca_file`.
    """

    def __init__(self, extra_authorities: str = "", threads: Threads = SYSTEM_THREADS) -> None:
        self._extra = extra_authorities
        self._threads = threads
        self._limiter = trio.CapacityLimiter(AT_A_TIME)
        self._places: Share[WaitingClaim] = Share(AT_A_TIME, ratio=1)
        self._usual: ssl.SSLContext | None = None
        self._kept: OrderedDict[TlsIdentity, ssl.SSLContext] = OrderedDict()
        self._holders: dict[TlsIdentity, str] = {}  # of the kept contexts
        # Many lanes of one registration ask for its context at the same moment.
        self._being_built: dict[TlsIdentity, trio.Event] = {}

    async def get(self, identity: TlsIdentity | None = None, holder: str = "") -> ssl.SSLContext:
        """Return the context for an identity, or the common one. ``holder`` is charged for the thread.

        Raises:
            TlsFailed: OpenSSL refuses the certificate or the key.
        """
        identity = identity or NO_IDENTITY
        while True:
            found = self._usual if identity == NO_IDENTITY else self._kept.get(identity)
            if found is not None:
                if identity in self._kept:
                    self._kept.move_to_end(identity)
                return found
            if identity not in self._being_built:
                return await self._make(identity, holder)
            await self._being_built[identity].wait()

    async def _make(self, identity: TlsIdentity, holder: str) -> ssl.SSLContext:
        built = self._being_built[identity] = trio.Event()
        try:
            await take_in_line(self._places, holder)
            try:
                context = await self._threads.run(partial(self._build, identity), limiter=self._limiter)
            finally:
                self._places.give(holder)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            what = "The authorities" if identity == NO_IDENTITY else "What is in tls of the registration"
            raise TlsFailed(f"{what} cannot be used: {reason}.") from error
        finally:
            del self._being_built[identity]
            built.set()
        if identity == NO_IDENTITY:
            self._usual = context
        else:
            self._kept[identity], self._holders[identity] = context, holder
            if len(self._kept) > MOST_KEPT:
                # The oldest one of the instance with the most: an instance that keeps changing its identities
                # displaces its own.
                counts = Counter(self._holders.values())
                most = max(counts.values())
                gone = next(one for one in self._kept if counts[self._holders[one]] == most)
                del self._kept[gone], self._holders[gone]
        return context

    def _build(self, identity: TlsIdentity) -> ssl.SSLContext:
        if identity.ca is not None:
            context = with_hookgws_rules(ssl.create_default_context(cadata=identity.ca))
        elif identity == NO_IDENTITY and not self._extra:
            return default_ssl_context()
        else:
            context = _with_usual_authorities()
            if self._extra:
                context.load_verify_locations(cadata=_ascii(self._extra))
        if identity.client_certificate is not None:
            load_certificate(context, identity.client_certificate, identity.client_key or "")
        return context


USUAL_TLS_CONTEXTS = ClientContexts()
"""The contexts of transports without their own."""


def load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Let a context present a certificate in PEM, without a file that has a name. This may block.

    Raises:
        ssl.SSLError: OpenSSL refuses the certificate or the key, or they do not belong together.
        OSError: the system refuses the descriptors.
    """
    with _unnamed(certificate.encode()) as certificate_file, _unnamed(key.encode()) as key_file:
        # With a password, so that OpenSSL does not ask for one on the terminal.
        context.load_cert_chain(certificate_file, key_file, password="")


def _unnamed(content: bytes) -> AbstractContextManager[str]:
    try:
        descriptor = os.memfd_create("hookgw")
    except (AttributeError, OSError):  # another system than Linux, or one that forbids it (vm.memfd_noexec)
        return _piped(content)
    return _in_memory(descriptor, content)


@contextmanager
def _in_memory(descriptor: int, content: bytes) -> Iterator[str]:
    """Yield a path to memory, valid within the block."""
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"


@contextmanager
def _piped(content: bytes) -> Iterator[str]:
    """Yield a path that can be read once, within the block."""
    reading, writing = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(writing, "wb", buffering=0) as file:
            file.write(content)

    # A pipe may hold less than the content.
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)  # ends the writer if OpenSSL did not read all of it
        writer.join()


def _ascii(pem: str) -> str:
    """Replace what is not ASCII: OpenSSL refuses it, but comments between certificates may be in any
    language.
    """
    return pem.encode("ascii", "replace").decode("ascii")
