"""TLS against real servers: keep-alive, bad certificates, broken handshakes."""

import datetime
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
import trustme

from tests.delivery.http.raw_receiver import (
    BODY,
    OK,
    Peer,
    always_ok,
    answering,
    frozen_at_responses,
    post,
    serving,
    transport,
)
from tests.public.delivery import (
    AddressGuard,
    Dialer,
    LaneTransport,
    Phase,
    Reached,
    ResponseFailed,
    TimedOut,
    TlsFailed,
    render_head,
)

AUTHORITY = trustme.CA()
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def server_context(
    *names: str, ca: trustme.CA = AUTHORITY, not_after: datetime.datetime | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert(*names, not_before=LONG_AGO, not_after=not_after).configure_cert(context)
    return context


@pytest.fixture(name="trust")
def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


async def test_a_connection_is_kept_over_tls(trust: ssl.SSLContext) -> None:
    async with (
        serving(always_ok, context=server_context("127.0.0.1")) as server,
        transport(trust=trust) as lane,
    ):
        for _ in range(3):
            answer = await post(lane, server)
            assert (answer.status, answer.body) == (200, b"ok")
        assert lane.connected
        assert server.connections == 1


async def test_a_connection_over_tls_can_rest(trust: ssl.SSLContext) -> None:
    async with (
        serving(always_ok, context=server_context("127.0.0.1")) as server,
        transport(trust=trust) as lane,
    ):
        await post(lane, server)
        lane.rest()
        assert lane.fileno is not None
        assert (await post(lane, server)).status == 200
        assert server.connections == 1


async def test_a_response_that_came_while_nothing_ran_counts(
    trust: ssl.SSLContext, mock_clock: trio.testing.MockClock
) -> None:
    async with (
        serving(always_ok, context=server_context("127.0.0.1")) as server,
        transport(trust=trust, watched=True) as lane,
    ):
        await post(lane, server)
        with frozen_at_responses(lane, mock_clock, 11):
            for _ in range(20):
                assert (await post(lane, server)).status == 200
        assert server.connections == 1
    assert mock_clock.current_time() > 11  # the kernel delivers some responses a moment too late for it


async def test_a_receiver_may_close_after_a_response_that_came_while_nothing_ran(
    trust: ssl.SSLContext, mock_clock: trio.testing.MockClock
) -> None:
    """The connection, whose exchange was interrupted, is found closed and replaced, as any other."""
    async with (
        serving(answering(OK), context=server_context("127.0.0.1")) as server,
        transport(trust=trust, watched=True) as lane,
    ):
        with frozen_at_responses(lane, mock_clock, 11):
            for _ in range(10):
                assert (await post(lane, server)).status == 200
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.connections == 10
    assert mock_clock.current_time() > 11  # as above


@pytest.mark.parametrize("context", [None, server_context("127.0.0.1")], ids=["plain", "TLS"])
async def test_what_a_receiver_has_not_acknowledged_by_the_deadline_never_arrives(
    context: ssl.SSLContext | None, trust: ssl.SSLContext, mock_clock: trio.testing.MockClock
) -> None:
    """The system would go on sending it: behind the next attempt, and behind later events."""
    stalls, goes_on, is_broken = trio.Event(), trio.Event(), trio.Event()

    async def behaviour(peer: Peer) -> None:
        if isinstance(peer.stream, trio.SSLStream):
            await peer.stream.do_handshake()
        stalls.set()
        await goes_on.wait()
        with pytest.raises(trio.BrokenResourceError):
            await peer.request()
        is_broken.set()

    async def exchange() -> None:
        with pytest.raises(TimedOut, match="did not read the request"):
            await post(lane, server, b"x" * 130_000, seconds=15)
        goes_on.set()

    async with serving(behaviour, context=context) as server, transport(trust=trust, watched=True) as lane:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange)
            await stalls.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(15.1)
        await is_broken.wait()


