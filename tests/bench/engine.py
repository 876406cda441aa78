"""Measures of the engine, in one process with their source: many lanes, one lane, and the latency."""

import time
from collections.abc import Iterator, Sequence

import trio

from hookgw import Event, Gateway
from tests.bench.parts import drained, gateway, make_events, receiving, register, scratch
from tests.bench.references import fsync_p50, httpx_loop, socket_loop
from tests.bench.results import Result, percentile
from tests.public.delivery import Envelope

BATCH = 8
"""Events that a source hands over at a time."""
SOURCES = 64
AHEAD = 8192
"""Sources wait while more deliveries than this are pending."""


async def many_lanes(full: bool) -> list[Result]:
    """Durable end to end over 64 lanes, against posting the same bodies with httpx."""
    with scratch() as folder, receiving() as receiver:
        urls = [receiver.url(number) for number in range(64)]
        async with gateway(folder) as opened:
            rate, details = await end_to_end(opened, urls, 100_000 if full else 20_000)
        arrived, _ = receiver.take()
        details["arrived_per_accepted"] = arrived / details.pop("events")
        reference = await httpx_loop(urls, _body(urls[0]), 5.0 if full else 2.0)
    return [
        Result(
            name="durable end to end, 64 lanes",
            value=rate,
            unit="events/s",
            reference="httpx.AsyncClient posting the same bodies",
            reference_value=reference,
            details=details,
        )
    ]


async def one_lane(full: bool) -> list[Result]:
    """Durable end to end over one lane, against a bare socket that sends prepared bytes."""
    with scratch() as folder, receiving() as receiver:
        url = receiver.url(0)
        async with gateway(folder) as opened:
            rate, details = await end_to_end(opened, [url], 50_000 if full else 10_000)
        arrived, _ = receiver.take()
        details["arrived_per_accepted"] = arrived / details.pop("events")
        exchanges = socket_loop(receiver.port, _body(url), 3.0 if full else 1.0)
    return [
        Result(
            name="durable end to end, one lane",
            value=rate,
            unit="events/s",
            reference="bare socket loop, prepared bytes",
            reference_value=len(exchanges) / sum(exchanges),
            details=details,
        )
    ]


async def flaky_receiver(full: bool) -> list[Result]:
    """Durable end to end over one lane whose receiver answers 503 to one request in four, at random."""
    with scratch() as folder, receiving("flaky") as receiver:
        async with gateway(folder) as opened:
            rate, details = await end_to_end(opened, [receiver.url(0)], 2_000 if full else 300)
        arrived, _ = receiver.take()
        details["arrived_per_accepted"] = arrived / details.pop("events")
    return [
        Result(
            name="one lane, 503 to one request in four",
            value=rate,
            unit="events/s",
            reference="the least that is acceptable",
            reference_value=20.0,
            details=details,
        )
    ]


async def latency(full: bool) -> list[Result]:
    """From the call of accept to the arrival, at 1,000 events/s offered over 64 lanes."""
    offered, seconds = 1000, 20 if full else 5
    with scratch() as folder, receiving("record") as receiver:
        async with gateway(folder) as opened:
            names = await register(opened, [receiver.url(number) for number in range(64)])
            warm = [event for name in names for event in make_events(name, 1, "warm")]
            await opened.events.accept(warm)
            await drained(opened)
            receiver.take()
            called = await offer(opened, names, offered, seconds, "l")
            await drained(opened)
        _, arrivals = receiver.take()
        took = [(arrivals[event_id] - at) / 1e6 for event_id, at in called.items()]
        exchanges = socket_loop(receiver.port, _body(receiver.url(0)), 1.0)
        fsync = fsync_p50(folder)
    return [
        Result(
            name="accept to arrival at 1,000 events/s, p99",
            value=percentile(took, 0.99),
            unit="ms",
            reference="one fsync and one bare exchange, p50",
            reference_value=(fsync + percentile(exchanges, 0.5)) * 1e3,
            better="less",
            details={"p50": percentile(took, 0.5), "max": max(took), "fsync": fsync * 1e3},
        )
    ]


async def end_to_end(opened: Gateway, urls: Sequence[str], count: int) -> tuple[float, dict[str, float]]:
    """Events a second from the first accept to the last one settled on disk."""
    names = await register(opened, urls)
    await opened.events.accept([event for name in names for event in make_events(name, 1, "warm")])
    await drained(opened)
    return await deliver(opened, [make_events(name, count // len(names), "e") for name in names])


async def deliver(
    opened: Gateway, rows: Sequence[Sequence[Event]], *, batch: int = BATCH, ahead: int = AHEAD
) -> tuple[float, dict[str, float]]:
    """The same for events of instances that are registered.

    Args:
        rows: the events of each instance, all of them with as many. They come from 64 sources.
        batch: how many events of one instance a source hands over at a time.
        ahead: sources wait while more deliveries than this are pending.
    """
    began, cpu = time.perf_counter(), time.process_time()
    gate = _Gate(ahead)
    async with trio.open_nursery() as pacing:
        pacing.start_soon(gate.run, opened)
        async with trio.open_nursery() as nursery:
            # Up to 64 instances have sources of their own; more are served in turn.
            shared = [rows] if len(rows) > SOURCES else [[row] for row in rows]
            for some in shared:
                batches = iter(
                    [row[start : start + batch] for start in range(0, len(some[0]), batch) for row in some]
                )
                for _ in range(max(1, SOURCES // len(shared))):
                    nursery.start_soon(_source, opened, batches, gate)
        await drained(opened)
        pacing.cancel_scope.cancel()
    elapsed, spent = time.perf_counter() - began, time.process_time() - cpu
    total = sum(map(len, rows))
    details = {"events": total + len(rows), "seconds": elapsed, "cpu_us_per_event": spent / total * 1e6}
    return total / elapsed, details


class _Gate:
    """Holds the sources back while too much is pending, as a real source's backlog limit would."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._open = trio.Event()
        self._open.set()

    async def wait(self) -> None:
        await self._open.wait()

    async def run(self, opened: Gateway) -> None:
        while True:
            await trio.sleep(0.01)
            if opened.backlog.count <= self._ahead:
                self._open.set()
            elif self._open.is_set():
                self._open = trio.Event()


async def _source(opened: Gateway, batches: Iterator[Sequence[Event]], gate: _Gate) -> None:
    for batch in batches:
        await gate.wait()
        await opened.events.accept(batch)


async def offer(opened: Gateway, names: Sequence[str], rate: int, seconds: int, tag: str) -> dict[str, int]:
    """Accept single events at a steady rate, whether or not earlier ones are done; when each was called."""
    events = [event for row in zip(*_rows(names, rate * seconds, tag), strict=True) for event in row]
    called: dict[str, int] = {}

    async def accept(event: Event) -> None:
        called[event.id] = time.monotonic_ns()
        await opened.events.accept([event])

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number, event in enumerate(events):
            await trio.sleep_until(began + number / rate)
            nursery.start_soon(accept, event)
    return called


def _rows(names: Sequence[str], total: int, tag: str) -> list[list[Event]]:
    return [make_events(name, total // len(names), tag) for name in names]


def _body(url: str) -> bytes:
    return Envelope(url, None).encode(make_events("bench0", 1, "b")[0])
