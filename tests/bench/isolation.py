"""What receivers that hang cost the others."""

from __future__ import annotations

import trio

from tests.bench.engine import offer
from tests.bench.parts import FastReceiver, gateway, receiving, register, scratch, silent_port
from tests.bench.results import Result, percentile

URLS = 50
OFFERED = 250
"""Events a second over the URLs that work; as many over those that hang."""


async def isolation(full: bool) -> list[Result]:
    """The p99 of 50 URLs beside 50 others that hang for the whole timeout, against being alone."""
    seconds = 40 if full else 8
    with receiving("record") as receiver, silent_port() as port:
        alone = await _p99(receiver, [], seconds)
        hanging = [f"http://127.0.0.1:{port}/{number}" for number in range(URLS)]
        beside = await _p99(receiver, hanging, seconds)
    return [
        Result(
            name="50 URLs beside 50 that hang, p99",
            value=beside,
            unit="ms",
            reference="the 50 alone",
            reference_value=alone,
            better="less",
        )
    ]


async def _p99(receiver: FastReceiver, hanging: list[str], seconds: int) -> float:
    """From accept to arrival at the URLs that work, in milliseconds."""
    with scratch() as folder:
        async with gateway(folder) as opened:
            names = await register(opened, [receiver.url(number) for number in range(URLS)])
            others = await register(opened, hanging, prefix="hangs")
            await offer(opened, names, OFFERED, 1, "warm")
            receiver.take()
            async with trio.open_nursery() as nursery:
                if others:
                    nursery.start_soon(offer, opened, others, OFFERED, seconds, "hangs")
                called = await offer(opened, names, OFFERED, seconds, "timed")
            arrivals: dict[str, int] = {}
            with trio.fail_after(30):
                while len(arrivals) < len(called):
                    await trio.sleep(0.05)
                    arrivals |= receiver.take()[1]
    return percentile([(arrivals[event_id] - at) / 1e6 for event_id, at in called.items()], 0.99)