async def test_a_large_body_is_sent_and_an_early_response_is_read(trust: ssl.SSLContext) -> None:
    async def behaviour(peer: Peer) -> None:
        if peer.number == 1:
            assert len(await peer.request()) > 5_000_000
            await peer.send(OK)
        await peer.stream.receive_some(1)
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        await peer.closed_by_the_other_side()

    async with (
        serving(behaviour, context=server_context("127.0.0.1")) as server,
        transport(trust=trust) as lane,
    ):
        assert (await post(lane, server, b"x" * 5_000_000)).status == 200
        lane.close_nowait()
        assert (await post(lane, server, b"x" * 5_000_000)).status == 413
        assert not lane.connected


async def test_a_connection_closed_between_two_requests_is_replaced(trust: ssl.SSLContext) -> None:
    async with (
        serving(answering(OK), context=server_context("127.0.0.1")) as server,
        transport(trust=trust) as lane,
    ):
        for _ in range(2):
            assert (await post(lane, server)).status == 200
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.connections == 2


@pytest.mark.parametrize("surplus", [b"HTTP/1.1 500 Surplus\r\ncontent-length: 0\r\n\r\n", None])
async def test_surplus_in_the_tls_buffer_is_not_a_response_to_the_next_request(
    surplus: bytes | None, trust: ssl.SSLContext
) -> None:
    """The surplus, or the end of the stream, comes in the same segment as the response, in another record."""

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        with peer.one_segment():
            await peer.send(OK)
            if peer.number == 1 and surplus:
                await peer.send(surplus)
            elif peer.number == 1:
                await peer.stream.aclose()
        await peer.closed_by_the_other_side()

    async with (
        serving(behaviour, context=server_context("127.0.0.1")) as server,
        transport(trust=trust) as lane,
    ):
        for _ in range(2):
            assert (await post(lane, server)).status == 200
        assert server.connections == 2


async def test_a_truncated_response_over_tls(trust: ssl.SSLContext) -> None:
    cut = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart"
    context = server_context("127.0.0.1")
    async with serving(answering(cut), context=context) as server, transport(trust=trust) as lane:
        answer = await post(lane, server)
        assert (answer.body, answer.complete) == (b"part", False)


async def test_a_reset_over_tls(trust: ssl.SSLContext) -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.request()
        peer.reset()

    async with (
        serving(behaviour, context=server_context("127.0.0.1")) as server,
        transport(trust=trust) as lane,
    ):
        with pytest.raises(
            ResponseFailed, match="broke the connection without responding: Connection reset by peer"
        ):
            await post(lane, server)


async def test_an_alert_before_a_response_means_that_the_request_was_not_read(trust: ssl.SSLContext) -> None:
    """With TLS 1.3 the server asks for a certificate after the client may send."""
    context = server_context("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    AUTHORITY.configure_trust(context)

    async def behaviour(peer: Peer) -> None:
        # Trio's SSLStream does not send the alert.
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        is_over = False
        while not is_over:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                is_over = True
            await peer.send(outgoing.read())
            if not is_over:
                incoming.write(await peer.stream.receive_some(65536))
        await peer.closed_by_the_other_side()

    async with serving(behaviour) as server, transport(trust=trust) as lane:
        server.scheme = "https"
        with pytest.raises(TlsFailed) as caught:
            await post(lane, server)
    assert caught.value.reached is Reached.NOTHING
    assert "CERTIFICATE_REQUIRED" in caught.value.message or "certificate required" in caught.value.message


async def test_a_name_with_a_trailing_dot_is_verified_without_it(trust: ssl.SSLContext) -> None:
    async def resolve(host: str, port: int, **_: Any) -> Any:
        assert host == "example.com."
        return [(0, 0, 0, "", ("127.0.0.1", port))]

    dialer = Dialer(AddressGuard(["127.0.0.1"]), connect_timeout=5, resolve=resolve)
    lane = LaneTransport(dialer, ssl_context=trust)
    async with serving(always_ok, context=server_context("example.com")) as server:
        target = server.target(host="example.com.")
        head = render_head(target, {}, len(BODY))
        answer = await lane.exchange(target, head, BODY, deadline=trio.current_time() + 10)
        assert answer.status == 200
        await lane.aclose()


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        (
            lambda: server_context("127.0.0.1", not_after=LONG_AGO),
            "certificate has expired",
        ),
        (
            lambda: server_context("example.com"),
            "certificate is not valid for '127.0.0.1'.* set tls.serverName",
        ),
        (
            lambda: server_context("127.0.0.2"),
            "certificate is not valid for '127.0.0.1'.* set tls.serverName",
        ),
        (
            lambda: server_context("127.0.0.1", ca=trustme.CA()),
            "(self-signed certificate in certificate chain|unable to get local issuer).* or delivery.ca_file",
        ),
    ],
    ids=["expired", "wrong host", "wrong address", "unknown authority"],
)
async def test_the_error_says_why_a_certificate_is_bad(
    context: Callable[[], ssl.SSLContext], reason: str, trust: ssl.SSLContext
) -> None:
    async with serving(always_ok, context=context()) as server, transport(trust=trust) as lane:
        with pytest.raises(
            TlsFailed, match=f"The certificate of 127.0.0.1:{server.port} was refused: .*({reason})"
        ):
            await post(lane, server)
        assert not lane.connected


