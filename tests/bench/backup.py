"""What a backup costs those who emit: single events at a steady rate, with and without a backup."""

import time

import trio

from hookgw import Gateway
from tests.bench.parts import closed_port, gateway, make_events, register, scratch
from tests.bench.results import Result, percentile

RATE = 500
"""Events a second."""
MOST_MS = 100.0
"""What the longest emit may take."""


async def backup(full: bool) -> list[Result]:
    """The longest accept during backups of some 100 MiB (1 GiB with --full), against the same without one."""
    size = 2**30 if full else 100 * 2**20
    seconds = 20.0 if full else 5.0
    with scratch() as folder, closed_port() as port:
        async with gateway(folder) as opened:
            [instance] = await register(opened, [f"http://127.0.0.1:{port}/"])
            data = folder / "hookgw.db"
            batch = 0
            while data.stat().st_size < size:
                await opened.events.accept(make_events(instance, 2_000, f"p{batch}"))
                batch += 1
            await _emit_for(opened, instance, seconds, "before")
            alone = await _emit_for(opened, instance, seconds, "alone")
            beside: list[float] = []
            backups = 0
            took = 0.0
            log = data.with_name("hookgw.db-wal")
            while took < seconds:
                began = time.perf_counter()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_emit, opened, instance, f"beside{backups}", beside)
                    await opened.store.back_up(folder / f"copy{backups}.db", lambda done, total: None)
                    took += time.perf_counter() - began
                    nursery.cancel_scope.cancel()
                (folder / f"copy{backups}.db").unlink()
                backups += 1
            details = {
                "p50": percentile(beside, 0.5),
                "p99": percentile(beside, 0.99),
                "p99_without": percentile(alone, 0.99),
                "p50_without": percentile(alone, 0.5),
                "may_take": MOST_MS,
                "emits": len(beside),
                "file_mib": data.stat().st_size / 2**20,
                "seconds_each": took / backups,
                "wal_mib": log.stat().st_size / 2**20,
            }
    return [
        Result(
            name="accept during backups, longest",
            value=max(beside),
            unit="ms",
            reference="the longest without a backup",
            reference_value=max(alone),
            better="less",
            details=details,
        )
    ]


async def _emit_for(opened: Gateway, instance: str, seconds: float, tag: str) -> list[float]:
    took: list[float] = []
    with trio.move_on_after(seconds):
        await _emit(opened, instance, tag, took)
    return took


async def _emit(opened: Gateway, instance: str, tag: str, took: list[float]) -> None:
    """Accept single events at a steady rate until cancelled; add the milliseconds that each took."""

    async def accept(number: int, due: float) -> None:
        event = make_events(instance, 1, f"{tag}-{number}")
        await opened.events.accept(event)
        # From when it was due: a stall of the loop counts, too.
        took.append((trio.current_time() - due) * 1e3)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        number = 0
        while True:
            due = began + number / RATE
            await trio.sleep_until(due)
            nursery.start_soon(accept, number, due)
            number += 1
