"""Exchanges over real sockets: reuse, replacement, early responses, deadlines, cancellation."""

import gc
import re
from typing import Any

import pytest
import trio
import trio.testing

from tests.delivery.http.raw_receiver import (
    BODY,
    OK,
    Peer,
    Server,
    always_ok,
    answering,
    post,
    serving,
    transport,
)
from tests.public.delivery import (
    AddressGuard,
    Blocked,
    ConnectFailed,
    DeliveryError,
    Dialer,
    LaneTransport,
    NotHttp,
    Phase,
    Reached,
    ResponseFailed,
    ResponseParser,
    SendFailed,
    TimedOut,
    render_head,
)
from tests.public.kernel import parse_target

LARGE = b"x" * 20_000_000
"""More than any socket buffer holds."""

both_timers = pytest.mark.parametrize("watched", [False, True], ids=["cancel scope", "one timer"])


async def test_a_response_is_read_and_the_connection_is_kept() -> None:
    async with serving(always_ok) as server, transport() as lane:
        assert not lane.connected
        for _ in range(3):
            response = await post(lane, server)
            assert (response.status, response.body, response.complete) == (200, b"ok", True)
        assert lane.connected
        assert server.connections == 1


async def test_a_connection_that_rests_can_be_used_again() -> None:
    async with serving(always_ok) as server, transport() as lane:
        lane.rest()
        assert lane.fileno is None
        await post(lane, server)
        lane.rest()
        lane.rest()
        assert lane.connected
        assert lane.fileno is not None
        assert (await post(lane, server)).body == b"ok"
        assert server.connections == 1


async def test_a_dead_connection_that_rests_is_replaced() -> None:
    async def once(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.stream.aclose()

    async with serving(once) as server, transport() as lane:
        await post(lane, server)
        lane.rest()
        assert (await post(lane, server)).body == b"ok"
        assert server.connections == 2


async def test_head_and_body_arrive_unchanged() -> None:
    seen: list[bytes] = []

    async def behaviour(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.send(OK)

    async with serving(behaviour) as server, transport() as lane:
        await post(lane, server)
        assert seen == [
            b"POST /hook HTTP/1.1\r\nhost: 127.0.0.1:%d\r\naccept: */*\r\naccept-encoding: identity\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (server.port, len(BODY), BODY)
        ]


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok surplus",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nX Powered By: PHP\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
        b"HTTP/1.1 103 Early Hints\r\nconnection: close\r\n\r\n" + OK,
        b"HTTP/1.0 100 Continue\r\n\r\n" + OK,
    ],
)
async def test_a_connection_that_cannot_be_kept_is_closed(response: bytes) -> None:
    async with serving(answering(response)) as server, transport() as lane:
        for _ in range(2):
            assert (await post(lane, server)).status == 200
            assert not lane.connected
        assert server.connections == 2


async def test_http_1_0_with_keep_alive_is_kept() -> None:
    kept = b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n"
    async with serving(answering(kept, kept)) as server, transport() as lane:
        await post(lane, server)
        await post(lane, server)
        assert server.connections == 1


async def test_another_host_gets_a_new_connection() -> None:
    async with serving(always_ok) as one, serving(always_ok) as two, transport() as lane:
        for server in (one, one, two, one):
            await post(lane, server)
        assert (one.connections, two.connections) == (2, 1)


async def test_a_connection_closed_between_two_requests_is_replaced() -> None:
    closed = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        if peer.number > 1:
            await peer.request()
        await peer.stream.aclose()
        closed.set()

    async with serving(behaviour) as server, transport() as lane:
        await post(lane, server)
        await closed.wait()
        assert (await post(lane, server)).status == 200
        assert server.connections == 2


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_connection_closed_at_the_moment_of_the_next_request_is_replaced_once(how: str) -> None:
    requests: list[int] = []

    async def behaviour(peer: Peer) -> None:
        while await peer.request():
            requests.append(peer.number)
            if peer.number == 1 and len(requests) == 2:
                return peer.reset() if how == "reset" else None
            await peer.send(OK)
        return None

    async with serving(behaviour) as server, transport() as lane:
        await post(lane, server)
        assert (await post(lane, server)).status == 200
        assert requests == [1, 1, 2]


async def test_the_replacement_is_not_replaced_again() -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.request()
        if peer.number == 1:
            await peer.send(OK)
            await peer.request()

    async with serving(behaviour) as server, transport() as lane:
        await post(lane, server)
        with pytest.raises(ResponseFailed, match=r"closed the connection without responding\.$"):
            await post(lane, server)
        assert server.connections == 2