async def test_no_tls_at_the_other_end(trust: ssl.SSLContext) -> None:
    async def plain(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.closed_by_the_other_side()

    async with serving(plain) as server, transport(trust=trust) as lane:
        server.scheme = "https"
        with pytest.raises(
            TlsFailed,
            match=r"The TLS handshake with .* failed: \w+\. This was no TLS: .* use http://",
        ):
            await post(lane, server)


_HELLO_OF_1_0 = b"\x16\x03\x01\0\x2a\x02\0\0\x26\x03\x01" + bytes(32) + b"\0\0\x2f\0"


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (b"\x15\x03\x01\0\x02\x02\x46", "neither TLS 1.2 nor 1.3"),
        (_HELLO_OF_1_0, "neither TLS 1.2 nor 1.3"),
        (b"\x15\x03\x03\0\x02\x02\x78", "The receiver speaks HTTP/2 alone"),
        (b"\x15\x03\x03\0\x02\x02\x70", "set tls.serverName"),
        (b"\x15\x03\x03\0\x02\x02\x50", "set tls.serverName"),
        (b"\x15\x03\x03\0\x02\x02\x28", "set tls.serverName .* If it requires a client certificate"),
    ],
    ids=[
        "protocol_version",
        "hello of TLS 1.0",
        "no_application_protocol",
        "unrecognized_name",
        "internal_error",
        "handshake_failure",
    ],
)
async def test_the_error_says_what_an_alert_of_a_handshake_may_mean(answer: bytes, hint: str) -> None:
    async def refuses(peer: Peer) -> None:
        await peer.send(answer)
        await peer.closed_by_the_other_side()

    async with serving(refuses) as server, transport() as lane:
        server.scheme = "https"
        with pytest.raises(TlsFailed, match=rf"The TLS handshake with .* failed: \w+\. .*{hint}"):
            await post(lane, server)


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_handshake_that_is_broken_off(how: str, trust: ssl.SSLContext) -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.stream.receive_some(100)
        if how == "reset":
            peer.reset()

    async with serving(behaviour) as server, transport(trust=trust) as lane:
        server.scheme = "https"
        with pytest.raises(TlsFailed, match="TLS handshake"):
            await post(lane, server)


@pytest.mark.parametrize("seconds", [3, 60])
async def test_a_handshake_that_stalls(
    seconds: float, trust: ssl.SSLContext, mock_clock: trio.testing.MockClock
) -> None:
    """The connect timeout of 5 s or the deadline ends it, whichever is sooner."""
    stalls = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.stream.receive_some(100)
        stalls.set()
        await trio.sleep_forever()

    async def exchange() -> None:
        with pytest.raises(TimedOut, match="TLS handshake with") as caught:
            await post(lane, server, seconds=seconds)
        assert caught.value.phase is Phase.TLS

    async with serving(behaviour) as server, transport(trust=trust) as lane, trio.open_nursery() as nursery:
        server.scheme = "https"
        nursery.start_soon(exchange)
        await stalls.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(min(seconds, 5) + 0.1)
