"""TLS as a client, over real sockets: what is trusted, what is presented, and to whom."""

import os
import re
import shutil
import ssl
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any, cast

import pytest
import trio
import trio.testing
import trustme

from hookgw.delivery.http import client_tls
from tests.delivery.http.raw_receiver import (
    BODY,
    OK,
    Peer,
    Server,
    always_ok,
    dialer,
    post,
    serving,
    transport,
)
from tests.public.concurrency import SYSTEM_THREADS
from tests.public.config import parse_proxy
from tests.public.delivery import (
    AddressGuard,
    ClientContexts,
    ConnectionPools,
    Dialer,
    LaneTransport,
    PooledTransport,
    TlsFailed,
    default_ssl_context,
    load_certificate,
    mail_ssl_context,
    read_ca_file,
    render_head,
)
from tests.public.kernel import StartError
from tests.public.records import NO_IDENTITY, TlsIdentity
from tests.support.certificates import BareAuthority, certificate_of, identity, judging, pem_of, requiring

AUTHORITY, CLIENTS = trustme.CA(), trustme.CA()
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(context, certificate, key)
    return context


# What is trusted.


def test_the_default_context_is_made_once_and_verifies() -> None:
    context = default_ssl_context()
    assert context is default_ssl_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_certifi_is_used_if_the_system_has_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ssl.DefaultVerifyPaths(None, None, "", "", "", "")  # type: ignore[arg-type]
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    context = default_ssl_context.__wrapped__()
    assert context.cert_store_stats()["x509_ca"] > 100
    assert context.check_hostname


@pytest.mark.parametrize(
    "tls",
    [NO_IDENTITY, TlsIdentity(ca=pem_of(AUTHORITY)), identity(client_ca=CLIENTS)],
    ids=["usual", "authorities", "certificate"],
)
async def test_every_context_has_the_same_rules(tls: TlsIdentity) -> None:
    context = await ClientContexts().get(tls)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    # A server of TLS 1.2 could make the event loop compute handshakes: only the first one is in a thread.
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_a_mail_server_is_told_nothing_of_http() -> None:
    """Exim refuses a client of a protocol that is not SMTP (tls_alpn)."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        mail_ssl_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="mail.example").do_handshake()
    hello = outgoing.read()
    assert b"mail.example" in hello
    assert b"http/1.1" not in hello


async def accepts(contexts: ClientContexts, server: Server, tls: TlsIdentity | None = None) -> bool:
    async with transport(trust=contexts, tls=tls) as lane:
        try:
            return (await post(lane, server)).status == 200
        except TlsFailed:
            return False


@pytest.mark.parametrize("tls", [NO_IDENTITY, TlsIdentity(ca=pem_of(AUTHORITY))])
async def test_no_context_lets_the_server_choose_the_size_of_the_key_exchange(tls: TlsIdentity) -> None:
    names = {cipher["name"] for cipher in (await ClientContexts().get(tls)).get_ciphers()}
    assert {"TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"} <= names
    assert not [name for name in names if name.startswith("DHE-")]


@pytest.mark.parametrize("tls", [TlsIdentity(ca=pem_of(AUTHORITY)), identity(AUTHORITY, client_ca=CLIENTS)])
async def test_receivers_are_told_that_the_connection_is_for_http_1_1(tls: TlsIdentity) -> None:
    context = server_context(*certificate_of(AUTHORITY, "127.0.0.1"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    agreed: list[str | None] = []

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        assert isinstance(peer.stream, trio.SSLStream)
        agreed.append(peer.stream.selected_alpn_protocol())
        await peer.send(OK)

    async with serving(behaviour, context=context) as server:
        assert await accepts(ClientContexts(), server, tls)
    assert agreed == ["http/1.1"]


async def test_an_authority_without_identifiers_is_trusted_on_every_python() -> None:
    authority = BareAuthority()
    context = server_context(*authority.issue("receiver.example"))
    if sys.version_info >= (3, 13):
        strict = ssl.create_default_context(cadata=authority.pem)
        assert strict.verify_flags & ssl.VERIFY_X509_STRICT
    tls = TlsIdentity(ca=authority.pem, server_name="receiver.example")
    async with serving(always_ok, context=context) as server:
        assert await accepts(ClientContexts(), server, tls)
        assert not await accepts(ClientContexts(), server)


async def test_a_listed_certificate_is_trusted_without_its_issuer() -> None:
    """A partial chain: the intermediate authority is listed, or the receiver's own certificate."""
    child = AUTHORITY.create_child_ca()
    certificate, key = certificate_of(child, "127.0.0.1")
    async with serving(always_ok, context=server_context(certificate, key)) as server:
        assert await accepts(ClientContexts(), server, TlsIdentity(ca=pem_of(child)))
        own = certificate.partition("-----END CERTIFICATE-----\n")
        assert await accepts(ClientContexts(), server, TlsIdentity(ca="".join(own[:2])))
        assert not await accepts(ClientContexts(), server, TlsIdentity(ca=pem_of(CLIENTS)))


