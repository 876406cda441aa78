"""The server's TLS certificate, reloaded while the server runs."""

from __future__ import annotations

import ssl
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio

from hookgw.concurrency.threads import SYSTEM_THREADS
from hookgw.config.settings import TlsSettings
from hookgw.kernel.errors import StartError
from hookgw.kernel.times import rfc3339
from hookgw.kernel.units import DAY

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

logger = structlog.get_logger("hookgw.api")

LOOK_EVERY = 60.0
"""Seconds between two checks of the files."""
WARN_BEFORE = 14 * DAY
"""Seconds before expiry from which hookgw logs a warning, once a day."""

Seen = tuple[tuple[int, int, int] | None, ...]
"""Identifies a version of each file: modification time, size and inode; ``None`` for a missing file."""


class Certificates:
    """The current certificate and key.

    Attributes:
        context: for new connections. Each renewal replaces this object.

    Raises:
        StartError: a file is missing or invalid.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._renewing = trio.Lock()
        self.seen = _look(settings)
        self.context = load_context(settings)
        self._end = end_of(settings)
        self.tell_of_end()

    async def watch(self) -> None:
        """Reload the files whenever they change, until cancelled."""
        tell_at = trio.current_time() + DAY
        while True:
            await trio.sleep(LOOK_EVERY)
            if await SYSTEM_THREADS.run(partial(_look, self._settings)) != self.seen:
                await self.renew()
            if trio.current_time() >= tell_at:
                tell_at += DAY
                self.tell_of_end()

    async def renew(self) -> None:
        """Reload the files. New connections use the new certificate; open connections keep theirs.

        If the files are invalid, log an error and keep the current certificate.
        """
        # One after the other: a renewal that began before the files changed must not end last.
        async with self._renewing:
            # Look before loading: a change between the two is found by the next check, not lost.
            self.seen = await SYSTEM_THREADS.run(partial(_look, self._settings))
            try:
                self.context, self._end = await SYSTEM_THREADS.run(partial(_load, self._settings))
            except StartError as error:
                logger.error("certificate not renewed", reason=str(error))  # noqa: TRY400 -- the message says enough
            else:
                logger.info("certificate renewed", file=self._settings.certificate)
                self.tell_of_end()

    def tell_of_end(self) -> None:
        left = self._end - time.time()
        if left < WARN_BEFORE:
            message = "certificate expires soon" if left > 0 else "certificate has expired"
            logger.warning(message, file=self._settings.certificate, end=rfc3339(self._end))


def _load(settings: TlsSettings) -> tuple[ssl.SSLContext, float]:
    return load_context(settings), end_of(settings)


def end_of(settings: TlsSettings) -> float:
    """Return when hookgw's own certificate (the first in its file) expires, in seconds since the epoch."""
    return _certificates(Path(settings.certificate or ""))[0].not_valid_after_utc.timestamp()


def load_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a TLS server context (TLS 1.2 and later, HTTP/1.1) from the certificate and key files.

    Raises:
        StartError: a file cannot be read, or holds no certificate or key. The message names the file.
    """
    certificate, key = Path(settings.certificate or ""), Path(settings.key or "")
    password = settings.key_password or ""
    _certificates(certificate)
    _check_key(key, password)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # in TLS 1.2 a client could make the server compute for free
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password)
    except ssl.SSLError as error:
        raise StartError(
            f"server.tls: the key in {key} does not match the certificate in {certificate} ({error.reason})."
        ) from error
    return context


def _certificates(file: Path) -> list[Certificate]:
    # Imported here: servers without TLS start faster without it.
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(_read("certificate", file))
    except ValueError as error:
        raise StartError(f"server.tls.certificate: {file} contains no PEM certificate.") from error


def _check_key(file: Path, password: str) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _read("key", file)
    is_encrypted = b"ENCRYPTED" in content
    try:
        # OpenSSL ignores a password for an unencrypted key; ``cryptography`` would raise TypeError.
        load_pem_private_key(content, password.encode() if is_encrypted and password else None)
    except TypeError as error:
        raise StartError(f"server.tls.key: {file} is encrypted. Set server.tls.key_password.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        reason = (
            "cannot be decrypted with server.tls.key_password"
            if is_encrypted
            else "contains no PEM private key"
        )
        raise StartError(f"server.tls.key: {file} {reason}.") from error


def _read(name: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StartError(f"server.tls.{name}: {file} cannot be read: {error.strerror or error}.") from error


def _look(settings: TlsSettings) -> Seen:
    return tuple(_look_at(Path(name or "")) for name in (settings.certificate, settings.key))


def _look_at(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