@pytest.mark.parametrize(("seconds", "connections"), [(0.9, 2), (1.1, 1)])
async def test_a_used_connection_that_breaks_later_is_not_replaced(
    seconds: float, connections: int, mock_clock: trio.testing.MockClock
) -> None:
    """A worker that dies of the request, 2 s later, must not get it twice in one attempt."""
    second = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        if peer.number == 1:
            await peer.request()
            second.set()
            await trio.sleep(seconds)
        else:
            await peer.request()

    async with serving(behaviour) as server, transport() as lane:
        await post(lane, server)
        errors: list[DeliveryError] = []

        async def exchange() -> None:
            try:
                await post(lane, server)
            except DeliveryError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange)
            await second.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(seconds)
        assert server.connections == connections
        assert [error.reached for error in errors] == ([Reached.ALL] if connections == 1 else [])


async def test_the_request_that_got_further_decides() -> None:
    """The second request of an attempt cannot be sent, but the first one was."""

    async def behaviour(peer: Peer) -> None:
        if peer.number == 1:
            await peer.request()
            await peer.send(OK)
            await peer.request()
            listener.cancel()

    async with serving(behaviour) as server, transport() as lane:
        with trio.CancelScope() as listener:
            await post(lane, server)
        lane.dialer = Dialer(AddressGuard([]), connect_timeout=5)  # the name leads elsewhere by now
        with pytest.raises(Blocked) as caught:
            await post(lane, server)
    assert caught.value.reached is Reached.ALL
    assert caught.value.message.startswith(
        "The receiver closed the connection without responding. The request"
    )
    assert "is not dialled" in str(caught.value)


async def test_a_receiver_that_never_responds_may_speak_another_protocol() -> None:
    async with serving(answering()) as server, transport() as lane:
        with pytest.raises(ResponseFailed) as unknown:
            await post(lane, server)
    assert unknown.value.message == (
        "The receiver closed the connection without responding. "
        "If it always does, perhaps nothing listens behind its tunnel or the port of its container, "
        "or its port wants https://, or HTTP/2 alone: hookgw speaks HTTP/1.1."
    )
    assert unknown.value.args == (unknown.value.message,)


@pytest.mark.parametrize(
    "frame",
    [
        b"\0\0\x12\4\0\0\0\0\0\0\3\0\0\0\x64\0\4\0\0\xff\xff\0\5\0\0\x40\0",  # settings
        b"\0\0\0\4\0\0\0\0\0\0\0\x1e\7\0\0\0\0\0",  # none, and a GOAWAY
    ],
)
async def test_a_receiver_that_speaks_http_2_alone(frame: bytes) -> None:
    async with serving(answering(frame)) as server, transport() as lane:
        with pytest.raises(NotHttp, match=r"^The receiver speaks HTTP/2 alone\.") as caught:
            await post(lane, server)
    assert caught.value.reached is Reached.NOTHING


async def test_a_connection_that_broke_within_a_response_is_not_replaced() -> None:
    async with serving(answering(OK, b"HTTP/1.1 2")) as server, transport() as lane:
        await post(lane, server)
        with pytest.raises(ResponseFailed, match="in the middle of its response"):
            await post(lane, server)
        assert server.connections == 1


async def test_a_connection_that_broke_after_an_interim_response_is_not_replaced() -> None:
    async with serving(answering(OK, b"HTTP/1.1 102 Processing\r\n\r\n")) as server, transport() as lane:
        await post(lane, server)
        with pytest.raises(ResponseFailed):
            await post(lane, server)
        assert server.connections == 1


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\n" + b"x" * 2**17, b"HTTP/1.1 200 OK\r\nx", b"SSH-2.0-x\r\n"]
)
async def test_a_failure_keeps_nothing_that_the_receiver_sent(answer: bytes) -> None:
    """Not even until Python looks for garbage, which is rare: a hundred attempts kept 10 MB."""

    def parsers() -> int:
        return sum(isinstance(one, ResponseParser) for one in gc.get_objects())

    gc.collect()
    before = parsers()
    gc.disable()
    try:
        async with serving(answering(answer)) as server, transport() as lane:
            with pytest.raises((ResponseFailed, NotHttp)):
                await post(lane, server)
        assert parsers() == before
    finally:
        gc.enable()


