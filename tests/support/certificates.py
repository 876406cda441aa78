"""Certificates for tests: of clients, and of authorities that trustme does not make."""

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.public.records import TlsIdentity

YEAR = datetime.timedelta(days=365)


def pem_of(ca: trustme.CA) -> str:
    """Return the certificate of an authority."""
    return ca.cert_pem.bytes().decode()


def certificate_of(ca: trustme.CA, name: str = "client.example", **options: Any) -> tuple[str, str]:
    """Return a certificate with its intermediates, and its key."""
    issued = ca.issue_cert(name, **options)
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    return chain.decode(), issued.private_key_pem.bytes().decode()


def identity(
    ca: trustme.CA | None = None, client_ca: trustme.CA | None = None, name: str | None = None
) -> TlsIdentity:
    """Return an identity: authorities, a client's certificate, and the name of the receiver."""
    certificate, key = (None, None) if client_ca is None else certificate_of(client_ca)
    return TlsIdentity(None if ca is None else pem_of(ca), certificate, key, name)


def requiring(
    ca: trustme.CA, client_ca: trustme.CA, *names: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    """Return the context of a server that speaks one version of TLS and wants a certificate of clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    client_ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version
    return context


@contextmanager
def judging(context: ssl.SSLContext) -> Iterator[int]:
    """Serve HTTPS on a port of 127.0.0.1, in a thread: Trio's server closes where others send an alert."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            plain.settimeout(10)
            # The handshake raises what is wrong with the client's certificate, after it has sent the alert.
            with plain, suppress(OSError), context.wrap_socket(plain, server_side=True) as stream:
                while stream.recv(65536):
                    stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


class BareAuthority:
    """An authority as many companies have one: without the identifiers that RFC 5280 asks for.

    Python 3.13 refuses it unless it is told not to.
    """

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Bare Authority")])
        self.certificate = self._sign(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))

    def _sign(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, extension: Any) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - YEAR)
            .not_valid_after(now + YEAR)
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self._key, SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, host: str) -> tuple[str, str]:
        """Return a server's certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        certificate = self._sign(name, key, x509.SubjectAlternativeName([x509.DNSName(host)]))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM).decode(), private.decode()
