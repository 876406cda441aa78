from types import SimpleNamespace
from typing import Any

import trio

from hookgw.records import Sparkline
from hookgw.site import SPARK_SECONDS, Sparks


async def test_a_small_chart_outlasts_a_call_that_puts_old_ones_away() -> None:
    """It grows old while its page waits for another one, and a second page comes."""
    now, asked, goes_on = [0.0], trio.Event(), trio.Event()

    async def sparklines(names: list[str]) -> dict[str, Sparkline]:
        if "slow" in names:
            asked.set()
            await goes_on.wait()
        return {name: Sparkline((1,), (0,)) for name in names}

    gateway: Any = SimpleNamespace(
        clock=SimpleNamespace(steady=lambda: now[0]), figures=SimpleNamespace(sparklines=sparklines)
    )
    sparks, found = Sparks(gateway), dict[str, object]()

    async def read() -> None:
        found.update(await sparks.of(["old", "slow"]))

    await sparks.of(["old"])
    now[0] = SPARK_SECONDS - 1
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await asked.wait()
            now[0] += 2
            await sparks.of(["other"])
            goes_on.set()
    assert sorted(found) == ["old", "slow"]
    assert None not in found.values()