async def test_surplus_bytes_on_an_idle_connection_are_not_a_response() -> None:
    sent = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        if peer.number == 1:
            await peer.send(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
            sent.set()
            await peer.closed_by_the_other_side()

    async with serving(behaviour) as server, transport() as lane:
        await post(lane, server)
        await sent.wait()
        assert (await post(lane, server)).status == 200
        assert server.connections == 2


async def test_a_half_closed_connection_is_a_failure() -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.stream.send_eof()
        await peer.closed_by_the_other_side()

    async with serving(behaviour) as server, transport() as lane:
        with pytest.raises(ResponseFailed, match="without responding"):
            await post(lane, server)


async def test_a_response_before_a_reset_counts() -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.closed_by_the_other_side()
        peer.reset()

    async with serving(behaviour) as server, transport() as lane:
        assert (await post(lane, server)).status == 200


async def test_a_reset_instead_of_a_response() -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.request()
        peer.reset()

    async with serving(behaviour) as server, transport() as lane:
        with pytest.raises(
            ResponseFailed, match=r"broke the connection without responding: Connection reset by peer\."
        ):
            await post(lane, server)
        assert not lane.connected


async def test_a_reset_within_the_body_keeps_the_status() -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 500 Oops\r\ncontent-length: 100\r\n\r\npart")
        await trio.testing.wait_all_tasks_blocked()
        peer.reset()

    async with serving(behaviour) as server, transport() as lane:
        response = await post(lane, server)
        assert (response.status, response.body, response.complete) == (500, b"part", False)
        assert not lane.connected


@pytest.mark.parametrize("size", [len(LARGE), 100])
async def test_a_response_may_come_before_the_request_is_read(size: int) -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")
        await peer.closed_by_the_other_side()

    async with serving(behaviour) as server, transport() as lane:
        response = await post(lane, server, LARGE[:size])
        assert response.status == 413
        assert lane.connected == (size == 100)


async def test_a_response_and_a_reset_before_the_request_is_read() -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.stream.receive_some(1)
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")

    async with serving(behaviour) as server, transport() as lane:
        assert (await post(lane, server, LARGE)).status == 413


async def test_a_large_body_is_sent_whole() -> None:
    lengths: list[int] = []

    async def behaviour(peer: Peer) -> None:
        lengths.append(len(await peer.request()))
        await peer.send(OK)

    async with serving(behaviour) as server, transport() as lane:
        response = await post(lane, server, LARGE, seconds=90)
        assert response.complete
        assert lane.connected
        assert lengths[0] > len(LARGE)


async def test_a_reset_before_the_request_is_read() -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.stream.receive_some(1)
        peer.reset()

    async with serving(behaviour) as server, transport() as lane:
        with pytest.raises(DeliveryError) as caught:
            await post(lane, server, LARGE)
        assert isinstance(caught.value, SendFailed | ResponseFailed)
        assert "broke the connection" in caught.value.message


async def test_the_error_of_a_refused_connection_names_address_and_cause() -> None:
    async with serving(always_ok) as server:
        pass
    async with transport() as lane:
        with pytest.raises(
            ConnectFailed, match=r"No connection to port \d+ .*127\.0\.0\.1: Connection refused\."
        ):
            await post(lane, server)
        assert not lane.connected


async def test_a_blocked_target_is_not_dialled() -> None:
    async with transport() as lane:
        target = parse_target("http://10.1.2.3/hook")
        with pytest.raises(Blocked, match=r'delivery\.allow_networks: \["10\.1\.2\.3/32"\]'):
            await lane.exchange(target, b"", b"", deadline=trio.current_time() + 5)


@pytest.mark.parametrize("then", ["10.1.2.3", "169.254.169.254"])
async def test_every_new_connection_passes_the_guard(then: str) -> None:
    """Closing the connection does not help a name that points elsewhere later (DNS rebinding)."""
    answers = iter(["127.0.0.1", then])

    async def resolve(_host: str, port: int, **_: Any) -> Any:
        return [(0, 0, 0, "", (next(answers), port))]

    dialer = Dialer(AddressGuard(["127.0.0.0/8"]), connect_timeout=5, resolve=resolve)
    lane = LaneTransport(dialer)
    async with serving(answering(OK)) as server:
        target = server.target(host="rebinding.example")
        request = render_head(target, {}, 0)
        assert (await lane.exchange(target, request, b"", deadline=trio.current_time() + 5)).status == 200
        with pytest.raises(Blocked, match=f"of {re.escape(then)} is not dialled"):
            await lane.exchange(target, request, b"", deadline=trio.current_time() + 5)
        assert server.connections == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    moved = b"HTTP/1.1 %d Moved\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n"
    async with serving(always_ok) as other:
        location = other.target().url
        async with serving(answering(moved % (status, location.encode()))) as server, transport() as lane:
            response = await post(lane, server)
        assert (response.status, response.header("location")) == (status, location)
        assert other.connections == 0


class Hang:
    """A receiver that sends some bytes and then hangs."""

    def __init__(self, data: bytes = b"", *, reads: bool = True) -> None:
        self._data = data
        self._reads = reads
        self.hangs = trio.Event()

    async def __call__(self, peer: Peer) -> None:
        if self._reads:
            await peer.request()
        if self._data:
            await peer.send(self._data)
        self.hangs.set()
        await trio.sleep_forever()


async def late(hang: Hang, clock: trio.testing.MockClock, *, watched: bool, body: bytes = BODY) -> object:
    """Return the result of an exchange with a deadline of 15 s, which must not end earlier."""
    ends: list[object] = []

    async def exchange(server: Server) -> None:
        async with transport(watched=watched) as lane:
            try:
                ends.append(await post(lane, server, body, seconds=15))
            except DeliveryError as error:
                ends.append(error)
            assert not lane.connected

    async with serving(hang) as server, trio.open_nursery() as nursery:
        nursery.start_soon(exchange, server)
        await hang.hangs.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        clock.jump(14.9)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not ends
        clock.jump(0.2)
    return ends[0]


@both_timers
async def test_no_response_by_the_deadline(watched: bool, mock_clock: trio.testing.MockClock) -> None:
    error = await late(Hang(), mock_clock, watched=watched)
    assert isinstance(error, TimedOut)
    assert error.phase is Phase.RESPONSE
    assert error.message == "The receiver did not respond within 15.1 s."


@both_timers
async def test_a_request_that_was_not_acknowledged_completely_has_not_been_seen(
    watched: bool, mock_clock: trio.testing.MockClock
) -> None:
    error = await late(Hang(reads=False), mock_clock, watched=watched, body=b"x" * 500_000)
    assert isinstance(error, TimedOut)
    assert (error.phase, error.reached) == (Phase.SEND, Reached.PART)
    assert error.message == "The receiver did not read the request within 15.1 s."


@pytest.mark.parametrize(
    ("size", "waiting", "reached"),
    [
        (100, 0, Reached.ALL),
        (100, 100, Reached.NOTHING),
        (100, 40, Reached.NOTHING),
        (100_000, 0, Reached.ALL),
        (100_000, 40_000, Reached.PART),
        (100_000, 10**6, Reached.NOTHING),
    ],
)
async def test_what_the_kernel_says_decides(
    size: int,
    waiting: int,
    reached: Reached,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: trio.testing.MockClock,
) -> None:
    monkeypatch.setattr("hookgw.delivery.http.connection.unacknowledged", lambda _: waiting)
    error = await late(Hang(), mock_clock, watched=True, body=b"x" * size)
    assert isinstance(error, TimedOut)
    assert error.reached is reached


class LateTransport(LaneTransport):
    keeps_late = True


@both_timers
@pytest.mark.parametrize("size", [10, 1_000_000])
async def test_a_late_response_is_read_on_the_same_connection(
    watched: bool, size: int, mock_clock: trio.testing.MockClock
) -> None:
    got, goes_on = trio.Event(), trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 O")
        got.set()
        await goes_on.wait()
        await peer.send(b"K\r\ncontent-length: 2\r\n\r\nok")
        await peer.closed_by_the_other_side()

    async with serving(behaviour) as server, transport(watched=watched, make=LateTransport) as lane:
        async with trio.open_nursery() as nursery:

            async def exchange() -> None:
                with pytest.raises(TimedOut):
                    await post(lane, server, b"x" * size, seconds=15)

            nursery.start_soon(exchange)
            await got.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(15.1)
        assert lane.awaits_response
        assert lane.connected
        with trio.CancelScope() as scope:  # a wait for something else may end it, and it goes on later
            scope.cancel()
            await lane.receive_late()
        goes_on.set()
        response = await lane.receive_late()
        assert response is not None
        assert (response.status, response.body, response.complete) == (200, b"ok", True)
        assert not lane.connected
        assert await lane.receive_late() is None


async def test_the_status_of_a_late_response_is_kept_when_the_wait_for_its_body_is_cancelled(
    mock_clock: trio.testing.MockClock,
) -> None:
    goes_on = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await goes_on.wait()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")
        await peer.closed_by_the_other_side()

    async with serving(behaviour) as server, transport(watched=True, make=LateTransport) as lane:
        async with trio.open_nursery() as nursery:

            async def exchange() -> None:
                with pytest.raises(TimedOut):
                    await post(lane, server, seconds=15)

            nursery.start_soon(exchange)
            await trio.testing.wait_all_tasks_blocked(0.05)
            mock_clock.jump(15.1)
        assert (lane.has_late_arrivals, lane.has_late_status) == (False, False)
        goes_on.set()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert (lane.has_late_arrivals, lane.has_late_status) == (True, False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lane.receive_late)
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel()
        assert (lane.has_late_arrivals, lane.has_late_status) == (False, True)
        mock_clock.autojump_threshold = 0.05  # the rest of the body does not come
        response = await lane.receive_late()
        assert response is not None
        assert (response.status, response.body, response.complete) == (200, b"o", False)
        assert (lane.has_late_arrivals, lane.has_late_status) == (False, False)


@both_timers
@pytest.mark.parametrize("lines", [b"content-le", b"Content-Length: x", b"no colon\r\n"])
async def test_half_a_head_by_the_deadline(
    lines: bytes, watched: bool, mock_clock: trio.testing.MockClock
) -> None:
    error = await late(Hang(b"HTTP/1.1 200 OK\r\n" + lines), mock_clock, watched=watched)
    assert isinstance(error, TimedOut)
    assert error.message == "The head of the response was not complete within 15.1 s."


@both_timers
async def test_a_late_body_keeps_the_status(watched: bool, mock_clock: trio.testing.MockClock) -> None:
    response = await late(
        Hang(b"HTTP/1.1 201 OK\r\ncontent-length: 9\r\n\r\npart"), mock_clock, watched=watched
    )
    assert (response.status, response.body, response.complete) == (201, b"part", False)  # type: ignore[attr-defined]


@both_timers
async def test_a_request_that_is_never_read(watched: bool, mock_clock: trio.testing.MockClock) -> None:
    error = await late(Hang(reads=False), mock_clock, watched=watched, body=LARGE)
    assert isinstance(error, TimedOut)
    assert error.phase is Phase.SEND
    assert error.message == "The receiver did not read the request within 15.1 s."


@both_timers
@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\n"]
)
async def test_a_dripped_response_ends_at_the_deadline(
    data: bytes, watched: bool, mock_clock: trio.testing.MockClock
) -> None:
    """Progress does not extend the deadline."""
    ends: list[float] = []

    async def drip(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)
        while True:
            await trio.sleep(1)
            await peer.send(b"x")

    async def exchange(server: Server) -> None:
        async with transport(watched=watched) as lane:
            try:
                response = await post(lane, server, seconds=15)
            except TimedOut:
                assert b"x: " in data
            else:
                assert (response.status, response.complete) == (200, False)
        ends.append(trio.current_time())

    began = trio.current_time()
    async with serving(drip) as server, trio.open_nursery() as nursery:
        nursery.start_soon(exchange, server)
        for _ in range(16):
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(1)
    assert ends[0] - began in (15, 16)


