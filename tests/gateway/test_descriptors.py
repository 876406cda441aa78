"""More receivers than file descriptors."""

from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from hookgw import DeliveryState
from hookgw.core import open as core_open
from hookgw.testing import open_kit
from tests.public.config import OpenFiles
from tests.public.store import DeliveryQuery

RECEIVERS = 40
DESCRIPTORS = 8


async def test_more_receivers_than_descriptors_get_everything_at_the_first_attempt(
    tmp_path: Path, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_open, "divide_open_files", lambda _: OpenFiles(8, DESCRIPTORS, 8))
    now, most, requests, may_answer = 0, 0, 0, trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal now, most, requests
        now += 1
        most = max(most, now)
        # hookgw cuts idle connections off to make room.
        while await stream.receive_some():
            requests += 1
            await may_answer.wait()
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        now -= 1

    async with trio.open_nursery() as nursery:
        # All addresses of 127.0.0.0/8 lead here; to hookgw each is another host.
        [listener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="0.0.0.0"))
        port = listener.socket.getsockname()[1]
        async with open_kit(tmp_path, settings={"delivery": {"allow_networks": ["127.0.0.0/8"]}}) as kit:
            for number in range(RECEIVERS):
                await kit.register(
                    f"http://127.0.1.{number}:{port}/", instance=f"shop{number % 4}", label=f"l{number}"
                )
            for number in range(4):
                for _ in range(3):
                    await kit.emit("MESSAGES_UPSERT", {}, instance=f"shop{number}")
            while requests < DESCRIPTORS:
                await trio.lowlevel.checkpoint()
            waiting = [lane.waits_for for lane in kit.gateway.lanes()]
            assert waiting.count("descriptor") == RECEIVERS - DESCRIPTORS
            may_answer.set()
            await kit.settled()
            for number in range(4):
                page = await kit.gateway.store.list_deliveries(
                    DeliveryQuery(instance=f"shop{number}", limit=100)
                )
                assert len(page.deliveries) == 3 * RECEIVERS // 4
                assert {report.state for report in page.deliveries} == {DeliveryState.DELIVERED}
                assert {report.attempts for report in page.deliveries} == {1}
        assert requests == 3 * RECEIVERS
        nursery.cancel_scope.cancel()
    assert most <= DESCRIPTORS + 1  # the receiver sees the end of one connection after the start of the next
