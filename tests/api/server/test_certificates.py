"""Certificates: which files are accepted or refused, and how they are renewed."""

import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import trio
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.public.config import TlsSettings
from tests.public.kernel import DAY, StartError
from tests.public.web import LOOK_EVERY, Certificates, load_context

AUTHORITY = trustme.CA()


def write(folder: Path, name: str = "localhost", days: float = 30) -> TlsSettings:
    """Write a certificate for a name and its key to two files."""
    issued = AUTHORITY.issue_cert(name, not_after=datetime.now(UTC) + timedelta(days=days))
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return TlsSettings(certificate=str(certificate), key=str(key))


def encrypt(tls: TlsSettings, password: bytes) -> None:
    file = Path(tls.key or "")
    key = load_pem_private_key(file.read_bytes(), None)
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)))


def test_a_context_for_tls_1_2_and_up(tmp_path: Path) -> None:
    context = load_context(write(tmp_path))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_an_encrypted_key(tmp_path: Path) -> None:
    tls = write(tmp_path)
    load_context(msgspec.structs.replace(tls, key_password="unneeded"))
    encrypt(tls, b"open sesame")
    load_context(msgspec.structs.replace(tls, key_password="open sesame"))
    for password, said in (
        (None, "key.pem is encrypted. Set server.tls.key_password."),
        ("", "key.pem is encrypted"),
        ("wrong", "key.pem cannot be decrypted with server.tls.key_password."),
    ):
        with pytest.raises(StartError, match=said):
            load_context(msgspec.structs.replace(tls, key_password=password))


@pytest.mark.parametrize("name", ["certificate", "key"])
def test_a_file_that_is_missing_or_holds_something_else_is_named(name: str, tmp_path: Path) -> None:
    tls = write(tmp_path)
    file = Path(getattr(tls, name))
    for content in (b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        file.write_bytes(content)
        with pytest.raises(StartError, match=f"server.tls.{name}: {file} contains no PEM"):
            load_context(tls)
    file.unlink()
    with pytest.raises(StartError, match=f"server.tls.{name}: {file} cannot be read: No such file"):
        load_context(tls)
    with pytest.raises(StartError, match=f"server.tls.{name}: {tmp_path} cannot be read: Is a directory"):
        load_context(msgspec.structs.replace(tls, **{name: str(tmp_path)}))


def test_a_key_of_another_certificate(tmp_path: Path) -> None:
    tls = write(tmp_path)
    Path(tls.key or "").write_bytes(AUTHORITY.issue_cert("other").private_key_pem.bytes())
    with pytest.raises(StartError, match=r"the key in .*key.pem does not match the certificate in .*ate.pem"):
        load_context(tls)


async def test_certificates_are_renewed(tmp_path: Path) -> None:
    certificates = Certificates(write(tmp_path))
    first = certificates.context
    with structlog.testing.capture_logs() as logs:
        write(tmp_path)
        await certificates.renew()
    assert certificates.context is not first
    assert [log["event"] for log in logs] == ["certificate renewed"]


async def test_a_broken_certificate_is_logged_and_not_used(tmp_path: Path) -> None:
    certificates = Certificates(write(tmp_path))
    first = certificates.context
    with structlog.testing.capture_logs() as logs:
        (tmp_path / "key.pem").write_text("half a k")
        await certificates.renew()
    assert certificates.context is first
    (log,) = logs
    assert (log["event"], log["log_level"]) == ("certificate not renewed", "error")
    assert str(tmp_path / "key.pem") in log["reason"]


async def test_each_change_of_the_files_is_noticed_once(
    tmp_path: Path, mock_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Certificates(write(tmp_path))
    looked, renewed = trio.open_memory_channel[str](10)
    renew = certificates.renew

    async def told() -> None:
        await renew()
        await looked.send("renewed")

    monkeypatch.setattr(certificates, "renew", told)
    nursery.start_soon(certificates.watch)
    for _ in range(2):
        await wait_all_tasks_blocked()
        write(tmp_path)
        mock_clock.jump(LOOK_EVERY)
        assert await renewed.receive() == "renewed"
    await wait_all_tasks_blocked()
    mock_clock.jump(LOOK_EVERY)  # nothing has changed: no renewal
    await wait_all_tasks_blocked(0.05)
    (tmp_path / "key.pem").unlink()
    mock_clock.jump(LOOK_EVERY)
    assert await renewed.receive() == "renewed"
    assert renewed.statistics().current_buffer_used == 0
    nursery.cancel_scope.cancel()


async def test_a_renewal_that_takes_long_does_not_undo_a_later_one(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by the watch, and one by SIGHUP: nothing would tell of the difference until the next change."""
    certificates, may_return = Certificates(write(tmp_path)), trio.Event()
    loaded: list[ssl.SSLContext] = []

    class SlowThreads:
        async def run(self, call: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
            found = call()
            if isinstance(found[0], ssl.SSLContext):
                loaded.append(found[0])
                if len(loaded) == 1:
                    await may_return.wait()
            await trio.lowlevel.checkpoint()
            return found

    monkeypatch.setattr("hookgw.web.server.certificates.SYSTEM_THREADS", SlowThreads())
    nursery.start_soon(certificates.renew)
    await wait_all_tasks_blocked()
    write(tmp_path)
    nursery.start_soon(certificates.renew)
    await wait_all_tasks_blocked()
    may_return.set()
    await wait_all_tasks_blocked()
    assert len(loaded) == 2
    assert certificates.context is loaded[-1]


async def test_a_replaced_file_is_a_change(tmp_path: Path) -> None:
    tls = write(tmp_path)
    before = Certificates(tls)
    file = tmp_path / "key.pem"
    at = file.stat().st_mtime_ns
    copy = tmp_path / "copy"
    copy.write_bytes(file.read_bytes())
    os.utime(copy, ns=(at, at))
    copy.rename(file)
    one, other = (certificates.seen for certificates in (before, Certificates(tls)))
    assert one != other


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (14.1, []),
        (13.9, ["certificate expires soon"]),
        (-1, ["certificate has expired"]),
    ],
)
def test_a_certificate_that_expires_soon_causes_a_warning(
    tmp_path: Path, days: float, said: list[str]
) -> None:
    with structlog.testing.capture_logs() as logs:
        tls = write(tmp_path, days=days)
        Certificates(tls)
    assert [(line["event"], line["log_level"], line["file"]) for line in logs] == [
        (event, "warning", tls.certificate) for event in said
    ]


async def test_the_warning_comes_once_a_day(
    tmp_path: Path, mock_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Certificates(write(tmp_path))
    said, heard = trio.open_memory_channel[None](10)
    monkeypatch.setattr(certificates, "tell_of_end", lambda: said.send_nowait(None))
    nursery.start_soon(certificates.watch)
    for seconds, times in ((DAY - 1, 0), (LOOK_EVERY, 1), (LOOK_EVERY, 0), (DAY, 1)):
        await wait_all_tasks_blocked(0.05)
        mock_clock.jump(seconds)
        for _ in range(times):
            await heard.receive()
    await wait_all_tasks_blocked(0.05)
    assert heard.statistics().current_buffer_used == 0
    nursery.cancel_scope.cancel()


async def test_the_warning_is_about_the_current_certificate(tmp_path: Path) -> None:
    certificates = Certificates(write(tmp_path, days=10))
    for days, said in (
        (9, ["certificate renewed", "certificate expires soon"]),
        (30, ["certificate renewed"]),
    ):
        write(tmp_path, days=days)
        with structlog.testing.capture_logs() as logs:
            await certificates.renew()
        assert [line["event"] for line in logs] == said
