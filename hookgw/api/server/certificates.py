"""The certificate that connections are secured with, renewed while the server runs.

``cryptography`` is imported with the first certificate.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio

from hookgw.config.settings import TlsSettings
from hookgw.models.clock import rfc3339
from hookgw.models.errors import StartError
from hookgw.models.units import DAY

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

logger = structlog.get_logger("hookgw.api")

LOOK_EVERY = 60.0
"""Seconds between two looks at the files."""
WARN_BEFORE = 14 * DAY
"""Seconds before its end from which a certificate is warned of, once a day."""

Seen = tuple[tuple[int, int, int] | None, ...]
"""What tells a file from another: its time of change, size and inode; ``None`` for one that is gone."""


class Certificates:
    """The certificate and key in force.

    Args:
        settings: which files they are in.

    Attributes:
        context: for new connections: another object after each renewal.

    Raises:
        StartError: a file is missing or wrong.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._seen = _look(settings)
        self.context = load_context(settings)
        self._end = end_of(settings)
        self._tell_of_end()

    async def watch(self) -> None:
        """Renew them whenever the files have changed, until cancelled."""
        tell_at = trio.current_time() + DAY
        while True:
            await trio.sleep(LOOK_EVERY)
            if await trio.to_thread.run_sync(_look, self._settings) != self._seen:
                await self.renew()
            if trio.current_time() >= tell_at:
                tell_at += DAY
                self._tell_of_end()

    async def renew(self) -> None:
        """Read the files again: new connections get what is in them, open ones stay as they are.

        Where something is wrong with them, that is logged, and what was in force stays so.
        """
        self._seen = await trio.to_thread.run_sync(_look, self._settings)
        try:
            self.context, self._end = await trio.to_thread.run_sync(_load, self._settings)
        except StartError as error:
            logger.error("certificate not renewed", reason=str(error))  # noqa: TRY400 -- it has a reader
        else:
            logger.info("certificate renewed", file=self._settings.certificate)
            self._tell_of_end()

    def _tell_of_end(self) -> None:
        left = self._end - time.time()
        if left < WARN_BEFORE:
            said = "certificate runs out soon" if left > 0 else "certificate has run out"
            logger.warning(said, file=self._settings.certificate, end=rfc3339(self._end))


def _load(settings: TlsSettings) -> tuple[ssl.SSLContext, float]:
    return load_context(settings), end_of(settings)


def end_of(settings: TlsSettings) -> float:
    """When the certificate runs out, in seconds since the epoch: hookgw's own, the first in its file.

    Raises:
        StartError: as :func:`load_context`.
    """
    return _certificates(Path(settings.certificate or ""))[0].not_valid_after_utc.timestamp()


def load_context(settings: TlsSettings) -> ssl.SSLContext:
    """What is needed to answer TLS handshakes: TLS 1.2 and up, HTTP/1.1. It reads files.

    Raises:
        StartError: a file cannot be read, or there is no certificate or key in it; it is named.
    """
    certificate, key = Path(settings.certificate or ""), Path(settings.key or "")
    password = settings.key_password or ""
    _certificates(certificate)
    _check_key(key, password)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password)
    except ssl.SSLError as error:
        raise StartError(
            f"server.tls: the key in {key} does not fit the certificate in {certificate} ({error.reason})."
        ) from error
    return context


def _certificates(file: Path) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(_read("certificate", file))
    except ValueError as error:
        raise StartError(f"server.tls.certificate: there is no certificate in PEM in {file}.") from error


def _check_key(file: Path, password: str) -> None:
    """A key that is in the clear is taken with a password too, as OpenSSL does."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _read("key", file)
    is_sealed = b"ENCRYPTED" in content
    try:
        load_pem_private_key(content, password.encode() if is_sealed and password else None)
    except TypeError as error:
        raise StartError(f"server.tls.key: {file} is encrypted: give server.tls.key_password.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        wrong = " that server.tls.key_password opens" if is_sealed else ""
        raise StartError(f"server.tls.key: there is no private key in PEM in {file}{wrong}.") from error


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
