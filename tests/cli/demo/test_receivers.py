"""The demo's receivers and their outages."""

import time
from functools import partial

import httpx
import pytest
import trio
from trio.testing import MockClock

from tests.public.delivery import sign
from tests.public.demo import DemoReceiver, Outage, Trouble, open_demo_receiver, run_outages

KEY = b"k" * 24
BODY = b'{"data": {"text": "hi"}}'


async def post(receiver: DemoReceiver, event_id: str = "msg_1", *, key: bytes = KEY) -> int:
    """Deliver an event as hookgw does and return the status of the response."""
    now = int(time.time())
    headers = {
        "webhook-id": event_id,
        "webhook-timestamp": str(now),
        "webhook-signature": sign([key], event_id, now, BODY),
    }
    send = partial(
        httpx.post, receiver.url, content=b'{"data": {"text": "hi"}}', headers=headers, trust_env=False
    )
    return (await trio.to_thread.run_sync(send)).status_code


async def test_it_accepts_a_valid_delivery() -> None:
    async with open_demo_receiver("crm") as receiver:
        receiver.keys = (KEY,)
        assert receiver.url.endswith("/crm")
        assert await post(receiver) == 200
        assert (receiver.ledger.arrived, receiver.ledger.unverified) == (1, 0)


@pytest.mark.parametrize("keys", [(), (b"x" * 24,)])
async def test_it_refuses_an_invalid_signature(keys: tuple[bytes, ...]) -> None:
    async with open_demo_receiver("crm") as receiver:
        receiver.keys = keys
        assert await post(receiver) == 401
        assert (receiver.ledger.arrived, receiver.ledger.unverified) == (0, 1)


async def test_while_it_fails_it_accepts_nothing() -> None:
    async with open_demo_receiver("bot") as receiver:
        receiver.keys = (KEY,)
        await receiver.begin(Trouble.FAILS)
        assert await post(receiver) == 500
        assert (receiver.trouble, receiver.ledger.arrived) == (Trouble.FAILS, 0)
        await receiver.recover()
        assert await post(receiver) == 200
        assert receiver.trouble is Trouble.NONE


async def test_while_it_is_down_connections_fail_and_its_url_stays_the_same() -> None:
    async with open_demo_receiver("n8n") as receiver:
        receiver.keys = (KEY,)
        url = receiver.url
        await receiver.begin(Trouble.REFUSES)
        with pytest.raises(httpx.ConnectError):
            await post(receiver)
        await receiver.recover()
        assert receiver.url == url
        assert await post(receiver) == 200


async def test_outages_run_in_turn(mock_clock: MockClock) -> None:
    messages: list[str] = []
    outages = (Outage(4, "n8n", Trouble.REFUSES, 2), Outage(1, "bot", Trouble.FAILS, 3))
    async with (
        open_demo_receiver("n8n") as n8n,
        open_demo_receiver("bot") as bot,
        trio.open_nursery() as nursery,
    ):
        receivers = {"n8n": n8n, "bot": bot}
        nursery.start_soon(run_outages, outages, receivers, lambda message, _: messages.append(message))
        await trio.testing.wait_all_tasks_blocked()
        assert messages == []
        for wait, receiver, troubles, message in (
            (4, n8n, Trouble.REFUSES, "n8n is down"),
            (2, n8n, Trouble.NONE, "n8n is up again"),
            (1, bot, Trouble.FAILS, "bot answers 500"),
            (3, bot, Trouble.NONE, "bot is up again"),
        ):
            mock_clock.jump(wait)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert receiver.trouble is troubles
            assert messages[-1] == message
    assert len(messages) == 4
