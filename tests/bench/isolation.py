"""What receivers that hang cost the others."""

from statistics import median

import trio

from tests.bench.engine import offer
from tests.bench.parts import FastReceiver, gateway, receiving, register, scratch, silent_port
from tests.bench.results import Result, percentile

URLS = 50
OFFERED = 250
"""Events a second over the URLs that work; as many over those that hang."""


async def isolation(full: bool) -> list[Result]:
    """The p99 of 50 URLs beside 50 others that hang for the whole timeout, against being alone.

    Both are measured in turns, and the median of the seconds' p99 is taken, so that what else the machine
    does in some of them is not taken for hookgw's.
    """
    rounds, seconds = (3, 20) if full else (2, 5)
    alone: list[float] = []
    beside: list[float] = []
    with receiving("record") as receiver, silent_port() as port:
        hanging = [f"http://127.0.0.1:{port}/{number}" for number in range(URLS)]
        for _ in range(rounds):
            alone += await _p99_of_seconds(receiver, [], seconds)
            beside += await _p99_of_seconds(receiver, hanging, seconds)
    return [
        Result(
            name="50 URLs beside 50 that hang, p99",
            value=median(beside),
            unit="ms",
            reference="the 50 alone",
            reference_value=median(alone),
            better="less",
            details={"worst_second": max(beside), "worst_second_alone": max(alone)},
        )
    ]


async def _p99_of_seconds(receiver: FastReceiver, hanging: list[str], seconds: int) -> list[float]:
    """From accept to arrival at the URLs that work, in milliseconds, for each second."""
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
                while not called.keys() <= arrivals.keys():
                    await trio.sleep(0.05)
                    arrivals |= receiver.take()[1]
    took = [(arrivals[event_id] - at) / 1e6 for event_id, at in called.items()]
    return [percentile(took[start : start + OFFERED], 0.99) for start in range(0, len(took), OFFERED)]
