"""A URL that leads to another service: no byte that this service sends is shown anywhere."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import Outcome
from hookgw.testing import Close, Receiver, open_kit, open_receiver, raw
from tests.faults.support import KIND, report_of

SECRET = "s3cret"
BANNERS = {
    "SMTP": b"220 s3cret ESMTP Postfix\r\n",
    "SSH": b"SSH-2.0-s3cret\r\n",
    "Redis": b"-ERR unknown command 's3cret'\r\n",
    "memcached": b"VALUE s3cret 0 5\r\n",
    "MySQL": b"\x4a\x00\x00\x00\x0a5.7.s3cret\x00",
    "a TLS alert": b"\x15\x03\x01\x00\x06s3cret",
    "RTSP": b"RTSP/1.0 200 s3cret\r\n\r\n",
    "a version": b"HTTP/9.9 200 s3cret\r\n\r\n",
    "a status": b"HTTP/1.1 s3cret\r\n\r\n",
    "a phrase": b"HTTP/1.1 200 s3cret\r\nno colon\r\n\r\n",
    "the name of a header": b"HTTP/1.1 200 OK\r\ns3cret name: x\r\n\r\n",
    "the value of a header": b"HTTP/1.1 200 OK\r\nx: s3cret\r\nno colon\r\n\r\n",
    "a switch of protocols": b"HTTP/1.1 101 s3cret\r\nupgrade: s3cret\r\n\r\n",
    "the size of a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\ns3cret\r\n",
}
TAKEN = {"a phrase", "the name of a header", "the value of a header", "the size of a chunk"}
"""Those with a complete head and the status 200: deliveries, over plain HTTP."""


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("name", BANNERS)
async def test_the_banner_of_another_service_is_shown_nowhere(
    name: str, scheme: str, hookgw_receiver: Receiver, hookgw_clock: MockClock, tmp_path: Path
) -> None:
    async with open_receiver() as operator:
        settings = {"operations": {"url": operator.url}, "delivery": {"max_age": "5s"}}
        hookgw_receiver.default = raw(BANNERS[name]).then(Close())
        with capture_logs() as logs:
            async with open_kit(tmp_path, settings=settings) as kit:
                await kit.register(hookgw_receiver.url.replace("http", scheme))
                event = await kit.emit(KIND, {})
                await kit.settled()
                lanes = kit.gateway.lanes()
                await kit.advance(10)
                report = await report_of(kit, event)
                await kit.advance(60)
        if scheme == "https" or name not in TAKEN:
            # What begins as HTTP may be the response of a receiver that has done the work.
            begins = BANNERS[name].startswith(b"HTTP/1.") and scheme == "http"
            expected = Outcome.UNANSWERED if begins else Outcome.UNREACHABLE
            assert {attempt.outcome for attempt in report.attempts} == {expected}
            assert all(attempt.error for attempt in report.attempts)
            told_of = b"LANE_FAILING" if begins else b"DELIVERY_DEAD"
            assert any(told_of in request.body for request in operator.requests)
        told = [request.body for request in operator.requests]
        for shown in (report, lanes, told, logs):
            assert SECRET not in repr(shown)