async def test_the_ca_file_adds_authorities_for_everybody(tmp_path: Path) -> None:
    file = tmp_path / "authorities.pem"
    file.write_text(f"# Für alle Empfänger\n{pem_of(AUTHORITY)}")
    contexts = ClientContexts(read_ca_file(str(file)))
    assert (await contexts.get()).cert_store_stats()["x509_ca"] > 1
    async with serving(always_ok, context=server_context(*certificate_of(AUTHORITY, "127.0.0.1"))) as server:
        assert await accepts(contexts, server)
        assert await accepts(contexts, server, identity(client_ca=CLIENTS))
        # The authorities of a registration replace the others.
        assert not await accepts(contexts, server, TlsIdentity(ca=pem_of(CLIENTS)))
        assert not await accepts(ClientContexts(), server)


@pytest.mark.parametrize(
    "content", [b"", b"no certificate", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n"]
)
def test_a_ca_file_without_a_certificate_stops_the_start(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "authorities.pem"
    file.write_bytes(content)
    with pytest.raises(StartError) as caught:
        read_ca_file(str(file))
    assert str(caught.value) == f"delivery.ca_file: {file} contains no PEM certificate."


def test_a_missing_ca_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"delivery\.ca_file: .*none\.pem cannot be read: No such file"):
        read_ca_file(str(tmp_path / "none.pem"))
    with pytest.raises(StartError, match="cannot be read: Is a directory"):
        read_ca_file(str(tmp_path))


async def test_the_name_in_the_certificate_may_be_another_than_the_host() -> None:
    context = server_context(*certificate_of(AUTHORITY, "receiver.internal"))
    tls = TlsIdentity(ca=pem_of(AUTHORITY))
    async with serving(always_ok, context=context) as server:
        assert not await accepts(ClientContexts(), server, tls)
        named = TlsIdentity(ca=pem_of(AUTHORITY), server_name="receiver.internal")
        assert await accepts(ClientContexts(), server, named)


# What is presented.


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_receiver_that_wants_a_certificate_gets_it(version: ssl.TLSVersion) -> None:
    context = requiring(AUTHORITY, CLIENTS, version=version)
    async with (
        serving(always_ok, context=context) as server,
        transport(trust=ClientContexts(), tls=identity(AUTHORITY, CLIENTS)) as lane,
    ):
        for _ in range(2):
            assert (await post(lane, server)).status == 200
        assert server.connections == 1


@pytest.mark.parametrize("body", [BODY, b"x" * 3_000_000], ids=["small", "large"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_error_says_that_the_receiver_wants_a_certificate(
    version: ssl.TLSVersion, body: bytes
) -> None:
    with judging(requiring(AUTHORITY, CLIENTS, version=version)) as port:
        async with transport(trust=ClientContexts(), tls=identity(AUTHORITY)) as lane:
            with pytest.raises(TlsFailed) as caught:
                await post(lane, Server(port, "https"), body)
            assert not lane.connected
    assert "[SSL" not in caught.value.message
    assert "requires a client certificate" in caught.value.message
    assert "set tls.clientCertificate and tls.clientKey of the registration." in caught.value.message


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_error_says_that_the_receiver_refuses_the_certificate(version: ssl.TLSVersion) -> None:
    with judging(requiring(AUTHORITY, CLIENTS, version=version)) as port:
        async with transport(trust=ClientContexts(), tls=identity(AUTHORITY, trustme.CA())) as lane:
            with pytest.raises(TlsFailed, match=r"It refused the certificate in tls\.clientCertificate\."):
                await post(lane, Server(port, "https"))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the command openssl")
async def test_the_error_says_that_the_receiver_asked_for_a_second_handshake(tmp_path: Path) -> None:
    # Python's ssl cannot ask for one; a line "r" tells s_server to do so.
    file = tmp_path / "server.pem"
    file.write_text("".join(certificate_of(AUTHORITY, "127.0.0.1")))
    command = ["openssl", "s_server", "-tls1_2", "-accept", "127.0.0.1:0", "-cert", str(file)]
    process = await trio.lowlevel.open_process(command, stdin=PIPE, stdout=PIPE, stderr=STDOUT)
    commands, output = process.stdin, process.stdout
    assert commands is not None
    assert output is not None
    try:
        with trio.fail_after(20):
            printed = b""
            while (port := re.search(rb"ACCEPT 127\.0\.0\.1:(\d+)\n", printed)) is None:
                printed += await output.receive_some()
            server = Server(int(port[1]), "https")
            async with (
                transport(trust=ClientContexts(), tls=identity(AUTHORITY, CLIENTS)) as lane,
                trio.open_nursery() as nursery,
            ):

                async def ask() -> None:
                    printed = b""
                    while BODY not in printed:
                        printed += await output.receive_some()
                    await commands.send_all(b"r\n")

                nursery.start_soon(ask)
                with pytest.raises(TlsFailed, match="It asked for a second handshake"):
                    await post(lane, server)
    finally:
        process.kill()
        await process.wait()


async def test_a_refusal_is_read_although_the_receiver_has_reset_the_connection() -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.stream.receive_some(1)
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")
        # With bytes that nobody has read, closing is a reset.
        await peer.stream.transport_stream.aclose()  # type: ignore[attr-defined]

    context = server_context(*certificate_of(AUTHORITY, "127.0.0.1"))
    async with (
        serving(behaviour, context=context) as server,
        transport(trust=ClientContexts(), tls=identity(AUTHORITY)) as lane,
    ):
        assert (await post(lane, server, b"x" * 5_000_000)).status == 413


async def test_a_certificate_works_through_a_proxy() -> None:
    async def tunnel(peer: Peer) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await peer.stream.receive_some(4096)
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        async with (
            await trio.open_tcp_stream("127.0.0.1", server.port) as onward,
            trio.open_nursery() as nursery,
        ):

            async def there() -> None:
                async for data in peer.stream:
                    await onward.send_all(data)

            nursery.start_soon(there)
            async for data in onward:
                await peer.send(bytes(data))
            nursery.cancel_scope.cancel()

    context = requiring(AUTHORITY, CLIENTS)
    async with serving(always_ok, context=context) as server, serving(tunnel) as proxy:
        through = Dialer(
            AddressGuard(["127.0.0.0/8"]),
            connect_timeout=5,
            proxy=parse_proxy(f"http://127.0.0.1:{proxy.port}"),
        )
        lane = LaneTransport(through, ssl_context=ClientContexts(), tls=identity(AUTHORITY, CLIENTS))
        assert (await post(lane, server)).status == 200
        lane.close_nowait()


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def forbidden(_name: str) -> int:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("memory", ["there", "missing", "forbidden"])
def test_a_key_reaches_openssl_without_a_file_that_has_a_name(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if memory == "missing":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif memory == "forbidden":
        monkeypatch.setattr(os, "memfd_create", forbidden, raising=False)
    loaded: list[Any] = []

    class Watched(ssl.SSLContext):
        def load_cert_chain(self, *names: Any, **options: Any) -> None:
            loaded.extend(names)
            super().load_cert_chain(*names, **options)

    before = descriptors()
    certificate, key = certificate_of(CLIENTS)
    load_certificate(Watched(ssl.PROTOCOL_TLS_CLIENT), certificate, key)
    assert all(name.startswith("/proc/self/fd/" if memory == "there" else "/dev/fd/") for name in loaded)
    assert descriptors() == before
    # A pipe that OpenSSL does not empty ends, too, although it holds less than the content.
    with pytest.raises(ssl.SSLError):
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "no certificate" + "x" * 500_000, key)
    assert descriptors() == before


# Contexts.


class Counting:
    """Threads that count what they run."""

    def __init__(self) -> None:
        self.calls = 0

    async def run(self, call: Any, *, limiter: Any = None) -> Any:
        self.calls += 1
        return await SYSTEM_THREADS.run(call, limiter=limiter)


async def test_the_context_of_an_identity_is_built_once_off_the_loop() -> None:
    threads = Counting()
    contexts = ClientContexts(threads=cast("Any", threads))
    one, other = identity(AUTHORITY, CLIENTS), identity(AUTHORITY, CLIENTS)
    found: list[ssl.SSLContext] = []

    async def get(tls: TlsIdentity) -> None:
        found.append(await contexts.get(tls))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(get, one)
        nursery.start_soon(get, other)
    assert threads.calls == 2
    assert len(set(map(id, found))) == 2
    assert await contexts.get(one) is await contexts.get(TlsIdentity(**{n: getattr(one, n) for n in FIELDS}))


FIELDS = ("ca", "client_certificate", "client_key", "server_name")


async def test_the_contexts_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_tls, "MOST_KEPT", 2)
    threads = Counting()
    contexts = ClientContexts(threads=cast("Any", threads))
    first, second, third = (TlsIdentity(ca=pem_of(AUTHORITY), server_name=f"{n}.example") for n in range(3))
    for tls in (first, second, first, third, first):
        await contexts.get(tls)
    assert threads.calls == 3
    await contexts.get(second)
    assert threads.calls == 4


async def test_who_has_most_contexts_loses_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_tls, "MOST_KEPT", 3)
    threads = Counting()
    contexts = ClientContexts(threads=cast("Any", threads))
    quiet, *many = (TlsIdentity(ca=pem_of(AUTHORITY), server_name=f"{n}.example") for n in range(6))
    await contexts.get(quiet, "quiet")
    for tls in many:
        await contexts.get(tls, "greedy")
    assert threads.calls == 6
    await contexts.get(quiet, "quiet")
    assert threads.calls == 6


async def test_an_instance_that_builds_many_contexts_delays_another_one_by_none() -> None:
    begun, may_end = list[str](), trio.Event()

    class Held(Counting):
        async def run(self, call: Any, *, limiter: Any = None) -> Any:
            begun.append("")
            await may_end.wait()
            return await super().run(call, limiter=limiter)

    contexts = ClientContexts(threads=cast("Any", Held()))
    quiet, *many = (TlsIdentity(ca=pem_of(AUTHORITY), server_name=f"{n}.example") for n in range(6))
    async with trio.open_nursery() as nursery:
        for tls in many:
            nursery.start_soon(contexts.get, tls, "greedy")
        await trio.testing.wait_all_tasks_blocked()
        assert len(begun) == 1
        nursery.start_soon(contexts.get, quiet, "quiet")
        await trio.testing.wait_all_tasks_blocked()
        assert len(begun) == 2
        may_end.set()
    assert len(begun) == 6


async def test_a_key_that_openssl_refuses_fails_the_attempt_and_nothing_else() -> None:
    certificate, _ = certificate_of(CLIENTS)
    _, other_key = certificate_of(CLIENTS)
    contexts = ClientContexts()
    bad = TlsIdentity(client_certificate=certificate, client_key=other_key)
    for _ in range(2):
        with pytest.raises(TlsFailed, match="in tls of the registration cannot be used: KEY_VALUES_MISMATCH"):
            await contexts.get(bad)
    await contexts.get(identity(AUTHORITY))


# Pools.


async def exchange(
    pools: ConnectionPools, server: Server, tls: TlsIdentity | None, holder: str
) -> PooledTransport:
    lent = pools.borrow_nowait(("https", "127.0.0.1", server.port, tls), holder)
    assert lent is not None
    target = server.target()
    head = render_head(target, {}, len(BODY))
    try:
        assert (await lent.exchange(target, head, BODY, deadline=trio.current_time() + 10)).status == 200
    finally:
        pools.give_back(lent)
    return lent


def make_pools() -> ConnectionPools:
    contexts = ClientContexts()
    return ConnectionPools(lambda: PooledTransport(dialer(), ssl_context=contexts))


@pytest.mark.parametrize("version", VERSIONS)
async def test_tenants_with_different_identities_never_share_a_connection(version: ssl.TLSVersion) -> None:
    names: list[list[str]] = []

    async def behaviour(peer: Peer) -> None:
        stream = cast("trio.SSLStream[trio.SocketStream]", peer.stream)
        seen: list[str] = []
        names.append(seen)
        while await peer.request():
            subject = stream.getpeercert()["subjectAltName"]
            seen.append(subject[0][1])
            await peer.send(OK)

    def client(name: str) -> TlsIdentity:
        certificate, key = certificate_of(CLIENTS, name)
        return TlsIdentity(pem_of(AUTHORITY), certificate, key)

    shop, bank, pools = client("shop.example"), client("bank.example"), make_pools()
    async with serving(behaviour, context=requiring(AUTHORITY, CLIENTS, version=version)) as server:
        lent = [
            await exchange(pools, server, tls, holder)
            for tls, holder in (
                (shop, "shop"),
                (bank, "bank"),
                (shop, "shop"),
                (bank, "bank"),
                (shop, "other"),
            )
        ]
        for one in set(lent):
            one.close_nowait()
    # "other" sends events to a registration with the identity of the shop.
    assert names == [["shop.example"] * 3, ["bank.example"] * 2]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_tls_failure_makes_only_the_pool_of_its_identity_suspect(version: ssl.TLSVersion) -> None:
    good, without = identity(AUTHORITY, CLIENTS), identity(AUTHORITY)
    bad, pools = identity(AUTHORITY, trustme.CA()), make_pools()
    with judging(requiring(AUTHORITY, CLIENTS, version=version)) as port:
        server = Server(port, "https")
        for tls in (bad, without):
            with pytest.raises(TlsFailed):
                await exchange(pools, server, tls, "shop")
        lent = await exchange(pools, server, good, "bank")
        suspect = {pool.origin[3] for pool in pools.pools.values() if pool.suspect}
        assert suspect == {bad, without}
        lent.close_nowait()
    assert pools.statistics().suspect == 2
