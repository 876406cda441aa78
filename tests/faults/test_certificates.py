"""Certificates and handshakes that are not good enough: the attempt says what is wrong with them."""

import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio.testing
import trustme
from trio.testing import MockClock

from hookgw import Outcome
from hookgw.testing import GatewayKit, Hang, Receiver, open_receiver
from tests.faults.support import KIND, attempts_of
from tests.public.delivery import default_ssl_context

pytestmark = pytest.mark.usefixtures("hookgw_clock")

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(autouse=True)
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The gateway trusts the authority, as it would one of the system's."""
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    default_ssl_context.cache_clear()
    yield
    default_ssl_context.cache_clear()


def context_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    return context


BAD: dict[str, tuple[Callable[[trustme.CA], trustme.LeafCert], str]] = {
    "expired": (lambda ca: ca.issue_cert("127.0.0.1", not_after=LONG_AGO), "certificate has expired"),
    "wrong host": (lambda ca: ca.issue_cert("shop.example"), "not valid for '127.0.0.1'"),
    "self-signed": (lambda _: trustme.CA().issue_cert("127.0.0.1"), "self-signed|local issuer"),
}


async def attempts_with(kit: GatewayKit, receiver: Receiver) -> list[tuple[Outcome, str]]:
    await kit.register(receiver.url)
    event = await kit.emit(KIND, {})
    await kit.settled()
    return [(attempt.outcome, attempt.error or "") for attempt in await attempts_of(kit, event)]


async def test_a_good_certificate_is_taken(authority: trustme.CA, hookgw_gateway: GatewayKit) -> None:
    async with open_receiver(ssl_context=context_of(authority.issue_cert("127.0.0.1"))) as receiver:
        assert await attempts_with(hookgw_gateway, receiver) == [(Outcome.DELIVERED, "")]


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_certificate_is_named_and_nothing_is_sent(
    name: str, authority: trustme.CA, hookgw_gateway: GatewayKit
) -> None:
    make, reason = BAD[name]
    async with open_receiver(ssl_context=context_of(make(authority))) as receiver:
        [(outcome, error)] = await attempts_with(hookgw_gateway, receiver)
        assert outcome is Outcome.UNREACHABLE
        assert error.startswith(f"The certificate of 127.0.0.1:{receiver.port} was refused: ")
        assert any(part in error for part in reason.split("|")), error
        assert receiver.requests == []


async def test_a_receiver_that_speaks_no_tls_is_named(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url.replace("http:", "https:"))
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    [attempt] = await attempts_of(hookgw_gateway, event)
    assert attempt.outcome is Outcome.UNREACHABLE
    assert "TLS handshake" in (attempt.error or "")
    assert hookgw_receiver.requests == []


async def test_a_handshake_that_stalls_costs_the_connect_timeout(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.greeting = (Hang(),)
    await hookgw_gateway.register(hookgw_receiver.url.replace("http:", "https:"))
    event = await hookgw_gateway.emit(KIND, {})
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert hookgw_receiver.connections == 1
    hookgw_clock.jump(5.1)
    await hookgw_gateway.settled()
    [attempt] = await attempts_of(hookgw_gateway, event)
    assert attempt.outcome is Outcome.UNREACHABLE
    assert "TLS handshake" in (attempt.error or "")