@pytest.mark.parametrize("body", [BODY, LARGE], ids=["waiting", "sending"])
async def test_cancelling_an_exchange_closes_the_connection(body: bytes) -> None:
    hang = Hang(reads=body is BODY)
    async with serving(hang) as server, transport() as lane:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(post, lane, server, body)
                await hang.hangs.wait()
                scope.cancel()
        assert scope.cancelled_caught
        assert not lane.connected


@pytest.mark.parametrize("body", [BODY, LARGE], ids=["waiting", "sending"])
async def test_closing_the_transport_ends_an_exchange(body: bytes) -> None:
    hang = Hang(reads=body is BODY)

    async def exchange(server: Server) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await post(lane, server, body)

    async with serving(hang) as server, transport() as lane, trio.open_nursery() as nursery:
        nursery.start_soon(exchange, server)
        await hang.hangs.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        await lane.aclose()


async def test_a_closed_transport_connects_again() -> None:
    async with serving(always_ok) as server, transport() as lane:
        await post(lane, server)
        lane.close_nowait()
        lane.close_nowait()
        assert (await post(lane, server)).status == 200
        assert server.connections == 2


async def test_one_exchange_at_a_time() -> None:
    hang = Hang()
    async with serving(hang) as server, transport() as lane, trio.open_nursery() as nursery:
        nursery.start_soon(post, lane, server)
        await hang.hangs.wait()
        with pytest.raises(trio.BusyResourceError):
            await post(lane, server)
        nursery.cancel_scope.cancel()
